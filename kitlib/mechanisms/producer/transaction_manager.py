"""Which numbers a batch carries: the idempotent producer's memory of ids, epochs and sequences.

Each partition counts its records from 0 under the producer's id and epoch. A batch gets its numbers
when it is first drained and keeps them through every retry, so the broker can recognise it. When
a hole is certain (a sequence that will never arrive), the client raises its own epoch and begins that
partition again at 0: the waiting batches are renumbered in place.

The state says how far the producer has come with its id. A producer without transactions goes

    UNINITIALIZED ──► INITIALIZING ──► READY ──the epoch is used up (2.0: in doubt)──► UNINITIALIZED
                           └──no permission──► ABORTABLE_ERROR ──batches failed──► UNINITIALIZED

and from anywhere to FATAL_ERROR. `PREVIOUS` is Kafka's own table, shared with the transactional producer
(`kitlib.mechanisms.transactions.producer`); any other step raises IllegalStateError and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum

from kitlib.errors import KitError
from kitlib.java.numbers import to_int
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.exceptions import KAFKA, exception_name
from kitlib.mechanisms.protocol import (
    INVALID_OFFSET,
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    ErrorCode,
    InitProducerIdAnswer,
    PartitionAnswer,
    increment_sequence,
)

NO_LAST_ACKED_SEQUENCE = -1

# Answers after which Java's client sends nothing more until it is closed.
FATAL = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)

# Responses that mean that records before this batch are missing, perhaps with it; also after the last retry.
GAPS = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class IllegalStateError(KitError):
    """The source's own guard against a state that must not be; the run of the loop that meets it ends there."""


class ProducerState(Enum):
    """Where a client with idempotence stands; one without transactions has no use for those in the middle."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


_S = ProducerState
# The states from which each may be entered; FATAL_ERROR from all. Source: `TransactionManager.State.isTransitionValid`.
PREVIOUS: dict[ProducerState, frozenset[ProducerState]] = {
    _S.UNINITIALIZED: frozenset({_S.READY, _S.ABORTABLE_ERROR}),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.COMMITTING, _S.ABORTING}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTABLE_ERROR, _S.INITIALIZING}),
    _S.FATAL_ERROR: frozenset(_S),
}

# After these answers to a request for an id the client fails what waits and asks again. Other errors that are not
# retriable are fatal.
NO_PERMISSION = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})


@dataclass(slots=True)
class TxnPartitionEntry:
    """One partition's numbers.

    Source: Apache Kafka 4.3.1, `TxnPartitionEntry`.
    Differs: nothing.
    """

    producer_id: int = NO_PRODUCER_ID  # the id and epoch its sequences count under; behind the producer's
    producer_epoch: int = NO_PRODUCER_EPOCH  # after a bump, until nothing of this partition is in flight
    next_sequence: int = 0  # of the first record of the next batch that is numbered
    last_acked_sequence: int = NO_LAST_ACKED_SEQUENCE  # highest of a success; a later bump forgets it
    last_acked_offset: int = INVALID_OFFSET  # highest of a success; a bump keeps it
    in_flight: list[ProducerBatch] = field(default_factory=list)  # numbered and not ended, ordered by `key`,
    # each key once: also those that wait for a retry

    def add_in_flight(self, batch: ProducerBatch) -> None:
        """Track it; a batch with the same numbers that is tracked already stays instead."""
        at, found = self._find(batch)
        if not found:
            self.in_flight.insert(at, batch)

    def remove_in_flight(self, batch: ProducerBatch) -> None:
        """Stop tracking the batch with its numbers."""
        at, found = self._find(batch)
        if found:
            del self.in_flight[at]

    def start_sequences_at_beginning(self, producer_id: int, producer_epoch: int) -> None:
        """Begin at 0 under this id and epoch; what is tracked is numbered anew, in its order."""
        sequence = 0
        tracked, self.in_flight = self.in_flight, []
        for batch in tracked:
            batch.renumber(producer_id, producer_epoch, sequence)
            sequence += batch.count
            self.add_in_flight(batch)
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = sequence
        self.last_acked_sequence = NO_LAST_ACKED_SEQUENCE

    def _find(self, batch: ProducerBatch) -> tuple[int, bool]:
        keys = [tracked.key for tracked in self.in_flight]
        at = bisect_left(keys, batch.key)
        return at, at < len(keys) and keys[at] == batch.key


@dataclass(slots=True)
class TransactionManager:
    """The producer's id and epoch, each partition's numbers, and what an answer means for them.

    Source: Apache Kafka 4.3.1, `TransactionManager`, `TxnPartitionMap`, as far as a producer without
    transactions uses them.
    Differs: a request for an id is an effect (`id_request_due`), sent by the caller. Where Java's loop would
    throw in every run from then on (an epoch is raised over a batch that was aborted because an id was
    refused), the batch is numbered like the others.
    """

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    entries: dict[int, TxnPartitionEntry] = field(default_factory=dict)
    unresolved: dict[int, int] = field(default_factory=dict)  # partition -> the sequence after the last
    # batch that expired after an attempt: it is unknown whether that batch was written
    to_rewrite: dict[int, None] = field(default_factory=dict)  # partitions that begin at 0 with the next bump
    epoch_bump_required: bool = False
    state: ProducerState = ProducerState.UNINITIALIZED  # only `transition_to` changes it
    last_error: str | None = None  # the exception that the state came from
    id_request_in_flight: bool = False  # in INITIALIZING, or a batch was fatal while the request was out

    def entry(self, partition: int) -> TxnPartitionEntry:
        """The partition's numbers; those of a partition that was never used are made."""
        found = self.entries.get(partition)
        if found is None:
            found = self.entries[partition] = TxnPartitionEntry()
        return found

    @property
    def has_producer_id(self) -> bool:
        """Whether batches can be numbered."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def has_fatal_error(self) -> bool:
        """Whether nothing will ever be sent again."""
        return self.state is ProducerState.FATAL_ERROR

    @property
    def id_request_due(self) -> bool:
        """Whether an id is wanted and no request for one is out."""
        return self.state is ProducerState.INITIALIZING and not self.id_request_in_flight

    def transition_to(self, target: ProducerState, error: str | None = None) -> None:
        """Enter a state, because of this exception if it is one of the two errors.

        Raises IllegalStateError when PREVIOUS does not allow it; the state is then as before.
        """
        if self.state not in PREVIOUS[target]:
            possible = ", ".join(state.value for state in ProducerState if state in PREVIOUS[target])
            raise IllegalStateError(
                f"producer {self.producer_id} epoch {self.producer_epoch}: '{target.value}' cannot follow "
                f"'{self.state.value}', only {possible}. Ask `state` before the call."
            )
        self.state, self.last_error = target, error

    # Before a run of the loop

    def maybe_resolve_sequences(self) -> None:
        """Resolve partitions in which a retried batch expired, once none of their other batches is tracked.

        If the records after it were acknowledged, it must have been written: the partition goes on.
        Otherwise the epoch is raised, so that whatever arrives late is refused.
        """
        for partition in list(self.unresolved):
            entry = self.entry(partition)
            if entry.in_flight:
                continue
            if not self._is_next(partition, entry.next_sequence):
                self.request_epoch_bump(partition)
            del self.unresolved[partition]

    def maybe_bump(self) -> None:
        """Raise the epoch if requested, and request an id if there is none."""
        if self.epoch_bump_required:
            self._bump()
        if self.state is not ProducerState.INITIALIZING and not self.has_producer_id:
            self.transition_to(ProducerState.INITIALIZING)

    def _bump(self) -> None:
        if self.producer_epoch == MAX_EPOCH:
            self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            self.transition_to(ProducerState.UNINITIALIZED)
        else:
            self.producer_epoch += 1
        for partition in self.to_rewrite:
            self.entry(partition).start_sequences_at_beginning(self.producer_id, self.producer_epoch)
            self.unresolved.pop(partition, None)
        self.to_rewrite.clear()
        self.epoch_bump_required = False

    def request_epoch_bump(self, partition: int) -> None:
        """Raise the epoch before the next run, and begin this partition at 0."""
        self.epoch_bump_required = True
        self.to_rewrite[partition] = None

    def receive_id(self, answer: InitProducerIdAnswer) -> None:
        """The answer to a request for an id. After a retriable error the id is still wanted, see `id_request_due`."""
        self.id_request_in_flight = False
        error = answer.error
        if error is ErrorCode.NONE:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        if self.has_fatal_error:
            return  # a batch failed fatally while the request was in flight: that stands
        if error is ErrorCode.NONE:
            self.transition_to(ProducerState.READY)
        elif error in NO_PERMISSION:
            self.transition_to(ProducerState.ABORTABLE_ERROR, exception_name(error))
        elif not error.is_retriable:
            fenced = error is ErrorCode.INVALID_PRODUCER_EPOCH
            self.transition_to(ProducerState.FATAL_ERROR, "ProducerFencedException" if fenced else KAFKA)

    def id_request_lost(self) -> None:
        """The connection broke while a request for an id was out: ask again."""
        self.id_request_in_flight = False

    # While draining

    def may_drain(self, first: ProducerBatch) -> bool:
        """Whether the first batch in its partition's queue may leave now."""
        if not self.has_producer_id:
            return False
        entry = self.entry(first.partition)
        if not first.has_sequence:
            if entry.in_flight and self._is_stale(entry):
                return False  # sequence 0 of a new epoch must not overtake batches of the old one
            if first.partition in self.unresolved:
                return False
        return self.is_its_turn(first)

    def is_its_turn(self, first: ProducerBatch) -> bool:
        """A retry leaves only when it is the oldest one: one request at a time until all of them are through."""
        oldest = self.first_in_flight_sequence(first.partition)
        return not first.has_sequence or oldest in (NO_SEQUENCE, first.base_sequence)

    def first_in_flight_sequence(self, partition: int) -> int:
        """The lowest sequence that is numbered and not ended, or NO_SEQUENCE."""
        tracked = self.entry(partition).in_flight
        return tracked[0].base_sequence if tracked else NO_SEQUENCE

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch that leaves for the first time its numbers, and track it."""
        entry = self.entry(batch.partition)
        if not self.has_fatal_error and self._is_stale(entry) and not entry.in_flight:
            entry.start_sequences_at_beginning(self.producer_id, self.producer_epoch)
        batch.number_from(self.producer_id, self.producer_epoch, entry.next_sequence)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.count)
        entry.add_in_flight(batch)

    def has_in_flight(self, partition: int) -> bool:
        """Whether a batch of this partition is numbered and not ended."""
        return bool(self.entry(partition).in_flight)

    def add_in_flight(self, batch: ProducerBatch) -> None:
        """Track a part of a split batch, which has its numbers already."""
        self.entry(batch.partition).add_in_flight(batch)

    def remove_in_flight(self, batch: ProducerBatch) -> None:
        """Track it no longer."""
        self.entry(batch.partition).remove_in_flight(batch)

    # When an answer is in

    def can_retry(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        """Whether the batch is sent again after this error; a hole that is certain asks for a bump as well."""
        partition = batch.partition
        if answer.error is ErrorCode.UNKNOWN_PRODUCER_ID:
            # Without the log's start the answer says nothing, and after a rewrite it was meant for the
            # old numbers: a plain retry. Otherwise the broker has forgotten this producer.
            if answer.log_start_offset != INVALID_OFFSET and not batch.reopened:
                self.request_epoch_bump(partition)
            return True
        if answer.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            unresolved = self.unresolved.get(partition)
            if unresolved is None:
                # Out of order because an earlier batch is still to come: just wait for it.
                if not batch.reopened and self._is_next(partition, batch.base_sequence):
                    self.request_epoch_bump(partition)
            elif batch.base_sequence == unresolved:
                self.request_epoch_bump(partition)
            return True
        return answer.error.is_retriable

    def may_reenqueue(self, batch: ProducerBatch) -> bool:
        """Whether a batch that can be retried may wait in the queue with the numbers that it has."""
        return True

    def handle_completed_batch(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        """A success, perhaps of a batch that had already failed for the user.

        The sequence counts as acknowledged whatever epoch it was sent under.
        """
        entry = self.entries.get(batch.partition)
        if entry is not None:
            entry.last_acked_sequence = max(entry.last_acked_sequence, batch.last_sequence)
        if answer.base_offset != INVALID_OFFSET:
            entry = self.entry(batch.partition)
            entry.last_acked_offset = max(entry.last_acked_offset, answer.base_offset + batch.count - 1)
        self.remove_in_flight(batch)

    def handle_failed_batch(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        """A failure that the user has just been told.

        `error` None: it expired. `adjust`: the broker certainly did not write it, so its numbers
        would leave a hole.
        """
        if error is not None and error in FATAL:
            self.transition_to(ProducerState.FATAL_ERROR, exception_name(error))
        self.remove_in_flight(batch)
        if self.has_fatal_error:
            return
        if adjust or (error is not None and error in GAPS):
            self.request_epoch_bump(batch.partition)

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """A batch that had been sent before expired: no new numbers here until it is known what became of it."""
        following = to_int(batch.last_sequence + 1)
        self.unresolved[batch.partition] = max(self.unresolved.get(batch.partition, following), following)

    def _is_next(self, partition: int, sequence: int) -> bool:
        return sequence - self.entry(partition).last_acked_sequence == 1

    def _is_stale(self, entry: TxnPartitionEntry) -> bool:
        return entry.producer_id != self.producer_id or entry.producer_epoch != self.producer_epoch
