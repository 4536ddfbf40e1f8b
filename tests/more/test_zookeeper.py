"""ZooKeeper's nodes and watches, the members that decide alone, and what one change costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.more.zookeeper import OldConsumer, ZooKeeper, share_by_threads


def test_watch_fires_once_for_the_next_change() -> None:
    """Who wants to hear of the one after must look again."""
    zookeeper = ZooKeeper()
    assert zookeeper.children("/ids", watcher="A") == []
    assert zookeeper.create("/ids/x", "", "s") == (True, ["A"])
    assert zookeeper.create("/ids/y", "", "s") == (True, [])
    assert zookeeper.children("/ids", watcher="A") == ["x", "y"]
    assert zookeeper.delete("/ids/x") == ["A"] and zookeeper.delete("/ids/y") == []
    assert zookeeper.traffic == {"reads": 2, "writes": 4, "notifications": 2}


def test_node_of_a_session_goes_with_it() -> None:
    """The watchers of its folder hear of it; nodes that were put stay."""
    zookeeper = ZooKeeper()
    zookeeper.put("/offsets/0", "7")
    zookeeper.create("/ids/A", "", "a")
    zookeeper.create("/ids/B", "", "b")
    zookeeper.children("/ids", watcher="B")
    assert zookeeper.expire("a") == ["B"] and zookeeper.children("/ids") == ["B"] and zookeeper.get("/offsets/0") == "7"
    assert zookeeper.get("/ids/A") is None


def members(zookeeper: ZooKeeper, count: int, partitions: int, claims: bool = True) -> list[OldConsumer]:
    """A group that has registered."""
    group = [OldConsumer(f"m{number}", "g", "t", partitions, claims=claims) for number in range(count)]
    for each in group:
        each.register(zookeeper, each.name)
    return group


def rebalance(zookeeper: ZooKeeper, group: list[OldConsumer]) -> None:
    """The luckiest case: everybody decides before anyone takes."""
    for each in group:
        each.decide(zookeeper)
    for each in group:
        assert each.take(zookeeper)


@given(st.integers(1, 8), st.integers(1, 12))
def test_members_with_the_same_view_share_without_a_word(count: int, partitions: int) -> None:
    """Every partition has one owner, and its node says so."""
    zookeeper = ZooKeeper()
    group = members(zookeeper, count, partitions)
    rebalance(zookeeper, group)
    assert sorted(partition for each in group for partition in each.holds) == list(range(partitions))
    for each in group:
        assert all(zookeeper.get(each.owner_path(partition)) == each.name for partition in each.holds)


@pytest.mark.parametrize("claims", [True, False])
def test_member_with_an_old_view_keeps_what_another_takes_only_without_owner_nodes(claims: bool) -> None:
    """With them the newcomer is refused, and has nothing left that it had claimed."""
    zookeeper = ZooKeeper()
    [old] = members(zookeeper, 1, 4, claims)
    rebalance(zookeeper, [old])
    newcomer = OldConsumer("m1", "g", "t", 4, claims=claims)
    assert newcomer.register(zookeeper, "m1") == ["m0"]  # who has not heard of it yet
    assert newcomer.decide(zookeeper) == [2, 3]
    assert newcomer.take(zookeeper) is not claims
    assert (old.holds, newcomer.holds) == ([0, 1, 2, 3], [] if claims else [2, 3])


def test_refused_member_deletes_the_nodes_that_it_had_made() -> None:
    """Else two members could wait for each other for ever."""
    zookeeper = ZooKeeper()
    zookeeper.create("/consumers/g/owners/t/1", "other", "other")
    [alone] = members(zookeeper, 1, 3)
    alone.decide(zookeeper)
    assert not alone.take(zookeeper)
    assert zookeeper.children("/consumers/g/owners/t") == ["1"] and alone.holds == []


def test_threads_of_two_members_share_the_partitions_and_more_threads_than_partitions_idle() -> None:
    """One partition is read by one thread of one member; the first threads by their names get the extra ones."""
    assert share_by_threads({"A": 2, "B": 2}, 6) == {"A-0": [0, 1], "A-1": [2, 3], "B-0": [4], "B-1": [5]}
    dealt = share_by_threads({"A": 4, "B": 4}, 6)
    assert [each for share in dealt.values() for each in share] == list(range(6)) and dealt["B-2"] == dealt["B-3"] == []
