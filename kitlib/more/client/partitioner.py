"""Which partition a record goes to when its sender did not say.

A key decides by its hash, so that all records of a key keep their order. Without a key any partition
will do, and the question is only how many batches that makes. The client of 0.10 took the partitions in
turn, so that each of ten records went into another batch. Since 2.4 a producer sticks to a partition;
since 3.3 until it has sent `batch.size` bytes there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kitlib.errors import KnobError
from kitlib.more.client.cluster import Cluster
from kitlib.more.hashes import partition_of_key, to_positive

__all__ = ["BuiltInPartitioner", "RoundRobinPartitioner", "StickyPartition", "partition_of_key"]


@dataclass(slots=True)
class StickyPartition:
    """The partition that records without a key go to at present."""

    partition: int
    produced_bytes: int = 0  # since it was chosen


@dataclass(slots=True)
class BuiltInPartitioner:
    """Records without a key stick to a partition for `sticky_batch_size` bytes. KnobError when that is < 1.

    Source: Apache Kafka 4.3.1, `BuiltInPartitioner`.
    Differs: chance is an argument (`luck` gives an int of 32 bits); one thread, so nobody changes the partition meanwhile;
    partitions with short queues are not preferred.
    """

    topic: str
    sticky_batch_size: int
    luck: Callable[[], int] = lambda: 0
    sticky: StickyPartition | None = None  # None until the first record

    def __post_init__(self) -> None:
        if self.sticky_batch_size < 1:
            raise KnobError(f"sticky_batch_size is {self.sticky_batch_size}, expected 1 byte or more.")

    def next_partition(self, cluster: Cluster) -> int:
        """Choose one by chance. KnobError when nothing is known of the topic."""
        choices = choices_of(self.topic, cluster)
        return choices[to_positive(self.luck()) % len(choices)]

    def peek(self, cluster: Cluster) -> int:
        """The partition that the next record without a key goes to."""
        if self.sticky is None:
            self.sticky = StickyPartition(self.next_partition(cluster))
        return self.sticky.partition

    def update(self, appended_bytes: int, cluster: Cluster, enable_switch: bool = True) -> bool:
        """A record was appended; whether the partition was changed.

        While the last batch there is not full (`enable_switch` false) the change waits for it, but not
        beyond twice the bytes: otherwise lingering batches would be cut in two.
        """
        if self.sticky is None:
            return False
        self.sticky.produced_bytes += appended_bytes
        produced = self.sticky.produced_bytes
        if (produced >= self.sticky_batch_size and enable_switch) or produced >= 2 * self.sticky_batch_size:
            self.sticky = StickyPartition(self.next_partition(cluster))
            return True
        return False


@dataclass(slots=True)
class RoundRobinPartitioner:
    """Records without a key take the partitions in turn, those that have a leader.

    Source: Apache Kafka 0.10.1.0, `DefaultPartitioner`.
    Differs: the counter's first value, there by chance, is an argument.
    """

    topic: str
    counter: int = 0

    def next_partition(self, cluster: Cluster) -> int:
        """The next one. KnobError when nothing is known of the topic."""
        choices = choices_of(self.topic, cluster)
        at, self.counter = to_positive(self.counter), self.counter + 1
        return choices[at % len(choices)]


def choices_of(topic: str, cluster: Cluster) -> list[int]:
    """The partitions with a leader, all of them when none has one. KnobError when nothing is known of the topic."""
    choices = cluster.available_partitions_of(topic) or cluster.partitions_of(topic)
    if not choices:
        raise KnobError(f"topic {topic}: no partition is known. Wait for its metadata first.")
    return [found.partition for found in choices]
