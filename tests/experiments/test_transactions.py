"""What each transaction's experiment claims, on the model: counts and marks by a table; any knobs; forks are of no use here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib import experiments
from kitlib.experiments.transactions.transaction_run import TransactionRun
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from tests.experiments.knob_values import settings_of

OUTSIDE = {"offsets": "outside"}
NEW = {"ids": "new per start"}
# (experiment, knobs) -> what was read of what was asked for, the counts that are not 0, the violations
Claim = tuple[str, dict[str, Any], tuple[int, int], dict[str, int]]
CLAIMS: dict[str, Claim] = {
    "a reader of committed records gets the committed ones": ("commit_and_abort", {}, (12, 12), {}),
    "the other one gets the aborted ones too": (
        "commit_and_abort", {"isolation": "read_uncommitted"}, (12, 12), {"aborted_read": 6}),
    "position and output in one transaction: exactly once": ("consume_transform_produce", {}, (9, 9), {"stalled": 1}),
    "and after a crash just before the commit": ("consume_transform_produce", {"crash": "after position"}, (9, 9), {"stalled": 1}),
    "and just after it": ("consume_transform_produce", {"crash": "after commit"}, (9, 9), {}),
    "a position outside comes too late: twice": (
        "consume_transform_produce", OUTSIDE | {"crash": "after commit"}, (9, 9), {"duplicated": 3}),
    "or too early: never": (
        "consume_transform_produce", OUTSIDE | {"order": "offsets first", "crash": "after position"}, (6, 9), {"lost": 3}),
    "without transactions too, wherever the position is": (
        "consume_transform_produce", {"transactional": False, "order": "offsets first", "crash": "after position"}, (6, 9), {"lost": 3}),
    "without transactions: twice": ("consume_transform_produce", {"transactional": False}, (9, 9), {"duplicated": 3}),
    "a reader on the default isolation sees the crash": (
        "consume_transform_produce", {"isolation": "read_uncommitted"}, (9, 9), {"duplicated": 3, "aborted_read": 3}),
    "the same id fences the zombie, whatever else": ("zombie", OUTSIDE | {"generation": False}, (6, 6), {"stalled": 1}),
    "ids of their own: the generation stops it": ("zombie", NEW, (6, 6), {}),
    "ids of their own, no generation: both commit": ("zombie", NEW | {"generation": False}, (6, 6), {"duplicated": 3}),
    "ids of their own, position outside: both commit": ("zombie", NEW | OUTSIDE, (6, 6), {"duplicated": 3}),
    "a pause beyond the timeout ends it too": (
        "zombie", NEW | OUTSIDE | {"pause": "beyond the timeout", "transaction_timeout_ms": 1_500}, (6, 6), {"stalled": 1}),
    "a killed worker's transaction is aborted by the timeout": ("transaction_timeout", {}, (9, 9), {"stalled": 1}),
    "log and continue loses the batch": (
        "transaction_timeout", {"cause": "slow", "on_fenced": "continue"}, (6, 9), {"lost": 3, "stalled": 1}),
    "with one more batch, version 2: the same producer aborts and goes on": (
        "transaction_timeout", {"cause": "slow", "next_call": "batch", "version": "2"}, (9, 9), {}),
    "go back loses nothing": ("transaction_timeout", {"cause": "slow"}, (9, 9), {"stalled": 1}),
    "version 1: a late marker tears a committed transaction": ("delayed_marker", {"version": "1"}, (3, 6), {"lost": 3}),
    "version 2: it is refused": ("delayed_marker", {"version": "2"}, (6, 6), {}),
    "a batch after the end opens what nobody ends": ("hanging_transaction", {}, (0, 6), {"lost": 3, "stalled": 1}),
    "an administrator ends it": ("hanging_transaction", {"rescue": True}, (3, 3), {"stalled": 1}),
    "verification refuses the batch": ("hanging_transaction", {"verification": True}, (3, 3), {}),
    "version 2 refuses it too": ("hanging_transaction", {"version": "2"}, (3, 3), {}),
    "a database is charged twice": ("outside_effect", {}, (18, 18), {"duplicated": 3, "stalled": 1}),
    "unless its key is unique": ("outside_effect", {"unique_key": True}, (18, 18), {"stalled": 1}),
}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_experiment_claims_what_its_verdict_counts(claim: Claim) -> None:
    """All that is not 0 is in the table, and a setting allows each of it."""
    name, knobs, (read, asked), counts = claim
    verdict = judge(experiments.run(name, **knobs))
    assert {kind: count for kind, count in verdict.counts.items() if count} == counts
    assert (verdict.processed, verdict.appended, verdict.violations) == (read, asked, ())


def test_lag_never_reaches_zero_behind_a_marker() -> None:
    """Ten transactions of one record: committed is the last record and one, and the marker lies behind that."""
    knobs: dict[str, Any] = {"transactions": 10, "tx_records": 1, "abort_every": 0, "overlap": False}
    last = [step for step in experiments.run("commit_and_abort", **knobs) if step.what == "commit"][-1]
    assert (last.data["end"], last.data["offset"], last.data["lag"]) == (20, 19, 1)
    behind = [
        step for step in experiments.run("commit_and_abort", commits="position", **knobs) if step.what == "commit"
    ][-1]
    assert behind.data["lag"] == 0


def test_killed_worker_on_a_timeline() -> None:
    """Row 38: readers wait from the first record on; the abort comes after the timeout and not before; then all is read."""
    trace = experiments.run("transaction_timeout", transaction_timeout_ms=1_500)
    at = {step.what: step.at_ms for step in reversed(trace.steps)}
    begun = next(step.at_ms for step in trace if step.data.get("to") == "Ongoing")
    aborted = next(step for step in trace if step.data.get("to") == "PrepareAbort")
    assert aborted.data["why"] == "transaction.timeout.ms"
    assert 1_490 <= aborted.at_ms - begun <= 2_000  # it begins one request before the step that tells so
    assert at["waits"] < at["kill"] < aborted.at_ms
    at_once = experiments.run("transaction_timeout", successor="at once")
    fenced = next(step for step in at_once if step.data.get("to") == "PrepareAbort")
    assert fenced.at_ms - begun < 200 and "same transactional id" in fenced.data["why"]


TRANSACTIONS = [each.name for each in experiments.every() if each.kind is TransactionRun]


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_experiment_any_knobs_breaks_no_promise(name: str) -> None:
    """Whatever the knobs, a run ends within its steps, its trace is JSON both ways, and no anomaly is without a reason."""

    @settings(deadline=None, max_examples=8)
    @given(settings_of(name), st.integers(0, 2**63 - 1))
    def any_knobs(knobs: dict[str, Any], seed: int) -> None:
        trace = experiments.run(name, seed=seed, **knobs | {"max_steps": 2_000})
        assert Trace.from_json_lines(trace.to_json_lines()) == trace
        verdict = judge(trace)
        json.dumps(verdict.to_json())
        assert len(trace) == 2_000 or verdict.violations == ()
        for step in trace:
            state = step.state
            assert (
                state["lso"] <= state["high_watermark"]
                and state["positions"]["read_committed"] <= state["high_watermark"]
            )
        assert len(experiments.run(name, seed=seed, **knobs)) <= knobs["max_steps"]

    any_knobs()
