"""What a client knows of a cluster: its brokers, and for each partition who leads it.

A `MetadataResponse` is what a broker says when it is asked; a `Cluster` is what the client makes of
it, with the views that sending needs: the partitions of a topic, and of them those that have a leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kitlib.mechanisms.protocol import ErrorCode

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Node:
    """A broker: its number, and the address that it tells clients to use (its *advertised* one)."""

    id: int  # below 0: known from bootstrap.servers only
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.id})"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Who leads a partition, by a broker's word.

    Source: Apache Kafka 4.3.1, `MetadataResponse.PartitionMetadata`.
    Differs: an error of a single partition is left out, and who has copies.
    """

    topic: str
    partition: int
    leader_id: int | None = None  # None: there is none at present
    leader_epoch: int = 0  # grows with each new leader

    @property
    def key(self) -> TopicPartition:
        """Which partition it is."""
        return (self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What a broker says of one topic; `error` UNKNOWN_TOPIC_OR_PARTITION where there is none."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    """A broker's answer: the cluster's brokers, and the topics that it was asked for."""

    brokers: tuple[Node, ...]
    topics: tuple[TopicMetadata, ...] = ()

    @property
    def errors(self) -> dict[str, ErrorCode]:
        """The topics about which the broker could not say everything."""
        return {topic.name: topic.error for topic in self.topics if topic.error is not ErrorCode.NONE}


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """What the client asks for."""

    topics: tuple[str, ...]
    request_version: int = 0  # how many new topics had been asked for when it was made
    is_partial: bool = False  # only for topics that are new


@dataclass(frozen=True, slots=True)
class Cluster:
    """One state of knowledge; an update makes another one.

    Source: Apache Kafka 4.3.1, `Cluster` and `MetadataSnapshot`.
    Differs: one object for both; partitions keep the order of the answer (Java's is that of a hash table).
    """

    nodes: tuple[Node, ...] = ()
    partitions: Mapping[TopicPartition, PartitionMetadata] = field(default_factory=dict)

    @classmethod
    def bootstrap(cls, addresses: Iterable[tuple[str, int]]) -> Cluster:
        """What there is before the first answer: the given addresses, with the numbers -1, -2, ..."""
        return cls(tuple(Node(-1 - index, host, port) for index, (host, port) in enumerate(addresses)))

    def node_by_id(self, node_id: int | None) -> Node | None:
        """The broker with this number, if its address is known."""
        return next((node for node in self.nodes if node.id == node_id), None)

    def partitions_of(self, topic: str) -> list[PartitionMetadata]:
        """The topic's partitions; none while nothing is known of it."""
        return [found for found in self.partitions.values() if found.topic == topic]

    def available_partitions_of(self, topic: str) -> list[PartitionMetadata]:
        """Of the topic's partitions those that have a leader whose address is known."""
        return [found for found in self.partitions_of(topic) if self.node_by_id(found.leader_id) is not None]
