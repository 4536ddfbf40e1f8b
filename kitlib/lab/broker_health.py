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

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kitlib.errors import LabError
from kitlib.lab import workspace
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.offsets_topic import OFFSETS_TOPIC

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
