"""The experiments on a partition with copies, on the model: what is lost, what comes twice, and what passes unseen."""

from __future__ import annotations

import pytest

from kitlib import experiments
from kitlib.errors import LabError
from kitlib.experiments import get, run
from kitlib.experiments.replication.replication_run import ReplicaRun
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster
from kitlib.monitor.delivery import Verdict, judge
from kitlib.trace import Trace, from_ranges
from tests.experiments.knob_values import with_any_knobs

REPLICATED = [name for name in experiments.names() if get(name).kind is ReplicaRun]


def test_rewound_offsets_are_named() -> None:
    """The trace says from where to where the log was cut, who leads since, and that it was unclean."""
    trace = run("unclean_election")
    cut = next(step for step in trace if step.what == "cut")
    assert (cut.data["from"], cut.data["to"], cut.data["why"]) == (60, 40, "an unclean election")
    elected = [step.data for step in trace if step.what == "elect"]
    assert elected == [{"leader": 3, "epoch": 2, "unclean": True, "why": "unclean"}]
    lost = next(found for found in judge(trace).lanes[0].anomalies.values() if found.kind == "lost")
    assert (lost.offset, lost.count, lost.witness) == (50, 10, cut.number)


def test_unavailable_is_told_where_the_election_is_not_allowed() -> None:
    """Between the deaths and the return nobody leads, the producer is refused, and no log is cut."""
    trace = run("unclean_election", unclean_leader_election=False)
    told = [(step.actor, step.what) for step in trace if step.what in ("none", "elect", "refused", "cut")]
    assert told == [("controller", "none"), ("producer", "refused"), ("controller", "elect")]


def test_reader_that_has_committed_nothing_begins_where_its_policy_says() -> None:
    """No offset was outside the log: there was none."""
    skipped = judge(run("unclean_election", read=0, auto_offset_reset="latest")).first("skipped")
    assert (skipped.offset, skipped.reason) == (0, "auto.offset.reset=latest: nothing is committed")


@pytest.mark.kafka
def test_one_broker_is_not_enough(broker: Cluster) -> None:
    """On the broker that all notebooks share it says what to do, and kills nobody."""
    with pytest.raises(LabError, match=r"needs three brokers of the kit's own, .* has 1\. Run `kit down`, then `kit up --brokers 3`"):
        run("unclean_election", backend="kafka")
    assert kafka_server.status().is_running


@pytest.mark.parametrize("name", REPLICATED)
def test_any_knobs_give_a_trace_that_holds_together(name: str) -> None:
    """Whatever the knobs, offsets are inside the log, ledgers agree with the steps, and nothing is unexplained."""

    def check(trace: Trace, verdict: Verdict) -> None:
        assert verdict.violations == () or len(trace) == trace.settings.max_steps
        processed: set[int] = set()
        for step in trace:
            if step.what == "cut":
                processed = {offset for offset in processed if offset < step.data["to"]}
            elif step.what == "process":
                processed.add(step.data["offset"])
            elif step.what in ("emit", "commit"):
                assert step.data["offset"] <= step.state["log_end"]
            assert from_ranges(step.state["processed"]) == sorted(processed)
            assert step.what != "differs"

    with_any_knobs(name, 15, check)
