"""The group without a coordinator: who reads what, when two do, and what is done twice by that."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from tests.experiments.knob_values import counted

NAME = "zookeeper_group"


def double_readers(trace: Trace) -> set[str]:
    """The partitions that two members read at once."""
    return {lane for step in trace for lane, who in step.state["group"]["holders"].items() if len(who) > 1}


@pytest.mark.parametrize(
    "knobs",
    [
        {"happens": "a member joins"},
        {"happens": "a member joins", "members": 6, "partitions": 9},
        {"happens": "a member joins", "members": 4, "partitions": 2},
        {"away_ms": 5_000},
        {"away_ms": 6_000, "zookeeper_session_timeout_ms": 20_000},
    ],
    ids=str,
)
def test_group_whose_members_all_hear_reads_everything_once(knobs: dict[str, Any]) -> None:
    """Also when one comes back in time."""
    trace = run(NAME, **knobs)
    assert not double_readers(trace) and counted(trace) == {}
    assert sum(lane.processed for lane in judge(trace).lanes) == sum(lane.appended for lane in judge(trace).lanes)


def test_member_that_stalls_comes_back_to_partitions_that_have_another_owner() -> None:
    """It reads on, writes its old offsets over the new owner's, and what is read from there is done again."""
    trace = run(NAME)
    assert double_readers(trace) == {"orders-0", "orders-1"}
    found = counted(trace)
    assert found["duplicated"] > 0 and found["rewound"] > 0 and "lost" not in found
    thaw = next(step.number for step in trace if step.what == "thaw")
    evict = next(step for step in trace if step.what == "evict")
    assert evict.data == {"member": "A", "why": "session"} and evict.number < thaw
    owners = trace.at(thaw).state["group"]["owners"]
    assert set(owners.values()) == {"B"}  # the nodes tell the truth; nobody asks them before reading
    expired = next(step.number for step in trace if step.what == "expired")
    assert any(step.actor == "A" and step.what == "process" for step in trace.steps[thaw:expired])


def test_traffic_of_a_join_grows_faster_than_a_coordinators() -> None:
    """One step tells both."""
    told = [
        next(
            step.data
            for step in run(NAME, happens="a member joins", members=members, partitions=12)
            if step.what == "traffic"
        )
        for members in (2, 4, 8)
    ]
    assert [each["notifications"] for each in told] == [2, 4, 8]
    assert [each["coordinator_messages"] for each in told] == [20, 32, 56]
    assert told[2]["reads"] > 1.9 * told[1]["reads"] > 2.7 * told[0]["reads"]
