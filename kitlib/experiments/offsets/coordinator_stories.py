"""The experiments with a coordinator that forgets what nobody uses, or moves to another broker.

Real coordinators tell nothing of their loads and caches; there the trace has what the consumer sees: its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.errors import LabError
from kitlib.experiments.backend import Topic
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.coordinator import MEMBER, Keeper, keeper
from kitlib.experiments.run import Run
from kitlib.kafka.log import FetchError
from kitlib.kafka.offsets.offset_rules import NO_OFFSET, OffsetConfig, OffsetError
from kitlib.kafka.positions import ResetPolicy
from kitlib.trace import add_to_ranges
from kitlib.words.word import Range

MOST_ASKED = 1_000
RETRY_MS = 100
ASK_AGAIN = (OffsetError.COORDINATOR_LOAD_IN_PROGRESS, OffsetError.NOT_COORDINATOR)
FETCH_RECORDS = 100


@dataclass(slots=True)
class Lane:
    """One topic of one partition, and where the consumer is in it."""

    topic: Topic
    begin: int = 0
    end: int = 0
    position: int = 0  # the next record that the consumer reads
    emitted_to: int = 0
    committed: int = 0
    processed: list[Range] = field(default_factory=list)


@dataclass(slots=True)
class CoordinatorRun(Run):
    """One run."""

    domain: ClassVar[str] = "offsets"

    keeper: Keeper = field(init=False)
    lanes: dict[str, Lane] = field(default_factory=dict)
    is_member: bool = False

    def __post_init__(self) -> None:
        knobs, default = self.knobs, OffsetConfig()
        config = OffsetConfig(
            offsets_retention_ms=knobs.get("offsets_retention_ms", default.offsets_retention_ms),
            retention_check_interval_ms=knobs.get("check_interval_ms", default.retention_check_interval_ms),
            partitions=1,
            load_records_per_s=knobs.get("load_records_per_s", default.load_records_per_s),
            load_chunk_records=knobs.get("load_chunk_records", default.load_chunk_records),
        )
        self.keeper = keeper(self.backend, self.trace.run, knobs, config)

    # -- what a story calls --------------------------------------------------------------------------

    def create(self, *names: str) -> None:
        """Topics of one partition each."""
        for name in names:
            self.lanes[name] = Lane(self.backend.create_topic(name, FETCH_RECORDS))

    def append(self, name: str, count: int) -> None:
        """So many records come."""
        if not count:
            return
        lane = self.lanes[name]
        offsets = lane.topic.append([f"{name} {lane.end + number}".encode() for number in range(count)])
        lane.end = offsets[-1] + 1
        self._lane("log", "append", lane, first=offsets[0], last=offsets[-1])

    def join(self) -> None:
        """The consumer joins its group and reads all topics."""
        self.keeper.join([lane.topic.name for lane in self.lanes.values()])
        self.is_member = True
        self._tell()
        self._step(MEMBER, "join")

    def leave(self) -> None:
        """The consumer leaves its group, in which nobody is now."""
        self.keeper.leave()
        self.is_member = False
        self._tell()
        self._step(MEMBER, "leave")

    def read(self, name: str) -> None:
        """The consumer reads a topic to its end, processes each record, and commits."""
        lane = self.lanes[name]
        while lane.position < lane.end:
            fetched = lane.topic.fetch(lane.position)
            if fetched.error is not FetchError.NO_ERROR or not fetched.records:
                raise LabError(f"{lane.topic.name}: nothing comes from offset {lane.position} on. Look at `kit status`.")
            for record in fetched.records:
                lane.position = lane.emitted_to = record.offset + 1
                self._lane(MEMBER, "emit", lane, offset=record.offset)
                add_to_ranges(lane.processed, record.offset)
                self._lane(MEMBER, "process", lane, offset=record.offset)
        self.commit(name)

    def commit(self, name: str) -> None:
        """The consumer commits where it is in a topic, again while the coordinator is not to be had. LabError when it never is."""
        lane = self.lanes[name]
        for _ in range(MOST_ASKED):
            error = self.keeper.commit({(lane.topic.name, 0): lane.position})
            self._tell()
            if error is OffsetError.NONE:
                lane.committed = lane.position
                return self._lane(MEMBER, "commit", lane, offset=lane.position, written=True)
            self._lane(MEMBER, "commit", lane, offset=lane.position, written=False, error=error.name)
            if error not in ASK_AGAIN:
                break
            self.wait(self.knobs.get("retry_ms", RETRY_MS))
        raise LabError(f"{lane.topic.name}: {self.keeper.asked} refuses a commit of {MEMBER}: {error.name}. Look at `kit status`.")

    def resume(self, policy: ResetPolicy, give_up_ms: int, between: int = 0) -> bool:
        """The consumer asks where to begin, again while it is told to, and begins; False when it is never told.

        `between` records come to the first topic before each time that it asks again.
        """
        asked_for = [(lane.topic.name, 0) for lane in self.lanes.values()]
        end_ms = self.keeper.now_ms + give_up_ms
        for _ in range(MOST_ASKED):
            who = self.keeper.asked
            error, offsets = self.keeper.fetch(asked_for)
            self._tell()
            for lane in self.lanes.values():
                offset = offsets.get((lane.topic.name, 0), NO_OFFSET)
                told = {} if error is OffsetError.NONE else {"error": error.name}
                self._lane(who, "answer", lane, group=self.keeper.group, offset=offset, **told)
            if error is OffsetError.NONE:
                for lane in self.lanes.values():
                    self._start(lane, offsets[lane.topic.name, 0], policy)
                return True
            if self.keeper.now_ms >= end_ms:
                break
            self.keeper.wait(self.knobs.get("retry_ms", RETRY_MS))
            self._tell()
            self.append(next(iter(self.lanes)), between)
        return False

    def _start(self, lane: Lane, committed: int, policy: ResetPolicy) -> None:
        told = None if committed == NO_OFFSET else committed
        lane.position = lane.emitted_to = self.keeper.first_position(lane.topic, told, policy)
        self._lane(MEMBER, "start", lane, offset=lane.position, why=policy if committed == NO_OFFSET else "committed offset")

    def others_commit(self, records: int, keys: int) -> None:
        """Other groups of the same partition of the offsets topic commit."""
        self.keeper.others_commit(records, keys)
        self._step("others", "write_many", records=records, keys=keys)

    def move(self) -> None:
        """The coordinator moves to another broker."""
        before, after = self.keeper.move()
        self._step(f"coordinator {before}", "move", **{"from": before, "to": after})
        self._tell()

    def wait(self, ms: int) -> None:
        """Time passes."""
        self.keeper.wait(ms)
        self._tell()

    # -- the trace -----------------------------------------------------------------------------------

    def _tell(self) -> None:
        for actor, noted in self.keeper.notes():
            if noted.what != "cache":
                self._step(actor, noted.what, **noted.data)

    def _lane(self, actor: str, what: str, lane: Lane, /, **data: Any) -> None:
        ledger = {
            "log_start": lane.begin, "log_end": lane.end, "processed": [list(each) for each in lane.processed],
            "committed_to": lane.committed,
            "emitted_to_offset": lane.emitted_to,
        }  # fmt: skip
        self._write(actor, what, {"topic": lane.topic.name, "partition": 0} | data, ledger)

    def _step(self, actor: str, what: str, /, **data: Any) -> None:
        self._write(actor, what, data, {})

    def _write(self, actor: str, what: str, data: dict[str, Any], ledger: dict[str, Any]) -> None:
        members: Sequence[str] = [MEMBER] if self.is_member else []
        state = ledger | {"members": list(members), "now_ms": self.keeper.now_ms}
        if shown := self.keeper.shown():
            state["offsets"] = shown
        self.write(self.keeper.now_ms, actor, what, data, state)


Rules = Annotated[
    Literal["0.8.2", "2015-04", "0.9.0", "4.3.1"],
    Knob("Whose rules the coordinator follows: Kafka 0.8.2's, those of its trunk of April 2015, 0.9.0's or today's."),
]
Group = Annotated[
    Literal["alive", "empty"], Knob("Whether the group has its member all the time, or nobody is in it for a while.")
]
RetentionMs = Annotated[
    int, Knob("How long a committed offset is kept; a broker says it in minutes.", "ms", 100, 600_000)
]
CheckMs = Annotated[int, Knob("How often the model's coordinator looks for expired offsets.", "ms", 100, 600_000)]
AwayMs = Annotated[int, Knob("How long nothing happens on one of the two topics.", "ms", 0, 600_000)]
Records = Annotated[int, Knob("How many records a topic has at first.", "records", 1, 500)]
WhileAway = Annotated[
    int, Knob("How many come after the wait, before the consumer asks where to begin.", "records", 0, 500)
]
Reset = Annotated[Literal["earliest", "latest"], Knob("Where a consumer begins that is told of no offset.")]
OddRecord = Annotated[
    Literal["none", "unknown type", "later version"],
    Knob("A record of a later release in the middle of the offsets topic: of a type that is not known, or a commit in a later version."),
]
Others = Annotated[
    int, Knob("How often other groups commit to the same partition of the offsets topic.", "records", 0, 1_000)
]
OthersKeys = Annotated[int, Knob("To how many partitions they do.", "keys", 1, 100)]
LoadSpeed = Annotated[
    int, Knob("How fast the model's new coordinator reads the log.", "records/s", 1, 1_000_000, scale="log")
]
LoadChunk = Annotated[int, Knob("How many records it reads at a time.", "records", 1, 10_000)]
RetryMs = Annotated[int, Knob("How long the consumer waits before it asks again.", "ms", 10, 60_000)]
Between = Annotated[int, Knob("How many records come before each time that it asks again.", "records", 0, 100)]

RequireStable = Annotated[
    bool, Knob("Whether the consumer asks for stable offsets only, as Java's and librdkafka's clients of today do.")
]
Unreplicated = Annotated[
    int,
    Knob("On the model: of how many of the last records the new leader does not know yet that all copies have them.", "records", 0, 1_000),
]

FIRST_ANSWER_MS = 10_000
TOLD_WITHIN_MS = 20_000  # a consumer that is told nothing for so long has stopped, for this story
ROUNDS = 4  # of records on the busy topic while the other one is quiet


@experiment("A committed offset grows old", CoordinatorRun)
def offset_expiry(
    run: CoordinatorRun,
    rules: Rules = "4.3.1",
    group: Group = "alive",
    offsets_retention_ms: RetentionMs = 1_500,
    away_ms: AwayMs = 3_500,
    check_interval_ms: CheckMs = 1_000,
    auto_offset_reset: Reset = "earliest",
    records: Records = 10,
    records_while_away: WhileAway = 4,
) -> None:
    """A consumer reads two topics, and on one of them nothing happens for longer than offsets are kept. Where does it
    begin there?
    """
    # All is read and committed; then one topic is quiet for a while, or nobody is there; then the consumer asks where
    # to begin.
    try:
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
    finally:
        run.keeper.close()
@experiment("A coordinator moves", CoordinatorRun)
def coordinator_moves(
    run: CoordinatorRun,
    rules: Rules = "4.3.1",
    odd_record: OddRecord = "none",
    require_stable: RequireStable = True,
    unreplicated: Unreplicated = 0,
    auto_offset_reset: Reset = "earliest",
    records: Records = 10,
    others_records: Others = 60,
    others_keys: OthersKeys = 10,
    load_records_per_s: LoadSpeed = 50,
    load_chunk_records: LoadChunk = 10,
    retry_ms: RetryMs = 250,
    records_while_loading: Between = 1,
) -> None:
    """Another broker becomes the coordinator and has to read the offsets topic first. What is a consumer told that asks
    meanwhile?
    """
    # The consumer commits before and after a time in which other groups do; then the coordinator moves, and it asks
    # where to begin.
    try:
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
    finally:
        run.keeper.close()
