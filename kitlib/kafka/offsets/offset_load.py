"""How a new coordinator fills its cache: the log's records, from the first to the last, a chunk at a time.

The time it takes is the log's length by the reading speed, so it is the compaction of the offsets topic
that keeps it short. Who asks meanwhile is told to ask again. What was written to the log while the load ran
is read as well, at the end.

Source: Apache Kafka 0.8.2.2 `OffsetManager.loadOffsetsFromLog`; 4.3.1 `CoordinatorLoaderImpl.doLoad`.
Differs: a chunk is so many records instead of bytes and takes the time that the reading speed gives it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.kafka.offsets.offset_cache import OffsetCache, key_text
from kitlib.kafka.offsets.offset_rules import Noted, OffsetConfig, OffsetRules
from kitlib.kafka.offsets.records import UNKNOWN_TYPE, OffsetsRecord, decode
from kitlib.kafka.offsets.segments import LogRecord, SegmentedLog
from kitlib.kafka.offsets.wire import BrokenRecordError


def records_from(log: SegmentedLog, offset: int, end: int, most: int) -> list[LogRecord]:
    """Up to `most` records of the log in [offset, end); those that compaction took out leave no trace."""
    found: list[LogRecord] = []
    if offset >= end:
        return found
    for segment in log.segments_between(max(offset, log.start_offset), end):
        for batch in segment.batches:
            if batch.last_offset < offset:
                continue
            for record in batch.records:
                if offset <= record.offset < end:
                    found.append(record)
                    if len(found) == most:
                        return found
    return found


def read_as(rules: OffsetRules, record: LogRecord) -> OffsetsRecord | None:
    """The record as a release reads it; None when it passes over it. BrokenRecordError ends the load.

    A release that lists its record types fails at any other, and at a commit's value of a later version than
    it knows.
    """
    try:
        found = decode(record.key, record.value)
    except BrokenRecordError as error:
        if error.java_class == UNKNOWN_TYPE and rules.known_types is None:
            return None
        raise
    if rules.known_types is not None and found.type.number not in rules.known_types:
        raise BrokenRecordError(f"Unknown offset schema version {found.type.number}")
    if found.is_commit and found.version is not None and found.version > rules.known_version:
        raise BrokenRecordError(f"A commit of version {found.version} cannot be read")
    return found


@dataclass(slots=True)
class OffsetLoad:
    """One load on its way."""

    rules: OffsetRules
    config: OffsetConfig
    log: SegmentedLog
    cache: OffsetCache
    begun_ms: int
    next_offset: int = 0  # everything below it is in the cache
    records_read: int = 0
    records_skipped: int = 0  # of unknown types
    chunk: list[LogRecord] = field(default_factory=list)  # read, but not yet in the cache
    due_ms: int = 0  # when the chunk will be in the cache

    def __post_init__(self) -> None:
        self.next_offset = self.log.start_offset
        self.next_chunk(self.begun_ms)

    @property
    def is_done(self) -> bool:
        """True when nothing is left to read."""
        return not self.chunk

    def next_chunk(self, now_ms: int) -> None:
        """Begin to read the next records. They must be below the end as it is now, not as it was at the start."""
        end = self.log.end_offset if self.rules.loads_to_end else self.log.high_watermark
        self.chunk = records_from(self.log, self.next_offset, end, self.config.load_chunk_records)
        self.due_ms = now_ms + -(-len(self.chunk) * 1000 // self.config.load_records_per_s)

    def step(self) -> list[Noted]:
        """Put the chunk into the cache, and begin the next one. BrokenRecordError at a record that ends the load.

        What stood before that record in the chunk is in the cache then; `next_offset` is the record's.
        """
        notes: list[Noted] = []
        first = self.chunk[0].offset
        for record in self.chunk:
            self.next_offset = record.offset
            found = read_as(self.rules, record)
            if found is None:
                self.records_skipped += 1
            else:
                gone = self.cache.replay(record.offset, found)
                if gone is not None:
                    notes.append(Noted("evict", {"key": key_text(gone), "why": "tombstone"}))
            self.records_read += 1
            self.next_offset = record.offset + 1
        notes.insert(0, Noted("load", {"from": first, "to": self.next_offset - 1}))
        self.next_chunk(self.due_ms)
        return notes

    def progress(self) -> tuple[int, int]:
        """How many records are in the cache, and how many there are to load as far as is known now."""
        left = sum(1 for batch in self.log.batches() for each in batch.records if each.offset >= self.next_offset)
        return self.records_read, self.records_read + left

    def __repr__(self) -> str:
        return f"<OffsetLoad up to {self.next_offset} of {self.log.end_offset}, next chunk at {self.due_ms} ms>"


def replicated_part(log: SegmentedLog, rules: OffsetRules) -> OffsetCache:
    """What a cache holds of the records below the high watermark; BrokenRecordError as `read_as`."""
    cache = OffsetCache()
    for record in records_from(log, log.start_offset, log.high_watermark, log.end_offset + 1):
        found = read_as(rules, record)
        if found is not None:
            cache.replay(record.offset, found)
    return cache
