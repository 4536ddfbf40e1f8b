"""A real topic's partitions, asked by its own protocol: where each log begins and ends, and what lies in it."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from kitlib.experiments.kafka_group import DEADLINE_S
from kitlib.lab.clients import Cluster, kafka_python_config
from kitlib.lab.wire.connection import EARLIEST, LATEST, Wire
from kitlib.lab.wire.records import FetchedBatch

PARTITION = 0


@dataclass(slots=True)
class TopicReader:
    """A connection to the leader of partition 0, for questions and for whatever else one has to say to it."""

    topic: str
    wire: Wire

    @classmethod
    def open(cls, cluster: Cluster, topic: str) -> TopicReader:
        """Connect, and wait until the broker answers for the partition: it serves a moment before it knows that it leads.

        LabError when it does not within DEADLINE_S.
        """
        reader = cls(topic, Wire.open_leader(cluster.bootstrap, topic, PARTITION, timeout_s=DEADLINE_S, **kafka_python_config(cluster)))
        try:
            reader.wire.wait_for_leader(topic, PARTITION)
        except BaseException:
            reader.close()
            raise
        return reader

    def bounds(self, partition: int = PARTITION) -> tuple[int, int]:
        """The first offset and that of the next record."""
        return (
            self.wire.list_offsets(self.topic, partition, EARLIEST),
            self.wire.list_offsets(self.topic, partition, LATEST),
        )

    def batches(self, partition: int = PARTITION) -> list[FetchedBatch]:
        """All batches that are there now, the first one without its deleted records."""
        return self.wire.read_all(self.topic, partition, DEADLINE_S)

    def read(self, partition: int = PARTITION) -> tuple[int, list[bytes]]:
        """The first offset, and the values of all records from there on."""
        first, _ = self.bounds(partition)
        return first, [value for batch in self.batches(partition) for value in batch.values]

    def close(self) -> None:
        self.wire.close()

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
