"""Which partitions the general sticky algorithm has moved, from whom to whom.

Two moves of one topic in opposite directions undo each other and only cost. So before a partition of a
topic goes from A to B, one that went from B to A is looked for, and sent back in its place.

Source: Apache Kafka 4.3.1, `AbstractStickyAssignor.PartitionMovements`, `TopicPartition.hashCode`.
Differs: `isSticky` with its search for cycles is left out; no assignment depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.java.hash_codes import text_hash_code
from kitlib.java.hash_tables import HashOrder
from kitlib.java.numbers import to_int
from kitlib.kafka.groups.assignors.subscription import TopicPartition

Pair = tuple[str, str]  # from which member, to which


@dataclass(slots=True)
class Movements:
    """The moves of one run of the algorithm; a partition that is back where it was has none."""

    pair_of: dict[TopicPartition, Pair] = field(default_factory=dict)
    by_topic: dict[str, dict[Pair, HashOrder[TopicPartition]]] = field(default_factory=dict)  # no empty ones

    def actual_partition(self, partition: TopicPartition, giver: str, taker: str) -> TopicPartition:
        """What is to move in the place of this partition: one that went the other way, or the partition itself."""
        moves = self.by_topic.get(partition.topic)
        if moves is None:
            return partition
        if partition in self.pair_of:
            giver = self.pair_of[partition][0]
        went_back = moves.get((taker, giver))
        return partition if went_back is None else next(iter(went_back))

    def move(self, partition: TopicPartition, giver: str, taker: str) -> None:
        """Note a move; of several moves of one partition only where it came from and where it is now."""
        source = giver
        if partition in self.pair_of:
            source = self.forget(partition)[0]
            if source == taker:
                return
        pair = self.pair_of[partition] = (source, taker)
        moves = self.by_topic.setdefault(partition.topic, {})
        moves.setdefault(pair, HashOrder(partition_hash_code)).add(partition)

    def forget(self, partition: TopicPartition) -> Pair:
        """Take a partition's move out; the pair that it was between."""
        pair = self.pair_of.pop(partition)
        moves = self.by_topic[partition.topic]
        moves[pair].discard(partition)
        if not moves[pair]:
            del moves[pair]
        if not moves:
            del self.by_topic[partition.topic]
        return pair


def partition_hash_code(partition: TopicPartition) -> int:
    """Java's hash code of a TopicPartition."""
    return to_int(31 * (31 + partition.partition) + text_hash_code(partition.topic))
