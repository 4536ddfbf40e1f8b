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
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab import created_resources, workspace
from kitlib.lab.clients import Cluster, must_be_own
from kitlib.lab.java_client import JavaClient
from kitlib.lab.processes import wait_until
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
        with JavaClient.open(options) as java, ExitStack() as members:
            consumers: list[Any] = []
            for name in ("A", "B"):
                consumers.append(_consumer(java.jvm, backend.cluster, group, name))
                members.callback(consumers[-1].close, java.jvm.java.time.Duration.ofSeconds(5))
                _settle(java.jvm, topic.name, consumers)
            written, told = file.read_text(encoding="utf-8", errors="replace"), broker_log(backend.cluster)[before:]
    lines = written.replace(topic.name, "seen").splitlines()
    found = [line for line in coordinator_lines(told, group) if line.step != "loaded"]
    return RebalanceLines(tuple(consumer_lines(lines)), tuple(found))


def _consumer(jvm: Any, cluster: Cluster, group: str, name: str) -> Any:
    kept = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    return jvm.org.apache.kafka.clients.consumer.KafkaConsumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": group, "client.id": name, "group.protocol": "classic",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor", "auto.offset.reset": "earliest",
        "enable.auto.commit": "false", "heartbeat.interval.ms": "200", "key.deserializer": kept, "value.deserializer": kept,
    })  # fmt: skip


def _settle(jvm: Any, topic: str, consumers: list[Any]) -> None:
    """The last one joins, all are polled by one thread until they are of the newest generation, and the first one reads and commits."""
    consumers[-1].subscribe([topic])
    first, place, poll_for = consumers[0], jvm.org.apache.kafka.common.TopicPartition(topic, 0), jvm.java.time.Duration.ofMillis(POLL_MS)

    def is_settled() -> bool:
        for each in consumers:
            each.poll(poll_for)
        is_newest = {each.groupMetadata().generationId() for each in consumers} == {len(consumers)}
        return bool(is_newest and first.assignment().contains(place) and first.position(place) == RECORDS)

    wait_until(is_settled, DEADLINE_S, f"{len(consumers)} consumers of {topic} have settled")
    first.commitSync()
