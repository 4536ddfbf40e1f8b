"""Batches and logs for the broker's tests, in few words."""

from __future__ import annotations

from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.entry import EndTransactionMarker, VerificationGuard
from kitlib.mechanisms.broker.unified_log import UnifiedLog
from kitlib.mechanisms.protocol import Batch, ErrorCode

PID = 7


def batch(
    seq: int, count: int = 1, epoch: int = 0, pid: int = PID, txn: bool = False, at: int = 0, partition: int = 0
) -> Batch:
    return Batch(partition, count, pid, epoch, seq, txn, at)


def marker(epoch: int = 0, version: int = 1, pid: int = PID, coordinator: int = 0, at: int = 0) -> EndTransactionMarker:
    return EndTransactionMarker(pid, epoch, coordinator, True, version, at)


def said(log: UnifiedLog, what: Batch | EndTransactionMarker, guard: VerificationGuard | None = None) -> str:
    """What the log makes of it: "appended 4", "duplicate 2", or the error's name."""
    try:
        done = log.append(what, guard) if isinstance(what, Batch) else log.append_marker(what)
    except BatchRefusedError as refused:
        assert refused.error in ErrorCode
        return refused.error.name
    return f"{done.outcome.value} {done.base_offset}"


def remembered(log: UnifiedLog, pid: int = PID) -> list[tuple[int, int, int, int]] | None:
    """First and last sequence, first and last offset of each remembered batch; None for an unknown producer."""
    entry = log.state.entries.get(pid)
    if entry is None:
        return None
    return [(each.first_seq, each.last_seq, each.first_offset, each.last_offset) for each in entry.batches]


def firsts(log: UnifiedLog, pid: int = PID) -> list[int]:
    """The first sequences of the remembered batches."""
    found = remembered(log, pid)
    assert found is not None
    return [each[0] for each in found]


def filled(log: UnifiedLog, batches: int, pid: int = PID, txn: bool = False) -> UnifiedLog:
    """The log with so many batches of one record, from sequence 0 on."""
    for seq in range(batches):
        log.append(batch(seq, pid=pid, txn=txn))
    return log
