"""Consumers of a share group at work: each polls, works on one record after the other, and answers for them.

All of them take turns on one clock, virtual on the model and real on a broker. What a step shows is put together here from what
the consumers were handed, what they answered and what the broker took back, so it is the same on both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from kitlib.experiments.run import PartitionLedger
from kitlib.experiments.script import Intervention
from kitlib.experiments.world import NEVER, Action, World
from kitlib.more.share_partition import (
    Acknowledge,
    Change,
    Delivery,
    InvalidRecordStateError,
    RecordState,
    SharePartition,
)
from kitlib.trace import to_ranges

if TYPE_CHECKING:
    from kitlib.experiments.share.kafka_share_group import KafkaShareGroup

BEGINS = "share.auto.offset.reset=earliest"
LONGEST_POLL_MS = 100  # of a poll that waits for records; it ends before another consumer has something to do
IDLE_MS = 20  # how long a consumer waits after a poll that brought nothing
PATIENCE_MS = 60_000  # a story that does not come to its end ends then
ANSWER_OF = {"release": Acknowledge.RELEASE, "reject": Acknowledge.REJECT}
NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(slots=True)
class Worker:
    """One consumer of the group, and what it is doing."""

    name: str
    due_ms: int = 0  # when it does something next
    done_ms: int = 0  # when it has finished `current`
    batch: deque[Delivery] = field(default_factory=deque)  # polled, not begun yet
    current: Delivery | None = None
    unanswered: dict[int, bool] = field(default_factory=dict)  # in implicit mode: offset -> whether its processing failed
    is_up: bool = True

    @property
    def is_busy(self) -> bool:
        """Whether it still has something to finish or to answer for."""
        return self.is_up and (self.current is not None or bool(self.batch) or bool(self.unanswered))


@dataclass(slots=True)
class ShareRun(World):
    """One run: a topic, a share group, and its consumers."""

    domain: ClassVar[str] = "share"
    takes: ClassVar[tuple[str, ...]] = (
        "lose answer N", "delay answer N by D ms", "kill CONSUMER at T ms", "freeze CONSUMER at T ms for D ms",
    )  # fmt: skip
    real_takes: ClassVar[tuple[str, ...]] = takes[2:]
    model_script: ClassVar[str] = "a real consumer decides which of its answers leave together, so no number names the same answer twice"

    real: KafkaShareGroup | None = field(init=False)
    share: SharePartition = field(init=False)  # or the real one, by what a broker tells of it
    ledger: PartitionLedger = field(init=False)
    workers: dict[str, Worker] = field(default_factory=dict)
    spare: list[str] = field(default_factory=list)  # consumers that take the places of others
    fails: Callable[[int], bool] = field(default=lambda offset: False)
    slow_ms: dict[int, int] = field(default_factory=dict)  # offset -> how long its first delivery takes
    crashes: dict[int, int] = field(default_factory=dict)  # offset -> how many of its next deliveries end its consumer
    how_it_ends: str = "kill"  # what becomes of such a consumer, or "freeze"
    acquired: dict[int, str] = field(default_factory=dict)  # offset -> who has its lock
    available: set[int] = field(default_factory=set)  # handed out before, and to be handed out again
    done: set[int] = field(default_factory=set)  # acknowledged or archived
    retries: int = 0  # deliveries of records that had been handed out before
    is_full: bool = False  # whether no lock was left at the last poll
    answers: int = 0  # so far, of all consumers
    gone: list[Change] = field(default_factory=list)  # what was taken back from consumers that died, not told yet

    def __post_init__(self) -> None:
        told = self.settings
        real = self.backend.on_kafka("kitlib.experiments.share.kafka_share_group:KafkaShareGroup", told)
        self.real, self.share = real, real or SharePartition(told.delivery_limit, told.lock_ms, told.max_locks)
        self.ledger = PartitionLedger(self.real.name if self.real else "orders")

    @property
    def now_ms(self) -> int:
        return self.real.now_ms if self.real else self.clock_ms

    def wait_until(self, at_ms: int) -> None:
        ends = self.share.next_lock_ends_ms()
        at_ms = at_ms if ends is None else min(at_ms, ends)
        if self.real:
            self.real.wait_until(at_ms)
        else:
            World.wait_until(self, at_ms)
        self._take_returned()

    def state(self) -> dict[str, Any]:
        held = {"pending": to_ranges(sorted(self.acquired)), "failed": to_ranges(sorted(self.available))}
        return held | {"waiting": [], "retries": self.retries}

    def tell_of(self, actor: str, what: str, **data: Any) -> None:
        self.record_in(self.ledger, actor, what, **data)

    def work_off(self, records: int, spare: int = 0) -> None:
        """So many records, and the group's consumers, who work until each is acknowledged or archived and no answer is open.

        `spare` more have joined the group and do not poll before another one's end.
        """
        names, self.ledger.log_end = list(NAMES[: self.settings.consumers + spare]), records
        if self.real:
            self.real.append(records)
        self.tell_of("log", "append", first=0, last=records - 1)
        if self.real:
            self.real.join(names)
        self.spare = names[self.settings.consumers :]
        self.workers = {name: Worker(name, self.now_ms) for name in names[: self.settings.consumers]}
        self.tell_of("broker", "start", offset=0, why=BEGINS)
        self.run_for(PATIENCE_MS, lambda: len(self.done) == records and not any(each.is_busy for each in self.workers.values()))
        self.tell_of("broker", "end", left=records - len(self.done))

    def next_wake(self) -> tuple[int, Action]:
        turns = [(worker.due_ms, partial(self._turn, worker)) for worker in self.workers.values() if worker.is_up]
        return min(turns, key=lambda turn: turn[0], default=(NEVER, self.meet))

    def _turn(self, worker: Worker) -> None:
        self._take_returned()
        if worker.current is not None and self.now_ms < worker.done_ms:
            self._renew(worker)
        elif worker.current is not None:
            self._finish_record(worker, worker.current)
        elif worker.batch:
            self._begin(worker)
        else:
            self._poll(worker)

    def _poll(self, worker: Worker) -> None:
        if worker.unanswered:
            unanswered, worker.unanswered = worker.unanswered, {}
            self._answer(worker, dict.fromkeys(unanswered, Acknowledge.ACCEPT), {each for each, failed in unanswered.items() if failed})
        if self.real:
            others = (each.due_ms for each in self.workers.values() if each is not worker and each.is_busy)
            found = self.real.poll(worker.name, until_ms=min(others, default=self.now_ms + LONGEST_POLL_MS))
        else:
            found = self.share.acquire(worker.name, self.settings.max_poll_records, self.ledger.log_end, self.now_ms)
        self._take_returned()
        for each in found:
            self.is_full = False
            self.available.discard(each.offset)
            self.retries += each.delivery_count > 1
            self.acquired[each.offset] = worker.name
            self.ledger.emitted_to_offset = max(self.ledger.emitted_to_offset, each.offset + 1)
            self.tell_of(worker.name, "acquire", offset=each.offset, delivery=each.delivery_count, limit=self.settings.delivery_limit)
        worker.batch.extend(found)
        worker.due_ms = self.now_ms if found else self.now_ms + IDLE_MS
        window = self.ledger.emitted_to_offset - self.ledger.committed_to
        if not found and not self.is_full and not self.available and window >= self.settings.max_locks:
            self.is_full = self.ledger.emitted_to_offset < self.ledger.log_end
            if self.is_full:
                self.tell_of("broker", "full", offset=self.ledger.committed_to, locks=self.settings.max_locks)

    def _begin(self, worker: Worker) -> None:
        worker.current = worker.batch.popleft()
        worker.done_ms = self.now_ms + self._takes_ms(worker.current)
        self._plan(worker)

    def _plan(self, worker: Worker) -> None:
        """When it has to do something: at the record's end, or before that to renew its locks."""
        renew_ms = self.now_ms + self.settings.lock_ms // 2
        worker.due_ms = min(worker.done_ms, renew_ms) if self.settings.renew else worker.done_ms

    def _renew(self, worker: Worker) -> None:
        assert worker.current is not None
        offsets = [each.offset for each in (worker.current, *worker.batch)]
        self._answer(worker, dict.fromkeys(offsets, Acknowledge.RENEW))
        self._plan(worker)

    def _finish_record(self, worker: Worker, record: Delivery) -> None:
        worker.current, worker.due_ms = None, self.now_ms
        offset = record.offset
        if self.crashes.get(offset, 0) > 0:
            self.crashes[offset] -= 1
            self._end(worker, self.how_it_ends)
            return
        has_failed = self.fails(offset)
        if has_failed:
            self.tell_of(worker.name, "fail", offset=offset)
        else:
            self.ledger.process(offset)
            self.tell_of(worker.name, "process", offset=offset)
        if self.settings.acknowledge == "implicit":
            worker.unanswered[offset] = has_failed
        else:
            self._answer(worker, {offset: ANSWER_OF[self.settings.on_failure] if has_failed else Acknowledge.ACCEPT})

    def _end(self, worker: Worker, how: str) -> None:
        """The consumer is killed, or freezes; another one takes its place."""
        worker.is_up = False
        if how == "kill":
            self.gone += self.share.close_session(worker.name)
        elif self.real:
            self.real.freeze(worker.name)
        self.tell_of(worker.name, how)
        if self.spare:
            name = self.spare.pop(0)
            self.workers[name] = Worker(name, self.now_ms)

    def break_process(self, found: Intervention) -> None:
        up = [name for name, worker in self.workers.items() if worker.is_up]
        if found.target not in up:
            raise self.no_process(found, "consumer", up)
        self._end(self.workers[found.target], found.verb)
        self._take_returned()

    def mend_process(self, found: Intervention) -> None:
        """A frozen consumer goes on with what it was doing, and does not know how late it is."""
        worker, ms = self.workers[found.target], found.ms or 0
        if self.real:
            self.real.thaw(worker.name)
        worker.is_up, worker.due_ms, worker.done_ms = True, worker.due_ms + ms, worker.done_ms + ms
        self.tell_of(worker.name, "thaw")

    def _answer(self, worker: Worker, answers: Mapping[int, Acknowledge], failed: Container[int] = ()) -> None:
        """The consumer's answers leave for the broker; those of implicit mode accept what has failed as well."""
        self.answers += 1
        found, arrive = self.interventions.on("answer", self.answers), partial(self._arrive, worker, answers, failed)
        if found is None:
            arrive()
        else:
            tell = partial(self.tell_of, "network", member=worker.name, first=min(answers), last=max(answers))
            self.carry("answer", found, 0, arrive, tell)

    def _arrive(self, worker: Worker, answers: Mapping[int, Acknowledge], failed: Container[int]) -> None:
        self._take_returned()
        try:
            changes = {each.offset: each for each in self.share.acknowledge(worker.name, answers, self.now_ms)}
        except InvalidRecordStateError as error:
            self._take_returned()
            refused = str(error) if self.real else "INVALID_RECORD_STATE"
            self.tell_of(worker.name, "refused", first=min(answers), last=max(answers), error=refused)
            if Acknowledge.RENEW in answers.values():
                worker.batch.clear()
            return
        self._take_returned()
        for offset, answer in answers.items():
            self._note(worker, offset, answer, changes.get(offset), offset in failed)
        self._move()

    def _note(self, worker: Worker, offset: int, answer: Acknowledge, change: Change | None, has_failed: bool) -> None:
        if change is None and answer is not Acknowledge.RENEW:
            self.tell_of(worker.name, "ignored", offset=offset)
            return
        if change is not None:
            self._settle(change)
        more: dict[str, Any] = {"why": "rejected"} if answer is Acknowledge.REJECT else {}
        if has_failed:
            more["failed"] = True
        self.tell_of(worker.name, answer.value, offset=offset, **more)
        if change is not None and answer is Acknowledge.RELEASE:
            self._tell_if_archived(change)

    def _take_returned(self) -> None:
        """Tell what the broker has done by itself."""
        gone, self.gone = self.gone, []
        returned = gone + self.share.expire(self.now_ms)
        owners = {each.offset: self.acquired.get(each.offset, "") for each in returned}
        for each in returned:
            self._settle(each)
        for member in dict.fromkeys(owners[each.offset] for each in gone):
            ranges = to_ranges(each.offset for each in gone if owners[each.offset] == member)
            self.tell_of("broker", "hand_back", member=member, ranges=ranges)
        for each in returned:
            if each not in gone:
                self.tell_of("broker", "time_out", offset=each.offset, member=owners[each.offset])
            self._tell_if_archived(each)
        if returned:
            self._move()

    def _settle(self, change: Change) -> None:
        self.acquired.pop(change.offset, None)
        (self.available if change.state is RecordState.AVAILABLE else self.done).add(change.offset)

    def _tell_if_archived(self, change: Change) -> None:
        if change.state is RecordState.ARCHIVED:
            told = {"delivery": change.delivery_count, "limit": self.settings.delivery_limit, "why": "limit"}
            self.tell_of("broker", "archive", offset=change.offset, **told)

    def _move(self) -> None:
        """The start offset passes what is done."""
        before = self.ledger.committed_to
        while self.ledger.committed_to in self.done:
            self.ledger.committed_to += 1
        if self.ledger.committed_to > before:
            self.tell_of("broker", "move", offset=self.ledger.committed_to)

    def _takes_ms(self, record: Delivery) -> int:
        """How long a delivery is worked on: 50 to 150 % of `process_ms`, by the seed, the offset and the delivery alone."""
        if record.delivery_count == 1 and record.offset in self.slow_ms:
            return self.slow_ms[record.offset]
        base: int = self.settings.process_ms
        key = (self.trace.seed * 1_000_003 + record.offset) * 1_009 + record.delivery_count
        return max(1, base // 2 + int(Random(key).random() * base))
