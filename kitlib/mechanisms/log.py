"""A partition's log: what a reader may ask of it, and a model that answers as a broker does.

A partition is a strip of offsets. Records join at the end, retention takes them away at the start,
compaction takes some out of the middle, and an unclean election can cut off the end. Whoever reads
by offset must live with all four. `LogReader` is the small protocol through which this kit's readers
see a partition, whether it is a `PartitionLog` in memory or a topic of a real broker.

Left out: segments, indexes and replicas; the log cleaner's choice of what to remove.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

LATEST_TIME = -1  # the wire's word for "the offset after the last record"
EARLIEST_TIME = -2  # the wire's word for "the first offset that is still there"


class FetchError(IntEnum):
    """The error codes of Kafka 0.8's fetch that a reader tells apart; every other code is UNKNOWN."""

    NO_ERROR = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_FOR_PARTITION = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_SIZE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    UNKNOWN = 13

    @classmethod
    def of(cls, code: int) -> FetchError:
        """The name for a code from the wire; codes below 0 or above 12 are UNKNOWN."""
        return cls(code) if 0 <= code < cls.UNKNOWN else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Record:
    """One record where it lies. `value` None is a null payload (a tombstone)."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """A broker's answer to one fetch: records in offset order, or an error and no records.

    The first records may lie below the offset asked for, because a compressed batch is handed out whole.
    """

    records: Sequence[Record] = ()
    error: FetchError = FetchError.NO_ERROR


class LogReader(Protocol):
    """What a spout asks of one partition. Network trouble is raised as an OSError."""

    def fetch(self, offset: int) -> Fetch:
        """The records from `offset` on, at most the reader's batch size."""
        ...

    def offset_before(self, time: int) -> int | None:
        """The offset for LATEST_TIME, EARLIEST_TIME or a time stamp in ms; None when the broker has none."""
        ...


@dataclass(slots=True)
class PartitionLog:
    """One partition in memory, fetched, shortened and compacted as a broker's.

    Source: Apache Kafka 0.8.1.1, what `SimpleConsumer.fetch` and `getOffsetsBefore` can see of a log.
    Differs: a fetch is bounded by a number of records and not by bytes; time stamps are looked up in a
    table that the experiment fills.
    """

    name: str = "events"
    start: int = 0  # the first offset that may be asked for; only ever rises
    end: int = 0  # the offset of the next record; falls only in an unclean election
    max_fetch_records: int = 5  # a further batch joins a fetch while the total stays within this
    batches: list[list[Record]] = field(default_factory=list)  # in offset order, none empty
    offsets_by_time: dict[int, int] = field(default_factory=dict)  # time stamp in ms -> offset

    def append(
        self,
        values: Iterable[bytes | None],
        *,
        at_ms: int = 0,
        gap: int = 0,
        compressed: bool = False,
    ) -> list[int]:
        """Append one record per value after leaving `gap` offsets unused; the offsets they got.

        `compressed` makes one batch of them all, which later fetches hand out whole.
        """
        first = self.end + gap
        records = [Record(first + index, value, timestamp_ms=at_ms) for index, value in enumerate(values)]
        if compressed and records:
            self.batches.append(records)
        else:
            self.batches.extend([record] for record in records)
        self.end = first + len(records)
        return [record.offset for record in records]

    def fetch(self, offset: int) -> Fetch:
        """Whole batches from the first one that reaches `offset` on.

        OFFSET_OUT_OF_RANGE when offset < start or offset > end; offset == end is an empty answer.
        """
        if not self.start <= offset <= self.end:
            return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
        found: list[Record] = []
        for batch in self.batches[self._first_reaching(offset) :]:
            if found and len(found) + len(batch) > self.max_fetch_records:
                break
            found.extend(batch)
        return Fetch(found)

    def offset_before(self, time: int) -> int | None:
        """The end for LATEST_TIME, the start for EARLIEST_TIME, else the table's entry or None."""
        if time == LATEST_TIME:
            return self.end
        if time == EARLIEST_TIME:
            return self.start
        return self.offsets_by_time.get(time)

    def records(self) -> list[Record]:
        """Every record that is still there, in offset order."""
        return [record for batch in self.batches for record in batch]

    def delete_before(self, offset: int) -> int:
        """Retention: drop the batches that end below `offset`; the new start.

        A batch that straddles `offset` stays whole, and the start is then its first offset.
        """
        self.batches = self.batches[self._first_reaching(offset) :]
        first_left = self.batches[0][0].offset if self.batches else offset
        self.start = max(self.start, min(offset, first_left))
        self.end = max(self.end, self.start)
        return self.start

    def truncate_to(self, offset: int) -> int:
        """An unclean election: drop the batches that reach `offset` or beyond; the new end.

        A batch that straddles `offset` goes whole, and the end is then its first offset.
        """
        keep = self._first_reaching(offset)
        first_dropped = self.batches[keep][0].offset if keep < len(self.batches) else offset
        self.batches = self.batches[:keep]
        self.end = min(self.end, offset, first_dropped)
        self.start = min(self.start, self.end)
        return self.end

    def compact(self, offsets: Iterable[int]) -> None:
        """Take these offsets out of the log; its start and end stay, and nothing is renumbered."""
        gone = set(offsets)
        kept = ([record for record in batch if record.offset not in gone] for batch in self.batches)
        self.batches = [batch for batch in kept if batch]

    def _first_reaching(self, offset: int) -> int:
        """The index of the first batch whose last offset is >= `offset`."""
        return bisect_left(self.batches, offset, key=lambda batch: batch[-1].offset)

    def __repr__(self) -> str:
        count = sum(len(batch) for batch in self.batches)
        return f"<PartitionLog {self.name}: {count} records in [{self.start}, {self.end})>"
