"""The group without a coordinator: who reads what, when two do, and what is done twice by that."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.more import zookeeper
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
        {"happens": "a member joins", "owner_nodes": False},
        {"happens": "a member hears late"},
        {"happens": "a member hears late", "away_ms": 1_000},
        {"away_ms": 5_000},
        {"away_ms": 6_000, "zookeeper_session_timeout_ms": 20_000},
    ],
    ids=str,
)
def test_group_whose_members_all_hear_reads_everything_once(knobs: dict[str, Any]) -> None:
    """Also when one hears late, as its owner nodes keep the others away; and when it comes back in time."""
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


def test_member_that_hears_late_shares_its_partitions_when_there_are_no_owner_nodes() -> None:
    """Two views, two owners: the split that the owner nodes are there for."""
    trace = run(NAME, happens="a member hears late", owner_nodes=False)
    assert double_readers(trace) and counted(trace)["duplicated"] > 0


def test_newcomer_gives_up_after_its_last_try() -> None:
    """Another member heard too late. Then nobody reads the newcomer's share until something else changes."""
    trace = run(NAME, happens="a member hears late", away_ms=20_000, records=200)
    failed = [step for step in trace if step.what == "failed"]
    assert [(step.actor, step.data["tries"]) for step in failed] == [("C", zookeeper.REBALANCE_MAX_RETRIES)]
    assert sum(step.what == "refused" for step in trace) == zookeeper.REBALANCE_MAX_RETRIES - 1
    assert trace.steps[-1].state["group"]["holders"] == {
        "orders-0": ["A"], "orders-1": ["A"], "orders-2": ["B"], "orders-3": [],
    }  # fmt: skip
    verdict = judge(trace)
    assert [lane.processed == lane.appended for lane in verdict.lanes] == [True, True, True, False]


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
