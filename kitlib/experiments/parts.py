"""The parts one at a time, on a topic of any Kafka: what `from kitlib import ...` gives beside the pure classes.

`docs/three_parts.md` has a sample of each.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Self

from kitlib.experiments.idempotence.protocol_producer import cluster_at
from kitlib.experiments.kafka_backend import KafkaBackend, KafkaOffsetStore, KafkaTopic, reader_of


@dataclass(slots=True)
class KafkaLog(KafkaTopic):
    """Partition 0 of a topic that is there, as a PartitionManager reads it; `store` keeps its offsets in the topic `kit.offsets` there.

    with KafkaLog.open("orders", "127.0.0.1:9092") as log:
        manager = PartitionManager(SpoutConfig("orders", "billing", max_offset_behind=100), log, log.store)
    """

    store: KafkaOffsetStore = field(kw_only=True)

    @classmethod
    @contextmanager
    def open(cls, topic: str, bootstrap: str | None = None, max_fetch_records: int = 10) -> Iterator[Self]:
        """LabError when there is no broker."""
        with closing(KafkaBackend.open(f"part-{uuid.uuid4().hex[:8]}", cluster_at(bootstrap))) as backend:
            reader = reader_of(backend.cluster, f"kit.{backend.run}")
            backend.opened.callback(reader.close)
            asker = backend.offsets.topic.asker
            yield cls(topic, reader, backend.producer, backend.admin, max_fetch_records, asker, store=backend.store)
