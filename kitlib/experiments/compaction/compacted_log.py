"""The log of a compacted topic as its experiments need it, in memory: write, roll, clean, delete, fetch, and look at it.

Time is the story's: a story says how long it waits, and when a pass of the cleaner is to be over. In memory both are
exact; `kitlib.experiments.compaction.kafka_compacted_log` waits for a real broker's cleaner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.mechanisms.log import Fetch, FetchError, Record
from kitlib.mechanisms.offsets_topic.compaction import CleanerConfig, LogCleaner
from kitlib.mechanisms.offsets_topic.segments import RecordBatch, Segment, SegmentedLog

Row = tuple[bytes, bytes | None]  # key, value; None is a tombstone
DAY_MS = 86_400_000  # the default of delete.retention.ms
PASS_MS = 500  # virtual time until the cleaner has come round
APPEND_MS = 10


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """What lies in a log now."""

    segments: list[list[int | bool]]  # as `segments_between`
    records: list[tuple[int, bytes, bytes | None]]  # offset, key, value; markers are none
    dirty_ratio: float  # of what may be cleaned and what has been, the share in bytes that has not
    size_bytes: int

    def state(self) -> dict[str, Any]:
        """As a step's state holds it: `state["offsets"]`."""
        keys = sorted({key for _, key, _ in self.records})
        return {
            "segments": self.segments,
            "records": [
                [offset, keys.index(key), None if value is None else value.decode(errors="replace")]
                for offset, key, value in self.records
            ],
            "keys": [key.decode(errors="replace") for key in keys],
            "dirty_ratio": round(self.dirty_ratio, 3),
            "cleaner": "runs",
        }


@dataclass(slots=True)
class ModelCompactedLog:
    """Partition 0 of a topic with cleanup.policy=compact,delete, and one reader's view of it; in memory.

    Its cleaner is that of `kitlib.mechanisms.offsets_topic.compaction`.

    Differs: a transaction's marker is an offset without a record, so a log with markers cannot be cleaned here; a
    segment below the log's start goes at once, and not at the broker's next look.
    """

    on_kafka: ClassVar[str] = "kitlib.experiments.compaction.kafka_compacted_log:KafkaCompactedLog"

    name: str
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    age_ms: int = 0  # how much older than the run the first segment's records are
    pass_ms: int = PASS_MS
    clock_ms: float = 0
    is_full: bool = False  # the next record begins a new segment
    kept: int | None = None  # the committed offset
    log: SegmentedLog = field(init=False)
    cleaner: LogCleaner = field(init=False)

    def __post_init__(self) -> None:
        self.log = SegmentedLog(self.name)
        config = CleanerConfig(
            delete_retention_ms=self.delete_retention_ms,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
            min_cleanable_dirty_ratio=0.0,
        )
        self.cleaner = LogCleaner(self.log, config)

    @property
    def now_ms(self) -> int:
        return int(self.clock_ms)

    @property
    def start(self) -> int:
        """The first offset that is still there."""
        return self.log.start_offset

    @property
    def end(self) -> int:
        return self.log.end_offset

    def roll(self) -> None:
        """The active segment is full: the next record begins a new one."""
        self.is_full = True

    def write(self, rows: Sequence[Row], *, transactional: bool = False, takes_ms: float = APPEND_MS) -> list[int]:
        """Write the rows; their offsets. `transactional` makes each a transaction."""
        if self.is_full:
            self.log.roll()
            self.is_full = False
        offsets: list[int] = []
        for some in [[row] for row in rows] if transactional else [rows]:
            self.clock_ms += takes_ms
            batch = self.log.append([(key, value, self.now_ms) for key, value in some])
            offsets += range(batch.base_offset, batch.next_offset)
            if transactional:
                self._add_marker()
        return offsets

    def _add_marker(self) -> None:
        marker = RecordBatch(self.log.end_offset, self.log.end_offset, (), self.now_ms)
        self.log.active.batches.append(marker)
        self.log.end_offset = self.log.high_watermark = marker.next_offset

    def clean(self) -> int:
        """Let the cleaner go over all that is old enough and not in the active segment; the first offset that is dirty after it."""
        self.clock_ms += self.pass_ms
        self.cleaner.clean(self.now_ms + self.age_ms)
        return self.cleaner.checkpoint or 0

    def delete_before(self, offset: int) -> int:
        """DeleteRecords: the log's new start."""
        log = self.log
        log.start_offset = max(log.start_offset, min(offset, log.end_offset))
        kept = [each for each in log.segments[1:] if each.base_offset > log.start_offset]
        begin = next(each for each in reversed(log.segments) if each.base_offset <= log.start_offset)
        whole = [each for each in begin.batches if each.next_offset > log.start_offset]
        log.segments = [Segment(begin.base_offset, whole), *kept]
        return log.start_offset

    def fetch(self, offset: int) -> Fetch:
        """What a reader is handed at this offset: all records at or above it, or OFFSET_OUT_OF_RANGE."""
        if not self.start <= offset <= self.end:
            return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
        found = (each for each in self.log.records() if each.offset >= offset)
        return Fetch([Record(each.offset, each.value, each.key, each.timestamp_ms) for each in found])

    def commit(self, offset: int) -> None:
        self.kept = offset

    def committed(self) -> int | None:
        """What the reader has committed; None before that."""
        return self.kept

    def snapshot(self) -> LogSnapshot:
        records = [(each.offset, each.key or b"", each.value) for each in self.log.records() if each.offset >= self.start]
        dirty_ratio = self.cleaner.look(self.now_ms + self.age_ms).dirty_ratio
        return LogSnapshot(segments_of(self.log), records, dirty_ratio, self.log.size_bytes)

    def wait(self, ms: int) -> None:
        self.clock_ms += ms


def segments_of(log: SegmentedLog) -> list[list[int | bool]]:
    """The segments of a log in memory, as `segments_between`."""
    return segments_between([*(each.base_offset for each in log.segments), log.end_offset])


def segments_between(bases: Sequence[int]) -> list[list[int | bool]]:
    """[base, the next one's base, whether it is the active one] of segments; the last of these offsets is the log's end."""
    return [[base, bases[at + 1], at + 2 == len(bases)] for at, base in enumerate(bases[:-1])]
