"""Bugs of a broker, planted by hand: what each puts in the place of a function or method of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kitlib.kafka.broker import append_checks, producer_state
from kitlib.kafka.broker.entry import ProducerStateEntry, VerificationGuard, VerificationStateEntry
from kitlib.kafka.broker.producer_state import ProducerStateManager
from kitlib.kafka.broker.unified_log import UnifiedLog
from kitlib.kafka.protocol import Batch

Patch = tuple[Any, str, Any]  # where, which name, what stands there instead


def _sequence_rule(change: Callable[[ProducerStateEntry, Batch], bool]) -> Patch:
    """The sequence check, but what `change` says of a batch passes."""
    real = append_checks.check_sequence

    def check(entry: ProducerStateEntry, batch: Batch, waiting: Any = None, release: str = "4.3") -> None:
        if not change(entry, batch):
            real(entry, batch, waiting, release)

    return producer_state, "check_sequence", check


def _as_in_release_2_0(entry: ProducerStateEntry, batch: Batch, waiting: Any = None, release: str = "4.3") -> None:
    """Error 59 for who is unknown and does not begin at 0."""
    append_checks.check_sequence(entry, batch, waiting, "2.0")


def _no_check(*_: Any) -> None:
    """Takes everything."""


def _add_batch(self: ProducerStateEntry, batch: Batch, first_offset: int, keep: int) -> None:
    """Keeps the batches of older epochs."""
    self.epoch = batch.producer_epoch
    _REAL_ADD(self, batch, first_offset, keep)


_REAL_ADD = ProducerStateEntry.add_batch
_REAL_SNAPSHOT = ProducerStateEntry.snapshot
_REAL_RELOAD = ProducerStateManager.reload
_REAL_MARKER = ProducerStateManager.update_marker
_REAL_CHECK_MARKER = append_checks.check_marker
_REAL_VERIFY = ProducerStateManager.verify


def _add_with_ending_transaction(self: ProducerStateEntry, batch: Batch, first_offset: int, keep: int) -> None:
    """A new epoch forgets the open transaction."""
    if batch.producer_epoch != self.epoch:
        self.txn_first_offset = None
    _REAL_ADD(self, batch, first_offset, keep)


def _find_in_any_epoch(self: ProducerStateEntry, epoch: int, first_seq: int, last_seq: int) -> Any:
    """The epoch is not compared."""
    return next((each for each in self.batches if (each.first_seq, each.last_seq) == (first_seq, last_seq)), None)


def _find_by_first_sequence(self: ProducerStateEntry, epoch: int, first_seq: int, last_seq: int) -> Any:
    """The end of the batch is not compared."""
    return next((each for each in self.batches if each.first_seq == first_seq and epoch == self.epoch), None)


def _find_inside(self: ProducerStateEntry, epoch: int, first_seq: int, last_seq: int) -> Any:
    """Part of a remembered batch is taken for all of it."""
    inside = (each for each in self.batches if each.first_seq <= first_seq and last_seq <= each.last_seq)
    return next(inside, None) if epoch == self.epoch else None


def _whole_snapshot(self: ProducerStateEntry) -> ProducerStateEntry:
    """All batches survive a restart."""
    return replace(self, batches=list(self.batches))


def _snapshot_without_transaction(self: ProducerStateEntry) -> ProducerStateEntry:
    """An open transaction does not survive a restart."""
    return replace(_REAL_SNAPSHOT(self), txn_first_offset=None)


def _reload_any_snapshot(self: ProducerStateManager, start: int, end: int, now_ms: int) -> ProducerStateManager:
    """A snapshot at the log's start counts."""
    return _REAL_RELOAD(self, start - 1, end, now_ms)


def _reload_without_expiry(self: ProducerStateManager, start: int, end: int, now_ms: int) -> ProducerStateManager:
    """Expired producers are loaded."""
    return _REAL_RELOAD(self, start, end, 0)


def _reload_with_guards(self: ProducerStateManager, start: int, end: int, now_ms: int) -> ProducerStateManager:
    """Guards survive a restart."""
    loaded = _REAL_RELOAD(self, start, end, now_ms)
    loaded.waiting = self.waiting
    return loaded


def _expires_in_transactions(self: ProducerStateManager, entry: ProducerStateEntry, now_ms: int) -> bool:
    """An open transaction does not protect."""
    return now_ms - entry.last_timestamp_ms >= self.config.producer_id_expiration_ms


def _expires_late(self: ProducerStateManager, entry: ProducerStateEntry, now_ms: int) -> bool:
    """One millisecond longer."""
    return entry.txn_first_offset is None and now_ms - entry.last_timestamp_ms > self.config.producer_id_expiration_ms


def _marker_forgets(self: ProducerStateManager, entry: ProducerStateEntry, marker: Any, offset: int) -> None:
    """Every marker forgets the batches."""
    _REAL_MARKER(self, entry, marker, offset)
    entry.batches.clear()


def _marker_leaves_the_clock(self: ProducerStateManager, entry: ProducerStateEntry, marker: Any, offset: int) -> None:
    """A marker does not say that its producer lives."""
    last = entry.last_timestamp_ms
    _REAL_MARKER(self, entry, marker, offset)
    entry.last_timestamp_ms = last


def _marker_spares_guards(self: ProducerStateManager, entry: ProducerStateEntry, marker: Any, offset: int) -> None:
    """A guard outlives the transaction."""
    waiting = self.waiting.get(marker.producer_id)
    _REAL_MARKER(self, entry, marker, offset)
    if waiting:
        self.waiting[marker.producer_id] = waiting


def _marker_takes_all_guards(self: ProducerStateManager, entry: ProducerStateEntry, marker: Any, offset: int) -> None:
    """Also the guard of the next transaction."""
    _REAL_MARKER(self, entry, marker, offset)
    self.waiting.pop(marker.producer_id, None)


def _markers_of_version_1(entry: ProducerStateEntry, marker: Any) -> None:
    """Version 2 need not raise the epoch."""
    _REAL_CHECK_MARKER(entry, replace(marker, transaction_version=1))


def _markers_never_repeated(entry: ProducerStateEntry, marker: Any) -> None:
    """Version 2 must raise the epoch, also when the marker comes again."""
    if marker.transaction_version == 2 and marker.producer_epoch == entry.epoch:
        raise append_checks.InvalidProducerEpochError("planted.")
    _REAL_CHECK_MARKER(entry, marker)


def _markers_of_any_coordinator(entry: ProducerStateEntry, marker: Any) -> None:
    """An older coordinator may write."""
    _REAL_CHECK_MARKER(entry, replace(marker, coordinator_epoch=2**31))


def _verify_with_new_guards(self: ProducerStateManager, *args: Any) -> VerificationGuard:
    """Each batch that waits gets a guard of its own."""
    guard = _REAL_VERIFY(self, *args)
    waiting = self.waiting.get(args[0])
    if waiting is None or guard is not waiting.guard:
        return guard
    waiting.guard = VerificationGuard()
    return waiting.guard


def _verify_keeps_the_first(self: VerificationStateEntry, sequence: int, epoch: int) -> None:
    """The lowest sequence is that of the first batch that waited."""


def _unstable_at_the_newest(self: ProducerStateManager) -> int | None:
    """The newest open transaction counts."""
    return max(self.ongoing_txns, default=None)


def _fail_over_as_a_restart(self: UnifiedLog) -> None:
    """A new leader has a snapshot."""
    self.restart("kill", 0)


def _kill_from_the_start(self: UnifiedLog, how: str, now_ms: int) -> None:
    """The log is read from its start, not from its segment's first batch."""
    state = self.state
    if how == "kill":
        state = self._replayed([each for each in self.batches if each.last_offset >= self.start])
    state.take_snapshot()
    self.state = state.reload(self.start, self.end, now_ms)


def _delete_forgets(self: ProducerStateManager, start: int) -> None:
    """Deleted records are forgotten, as in release 2.0."""
    self.entries = {pid: entry for pid, entry in self.entries.items() if producer_state.is_retained(entry, start)}
    self.ongoing_txns = {at: pid for at, pid in self.ongoing_txns.items() if pid in self.entries}


BUGS: dict[str, Patch] = {
    "a gap is taken": _sequence_rule(lambda entry, batch: batch.base_sequence > entry.last_seq),
    "a new epoch may begin anywhere": _sequence_rule(lambda entry, batch: batch.producer_epoch != entry.epoch),
    "an older sequence is written again": _sequence_rule(lambda entry, batch: batch.base_sequence <= entry.last_seq),
    "after a marker any sequence may come": _sequence_rule(lambda entry, batch: not entry.batches),
    "an unknown producer begins at zero": (producer_state, "check_sequence", _as_in_release_2_0),
    "the wrap is a gap": (append_checks, "is_next", lambda last, first: first == last + 1),
    "the wrap is at 2^31": (append_checks, "is_next", lambda last, first: first == last + 1 or first == 0),
    "an old epoch is taken": (producer_state, "check_producer_epoch", _no_check),
    "a batch may be outside of the open transaction": (producer_state, "check_open_transaction", _no_check),
    "no guard is needed": (producer_state, "check_transaction", _no_check),
    "a duplicate of any epoch": (ProducerStateEntry, "find_duplicate", _find_in_any_epoch),
    "a duplicate is told by its first sequence": (ProducerStateEntry, "find_duplicate", _find_by_first_sequence),
    "a part of a batch is a duplicate": (ProducerStateEntry, "find_duplicate", _find_inside),
    "nothing is a duplicate": (ProducerStateEntry, "find_duplicate", _no_check),
    "batches of older epochs are kept": (ProducerStateEntry, "add_batch", _add_batch),
    "a new epoch ends the transaction": (ProducerStateEntry, "add_batch", _add_with_ending_transaction),
    "six batches are kept": (
        ProducerStateEntry,
        "add_batch",
        lambda self, batch, at, keep: _REAL_ADD(self, batch, at, 6),
    ),
    "four batches are kept": (
        ProducerStateEntry,
        "add_batch",
        lambda self, batch, at, keep: _REAL_ADD(self, batch, at, 4),
    ),
    "a snapshot holds all batches": (ProducerStateEntry, "snapshot", _whole_snapshot),
    "a snapshot holds no transaction": (ProducerStateEntry, "snapshot", _snapshot_without_transaction),
    "a snapshot at the start counts": (ProducerStateManager, "reload", _reload_any_snapshot),
    "expired producers are loaded": (ProducerStateManager, "reload", _reload_without_expiry),
    "guards survive a restart": (ProducerStateManager, "reload", _reload_with_guards),
    "a transaction does not protect from expiry": (ProducerStateManager, "is_expired", _expires_in_transactions),
    "expiry a millisecond late": (ProducerStateManager, "is_expired", _expires_late),
    "deleted records are forgotten": (ProducerStateManager, "log_start_moved", _delete_forgets),
    "a marker forgets the batches": (ProducerStateManager, "update_marker", _marker_forgets),
    "a marker leaves the clock": (ProducerStateManager, "update_marker", _marker_leaves_the_clock),
    "a marker spares guards": (ProducerStateManager, "update_marker", _marker_spares_guards),
    "a marker takes the next guard too": (ProducerStateManager, "update_marker", _marker_takes_all_guards),
    "version 2 need not raise the epoch": (producer_state, "check_marker", _markers_of_version_1),
    "version 2 cannot repeat a marker": (producer_state, "check_marker", _markers_never_repeated),
    "any coordinator may write": (producer_state, "check_marker", _markers_of_any_coordinator),
    "each batch gets its own guard": (ProducerStateManager, "verify", _verify_with_new_guards),
    "the first sequence that waits counts": (VerificationStateEntry, "maybe_lower", _verify_keeps_the_first),
    "the newest transaction is unstable": (ProducerStateManager, "first_undecided_offset", _unstable_at_the_newest),
    "a failover is like a restart": (UnifiedLog, "fail_over", _fail_over_as_a_restart),
    "after a kill the log is read from its start": (UnifiedLog, "restart", _kill_from_the_start),
}


# The named scripts catch the others.
CAUGHT_BY_RANDOM = {
    "a new epoch ends the transaction": "public_252",
    "a snapshot at the start counts": "public_179",
    "expired producers are loaded": "public_056",
    "guards survive a restart": "public_265",
    "a marker takes the next guard too": "public_226",
    "after a kill the log is read from its start": "public_049",
}
