"""A transaction's run: a story's calls to producers, and after each of them a look at the log, the coordinator and two readers.

Two readers stand by from the first offset on: one of committed records, one of all. What they are
given is told record by record, and where the first one has to wait. Producer ids are told as 0, 1, ...
in the order in which they appear, so a model's run and a real one look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.experiments.run import Run
from kitlib.experiments.script import Intervention
from kitlib.experiments.transactions.model_transactions import (
    PARTITION,
    STEP_MS,
    CallResult,
    KitTransactionalProducer,
    ModelTransactions,
    Snapshot,
)
from kitlib.mechanisms.broker.unified_log import StoredBatch
from kitlib.mechanisms.transactions.offsets import GroupIdentity
from kitlib.mechanisms.transactions.producer import TransactionalProducer
from kitlib.mechanisms.transactions.reader import ISOLATION

# What these do, no ordinary client does: on a real broker the kit's own client does it, by the wire.
UNKIND = ("delayed_marker", "hanging_transaction")


@dataclass(slots=True)
class Actor:
    """One producer in the story, with what its user knows of it."""

    actor: str
    producer: KitTransactionalProducer  # on a real broker also its own
    tx: int | None = None  # its open transaction
    is_closed: bool = False  # it was told of a fatal error, and can do nothing more
    status: str = "runs"  # "runs", "freeze", "kill": the last thing that was done to its process


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
    actors: list[Actor] = field(default_factory=list)
    transactions: int = 0  # begun so far
    sent_tx: int | None = None  # that of the last batch that was sent, which no log knows; None: outside of transactions
    ids: list[int] = field(default_factory=list)  # producer ids in the order of their appearance
    # Each batch that was told of, as a step holds it: first and last offset, producer, epoch, transaction, marker. Another list once
    # it has grown; and so many transitions, with what they make of the coordinator's entries.
    log: list[list[Any]] = field(default_factory=list)
    entries: dict[str, Any] = field(default_factory=dict)
    told_transitions: int = 0
    positions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(reversed(ISOLATION), 0))
    waits_at: int | None = None  # the offset at which the reader of committed records waits
    last: Snapshot | None = None
    frozen: list[str] = field(default_factory=list)  # producers that a script has frozen

    def __post_init__(self) -> None:
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
        running = [who for who in self.actors if who.status == "runs"]
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
            who = next(who for who in self.actors if who.actor == found.target)
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
        timeout = self.settings.transaction_timeout_ms if timeout_ms is None else timeout_ms
        name = f"{self.trace.run}-{transactional_id}"
        who = self._enter(lambda actor: self.place.start(actor, name, timeout, int(self.settings.version)))
        told = who.producer.do("init")
        self.look()
        if not self._note_error(who, told):
            own, entry = who.producer.identity, self.entries[transactional_id]
            identity = self.named(*own) if own else {name: entry[name] for name in ("pid", "epoch")}
            self.record(who.actor, "id", transactional_id=transactional_id, **identity)
        return who

    def start_plain(self) -> Actor:
        """A producer without a transactional id: the run writes its records."""
        return self._enter(lambda actor: KitTransactionalProducer(actor, TransactionalProducer("", 0), self.place))

    def _enter(self, make: Callable[[str], KitTransactionalProducer]) -> Actor:
        actor = "producer" if not self.actors else f"producer {len(self.actors) + 1}"
        who = Actor(actor, make(actor))
        self.actors.append(who)
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

    def begin_tx(self, who: Actor, records: Sequence[int] = ()) -> CallResult:
        """A transaction begins, and its first batch is sent, if there is one; what became of the begin."""
        self._free(who)
        told = who.producer.do("begin")
        if not told.error:
            who.tx = self.transactions
            self.transactions += 1
            self.record(who.actor, "begin", tx=who.tx)
        self._note_error(who, told)
        self.send(who, records)
        return told

    def send(self, who: Actor, records: Sequence[int], hold: bool = False) -> CallResult:
        """Hand one batch over and wait until it is stored or refused; with `hold` it is still on its way."""
        if not records:
            return CallResult()
        self._free(who)
        self.sent_tx = who.tx
        more = {"held": True} if hold else {}
        self.record(who.actor, "send", **self.where, first=records[0], last=records[-1], tx=who.tx, **more)
        told = who.producer.do("send", records, hold)
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
        told = who.producer.do("send_offsets", offset=offset, group=group)
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
        self.sent_tx = None
        self.record(who.actor, "send", **self.where, first=records[0], last=records[-1], tx=None)
        told = self.place.write_plainly(records)
        self.after(who, told)
        return told

    def commit(self, who: Actor) -> CallResult:
        """Commit; the step `commit_tx` says that the user was told so."""
        return self._end(who, "commit")

    def abort(self, who: Actor) -> CallResult:
        return self._end(who, "abort")

    def _end(self, who: Actor, call: str) -> CallResult:
        self._free(who)
        tx, word = who.tx, f"{call}_tx"
        told = who.producer.do(call)
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
        self.record("network", "late_marker", **self.where, kind=kind, **self.named(*of), version=version, error=told.error or "NONE")
        self.look()
        return told

    def effect(self, who: Actor, record: int, charged: bool) -> None:
        """Something outside of Kafka was done for a record: or not, as its key was there already."""
        self.record("database", "effect", topic=self.place.topic.removesuffix("output") + "charges", partition=PARTITION, record=record,
                    charged=charged, by=who.actor)  # fmt: skip

    def settle(self, most_ms: int) -> None:
        """Let time pass until no transaction holds readers back any more."""
        end_ms = self.now_ms + most_ms
        while (seen := self.place.snapshot()).lso < seen.high_watermark and self.now_ms < end_ms:
            self.place.pass_ms(STEP_MS)
        self.look()

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
        for stored in look.log[len(self.log) :]:
            self._tell_batch(stored)
        self._tell_transitions(look)
        for isolation in self.positions:
            self._read(isolation, look)
        return look

    def _tell_transitions(self, look: Snapshot, is_decided: bool = False) -> None:
        """The coordinator's new steps; with `is_decided` up to the decision alone, before the markers that follow it."""
        self.last = look
        for step in look.transitions[self.told_transitions :]:
            if is_decided and step.state.is_complete and any(stored.marker for stored in look.log[len(self.log) :]):
                return
            self.told_transitions += 1
            name, identity = step.transactional_id.removeprefix(f"{self.trace.run}-"), self.named(step.producer_id, step.producer_epoch)
            self.entries = self.entries | {name: {"state": step.state.value} | identity}
            why = {"why": step.why} if step.why else {}
            self.record("coordinator", "transition", transactional_id=name, to=step.state.value, **identity, **why)

    def _tell_batch(self, stored: StoredBatch) -> None:
        """Write and marker; a marker belongs to no transaction of a user's."""
        batch, first, kind = stored.batch, stored.base_offset, None
        identity = self.named(batch.producer_id, batch.producer_epoch)
        if stored.marker is not None:
            kind = "COMMIT" if stored.marker.is_commit else "ABORT"
        records = [*map(int, batch.values)]
        tx = self.sent_tx if kind is None else None
        self.log = [*self.log, [first, stored.last_offset, *identity.values(), tx, kind]]
        if kind is not None:
            self.record("broker", "marker", **self.where, offset=first, kind=kind, **identity)
        else:
            self.record("broker", "write", **self.where, first=records[0], last=records[-1], offset=first, **identity, tx=tx)

    def _read(self, isolation: str, look: Snapshot) -> None:
        end = look.lso if isolation == "read_committed" else look.high_watermark
        if end > self.positions[isolation]:
            found, position = self.place.read(isolation, self.positions[isolation])
            self.positions[isolation] = min(position, end)  # what has come since the look belongs to the next one
            for offset, record in found:
                if offset < end:
                    tx = next((row[4] for row in reversed(self.log) if row[0] <= offset <= row[1]), None)
                    self.record(isolation, "read", **self.where, offset=offset, record=record, tx=tx)
        if isolation == "read_committed":
            waits_at = look.lso if self.positions[isolation] < look.high_watermark else None
            if waits_at is not None and waits_at != self.waits_at:
                self.record(isolation, "waits", **self.where, at=look.lso, high_watermark=look.high_watermark)
            self.waits_at = waits_at

    def named(self, producer_id: int, epoch: int) -> dict[str, int]:
        """A producer's id, by the number by which the trace calls it (-1 for none), and its epoch."""
        if producer_id >= 0 and producer_id not in self.ids:
            self.ids.append(producer_id)
        return {"pid": self.ids.index(producer_id) if producer_id >= 0 else -1, "epoch": epoch}

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
        """The log as far as it was told of, and what goes with it."""
        look, end = self.last, self.log[-1][1] + 1 if self.log else 0
        return {
            "log": self.log, "lso": min(look.lso, end) if look else 0, "high_watermark": end,
            "coordinator": self.entries, "committed_input": look.committed_input if look else None, "positions": dict(self.positions),
        }  # fmt: skip
