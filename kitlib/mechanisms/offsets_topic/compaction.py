"""The log cleaner: it keeps the last record of each key, and forgets a deleted key after a while.

A compacted log has a clean part, which a pass has covered, and a dirty part after it. A pass
reads the dirty part and maps each key to its last offset, as many keys as the map holds; then it rewrites
clean and dirty part together and leaves out every record that is not its key's last. A tombstone is a last
record too, so it must stay for a while, to let readers see it: until its batch's *horizon*, which the first
pass that copies it writes into the batch. A log without anything new to clean is not visited at all, and a
tombstone in it may stay forever.

Source: Apache Kafka 4.3.1, `Cleaner.doClean`, `LogCleanerManager.cleanableOffsets`,
`LogCleanerManager.calculateCleanableBytes`, `LogToClean`, `MemoryRecords.filterTo`; with `keeps_last_batch`
"high watermark" 4.4.0.
Differs: transactions, control batches, producers' last batches, message formats before v2 and max.compaction.lag.ms are left out;
keys are mapped by themselves and not by a hash; the load factor of the map belongs to `map_keys`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from kitlib.mechanisms.offsets_topic.segments import LogRecord, RecordBatch, Segment, SegmentedLog, without

MAX_INT = 2**31 - 1  # a segment's offsets lie within so many of its base


class KeepsLastBatch(Enum):
    """Which batch stays although it has lost all its records, so that the log's end is not forgotten."""

    AT_ROUND_END = "4.3.1"  # the one that ends where the round's range ends
    AT_HIGH_WATERMARK = "4.4.0"  # the one that ends at the high watermark


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """What a topic and its broker say about cleaning."""

    delete_retention_ms: int = 86_400_000  # LogConfig.DEFAULT_DELETE_RETENTION_MS
    min_compaction_lag_ms: int = 0
    min_cleanable_dirty_ratio: float = 0.5  # LogConfig.DEFAULT_MIN_CLEANABLE_DIRTY_RATIO
    map_keys: int = 900  # how many keys one pass maps
    segment_bytes: int = 1_073_741_824
    keeps_last_batch: KeepsLastBatch = KeepsLastBatch.AT_HIGH_WATERMARK


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """The part of a log that a pass would map: [first_dirty, first_uncleanable), with the bytes of its segments."""

    first_dirty: int
    first_uncleanable: int
    cleanable_bytes: int
    clean_bytes: int

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes that is dirty, 0 of an empty log."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def cleanable_range(
    log: SegmentedLog, checkpoint: int | None, now_ms: int, min_compaction_lag_ms: int = 0
) -> CleanableRange:
    """What may be cleaned now, from the last pass's end (`checkpoint`, None before the first pass) on.

    Never the active segment, nothing at or past the high watermark, and no segment that holds a timestamp
    > now_ms - min_compaction_lag_ms, nor any after it. A checkpoint outside the log counts as none.
    """
    first_dirty = log.start_offset if checkpoint is None else checkpoint
    if not log.start_offset <= first_dirty <= log.end_offset:
        first_dirty = log.start_offset
    bounds = [log.high_watermark, log.active.base_offset]
    if min_compaction_lag_ms > 0:
        young = (each for each in log.inactive_from(first_dirty) if is_young(each, now_ms - min_compaction_lag_ms))
        bounds += [each.base_offset for each in young][:1]
    bound = max(first_dirty, min(bounds))
    after = log.inactive_from(bound)
    first_uncleanable = (after[0] if after else log.active).base_offset
    cleanable = log.segments_between(min(first_dirty, first_uncleanable), first_uncleanable)
    clean = log.segments_between(-1, first_dirty)
    return CleanableRange(
        first_dirty,
        first_uncleanable,
        sum(each.size_bytes for each in cleanable),
        sum(each.size_bytes for each in clean),
    )


def is_young(segment: Segment, newest_ms: int) -> bool:
    """True when a timestamp in the segment is > newest_ms; of an empty one too, as its file has just been written."""
    largest = segment.largest_timestamp_ms
    return largest is None or largest > newest_ms


def must_be_cleaned(found: CleanableRange, config: CleanerConfig) -> bool:
    """True when the cleaner would pick this log: it is dirty enough."""
    return bool(found.cleanable_bytes) and found.dirty_ratio > config.min_cleanable_dirty_ratio


@dataclass(slots=True)
class OffsetMap:
    """Each key's last offset in the part that has been read; all offsets up to `latest` are covered."""

    offsets: dict[bytes, int] = field(default_factory=dict)
    latest: int = -1


def build_offset_map(log: SegmentedLog, found: CleanableRange, map_keys: int) -> OffsetMap:
    """Read the dirty part until its end or until the map is full."""
    offset_map = OffsetMap()
    dirty = log.segments_between(found.first_dirty, found.first_uncleanable)
    ends = [each.base_offset for each in dirty[1:]] + [found.first_uncleanable]
    for segment, end in zip(dirty, ends, strict=True):
        for batch in segment.batches:
            for record in batch.records:
                if record.offset < found.first_dirty:
                    continue
                if len(offset_map.offsets) >= map_keys:  # it is full, whether the key is known or not
                    return offset_map
                if record.key is not None:
                    offset_map.offsets[record.key] = offset_map.latest = record.offset
            if batch.last_offset >= found.first_dirty:
                offset_map.latest = batch.last_offset
        offset_map.latest = end - 1  # a gap at the segment's end is covered too
    return offset_map


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did."""

    found: CleanableRange
    next_first_dirty: int
    removed: tuple[LogRecord, ...]  # in offset order


@dataclass(slots=True)
class LogCleaner:
    """The cleaner of one log: where its last pass ended, and the next one."""

    log: SegmentedLog
    config: CleanerConfig = CleanerConfig()
    checkpoint: int | None = None  # the first dirty offset; None before the first pass

    def look(self, now_ms: int) -> CleanableRange:
        """What a pass at this time would clean."""
        return cleanable_range(self.log, self.checkpoint, now_ms, self.config.min_compaction_lag_ms)

    def clean(self, now_ms: int) -> Pass | None:
        """One pass over all that may be cleaned now; None when there is nothing, and then nothing changes."""
        found = self.look(now_ms)
        if not found.cleanable_bytes:
            return None
        offset_map = build_offset_map(self.log, found, self.config.map_keys)
        end = offset_map.latest + 1
        before = self.log.records()
        cleaned: list[Segment] = []
        for group in grouped(self.log.segments_between(0, end), self.config.segment_bytes, found.first_uncleanable):
            batches = (each for segment in group for each in segment.batches)
            kept = (self.filtered(each, offset_map, found, now_ms) for each in batches)
            cleaned.append(Segment(group[0].base_offset, [each for each in kept if each is not None]))
        self.log.segments = cleaned + [each for each in self.log.segments if each.base_offset >= end]
        self.checkpoint = end
        left = {each.offset for each in self.log.records()}
        return Pass(found, end, tuple(each for each in before if each.offset not in left))

    def filtered(
        self, batch: RecordBatch, offset_map: OffsetMap, found: CleanableRange, now_ms: int
    ) -> RecordBatch | None:
        """The batch with the records that stay; None when it goes."""
        kept = [each for each in batch.records if is_retained(each, batch.delete_horizon_ms, offset_map, now_ms)]
        if kept:
            horizon_ms = batch.delete_horizon_ms
            if horizon_ms is None and any(each.value is None for each in kept):
                horizon_ms = now_ms + self.config.delete_retention_ms
            return without(batch, kept, horizon_ms)
        if batch.next_offset != self.kept_end(found):
            return None
        return RecordBatch(batch.base_offset, batch.last_offset, (), batch.max_timestamp_ms)

    def kept_end(self, found: CleanableRange) -> int:
        """The batch whose next offset this is stays, empty or not."""
        at_end = self.config.keeps_last_batch is KeepsLastBatch.AT_ROUND_END
        return found.first_uncleanable if at_end else self.log.high_watermark


def is_retained(record: LogRecord, delete_horizon_ms: int | None, offset_map: OffsetMap, now_ms: int) -> bool:
    """Whether a record outlives a pass.

    It does past the mapped part; within it only if no later record of its key is known, and if it is a
    tombstone only before its batch's horizon (now_ms < horizon, or no horizon yet).
    """
    if record.offset > offset_map.latest:
        return True
    if record.key is None or record.offset < offset_map.offsets.get(record.key, -1):
        return False
    return record.value is not None or delete_horizon_ms is None or now_ms < delete_horizon_ms


def grouped(segments: Sequence[Segment], most_bytes: int, first_uncleanable: int) -> list[list[Segment]]:
    """Neighbouring segments that become one: as many as fit into a segment by bytes and by offsets."""
    groups: list[list[Segment]] = []
    for index, segment in enumerate(segments):
        last = (segments[index + 1].base_offset if index + 1 < len(segments) else first_uncleanable) - 1
        if groups:
            together = sum(each.size_bytes for each in groups[-1]) + segment.size_bytes
            near = not segment.size_bytes or last - groups[-1][0].base_offset <= MAX_INT
            if together <= most_bytes and near:
                groups[-1].append(segment)
                continue
        groups.append([segment])
    return groups
