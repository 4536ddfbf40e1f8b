"""A transaction's run keeps books: who sent what in which transaction, what lies where, and what a step shows beside itself.

A log knows producer ids and epochs, not which transaction of a user's a batch belongs to. The books find that
out: a batch belongs to the first transaction of its producer whose records it has and that is not in the log yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.experiments.transactions.transaction_stage import LogBatch, Look, TxProducer


@dataclass(slots=True)
class Sent:
    """Records that a producer handed over, as long as not all of them were found in the log."""

    tx: int | None
    records: list[int]


@dataclass(slots=True)
class Actor:
    """One producer in the story, with what its user knows of it."""

    actor: str
    producer: TxProducer
    transactional_id: str
    tx: int | None = None  # its open transaction
    sent: list[Sent] = field(default_factory=list)
    is_closed: bool = False  # it was told of a fatal error, and can do nothing more


@dataclass(slots=True)
class Books:
    """The books of one run."""

    run: str
    actors: list[Actor] = field(default_factory=list)
    transactions: int = 0  # begun so far
    ids: list[int] = field(default_factory=list)  # producer ids in the order of their appearance
    log: list[tuple[LogBatch, int | None]] = field(
        default_factory=list
    )  # each batch that was told of, and its transaction
    shown_log: list[list[Any]] = field(
        default_factory=list
    )  # the same as a step holds it; another list once it has grown
    shown_entries: tuple[int, dict[str, Any]] = (
        0,
        {},
    )  # so many transitions, and what they make of the coordinator's entries

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

    # -- whose batch is it --------------------------------------------------------------------------------

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

    # -- what a step shows ----------------------------------------------------------------------------------

    def shown(self, look: Look | None, told_transitions: int, positions: dict[str, int]) -> dict[str, Any]:
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

    def _entries(self, look: Look, count: int) -> dict[str, Any]:
        before, entries = self.shown_entries
        if before != count:
            entries = dict(entries)
            for step in look.transitions[before:count]:
                entries[self.name_of(step.transactional_id)] = {
                    "state": step.state.value, "pid": self.number_of(step.producer_id), "epoch": step.producer_epoch
                }  # fmt: skip
            self.shown_entries = count, entries
        return entries
