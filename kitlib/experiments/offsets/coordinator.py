"""A group's coordinator as a consumer sees it, in memory or on real brokers: join, commit, ask, and let it move.

The one in memory is two brokers that share the log of one partition of the offsets topic; either of them leads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.experiments.backend import Topic
from kitlib.experiments.compaction.compacted_log import segments_of
from kitlib.mechanisms.offsets_topic.segments import LogRecord, SegmentedLog
from kitlib.mechanisms.positions import ResetPolicy, start_position
from kitlib.more.offsets.messages import SUBSCRIPTION
from kitlib.more.offsets.offset_cache import OffsetCache, TopicPartition, key_of, key_text
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import RULES, OffsetConfig, OffsetError, OffsetEvent
from kitlib.more.offsets.records import decode
from kitlib.more.offsets.wire import INTEGERS, BrokenRecordError, write_message

MEMBER = "A"
REPLICATED_MS = 500  # how long a new leader waits for its followers' next fetch; replica.fetch.wait.max.ms
ASK_MS = 1  # virtual time of a request and its answer
FIRST_MS = 1_000
OLD_FORMAT = ", old format"  # behind the key of a commit of 0.8.2
GROUP_RECORDS = 2  # the record type of groups, which early releases do not have


@dataclass(slots=True)
class ToldLog:
    """The offsets topic's records as the steps of a trace show them."""

    log: SegmentedLog
    keys: dict[str, int] = field(default_factory=dict)  # the numbers of the keys that were shown
    _rows: dict[int, list[Any]] = field(default_factory=dict)  # by offset

    def records(self) -> list[list[Any]]:
        """Each as [offset, its key's number, its value]: a committed offset, a group's number of members, or nothing."""
        return [self._row(record) for record in self.log.records()]

    def _row(self, record: LogRecord) -> list[Any]:
        if record.offset not in self._rows:
            key, value = told_of(record)
            self._rows[record.offset] = [record.offset, self.keys.setdefault(key, len(self.keys)), value]
        return self._rows[record.offset]


@dataclass(slots=True)
class ModelCoordinator:
    """The coordinator of one group, wherever it is, and the one member of that group: two brokers in memory."""

    on_kafka: ClassVar[str] = "kitlib.experiments.offsets.kafka_coordinator:KafkaCoordinator"

    rules: str
    config: OffsetConfig
    odd_record: str = "none"
    require_stable: bool = True
    unreplicated: int = 0  # records at the log's end of which a new leader does not know at once that all copies have them
    group: str = "billing"
    now_ms: int = FIRST_MS
    log: SegmentedLog = field(default_factory=lambda: SegmentedLog("__consumer_offsets-0"))
    brokers: dict[int, OffsetManager] = field(init=False)
    leader: int = 1
    known: int = 1  # the member's idea of it
    generation: int = 0
    replicated_ms: int = 0  # when the new leader knows of all
    happened: list[tuple[str, OffsetEvent]] = field(default_factory=list)
    told: ToldLog = field(init=False)
    _shown: dict[str, Any] | None = None
    _shown_at: tuple[int, int, str] = (0, 0, "")

    def __post_init__(self) -> None:
        rules, self.told = RULES[self.rules], ToldLog(self.log)
        self.brokers = {number: OffsetManager(number, rules, self.config, FIRST_MS, FIRST_MS) for number in (1, 2)}
        self._follow(self.brokers[1].lead(0, self.log, self.now_ms))

    @property
    def asked(self) -> str:
        """Whom the member takes for its coordinator."""
        return f"coordinator {self.known}"

    @property
    def manager(self) -> OffsetManager:
        """The broker that leads the partition."""
        return self.brokers[self.leader]

    def join(self, topics: Sequence[str]) -> None:
        """The member joins its group and reads these topics."""
        subscription = {"topics": list(topics), "userData": None}
        self._write_group({MEMBER: INTEGERS["int16"].pack(0) + write_message(SUBSCRIPTION, 0, subscription)})

    def leave(self) -> None:
        """The member leaves; nobody is in the group."""
        self._write_group({})

    def _write_group(self, members: dict[str, bytes]) -> None:
        """What the log is told of the group; before 0.9 a group was ZooKeeper's, and the log knew nothing of it."""
        known = RULES[self.rules].known_types
        self.generation += 1
        if known is None or GROUP_RECORDS in known:
            self._follow(self.manager.write_group(self.group, self.now_ms, generation=self.generation, members=members))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> OffsetError:
        """Commit once; the error of the first partition that has one."""
        self.wait(ASK_MS)
        errors, notes = self.brokers[self.known].commit(self.group, offsets, self.now_ms)
        self._follow(notes)
        error = next((each for each in errors.values() if each is not OffsetError.NONE), OffsetError.NONE)
        if error is OffsetError.NOT_COORDINATOR:
            self.known = self.leader
        return error

    def fetch(self, partitions: Sequence[TopicPartition]) -> tuple[OffsetError, dict[TopicPartition, int]]:
        """Ask once; -1 where there is no offset. After NOT_COORDINATOR the member looks for the coordinator anew."""
        self.wait(ASK_MS)
        error, answers = self.brokers[self.known].fetch(self.group, partitions, self.require_stable)
        if error is OffsetError.NOT_COORDINATOR:
            self.known = self.leader
        return error, answers

    def others_commit(self, records: int, keys: int) -> None:
        """Other groups of the same partition of the offsets topic commit so often, to so many partitions."""
        for number in range(records):
            if number == records // 2:
                self._write_odd_record()
            self.manager.commit("other groups", {("clicks", number % keys): number}, self.now_ms)

    def _write_odd_record(self) -> None:
        """A record of a later release: of a type that is not known yet, or a commit in a version that is not."""
        if self.odd_record == "unknown type":
            self.log.append([(b"\x7f\xff\x00\x01x", b"\x00\x00", self.now_ms)])
        if self.odd_record == "later version":
            key = b"\x00\x01\x00\x05later\x00\x01t\x00\x00\x00\x00"
            self.log.append([(key, b"\x7f\xff\x00", self.now_ms)])

    def move(self) -> tuple[int, int]:
        """Another broker becomes the coordinator: (who it was, who it is)."""
        before, self.leader = self.leader, 3 - self.leader
        self._follow(self.brokers[before].resign(0), before)
        self.log.update_high_watermark(self.log.end_offset - self.unreplicated)
        self.replicated_ms = self.now_ms + REPLICATED_MS
        self._follow(self.manager.lead(0, self.log, self.now_ms))
        return before, self.leader

    def first_position(self, topic: Topic, committed: int | None, policy: ResetPolicy) -> int:
        """Where a consumer of the group begins to read a topic whose offset the coordinator has told, None for none."""
        return start_position(committed, topic.start, topic.end, policy)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        if self.now_ms >= self.replicated_ms:
            self.log.update_high_watermark(self.log.end_offset)
        for number, broker in self.brokers.items():
            self._follow(broker.advance(self.now_ms), number)

    def _follow(self, notes: list[OffsetEvent], number: int | None = None) -> None:
        name = f"coordinator {number or self.leader}"
        self.happened += [("offsets log" if each.what == "write" else name, each) for each in notes]

    def events(self) -> list[tuple[str, OffsetEvent]]:
        """What the coordinators did since the last call, each with its name; real ones do not tell."""
        happened, self.happened = self.happened, []
        return happened

    def state(self) -> dict[str, Any]:
        """The offsets topic and the cache as a step's state holds them; empty where they cannot be seen."""
        led = self.manager.led[0]
        loading = None if led.load is None else list(led.load.progress())
        now = (self.log.end_offset, led.cache.version, str(loading))
        if self._shown is None or now != self._shown_at:
            self._shown_at = now
            self._shown = {
                "segments": segments_of(self.log),
                "records": self.told.records(),
                "keys": list(self.told.keys),
                "cache": cached(led.cache),
                "loading": loading,
                "dirty_ratio": 0.0,
                "cleaner": "runs",
            }
        return self._shown


def cached(cache: OffsetCache) -> dict[str, int]:
    """What is in a cache: each offset, and each group that the log tells of with its number of members."""
    groups = {f"group {name}": group.members for name, group in cache.groups.items() if group.protocol_type is not None}
    return groups | {key_text(key): value.committed_offset for key, value in cache.offsets.items()}


def told_of(record: LogRecord) -> tuple[str, int | None]:
    """A record's key and value in the words of a trace; one that cannot be read has the value 0."""
    try:
        found = decode(record.key, record.value)
    except BrokenRecordError as error:
        return f"not readable: {error}", 0
    if not found.is_commit:
        return f"group {found.group}", None if found.value is None else len(found.value.get("members", ()))
    key = key_text(key_of(found)) + (OLD_FORMAT if found.type.number == 0 else "")
    return key, None if found.value is None else int(found.value["offset"])
