"""What a member tells the leader of its group, and what the leader decides.

Every member says which topics it wants, what it owned so far, and in which generation of the group that
was. The leader adds how many partitions each topic has. An assignor is a pure function of these.

Source: Apache Kafka 4.3.1, `ConsumerPartitionAssignor.Subscription`, `AbstractPartitionAssignor`.
Differs: racks are left out, so partitions are not matched with members of the same rack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kitlib.errors import KitError
from kitlib.java.hash_codes import utf16_units

NO_GENERATION = -1  # AbstractStickyAssignor.DEFAULT_GENERATION: the member has none, or has lost it


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int  # from 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member tells the leader."""

    member: str  # its member id
    topics: tuple[str, ...]  # what it wants to read, each topic once
    owned: tuple[TopicPartition, ...] = ()  # what it was assigned the last time
    generation: int = NO_GENERATION  # of the group, in which it owned that
    instance_id: str | None = None  # group.instance.id of a static member


Partitions = Mapping[str, int]  # topic -> number of its partitions; a topic that is not in it has no metadata
Assignment = dict[str, list[TopicPartition]]  # member -> its partitions; every member is in it


class AssignorFailedError(KitError):
    """The real class throws an unchecked exception for this group, so the rebalance fails at its leader."""

    def __init__(self, why: str, exception: str) -> None:
        super().__init__(f"{why}: its class throws {exception} here. {WHY_IT_FAILS}")
        self.exception = exception  # the name of Java's class


WHY_IT_FAILS = "Members own partitions that are no more, or that they do not read any more; let them join without any."


def by_java_order(name: str) -> bytes:
    """The key by which Java sorts strings: unit by unit of UTF-16."""
    return utf16_units(name)


def by_topic(partition: TopicPartition) -> tuple[bytes, int]:
    """The key of partitions in the order of their topics' names."""
    return by_java_order(partition.topic), partition.partition


def by_instance_id(subscription: Subscription) -> tuple[bool, bytes]:
    """The key of members for range and round robin: static ones first, by instance id, the others by member id."""
    static = subscription.instance_id is not None
    return not static, by_java_order(
        (subscription.instance_id if static else None) or subscription.member * (not static)
    )


def partitions_of(topic: str, partitions: Partitions) -> list[TopicPartition]:
    """All partitions of one topic, from 0."""
    return [TopicPartition(topic, number) for number in range(partitions[topic])]


def all_partitions(topics: Sequence[str], partitions: Partitions) -> list[TopicPartition]:
    """All partitions of these topics, topic by topic."""
    return [each for topic in topics for each in partitions_of(topic, partitions)]
