"""The model's topic: for each partition where its log begins and ends, and how old its records are.

Retention deletes whole segments, and a segment is as old as its youngest record. The one that is written to
goes as well when all of it is too old; the log is empty then, and its offsets go on.

Source: Apache Kafka 4.3.1, `UnifiedLog.maybeRoll`, `deleteRetentionMsBreachedSegments`, `LogSegment.timeWaitedForRoll`.
Differs: a segment is rolled by age alone; what a record says is left out.
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
        begun_ms = next((each.stamp_ms for each in reversed(known) if each.is_roll), stamp_ms)
        known.append(Stretch(first, stamp_ms, not known or stamp_ms - begun_ms > self.segment_ms))
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
        return self.delete_before(partition, start)

    def _bounded(self, partition: int) -> list[tuple[Stretch, int]]:
        """Each stretch with the offset after its last record."""
        known = self.stretches[partition]
        ends = [each.first for each in known[1:]] + [self.ends[partition]] * bool(known)
        return list(zip(known, ends, strict=True))
