"""The broker's side of committed offsets: it keeps those of every group whose partition of the offsets topic it leads; here, of one.

A commit is a record in that partition and an entry in the cache; a fetch is answered from the cache and never
reads the log. When the partition's leader moves, the new one must fill its cache from the log before it may
answer. "No offset" (-1) is a true answer that sends a consumer to its reset policy, so a manager that gives it
too early loses or repeats records although every commit is still in the log.

Time advances through `advance`: call it with the time before each request, and when `next_due` has come.

Source: Apache Kafka 0.8.2.2 `OffsetManager`, 0.9.0.1 `GroupMetadataManager`, 4.3.1 `OffsetMetadataManager`,
`GroupCoordinatorShard`, `CoordinatorRuntime`; which of them decides by `rules`.
Differs: whether the member that commits may do so is `GroupCoordinator`'s to say; no answer waits for the log's high
watermark; what a commit says besides its offset (metadata, the leader's epoch, a retention of its own, the topic's id),
transactions, groups of the newer protocols and OffsetDelete are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kitlib.mechanisms.offsets_topic.segments import LogRecord, SegmentedLog
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.offset_cache import (
    Key,
    OffsetCache,
    TopicPartition,
    key_text,
    noted,
)
from kitlib.more.offsets.offset_rules import (
    KAFKA_4_3_1,
    NO_OFFSET,
    CachedGroup,
    Clock,
    OffsetConfig,
    OffsetEvent,
    OffsetRules,
    is_expired,
)
from kitlib.more.offsets.records import CONSUMER, GROUP_METADATA_TYPE, OffsetsRecord, decode, encode
from kitlib.more.offsets.wire import BrokenRecordError


def records_from(log: SegmentedLog, offset: int, most: int) -> list[LogRecord]:
    """Up to `most` records of the log from an offset on; those that compaction took out leave no trace."""
    batches = (each for each in log.batches() if each.last_offset >= offset)
    return list(islice((record for batch in batches for record in batch.records if record.offset >= offset), most))


def read_as(rules: OffsetRules, record: LogRecord) -> OffsetsRecord:
    """The record as a release reads it. BrokenRecordError ends the load.

    A release that lists its record types fails at any other, and at a commit's value of a later version than
    it knows.
    """
    found = decode(record.key, record.value)
    if rules.known_types is not None and found.type.number not in rules.known_types:
        raise BrokenRecordError(f"Unknown offset schema version {found.type.number}")
    if found.is_commit and found.version is not None and found.version > rules.known_version:
        raise BrokenRecordError(f"A commit of version {found.version} cannot be read")
    return found


@dataclass(slots=True)
class OffsetLoad:
    """How a new coordinator fills its cache: the log's records, from the first to the last, a chunk at a time.

    The time it takes is the log's length by the reading speed, so it is the compaction of the offsets topic
    that keeps it short. Who asks meanwhile is told to ask again. What is written to the log while the load runs
    is read as well, at the end.

    Source: Apache Kafka 0.8.2.2 `OffsetManager.loadOffsetsFromLog`; 4.3.1 `CoordinatorLoaderImpl.doLoad`.
    Differs: a chunk is so many records instead of bytes and takes the time that the reading speed gives it.
    """

    rules: OffsetRules
    config: OffsetConfig
    log: SegmentedLog
    cache: OffsetCache
    begun_ms: int
    next_offset: int = 0  # everything below it is in the cache
    records_read: int = 0
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
        self.chunk = records_from(self.log, self.next_offset, self.config.load_chunk_records)
        self.due_ms = now_ms + -(-len(self.chunk) * 1000 // self.config.load_records_per_s)

    def step(self) -> list[OffsetEvent]:
        """Put the chunk into the cache, and begin the next one. BrokenRecordError at a record that ends the load.

        What stood before that record in the chunk is in the cache then; `next_offset` is the record's.
        """
        notes: list[OffsetEvent] = []
        first = self.chunk[0].offset
        for record in self.chunk:
            self.next_offset = record.offset
            gone = self.cache.replay(read_as(self.rules, record))
            if gone is not None:
                notes.append(OffsetEvent("evict", {"key": key_text(gone), "why": "tombstone"}))
            self.records_read += 1
            self.next_offset = record.offset + 1
        notes.insert(0, OffsetEvent("load", {"from": first, "to": self.next_offset - 1}))
        self.next_chunk(self.due_ms)
        return notes

    def progress(self) -> tuple[int, int]:
        """How many records are in the cache, and how many there are to load as far as is known now."""
        left = sum(1 for batch in self.log.batches() for each in batch.records if each.offset >= self.next_offset)
        return self.records_read, self.records_read + left


@dataclass(slots=True)
class OffsetManager:
    """One broker's offset manager, for one partition of the offsets topic."""

    broker: int = 1
    rules: OffsetRules = KAFKA_4_3_1
    config: OffsetConfig = field(default_factory=OffsetConfig)
    started_ms: int = 0  # the old purge runs at each interval from here on
    now_ms: int = 0  # the time that `advance` was told last
    log: SegmentedLog | None = None  # of the partition, while this broker leads it
    cache: OffsetCache = field(default_factory=OffsetCache)
    load: OffsetLoad | None = None  # while the cache is filled
    next_purge_ms: int = 0

    def lead(self, log: SegmentedLog, now_ms: int) -> list[OffsetEvent]:
        """Become the leader of the partition with this log: the load begins."""
        self.log, self.cache = log, OffsetCache()
        self.load = OffsetLoad(self.rules, self.config, log, self.cache, now_ms)
        interval = self.config.retention_check_interval_ms
        self.next_purge_ms = self.started_ms + ((now_ms - self.started_ms) // interval + 1) * interval
        self.now_ms = max(self.now_ms, now_ms)
        begun = OffsetEvent("load_begin", {"records": self.load.progress()[1]})
        return [begun, *self._end_load(self.load)] if self.load.is_done else [begun]

    def resign(self) -> list[OffsetEvent]:
        """Lead the partition no more: the cache goes. Nothing happens when it is not led."""
        keys = list(self.cache.offsets)
        self.log, self.cache, self.load = None, OffsetCache(), None
        return [OffsetEvent("evict", {"key": key_text(key), "why": "moved"}) for key in keys]

    def next_due(self) -> int | None:
        """When something happens by itself; None while nothing is led."""
        if self.log is None:
            return None
        if self.load is None:
            return self.next_purge_ms
        return self.load.due_ms if self.rules.load_is_exclusive else min(self.load.due_ms, self.next_purge_ms)

    def advance(self, now_ms: int) -> list[OffsetEvent]:
        """Let time go on: the load gets further and purges run, in the order of their times."""
        notes: list[OffsetEvent] = []
        while (due_ms := self.next_due()) is not None and due_ms <= now_ms:
            self.now_ms = max(self.now_ms, due_ms)
            if self.load is not None and self.load.due_ms == due_ms:
                notes += self._load_step(self.load)
            else:
                self.next_purge_ms += self.config.retention_check_interval_ms
                notes += self.purge(due_ms)
        self.now_ms = now_ms
        return notes

    def _load_step(self, load: OffsetLoad) -> list[OffsetEvent]:
        try:
            notes = load.step()
        except BrokenRecordError as error:
            return [OffsetEvent("load_failed", {"at": load.next_offset, "why": str(error)}), *self._end_load(load)]
        return notes + self._end_load(load) if load.is_done else notes

    def _end_load(self, load: OffsetLoad) -> list[OffsetEvent]:
        self.load = None
        if self.rules.clock is Clock.GROUP_EMPTY:  # its timer belongs to the partition, not to the broker
            self.next_purge_ms = load.due_ms + self.config.retention_check_interval_ms
        return [OffsetEvent("load_end", {"records": load.records_read, "ms": load.due_ms - load.begun_ms})]

    def error_now(self, is_commit: bool = False) -> ErrorCode:
        """Whether this broker may answer now; a commit is taken during a load where that is not exclusive."""
        if self.log is None:
            return ErrorCode.NOT_COORDINATOR
        if self.load is not None and (self.rules.load_is_exclusive or not is_commit):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], now_ms: int) -> tuple[ErrorCode, list[OffsetEvent]]:
        """Write the offsets, one record each in one batch; (the error, what happened)."""
        error = self.error_now(is_commit=True)
        if error is not ErrorCode.NONE:
            return error, []
        self.cache.groups.setdefault(group, CachedGroup())  # even if nothing is written in the end
        return error, self._write([self._commit_record((group, *where), offset, now_ms) for where, offset in offsets.items()], now_ms)

    def fetch(self, group: str, partitions: Iterable[TopicPartition]) -> tuple[ErrorCode, dict[TopicPartition, int]]:
        """(the error, each partition's offset); NO_OFFSET for none, and with an error."""
        error = self.error_now()
        if error is not ErrorCode.NONE:
            return error, dict.fromkeys(partitions, NO_OFFSET)
        found = {each: self.cache.offsets.get((group, *each)) for each in partitions}
        return error, {each: NO_OFFSET if known is None else known.committed_offset for each, known in found.items()}

    def write_group(
        self,
        group: str,
        now_ms: int,
        *,
        generation: int = 1,
        members: Mapping[str, bytes] | None = None,
    ) -> list[OffsetEvent]:
        """Write what became of a group: its members by id, each with its subscription's bytes; none: it is empty now."""
        told = [
            {
                "memberId": member, "groupInstanceId": None, "clientId": member, "clientHost": "/127.0.0.1",
                "rebalanceTimeout": 300_000, "sessionTimeout": 45_000, "subscription": raw, "assignment": b"",
            }
            for member, raw in (members or {}).items()
        ]  # fmt: skip
        value = {
            "protocolType": CONSUMER, "generation": generation, "protocol": "range" if told else None,
            "leader": told[0]["memberId"] if told else None, "currentStateTimestamp": now_ms, "members": told,
        }  # fmt: skip
        return self._write([OffsetsRecord(RECORD_TYPES[GROUP_METADATA_TYPE], {"group": group}, 3, value)], now_ms)

    def purge(self, now_ms: int) -> list[OffsetEvent]:
        """Forget what is too old, with a tombstone each; since 2.1 also a group that is empty and has no offset left."""
        rules, cache, retention_ms = self.rules, self.cache, self.config.offsets_retention_ms
        old = [
            key for key, value in cache.offsets.items()
            if is_expired(
                rules.clock, cache.groups[key[0]], key[1], value.commit_timestamp_ms, value.expire_timestamp_ms, now_ms, retention_ms
            )
        ]  # fmt: skip
        kind = RECORD_TYPES[rules.written_type]
        notes = self._write([OffsetsRecord(kind, key_fields(key)) for key in old], now_ms, "expired")
        if rules.clock is Clock.GROUP_EMPTY:
            left = {key[0] for key in cache.offsets}
            gone = [name for name, group in cache.groups.items() if name not in left and group.is_empty]
            notes += self._write([OffsetsRecord(RECORD_TYPES[GROUP_METADATA_TYPE], {"group": name}) for name in gone], now_ms)
        return notes

    def _commit_record(self, key: Key, offset: int, now_ms: int) -> OffsetsRecord:
        """The record of one commit as this release writes it."""
        fields = {"offset": offset, "metadata": "", "commitTimestamp": now_ms}
        if self.rules.clock is Clock.COMMIT_OR_EXPIRY:
            fields["expireTimestamp"] = now_ms + self.config.offsets_retention_ms
        return OffsetsRecord(RECORD_TYPES[self.rules.written_type], key_fields(key), self.rules.written_version, fields)

    def _write(self, records: list[OffsetsRecord], now_ms: int, why: str = "tombstone") -> list[OffsetEvent]:
        """Append the records as one batch and play them into the cache; nothing without records, or where no log is led."""
        if not records or self.log is None:
            return []
        batch = self.log.append([(*encode(record), now_ms) for record in records])
        notes = []
        for offset, record in enumerate(records, batch.base_offset):
            gone = self.cache.replay(record)
            notes += noted(offset, record, now_ms)
            if gone is not None:
                notes.append(OffsetEvent("evict", {"key": key_text(gone), "why": why}))
        return notes

    @property
    def num_offsets(self) -> int:
        """How many offsets are in the cache; the broker's gauge NumOffsets."""
        return len(self.cache.offsets)

    @property
    def num_groups(self) -> int:
        """How many groups have an offset in the cache; the gauge NumGroups of 0.8.2."""
        return len({key[0] for key in self.cache.offsets})

    def __repr__(self) -> str:
        state = "leads nothing" if self.log is None else "loads" if self.load else "is active"
        return f"<OffsetManager of broker {self.broker}, rules {self.rules}: {self.num_offsets} offsets; {state}>"


def key_fields(key: Key) -> dict[str, Any]:
    """A key as a commit's record has it."""
    return dict(zip(("group", "topic", "partition"), key, strict=True))
