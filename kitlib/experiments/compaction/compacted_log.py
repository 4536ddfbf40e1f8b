"""The log of a compacted topic as its experiments need it, in memory: write, roll, clean, delete, fetch, and look at it.

Time is the story's: a story says how long it waits, and when a pass of the cleaner is to be over. In memory both are
exact; `kitlib.experiments.compaction.kafka_compacted_log` waits for a real broker's cleaner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kitlib.experiments.backend import Backend
from kitlib.kafka.log import Fetch, FetchError, Record
from kitlib.kafka.offsets.compaction import CleanerConfig, LogCleaner
from kitlib.kafka.offsets.segments import RecordBatch, Segment, SegmentedLog

Row = tuple[str, str | None]  # key, value; None is a tombstone
PASS_MS = 500  # virtual time until the cleaner has come round
APPEND_MS = 10


@dataclass(frozen=True, slots=True)
class LogLook:
    """What lies in a log now."""

    segments: list[tuple[int, int, bool]]  # base, the next one's base, and whether it is the active one
    records: list[tuple[int, str, str | None]]  # offset, key, value; markers are none
    dirty_ratio: float  # of what may be cleaned and what has been, the share in bytes that has not

    def shown(self) -> dict[str, Any]:
        """As a step's state holds it: `state["offsets"]`."""
        keys = sorted({key for _, key, _ in self.records})
        return {
            "segments": [list(each) for each in self.segments],
            "records": [[offset, keys.index(key), value] for offset, key, value in self.records],
            "keys": keys,
            "dirty_ratio": round(self.dirty_ratio, 3),
            "cleaner": "runs",
        }


class KeyedLog(Protocol):
    """Partition 0 of a topic with cleanup.policy=compact,delete, and one reader's view of it."""

    name: str

    @property
    def now_ms(self) -> int:
        """Time since the run began."""
        ...

    def append(self, rows: Sequence[Row], *, rolls: bool = False, transactional: bool = False) -> list[int]:
        """Write the rows; their offsets. `rolls` begins a new segment with them; `transactional` makes each a transaction."""
        ...

    def clean(self) -> int:
        """Let the cleaner go over all that is old enough and not in the active segment; the first offset that is dirty after it."""
        ...

    def delete_before(self, offset: int) -> int:
        """DeleteRecords: the log's new start."""
        ...

    def fetch(self, offset: int) -> Fetch:
        """What a reader is handed at this offset: records at or above it, or OFFSET_OUT_OF_RANGE."""
        ...

    def bounds(self) -> tuple[int, int]:
        """The log's start, and the offset of its next record."""
        ...

    def commit(self, offset: int) -> None:
        """The reader commits."""
        ...

    def committed(self) -> int | None:
        """What the reader has committed; None before that."""
        ...

    def look(self) -> LogLook:
        """What lies in the log."""
        ...

    def wait(self, ms: int) -> None:
        """Let so much time pass."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(slots=True)
class ModelKeyedLog:
    """The log in memory, with the cleaner of `kitlib.kafka.offsets.compaction`.

    Differs: a transaction's marker is an offset without a record, so a log with markers cannot be cleaned here; a
    segment below the log's start goes at once, and not at the broker's next look.
    """

    name: str
    delete_retention_ms: int
    min_compaction_lag_ms: int = 0
    age_ms: int = 0  # how much older than the run the first segment's records are
    now_ms: int = 0
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

    def append(self, rows: Sequence[Row], *, rolls: bool = False, transactional: bool = False) -> list[int]:
        if rolls:
            self.log.roll()
        offsets: list[int] = []
        for some in [[row] for row in rows] if transactional else [rows]:
            self.now_ms += APPEND_MS
            coded = [(key.encode(), None if value is None else value.encode(), self.now_ms) for key, value in some]
            batch = self.log.append(coded)
            offsets += range(batch.base_offset, batch.next_offset)
            if transactional:
                self._add_marker()
        return offsets

    def _add_marker(self) -> None:
        marker = RecordBatch(self.log.end_offset, self.log.end_offset, (), self.now_ms)
        self.log.active.batches.append(marker)
        self.log.end_offset = self.log.high_watermark = marker.next_offset

    def clean(self) -> int:
        self.now_ms += PASS_MS
        self.cleaner.clean(self.now_ms + self.age_ms)
        return self.cleaner.checkpoint or 0

    def delete_before(self, offset: int) -> int:
        log = self.log
        log.start_offset = max(log.start_offset, min(offset, log.end_offset))
        kept = [each for each in log.segments[1:] if each.base_offset > log.start_offset]
        begin = next(each for each in reversed(log.segments) if each.base_offset <= log.start_offset)
        whole = [each for each in begin.batches if each.next_offset > log.start_offset]
        log.segments = [Segment(begin.base_offset, whole), *kept]
        return log.start_offset

    def fetch(self, offset: int) -> Fetch:
        if not self.log.start_offset <= offset <= self.log.end_offset:
            return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
        found = (each for each in self.log.records() if each.offset >= offset)
        return Fetch([Record(each.offset, each.value, each.key, each.timestamp_ms) for each in found])

    def bounds(self) -> tuple[int, int]:
        return self.log.start_offset, self.log.end_offset

    def commit(self, offset: int) -> None:
        self.kept = offset

    def committed(self) -> int | None:
        return self.kept

    def look(self) -> LogLook:
        bases = [each.base_offset for each in self.log.segments] + [self.log.end_offset]
        active = len(self.log.segments) - 1
        records = [
            (each.offset, (each.key or b"").decode(), None if each.value is None else each.value.decode())
            for each in self.log.records()
            if each.offset >= self.log.start_offset
        ]
        return LogLook(
            [(base, bases[at + 1], at == active) for at, base in enumerate(bases[:-1])],
            records,
            self.cleaner.look(self.now_ms + self.age_ms).dirty_ratio,
        )

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def close(self) -> None:
        """Nothing to let go of."""


def keyed_log(
    backend: Backend, run: str, delete_retention_ms: int, min_compaction_lag_ms: int = 0, age_ms: int = 0
) -> KeyedLog:
    """A new, empty log on this backend; the records of its first segment will be `age_ms` older than the run."""
    if backend.name == "kafka":
        from kitlib.experiments.compaction.kafka_compacted_log import KafkaKeyedLog

        return KafkaKeyedLog.open(backend, f"kit.{run}.customers", delete_retention_ms, min_compaction_lag_ms, age_ms)
    return ModelKeyedLog("customers", delete_retention_ms, min_compaction_lag_ms, age_ms)
