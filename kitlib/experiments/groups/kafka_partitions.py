"""A real topic whose number of partitions grows: CreatePartitions, a producer that hashes keys, readers by partition."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions

from kitlib.errors import LabError
from kitlib.experiments.groups.added_partitions import Keyed
from kitlib.experiments.kafka_backend import KafkaBackend, deliver, replicas_of
from kitlib.experiments.kafka_group import ADVICE, DEADLINE_S, create_partitions, wait_until_led
from kitlib.lab import created_resources
from kitlib.lab.clients import answered, client_config


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
        created_resources.remember("topic", name)
        create_partitions(backend.admin, name, partitions, replicas_of(backend.cluster))
        settings = {"group.id": f"{name}.reader", "enable.auto.commit": False, "enable.partition.eof": True}
        return cls(name, partitions, backend, Consumer(client_config(backend.cluster, **settings)))

    def close(self) -> None:
        """Let go of the reader."""
        self.reader.close()

    def grow(self, partitions: int) -> None:
        """CreatePartitions; a producer that starts later knows the new number. LabError as `open`."""
        wanted = NewPartitions(self.name, partitions)
        asked = self.backend.admin.create_partitions([wanted], operation_timeout=DEADLINE_S)[self.name]
        answered(asked, f"topic {self.name}: {partitions} partitions were refused")
        self.partitions = partitions
        wait_until_led(self.backend.admin, self.name, partitions)

    def append(self, records: Sequence[Keyed]) -> list[tuple[int, int]]:
        """Through a producer of its own, one batch after the other in the order of the records."""
        settings = {"enable.idempotence": True, "partitioner": "murmur2", "delivery.timeout.ms": int(DEADLINE_S * 1000)}
        producer = Producer(client_config(self.backend.cluster, **settings))
        return deliver(producer, self.name, [(key.encode(), value.encode()) for key, value in records])

    def read(self, positions: Mapping[int, int]) -> dict[int, list[Keyed]]:
        """LabError when the ends are not reached within DEADLINE_S."""
        found: dict[int, list[Keyed]] = {partition: [] for partition in positions}
        open_ones = set(positions)
        deadline = time.monotonic() + DEADLINE_S
        self.reader.assign([TopicPartition(self.name, partition, offset) for partition, offset in positions.items()])
        while open_ones and time.monotonic() < deadline:
            message = self.reader.poll(0.2)
            error = message.error() if message is not None else None
            if message is None:
                continue
            partition = int(message.partition() or 0)
            if error is None:
                found[partition].append(((message.key() or b"").decode(), (message.value() or b"").decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ones.discard(partition)
            else:
                raise LabError(f"{self.name}-{partition}: it cannot be read: {error.str()}. {ADVICE}")
        if open_ones:
            raise LabError(f"{self.name}: no end of partitions {sorted(open_ones)} within {DEADLINE_S:g} s. {ADVICE}")
        return found
