"""A group that is given another assignor while it runs: on the model, and the same on the real broker."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.experiments.groups.group import LIBRARIES
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace

NAME = "mixed_assignors"
RANGE, COOPERATIVE = "range", "cooperative-sticky"
# After each restart: by what the group reads, and how many of six partitions stood still.
TWO_ROUNDS = [(RANGE, 6), (RANGE, 6), (COOPERATIVE, 6), (COOPERATIVE, 6), (COOPERATIVE, 5), (COOPERATIVE, 2)]
FROM_BOTH = [(COOPERATIVE, 6), (COOPERATIVE, 5), (COOPERATIVE, 2)]


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


def test_new_assignor_at_once_is_refused_and_the_others_read_on() -> None:
    """The list of the newcomer and that of the group have nothing in common."""
    trace = run(NAME, deploy="one round")
    assert errors(trace) == ["INCONSISTENT_GROUP_PROTOCOL"] and restarts(trace) == [(RANGE, 6)]
    check_all_once(trace)
    assert set(trace.steps[-1].state["group"]["owners"].values()) == {"B", "C"}


def test_list_with_both_reads_by_range_until_the_last_member_has_it() -> None:
    """Then the second round takes range out; from its second restart on not everything stands still any more."""
    trace = run(NAME, deploy="two rounds")
    assert restarts(trace) == TWO_ROUNDS and errors(trace) == []
    check_all_once(trace)


def test_group_that_began_with_both_needs_one_round() -> None:
    """So does one that began with the list that Java's consumer has when it is given none."""
    trace = run(NAME, deploy="one round from both")
    assert restarts(trace) == FROM_BOTH
    check_all_once(trace)


@pytest.mark.parametrize("library", [each for each in LIBRARIES if each != "java"])
def test_other_libraries_refuse_a_list_with_both(library: str) -> None:
    """So a group of theirs cannot be changed over while it runs."""
    trace = run(NAME, deploy="two rounds", library=library)
    assert errors(trace) == ["MIXED_LIST"] and restarts(trace) == [(RANGE, 6)]
    check_all_once(trace)
    assert errors(run(NAME, deploy="one round from both", library=library)) == ["MIXED_LIST"]


@pytest.mark.kafka
@pytest.mark.parametrize(
    "knobs",
    [
        {"deploy": "one round", "library": "librdkafka"},
        {"deploy": "two rounds", "library": "librdkafka"},
        {"deploy": "one round from both", "library": "librdkafka"},
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
