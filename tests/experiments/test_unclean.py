"""The experiments on a partition with copies, on the model: what is lost, what comes twice, and what passes unseen."""

from __future__ import annotations

from typing import Any

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
OFF: dict[str, Any] = {"unclean_leader_election": False}
EPOCH: dict[str, Any] = {"leader_epoch": True}
LIBRDKAFKA: dict[str, Any] = {"library": "librdkafka"}
SCALED = {"copied": 480, "alone": 20, "read": 500}  # the numbers of the question

# (experiment, knobs) -> processed and appended records, the counts that are not 0.
CLAIMS: dict[str, tuple[str, dict[str, Any], tuple[int, int], dict[str, int]]] = {
    "unclean: acknowledged records vanish, the offset is out of range, all is read again": (
        "unclean_election", {}, (55, 65), {"lost": 10, "duplicated": 40, "rewound": 1}),
    "unclean, latest: what came before the consumer was back is skipped as well": (
        "unclean_election", {"auto_offset_reset": "latest"}, (50, 65), {"lost": 15, "skipped": 5}),
    "unclean, none: the consumer stops, and only what vanished is lost": (
        "unclean_election", {"auto_offset_reset": "none"}, (50, 65), {"lost": 10}),
    "clean: unavailable, and then all is there": ("unclean_election", OFF, (65, 65), {}),
    "two must have it: refused, and nothing to lose": ("unclean_election", {"min_insync_replicas": 2}, (45, 45), {}),
    "two must have it, clean": ("unclean_election", {"min_insync_replicas": 2} | OFF, (45, 45), {}),
    "no epoch, grown past it: new records are skipped in silence": (
        "truncated_commit", {}, (55, 65), {"lost": 10, "skipped": 10}),
    "no epoch, at once: all is read again": (
        "truncated_commit", {"new_records": 0}, (50, 50), {"duplicated": 40, "rewound": 1}),
    "no epoch, none: silence all the same": (
        "truncated_commit", {"auto_offset_reset": "none"}, (55, 65), {"lost": 10, "skipped": 10}),
    "epoch: on it goes where the histories part": ("truncated_commit", EPOCH, (65, 65), {}),
    "epoch, at once": ("truncated_commit", EPOCH | {"new_records": 0}, (50, 50), {}),
    "epoch, latest: the policy is not asked": ("truncated_commit", EPOCH | {"auto_offset_reset": "latest"}, (65, 65), {}),
    "epoch, none: the application is told": ("truncated_commit", EPOCH | {"auto_offset_reset": "none"}, (50, 65), {}),
    "an epoch that librdkafka does not ask for": ("truncated_commit", EPOCH | LIBRDKAFKA, (55, 65), {"lost": 10, "skipped": 10}),
    "480 are repeated when it resumes at once": (
        "truncated_commit", SCALED | {"new_records": 0}, (500, 500), {"duplicated": 480, "rewound": 1}),
    "20 new records are skipped when the log has grown to 550": (
        "truncated_commit", SCALED | {"new_records": 70}, (550, 570), {"lost": 20, "skipped": 20}),
    "a follower that stands still, two of three in sync: nothing is lost": ("follower_cut", {}, (20, 20), {}),
    "two copies, one of them enough: what the leader had alone is lost": (
        "follower_cut", {"replicas": 2, "min_insync_replicas": 1}, (10, 20), {"lost": 10}),
    "two copies, one enough, clean": ("follower_cut", {"replicas": 2, "min_insync_replicas": 1} | OFF, (20, 20), {}),
    "back before the leader dies": ("follower_cut", {"replicas": 2, "returns": True, "trouble": "killed"}, (20, 20), {}),
    "three must have it": ("follower_cut", {"min_insync_replicas": 3}, (10, 10), {}),
    "a bit flips, and the other copy mends it": ("flipped_bit", {}, (20, 20), {}),
    "a bit flips on the only copy": ("flipped_bit", {"replicas": 1}, (7, 20), {"lost": 13}),
    "the first one of the only copy": ("flipped_bit", {"replicas": 1, "at": 0}, (0, 20), {"lost": 20}),
}  # fmt: skip


@pytest.mark.parametrize("case", CLAIMS)
def test_experiment_shows_what_it_claims(case: str) -> None:
    """What is gone and what is repeated, each explained by a setting."""
    name, knobs, (processed, appended), counts = CLAIMS[case]
    verdict = judge(run(name, **knobs))
    assert (verdict.processed, verdict.appended) == (processed, appended)
    assert {kind: count for kind, count in verdict.counts.items() if count} == counts
    assert verdict.violations == ()


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
    trace = run("unclean_election", **OFF)
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
