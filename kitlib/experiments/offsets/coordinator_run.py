"""A run of one consumer and its group's coordinator, which forgets, moves and loads.

The words of such a trace, besides those of `kitlib.monitor.delivery` for each topic:

    <consumer>     join {}   leave {}
    coordinator N  answer {group, topic, partition, offset, error?}   move {from, to}
                   load_begin {records}   load {from, to}   load_end {records, ms}   load_failed {at, why}
                   evict {key, why}
    others         write_many {records, keys}
    offsets log    write {offset, key, value, timestamp_ms, format?}

Real coordinators tell nothing of their loads and caches; there the trace has what the consumer sees: its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.errors import LabError
from kitlib.experiments.offsets.coordinator_stage import MEMBER, Keeper, keeper
from kitlib.experiments.run import Run
from kitlib.experiments.stage import Topic
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
        self.keeper = keeper(self.stage, self.trace.run, knobs, config)

    # -- what a story calls --------------------------------------------------------------------------

    def create(self, *names: str) -> None:
        """Topics of one partition each."""
        for name in names:
            self.lanes[name] = Lane(self.stage.create_topic(name, FETCH_RECORDS))

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
                raise LabError(f"{lane.topic.name}: nothing arrives from offset {lane.position} on. Look at `kit status`.")
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
