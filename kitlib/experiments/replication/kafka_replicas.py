"""A partition on two or three real brokers: records, deaths, a flipped bit, and readers that go on after it.

The run's model says what should come of each deed, and this waits until the brokers say the same. Brokers
die by SIGKILL and are held dead. Node 1 is the only controller and must live.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from py4j.protocol import Py4JJavaError

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.experiments.topic_reader import PARTITION, TopicReader
from kitlib.lab import created_resources, kafka_server, workspace
from kitlib.lab.brokers.leaders import Leaders, Partition
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.java_client import JavaClient, message_of
from kitlib.mechanisms.replication.controller import NO_LEADER
from kitlib.mechanisms.replication.epochs import Library
from kitlib.mechanisms.replication.partition import ReplicatedPartition, ReplicationConfig

DEADLINE_S = 30.0
MOST = 100_000  # records that one reader is asked for
QUIET_S = 0.5  # so long a reader that has all it should get is watched for more
DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
# What the libraries call the errors of a start, and the run's names for them.
ERRORS = {
    "OffsetOutOfRangeException": "OffsetOutOfRange", "LogTruncationException": "LogTruncation",
    "NoOffsetForPartitionException": "NoOffsetForPartition",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadOn:
    """What a reader was handed out from its start on: offsets, or the error instead."""

    offsets: tuple[int, ...] = ()
    error: str = ""


@dataclass(slots=True)
class Readers:
    """Consumers that commit with or without the leader epoch, and go on from what was committed: Java's and librdkafka's.

    A partition is assigned by hand, so nobody waits for a rebalance; the offsets are a real group's. The JVM
    for Java's is started when the first one is asked for.
    """

    cluster: Cluster
    topic: str
    group: str
    room: ExitStack = field(default_factory=ExitStack)
    java: JavaClient | None = None

    @classmethod
    @contextmanager
    def open(cls, cluster: Cluster, topic: str) -> Iterator[Readers]:
        readers = cls(cluster, topic, f"{topic}.group")
        created_resources.remember("group", readers.group)
        with readers.room:
            yield readers

    def read(self, library: Library, policy: str, most: int, expected: int, commit_epoch: bool | None) -> ReadOn:
        """A new consumer begins at the group's committed offset, reads, commits what it has read, and is closed.

        It reads until it has `expected` records and no more come for QUIET_S, `most` at most. `commit_epoch`: whether the
        leader epoch goes with the offset; None: nothing is committed. LabError when fewer come within DEADLINE_S.
        """
        reader: _Java | _Librdkafka = _Java(self, policy) if library == "java" else _Librdkafka(self, policy)
        try:
            return self._read(reader, min(most, MOST), expected, commit_epoch)
        finally:
            reader.close()

    def _read(self, reader: _Java | _Librdkafka, most: int, expected: int, commit_epoch: bool | None) -> ReadOn:
        offsets: list[int] = []
        deadline, quiet_since = time.monotonic() + DEADLINE_S, time.monotonic()
        while len(offsets) < most:
            found, error = reader.poll(most - len(offsets))
            if error:
                return ReadOn(tuple(offsets), error)
            now = time.monotonic()
            if found or len(offsets) < expected or not reader.is_placed():
                quiet_since = now
            offsets += found
            if len(offsets) >= expected and now - quiet_since > QUIET_S:
                break
            if now > deadline:
                raise LabError(
                    f"{self.topic}-0: a reader of group {self.group} was handed {len(offsets)} records within {DEADLINE_S:g} s, expected "
                    f"{expected}. Look at `kit status`."
                )
        if offsets and commit_epoch is not None:
            self._commit(reader, offsets[-1] + 1, commit_epoch)
        return ReadOn(tuple(offsets))

    def _commit(self, reader: _Java | _Librdkafka, next_offset: int, with_epoch: bool) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while trouble := reader.commit(next_offset, with_epoch):
            if time.monotonic() > deadline:
                raise LabError(f"group {self.group}: offset {next_offset} could not be committed within {DEADLINE_S:g} s: {trouble}.")

    @property
    def jvm(self) -> Any:
        if self.java is None:
            self.java = self.room.enter_context(JavaClient.open())
        return self.java.jvm


class _Librdkafka:
    """confluent_kafka's Consumer with one partition, assigned by hand."""

    def __init__(self, readers: Readers, policy: str) -> None:
        self.where = (readers.topic, PARTITION)
        self.is_at_end = False
        self.consumer = Consumer(client_config(readers.cluster, **{
            "group.id": readers.group, "auto.offset.reset": "error" if policy == "none" else policy, "enable.auto.commit": False,
            "enable.partition.eof": True, "fetch.wait.max.ms": 50, "fetch.error.backoff.ms": 50,
        }))  # fmt: skip
        self.consumer.assign([TopicPartition(*self.where)])

    def poll(self, most: int) -> tuple[list[int], str]:
        found: list[int] = []
        for message in self.consumer.consume(most, 0.1):
            error = message.error()
            if error is None:
                found.append(int(message.offset() or 0))
            elif error.name() == "_PARTITION_EOF":
                self.is_at_end = True
            elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_NO_OFFSET"):
                return found, "NoOffsetForPartition" if "no previously committed" in error.str().lower() else "OffsetOutOfRange"
        return found, ""

    def is_placed(self) -> bool:
        """Whether it has found where to begin."""
        return self.is_at_end or self.consumer.position([TopicPartition(*self.where)])[0].offset >= 0

    def commit(self, next_offset: int, with_epoch: bool) -> str:
        """"" or why it was not committed."""
        try:
            if with_epoch:  # librdkafka takes the epoch of the last record that it handed out
                done = self.consumer.commit(asynchronous=False)
            else:
                done = self.consumer.commit(offsets=[TopicPartition(*self.where, next_offset)], asynchronous=False)
        except KafkaException as error:
            return str(error)
        return next((str(each.error) for each in done or () if each.error is not None), "")

    def close(self) -> None:
        self.consumer.close()


class _Java:
    """KafkaConsumer with one partition, assigned by hand."""

    def __init__(self, readers: Readers, policy: str) -> None:
        self.jvm = readers.jvm
        kafka = self.jvm.org.apache.kafka
        self.where = kafka.common.TopicPartition(readers.topic, PARTITION)
        self.epoch: Any = None  # of the last record that was taken
        self.consumer = kafka.clients.consumer.KafkaConsumer({
            "bootstrap.servers": readers.cluster.bootstrap, "group.id": readers.group, "auto.offset.reset": policy,
            "enable.auto.commit": "false", "key.deserializer": DESERIALIZER, "value.deserializer": DESERIALIZER,
            "reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "500", "fetch.max.wait.ms": "50", "retry.backoff.ms": "50",
        })  # fmt: skip
        self.consumer.assign([self.where])

    def poll(self, most: int) -> tuple[list[int], str]:
        try:
            records = self.consumer.poll(self.jvm.java.time.Duration.ofMillis(100))
        except Py4JJavaError as error:
            name = str(error.java_exception.getClass().getSimpleName())
            if name not in ERRORS:
                raise LabError(f"Java's consumer fails with {message_of(error)}. Look at `kit status`.") from None
            return [], ERRORS[name]
        found = list(records.records(self.where))
        offsets = [int(record.offset()) for record in found[:most]]
        if offsets:
            self.epoch = found[len(offsets) - 1].leaderEpoch()
        return offsets, ""

    def is_placed(self) -> bool:
        """Whether it knows how far the log goes, which its first answer to a fetch tells."""
        try:
            return bool(self.consumer.currentLag(self.where).isPresent())
        except Py4JJavaError:
            return False

    def commit(self, next_offset: int, with_epoch: bool) -> str:
        """"" or why it was not committed."""
        more = (self.epoch, "") if with_epoch else ()  # as commitSync() without offsets does it
        offsets = self.jvm.java.util.HashMap()
        offsets.put(self.where, self.jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(next_offset, *more))
        try:
            self.consumer.commitSync(offsets)
        except Py4JJavaError as error:
            return message_of(error)
        return ""

    def close(self) -> None:
        self.consumer.close(self.jvm.java.time.Duration.ofMillis(2_000))


SENT_S = 20.0  # how long a record may take that is expected to be stored
REFUSED_MS = 1_000  # how long the producer tries one that is expected to be refused
CONTROLLER = 1


@dataclass(slots=True)
class KafkaReplicas:
    """Partition 0 of a real topic with copies on chosen brokers of the kit's three."""

    backend: KafkaBackend
    cluster: Cluster
    topic: str
    readers: Readers
    leaders: Leaders | None = None
    dead: list[int] = field(default_factory=list)
    paused: list[psutil.Process] = field(default_factory=list)

    @classmethod
    def open(cls, backend: KafkaBackend) -> KafkaReplicas:
        """LabError without three brokers of the kit's own."""
        cluster = backend.cluster
        if cluster.brokers < 3 or cluster.source != "kit":
            raise LabError(
                f"This needs three brokers of the kit's own, the cluster at {cluster.bootstrap} has {cluster.brokers}. Run "
                "`kit down`, then `kit up --brokers 3`; or run it on the model."
            )
        topic = f"kit.{backend.run}.events"
        return cls(backend, cluster, topic, backend.opened.enter_context(Readers.open(cluster, topic)))

    @property
    def now_ms(self) -> int:
        return self.backend.now_ms

    def create(self, brokers: Sequence[int], config: ReplicationConfig) -> None:
        settings = {
            "min.insync.replicas": str(config.min_insync_replicas), "retention.ms": "-1",
            "unclean.leader.election.enable": str(config.unclean_leader_election).lower(),
        }  # fmt: skip
        self.leaders = Leaders.create(self.cluster, self.topic, brokers, settings)

    def send(self, numbers: Sequence[int], is_taken: bool) -> str:
        """Send one record for each number with acks=all, one after the other; "" or why the first one was refused.

        LabError when one that should be stored is not, within SENT_S.
        """
        limit_ms = int(SENT_S * 1000) if is_taken else REFUSED_MS
        producer = Producer(client_config(self.cluster, **{
            "acks": "all", "linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 1, "delivery.timeout.ms": limit_ms,
            "request.timeout.ms": limit_ms, "retry.backoff.ms": 50, "enable.idempotence": is_taken,
        }))  # fmt: skip
        errors: list[str] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(str(error.name()))

        for number in numbers if is_taken else numbers[:1]:
            producer.produce(self.topic, value=b"%d" % number, partition=PARTITION, on_delivery=told)
        left = producer.flush(SENT_S + 5)
        if left or (errors and is_taken):
            raise LabError(
                f"{self.topic}-0: {left + len(errors)} of {len(numbers)} records were not stored within {SENT_S:g} s: "
                f"{errors[:1] or 'no answer'}. Look at `kit status`."
            )
        return errors[0] if errors else ""

    def kill(self, broker: int) -> None:
        kafka_server.kill_node(broker, hold=True)
        self.dead.append(broker)

    def start(self, broker: int) -> None:
        if broker in self.dead:
            kafka_server.start_node(broker)
            self.dead.remove(broker)

    def pause(self, broker: int) -> None:
        """SIGSTOP: it answers nobody, and its connections stay open."""
        pids = {each.node: each.pid for each in kafka_server.status().nodes}
        process = psutil.Process(pids[broker])
        process.suspend()
        self.paused.append(process)

    def wake(self) -> None:
        """SIGCONT for every paused one."""
        while self.paused:
            self.paused.pop().resume()

    def flip_bit(self, broker: int, offset: int) -> None:
        """Flip a bit in the last byte of a record's batch, which holds that record alone, on a dead broker's disk."""
        segments = sorted(_data_of(broker).glob(f"{self.topic}-{PARTITION}/*.log"))
        for path in segments:
            data, at = bytearray(path.read_bytes()), 0
            while at + 12 <= len(data):
                base, size = int.from_bytes(data[at : at + 8], "big"), 12 + int.from_bytes(data[at + 8 : at + 12], "big")
                if base == offset:
                    data[at + size - 2] ^= 1  # inside of the value, before the count of headers
                    path.write_bytes(data)
                    return
                at += size
        raise LabError(f"broker {broker}: offset {offset} of {self.topic}-0 is in none of its {len(segments)} segments. Look at its data.")

    def settle(self, model: ReplicatedPartition) -> Partition:
        """Wait until the brokers say of the partition what the model says: leader and in-sync set. LabError when they do not."""
        state, leaders = model.state, self._leaders

        def agrees(found: Partition) -> bool:
            return found.leader == state.leader and (state.leader == NO_LEADER or set(found.in_sync) == set(state.in_sync))

        return leaders.wait(agrees, f"leader {state.leader} and in sync {list(state.in_sync)}, as the model has it,")

    def read_log(self) -> list[int]:
        """The numbers of all records that its leader hands out, in the log's order."""
        with TopicReader.open(self.cluster, self.topic) as reader:
            return [int(value) for value in reader.read()[1]]

    def lead(self, brokers: Sequence[int]) -> None:
        """Make the first of them the leader, in order."""
        self._leaders.move(brokers)

    @property
    def _leaders(self) -> Leaders:
        if self.leaders is None:
            raise LabError(f"{self.topic}: the topic does not exist yet. Create it first.")
        return self.leaders

    def close(self) -> None:
        """Every broker runs again."""
        with ExitStack() as rest:
            for broker in list(self.dead):
                rest.callback(self.start, broker)
            self.wake()


def _data_of(broker: int) -> Path:
    """Where a broker of the kit's set of three keeps its logs."""
    found = sorted(workspace.data_dir().glob(f"kafka-3/node-{broker}"))
    if not found:
        raise LabError(f"broker {broker} has no folder in {workspace.data_dir()}. Look at `kit status`.")
    return found[0]
