"""A topic of transactions and a consumer of it, in memory: records take offsets, and so do the markers behind them.

What matters is one number, the consumer's *position*: the next offset it will ask for. After the last record it is that
record's offset + 1, and once the client has read past the marker it is one more. All three client libraries
move past a marker as soon as they have read it, though they hand out nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kitlib.experiments.backend import Backend

TRANSACTION_MS = 1_000  # virtual time from one transaction to the next


class MarkerLog(Protocol):
    """Partition 0 of a topic, its transactional producer, and the only member of a group that reads it."""

    name: str

    @property
    def now_ms(self) -> int:
        """Time since the run began."""
        ...

    def transaction(self, records: int) -> list[int]:
        """Commit a transaction of so many records, and wait for its marker; the records' offsets."""
        ...

    def poll(self) -> list[int]:
        """The offsets of the next records, all that there are."""
        ...

    def commit(self, offset: int | None) -> int:
        """Commit this offset, or with None the client's own position once it is at the end; what the group has then."""
        ...

    def end(self) -> int:
        """The offset of the log's next record."""
        ...

    def close(self) -> None:
        """Let go of the consumer."""
        ...


@dataclass(slots=True)
class ModelMarkerLog:
    """The log in memory: offsets of records, and the end.

    Source: Apache Kafka 4.3.1, FetchCollector.fetchRecords (position = nextFetchOffset, past control batches).
    """

    name: str
    now_ms: int = 0
    records: list[int] = field(default_factory=list)
    log_end: int = 0
    position: int = 0

    def transaction(self, records: int) -> list[int]:
        self.now_ms += TRANSACTION_MS
        offsets = list(range(self.log_end, self.log_end + records))
        self.records += offsets
        self.log_end += records + 1
        return offsets

    def poll(self) -> list[int]:
        found = [offset for offset in self.records if offset >= self.position]
        self.position = self.log_end
        return found

    def commit(self, offset: int | None) -> int:
        return self.position if offset is None else offset

    def end(self) -> int:
        return self.log_end

    def close(self) -> None:
        """Nothing to let go of."""


def marker_log(backend: Backend, run: str, library: str) -> MarkerLog:
    """A new, empty topic on this backend, and its consumer."""
    if backend.name == "kafka":
        from kitlib.experiments.watching.kafka_marker_log import KafkaMarkerLog

        return KafkaMarkerLog.open(backend, f"kit.{run}.orders", library)
    return ModelMarkerLog("orders")
