"""A partition's log as a broker keeps it on disk: segments of batches of records.

New batches join the last segment, the *active* one; when it is full or old a new one is rolled. Compaction
rewrites segments in the middle and never touches the active segment. Offsets are never reused: a removed record
leaves a gap.

Source: Apache Kafka 4.3.1, `LogSegment`, `LogSegments`, `UnifiedLog.append`, `LocalLog.roll`, `DefaultRecord.sizeInBytes`.
Differs: no indexes and no files; producers, transactions, compression and retention are left out; a segment rolls by
its size only, or when told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kitlib.errors import KitError
from kitlib.mechanisms.protocol import BATCH_OVERHEAD_BYTES, varint_bytes

NO_TIMESTAMP = -1


class KeylessRecordError(KitError):
    """A record without a key has been sent to a compacted topic; nothing of its batch is written."""

    def __init__(self, name: str, indexes: Sequence[int]) -> None:
        super().__init__(
            f"{name}: {len(indexes)} of the batch's records have no key, first at {indexes[0]}; a compacted topic needs one "
            "in every record. Give each record a key."
        )
        self.indexes = indexes


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record. `value` None is a tombstone; an empty value is a value."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that were written together. Its offsets stay when records are taken out of it."""

    base_offset: int
    last_offset: int
    records: tuple[LogRecord, ...]
    max_timestamp_ms: int
    delete_horizon_ms: int | None = None  # when its tombstones may go; set once, by the first pass that copies them

    @property
    def next_offset(self) -> int:
        """The offset after its last one."""
        return self.last_offset + 1

    @property
    def size_bytes(self) -> int:
        """How many bytes it takes in a file."""
        if not self.records:
            return BATCH_OVERHEAD_BYTES
        base_ms = self.records[0].timestamp_ms if self.delete_horizon_ms is None else self.delete_horizon_ms
        return BATCH_OVERHEAD_BYTES + sum(self._size_of(each, base_ms) for each in self.records)

    def _size_of(self, record: LogRecord, base_ms: int) -> int:
        body = 1 + varint_bytes(record.timestamp_ms - base_ms) + varint_bytes(record.offset - self.base_offset)
        for part in (record.key, record.value):
            body += varint_bytes(-1 if part is None else len(part)) + len(part or b"")
        body += varint_bytes(0)  # no headers
        return varint_bytes(body) + body

    def __repr__(self) -> str:
        return f"<RecordBatch [{self.base_offset}, {self.last_offset}], {len(self.records)} records>"


@dataclass(slots=True)
class Segment:
    """A run of batches in one file, named by the first offset that may be in it."""

    base_offset: int
    batches: list[RecordBatch] = field(default_factory=list)  # in offset order; only ever added to
    _counted: int = field(default=0, init=False, repr=False, compare=False)  # so many of them are in the bytes below
    _bytes: int = field(default=0, init=False, repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """How many bytes its batches take."""
        self._bytes += sum(each.size_bytes for each in self.batches[self._counted :])
        self._counted = len(self.batches)
        return self._bytes

    @property
    def largest_timestamp_ms(self) -> int | None:
        """The largest timestamp of its batches; None without any: the broker then takes the file's age."""
        return max((each.max_timestamp_ms for each in self.batches), default=None)


@dataclass(slots=True)
class SegmentedLog:
    """One partition's log in segments. The last one is active."""

    name: str = "t-0"
    auto_high_watermark: bool = True  # every record is replicated as soon as it is written
    segments: list[Segment] = field(default_factory=lambda: [Segment(0)])
    start_offset: int = 0
    end_offset: int = 0  # of the next record
    high_watermark: int = 0

    @property
    def active(self) -> Segment:
        """The segment that is written to."""
        return self.segments[-1]

    def batches(self) -> list[RecordBatch]:
        """Every batch of the log, in offset order."""
        return [batch for segment in self.segments for batch in segment.batches]

    def records(self) -> list[LogRecord]:
        """Every record that is still there, in offset order."""
        return [record for batch in self.batches() for record in batch.records]

    def append(self, rows: Sequence[tuple[bytes | None, bytes | None, int]]) -> RecordBatch:
        """Write (key, value, timestamp in ms) rows as one batch. KeylessRecordError when a key is None."""
        if not rows:
            raise KitError(f"{self.name}: a batch of no records cannot be written. Give one record or more.")
        keyless = [index for index, (key, _, _) in enumerate(rows) if key is None]
        if keyless:
            raise KeylessRecordError(self.name, keyless)
        records = tuple(LogRecord(self.end_offset + index, *row) for index, row in enumerate(rows))
        batch = RecordBatch(
            self.end_offset, self.end_offset + len(rows) - 1, records, max(each.timestamp_ms for each in records)
        )
        self.active.batches.append(batch)
        self.end_offset = batch.next_offset
        if self.auto_high_watermark:
            self.high_watermark = self.end_offset
        return batch

    def roll(self) -> int:
        """Begin a new active segment; its base offset. One that is still empty stays the active one."""
        if self.active.base_offset != self.end_offset:
            self.segments.append(Segment(self.end_offset))
        return self.active.base_offset

    def update_high_watermark(self, offset: int) -> int:
        """Records below this offset are replicated; the new high watermark, which stays within the log."""
        self.high_watermark = max(self.start_offset, min(offset, self.end_offset))
        return self.high_watermark

    def segments_between(self, start: int, end: int) -> list[Segment]:
        """The segments with offsets in [start, end): that in which `start` lies, and those that begin below `end`."""
        if start == end:
            return []
        floor = max((each.base_offset for each in self.segments if each.base_offset <= start), default=0)
        return [each for each in self.segments if floor <= each.base_offset < end]

    def inactive_from(self, offset: int) -> list[Segment]:
        """The segments from the one in which `offset` lies on, without the active one."""
        return [] if offset > self.active.base_offset else self.segments_between(offset, self.active.base_offset)

    def __repr__(self) -> str:
        return f"<SegmentedLog {self.name} [{self.start_offset}, {self.end_offset}) in {len(self.segments)} segments>"


def without(batch: RecordBatch, kept: Sequence[LogRecord], delete_horizon_ms: int | None) -> RecordBatch:
    """The batch with these of its records only, and a horizon. Its offsets stay; its largest timestamp is theirs."""
    if len(kept) == len(batch.records) and delete_horizon_ms == batch.delete_horizon_ms:
        return batch
    largest = max(each.timestamp_ms for each in kept)
    return replace(batch, records=tuple(kept), max_timestamp_ms=largest, delete_horizon_ms=delete_horizon_ms)
