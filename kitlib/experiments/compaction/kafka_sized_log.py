"""A real compacted topic with the records of the offsets topic: its files are measured, its cleaner waited for, its records loaded.

Each roll is a step of the records' timestamps, as in `kitlib.experiments.compaction.kafka_keyed_log`. Where the cleaner shall
not pass, the topic says that no record may be cleaned before it is very old (min.compaction.lag.ms).

Differs: the broker does not load this topic, since it is not its own; a cache is filled from it here, in Python.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kitlib.errors import LabError
from kitlib.experiments.backend import Backend
from kitlib.experiments.compaction.kafka_keyed_log import APART_MS, KafkaKeyedLog
from kitlib.experiments.compaction.sized_log import Commit, Size, commit_bytes
from kitlib.experiments.kafka_group import ADVICE, DEADLINE_S
from kitlib.kafka.offsets.offset_cache import OffsetCache
from kitlib.kafka.offsets.records import decode
from kitlib.lab.clients import answered

NEVER_MS = 2**62
DELETE_RETENTION_MS = 86_400_000


@dataclass(slots=True)
class KafkaSizedLog:
    """The real one."""

    log: KafkaKeyedLog
    rolls: int = 0

    @classmethod
    def open(cls, backend: Backend, name: str) -> KafkaSizedLog:
        """Create the topic; as KafkaKeyedLog.open."""
        return cls(KafkaKeyedLog.open(backend, name, DELETE_RETENTION_MS))

    @property
    def now_ms(self) -> int:
        return self.log.now_ms

    def append(self, commits: list[Commit], every_ms: float) -> None:
        """As fast as the broker takes them. LabError when one is not acknowledged within DEADLINE_S."""
        producer, troubles = self.log.backend.producer, list[str]()
        stored = 0

        def note(error: KafkaError | None, message: Message) -> None:
            nonlocal stored
            if error is None:
                stored += 1
            else:
                troubles.append(error.str())

        at_ms = self.log.first_ms + self.rolls * APART_MS
        try:
            for commit in commits:
                key, value = commit_bytes(commit, at_ms)
                producer.produce(self.log.name, value, key, partition=0, timestamp=at_ms, on_delivery=note)
                producer.poll(0)
            producer.flush(DEADLINE_S)
        except (KafkaException, BufferError) as error:
            troubles.append(str(error))
        if troubles or stored < len(commits):
            why = troubles[0] if troubles else f"no answer within {DEADLINE_S:g} s"
            raise LabError(f"topic {self.log.name}: {stored} of {len(commits)} records were stored: {why}. {ADVICE}")

    def roll(self) -> None:
        """From now on the records are so much later that the broker begins a new segment with the next one."""
        self.rolls += 1

    def clean(self) -> int:
        """Wait until the cleaner has passed. LabError after DEADLINE_S."""
        before = self.look().records
        self.log.clean()
        return before - self.look().records

    def kill_cleaner(self) -> None:
        """No record of the topic may be cleaned any more. LabError when the broker does not take it."""
        entry = ConfigEntry("min.compaction.lag.ms", str(NEVER_MS), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.log.name, incremental_configs=[entry])
        asked = self.log.backend.admin.incremental_alter_configs([resource], request_timeout=DEADLINE_S)[resource]
        answered(asked, f"topic {self.log.name}: its cleaning could not be forbidden")

    def look(self) -> Size:
        seen = self.log.look()
        return Size(len(seen.records), sum(map(file_bytes, self.log.folder.glob("*.log"))), len(seen.segments), seen.dirty_ratio)

    def load(self) -> tuple[int, int, int]:
        began_s, cache, read = time.perf_counter(), OffsetCache(), 0
        for batch in self.log.wire.read_all(self.log.name, 0, timeout_s=DEADLINE_S):
            for offset, _, key, value in batch.records:
                cache.replay(offset, decode(key, value))
                read += 1
        return read, int((time.perf_counter() - began_s) * 1000), len(cache.offsets)

    def close(self) -> None:
        self.log.close()


def file_bytes(file: Path) -> int:
    """The size of a file; 0 of one that the cleaner is just replacing."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
