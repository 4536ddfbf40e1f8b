"""Which partition a record goes to: by its key, in turn, or where the producer sticks."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kitlib.errors import KnobError
from kitlib.more.client.cluster import Cluster, Node, PartitionMetadata
from kitlib.more.client.partitioner import BuiltInPartitioner, RoundRobinPartitioner


def cluster(*leaders: int | None) -> Cluster:
    parts = {("t", number): PartitionMetadata("t", number, leader_id=leader) for number, leader in enumerate(leaders)}
    return Cluster((Node(0, "zero", 9092),), parts)


def test_built_in_without_a_key_sticks_for_batch_size_bytes() -> None:
    """Ten records of 100 bytes and batch.size 300: the partition changes after three, six and nine."""
    rng = Random(1)
    partitioner = BuiltInPartitioner("t", 300, lambda: rng.getrandbits(32))
    changes = [partitioner.update(100, known) for known in [cluster(0, 0, 0)] * 10 if partitioner.peek(known) >= 0]
    assert [number for number, changed in enumerate(changes, 1) if changed] == [3, 6, 9]


def test_built_in_with_an_open_batch_changes_at_twice_the_bytes_at_the_latest() -> None:
    """So that a lingering batch is not cut in two."""
    partitioner = BuiltInPartitioner("t", 300)
    partitioner.peek(cluster(0, 0))
    assert [partitioner.update(100, cluster(0, 0), enable_switch=False) for _ in range(6)] == [False] * 5 + [True]


def test_built_in_with_queues_prefers_the_short_ones() -> None:
    """Queues of 0, 3 and 1 batches: 4, 1 and 3 of 8 records."""
    rng = Random(1)
    partitioner = BuiltInPartitioner("t", 1, lambda: rng.getrandbits(32))
    partitioner.update_load_stats([0, 3, 1], [0, 1, 2])
    chosen = Counter(partitioner.next_partition(cluster(0, 0, 0)) for _ in range(8_000))
    assert [round(chosen[number] / 1_000) for number in range(3)] == [4, 1, 3]


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
