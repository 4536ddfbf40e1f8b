"""The client of Kafka 2.0.0: when it cannot be sure, it asks for a new producer id and forgets everything.

From 0.11 to 2.4 there was no raising of the epoch by the client. A gap, or a batch that expired with an
attempt behind it, gave up the producer id: sequences began at 0 everywhere under a new one, which no
broker can compare with the old, and batches of the old id that were to be retried failed. There was no
delivery timeout either: batches expired in the queue only, after request.timeout.ms.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.mechanisms.producer.accumulator import RecordAccumulator
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.exceptions import exception_name
from kitlib.mechanisms.producer.transaction_manager import (
    FATAL,
    GAPS,
    NO_LAST_ACKED_SEQUENCE,
    IllegalStateError,
    ProducerState,
    TransactionManager,
    TxnPartitionEntry,
)
from kitlib.mechanisms.protocol import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ErrorCode,
    InitProducerIdAnswer,
    PartitionAnswer,
)

LATER = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}  # not known there, or not fatal
FATAL_IN_2_0 = FATAL - LATER | {ErrorCode.INVALID_PRODUCER_EPOCH}  # a ProducerFencedException there


@dataclass(slots=True)
class EarlierPartitionEntry(TxnPartitionEntry):
    """One partition's numbers in 2.0: the same, with the tracked batches in a heap.

    Source: Apache Kafka 2.0.0, `TransactionManager.inflightBatchesBySequence`, a `java.util.PriorityQueue`.
    Differs: nothing. Whoever walks through such a queue does not meet the batches in the order of
    their sequences, only the first one is the lowest; `start_at_zero` shows what that does.
    """

    def add_in_flight(self, batch: ProducerBatch) -> None:
        self.in_flight.append(batch)
        self._sift_up(len(self.in_flight) - 1)

    def remove_in_flight(self, batch: ProducerBatch) -> None:
        if batch not in self.in_flight:
            return
        at = self.in_flight.index(batch)
        moved = self.in_flight.pop()
        if at < len(self.in_flight):
            self.in_flight[at] = moved
            self._sift_down(at)
            if self.in_flight[at] is moved:
                self._sift_up(at)

    def start_at_zero(self) -> None:
        """Number what is tracked from 0, in the heap's order: two batches may change places."""
        sequence = 0
        for batch in self.in_flight:
            batch.renumber(batch.producer_id, batch.producer_epoch, sequence)
            sequence += batch.count
        self.next_sequence = sequence
        self.last_acked_sequence = NO_LAST_ACKED_SEQUENCE

    def close_gap(self, failed: ProducerBatch) -> None:
        """Lower the sequences behind a batch that was certainly not written."""
        if self.next_sequence < failed.count:
            raise IllegalStateError("a sequence would become negative")
        self.next_sequence -= failed.count
        for batch in self.in_flight:
            if batch.base_sequence >= failed.base_sequence:
                if batch.base_sequence < failed.count:
                    raise IllegalStateError("a sequence would become negative")
                batch.renumber(batch.producer_id, batch.producer_epoch, batch.base_sequence - failed.count)

    def _sift_up(self, at: int) -> None:
        heap = self.in_flight
        while at > 0 and heap[at].base_sequence < heap[(at - 1) // 2].base_sequence:
            heap[at], heap[(at - 1) // 2] = heap[(at - 1) // 2], heap[at]
            at = (at - 1) // 2

    def _sift_down(self, at: int) -> None:
        heap = self.in_flight
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and heap[child].base_sequence > heap[child + 1].base_sequence:
                child += 1
            if heap[at].base_sequence <= heap[child].base_sequence:
                break
            heap[at], heap[child] = heap[child], heap[at]
            at = child


@dataclass(slots=True)
class EarlierTransactionManager(TransactionManager):
    """Ids and sequences by the rules of 2.0: one id and epoch for all partitions, given up in doubt.

    Source: Apache Kafka 2.0.0, `TransactionManager`, `Sender.run`, `Sender.failBatch`.
    Differs: nothing that a producer without transactions shows.
    """

    def entry(self, partition: int) -> TxnPartitionEntry:
        return self._entry(partition)

    def _entry(self, partition: int) -> EarlierPartitionEntry:
        found = self.entries.get(partition)
        if not isinstance(found, EarlierPartitionEntry):
            found = self.entries[partition] = EarlierPartitionEntry()
        return found

    def reset_producer_id(self) -> None:
        """Give the id up, and every partition's numbers with it."""
        self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self.entries.clear()
        self.unresolved.clear()
        if self.state is ProducerState.READY:
            self.transition_to(ProducerState.UNINITIALIZED)

    def maybe_resolve_sequences(self) -> None:
        """Settle partitions of which a retried batch expired; in doubt the producer id is given up."""
        for partition in list(self.unresolved):
            entry = self.entry(partition)
            if entry.in_flight:
                continue
            if not self._is_next(partition, entry.next_sequence):
                self.reset_producer_id()
                return
            del self.unresolved[partition]

    def receive_id(self, answer: InitProducerIdAnswer) -> None:
        """The answer to a request for an id; an error that is not retriable is the end."""
        if answer.error is ErrorCode.NONE or answer.error.is_retriable:
            TransactionManager.receive_id(self, answer)
        else:
            self.id_request_in_flight = False
            self.transition_to(ProducerState.FATAL_ERROR, exception_name(answer.error, "2.0"))

    def may_drain(self, first: ProducerBatch) -> bool:
        """Whether the first batch in its partition's queue may leave now."""
        if not self.has_producer_id or (not first.has_sequence and first.partition in self.unresolved):
            return False
        return self.is_its_turn(first)

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch that leaves for the first time its numbers, and track it. Nothing wraps in 2.0."""
        entry = self.entry(batch.partition)
        batch.number_from(self.producer_id, self.producer_epoch, entry.next_sequence)
        entry.next_sequence += batch.count
        entry.add_in_flight(batch)

    def can_retry(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        """Whether the batch is sent again after this error."""
        if answer.error.is_retriable:
            return True
        if batch.producer_id != self.producer_id:
            return False
        partition = batch.partition
        if answer.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            waits_for_another = batch.reopened or not self._is_next(partition, batch.base_sequence)
            return partition not in self.unresolved and waits_for_another
        if answer.error is ErrorCode.UNKNOWN_PRODUCER_ID:
            if answer.log_start_offset == INVALID_OFFSET or batch.reopened:
                return True
            if self.entry(partition).last_acked_offset < answer.log_start_offset:
                self._entry(partition).start_at_zero()  # retention took the records and the memory of them
                return True
        return False

    def may_reenqueue(self, batch: ProducerBatch) -> bool:
        """Only batches of the present id may be retried."""
        return (batch.producer_id, batch.producer_epoch) == (self.producer_id, self.producer_epoch)

    def handle_completed_batch(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        """A success; under an id that was given up it moves the last acknowledged offset only."""
        entry = self.entry(batch.partition)
        if self.may_reenqueue(batch):
            entry.last_acked_sequence = max(entry.last_acked_sequence, batch.base_sequence + batch.count - 1)
        if answer.base_offset != INVALID_OFFSET:
            entry.last_acked_offset = max(entry.last_acked_offset, answer.base_offset + batch.count - 1)
        entry.remove_in_flight(batch)

    def handle_failed_batch(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        """A failure: out of order gives the id up, a certain refusal closes the gap in the sequences."""
        if error is not None and error in GAPS and batch.producer_id == self.producer_id:
            self.reset_producer_id()
        elif error is not None and error in FATAL_IN_2_0:
            self.transition_to(ProducerState.FATAL_ERROR, exception_name(error, "2.0"))
        if batch.partition in self.entries:
            self.entry(batch.partition).remove_in_flight(batch)
            if adjust:
                self._entry(batch.partition).close_gap(batch)


@dataclass(slots=True)
class EarlierAccumulator(RecordAccumulator):
    """The queues of 2.0: they expire by the request timeout, and a drain ends where it began.

    Source: Apache Kafka 2.0.0, `RecordAccumulator`, `ProducerBatch.maybeExpire`.
    Differs: as the current one.
    """

    def drain(self, now_ms: int) -> list[ProducerBatch]:
        """Take at most one batch from each queue; a whole round leaves the next drain's beginning where it is."""
        start = self.drain_index
        drained = RecordAccumulator.drain(self, now_ms)
        if not self.stopped_early:
            self.drain_index = start
        return drained

    def expired_batches(self, now_ms: int) -> list[ProducerBatch]:
        """Take what has waited for longer than the request timeout; a muted partition's batches wait on."""
        expired = []
        for partition in sorted(self.queues):
            queue = self.queues[partition]
            while queue and partition not in self.muted and now_ms > self.expires_after_ms(queue[0], len(queue)):
                expired.append(queue.popleft())
        return expired

    def expires_after_ms(self, batch: ProducerBatch, queued: int) -> int:
        """The last ms at which the first of `queued` batches has not yet expired."""
        if batch.in_retry:
            since = batch.last_attempt_ms + self.config.retry_backoff_ms
        elif queued > 1 or batch.is_full:
            since = min(batch.last_append_ms, batch.created_ms + self.config.linger_ms)
        else:
            since = batch.created_ms + self.config.linger_ms
        return since + self.config.request_timeout_ms

    def next_expiry_ms(self) -> int | None:
        """When the first of the waiting batches expires."""
        firsts = [self.expires_after_ms(queue[0], len(queue)) for queue in self.queues.values() if queue]
        return min(firsts) + 1 if firsts else None

    def backoff_ms(self, batch: ProducerBatch) -> int:
        """How long a retry waits: always the same."""
        return self.config.retry_backoff_ms

    def split_target_bytes(self, big: ProducerBatch) -> int:
        """Parts are as large as a batch may be, also when a part is refused again: that one never ends."""
        return self.config.batch_size
