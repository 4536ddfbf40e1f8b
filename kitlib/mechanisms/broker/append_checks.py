"""Whether a broker takes a batch: the rules of epochs, sequence numbers and transactions, one function each.

All of them look at what is remembered of the producer and change nothing. They raise the refusal that
the client is answered, which names its error code; they return nothing when the batch may be written.
The broker asks them in this order: is it a duplicate, does its transaction have a guard, its epoch, its
sequence number, its transaction.
"""

from __future__ import annotations

from kitlib.errors import KitError
from kitlib.mechanisms.broker.entry import (
    EndTransactionMarker,
    ProducerStateEntry,
    VerificationGuard,
    VerificationStateEntry,
)
from kitlib.mechanisms.protocol import (
    MAX_EPOCH,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    Batch,
    ErrorCode,
    increment_sequence,
)

HALF = (MAX_SEQUENCE + 1) // 2  # what is less than this far behind counts as older, not as ahead


class BatchRefusedError(KitError):
    """What was asked for is not done, and nothing has changed; `error` is what the client is answered."""

    error = ErrorCode.UNKNOWN_SERVER_ERROR


class OutOfOrderSequenceError(BatchRefusedError):
    """The sequence number is not the next one."""

    error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class UnknownProducerIdError(BatchRefusedError):
    """Release 2.0: the producer goes on, but nothing of it is remembered."""

    error = ErrorCode.UNKNOWN_PRODUCER_ID


class InvalidProducerEpochError(BatchRefusedError):
    """A newer epoch of this producer id has been seen."""

    error = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(BatchRefusedError):
    """The batch does not fit to the producer's transaction."""

    error = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFencedError(BatchRefusedError):
    """A newer coordinator has written a marker before."""

    error = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class OffsetOutOfRangeError(BatchRefusedError):
    """Records are to be deleted that are not there yet."""

    error = ErrorCode.OFFSET_OUT_OF_RANGE


def is_next(last_seq: int, first_seq: int) -> bool:
    """Whether `first_seq` follows `last_seq`: one more, or 0 after 2^31 - 1. After NO_SEQUENCE that is 0.

    Source: Apache Kafka 4.3.1, `ProducerAppendInfo.inSequence`.
    Differs: nothing.
    """
    return first_seq == last_seq + 1 or (first_seq == 0 and last_seq == MAX_SEQUENCE)


def is_older(last_seq: int, first_seq: int, count: int) -> bool:
    """Whether a batch lies wholly below the sequence that is expected after `last_seq`.

    A batch that reaches beyond it has new records, and answering it as a duplicate would lose them. Of two
    sequence numbers the one that is less than 2^30 steps behind the other is the older one.

    Source: the article's own rule ("smaller than the next sequence: surely a duplicate"); no release of Kafka has it.
    Differs: the article does not say what holds for a batch that is partly new, nor at the wrap.
    """
    behind = (increment_sequence(last_seq, 1) - first_seq) % (MAX_SEQUENCE + 1)
    return last_seq != NO_SEQUENCE and count <= behind < HALF


def check_sequence(
    entry: ProducerStateEntry,
    batch: Batch,
    waiting: VerificationStateEntry | None = None,
    release: str = "4.3",
) -> None:
    """Raise OutOfOrderSequenceError unless the batch's first sequence is the one that must come now.

    An entry without an epoch is an unknown producer: it may begin anywhere, but for transaction version 2
    and for release 2.0 (UnknownProducerIdError). A new epoch begins at 0. Within an epoch the batch follows
    the newest remembered one; when none is remembered (a marker began the epoch), 0 is expected.

    Source: Apache Kafka 4.3.1, `ProducerAppendInfo.checkSequence`; 2.0.0, the Scala class of that name.
    Differs: nothing.
    """
    first_seq = batch.base_sequence
    if waiting is not None:
        if waiting.supports_epoch_bump and first_seq != 0 and not entry.batches:
            raise OutOfOrderSequenceError(
                f"{_who(batch)}: sequence {first_seq}, expected 0, because the broker remembers nothing about it and its transactions "
                "are of version 2. Send the batch with sequence 0 first."
            )
        if first_seq > waiting.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"{_who(batch)}: sequence {first_seq}, while sequence {waiting.lowest_sequence} still waits to be "
                "verified. Send that one first."
            )
    if entry.epoch == NO_PRODUCER_EPOCH:
        if release == "2.0" and first_seq != 0:
            raise UnknownProducerIdError(
                f"{_who(batch)}: sequence {first_seq}, expected 0, because the broker remembers nothing about this producer. "
                "It has expired, or its records were deleted: begin at 0 with a new producer id."
            )
    elif batch.producer_epoch != entry.epoch:
        if first_seq != 0:
            raise OutOfOrderSequenceError(
                f"{_who(batch)}: sequence {first_seq}, expected 0, because the last epoch seen is {entry.epoch}. "
                "Begin a new epoch with sequence 0."
            )
    elif not is_next(entry.last_seq, first_seq):
        raise OutOfOrderSequenceError(
            f"{_who(batch)}: sequence {first_seq}, expected {increment_sequence(entry.last_seq, 1)}. "
            "Send the batches before it first."
        )


def check_producer_epoch(entry: ProducerStateEntry, batch: Batch) -> None:
    """Raise InvalidProducerEpochError when the batch's epoch is below the newest one seen.

    Source: Apache Kafka 4.3.1, `ProducerAppendInfo.checkProducerEpoch`.
    Differs: nothing. (Release 2.0 throws a ProducerFencedException, with the same code 47 on the wire.)
    """
    if batch.producer_epoch < entry.epoch:
        raise InvalidProducerEpochError(
            f"{_who(batch)}: the last epoch seen is {entry.epoch}. Another producer has taken over this id: stop, "
            "or ask for a new epoch."
        )


def check_transaction(
    entry: ProducerStateEntry,
    batch: Batch,
    waiting: VerificationStateEntry | None,
    guard: VerificationGuard | None,
    verification: bool,
) -> None:
    """The checks of a transactional batch that come before its epoch and sequence.

    With `verification` on, a batch that begins a transaction must bring the guard that was given out for it.
    Raises InvalidProducerEpochError for an old epoch, InvalidTxnStateError without the guard.

    Source: Apache Kafka 4.3.1, `UnifiedLog.analyzeAndValidateProducerState`.
    Differs: nothing.
    """
    if entry.txn_first_offset is not None and entry.epoch == batch.producer_epoch:
        return
    check_producer_epoch(entry, batch)
    if verification and (waiting is None or guard is not waiting.guard):
        raise InvalidTxnStateError(
            f"{_who(batch)}: it belongs to no transaction that the coordinator has confirmed for this partition. "
            "Verify the transaction first, and send its batch with the guard of that."
        )


def check_open_transaction(entry: ProducerStateEntry, batch: Batch) -> None:
    """Raise InvalidTxnStateError for a batch outside transactions while its producer has one open here.

    Source: Apache Kafka 4.3.1, `ProducerAppendInfo.appendDataBatch`.
    Differs: nothing.
    """
    if entry.txn_first_offset is not None and not batch.is_transactional:
        raise InvalidTxnStateError(
            f"{_who(batch)}: it is in no transaction, but the producer has one open since offset "
            f"{entry.txn_first_offset}. End that one first."
        )


def check_marker(entry: ProducerStateEntry, marker: EndTransactionMarker) -> None:
    """Raise InvalidProducerEpochError or TransactionCoordinatorFencedError unless the marker may be written.

    Version 1: its epoch is at least the newest seen. Version 2: it is above that, but the same marker may
    come again once the transaction has ended (and at epoch 32767, above which there is none).

    Source: Apache Kafka 4.3.1, `ProducerAppendInfo.checkProducerEpoch` and `checkCoordinatorEpoch`.
    Differs: nothing.
    """
    epoch = marker.producer_epoch
    repeated = epoch == entry.epoch and (entry.txn_first_offset is None or epoch == MAX_EPOCH)
    if epoch < entry.epoch or (marker.transaction_version >= 2 and epoch == entry.epoch and not repeated):
        raise InvalidProducerEpochError(
            f"marker for producer {marker.producer_id}: epoch {epoch}, the last epoch seen is {entry.epoch}. "
            "Ask the coordinator for the producer's state."
        )
    if marker.coordinator_epoch < entry.coordinator_epoch:
        raise TransactionCoordinatorFencedError(
            f"marker for producer {marker.producer_id}: coordinator epoch {marker.coordinator_epoch}, expected at least "
            f"{entry.coordinator_epoch}. Another broker coordinates this transaction now."
        )


def _who(batch: Batch) -> str:
    return f"producer {batch.producer_id} epoch {batch.producer_epoch} on partition {batch.partition}"
