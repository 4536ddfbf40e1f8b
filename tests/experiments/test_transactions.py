"""The transactions' experiments on the model, beyond what `test_claims` counts: lag, a timeline; and any knobs."""

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
