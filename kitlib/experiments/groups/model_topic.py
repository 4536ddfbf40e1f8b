"""The model's topic: for each partition where its log begins and ends, and how old its records are.

Retention deletes whole segments, and a segment is as old as its youngest record. The one that is written to
goes as well when all of it is too old; the log is empty then, and its offsets go on. So the records of a small topic
live for as long as their segment takes to be rolled, and then for the retention.

When a segment is rolled by its age, the age counts from somewhere: a broker of 2015 counted from the time it had opened the file,
and opened all files anew at each of its starts. A topic that never fills a segment, on brokers that are restarted more often than
segments are rolled, keeps its records for ever.

Source: Apache Kafka 4.3.1, `UnifiedLog.maybeRoll`, `deleteRetentionMsBreachedSegments`, `LogSegment.timeWaitedForRoll`; 0.8.2
`Log.maybeRoll`, `LogSegment.created`.
Differs: a segment is rolled by age alone, without jitter; what a record says is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.errors import LabError

WEEK_MS = 604_800_000


@dataclass(slots=True)
class Stretch:
    """Records that were appended together, all with the same timestamp."""

    first: int
    stamp_ms: int
    is_roll: bool  # whether a segment begins with it


@dataclass(slots=True)
class ModelTopic:
    """One topic of a run."""

    name: str
    ends: dict[int, int] = field(default_factory=dict)  # partition -> next offset
    starts: dict[int, int] = field(default_factory=dict)  # partition -> first offset
    stretches: dict[int, list[Stretch]] = field(default_factory=dict)
    segment_ms: int = WEEK_MS
    is_aged_by_file: bool = False  # the rules of 0.8.2: a segment's age counts from `opened_ms`, not from its first record
    opened_ms: int = 0  # when a segment was rolled last, or the broker started
    grown_ms: int = 0  # when partitions were added last

    def grow(self, partitions: int, now_ms: int) -> None:
        """It has so many partitions from now on."""
        self.grown_ms = now_ms
        for partition in range(len(self.ends), partitions):
            self.ends[partition] = self.starts[partition] = 0
            self.stretches[partition] = []

    def append(self, partition: int, count: int, stamp_ms: int) -> int:
        """Append so many records; the first one's offset."""
        first, known = self.ends[partition], self.stretches[partition]
        first_ms = next((each.stamp_ms for each in reversed(known) if each.is_roll), stamp_ms)
        is_old = stamp_ms - (self.opened_ms if self.is_aged_by_file else first_ms) > self.segment_ms
        if known and is_old:
            self.opened_ms = stamp_ms
        known.append(Stretch(first, stamp_ms, not known or is_old))
        self.ends[partition] = first + count
        return first

    def offset_since(self, partition: int, stamp_ms: int) -> int | None:
        """The first record that is no older than this; None when there is none."""
        start = self.starts[partition]
        found = (each.first for each, end in self._bounded(partition) if each.stamp_ms >= stamp_ms and end > start)
        return next((max(start, first) for first in found), None)

    def delete_before(self, partition: int, offset: int) -> int:
        """DeleteRecords: the log's new start. LabError for an offset beyond its end."""
        end = self.ends[partition]
        if offset > end:
            raise LabError(f"{self.name}-{partition}: records below {offset} cannot be deleted, it ends at {end}. Name at most {end}.")
        self.starts[partition] = max(offset, self.starts[partition])
        return self.starts[partition]

    def delete_older(self, partition: int, stamp_ms: int) -> int:
        """Retention: delete segments from the front, as long as their youngest record is older than this; the new start."""
        youngest_ms, start = None, self.starts[partition]
        for each, _ in self._bounded(partition):
            if each.is_roll:
                if youngest_ms is not None and youngest_ms >= stamp_ms:
                    break
                start, youngest_ms = each.first, None
            youngest_ms = each.stamp_ms if youngest_ms is None else max(youngest_ms, each.stamp_ms)
        else:
            if youngest_ms is not None and youngest_ms < stamp_ms:
                start = self.ends[partition]
        self.stretches[partition] = [each for each in self.stretches[partition] if each.first >= start]
        return self.delete_before(partition, start)

    def _bounded(self, partition: int) -> list[tuple[Stretch, int]]:
        """Each stretch with the offset after its last record."""
        known = self.stretches[partition]
        ends = [each.first for each in known[1:]] + [self.ends[partition]] * bool(known)
        return list(zip(known, ends, strict=True))
