"""Real consumers that commit with or without the leader epoch, and go on from what was committed: Java's and librdkafka's.

A partition is assigned by hand, so nobody waits for a rebalance; the offsets are a real group's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from py4j.protocol import Py4JJavaError

from kitlib.errors import LabError
from kitlib.experiments.topic_reader import PARTITION
from kitlib.kafka.replication.resume import Library
from kitlib.lab import made
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.java_client import JavaClient, message_of

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
    """The consumers of one run. The JVM for Java's is started when the first one is asked for."""

    cluster: Cluster
    topic: str
    group: str
    room: ExitStack = field(default_factory=ExitStack)
    java: JavaClient | None = None

    @classmethod
    @contextmanager
    def open(cls, cluster: Cluster, topic: str) -> Iterator[Readers]:
        readers = cls(cluster, topic, f"{topic}.group")
        made.remember("group", readers.group)
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
