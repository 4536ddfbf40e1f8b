"""The experiments with a coordinator that forgets what nobody uses, or moves to another broker.

Real coordinators tell nothing of their loads and caches; there the trace has what the consumer sees: its answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.errors import LabError
from kitlib.experiments.backend import Topic, read_to_end
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.coordinator import MEMBER, ModelCoordinator
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.mechanisms.positions import ResetPolicy
from kitlib.monitor.figures import LOADING, LOST_OR_AGAIN
from kitlib.more.offsets.offset_rules import NO_OFFSET, OffsetConfig, OffsetError

MOST_ASKED = 1_000
RETRY_MS = 100
ASK_AGAIN = (OffsetError.COORDINATOR_LOAD_IN_PROGRESS, OffsetError.NOT_COORDINATOR)
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
        config = OffsetConfig(partitions=1, **given(*names, retention_check_interval_ms="check_interval_ms"))
        more = given("odd_record", "require_stable", "unreplicated")
        self.coordinator = self.backend.provide(ModelCoordinator, self.settings.rules, config, **more)

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
        ledger = self.ledgers[name]
        for record in read_to_end(self.topics[name], ledger.emitted_to_offset):
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
            if error is OffsetError.NONE:
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
            told = {} if error is OffsetError.NONE else {"error": error.name}
            for ledger in self.ledgers.values():
                offset = offsets.get((ledger.topic, 0), NO_OFFSET)
                self.record_in(ledger, who, "answer", group=self.coordinator.group, offset=offset, **told)
            if error is OffsetError.NONE:
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
    figure=LOADING, front=("rules", "odd_record", "others_records", "others_keys", "load_records_per_s"),
)
def coordinator_moves(
    run: CoordinatorRun,
    rules: Rules = "4.3.1",
    odd_record: Annotated[
        Literal["none", "unknown type", "later version"],
        Knob("A record of a later release in the middle of the offsets topic: of an unknown type, or a commit in a later version."),
    ] = "none",
    require_stable: Annotated[
        bool, Knob("Whether the consumer asks for stable offsets only, as today's Java and librdkafka clients do.")
    ] = True,
    unreplicated: Annotated[
        int,
        Knob("Model only: how many of the last records the new leader does not yet know to be on all replicas.", "records", 0, 1_000),
    ] = 0,
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
