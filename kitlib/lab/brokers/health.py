"""What a running broker still tells about its offsets topic without a JMX port: its own answers, and its own files.

The figures that one would watch are gauges of the broker (kafka.log:type=LogCleanerManager,name=max-dirty-percent;
kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets and NumGroups), and gauges are read over JMX, which
is a port. The kit opens none. The broker's reporter that writes gauges to files is no way round: it gives each
gauge a file by its last name alone, and ends at the second one of a name.

So: groups are listed by the group protocol, and the coordinator's cache is what it answers (`cached_offsets`). The
bytes of the topic, and where the last pass of the cleaner ended, stand in the broker's data, and only for the kit's own
brokers can that be read.

Source: Apache Kafka 4.3.1, `LogCleanerManager` (cleaner-offset-checkpoint), `GroupCoordinatorMetrics`,
`KafkaCSVMetricsReporter`; Yammer metrics-core 2.2.0, `CsvReporter.createStreamForMetric`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kitlib.errors import LabError
from kitlib.lab import workspace
from kitlib.lab.clients import Cluster, addresses, client_config, kafka_python_config
from kitlib.lab.offsets_topic import OFFSETS_TOPIC
from kitlib.lab.wire.connection import NOT_YET
from kitlib.lab.wire.coordinator import CoordinatorWire

ALL_S = 60.0  # for all groups together
ONE_S = 10.0
AT_ONCE = 50
ASK_AGAIN_S = 0.1

Cached = dict[tuple[str, int], int]  # topic and partition -> offset
Told = Cached | str | None  # None: the coordinator is not ready; a sentence: there will be no answer


@dataclass(frozen=True, slots=True)
class Answers:
    """Each group's committed offsets, and why the others have no answer."""

    offsets: dict[str, Cached] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)


def cached_offsets(cluster: Cluster, admin: AdminClient, groups: Iterable[str], timeout_s: float = ALL_S) -> Answers:
    """Ask for all offsets of each group; a coordinator that is not ready is asked again, until `timeout_s` is over.

    The kit's own brokers are asked by the protocol itself. Another cluster may want a password, so there the client
    asks, many groups at once. One deadline holds for all groups, and who did not answer is told with the reason.
    Source: Apache Kafka 4.3.1, OffsetFetch; `KafkaApis.fetchAllOffsetsForGroup`, which leaves topics out that one may not describe.

    Only of groups that `list_groups` has just named: to ask for a coordinator can make brokers create the topic, and
    the client may crash on one that is not ready.
    """
    found, waiting, deadline_s = Answers(), list(groups), time.monotonic() + timeout_s
    while waiting:
        asked = _by_wire(cluster, waiting, deadline_s) if cluster.source == "kit" else _by_client(admin, waiting, deadline_s)
        waiting = []
        for group, told in asked:
            if isinstance(told, dict):
                found.offsets[group] = told
            elif told is None and time.monotonic() < deadline_s:
                waiting.append(group)
            else:
                found.silent[group] = told or f"its coordinator was not ready within {timeout_s:g} s"
        if waiting:
            time.sleep(ASK_AGAIN_S)
    return found


def unseen_topics(admin: AdminClient, topics: Iterable[str]) -> set[str]:
    """Those of the topics that one may not describe, or that nobody tells of: a coordinator keeps silent about them, too."""
    names = sorted(set(topics))
    unseen = set()
    for name, asked in admin.describe_topics(TopicCollection(names), request_timeout=ONE_S).items() if names else ():
        try:
            asked.result(ONE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                unseen.add(name)
        except TimeoutError:
            unseen.add(name)
    return unseen


def _by_wire(cluster: Cluster, groups: Sequence[str], deadline_s: float) -> Iterator[tuple[str, Told]]:
    with ExitStack() as stack:
        wires: dict[tuple[str, int], CoordinatorWire] = {}

        def wire_to(host: str, port: int) -> CoordinatorWire:
            if (host, port) not in wires or not wires[host, port].is_open:
                wires[host, port] = stack.enter_context(CoordinatorWire.open(host, port, timeout_s=ONE_S, **kafka_python_config(cluster)))
            return wires[host, port]

        def told_of(group: str) -> Told:
            coordinator = wire_to(*_living(cluster, wire_to)).find(group)
            if coordinator is None:
                return None
            error, offsets = wire_to(*coordinator[1:]).fetch_offsets(group, None, require_stable=False)
            if error in NOT_YET:
                return None
            return f"its coordinator answers error {error}" if error else {where: at for where, at in offsets.items() if at >= 0}

        for group in groups:
            if time.monotonic() > deadline_s:
                yield group, "it was not asked in time"
                continue
            try:
                told = told_of(group)
            except LabError as error:
                told = str(error)
            yield group, told


def _living(cluster: Cluster, wire_to: Callable[[str, int], Any]) -> tuple[str, int]:
    """The address of the first broker that answers. LabError of the last one when none does."""
    *others, last = addresses(cluster.bootstrap)
    for where in others:
        with suppress(LabError):
            wire_to(*where)
            return where
    wire_to(*last)
    return last


def _by_client(admin: AdminClient, groups: Sequence[str], deadline_s: float) -> Iterator[tuple[str, Told]]:
    for first in range(0, len(groups), AT_ONCE):
        some = groups[first : first + AT_ONCE]
        if (rest_s := min(ONE_S, deadline_s - time.monotonic())) <= 0:
            yield from ((group, "it was not asked in time") for group in some)
            continue
        ends_s = time.monotonic() + rest_s
        asked: dict[str, Future[Any]] = {
            group: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=rest_s)[group]
            for group in some
        }
        for group, answer in asked.items():
            yield group, _told_by(answer, max(0.0, ends_s - time.monotonic()))


def _told_by(answer: Future[Any], rest_s: float) -> Told:
    try:
        told = answer.result(rest_s).topic_partitions or ()
    except KafkaException as error:
        return None if error.args[0].code() in NOT_YET else str(error.args[0].str())
    except TimeoutError:
        return f"no answer within {ONE_S:g} s"
    return {(each.topic, each.partition): each.offset for each in told if each.offset >= 0}


ANSWER_S = 10.0
CHECKPOINT = "cleaner-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """One partition of the offsets topic on one broker's disk."""

    partition: int
    segments: tuple[tuple[int, int], ...]  # (first offset that may be in it, bytes), the last one is active
    first_dirty: int | None  # where the last pass of the cleaner ended; None before the first one
    checkpoint_ms: int | None  # when the broker wrote that file last, of whatever partition

    @property
    def active(self) -> int:
        """Where the active segment begins, which no pass touches."""
        return self.segments[-1][0]

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes before the active segment that no pass has been over, as the broker reckons it."""
        dirty_from = self.segments[0][0] if self.first_dirty is None else self.first_dirty
        bases = [*(base for base, _ in self.segments[1:]), None]
        closed = [(base, size, end) for (base, size), end in zip(self.segments[:-1], bases, strict=False)]
        dirty = sum(size for _, size, end in closed if end is not None and end > dirty_from)
        total = sum(size for _, size, _ in closed)
        return dirty / total if total else 0.0


def broker_value(cluster: Cluster, name: str) -> str | None:
    """A setting as one of the brokers has it; None when nobody tells."""
    admin = AdminClient(client_config(cluster))
    try:
        numbers = sorted(admin.list_topics(timeout=ANSWER_S).brokers)
        resource = ConfigResource(ResourceType.BROKER, str(numbers[0]))
        found = admin.describe_configs([resource], request_timeout=ANSWER_S)[resource].result(ANSWER_S)
    except (KafkaException, TimeoutError, IndexError):
        return None
    return None if name not in found or found[name].value is None else str(found[name].value)


def list_groups(admin: AdminClient) -> list[str]:
    """The groups that the coordinators know, sorted. LabError when they do not answer."""
    try:
        listed = admin.list_consumer_groups(request_timeout=ANSWER_S).result(ANSWER_S)
    except (KafkaException, TimeoutError) as error:
        raise LabError(f"the groups could not be listed: {error}. Look at `kit status`.") from error
    if listed.errors and not listed.valid:
        raise LabError(f"the groups could not be listed: {listed.errors[0].str()}. Look at `kit status`.")
    return sorted(each.group_id for each in listed.valid)


def files_of(cluster: Cluster, topic: str = OFFSETS_TOPIC) -> list[PartitionFiles]:
    """The topic's partitions on the disks of the kit's own brokers, a copy each; [] for another cluster's."""
    if cluster.source != "kit":
        return []
    found = []
    for data in sorted((workspace.data_dir() / f"kafka-{cluster.brokers}").glob("node-*")):
        checkpoint = data / CHECKPOINT
        ends = read_checkpoint(checkpoint)
        written_ms = None
        with suppress(OSError):
            written_ms = round(checkpoint.stat().st_mtime * 1000)
        for folder in sorted(data.glob(f"{topic}-*")):
            number = folder.name.removeprefix(f"{topic}-")
            segments = tuple(segments_of(folder))
            if number.isdecimal() and segments:
                found.append(PartitionFiles(int(number), segments, ends.get((topic, int(number))), written_ms))
    return found


def segments_of(folder: Path) -> list[tuple[int, int]]:
    """The log files of a partition: (base offset, bytes). One that is deleted meanwhile is left out."""
    found = []
    for file in sorted(folder.glob("*.log")):
        with suppress(OSError):
            if file.stem.isdecimal():
                found.append((int(file.stem), file.stat().st_size))
    return found


def read_checkpoint(path: Path) -> dict[tuple[str, int], int]:
    """A checkpoint file of a broker: a version, a number of lines, then `topic partition offset`; {} when there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[2:]
    except OSError:
        return {}
    parts = [line.rsplit(" ", 2) for line in lines]
    return {(each[0], int(each[1])): int(each[2]) for each in parts if len(each) == 3 and each[1].isdecimal() and each[2].isdecimal()}
