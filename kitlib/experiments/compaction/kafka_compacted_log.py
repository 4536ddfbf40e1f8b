"""The log of a compacted topic on the kit's own broker: its cleaner is waited for, its files tell the segments.

A segment is rolled by time, and for Kafka the time is that of the records: the first record whose timestamp is more
than `segment.ms` after the active segment's first begins a new one. So the records carry timestamps of their own, and
nobody waits for a roll; a transaction's marker has the broker's own time. Where the cleaner has been is in the file
`cleaner-offset-checkpoint` of the broker.
Source: Apache Kafka 4.3.1, LogSegment.shouldRoll, LogCleanerManager.updateCheckpoints.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kitlib.experiments.compaction.compaction_stories import DAY_MS, LogSnapshot, Row, segments_between
from kitlib.experiments.groups.kafka_operator import set_topic
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, KafkaTopic, TopicReader, write
from kitlib.lab import workspace
from kitlib.lab.clients import answered, must_be_own
from kitlib.lab.processes import wait_until
from kitlib.mechanisms.log import Fetch

SEGMENT_MS = 60_000  # so many transactions take less
APART_MS = 2 * SEGMENT_MS  # between the timestamps of two segments
CHECKPOINT = "cleaner-offset-checkpoint"
DIRTY_RATIO = "min.cleanable.dirty.ratio"
ALWAYS, NEVER = "0", "1"  # no log is dirtier than all of it
MOST = 100_000  # records of a fetch, which shall be all that there are


@dataclass(slots=True)
class KafkaCompactedLog(KafkaTopic):
    """The real log. Its reader is librdkafka's consumer; what lies in it is read by the kit's own wire and from the files."""

    backend: KafkaBackend = field(kw_only=True)
    segment: int = 0  # how often a segment was rolled
    first_ms: int = 0  # the timestamp of the first segment's records
    folder: Path = field(init=False)  # of the partition, on its leader
    wire: TopicReader = field(init=False)
    transactions: Producer | None = None

    @classmethod
    def open(cls, backend: KafkaBackend, name: str, delete_retention_ms: int = DAY_MS) -> KafkaCompactedLog:
        """Create the topic. LabError when the broker refuses, or when it is not the kit's: its files cannot be read then."""
        cluster = backend.cluster
        must_be_own(cluster, "a run that watches the cleaner's files")
        config = {
            "cleanup.policy": "compact,delete", "segment.ms": str(SEGMENT_MS), DIRTY_RATIO: NEVER,
            "delete.retention.ms": str(delete_retention_ms),
        }  # fmt: skip
        log = cls.create(backend, name, MOST, config, group=f"kit.{backend.run}.{name}", backend=backend)
        log.first_ms = int(time.time() * 1000)
        leader = backend.admin.list_topics(log.name, timeout=DEADLINE_S).topics[log.name].partitions[0].leader
        log.folder = workspace.data_dir() / f"kafka-{cluster.brokers}" / f"node-{leader}" / f"{log.name}-0"
        log.wire = TopicReader.open(cluster, log.name)
        return log

    @property
    def now_ms(self) -> int:
        return self.backend.now_ms

    @property
    def at_ms(self) -> int:
        """The timestamp of the records of this segment."""
        return self.first_ms + self.segment * APART_MS

    def roll(self) -> None:
        """From now on the records are so much later that the broker begins a new segment with the next one."""
        self.segment += 1

    def write(self, rows: Sequence[Row], *, transactional: bool = False) -> list[int]:
        """As fast as the broker takes them. LabError when one is not acknowledged within DEADLINE_S."""
        if not transactional:
            return write(self.producer, self.name, rows, self.at_ms)
        if self.transactions is None:
            self.transactions = self.backend.transactional_producer(self.name)
        return [offset for row in rows for offset in self.write_transaction(self.transactions, [row], self.at_ms)]

    def clean(self) -> int:
        """Let the cleaner come, and wait until its checkpoint is the active segment's base. LabError after DEADLINE_S."""
        active = self._bases()[-1]
        self._let_clean(ALWAYS)
        wait_until(lambda: self._checkpoint() >= active, DEADLINE_S, f"the cleaner has been over {self.name}-0 up to {active}")
        self._let_clean(NEVER)
        return self._checkpoint()

    def _let_clean(self, ratio: str) -> None:
        """From how dirty a log on the cleaner comes: between two calls of `clean` never, however slow the story is."""
        set_topic(self.admin, self.name, DIRTY_RATIO, int(ratio))
        where = ConfigResource(ResourceType.TOPIC, self.name)

        def has_it() -> bool:
            found = answered(self.admin.describe_configs([where])[where], f"topic {self.name} does not tell its settings")
            return float(found[DIRTY_RATIO].value) == float(ratio)

        wait_until(has_it, DEADLINE_S, f"topic {self.name} has {DIRTY_RATIO}={ratio}")

    def _checkpoint(self) -> int:
        """The first dirty offset by the broker's file; 0 before the first pass."""
        try:
            lines = (self.folder.parent / CHECKPOINT).read_text(encoding="utf-8").splitlines()
        except OSError:  # it is just being replaced, or nothing has been cleaned yet
            return 0
        found = [line.split() for line in lines]
        return next((int(words[2]) for words in found if words[:2] == [self.name, "0"] and len(words) == 3), 0)

    def _bases(self) -> list[int]:
        """The first offsets of the segments, by the names of their files."""
        return sorted(int(each.stem) for each in self.folder.glob("*.log")) or [0]

    def fetch(self, offset: int) -> Fetch:
        self.position = None  # what the client has fetched ahead may have been cleaned since
        return KafkaTopic.fetch(self, offset)

    def snapshot(self) -> LogSnapshot:
        start, checkpoint, bases = self.start, self._checkpoint(), self._bases()
        records = [
            (offset, key or b"", value)
            for batch in self.wire.batches()
            if not batch.is_control
            for offset, _, key, value in batch.records
            if offset >= start
        ]
        sizes = {base: self._size(base) for base in bases}
        closed = sum(size for base, size in sizes.items() if base != bases[-1])
        clean = sum(size for base, size in sizes.items() if base != bases[-1] and base < checkpoint)
        dirty_ratio = (closed - clean) / closed if closed else 0.0
        return LogSnapshot(segments_between([*bases, self.end]), records, dirty_ratio)

    def _size(self, base: int) -> int:
        try:
            return (self.folder / f"{base:020d}.log").stat().st_size
        except OSError:  # the cleaner is just replacing it
            return 0

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def close(self) -> None:
        self.wire.close()
