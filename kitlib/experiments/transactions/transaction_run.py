"""A transaction's run: a story's calls to producers, and after each of them a look at the log, the coordinator and two readers.

Two readers stand by from the first offset on: one of committed records, one of all. What they are
given is told record by record, and where the first one has to wait. Producer ids are told as 0, 1, ...
in the order in which they appear, so a model's run and a real one look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.experiments.interventions import Intervention
from kitlib.experiments.run import Run
from kitlib.experiments.transactions.model_transactions import (
    PARTITION,
    STEP_MS,
    CallResult,
    LogBatch,
    ModelTransactions,
    NoTransactions,
    Producer,
    Snapshot,
)
from kitlib.mechanisms.transactions.offsets import GroupIdentity
from kitlib.mechanisms.transactions.reader import ISOLATION

# What these do, no ordinary client does: on a real broker the kit's own client does it, by the wire.
UNKIND = ("delayed_marker", "hanging_transaction")


@dataclass(slots=True)
class Sent:
    """Records that a producer handed over, as long as not all of them were found in the log."""

    tx: int | None
    records: list[int]


@dataclass(slots=True)
class Actor:
    """One producer in the story, with what its user knows of it."""

    actor: str
    producer: Producer
    transactional_id: str
    tx: int | None = None  # its open transaction
    sent: list[Sent] = field(default_factory=list)
    is_closed: bool = False  # it was told of a fatal error, and can do nothing more
    status: str = "runs"  # "runs", "freeze", "kill": the last thing that was done to its process


@dataclass(slots=True)
class Books:
    """The books of one run: who sent what in which transaction, what lies where, and what a step shows beside itself.

    A log knows producer ids and epochs, not which transaction of a user's a batch belongs to. The books find that
    out: a batch belongs to the first transaction of its producer whose records it has and that is not in the log yet.
    """

    run: str
    actors: list[Actor] = field(default_factory=list)
    transactions: int = 0  # begun so far
    ids: list[int] = field(default_factory=list)  # producer ids in the order of their appearance
    # Each batch that was told of, and its transaction; and the same as a step holds it: another list once it has grown.
    log: list[tuple[LogBatch, int | None]] = field(default_factory=list)
    shown_log: list[list[Any]] = field(default_factory=list)
    # So many transitions, and what they make of the coordinator's entries.
    shown_entries: tuple[int, dict[str, Any]] = (0, {})

    def next_name(self) -> str:
        """What the next producer is called."""
        return "producer" if not self.actors else f"producer {len(self.actors) + 1}"

    def number_of(self, producer_id: int) -> int:
        """The number by which the trace calls a producer id; -1 for none."""
        if producer_id < 0:
            return -1
        if producer_id not in self.ids:
            self.ids.append(producer_id)
        return self.ids.index(producer_id)

    def name_of(self, transactional_id: str) -> str:
        """A transactional id without the run's name."""
        return transactional_id.removeprefix(f"{self.run}-")

    def enter(self, batch: LogBatch) -> int | None:
        """A batch was found in the log; its transaction, None for a marker and for what is outside of transactions."""
        tx = self._tx_of(batch) if batch.kind is None else None
        self.log.append((batch, tx))
        shown = [batch.first, batch.last, self.number_of(batch.producer_id), batch.epoch, tx, batch.kind]
        self.shown_log = [*self.shown_log, shown]
        return tx

    def tx_at(self, offset: int) -> int | None:
        """The transaction to which the record at an offset belongs."""
        return next((tx for batch, tx in reversed(self.log) if batch.first <= offset <= batch.last), None)

    def _tx_of(self, batch: LogBatch) -> int | None:
        count, records = len(batch.records), list(batch.records)
        for who in self.actors:
            identity = who.producer.identity
            if batch.producer_id >= 0 and identity is not None and identity[0] != batch.producer_id:
                continue
            for sent in who.sent:
                is_same = (sent.tx is None) == (batch.producer_id < 0) and sent.records[:count] == records
                if is_same and self._may_be(who, batch):
                    del sent.records[:count]
                    return sent.tx
        return None

    def _may_be(self, who: Actor, batch: LogBatch) -> bool:
        """Of two producers under one transactional id, which differ in their epochs alone, the one that has this epoch."""
        identity = who.producer.identity
        others = [each.producer.identity for each in self.actors if each is not who]
        if identity is None or batch.producer_id < 0 or not any(other and other[0] == identity[0] for other in others):
            return True
        return identity[1] >= batch.epoch and not any(
            other and other[0] == identity[0] and batch.epoch <= other[1] < identity[1] for other in others
        )

    def shown(self, look: Snapshot | None, told_transitions: int, positions: dict[str, int]) -> dict[str, Any]:
        """The state of a step: the log as far as it was told of, and what goes with it."""
        end = self.log[-1][0].last + 1 if self.log else 0
        if look is None:
            return {"log": [], "lso": 0, "high_watermark": 0, "aborted": [], "coordinator": {}, "committed_input": None,
                    "positions": dict(positions)}  # fmt: skip
        return {
            "log": self.shown_log, "lso": min(look.lso, end), "high_watermark": end,
            "aborted": [[self.number_of(pid), first, last] for pid, first, last in look.aborted if last < end],
            "coordinator": self._entries(look, told_transitions), "committed_input": look.committed_input,
            "positions": dict(positions),
        }  # fmt: skip

    def _entries(self, look: Snapshot, count: int) -> dict[str, Any]:
        before, entries = self.shown_entries
        if before != count:
            entries = dict(entries)
            for step in look.transitions[before:count]:
                entries[self.name_of(step.transactional_id)] = {
                    "state": step.state.value, "pid": self.number_of(step.producer_id), "epoch": step.producer_epoch
                }  # fmt: skip
            self.shown_entries = count, entries
        return entries


@dataclass(slots=True)
class TransactionRun(Run):
    """One run: a story calls its methods in their order; each one writes its step and then those of what it led to."""

    domain: ClassVar[str] = "transactions"
    takes: ClassVar[tuple[str, ...]] = (
        "freeze PRODUCER at T ms for D ms", "break broker at T ms for D ms", "lose request N", "lose answer N",
        "delay request N by D ms", "delay answer N by D ms", "double request N",
    )  # fmt: skip
    real_takes: ClassVar[tuple[str, ...]] = takes[:1]
    model_script: ClassVar[str] = "a real client hides its requests, and the broker is shared with whatever else runs on it"

    place: ModelTransactions = field(init=False)  # or its twin on Kafka
    books: Books = field(init=False)
    positions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(reversed(ISOLATION), 0))
    seen: dict[str, list[int]] = field(default_factory=lambda: {isolation: [] for isolation in ISOLATION})
    waits_at: int | None = None  # the offset at which the reader of committed records waits
    told_batches: int = 0
    told_transitions: int = 0
    last: Snapshot | None = None
    frozen: list[str] = field(default_factory=list)  # producers that a script has frozen

    def __post_init__(self) -> None:
        self.books = Books(self.trace.run)
        self.place = self.backend.provide(
            ModelTransactions,
            marker_delay_ms=self.settings.marker_delay_ms,
            verification=self.settings.verification,
            kit_client=self.trace.experiment in UNKIND,
        )
        if self.backend.name == "model":
            self.place.done_to, self.place.on_time = self._done_to, self.meet

    def _done_to(self, thing: str, by: str, api: str, number: int) -> Intervention | None:
        """What the script does to a request or an answer, written down."""
        found = self.interventions.on(thing, number)
        if found is not None:
            word = {"double": "duplicate_request", "delay": "delay"}.get(found.verb, f"lose_{thing}")
            more = {"ms": found.ms or 0, "message": thing} if found.verb == "delay" else {}
            self.record("network", word, request=number, api=api, by=by, **more)
        return found

    def break_process(self, found: Intervention) -> None:
        if found.target == "broker":
            self.place.is_down, self.place.is_gone = True, found.ms is None
            self.record("broker", "down", **self.where)
            return
        running = [who for who in self.books.actors if who.status == "runs"]
        who = next((who for who in running if who.actor == found.target), None)
        if who is None:
            raise self.no_process(found, "producer", [each.actor for each in running])
        self._freeze(who)
        self.frozen.append(who.actor)

    def mend_process(self, found: Intervention) -> None:
        if found.target == "broker":
            self.place.is_down = False
            self.record("broker", "restart", **self.where)
        elif found.target in self.frozen:
            self.frozen.remove(found.target)
            who = next(who for who in self.books.actors if who.actor == found.target)
            if who.status == "freeze":
                self.thaw(who)

    def _free(self, who: Actor) -> None:
        """A call of a producer that a script has frozen is made when it goes on."""
        self.meet()
        while who.actor in self.frozen and (turn_ms := self.interventions.turn_ms) is not None:
            self.place.pass_ms(max(1, turn_ms - self.now_ms))
            self.meet()

    def begin(self, inputs: int = 0) -> None:
        """Open the topics; the input has so many records. The first step of the output's lane."""
        more = {"inputs": inputs} if inputs else {}
        self.record("broker", "open", **self.where, **more)

    @property
    def where(self) -> dict[str, Any]:
        return {"topic": self.place.topic, "partition": PARTITION}

    def start(self, transactional_id: str, timeout_ms: int | None = None) -> Actor:
        """A producer starts and gets its id: `id`, or `fenced`, or `unknown` when that fails."""
        actor = self.books.next_name()
        timeout = self.settings.transaction_timeout_ms if timeout_ms is None else timeout_ms
        producer = self.place.start(
            actor, f"{self.trace.run}-{transactional_id}", timeout, int(self.settings.version)
        )
        who = Actor(actor, producer, transactional_id)
        self.books.actors.append(who)
        told = producer.init()
        self.look()
        if self._note_error(who, told):
            return who
        self.record(actor, "id", transactional_id=transactional_id, **self._identity(who))
        return who

    def start_plain(self) -> Actor:
        actor = self.books.next_name()
        who = Actor(actor, NoTransactions(actor), "")
        self.books.actors.append(who)
        return who

    def join(self, who: Actor) -> GroupIdentity:
        """It joins the group that reads the input, and gets it once whoever had it is out."""
        self._free(who)
        identity = self.place.join(who.producer)
        self.record(who.actor, "join", group=self.place.group, generation=identity.generation)
        return identity

    def nobody(self) -> GroupIdentity:
        """The group without a member: its offsets are anybody's."""
        return GroupIdentity(self.place.group)

    def position(self) -> int:
        """Where the group begins: its committed offset, or the input's start."""
        return self.look().committed_input or 0

    def begin_tx(self, who: Actor) -> CallResult:
        self._free(who)
        told = who.producer.begin()
        if not told.error:
            who.tx = self.books.transactions
            self.books.transactions += 1
            self.record(who.actor, "begin", tx=who.tx)
        self._note_error(who, told)
        return told

    def send(self, who: Actor, records: Sequence[int], hold: bool = False) -> CallResult:
        """Hand one batch over and wait until it is stored or refused; with `hold` it is still on its way."""
        if not records:
            return CallResult()
        self._free(who)
        who.sent.append(Sent(who.tx, list(records)))
        more = {"held": True} if hold else {}
        self.record(who.actor, "send", **self.where, first=records[0], last=records[-1], tx=who.tx, **more)
        told = who.producer.send(records, hold)
        if not hold:
            self.after(who, told)
        return told

    def release(self, who: Actor) -> CallResult:
        """What was held arrives."""
        self.record("network", "release", **self.where)
        told = who.producer.release()
        self.after(who, told)
        return told

    def send_offsets(self, who: Actor, offset: int, group: GroupIdentity) -> CallResult:
        """The group's position, within the transaction."""
        self._free(who)
        self.record(who.actor, "send_offsets", group=self.place.group, offset=offset, tx=who.tx)
        told = who.producer.send_offsets(offset, group)
        self.after(who, told)
        return told

    def commit_plainly(self, who: Actor, offset: int, group: GroupIdentity) -> CallResult:
        """The group's position, outside of any transaction."""
        self._free(who)
        told = self.place.commit_plainly(who.producer, offset, group)
        self.record(who.actor, "commit_offsets", group=self.place.group, offset=offset, error=told.error or "NONE")
        self.look()
        return told

    def write_plainly(self, who: Actor, records: Sequence[int]) -> CallResult:
        """Records outside of any transaction."""
        self._free(who)
        who.sent.append(Sent(None, list(records)))
        self.record(who.actor, "send", **self.where, first=records[0], last=records[-1], tx=None)
        told = self.place.write_plainly(records)
        self.after(who, told)
        return told

    def commit(self, who: Actor) -> CallResult:
        """Commit; the step `commit_tx` says that the user was told so."""
        return self._end(who, who.producer.commit, "commit_tx")

    def abort(self, who: Actor) -> CallResult:
        return self._end(who, who.producer.abort, "abort_tx")

    def _end(self, who: Actor, call: Callable[[], CallResult], word: str) -> CallResult:
        self._free(who)
        tx = who.tx
        told = call()
        if told.error:
            self.look()
            self._note_error(who, told, tried=word)
            return told
        self._tell_transitions(self.place.snapshot(), is_decided=True)
        self.record(who.actor, word, tx=tx, **self.where)
        who.tx = None
        self.look()
        return told

    def after(self, who: Actor, told: CallResult) -> None:
        """Look at what a call led to, and tell its error."""
        self.look()
        self._note_error(who, told)

    def kill(self, who: Actor) -> None:
        who.producer.kill()
        who.status = "kill"
        self.record(who.actor, "kill")

    def freeze(self, who: Actor) -> None:
        """It stands still, as in a long pause of its garbage collector."""
        self._free(who)
        self._freeze(who)

    def _freeze(self, who: Actor) -> None:
        who.producer.freeze()
        who.status = "freeze"
        self.record(who.actor, "freeze")

    def thaw(self, who: Actor) -> None:
        """It goes on, and does not know that it stood still."""
        who.producer.thaw()
        who.status = "runs"
        self.record(who.actor, "thaw")

    def late_marker(self, of: tuple[int, int], commit: bool, version: int) -> CallResult:
        """A marker for this (producer id, epoch) arrives at the log, as if it had been on its way for long."""
        told = self.place.write_marker(*of, commit, version)
        kind = "COMMIT" if commit else "ABORT"
        data = {"kind": kind, "pid": self.number_of(of[0]), "epoch": of[1], "version": version}
        self.record("network", "late_marker", **self.where, **data, error=told.error or "NONE")
        self.look()
        return told

    def effect(self, who: Actor, record: int, charged: bool) -> None:
        """Something outside of Kafka was done for a record: or not, as its key was there already."""
        self.record("database", "effect", topic=self.place.topic.removesuffix("output") + "charges", partition=PARTITION, record=record,
                    charged=charged, by=who.actor)  # fmt: skip

    def wait_until(self, condition: Callable[[Snapshot], bool], most_ms: int) -> bool:
        """Let time pass until it holds of what there is to see; whether it did."""
        end_ms = self.now_ms + most_ms
        while not (held := condition(self.place.snapshot())) and self.now_ms < end_ms:
            self.place.pass_ms(STEP_MS)
        self.look()
        return held

    def pass_ms(self, ms: int) -> None:
        self.place.pass_ms(ms)
        self.look()

    def finish(self) -> None:
        """The last look: what the readers have now is the last word."""
        self.look()
        for isolation in self.positions:
            self.record(isolation, "end", **self.where, position=self.positions[isolation])

    def look(self) -> Snapshot:
        """Tell what is new in the log and at the coordinator, and let both readers read."""
        look = self.place.snapshot()
        self._tell_transitions(look, is_decided=True)
        for batch in look.log[self.told_batches :]:
            self.told_batches += 1
            self._tell_batch(batch)
        self._tell_transitions(look)
        for isolation in self.positions:
            self._read(isolation, look)
        return look

    def _tell_transitions(self, look: Snapshot, is_decided: bool = False) -> None:
        """The coordinator's new steps; with `is_decided` up to the decision alone, before the markers that follow it."""
        self.last = look
        for step in look.transitions[self.told_transitions :]:
            if is_decided and step.state.is_complete and any(batch.kind for batch in look.log[self.told_batches :]):
                return
            self.told_transitions += 1
            why = {"why": step.why} if step.why else {}
            self.record(
                "coordinator", "transition", transactional_id=self.books.name_of(step.transactional_id),
                to=step.state.value, pid=self.number_of(step.producer_id), epoch=step.producer_epoch, **why,
            )  # fmt: skip

    def _tell_batch(self, batch: LogBatch) -> None:
        identity = {"pid": self.number_of(batch.producer_id), "epoch": batch.epoch}
        tx = self.books.enter(batch)
        if batch.kind is not None:
            self.record("broker", "marker", **self.where, offset=batch.first, kind=batch.kind, **identity)
            return
        first, last = batch.records[0], batch.records[-1]
        self.record("broker", "write", **self.where, first=first, last=last, offset=batch.first, **identity, tx=tx)

    def _read(self, isolation: str, look: Snapshot) -> None:
        end = look.lso if isolation == "read_committed" else look.high_watermark
        if end > self.positions[isolation]:
            found, position = self.place.read(isolation, self.positions[isolation])
            self.positions[isolation] = min(position, end)  # what has come since the look belongs to the next one
            for offset, record in found:
                if offset < end:
                    self.seen[isolation].append(record)
                    tx = self.books.tx_at(offset)
                    self.record(isolation, "read", **self.where, offset=offset, record=record, tx=tx)
        if isolation == "read_committed":
            waits_at = look.lso if self.positions[isolation] < look.high_watermark else None
            if waits_at is not None and waits_at != self.waits_at:
                self.record(isolation, "waits", **self.where, at=look.lso, high_watermark=look.high_watermark)
            self.waits_at = waits_at

    def number_of(self, producer_id: int) -> int:
        """The number by which the trace calls a producer id; -1 for none."""
        return self.books.number_of(producer_id)

    def _identity(self, who: Actor) -> dict[str, int]:
        identity = who.producer.identity
        return {} if identity is None else {"pid": self.number_of(identity[0]), "epoch": identity[1]}

    def _note_error(self, who: Actor, told: CallResult, tried: str = "") -> bool:
        """Whether a call failed; `fenced` when somebody else has the id, `unknown` for every other error."""
        if not told.error:
            return False
        who.is_closed = who.is_closed or told.is_fatal
        word = "fenced" if told.is_fenced else "unknown"
        more = {"tried": tried} if tried else {}
        self.record(
            who.actor, word, error=told.error, fatal=told.is_fatal, must_abort=told.must_abort, tx=who.tx, **more
        )
        if told.is_fatal:
            who.tx = None
        return True

    @property
    def now_ms(self) -> int:
        return self.place.now_ms

    def state(self) -> dict[str, Any]:
        return self.books.shown(self.last, self.told_transitions, self.positions)
