"""A real topic of transactions, and a real consumer of it: one of the three libraries, in a process of its own."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kitlib.errors import LabError
from kitlib.experiments.groups.group_stage import Library, MemberSettings
from kitlib.experiments.groups.kafka_members import find_coordinator
from kitlib.experiments.kafka_group import ADVICE, DEADLINE_S
from kitlib.experiments.kafka_stage import KafkaStage, create_topic, replicas_of
from kitlib.experiments.stage import Stage
from kitlib.lab import made
from kitlib.lab.clients import client_config
from kitlib.lab.consumer_driver import NONE
from kitlib.lab.consumer_process import ConsumerProcess
from kitlib.lab.processes import wait_until
from kitlib.lab.wire import Wire

POLL_MS = 100
MOST = 500  # records in a poll


@dataclass(slots=True)
class KafkaMarkerLog:
    """The real topic: librdkafka's transactional producer writes it."""

    name: str
    producer: Producer
    consumer: ConsumerProcess
    wire: Wire
    asker: Consumer  # of the same group, and never a member
    began_s: float = field(default_factory=time.monotonic)
    log_end: int = 0
    read_to: int = 0  # the offset after the last record that was handed out

    @classmethod
    def open(cls, stage: Stage, name: str, library: str) -> KafkaMarkerLog:
        """Create the topic and start the consumer. LabError when the broker refuses or is too slow."""
        assert isinstance(stage, KafkaStage)
        cluster = stage.cluster
        create_topic(stage.admin, name, replicas_of(cluster), {"retention.ms": "-1"})
        made.remember("group", name)
        find_coordinator(cluster, name, name)
        settings = {"transactional.id": name, "delivery.timeout.ms": int(DEADLINE_S * 1000)}
        producer = Producer(client_config(cluster, **settings))
        try:
            producer.init_transactions(DEADLINE_S)
        except KafkaException as error:
            raise LabError(f"topic {name}: its producer cannot start: {error.args[0].str()}. {ADVICE}") from error
        chosen: Library = library  # type: ignore[assignment]  # a knob's choice
        patient = MemberSettings(library=chosen, session_timeout_ms=10_000, heartbeat_interval_ms=1_000, max_poll_interval_ms=60_000)
        told = asdict(patient) | {
            "topic": name, "group": name, "client_id": "A", "more": {}, "bootstrap": cluster.bootstrap,
        }  # fmt: skip
        consumer = ConsumerProcess.start("A", told)
        try:
            wire = Wire.open_leader(cluster.bootstrap, name, timeout_s=DEADLINE_S)
        except BaseException:
            consumer.kill()
            raise
        return cls(name, producer, consumer, wire, Consumer(client_config(cluster, **{"group.id": name})))

    @property
    def now_ms(self) -> int:
        return int((time.monotonic() - self.began_s) * 1000)

    def transaction(self, records: int) -> list[int]:
        """LabError when it is refused, or its marker does not come within DEADLINE_S."""
        try:
            self.producer.begin_transaction()
            for number in range(records):
                self.producer.produce(self.name, b"record %d" % number, partition=0)
            self.producer.commit_transaction(DEADLINE_S)
        except KafkaException as error:
            raise LabError(f"topic {self.name}: a transaction was not committed: {error.args[0].str()}. {ADVICE}") from error
        first, after = self.log_end, self.log_end + records + 1
        wait_until(lambda: self.end() == after, DEADLINE_S, f"{self.name}-0 ends at {after}, with the transaction's marker")
        self.log_end = after
        return list(range(first, first + records))

    def poll(self) -> list[int]:
        """Poll until the records of all transactions have come. LabError after DEADLINE_S."""
        found: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        while self.read_to < self.log_end - 1:
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}-0: read up to {self.read_to}, expected {self.log_end - 1}. {ADVICE}")
            for _, offset in self.consumer.poll(MOST, POLL_MS)[0]:
                found.append(offset)
                self.read_to = offset + 1
        return found

    def commit(self, offset: int | None) -> int:
        """With None it polls on until its position is at the end. LabError when it is refused, or after DEADLINE_S."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            error, _ = self.consumer.commit(None if offset is None else {0: offset})
            found = self._committed()
            if offset is not None and error == NONE:
                return found
            if found == self.log_end:
                return found
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}-0: committed {found} ({error}), the log ends at {self.log_end}. {ADVICE}")
            self.consumer.poll(MOST, POLL_MS)

    def _committed(self) -> int:
        try:
            return int(self.asker.committed([TopicPartition(self.name, 0)], timeout=DEADLINE_S)[0].offset)
        except KafkaException as error:
            raise LabError(f"group {self.name}: its offset is unknown: {error.args[0].str()}. {ADVICE}") from error

    def end(self) -> int:
        return self.wire.list_offsets(self.name, 0)

    def close(self) -> None:
        self.consumer.kill()
        self.asker.close()
        self.wire.close()
