"""A real topic whose number of partitions grows: CreatePartitions, a producer that hashes keys, readers by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from kitlib.experiments.groups.added_partitions import Keyed
from kitlib.experiments.groups.kafka_operator import add_partitions
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, consume_to_end, create_topic, deliver
from kitlib.lab.clients import client_config


@dataclass(slots=True)
class KafkaKeyedTopic:
    """The real topic. `murmur2` is librdkafka's name for Java's rule; its own default is another hash."""

    name: str
    partitions: int
    backend: KafkaBackend
    reader: Consumer

    @classmethod
    def open(cls, backend: KafkaBackend, name: str, partitions: int) -> KafkaKeyedTopic:
        """Create the topic, and wait until every partition is led. LabError when the broker refuses or is too slow."""
        name = f"kit.{backend.run}.{name}"
        create_topic(backend.admin, name, backend.cluster, partitions=partitions)
        settings = {"group.id": f"{name}.reader", "enable.auto.commit": False, "enable.partition.eof": True}
        return cls(name, partitions, backend, Consumer(client_config(backend.cluster, **settings)))

    def close(self) -> None:
        """Let go of the reader."""
        self.reader.close()

    def grow(self, partitions: int) -> None:
        """CreatePartitions; a producer that starts later knows the new number. LabError as `open`."""
        add_partitions(self.backend.admin, self.name, partitions)
        self.partitions = partitions

    def append(self, records: Sequence[Keyed]) -> list[tuple[int, int]]:
        """Through a producer of its own, one batch after the other in the order of the records."""
        settings = {"enable.idempotence": True, "partitioner": "murmur2", "delivery.timeout.ms": int(DEADLINE_S * 1000)}
        producer = Producer(client_config(self.backend.cluster, **settings))
        return deliver(producer, self.name, [(key.encode(), value.encode()) for key, value in records])

    def read(self, positions: Mapping[int, int]) -> dict[int, list[Keyed]]:
        """LabError as `consume_to_end`."""
        found: dict[int, list[Keyed]] = {partition: [] for partition in positions}
        begins = [TopicPartition(self.name, partition, offset) for partition, offset in positions.items()]
        for message in consume_to_end(self.reader, begins, "the reader")[0]:
            found[int(message.partition() or 0)].append(((message.key() or b"").decode(), (message.value() or b"").decode()))
        return found
