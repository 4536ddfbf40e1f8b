"""The broker's side of committed offsets: it keeps those of every group whose partition of the offsets topic it leads.

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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kitlib.errors import KitError
from kitlib.mechanisms.offsets_topic.segments import LogRecord, SegmentedLog
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.hashes import group_partition
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.offset_cache import (
    Key,
    OffsetAndMetadata,
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
from kitlib.more.offsets.records import CONSUMER, GROUP_METADATA_TYPE, UNKNOWN_TYPE, OffsetsRecord, decode, encode
from kitlib.more.offsets.wire import BrokenRecordError


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
        end = self.log.end_offset if self.rules.loads_to_end else self.log.high_watermark
        self.chunk = records_from(self.log, self.next_offset, end, self.config.load_chunk_records)
        self.due_ms = now_ms + -(-len(self.chunk) * 1000 // self.config.load_records_per_s)

    def step(self) -> list[OffsetEvent]:
        """Put the chunk into the cache, and begin the next one. BrokenRecordError at a record that ends the load.

        What stood before that record in the chunk is in the cache then; `next_offset` is the record's.
        """
        notes: list[OffsetEvent] = []
        first = self.chunk[0].offset
        for record in self.chunk:
            self.next_offset = record.offset
            found = read_as(self.rules, record)
            if found is not None:
                gone = self.cache.replay(found)
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

    def __repr__(self) -> str:
        return f"<OffsetLoad up to {self.next_offset} of {self.log.end_offset}, next chunk at {self.due_ms} ms>"


def replicated_part(log: SegmentedLog, rules: OffsetRules) -> OffsetCache:
    """What a cache holds of the records below the high watermark; BrokenRecordError as `read_as`."""
    cache = OffsetCache()
    for record in records_from(log, log.start_offset, log.high_watermark, log.end_offset + 1):
        found = read_as(rules, record)
        if found is not None:
            cache.replay(found)
    return cache


class LedState(Enum):
    """How far a led partition is."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"  # its load ended at a record that cannot be read


@dataclass(slots=True)
class LedPartition:
    """A partition of the offsets topic that this broker leads."""

    partition: int
    log: SegmentedLog
    state: LedState = LedState.LOADING
    cache: OffsetCache = field(default_factory=OffsetCache)
    load: OffsetLoad | None = None  # while it is loading
    failure: str = ""  # why its load ended early; it may be active all the same
    next_purge_ms: int = 0


@dataclass(slots=True)
class OffsetManager:
    """One broker's offset manager."""

    broker: int = 1
    rules: OffsetRules = KAFKA_4_3_1
    config: OffsetConfig = field(default_factory=OffsetConfig)
    started_ms: int = 0  # the old purge runs at each interval from here on
    now_ms: int = 0  # the time that `advance` was told last
    led: dict[int, LedPartition] = field(default_factory=dict)  # by number

    def partition_of(self, group: str) -> int:
        """The partition of the offsets topic that keeps this group's offsets."""
        return group_partition(group, self.config.partitions)

    def lead(self, partition: int, log: SegmentedLog, now_ms: int) -> list[OffsetEvent]:
        """Become the leader of a partition with this log: the load begins. KitError when it leads it already."""
        if partition in self.led:
            raise KitError(f"broker {self.broker} already leads partition {partition}. Let it resign first.")
        led = LedPartition(partition, log)
        led.load = OffsetLoad(self.rules, self.config, log, led.cache, now_ms)
        interval = self.config.retention_check_interval_ms
        led.next_purge_ms = self.started_ms + ((now_ms - self.started_ms) // interval + 1) * interval
        self.led[partition] = led
        self.now_ms = max(self.now_ms, now_ms)
        begun = OffsetEvent("load_begin", {"records": led.load.progress()[1]})
        return [begun, *self._end_load(led)] if led.load.is_done else [begun]

    def resign(self, partition: int) -> list[OffsetEvent]:
        """Lead a partition no more: its part of the cache goes. Nothing happens when it is not led."""
        led = self.led.pop(partition, None)
        keys = [] if led is None else list(led.cache.offsets)
        return [OffsetEvent("evict", {"key": key_text(key), "why": "moved"}) for key in keys]

    def next_due(self) -> int | None:
        """When something happens by itself; None while nothing is led."""
        return min((self._due(led) for led in self.led.values()), default=None)

    def _due(self, led: LedPartition) -> int:
        if led.load is None:
            return led.next_purge_ms
        return led.load.due_ms if self.rules.load_is_exclusive else min(led.load.due_ms, led.next_purge_ms)

    def advance(self, now_ms: int) -> list[OffsetEvent]:
        """Let time go on: loads get further and purges run, in the order of their times.

        KitError when the time goes back.
        """
        if now_ms < self.now_ms:
            raise KitError(f"broker {self.broker}: the time went from {self.now_ms} back to {now_ms} ms.")
        notes: list[OffsetEvent] = []
        while self.led:
            led = min(self.led.values(), key=self._due)
            due_ms = self._due(led)
            if due_ms > now_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            if led.load is not None and led.load.due_ms == due_ms:
                notes += self._load_step(led)
            elif led.state is not LedState.FAILED:
                led.next_purge_ms += self.config.retention_check_interval_ms
                notes += self.purge(led.partition, due_ms)
            else:
                led.next_purge_ms += self.config.retention_check_interval_ms
        self.now_ms = now_ms
        return notes

    def _load_step(self, led: LedPartition) -> list[OffsetEvent]:
        load = led.load
        assert load is not None
        try:
            notes = load.step()
        except BrokenRecordError as error:
            led.failure = f"offset {load.next_offset}: {error}"
            failed = OffsetEvent("load_failed", {"at": load.next_offset, "why": str(error)})
            if self.rules.serves_after_failed_load:
                return [failed, *self._end_load(led)]
            led.state, led.load, led.cache = LedState.FAILED, None, OffsetCache()
            return [failed]
        return notes + self._end_load(led) if load.is_done else notes

    def _end_load(self, led: LedPartition) -> list[OffsetEvent]:
        load = led.load
        assert load is not None
        ended_ms = load.due_ms
        led.state, led.load = LedState.ACTIVE, None
        if self.rules.clock is Clock.GROUP_EMPTY:  # its timer belongs to the partition, not to the broker
            led.next_purge_ms = ended_ms + self.config.retention_check_interval_ms
        return [OffsetEvent("load_end", {"records": load.records_read, "ms": ended_ms - load.begun_ms})]

    def error_for(self, group: str, is_commit: bool = False) -> ErrorCode:
        """Whether this broker may answer for a group now; a commit is taken during a load where that is not exclusive."""
        led = self.led.get(self.partition_of(group))
        if led is None or led.state is LedState.FAILED:
            return ErrorCode.NOT_COORDINATOR
        if led.state is LedState.LOADING and (self.rules.load_is_exclusive or not is_commit):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, int], now_ms: int
    ) -> tuple[dict[TopicPartition, ErrorCode], list[OffsetEvent]]:
        """Write the offsets, one record each in one batch; (each partition's error, what happened)."""
        error = self.error_for(group, is_commit=True)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(offsets, error), []
        led = self._led_for(group)
        led.cache.groups.setdefault(group, CachedGroup())  # even if nothing is written in the end
        rows = [self._commit_record((group, *partition), offset, now_ms) for partition, offset in offsets.items()]
        return dict.fromkeys(offsets, error), self._write(led, rows, now_ms)

    def fetch(
        self, group: str, partitions: Iterable[TopicPartition], require_stable: bool = False
    ) -> tuple[ErrorCode, dict[TopicPartition, int]]:
        """(the group's error, each partition's offset); NO_OFFSET for none, and with an error.

        Without `require_stable`, which today's clients ask for, a coordinator of 4.0 or later answers from the replicated
        part of its log, which a new leader learns of late.
        """
        error = self.error_for(group)
        if error is not ErrorCode.NONE:
            return error, dict.fromkeys(partitions, NO_OFFSET)
        led = self.led[self.partition_of(group)]
        is_behind = led.log.high_watermark < led.log.end_offset
        behind = is_behind and not require_stable and self.rules.clock is Clock.GROUP_EMPTY
        cache = replicated_part(led.log, self.rules) if behind else led.cache
        found = {each: cache.offsets.get((group, *each)) for each in partitions}
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
        record = OffsetsRecord(RECORD_TYPES[GROUP_METADATA_TYPE], {"group": group}, 3, value)
        return self._write(self._led_for(group), [record], now_ms)

    def purge(self, partition: int, now_ms: int) -> list[OffsetEvent]:
        """Forget what is too old, with a tombstone each; since 2.1 also a group that is empty and has no offset left."""
        led = self.led[partition]
        cache = led.cache
        keys = [key for key, value in cache.offsets.items() if self._is_expired(cache, key, value, now_ms)]
        notes = self._forget(led, keys, now_ms, "expired")
        if self.rules.clock is Clock.GROUP_EMPTY:
            left = {key[0] for key in cache.offsets}
            gone = [name for name, group in cache.groups.items() if name not in left and group.is_empty and not group.is_rebalancing]
            over = [OffsetsRecord(RECORD_TYPES[GROUP_METADATA_TYPE], {"group": name}) for name in gone]
            notes += self._write(led, over, now_ms)
        return notes

    def _is_expired(self, cache: OffsetCache, key: Key, value: OffsetAndMetadata, now_ms: int) -> bool:
        return is_expired(
            self.rules.clock,
            cache.groups[key[0]],
            key[1],
            value.commit_timestamp_ms,
            value.expire_timestamp_ms,
            now_ms,
            self.config.offsets_retention_ms,
        )

    def _led_for(self, group: str) -> LedPartition:
        led = self.led.get(self.partition_of(group))
        if led is None:
            raise KitError(
                f"broker {self.broker} does not lead partition {self.partition_of(group)}, which keeps group {group}. "
                "Ask its leader."
            )
        return led

    def _commit_record(self, key: Key, offset: int, now_ms: int) -> OffsetsRecord:
        """The record of one commit as this release writes it."""
        rules, (group, topic, partition) = self.rules, key
        fields = {"offset": offset, "metadata": "", "commitTimestamp": now_ms}
        if rules.clock is Clock.COMMIT_OR_EXPIRY:
            fields["expireTimestamp"] = now_ms + self.config.offsets_retention_ms
        names = {"group": group, "topic": topic, "partition": partition}
        return OffsetsRecord(RECORD_TYPES[rules.written_type], names, rules.written_version, fields)

    def _forget(self, led: LedPartition, keys: list[Key], now_ms: int, why: str) -> list[OffsetEvent]:
        kind = RECORD_TYPES[self.rules.written_type]
        names = ({"group": group, "topic": topic, "partition": partition} for group, topic, partition in keys)
        return self._write(led, [OffsetsRecord(kind, each) for each in names], now_ms, why)

    def _write(
        self, led: LedPartition, records: list[OffsetsRecord], now_ms: int, why: str = "tombstone"
    ) -> list[OffsetEvent]:
        """Append the records as one batch and play them into the cache; with no records nothing happens."""
        if not records:
            return []
        batch = led.log.append([(*encode(record), now_ms) for record in records])
        notes = []
        for offset, record in enumerate(records, batch.base_offset):
            gone = led.cache.replay(record)
            notes += noted(offset, record, now_ms)
            if gone is not None:
                notes.append(OffsetEvent("evict", {"key": key_text(gone), "why": why}))
        return notes

    def offsets(self) -> Iterator[tuple[Key, OffsetAndMetadata]]:
        """Every offset in the cache."""
        return (pair for led in self.led.values() for pair in led.cache.offsets.items())

    @property
    def num_offsets(self) -> int:
        """How many offsets are in the cache; the broker's gauge NumOffsets."""
        return sum(len(led.cache.offsets) for led in self.led.values())

    @property
    def num_groups(self) -> int:
        """How many groups have an offset in the cache; the gauge NumGroups of 0.8.2."""
        return len({key[0] for key, _ in self.offsets()})

    def __repr__(self) -> str:
        states = ", ".join(f"{led.partition} {led.state.value}" for led in self.led.values())
        return f"<OffsetManager of broker {self.broker}, rules {self.rules}: {self.num_offsets} offsets; leads {states or 'nothing'}>"
