"""A group that is given another assignor while it runs: on the model, and the same on the real broker."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace

NAME = "mixed_assignors"
RANGE, COOPERATIVE = "range", "cooperative-sticky"
# After each restart: by what the group reads, and how many of six partitions stood still.
TWO_ROUNDS = [(RANGE, 6), (RANGE, 6), (COOPERATIVE, 6), (COOPERATIVE, 6), (COOPERATIVE, 5), (COOPERATIVE, 2)]
FROM_BOTH, ALL = TWO_ROUNDS[3:], {"A", "B", "C"}


def restarts(trace: Trace) -> list[tuple[str, int]]:
    """What the story tells after each restart."""
    return [(step.data["protocol"], step.data["paused"]) for step in trace if step.what == "restarted"]


def errors(trace: Trace) -> list[str]:
    """Why consumers could not join."""
    return [step.data["error"] for step in trace if step.what == "refused"]


def check_all_once(trace: Trace) -> None:
    """No restart lost a record or made one twice: every wave was committed before it."""
    verdict = judge(trace)
    assert all(lane.processed == lane.appended for lane in verdict.lanes) and not any(verdict.counts.values())


REFUSED_BY_LIST = {"library": "librdkafka"}
# knobs -> what the story tells after each restart, why consumers could not join, and who has partitions at the end
DEPLOYS: dict[str, tuple[dict[str, str], list[tuple[str, int]], list[str], set[str]]] = {
    "nothing in common with the group: the newcomer is refused, and the others read on": (
        {"deploy": "one round"}, [(RANGE, 6)], ["INCONSISTENT_GROUP_PROTOCOL"], {"B", "C"}),
    "a list with both reads by range until the last has it; then range goes out, and not everything stands still any more": (
        {"deploy": "two rounds"}, TWO_ROUNDS, [], ALL),
    "a group that began with both, as Java's consumers do by themselves, needs one round": (
        {"deploy": "one round from both"}, FROM_BOTH, [], ALL),
    "librdkafka refuses a list with both, so its group cannot be changed over while it runs": (
        {"deploy": "two rounds"} | REFUSED_BY_LIST, [(RANGE, 6)], ["MIXED_LIST"], {"B", "C"}),
}  # fmt: skip


@pytest.mark.parametrize("case", DEPLOYS)
def test_group_is_changed_over_by_the_lists_that_its_members_bring(case: str) -> None:
    """By what the group reads after each restart, who is refused, and who has the partitions at the end; nothing is lost or repeated."""
    knobs, told, refusals, owners = DEPLOYS[case]
    trace = run(NAME, **knobs)
    assert (restarts(trace), errors(trace)) == (told, refusals)
    assert set(trace.steps[-1].state["group"]["owners"].values()) == owners
    check_all_once(trace)


@pytest.mark.kafka
@pytest.mark.parametrize(
    "knobs",
    [
        {"deploy": "two rounds", "library": "librdkafka"},
        {"deploy": "one round from both", "library": "java"},
    ],
    ids=str,
)
def test_real_group_is_changed_over_as_the_models_is(broker: Any, knobs: dict[str, str]) -> None:
    """The same refusals, the same assignor after each restart, as many partitions that stood still, the same verdict."""
    real, model = run(NAME, backend="kafka", **knobs), run(NAME, **knobs)
    # A client that is refused tries again until it is ended, and may be told twice.
    assert list(dict.fromkeys(errors(real))) == errors(model) and restarts(real) == restarts(model)
    assert judge(real).counts == judge(model).counts
    assert [lane.processed for lane in judge(real).lanes] == [lane.processed for lane in judge(model).lanes]
