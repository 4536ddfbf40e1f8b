"""The log of a compacted topic on the kit's own broker: its cleaner is waited for, its files tell the segments.

A segment is rolled by time, and for Kafka the time is that of the records: the first record whose timestamp is more
than `segment.ms` after the active segment's first begins a new one. So the records carry timestamps of their own, and
nobody waits for a roll; a transaction's marker has the broker's own time. Where the cleaner has been is in the file
`cleaner-offset-checkpoint` of the broker.
Source: Apache Kafka 4.3.1, LogSegment.shouldRoll, LogCleanerManager.updateCheckpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kitlib.errors import KnobError, LabError
from kitlib.experiments.compaction.keyed_log import LogLook, Row
from kitlib.experiments.groups.kafka_operator import set_topic
from kitlib.experiments.kafka_group import ADVICE, DEADLINE_S
from kitlib.experiments.kafka_stage import KafkaStage, create_topic, replicas_of
from kitlib.experiments.stage import Stage
from kitlib.experiments.topic_reader import TopicReader
from kitlib.kafka.log import Fetch, FetchError, Record
from kitlib.lab import made, workspace
from kitlib.lab.clients import answered, client_config
from kitlib.lab.processes import wait_until
from kitlib.lab.wire import EARLIEST, Wire

SEGMENT_MS = 60_000  # so many transactions take less
APART_MS = 2 * SEGMENT_MS  # between the timestamps of two segments
CHECKPOINT = "cleaner-offset-checkpoint"
DIRTY_RATIO = "min.cleanable.dirty.ratio"
ALWAYS, NEVER = "0", "1"  # no log is dirtier than all of it
THREE_ROUNDS_S = 1.6  # of the cleaner: the kit's brokers have log.cleaner.backoff.ms=500
LONGEST_RUN_MS = 60_000
NOT_YET = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD, KafkaError._TIMED_OUT, KafkaError._TRANSPORT,
)  # fmt: skip
OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


@dataclass(slots=True)
class KafkaKeyedLog:
    """The real log. Its reader is librdkafka's consumer; what lies in it is read by the kit's own wire and from the files."""

    name: str
    stage: KafkaStage
    folder: Path  # of the partition, on its leader
    wire: Wire
    reader: Consumer
    began_s: float = field(default_factory=time.monotonic)
    min_compaction_lag_ms: int = 0
    first_ms: int = field(default_factory=lambda: int(time.time() * 1000))  # the timestamp of the first segment's records
    segment: int = 0  # how often a segment was rolled
    transactions: Producer | None = None

    @classmethod
    def open(
        cls, stage: Stage, name: str, delete_retention_ms: int, min_compaction_lag_ms: int = 0, age_ms: int = 0
    ) -> KafkaKeyedLog:
        """Create the topic. LabError when the broker refuses, or when it is not the kit's: its files cannot be read then.

        KnobError when the records would come of age while the run goes on: a broker's cleaner comes when it comes.
        """
        assert isinstance(stage, KafkaStage)
        if 0 < min_compaction_lag_ms - age_ms < LONGEST_RUN_MS:
            raise KnobError(
                f"min_compaction_lag_ms={min_compaction_lag_ms} and age_ms={age_ms}: on a real broker, the records would come of "
                f"age during the run. Let the first be {LONGEST_RUN_MS} ms more than the second, or not more at all."
            )
        cluster = stage.cluster
        if cluster.source != "kit":
            raise LabError(
                f"The cleaner of the brokers at {cluster.bootstrap} is not the kit's to watch. Unset "
                'KIT_KAFKA_BOOTSTRAP, or run it with backend="model".'
            )
        config = {
            "cleanup.policy": "compact,delete", "retention.ms": "-1", "segment.ms": str(SEGMENT_MS),
            DIRTY_RATIO: NEVER, "delete.retention.ms": str(delete_retention_ms),
            "min.compaction.lag.ms": str(min_compaction_lag_ms),
        }  # fmt: skip
        create_topic(stage.admin, name, replicas_of(cluster), config)
        made.remember("group", name)
        leader = stage.admin.list_topics(name, timeout=DEADLINE_S).topics[name].partitions[0].leader
        folder = workspace.data_dir() / f"kafka-{cluster.brokers}" / f"node-{leader}" / f"{name}-0"
        settings = {
            "group.id": name, "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
            "isolation.level": "read_committed", "fetch.wait.max.ms": 20, "fetch.error.backoff.ms": 50,
        }  # fmt: skip
        wire = TopicReader.open(cluster, name).wire  # whose broker knows that it leads
        reader = Consumer(client_config(cluster, **settings))
        first_ms = int(time.time() * 1000) - age_ms
        return cls(name, stage, folder, wire, reader, min_compaction_lag_ms=min_compaction_lag_ms, first_ms=first_ms)

    @property
    def now_ms(self) -> int:
        return int((time.monotonic() - self.began_s) * 1000)

    # -- writing -------------------------------------------------------------------------------------

    def append(self, rows: Sequence[Row], *, rolls: bool = False, transactional: bool = False) -> list[int]:
        """LabError when one is not acknowledged within DEADLINE_S."""
        self.segment += rolls
        producer = self._transactional() if transactional else self.stage.producer
        stored: list[int] = []
        troubles: list[str] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                troubles.append(error.str())
            else:
                stored.append(int(message.offset() or 0))

        try:
            for key, value in rows:
                if transactional:
                    producer.begin_transaction()
                coded = None if value is None else value.encode()
                producer.produce(
                    self.name, coded, key.encode(), partition=0, timestamp=self.first_ms + self.segment * APART_MS,
                    on_delivery=note,
                )  # fmt: skip
                if transactional:
                    producer.commit_transaction(DEADLINE_S)
            producer.flush(DEADLINE_S)
        except KafkaException as error:
            troubles.append(str(error))
        if troubles or len(stored) < len(rows):
            why = troubles[0] if troubles else f"no answer within {DEADLINE_S:g} s"
            raise LabError(f"topic {self.name}: {len(stored)} of {len(rows)} records were stored: {why}. {ADVICE}")
        if transactional:  # a marker is written after the commit has been answered
            end = stored[-1] + 2
            wait_until(lambda: self.bounds()[1] >= end, DEADLINE_S, f"the last transaction of {self.name} has its marker")
        return stored

    def _transactional(self) -> Producer:
        if self.transactions is None:
            settings = {"transactional.id": self.name, "delivery.timeout.ms": int(DEADLINE_S * 1000)}
            self.transactions = Producer(client_config(self.stage.cluster, **settings))
            self.transactions.init_transactions(DEADLINE_S)
        return self.transactions

    def delete_before(self, offset: int) -> int:
        return self.wire.delete_records(self.name, 0, offset, timeout_s=DEADLINE_S)

    # -- the cleaner ---------------------------------------------------------------------------------

    def clean(self) -> int:
        """Let the cleaner come, and wait until its checkpoint is the active segment's base. LabError after DEADLINE_S.

        Where the first segment is too young for it, it has three rounds to leave the log alone.
        """
        active = self._bases()[-1]
        self._let_clean(ALWAYS)
        if time.time() * 1000 - self.first_ms < self.min_compaction_lag_ms:
            time.sleep(THREE_ROUNDS_S)
            self._let_clean(NEVER)
            return self._checkpoint()
        wait_until(lambda: self._checkpoint() >= active, DEADLINE_S, f"the cleaner has been over {self.name}-0 up to {active}")
        self._let_clean(NEVER)
        return self._checkpoint()

    def _let_clean(self, ratio: str) -> None:
        """From how dirty a log on the cleaner comes: between two calls of `clean` never, however slow the story is."""
        admin = self.stage.admin
        set_topic(admin, self.name, DIRTY_RATIO, int(ratio))
        where = ConfigResource(ResourceType.TOPIC, self.name)

        def has_it() -> bool:
            found = answered(admin.describe_configs([where])[where], f"topic {self.name} does not tell its settings")
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

    # -- reading -------------------------------------------------------------------------------------

    def bounds(self) -> tuple[int, int]:
        return self.wire.list_offsets(self.name, 0, EARLIEST), self.wire.list_offsets(self.name, 0)

    def fetch(self, offset: int) -> Fetch:
        """Everything from the offset on to the end that the log has now. LabError after DEADLINE_S."""
        end = self.bounds()[1]
        records: list[Record] = []
        self.reader.assign([TopicPartition(self.name, 0, offset)])
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            message = self.reader.poll(0.5)
            error = message.error() if message is not None else None
            if message is None:
                continue
            if error is None:
                _, at_ms = message.timestamp()
                records.append(Record(int(message.offset() or 0), message.value(), message.key(), at_ms))
            elif error.code() in OUT_OF_RANGE:
                return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
            elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= end:
                return Fetch(records)
        raise LabError(f"{self.name}-0: from offset {offset} on {len(records)} records, no end within {DEADLINE_S:g} s. {ADVICE}")

    def commit(self, offset: int) -> None:
        where = TopicPartition(self.name, 0, offset)
        self._ask(lambda: self.reader.commit(offsets=[where], asynchronous=False), f"commit {offset}")

    def committed(self) -> int | None:
        where = TopicPartition(self.name, 0)
        found = self._ask(lambda: self.reader.committed([where], timeout=DEADLINE_S), "tell its committed offset")
        return int(found[0].offset) if found[0].offset >= 0 else None

    def _ask(self, question: Callable[[], Any], what: str) -> Any:
        """The group's coordinator is asked again while it is looked for or loads. LabError after DEADLINE_S."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return question()
            except KafkaException as error:
                if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                    raise LabError(f"{self.name}-0: its reader cannot {what}: {error.args[0].str()}. {ADVICE}") from error
                time.sleep(0.05)

    def look(self) -> LogLook:
        start, end = self.bounds()
        bases = [*self._bases(), end]
        batches = self.wire.read_all(self.name, 0, timeout_s=DEADLINE_S)
        records = [
            (offset, (key or b"").decode(errors="replace"), None if value is None else value.decode(errors="replace"))
            for batch in batches
            if not batch.is_control
            for offset, _, key, value in batch.records
            if offset >= start
        ]
        segments = [(base, bases[at + 1], at + 2 == len(bases)) for at, base in enumerate(bases[:-1])]
        return LogLook(segments, records, self._dirty_ratio())

    def _dirty_ratio(self) -> float:
        checkpoint, bases = self._checkpoint(), self._bases()
        sizes = {base: self._size(base) for base in bases[:-1]}
        clean = sum(size for base, size in sizes.items() if base < checkpoint)
        total = sum(sizes.values())
        return (total - clean) / total if total else 0.0

    def _size(self, base: int) -> int:
        try:
            return (self.folder / f"{base:020d}.log").stat().st_size
        except OSError:  # the cleaner is just replacing it
            return 0

    # -- time ----------------------------------------------------------------------------------------

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def close(self) -> None:
        self.reader.close()
        self.wire.close()
