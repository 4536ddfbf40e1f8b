"""Which partition a record goes to when its sender did not say.

A key decides by its hash, so that all records of a key keep their order. Without a key any partition
will do, and the question is only how many batches that makes. The client of 0.10 took the partitions in
turn, so that each of ten records went into another batch. Since 2.4 a producer sticks to a partition;
since 3.3 until it has sent `batch.size` bytes there, and then it prefers those with short queues.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kitlib.errors import KnobError
from kitlib.more.client.cluster import Cluster
from kitlib.more.hashes import partition_of_key, to_positive

__all__ = ["BuiltInPartitioner", "LoadStats", "RoundRobinPartitioner", "StickyPartition", "partition_of_key"]


@dataclass(slots=True)
class StickyPartition:
    """The partition that records without a key go to at present."""

    partition: int
    produced_bytes: int = 0  # since it was chosen


@dataclass(frozen=True, slots=True)
class LoadStats:
    """How likely each partition is to be chosen next: the shorter its queue, the likelier."""

    cumulative: tuple[
        int, ...
    ]  # ascending; a number below cumulative[i] and not below the one before means partitions[i]
    partitions: tuple[int, ...]


@dataclass(slots=True)
class BuiltInPartitioner:
    """Records without a key stick to a partition for `sticky_batch_size` bytes. KnobError when that is < 1.

    Source: Apache Kafka 4.3.1, `BuiltInPartitioner`.
    Differs: chance is an argument (`luck` gives an int of 32 bits); one thread, so nobody changes the partition meanwhile.
    """

    topic: str
    sticky_batch_size: int
    luck: Callable[[], int] = lambda: 0
    sticky: StickyPartition | None = None  # None until the first record
    load_stats: LoadStats | None = None  # None: all partitions with a leader are equally likely

    def __post_init__(self) -> None:
        if self.sticky_batch_size < 1:
            raise KnobError(f"sticky_batch_size is {self.sticky_batch_size}, expected 1 byte or more.")

    def next_partition(self, cluster: Cluster) -> int:
        """Choose one by chance. KnobError when nothing is known of the topic."""
        chance = to_positive(self.luck())
        if self.load_stats is not None:
            stats = self.load_stats
            return stats.partitions[bisect_right(stats.cumulative, chance % stats.cumulative[-1])]
        choices = cluster.available_partitions_of(self.topic) or cluster.partitions_of(self.topic)
        if not choices:
            raise KnobError(f"topic {self.topic}: no partition is known. Wait for its metadata first.")
        return choices[chance % len(choices)].partition

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

    def update_load_stats(
        self, queue_sizes: Sequence[int] | None, partitions: Sequence[int] = (), length: int | None = None
    ) -> None:
        """The queues' lengths, of partitions with a leader; `length` < len(queue_sizes): so many of them are to be had.

        None, a single partition, or queues of one length: every partition is equally likely.
        """
        self.load_stats = None
        if queue_sizes is None:
            return
        length = len(queue_sizes) if length is None else length
        if length < 1 or len(queue_sizes) < 2:
            return
        sizes = list(queue_sizes[:length])
        if len(set(sizes)) == 1 and length == len(queue_sizes):
            return
        longest, total, cumulative = max(sizes) + 1, 0, []
        for size in sizes:
            total += longest - size
            cumulative.append(total)
        self.load_stats = LoadStats(tuple(cumulative), tuple(partitions[:length]))


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
        choices = cluster.available_partitions_of(self.topic) or cluster.partitions_of(self.topic)
        if not choices:
            raise KnobError(f"topic {self.topic}: no partition is known. Wait for its metadata first.")
        at, self.counter = to_positive(self.counter), self.counter + 1
        return choices[at % len(choices)].partition
