"""A topic whose number of partitions grows, in memory or on a real broker: keys choose the partition.

The producer is the client's own: on a real broker librdkafka with Java's rule for keys hashes each key
and asks nobody. The number of partitions is what it has last heard from the broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kitlib.experiments.backend import Backend
from kitlib.kafka.hashes import partition_of_key

Keyed = tuple[str, str]  # key, value


class KeyedTopic(Protocol):
    """A topic of several partitions, written by key and read partition by partition."""

    name: str
    partitions: int

    def grow(self, partitions: int) -> None:
        """Raise the number of partitions. There is no way back."""
        ...

    def append(self, records: Sequence[Keyed]) -> list[tuple[int, int]]:
        """Append the records one after the other; each one's (partition, offset)."""
        ...

    def read(self, positions: Mapping[int, int]) -> dict[int, list[Keyed]]:
        """All records of each partition from its position on."""
        ...


@dataclass(slots=True)
class ModelKeyedTopic:
    """The topic in memory."""

    name: str
    partitions: int
    logs: list[list[Keyed]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.grow(self.partitions)

    def grow(self, partitions: int) -> None:
        self.partitions = partitions
        self.logs += [[] for _ in range(partitions - len(self.logs))]

    def append(self, records: Sequence[Keyed]) -> list[tuple[int, int]]:
        where = []
        for key, value in records:
            partition = partition_of_key(key.encode(), self.partitions)
            where.append((partition, len(self.logs[partition])))
            self.logs[partition].append((key, value))
        return where

    def read(self, positions: Mapping[int, int]) -> dict[int, list[Keyed]]:
        return {partition: self.logs[partition][offset:] for partition, offset in positions.items()}


def keyed_topic(backend: Backend, run: str, name: str, partitions: int) -> KeyedTopic:
    """A new, empty topic on this backend."""
    if backend.name == "kafka":
        from kitlib.experiments.groups.kafka_partitions import KafkaKeyedTopic

        return KafkaKeyedTopic.open(backend, f"kit.{run}.{name}", partitions)
    return ModelKeyedTopic(name, partitions)
