"""A rebalance in two logs: what Java's consumer writes of it, and what the coordinator writes, read as evidence.

Two real consumers of one group run in a JVM whose logger is switched on; the second one joins while the first one reads.
Each line that tells of the rebalance is given the step of it that it is about:

    1 stop      the consumer gives its partitions up
    2 commit    it commits where it was
    3 assign    the group joins again, and its leader assigns the partitions
    4 offsets   the consumer asks where to begin: the `initOffset` of old, "Setting offset" today
    5 resume    it goes on

What is not written is evidence, too: a commit that succeeds has no line.

Source: Apache Kafka 4.3.1, `ConsumerCoordinator`, `SubscriptionState`, `ConsumerUtils`, `GroupMetadataManager`, `CoordinatorRuntime`.
"""

from __future__ import annotations

import re
import tempfile
import time
import uuid
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab import created_resources, workspace
from kitlib.lab.clients import Cluster, must_be_own
from kitlib.lab.java_client import JavaClient
from kitlib.text import plain_text

RECORDS = 6
DEADLINE_S = 30.0
POLL_MS = 50
MEMBER_ID = re.compile(r"(?<=[\w.])-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
POSITION = re.compile(r"FetchPosition\{offset=(\d+).*")
SHARES = re.compile(r"(Finished assignment for group at generation \d+): .*")  # by random member ids, so in any order
TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ \S+ - ")
# Which step a consumer's line is about; what matches none of these is left out.
CONSUMER = (
    (1, "stop", re.compile(r"Revoke previously assigned partitions|Giving away all assigned partitions")),
    (3, "assign", re.compile(r"\(Re-\)joining group|Successfully (?:joined|synced) group|Finished assignment|Adding newly assigned")),
    (4, "offsets", re.compile(r"Setting offset for partition|Found no committed offset|Resetting offset")),
)
# What the coordinator's lines tell; the same.
COORDINATOR = (
    ("join", re.compile(r"(?P<who>\S+) joins group .* Adding to the group now")),
    ("rebalance", re.compile(r"Preparing to rebalance group .* with old generation (?P<generation>\d+) \(reason: (?P<why>.*)\)")),
    ("stable", re.compile(r"Stabilized group \S+ generation (?P<generation>\d+) with (?P<members>\d+) members")),
    ("assigned", re.compile(r"Assignment received from leader (?P<who>\S+) .* generation (?P<generation>\d+)")),
    ("gone", re.compile(r"Member (?P<who>\S+) in group \S+ has (?P<why>failed|left)")),
    ("loaded", re.compile(r"Finished loading of metadata from (?P<who>\S+) .* in (?P<ms>\d+)ms .* Loaded (?P<records>\d+) records")),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log that tells of a rebalance."""

    step: str  # "3 assign" of a consumer, "stable" of a coordinator
    who: str  # the consumer or the broker that wrote it
    text: str  # without time, class, and the random part of member ids

    def __str__(self) -> str:
        return f"{self.who:10} {self.step:10} {self.text}"


@dataclass(frozen=True, slots=True)
class RebalanceLines:
    """What both sides wrote, each in its own order."""

    consumers: tuple[Line, ...]
    coordinator: tuple[Line, ...]


def consumer_lines(lines: Iterable[str]) -> list[Line]:
    """The lines of Java consumers that tell of a rebalance; `who` is the client id, "" in the one that does not name it."""
    found = []
    for line in lines:
        text = TIME.sub("", line)
        head = re.match(r"\[Consumer clientId=(?P<who>[^,\]]+)[^\]]*\] ", text)
        step = next((f"{number} {name}" for number, name, wanted in CONSUMER if wanted.search(text)), "")
        if step and (head or text.startswith("Setting offset")):
            found.append(Line(step, head["who"] if head else "", _plain(text[head.end() :] if head else text)))
    return found


def coordinator_lines(lines: Iterable[str], group: str) -> list[Line]:
    """The lines of a broker that tell of this group, or of a coordinator that has loaded its groups."""
    found = []
    for line in lines:
        for step, wanted in COORDINATOR:
            told = wanted.search(line)
            if told and (step == "loaded" or f"group {group} " in line):
                fields = {name: _plain(value) for name, value in told.groupdict().items()}
                if "why" in fields:
                    fields["why"] = re.split(r" with group instance|;|\(", fields["why"])[0].strip()
                found.append(Line(step, "broker", ", ".join(f"{name} {value}" for name, value in fields.items())))
    return found


def _plain(text: str) -> str:
    return plain_text(SHARES.sub(r"\1", POSITION.sub(r"\1", MEMBER_ID.sub("", text))), 200)


def broker_log(cluster: Cluster) -> list[str]:
    """What the kit's own brokers have written since they were started, the oldest line first. LabError for anybody else's."""
    must_be_own(cluster, "the log of a broker")
    files = sorted(cluster.log_dir.glob("node-*.log")) if cluster.log_dir else []
    return [line for file in files for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]


def observe_rebalance(backend: KafkaBackend) -> RebalanceLines:
    """Let a second Java consumer join a group of one, and read what the consumers and the coordinator have written.

    The first one has read and committed some records. LabError when the group does not settle within 30 s, or when the
    broker is not the kit's own.
    """
    before = len(broker_log(backend.cluster))
    topic = backend.create_topic(f"seen-{uuid.uuid4().hex[:8]}", RECORDS)
    topic.append([b"%d" % number for number in range(RECORDS)])
    group = f"{topic.name}.group"
    created_resources.remember("group", group)
    with tempfile.TemporaryDirectory(dir=workspace.run_dir()) as folder:
        file = Path(folder) / "consumers.log"
        options = [
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer=info", "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS", "-Dorg.slf4j.simpleLogger.showThreadName=false",
            f"-Dorg.slf4j.simpleLogger.logFile={file}",
        ]  # fmt: skip
        with JavaClient.open(options) as java, closing(_TwoConsumers(java.jvm, backend.cluster.bootstrap, group, topic.name)) as two:
            two.join("A")
            two.join("B")
            written, told = file.read_text(encoding="utf-8", errors="replace"), broker_log(backend.cluster)[before:]
    lines = written.replace(topic.name, "seen").splitlines()
    found = [line for line in coordinator_lines(told, group) if line.step != "loaded"]
    return RebalanceLines(tuple(consumer_lines(lines)), tuple(found))


@dataclass(slots=True)
class _TwoConsumers:
    """Java's consumers of one group, polled in turn by one thread."""

    jvm: Any
    bootstrap: str
    group: str
    topic: str
    consumers: list[Any] = field(default_factory=list)

    def join(self, name: str) -> None:
        """One more joins; then the one that has the partition reads to its end and commits."""
        kept = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        consumer = self.jvm.org.apache.kafka.clients.consumer.KafkaConsumer({
            "bootstrap.servers": self.bootstrap, "group.id": self.group, "client.id": name, "group.protocol": "classic",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor", "auto.offset.reset": "earliest",
            "enable.auto.commit": "false", "heartbeat.interval.ms": "200", "key.deserializer": kept, "value.deserializer": kept,
        })  # fmt: skip
        self.consumers.append(consumer)
        consumer.subscribe([self.topic])
        deadline = time.monotonic() + DEADLINE_S
        while not self.is_settled():
            if time.monotonic() > deadline:
                raise LabError(f"group {self.group}: {name} did not settle within {DEADLINE_S:g} s. Look at `kit status`.")
            for each in self.consumers:
                each.poll(self.jvm.java.time.Duration.ofMillis(POLL_MS))
        self.consumers[0].commitSync()

    def is_settled(self) -> bool:
        """Whether all are of the newest generation, and the first one has read the partition to its end."""
        generations = {consumer.groupMetadata().generationId() for consumer in self.consumers}
        place = self.jvm.org.apache.kafka.common.TopicPartition(self.topic, 0)
        first = self.consumers[0]
        is_read = first.assignment().contains(place) and first.position(place) == RECORDS
        return bool(generations == {len(self.consumers)} and is_read)

    def close(self) -> None:
        """Leave, the last one first."""
        for consumer in reversed(self.consumers):
            consumer.close(self.jvm.java.time.Duration.ofSeconds(5))
