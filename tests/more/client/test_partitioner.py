"""Which partition a record goes to: by its key, in turn, or where the producer sticks."""

from __future__ import annotations

from random import Random

import pytest

from kitlib.errors import KnobError
from kitlib.more.client.cluster import Cluster, Node, PartitionMetadata
from kitlib.more.client.partitioner import BuiltInPartitioner, RoundRobinPartitioner


def cluster(*leaders: int | None) -> Cluster:
    parts = {("t", number): PartitionMetadata("t", number, leader_id=leader) for number, leader in enumerate(leaders)}
    return Cluster((Node(0, "zero", 9092),), parts)


def test_partitioners_without_a_leader_for_some_leave_those_out() -> None:
    """Partitions without a leader get nothing while there is another one."""
    rng = Random(1)
    built_in = BuiltInPartitioner("t", 1, lambda: rng.getrandbits(32))
    round_robin = RoundRobinPartitioner("t")
    known = cluster(None, 0, None)
    assert {built_in.next_partition(known) for _ in range(20)} == {round_robin.next_partition(known) for _ in range(20)} == {1}


def test_round_robin_takes_partitions_in_turn_and_survives_the_wrap() -> None:
    """The counter is an int: after 2^31 - 1 it is taken without its sign."""
    partitioner = RoundRobinPartitioner("t", 2**31 - 2)
    assert [partitioner.next_partition(cluster(0, 0, 0)) for _ in range(5)] == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("made", [lambda: BuiltInPartitioner("t", 1), lambda: RoundRobinPartitioner("t")])
def test_partitioner_of_an_unknown_topic_says_so(made: object) -> None:
    """Metadata comes first."""
    with pytest.raises(KnobError, match="topic t: no partition is known"):
        made().next_partition(Cluster())  # type: ignore[operator]
    with pytest.raises(KnobError, match="expected 1 byte"):
        BuiltInPartitioner("t", 0)
