"""ZooKeeper's nodes and watches, the members that decide alone, and what one change costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kitlib.more.zookeeper import OldConsumer, ZooKeeper, share_by_threads


def test_watch_fires_once_for_the_next_change() -> None:
    """Who wants to hear of the one after must look again."""
    zookeeper = ZooKeeper()
    assert zookeeper.children("/ids", watcher="A") == []
    assert zookeeper.create("/ids/x", "", "s") == ["A"]
    assert zookeeper.create("/ids/y", "", "s") == []
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


def members(zookeeper: ZooKeeper, count: int, partitions: int) -> list[OldConsumer]:
    """A group that has registered."""
    group = [OldConsumer(f"m{number}", "g", "t", partitions) for number in range(count)]
    for each in group:
        each.register(zookeeper, each.name)
    return group


def rebalance(zookeeper: ZooKeeper, group: list[OldConsumer]) -> None:
    """The luckiest case: everybody decides before anyone takes."""
    for each in group:
        each.decide(zookeeper)
    for each in group:
        each.take(zookeeper)


@given(st.integers(1, 8), st.integers(1, 12))
def test_members_with_the_same_view_share_without_a_word(count: int, partitions: int) -> None:
    """Every partition has one owner, and its node says so."""
    zookeeper = ZooKeeper()
    group = members(zookeeper, count, partitions)
    rebalance(zookeeper, group)
    assert sorted(partition for each in group for partition in each.holds) == list(range(partitions))
    for each in group:
        assert all(zookeeper.get(each.owner_path(partition)) == each.name for partition in each.holds)


def test_threads_of_two_members_share_the_partitions_and_more_threads_than_partitions_idle() -> None:
    """One partition is read by one thread of one member; the first threads by their names get the extra ones."""
    assert share_by_threads({"A": 2, "B": 2}, 6) == {"A-0": [0, 1], "A-1": [2, 3], "B-0": [4], "B-1": [5]}
    dealt = share_by_threads({"A": 4, "B": 4}, 6)
    assert [each for share in dealt.values() for each in share] == list(range(6)) and dealt["B-2"] == dealt["B-3"] == []
