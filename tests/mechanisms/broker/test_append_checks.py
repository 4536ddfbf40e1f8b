"""Each rule by which a broker takes or refuses a batch, as a table of cases."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.broker.append_checks import (
    BatchRefusedError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
    check_marker,
    check_open_transaction,
    check_producer_epoch,
    check_sequence,
    check_transaction,
    is_next,
    is_older,
)
from kitlib.mechanisms.broker.entry import (
    SENTINEL,
    BatchMetadata,
    EndTransactionMarker,
    ProducerStateEntry,
    VerificationGuard,
    VerificationStateEntry,
)
from kitlib.mechanisms.protocol import MAX_EPOCH, MAX_SEQUENCE, NO_SEQUENCE, Batch, ErrorCode

OK = None
Refusal = type[BatchRefusedError] | None


def entry_with(epoch: int, last_seq: int | None, txn: int | None = None) -> ProducerStateEntry:
    """An entry whose newest batch ends at `last_seq`; None: its epoch was begun by a marker."""
    batches = [] if last_seq is None else [BatchMetadata(last_seq, last_seq, 40, 40)]
    return ProducerStateEntry(7, epoch, batches=batches, txn_first_offset=txn)


def batch(seq: int, epoch: int = 3, count: int = 1, txn: bool = False) -> Batch:
    return Batch(0, count, 7, epoch, seq, txn)


def held(wanted: Refusal, check: object, *args: object) -> None:
    """The check passes, or raises exactly what is wanted with a message that says who and what to do."""
    assert callable(check)
    if wanted is None:
        check(*args)
        return
    with pytest.raises(wanted) as refused:
        check(*args)
    assert type(refused.value) is wanted and "producer 7" in str(refused.value) and str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("last", "first", "follows"),
    [
        (4, 5, True), (4, 4, False), (4, 6, False), (4, 0, False), (NO_SEQUENCE, 0, True), (NO_SEQUENCE, 1, False),
        (MAX_SEQUENCE, 0, True), (MAX_SEQUENCE, 1, False), (MAX_SEQUENCE - 1, MAX_SEQUENCE, True), (MAX_SEQUENCE - 1, 0, False),
    ],
)  # fmt: skip
def test_is_next_is_one_more_and_zero_after_the_last(last: int, first: int, follows: bool) -> None:
    """A sequence follows the one below it; 0 follows 2^31 - 1 and the absence of any."""
    assert is_next(last, first) is follows


@pytest.mark.parametrize(
    ("last", "first", "count", "older"),
    [
        (9, 9, 1, True), (9, 0, 10, True), (9, 10, 1, False), (9, 11, 1, False), (9, 8, 3, False), (9, 0, 11, False),
        (NO_SEQUENCE, 0, 1, False), (1, MAX_SEQUENCE, 2, True), (1, MAX_SEQUENCE, 4, False), (MAX_SEQUENCE, 0, 1, False),
        (MAX_SEQUENCE, MAX_SEQUENCE, 1, True), (2**30, 1, 1, False), (2**30, 2, 1, True),
    ],
)  # fmt: skip
def test_is_older_is_wholly_below_the_expected_sequence(last: int, first: int, count: int, older: bool) -> None:
    """A batch with one new record is not older, and what is half the numbers away counts as ahead."""
    assert is_older(last, first, count) is older


@pytest.mark.parametrize(
    ("entry", "seq", "epoch", "wanted"),
    [
        pytest.param(entry_with(3, 4), 5, 3, OK, id="the next one"),
        pytest.param(entry_with(3, 4), 6, 3, OutOfOrderSequenceError, id="a gap"),
        pytest.param(entry_with(3, 4), 4, 3, OutOfOrderSequenceError, id="one that was written"),
        pytest.param(entry_with(3, MAX_SEQUENCE), 0, 3, OK, id="zero after the last number"),
        pytest.param(entry_with(3, 4), 0, 4, OK, id="a new epoch begins at zero"),
        pytest.param(entry_with(3, 4), 5, 4, OutOfOrderSequenceError, id="a new epoch does not go on counting"),
        pytest.param(entry_with(3, None), 0, 3, OK, id="zero after a marker that began the epoch"),
        pytest.param(entry_with(3, None), 5, 3, OutOfOrderSequenceError, id="no other after such a marker"),
        pytest.param(entry_with(-1, None), 5, 3, OK, id="an unknown producer may begin anywhere"),
        pytest.param(entry_with(-1, 4), 9, -1, OK, id="epoch -1 is never known, so it may go on anywhere"),
    ],
)
def test_check_sequence(entry: ProducerStateEntry, seq: int, epoch: int, wanted: Refusal) -> None:
    """Which sequence must come now depends on the epoch and on what is remembered."""
    held(wanted, check_sequence, entry, batch(seq, epoch))


@pytest.mark.parametrize(
    ("entry", "seq", "epoch", "wanted"),
    [
        pytest.param(entry_with(-1, None), 0, 0, OK, id="an unknown producer begins at zero"),
        pytest.param(entry_with(-1, None), 1, 0, UnknownProducerIdError, id="else it is told that it is unknown"),
        pytest.param(entry_with(3, 4), 6, 3, OutOfOrderSequenceError, id="a gap is a gap"),
        pytest.param(entry_with(3, 4), 1, 4, OutOfOrderSequenceError, id="a new epoch that does not begin at zero"),
        pytest.param(entry_with(3, None), 1, 3, OutOfOrderSequenceError, id="after a marker that began the epoch"),
    ],
)
def test_check_sequence_of_release_2_0(entry: ProducerStateEntry, seq: int, epoch: int, wanted: Refusal) -> None:
    """Release 2.0 differs in one case: a producer of which nothing is remembered must begin at 0."""
    held(wanted, check_sequence, entry, batch(seq, epoch), None, "2.0")


@pytest.mark.parametrize(
    ("entry", "lowest", "version_2", "seq", "wanted"),
    [
        pytest.param(entry_with(-1, None), 3, False, 3, OK, id="the lowest that waits"),
        pytest.param(
            entry_with(-1, None), 3, False, 4, OutOfOrderSequenceError, id="a higher one does not overtake it"
        ),
        pytest.param(entry_with(3, 4), 3, False, 5, OutOfOrderSequenceError, id="not even the next one"),
        pytest.param(entry_with(3, 4), 5, True, 5, OK, id="version 2 with something remembered"),
        pytest.param(entry_with(-1, None), 5, True, 5, OutOfOrderSequenceError, id="version 2 with nothing remembered"),
        pytest.param(entry_with(-1, None), 0, True, 0, OK, id="which begins at zero"),
        pytest.param(entry_with(3, None), 5, True, 5, OutOfOrderSequenceError, id="also after a marker"),
    ],
)
def test_check_sequence_while_a_transaction_waits(
    entry: ProducerStateEntry, lowest: int, version_2: bool, seq: int, wanted: Refusal
) -> None:
    """What waits to be verified comes first, and a producer of version 2 without batches begins at 0."""
    held(
        wanted, check_sequence, entry, batch(seq), VerificationStateEntry(0, VerificationGuard(), lowest, 3, version_2)
    )


@pytest.mark.parametrize(("epoch", "wanted"), [(2, InvalidProducerEpochError), (3, OK), (4, OK), (MAX_EPOCH, OK)])
def test_check_producer_epoch_refuses_a_lower_one(epoch: int, wanted: Refusal) -> None:
    """An epoch below the newest seen is fenced off; it may rise by any number."""
    held(wanted, check_producer_epoch, entry_with(3, 4), batch(5, epoch))


GUARD = VerificationGuard()


@pytest.mark.parametrize(
    ("txn", "epoch", "waits", "guard", "verification", "wanted"),
    [
        pytest.param(40, 3, False, None, True, OK, id="a transaction that is open needs no guard"),
        pytest.param(None, 3, False, None, False, OK, id="nor one that is not, with verification off"),
        pytest.param(None, 3, True, GUARD, True, OK, id="its first batch brings the guard"),
        pytest.param(None, 3, True, None, True, InvalidTxnStateError, id="without it"),
        pytest.param(None, 3, True, SENTINEL, True, InvalidTxnStateError, id="with the guard of nothing"),
        pytest.param(None, 3, True, VerificationGuard(), True, InvalidTxnStateError, id="with another one"),
        pytest.param(None, 3, False, GUARD, True, InvalidTxnStateError, id="with one that was used"),
        pytest.param(None, 2, True, GUARD, True, InvalidProducerEpochError, id="an old epoch is told before that"),
        pytest.param(40, 2, False, None, False, InvalidProducerEpochError, id="also while a transaction is open"),
        pytest.param(
            40, 4, False, None, True, InvalidTxnStateError, id="the open one of an older epoch is another one"
        ),
        pytest.param(40, 4, True, GUARD, True, OK, id="so a new epoch needs its guard"),
    ],
)
def test_check_transaction(
    txn: int | None, epoch: int, waits: bool, guard: VerificationGuard | None, verification: bool, wanted: Refusal
) -> None:
    """The first batch of a transaction must have been confirmed by the coordinator, if the broker asks for that."""
    waiting = VerificationStateEntry(0, GUARD, 5, 3, False) if waits else None
    held(wanted, check_transaction, entry_with(3, 4, txn), batch(5, epoch, txn=True), waiting, guard, verification)


@pytest.mark.parametrize(
    ("txn", "is_in_one", "wanted"), [(None, False, OK), (40, True, OK), (40, False, InvalidTxnStateError)]
)
def test_check_open_transaction_refuses_a_batch_outside(txn: int | None, is_in_one: bool, wanted: Refusal) -> None:
    """While a transaction is open, its producer writes nothing outside of it."""
    held(wanted, check_open_transaction, entry_with(3, 4, txn), batch(5, txn=is_in_one))


@pytest.mark.parametrize(
    ("version", "epoch", "coordinator", "txn", "wanted"),
    [
        pytest.param(1, 3, 5, 40, OK, id="version 1 ends it with the same epoch"),
        pytest.param(1, 4, 5, 40, OK, id="or with a higher one, which fences"),
        pytest.param(1, 2, 5, 40, InvalidProducerEpochError, id="never with a lower one"),
        pytest.param(2, 4, 5, 40, OK, id="version 2 raises it"),
        pytest.param(2, 3, 5, 40, InvalidProducerEpochError, id="and must, while the transaction is open"),
        pytest.param(2, 3, 5, None, OK, id="the same marker again is written again"),
        pytest.param(2, 2, 5, None, InvalidProducerEpochError, id="but no older one"),
        pytest.param(1, 3, 6, 40, OK, id="a newer coordinator"),
        pytest.param(1, 3, 4, 40, TransactionCoordinatorFencedError, id="an older coordinator"),
        pytest.param(1, 2, 4, 40, InvalidProducerEpochError, id="the producer's epoch is asked first"),
    ],
)
def test_check_marker(version: int, epoch: int, coordinator: int, txn: int | None, wanted: Refusal) -> None:
    """A marker's epoch must not be old, and must be new in version 2; its coordinator must not be old either."""
    entry = entry_with(3, 4, txn)
    entry.coordinator_epoch = 5
    held(wanted, check_marker, entry, EndTransactionMarker(7, epoch, coordinator, True, version))


def test_check_marker_at_the_highest_epoch_cannot_raise_it() -> None:
    """Version 2 at epoch 32767: the marker has the same epoch, also while the transaction is open."""
    held(OK, check_marker, entry_with(MAX_EPOCH, 4, 40), EndTransactionMarker(7, MAX_EPOCH, 0, True, 2))


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (OutOfOrderSequenceError, 45), (UnknownProducerIdError, 59), (InvalidProducerEpochError, 47),
        (InvalidTxnStateError, 48), (TransactionCoordinatorFencedError, 52), (BatchRefusedError, -1),
    ],
)  # fmt: skip
def test_refusal_names_its_error_code(refusal: type[BatchRefusedError], code: int) -> None:
    """Each refusal has the number that the client sees on the wire."""
    assert refusal.error == ErrorCode(code)
