"""The way beyond at least once: batches with a transaction id, committed strictly in order.

At-least-once delivery repeats a record when it cannot know whether it was finished, and a counter that
receives it twice counts twice. Storm's answer gives up on single records. Records are cut into batches,
each batch has a *transaction id* (1, 2, 3, ...), and work on it has two phases. In the first, any
number of batches are processed at once and nothing outside is changed. In the second, the commit, the
batch's changes are written; commits happen one at a time and in the order of the ids. So a
writer can store the id beside each value, and knows at a replay whether this very batch has already been
applied (`kitlib.storm.transactional_state`).

For this, the id must stand for the same records each time. A *transactional* spout remembers which
offsets an id stands for before it emits them, and keeps that where it survives a crash. An
*opaque* spout remembers only what was committed: a replay starts where the last committed batch
ended, and takes what is there then.

Left out: several partitions, and the tuples between the spout and the writers of the state; the
driver of the coordinator reports the outcome of an attempt with `ack` and `fail`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from kitlib.errors import KitError
from kitlib.storm.offset_store import OffsetStore

INIT_TXID = 1


class UnreadableTransactionError(KitError):
    """What a coordinator had stored cannot be read back, so nobody knows which batches were committed."""


@dataclass(frozen=True, slots=True, order=True)
class TransactionAttempt:
    """One try of one transaction: the id says which batch, the attempt which try."""

    txid: int  # INIT_TXID or more
    attempt: int  # 1, 2, 3, ... for each txid

    def __str__(self) -> str:
        return f"{self.txid}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class Batch:
    """The records of one attempt: offsets first to last, both inclusive; never empty."""

    first: int
    last: int

    @property
    def end(self) -> int:
        """The offset after the last one."""
        return self.last + 1


Records = Callable[[TransactionAttempt], int]  # how many records a fetch would bring for this attempt, 1 or more


class BatchSpout(Protocol):
    """Says which offsets a transaction id stands for."""

    def batch(self, attempt: TransactionAttempt, log_end: int) -> Batch | None:
        """The batch of this attempt; None when nothing lies in the log for it yet."""
        ...

    def committed(self, txid: int) -> None:
        """The batch of `txid` is committed: no earlier one is asked for again."""
        ...

    def stored(self) -> dict[int, Batch]:
        """What must outlive a crash."""
        ...

    def restore(self, batches: dict[int, Batch]) -> None:
        """Go on from what `stored` gave; anything else that was known is forgotten."""
        ...


@dataclass(slots=True)
class TransactionalSpout:
    """A replayed transaction id stands for the very offsets that it stood for at first.

    Source: Storm 0.9.3, `backtype.storm.transactional.state.RotatingTransactionalState` and
    `partitioned.PartitionedTransactionalSpoutExecutor`.
    Differs: one partition; the coordinator stores what is remembered, in its own text.
    """

    records: Records
    first_offset: int = 0  # where transaction 1 begins
    batches: dict[int, Batch] = field(default_factory=dict)  # the last committed batch and every later one

    def batch(self, attempt: TransactionAttempt, log_end: int) -> Batch | None:
        txid = attempt.txid
        if txid not in self.batches:
            begin = self.batches[txid - 1].end if txid > INIT_TXID else self.first_offset
            found = _cut(begin, self.records(attempt), log_end)
            if found is None:
                return None
            self.batches[txid] = found
        return self.batches[txid]

    def committed(self, txid: int) -> None:
        self.batches = {known: batch for known, batch in self.batches.items() if known >= txid}

    def stored(self) -> dict[int, Batch]:
        return self.batches

    def restore(self, batches: dict[int, Batch]) -> None:
        self.batches = dict(batches)


@dataclass(slots=True)
class OpaqueTransactionalSpout:
    """A replayed transaction id begins where the batch before it ended, and may end elsewhere than at first.

    Every record is in exactly one *committed* batch, but before that it may have been in another one.

    Source: Storm 0.9.3, `backtype.storm.transactional.partitioned.OpaquePartitionedTransactionalSpoutExecutor`.
    Differs: one partition; what is committed is stored by the coordinator at the end of the commit and
    not by the spout in the middle of it.
    """

    records: Records
    first_offset: int = 0  # where transaction 1 begins
    last_committed: tuple[int, Batch] | None = None  # what alone outlives a crash
    cached: dict[int, Batch] = field(default_factory=dict)  # emitted and not yet committed

    def batch(self, attempt: TransactionAttempt, log_end: int) -> Batch | None:
        lower = max((txid for txid in self.cached if txid < attempt.txid), default=None)
        if lower is not None:
            begin = self.cached[lower].end
        else:
            begin = self.last_committed[1].end if self.last_committed else self.first_offset
        found = _cut(begin, self.records(attempt), log_end)
        if found is not None:
            self.cached[attempt.txid] = found
        return found

    def committed(self, txid: int) -> None:
        self.last_committed = txid, self.cached.pop(txid)

    def stored(self) -> dict[int, Batch]:
        return dict([self.last_committed]) if self.last_committed else {}

    def restore(self, batches: dict[int, Batch]) -> None:
        self.cached = {}
        self.last_committed = max(batches.items(), default=None, key=lambda known: known[0])


def _cut(begin: int, records: int, log_end: int) -> Batch | None:
    """At most `records` offsets from `begin` on; None when the log ends there."""
    return Batch(begin, min(begin + max(1, records), log_end) - 1) if begin < log_end else None


class AttemptStatus(Enum):
    """How far an attempt has come."""

    PROCESSING = "processing"  # its batch is out; many attempts may be here
    PROCESSED = "processed"  # finished, and it waits for the commits before it
    COMMITTING = "committing"  # its changes are being written; one attempt at most


@dataclass(slots=True)
class TransactionStatus:
    """An attempt that is neither committed nor failed."""

    attempt: TransactionAttempt
    batch: Batch
    status: AttemptStatus = AttemptStatus.PROCESSING


@dataclass(frozen=True, slots=True)
class EmitBatch:
    """Work on this batch now; then ack the attempt, or fail it."""

    attempt: TransactionAttempt
    batch: Batch


@dataclass(frozen=True, slots=True)
class EmitCommit:
    """Write this batch's changes now; then ack the attempt, or fail it."""

    attempt: TransactionAttempt
    batch: Batch


@dataclass(slots=True)
class TransactionalSpoutCoordinator:
    """Decides which batches are out, and which single one may commit.

    What it must not forget lies in `store` at `path`, and a new coordinator over the same store goes on
    from there. It is written before a batch is emitted and after a commit is finished; a crash
    between the writes of a commit and that moment makes the same id come again.

    Source: Storm 0.9.3, `backtype.storm.transactional.TransactionalSpoutCoordinator`, and for the
    attempts that count up `storm.trident.topology.MasterBatchCoordinator`.
    Differs: `ack` and `fail` hand nothing out, the caller asks `next` afterwards; attempts count from 1;
    one stored text holds what Storm spreads over ZooKeeper nodes; without a batch for one id no later
    id is tried. A late failure of an older attempt is ignored: Storm ends the current attempt of that id
    with it and lets the later ids stand, whose batches then no longer fit to it if the spout is opaque.
    """

    spout: BatchSpout
    store: OffsetStore
    path: str
    max_spout_pending: int = 1  # so many batches may be out, the committing one included
    curr_txid: int = field(init=False, default=INIT_TXID)  # the next to be committed; never falls
    active: dict[int, TransactionStatus] = field(init=False, default_factory=dict)  # by txid, all >= curr_txid
    attempt_ids: dict[int, int] = field(init=False, default_factory=dict)  # txid -> the last attempt emitted

    def __post_init__(self) -> None:
        """Go on from what is stored. KitError when max_spout_pending < 1, or when the stored text cannot be read."""
        if self.max_spout_pending < 1:
            raise KitError(
                f"coordinator {self.path}: max_spout_pending is {self.max_spout_pending}, expected 1 or more batches. "
                "With 0, no batch would ever be emitted."
            )
        text = self.store.read(self.path)
        if text is None:
            return
        try:
            told = json.loads(text)
            self.curr_txid = _whole(told["currtx"])
            attempts = {int(txid): _whole(attempt) for txid, attempt in told["currattempts"].items()}
            batches = {int(txid): Batch(*map(_whole, offsets)) for txid, offsets in told["meta"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableTransactionError(
                f"coordinator {self.path}: the stored text {text[:60]!r} holds no transactions "
                f"({type(error).__name__}: {str(error)[:60]}). Begin under another path; the counts are then no longer right."
            ) from error
        self.attempt_ids = {txid: attempt for txid, attempt in attempts.items() if txid >= self.curr_txid}
        self.spout.restore(batches)

    def next(self, log_end: int) -> list[EmitBatch | EmitCommit]:
        """What is to be done now: the commit whose turn it is, and new batches while there is room for them."""
        effects: list[EmitBatch | EmitCommit] = []
        turn = self.active.get(self.curr_txid)
        if turn is not None and turn.status is AttemptStatus.PROCESSED:
            turn.status = AttemptStatus.COMMITTING
            effects.append(EmitCommit(turn.attempt, turn.batch))
        for txid in range(self.curr_txid, self.curr_txid + self.max_spout_pending):
            if txid in self.active:
                continue
            attempt = TransactionAttempt(txid, self.attempt_ids.get(txid, 0) + 1)
            batch = self.spout.batch(attempt, log_end)
            if batch is None:
                break
            self.attempt_ids[txid] = attempt.attempt
            self._store()  # before it goes out: a replay must find it
            self.active[txid] = TransactionStatus(attempt, batch)
            effects.append(EmitBatch(attempt, batch))
        return effects

    def ack(self, attempt: TransactionAttempt) -> bool:
        """The phase of this attempt is finished; False when it is no longer the current attempt and so does not count."""
        status = self.active.get(attempt.txid)
        if status is None or status.attempt != attempt:
            return False
        if status.status is AttemptStatus.PROCESSING:
            status.status = AttemptStatus.PROCESSED
        elif status.status is AttemptStatus.COMMITTING:
            del self.active[attempt.txid]
            self.attempt_ids.pop(attempt.txid, None)
            self.spout.committed(attempt.txid)
            self.curr_txid = attempt.txid + 1
            self._store()
        return True

    def fail(self, attempt: TransactionAttempt) -> list[TransactionAttempt]:
        """This attempt failed; the attempts that end with it, itself first, and whose batches will come again.

        All later batches end too: they may not be committed before it, and an opaque spout may cut them
        again. A late failure of an attempt that is no longer the current one ends nothing.
        """
        status = self.active.get(attempt.txid)
        if status is None or status.attempt != attempt:
            return []
        return [self.active.pop(txid).attempt for txid in sorted(self.active) if txid >= attempt.txid]

    def _store(self) -> None:
        told: dict[str, Any] = {
            "currtx": self.curr_txid,
            "currattempts": self.attempt_ids,
            "meta": {txid: [batch.first, batch.last] for txid, batch in self.spout.stored().items()},
        }
        self.store.write(self.path, json.dumps(told, separators=(",", ":")))

    def __repr__(self) -> str:
        out = ", ".join(f"{status.attempt} {status.status.value}" for _, status in sorted(self.active.items()))
        return f"<TransactionalSpoutCoordinator: transaction {self.curr_txid} is next; {out or 'nothing is out'}>"


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value
