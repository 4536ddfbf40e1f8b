"""A topic on which little happens, and the retention that never reaches its records.

Retention deletes whole segments, and the segment that is written to only when nothing more comes. So the
records of a small topic live for as long as their segment takes to be rolled, and then for the retention.
When a segment is rolled by its age, the age counts from somewhere: a broker of 2015 counted from the time
it had opened the file, and opened all files anew at each of its starts. A topic that never fills a segment,
on brokers that are restarted more often than segments are rolled, keeps its records for ever.

Source: Apache Kafka 0.8.2 `Log.maybeRoll`, `LogSegment.created`, `LogManager.cleanupExpiredSegments`; 4.3.1
`LogSegment.timeWaitedForRoll`, `UnifiedLog.deleteRetentionMsBreachedSegments`.
Differs: a file's last change is its last record's time; no jitter; a segment never fills.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.errors import KnobError
from kitlib.kafka.offsets.segments import SegmentedLog

RULES = ("0.8.2", "4.3.1")


@dataclass(slots=True)
class SmallTopic:
    """One partition whose segments are rolled by their age alone."""

    rules: str  # from when a segment's age counts: "0.8.2" from the broker's start, "4.3.1" from its first record
    retention_ms: int
    roll_ms: int
    log: SegmentedLog = field(default_factory=lambda: SegmentedLog("orders-0", is_compacted=False))
    opened_ms: int = 0  # when the active segment was made, or the broker started

    def __post_init__(self) -> None:
        if self.rules not in RULES:
            raise KnobError(f"rules are {self.rules!r}, expected one of {', '.join(RULES)}.")

    @property
    def start(self) -> int:
        """The first offset that is still there."""
        return self.log.start_offset

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.log.end_offset

    def restart(self, now_ms: int) -> None:
        """The broker is started again: it opens its files."""
        self.opened_ms = now_ms

    def append(self, count: int, now_ms: int) -> int:
        """So many records come, after a roll if the active segment is older than `roll_ms`; the first one's offset."""
        first_ms = self.log.active.batches[0].max_timestamp_ms if self.log.active.batches else now_ms
        since_ms = self.opened_ms if self.rules == "0.8.2" else first_ms
        if self.log.active.batches and now_ms - since_ms > self.roll_ms:
            self.log.roll()
            self.opened_ms = now_ms
        return self.log.append([(None, b"record", now_ms)] * count).base_offset

    def enforce_retention(self, now_ms: int) -> bool:
        """Delete the segments whose last record is older than the retention; whether there were any."""
        return bool(self.log.delete_old_segments(now_ms, self.retention_ms))

    def __repr__(self) -> str:
        return f"<SmallTopic [{self.start}, {self.end}), rolled by the rules of {self.rules}>"
