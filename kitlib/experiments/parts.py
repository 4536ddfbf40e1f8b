"""The parts one at a time, on a topic of any Kafka: what `from kitlib import ...` gives beside the pure classes.

`docs/three_parts.md` has a sample of each.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from kitlib.experiments.idempotence.protocol_producer import cluster_at
from kitlib.experiments.kafka_backend import KafkaBackend, KafkaOffsetStore, KafkaTopic, reader_of


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
