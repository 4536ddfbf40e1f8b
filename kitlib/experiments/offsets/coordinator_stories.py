"""The experiments with a coordinator that forgets what nobody uses, or moves to another broker.

A consumer sees its group's coordinator, in memory or on real brokers: it joins, commits, asks, and lets it move. The one in
memory is two brokers that share the log of one partition of the offsets topic; either of them leads it. Real coordinators
tell nothing of their loads and caches; there the trace has what the consumer sees: its answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from kitlib.errors import LabError
from kitlib.experiments.backend import read_between
from kitlib.experiments.compaction.compaction_stories import segments_of
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.mechanisms.offsets_topic.segments import LogRecord, SegmentedLog
from kitlib.mechanisms.positions import ResetPolicy, start_position
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.monitor.figures import LOADING, LOST_OR_AGAIN
from kitlib.more.offsets.messages import SUBSCRIPTION
from kitlib.more.offsets.offset_cache import OffsetCache, TopicPartition, key_text, told
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import NO_OFFSET, RULES, OffsetConfig, OffsetEvent
from kitlib.more.offsets.records import decode
from kitlib.more.offsets.wire import INTEGERS, write_message

if TYPE_CHECKING:
    from kitlib.experiments.kafka_backend import Topic

MEMBER = "A"
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
            found = decode(record.key, record.value)
            key, value = told(found)
            key += OLD_FORMAT if found.type.number == 0 else ""
            self._rows[record.offset] = [record.offset, self.keys.setdefault(key, len(self.keys)), value]
        return self._rows[record.offset]


@dataclass(slots=True)
class ModelCoordinator:
    """The coordinator of one group, wherever it is, and the one member of that group: two brokers in memory."""

    on_kafka: ClassVar[str] = "kitlib.experiments.offsets.kafka_coordinator:KafkaCoordinator"

    rules: str
    config: OffsetConfig
    group: str = "billing"
    now_ms: int = FIRST_MS
    log: SegmentedLog = field(default_factory=lambda: SegmentedLog("__consumer_offsets-0"))
    brokers: dict[int, OffsetManager] = field(init=False)
    leader: int = 1
    known: int = 1  # the member's idea of it
    generation: int = 0
    happened: list[tuple[str, OffsetEvent]] = field(default_factory=list)
    told: ToldLog = field(init=False)
    _shown: dict[str, Any] | None = None
    _shown_at: tuple[int, int, str] = (0, 0, "")

    def __post_init__(self) -> None:
        rules, self.told = RULES[self.rules], ToldLog(self.log)
        self.brokers = {number: OffsetManager(number, rules, self.config, FIRST_MS, FIRST_MS) for number in (1, 2)}
        self._follow(self.brokers[1].lead(self.log, self.now_ms))

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

    def commit(self, offsets: Mapping[TopicPartition, int]) -> ErrorCode:
        """Commit once; the error of the first partition that has one."""
        self.wait(ASK_MS)
        error, notes = self.brokers[self.known].commit(self.group, offsets, self.now_ms)
        self._follow(notes)
        if error is ErrorCode.NOT_COORDINATOR:
            self.known = self.leader
        return error

    def fetch(self, partitions: Sequence[TopicPartition]) -> tuple[ErrorCode, dict[TopicPartition, int]]:
        """Ask once; -1 where there is no offset. After NOT_COORDINATOR the member looks for the coordinator anew."""
        self.wait(ASK_MS)
        error, answers = self.brokers[self.known].fetch(self.group, partitions)
        if error is ErrorCode.NOT_COORDINATOR:
            self.known = self.leader
        return error, answers

    def others_commit(self, records: int, keys: int) -> None:
        """Other groups of the same partition of the offsets topic commit so often, to so many partitions."""
        for number in range(records):
            self.manager.commit("other groups", {("clicks", number % keys): number}, self.now_ms)

    def move(self) -> tuple[int, int]:
        """Another broker becomes the coordinator: (who it was, who it is)."""
        before, self.leader = self.leader, 3 - self.leader
        self._follow(self.brokers[before].resign(), before)
        self._follow(self.manager.lead(self.log, self.now_ms))
        return before, self.leader

    def first_position(self, topic: Topic, committed: int | None, policy: ResetPolicy) -> int:
        """Where a consumer of the group begins to read a topic whose offset the coordinator has told, None for none."""
        return start_position(committed, topic.start, topic.end, policy)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
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
        manager = self.manager
        loading = None if manager.load is None else list(manager.load.progress())
        now = (self.log.end_offset, manager.cache.version, str(loading))
        if self._shown is None or now != self._shown_at:
            self._shown_at = now
            self._shown = {
                "segments": segments_of(self.log),
                "records": self.told.records(),
                "keys": list(self.told.keys),
                "cache": cached(manager.cache),
                "loading": loading,
                "dirty_ratio": 0.0,
                "cleaner": "runs",
            }
        return self._shown


def cached(cache: OffsetCache) -> dict[str, int]:
    """What is in a cache: each offset, and each group that the log tells of with its number of members."""
    groups = {f"group {name}": group.members for name, group in cache.groups.items() if group.protocol_type is not None}
    return groups | {key_text(key): value.committed_offset for key, value in cache.offsets.items()}


MOST_ASKED = 1_000
ASK_AGAIN = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
FETCH_RECORDS = 100


@dataclass(slots=True)
class CoordinatorRun(Run):
    """One run of one consumer and its group's coordinator, which forgets, moves and loads."""

    domain: ClassVar[str] = "offsets"

    coordinator: ModelCoordinator = field(init=False)  # or its twin on Kafka
    topics: dict[str, Topic] = field(default_factory=dict)  # of one partition each
    ledgers: dict[str, PartitionLedger] = field(default_factory=dict)
    is_member: bool = False

    def __post_init__(self) -> None:
        given, names = self.settings.given, ("offsets_retention_ms", "load_records_per_s", "load_chunk_records")
        config = OffsetConfig(**given(*names, retention_check_interval_ms="check_interval_ms"))
        self.coordinator = self.backend.provide(ModelCoordinator, self.settings.rules, config)

    @property
    def now_ms(self) -> int:
        return self.coordinator.now_ms

    def state(self) -> dict[str, Any]:
        shown = self.coordinator.state()
        return {"members": [MEMBER] if self.is_member else [], "now_ms": self.now_ms} | ({"offsets": shown} if shown else {})

    def create(self, *names: str) -> None:
        """Topics of one partition each."""
        for name in names:
            self.topics[name] = self.backend.create_topic(name, FETCH_RECORDS)
            self.ledgers[name] = PartitionLedger(self.topics[name].name)

    def append(self, name: str, count: int) -> None:
        if not count:
            return
        ledger = self.ledgers[name]
        offsets = self.topics[name].append([f"{name} {ledger.log_end + number}".encode() for number in range(count)])
        ledger.log_end = offsets[-1] + 1
        self.record_in(ledger, "log", "append", first=offsets[0], last=offsets[-1])

    def join(self) -> None:
        """The consumer joins its group and reads all topics."""
        self.coordinator.join([ledger.topic for ledger in self.ledgers.values()])
        self.is_member = True
        self._record_events()
        self.record(MEMBER, "join")

    def leave(self) -> None:
        """The consumer leaves its group, in which nobody is now."""
        self.coordinator.leave()
        self.is_member = False
        self._record_events()
        self.record(MEMBER, "leave")

    def read(self, name: str) -> None:
        """The consumer reads a topic to its end, processes each record, and commits."""
        ledger, topic = self.ledgers[name], self.topics[name]
        for record in read_between(topic, max(ledger.emitted_to_offset, topic.start), topic.end):
            ledger.emitted_to_offset = record.offset + 1
            self.record_in(ledger, MEMBER, "emit", offset=record.offset)
            ledger.process(record.offset)
            self.record_in(ledger, MEMBER, "process", offset=record.offset)
        self.commit(name)

    def commit(self, name: str) -> None:
        """The consumer commits where it is in a topic, again while the coordinator is not to be had. LabError when it never is."""
        ledger = self.ledgers[name]
        offset = ledger.emitted_to_offset
        for _ in range(MOST_ASKED):
            error = self.coordinator.commit({(ledger.topic, 0): offset})
            self._record_events()
            if error is ErrorCode.NONE:
                ledger.committed_to = offset
                return self.record_in(ledger, MEMBER, "commit", offset=offset, written=True)
            self.record_in(ledger, MEMBER, "commit", offset=offset, written=False, error=error.name)
            if error not in ASK_AGAIN:
                break
            self.wait(self.settings.retry_ms)
        raise LabError(f"{ledger.topic}: {self.coordinator.asked} refuses a commit of {MEMBER}: {error.name}. Look at `kit status`.")

    def resume(self, policy: ResetPolicy, give_up_ms: int, between: int = 0) -> bool:
        """The consumer asks where to begin, again while it is told to, and begins; False when it is never told.

        `between` records come to the first topic before each time that it asks again.
        """
        end_ms = self.now_ms + give_up_ms
        for _ in range(MOST_ASKED):
            who = self.coordinator.asked
            error, offsets = self.coordinator.fetch([(ledger.topic, 0) for ledger in self.ledgers.values()])
            self._record_events()
            told = {} if error is ErrorCode.NONE else {"error": error.name}
            for ledger in self.ledgers.values():
                offset = offsets.get((ledger.topic, 0), NO_OFFSET)
                self.record_in(ledger, who, "answer", group=self.coordinator.group, offset=offset, **told)
            if error is ErrorCode.NONE:
                for name, ledger in self.ledgers.items():
                    self._start(name, offsets[ledger.topic, 0], policy)
                return True
            if self.now_ms >= end_ms:
                break
            self.wait(self.settings.retry_ms)
            self.append(next(iter(self.ledgers)), between)
        return False

    def _start(self, name: str, committed: int, policy: ResetPolicy) -> None:
        ledger, known = self.ledgers[name], None if committed == NO_OFFSET else committed
        ledger.emitted_to_offset = self.coordinator.first_position(self.topics[name], known, policy)
        why = policy if known is None else "committed offset"
        self.record_in(ledger, MEMBER, "start", offset=ledger.emitted_to_offset, why=why)

    def others_commit(self, records: int, keys: int) -> None:
        """Other groups of the same partition of the offsets topic commit."""
        self.coordinator.others_commit(records, keys)
        self.record("others", "write_many", records=records, keys=keys)

    def move(self) -> None:
        """The coordinator moves to another broker."""
        before, after = self.coordinator.move()
        self.record(f"coordinator {before}", "move", **{"from": before, "to": after})
        self._record_events()

    def wait(self, ms: int) -> None:
        self.coordinator.wait(ms)
        self._record_events()

    def _record_events(self) -> None:
        for actor, event in self.coordinator.events():
            if event.what != "cache":
                self.record(actor, event.what, **event.data)


Rules = Annotated[
    Literal["0.8.2", "2015-04", "0.9.0", "4.3.1"],
    Knob("The coordinator's rules: those of Kafka 0.8.2, its trunk of April 2015, 0.9.0, or today."),
]
Records = Annotated[int, Knob("How many records each topic has at first.", "records", 1, 500)]
Reset = Annotated[Literal["earliest", "latest"], Knob("Where a consumer without a committed offset starts.")]


FIRST_ANSWER_MS = 10_000
TOLD_WITHIN_MS = 20_000  # a consumer that is told nothing for so long has stopped, for this story
ROUNDS = 4  # of records on the busy topic while the other one is quiet


@experiment(
    "A committed offset expires", CoordinatorRun,
    figure=LOST_OR_AGAIN, front=("rules", "group", "away_ms", "records_while_away"),
)
def offset_expiry(
    run: CoordinatorRun,
    rules: Rules = "4.3.1",
    group: Annotated[
        Literal["alive", "empty"], Knob("Whether the group always has its member, or is empty for a while.")
    ] = "alive",
    offsets_retention_ms: Annotated[
        int, Knob("How long a committed offset is retained; a broker's setting is in minutes.", "ms", 100, 600_000)
    ] = 1_500,
    away_ms: Annotated[int, Knob("How long one of the two topics is idle.", "ms", 0, 600_000)] = 3_500,
    check_interval_ms: Annotated[int, Knob("How often the model's coordinator looks for expired offsets.", "ms", 100, 600_000)] = 1_000,
    auto_offset_reset: Reset = "earliest",
    records: Records = 10,
    records_while_away: Annotated[
        int, Knob("How many arrive after the wait, before the consumer asks where to start.", "records", 0, 500)
    ] = 4,
) -> None:
    """A consumer reads two topics, and one of them is idle for longer than offsets are retained. Where does the
    consumer start there?
    """
    # All is read and committed; then one topic is quiet for a while, or nobody is there; then the consumer asks where
    # to begin.
    run.create("orders", "refunds")
    run.resume(auto_offset_reset, FIRST_ANSWER_MS)
    run.join()
    for name in ("orders", "refunds"):
        run.append(name, records)
        run.read(name)
    if group == "empty":
        run.leave()
        run.wait(away_ms)
    else:
        for _ in range(ROUNDS):
            run.wait(away_ms // ROUNDS)
            run.append("orders", 1)
            run.read("orders")
    for name in ("orders", "refunds"):
        run.append(name, records_while_away)
    run.resume(auto_offset_reset, FIRST_ANSWER_MS)
    for name in ("orders", "refunds"):
        run.read(name)


@experiment(
    "A coordinator moves", CoordinatorRun,
    figure=LOADING, front=("rules", "others_records", "others_keys", "load_records_per_s"),
)
def coordinator_moves(
    run: CoordinatorRun,
    rules: Rules = "4.3.1",
    auto_offset_reset: Reset = "earliest",
    records: Records = 10,
    others_records: Annotated[
        int, Knob("Commits of other groups to the same partition of the offsets topic.", "records", 0, 1_000)
    ] = 60,
    others_keys: Annotated[int, Knob("For how many group-partitions they commit.", "keys", 1, 100)] = 10,
    load_records_per_s: Annotated[
        int, Knob("How fast the model's new coordinator reads the log.", "records/s", 1, 1_000_000, scale="log")
    ] = 50,
    load_chunk_records: Annotated[int, Knob("Records that it reads at a time.", "records", 1, 10_000)] = 10,
    retry_ms: Annotated[int, Knob("How long the consumer waits between requests.", "ms", 10, 60_000)] = 250,
    records_while_loading: Annotated[int, Knob("Records that arrive between its requests.", "records", 0, 100)] = 1,
) -> None:
    """Another broker becomes the coordinator and has to read the offsets topic first. What answer does a consumer get
    that asks in the meantime?
    """
    # The consumer commits before and after a time in which other groups do; then the coordinator moves, and it asks
    # where to begin.
    run.create("orders")
    run.resume(auto_offset_reset, FIRST_ANSWER_MS)
    run.append("orders", records)
    run.read("orders")
    run.others_commit(others_records, others_keys)
    run.append("orders", records)
    run.read("orders")
    run.move()
    if run.resume(auto_offset_reset, TOLD_WITHIN_MS, records_while_loading):
        run.read("orders")
