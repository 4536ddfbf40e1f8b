"""What a partition's broker remembers of producers, through appends, restarts, failovers, deletions and expiry."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.broker.append_checks import (
    InvalidTxnStateError,
)
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.unified_log import UnifiedLog
from tests.mechanisms.broker.logs import PID, batch, filled, firsts, marker, remembered, said

OLD = BrokerConfig(release="2.0")


@pytest.mark.parametrize("keep", [1, 2, 5, 6, 10])
def test_window_knows_so_many_batches_again(keep: int) -> None:
    """Of ten batches the newest `remembered_batches` are duplicates with their own offsets; an older one is out of order."""
    log = filled(UnifiedLog(BrokerConfig(remembered_batches=keep)), 10)
    for seq in range(10):
        expected = f"duplicate {seq}" if seq >= 10 - keep else "OUT_OF_ORDER_SEQUENCE_NUMBER"
        assert said(log, batch(seq)) == expected
    assert log.end == 10 and len(log.batches) == 10


def test_older_is_duplicate_mends_what_left_the_window() -> None:
    """Whatever lies below the expected sequence is a success, at an offset that nobody remembers; a gap stays one."""
    log = filled(UnifiedLog(BrokerConfig(older_is_duplicate=True)), 8)
    assert [said(log, batch(seq)) for seq in (0, 2, 3, 8)] == [
        "duplicate -1",
        "duplicate -1",
        "duplicate 3",
        "appended 8",
    ]
    assert said(log, batch(10)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    log.restart("kill", 0)
    assert [said(log, batch(seq)) for seq in (7, 8)] == ["duplicate -1", "duplicate 8"]


def test_older_is_duplicate_refuses_a_batch_that_is_partly_new() -> None:
    """A merged retry has records that were never written; a success would lose them."""
    log = filled(UnifiedLog(BrokerConfig(older_is_duplicate=True)), 3)
    assert said(log, batch(1, count=3)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert said(log, batch(1, count=2)) == "duplicate -1"


def test_older_is_duplicate_loses_a_batch_that_was_never_written() -> None:
    """An unknown producer may begin anywhere: batch 0 refused, 1 written, and the retry of 0 is a success without a record."""
    log = UnifiedLog(BrokerConfig(older_is_duplicate=True))
    assert said(log, batch(1)) == "appended 0"
    assert said(log, batch(0)) == "duplicate -1" and log.end == 1
    safe = UnifiedLog(BrokerConfig(older_is_duplicate=True, release="2.0"))
    assert said(safe, batch(1)) == "UNKNOWN_PRODUCER_ID" and said(safe, batch(0)) == "appended 0"


def test_older_is_duplicate_does_not_know_a_forgotten_producer() -> None:
    """After expiry and from an older epoch the rule has nothing to go by."""
    log = filled(UnifiedLog(BrokerConfig(older_is_duplicate=True, producer_id_expiration_ms=10)), 3)
    assert log.expire(10) == [PID]
    assert said(log, batch(0)) == "appended 3"
    log.append(batch(0, epoch=1))
    assert said(log, batch(0)) == "INVALID_PRODUCER_EPOCH"


def test_restart_by_kill_learns_an_expired_epoch_from_the_log() -> None:
    """Epoch 3, forgotten, then epoch 1: the log is read without the checks of its time, so 1 is the newest."""
    log = UnifiedLog(BrokerConfig(producer_id_expiration_ms=100))
    log.append(batch(0, epoch=3, at=0))
    log.expire(100)
    assert said(log, batch(9, epoch=1, at=100)) == "appended 1"
    log.restart("kill", 100)
    assert log.state.entries[PID].epoch == 1 and remembered(log) == [(9, 9, 1, 1)]


def test_restart_kill_with_a_forgotten_transaction_below_the_start_fails() -> None:
    """Everything deleted and forgotten, then a batch outside of transactions: the segment contradicts itself."""
    log = filled(UnifiedLog(), 1, txn=True)
    log.delete_before(1)
    log.restart("clean", 0)
    assert said(log, batch(1)) == "appended 1"
    with pytest.raises(InvalidTxnStateError, match="has one open since offset 0"):
        log.restart("kill", 0)
    assert remembered(log) == [(1, 1, 1, 1)]


def test_2_0_deleted_records_make_their_producer_unknown() -> None:
    """Nothing of it is left in the log, so it is forgotten at once, with its transaction: error 59 for what comes next."""
    log = filled(UnifiedLog(OLD), 2, txn=True)
    log.append(batch(0, pid=8))
    log.delete_before(2)
    assert list(log.state.entries) == [8] and log.first_unstable_offset is None
    assert said(log, batch(2)) == "UNKNOWN_PRODUCER_ID"


def test_2_0_producer_whose_newest_batch_is_left_keeps_all_it_remembers() -> None:
    """The newest batch decides; the older ones stay known though their records are gone."""
    log = filled(UnifiedLog(OLD), 3)
    log.delete_before(2)
    assert firsts(log) == [0, 1, 2] and said(log, batch(0)) == "duplicate 0"


@pytest.mark.parametrize("how", ["clean", "kill"])
def test_2_0_restart_forgets_producers_without_a_record(how: str) -> None:
    """A producer whose batch lies below the start is not loaded; in 4.3 it is."""
    for config, known in ((OLD, [8]), (BrokerConfig(), [PID, 8])):
        log = filled(UnifiedLog(config), 2)
        log.append(batch(0, pid=8))
        log.delete_before(2)
        log.restart(how, 0)
        assert sorted(log.state.entries) == known


def test_2_0_marker_does_not_keep_its_producer_alive() -> None:
    """Its age is that of its newest remembered batch; with a new epoch there is none, so it goes at once."""
    log = UnifiedLog(BrokerConfig(release="2.0", producer_id_expiration_ms=100))
    for pid, epoch in ((7, 0), (8, 1)):
        log.append(batch(0, pid=pid, txn=True, at=1_000))
        log.append_marker(marker(pid=pid, epoch=epoch, at=1_090))
    assert log.expire(1_099) == [8] and log.expire(1_100) == [7]
