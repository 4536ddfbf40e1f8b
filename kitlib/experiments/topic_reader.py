"""A real topic's one partition, asked by its own protocol: where its log begins and ends, and what lies in it."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from kitlib.experiments.kafka_group import DEADLINE_S
from kitlib.lab.clients import Cluster
from kitlib.lab.wire import EARLIEST, LATEST, Wire
from kitlib.lab.wire_records import FetchedBatch

PARTITION = 0


@dataclass(slots=True)
class TopicReader:
    """A connection to the partition's leader, for questions and for whatever else one has to say to it."""

    topic: str
    wire: Wire

    @classmethod
    def open(cls, cluster: Cluster, topic: str) -> TopicReader:
        """Connect, and wait until the broker answers for the partition: it serves a moment before it knows that it leads.

        LabError when it does not within DEADLINE_S.
        """
        reader = cls(topic, Wire.open_leader(cluster.bootstrap, topic, PARTITION, timeout_s=DEADLINE_S))
        try:
            reader.wire.wait_for_leader(topic, PARTITION)
        except BaseException:
            reader.close()
            raise
        return reader

    def bounds(self) -> tuple[int, int]:
        """The first offset and that of the next record."""
        return (
            self.wire.list_offsets(self.topic, PARTITION, EARLIEST),
            self.wire.list_offsets(self.topic, PARTITION, LATEST),
        )

    def batches(self) -> list[FetchedBatch]:
        """All batches that are there now, the first one without its deleted records."""
        return self.wire.read_all(self.topic, PARTITION, DEADLINE_S)

    def read(self) -> tuple[int, list[bytes]]:
        """The first offset, and the values of all records from there on."""
        first, _ = self.bounds()
        return first, [value for batch in self.batches() for value in batch.values]

    def close(self) -> None:
        """Let go of the connection."""
        self.wire.close()

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
