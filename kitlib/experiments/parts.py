"""The parts one at a time, on a topic of any Kafka: what `from kitlib import ...` gives beside the pure classes.

`docs/three_parts.md` has a sample of each.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from kitlib.experiments.idempotence.protocol_producer import ProtocolProducer
from kitlib.experiments.kafka_backend import KafkaBackend, KafkaOffsetStore, KafkaTopic, reader_of
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster, addresses, kafka_python_config
from kitlib.lab.wire.connection import Answers, Metadata, Wire
from kitlib.lab.wire.records import WireBatch
from kitlib.mechanisms.broker.leader import Leader
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.protocol import Batch, ProduceRequest


def cluster_at(bootstrap: str | None) -> Cluster:
    """The cluster at `host:port`; without an address the one of KIT_KAFKA_BOOTSTRAP, or the kit's own broker, started if need be."""
    return kafka_server.ensure() if bootstrap is None else Cluster(bootstrap, None, 1, "external")


@dataclass(slots=True)
class KafkaLog(KafkaTopic):
    """Partition 0 of a topic that is there, as a PartitionManager reads it; `store` keeps its offsets in the topic `kit.offsets` there.

    with KafkaLog.open("orders", "127.0.0.1:9092") as log:
        manager = PartitionManager(SpoutConfig("orders", "billing", max_offset_behind=100), log, log.store)
    """

    backend: KafkaBackend | None = None

    @classmethod
    def open(cls, topic: str, bootstrap: str | None = None, max_fetch_records: int = 10) -> Self:
        """LabError when there is no broker."""
        backend = KafkaBackend.open(f"part-{uuid.uuid4().hex[:8]}", cluster_at(bootstrap))
        reader = reader_of(backend.cluster, f"kit.{backend.run}")
        backend.opened.callback(reader.close)
        return cls(topic, reader, backend.producer, backend.admin, max_fetch_records, backend.offsets.topic.asker, None, backend)

    @property
    def store(self) -> KafkaOffsetStore:
        assert self.backend is not None
        return self.backend.store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.backend is not None:
            self.backend.close()


class IdempotentProducer(ProtocolProducer):
    """The kit's own idempotent producer for a topic of any Kafka, or of a model's `Leader` where there is none.

    `limits` are those of `ProducerConfig`, in flight 1 to 10, more than the stock clients allow:

    with IdempotentProducer("orders", "127.0.0.1:9092", max_in_flight_requests_per_connection=5) as producer:
        producer.send([b"tea", b"milk"])
    producer.deliveries  # what became of each batch
    """

    def __init__(self, topic: str, kafka: str | Leader | None = None, **limits: Any) -> None:
        config = ProducerConfig(**limits)
        self.leader = kafka if isinstance(kafka, Leader) else None
        if isinstance(kafka, Leader):
            super().__init__("model", 0, topic, config)
            return
        cluster = cluster_at(kafka)
        super().__init__(*addresses(cluster.bootstrap)[0], topic, config, security=kafka_python_config(cluster))

    def _open_wire(self, timeout_s: float) -> Wire:
        return super()._open_wire(timeout_s) if self.leader is None else ModelWire(self.leader)  # type: ignore[return-value]


@dataclass(slots=True)
class ModelWire:
    """What a producer asks of a `Wire`, answered by a model's leader at once."""

    leader: Leader
    answers: deque[Answers] = field(default_factory=deque)
    requests: int = 0

    def metadata(self, topics: Sequence[str], timeout_s: float | None = None) -> Metadata:
        """Every topic is the leader's."""
        partitions = dict.fromkeys(self.leader.logs, (0, self.leader.broker))
        return Metadata({self.leader.broker: ("model", 0)}, self.leader.broker, dict.fromkeys(topics, (0, partitions)))

    def init_producer_id(self, timeout_s: float | None = None) -> tuple[int, int, int]:
        """Its error, id and epoch."""
        answer = self.leader.init_producer_id(_now_ms())
        return int(answer.error), answer.producer_id, answer.producer_epoch

    def send_produce(self, topic: str, batches: Sequence[WireBatch], acks: int = -1, timeout_ms: int = 30_000) -> None:
        """Written, or refused, before anybody asks."""
        told = tuple(
            Batch(
                each.partition, len(each.values), each.producer_id, each.epoch, each.base_sequence, each.is_transactional,
                each.timestamp_ms or _now_ms(), tuple(each.values),
            )
            for each in batches
        )  # fmt: skip
        found = self.leader.produce(ProduceRequest(self.requests, told, acks, timeout_ms), _now_ms())
        self.requests += 1
        if acks:
            self.answers.append({at: (int(each.error), each.base_offset, each.log_start_offset) for at, each in found.items()})

    def receive(self, timeout_s: float | None = None) -> Answers | None:
        """The oldest answer that was not taken yet; None when there is none, after `timeout_s`."""
        if self.answers:
            return self.answers.popleft()
        time.sleep(max(0.0, timeout_s or 0.0))
        return None

    def drain(self, timeout_s: float | None = None) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Answers that were not taken are gone."""
        self.answers.clear()


def _now_ms() -> int:
    return int(time.time() * 1000)
