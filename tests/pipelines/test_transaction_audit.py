"""The audit of transactions on Spark reaches the verdict that their traces give, whatever the steps are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kitlib import experiments
from kitlib.lab.clients import Cluster
from kitlib.monitor.delivery import judge
from kitlib.pipelines.audit import AuditResult, audit
from kitlib.trace import Step, Trace
from tests.experiments.test_claims import TRANSACTIONS
from tests.pipelines.conftest import as_lines

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(360)]

AuditLines = Callable[..., dict[str, AuditResult]]

FEW = st.integers(0, 5)  # so that steps meet
PAIRS = st.tuples(FEW, FEW).map(sorted)
PIDS = st.integers(-1, 1)


def ranged(what: str, *actors: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, str, dict[str, Any]]]:
    """A step about the records first..last."""
    data = st.fixed_dictionaries({"pair": PAIRS, **more})
    return st.tuples(st.sampled_from(actors), data).map(
        lambda made: (made[0], what, {"first": made[1]["pair"][0], "last": made[1]["pair"][1],
                                      **{name: value for name, value in made[1].items() if name != "pair"}})
    )  # fmt: skip


def plain(what: str, *actors: str, **data: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, str, dict[str, Any]]]:
    """A step with these data."""
    return st.tuples(st.sampled_from(actors), st.just(what), st.fixed_dictionaries(data))


READERS = ("read_committed", "read_uncommitted")
STEPS = st.one_of(
    ranged("send", "producer", "producer 2", tx=st.none() | FEW),
    ranged("write", "broker", tx=FEW, pid=PIDS, offset=FEW),
    plain("marker", "broker", pid=PIDS, offset=FEW, kind=st.sampled_from(["COMMIT", "ABORT"])),
    plain("commit_tx", "producer", tx=FEW),
    plain("abort_tx", "producer", tx=FEW),
    plain("read", *READERS, offset=FEW, record=FEW, tx=FEW),
    plain("waits", *READERS, at=FEW),
    plain("end", *READERS, position=FEW),
    plain("effect", "database", record=FEW, charged=st.booleans()),
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[tuple[str, str, dict[str, Any], int | None]], str, int]:
    """Steps with the group's committed offset beside some, the isolation, and how many inputs there are."""
    steps = draw(st.lists(st.tuples(STEPS, st.none() | FEW), max_size=16))
    return [(*step, at) for step, at in steps], draw(st.sampled_from(READERS)), draw(st.sampled_from([0, 0, 4]))


def as_trace(name: str, made: tuple[list[tuple[str, str, dict[str, Any], int | None]], str, int]) -> Trace:
    """The steps as a trace on the model, in one lane."""
    steps, isolation, inputs = made
    trace = Trace(name, "made_up", settings={"isolation": isolation}, domain="transactions")
    first: dict[str, Any] = {"inputs": inputs} if inputs else {}
    trace.record(0, "broker", "open", topic="t", partition=0, **first)
    for number, (actor, what, data, at) in enumerate(steps, start=1):
        state = {} if at is None else {"committed_input": at}
        trace.steps.append(Step(number, 3 * number, actor, what, {"topic": "t", "partition": 0, **data}, state))
    return trace


EFFECT_BEFORE_SEND: Any = (  # whose sender is known only later: record 0 of that producer comes behind its record 5
    [
        ("database", "effect", {"record": 5, "charged": False}, None),
        ("producer 2", "send", {"tx": 0, "first": 0, "last": 0}, None),
        ("read_committed", "read", {"record": 5, "offset": 1, "tx": 5}, None),
        ("read_committed", "read", {"record": 0, "offset": 2, "tx": 5}, None),
        ("producer 2", "send", {"tx": 1, "first": 4, "last": 5}, None),
    ],
    "read_committed",
    0,
)


def test_audit_of_the_stories_and_of_any_steps_equals_the_verdict(audit_lines: AuditLines) -> None:
    """Every claim's run, its reader in turn, and made-up steps that no run has: one Spark job, the verdict's counts and witnesses."""
    traces = [
        replace(experiments.run(name, **knobs | {"isolation": READERS[number % 2]}), run=f"story-{number}")
        for number, (name, knobs, *_) in enumerate(TRANSACTIONS.values())
    ]
    made: list[Any] = []

    @settings(max_examples=40, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(runs())
    def make(run: Any) -> None:
        made.append(run)

    make()
    made.append(EFFECT_BEFORE_SEND)
    traces += [as_trace(f"made-up-{number}", run) for number, run in enumerate(made)]
    for trace in traces[::2]:
        trace.steps = trace.steps[:60]
        trace.halt(61)
    found = audit_lines(as_lines(traces))
    wrong = {trace.run: found[trace.run].differences(judge(trace)) for trace in traces}
    assert {run: told for run, told in wrong.items() if told} == {}


@pytest.mark.kafka
def test_audit_of_a_real_run_reads_the_topic_as_the_reader_does(broker: Cluster, spark: Any) -> None:
    """What the topic holds for this isolation is what the trace's reader was given, no more and no less."""
    trace = experiments.run("commit_and_abort", backend="kafka")
    found = audit(trace.run)
    assert found.differences(judge(trace)) == ()
    (lane,) = found.lanes
    assert (lane.found, lane.unmentioned, lane.verb) == (12, 0, "read")
    assert "aborted_read" in repr(found) and found.topics_read == (lane.topic,)
