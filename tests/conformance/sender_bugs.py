"""Bugs planted by hand in the client, each a rule that somebody might have understood otherwise."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from kitlib.conformance.sender import Build
from kitlib.kafka.producer.accumulator import RecordAccumulator
from kitlib.kafka.producer.batch import ProducerBatch
from kitlib.kafka.producer.config import ProducerConfig
from kitlib.kafka.producer.sender import LoopState, Sender
from kitlib.kafka.producer.transaction_manager import ProducerState, TransactionManager, TxnPartitionEntry
from kitlib.kafka.protocol import INVALID_OFFSET, ErrorCode, PartitionAnswer


def sender_with(
    manager: type[TransactionManager] = TransactionManager,
    accumulator: type[RecordAccumulator] = RecordAccumulator,
    sender: type[Sender] = Sender,
) -> Build:
    """A client with these parts."""

    def build(config: ProducerConfig, partitions: Sequence[int]) -> Sender:
        return sender(config, partitions, manager_type=manager, accumulator_type=accumulator)

    return build


class RetriesComeBackAtTheFront(RecordAccumulator):
    """As without idempotence."""

    def _insert(self, batch: ProducerBatch) -> None:
        self.queues[batch.partition].appendleft(batch)


class RetriesComeBackAtTheEnd(RecordAccumulator):
    """Behind what was never sent."""

    def _insert(self, batch: ProducerBatch) -> None:
        self.queues[batch.partition].append(batch)


class BlockedPartitionIsPassedOver(RecordAccumulator):
    """A drain goes on behind a partition that may not send."""

    def drain(self, now_ms: int) -> list[ProducerBatch]:
        drained: list[ProducerBatch] = []
        waiting, start = dict(self.queues), self.drain_index
        for _ in self.partitions:
            drained += RecordAccumulator.drain(self, now_ms)
            if not self.stopped_early:
                break
            self.queues[self.partitions[self.drain_index]] = deque()
        self.queues, self.drain_index = waiting, (start - 1) % len(self.partitions)
        return drained


class DrainBeginsAtTheFirstPartition(RecordAccumulator):
    """No partition takes turns."""

    def drain(self, now_ms: int) -> list[ProducerBatch]:
        self.drain_index = 0
        return RecordAccumulator.drain(self, now_ms)


class RetriesExpireLater(RecordAccumulator):
    """The delivery timeout counts from the last attempt."""

    def expired_batches(self, now_ms: int) -> list[ProducerBatch]:
        late = [queue[0] for queue in self.queues.values() if queue and queue[0].waited_ms(now_ms) < 120_000]
        expired = RecordAccumulator.expired_batches(self, now_ms)
        for batch in set(late) & set(expired):
            expired.remove(batch)
            self.queues[batch.partition].appendleft(batch)
        return expired


class SplitAimsAtBatchSizeAgain(RecordAccumulator):
    """A part that is refused again is not halved."""

    def split_target_bytes(self, big: ProducerBatch) -> int:
        return self.config.batch_size


class PartsOfASplitAreNotTracked(RecordAccumulator):
    """Only the first part is known to be under way."""

    def split_and_reenqueue(self, big: ProducerBatch) -> list[ProducerBatch]:
        parts = RecordAccumulator.split_and_reenqueue(self, big)
        for part in parts[1:]:
            assert self.transaction_manager is not None
            self.transaction_manager.remove_in_flight(part)
        return parts


class RetriesArePipelined(TransactionManager):
    """A retry does not wait for the ones before it."""

    def may_drain(self, first: ProducerBatch) -> bool:
        return self.has_producer_id if first.has_sequence else TransactionManager.may_drain(self, first)


class NewEpochDoesNotWait(TransactionManager):
    """New batches leave while those of the old epoch are out."""

    def may_drain(self, first: ProducerBatch) -> bool:
        entry = self.entry(first.partition)
        if entry.in_flight and self._is_stale(entry) and not first.has_sequence and first.partition not in self.unresolved:
            return self.has_producer_id
        return TransactionManager.may_drain(self, first)


class DoubtDoesNotHoldBack(TransactionManager):
    """New batches leave while a sequence is unresolved."""

    def may_drain(self, first: ProducerBatch) -> bool:
        known, self.unresolved = self.unresolved, {}
        may = TransactionManager.may_drain(self, first)
        self.unresolved = known
        return may


class DoubtIsNeverResolved(TransactionManager):
    """An expired batch leaves its partition in doubt for ever."""

    def maybe_resolve_sequences(self) -> None:
        pass


class DoubtAlwaysBumps(TransactionManager):
    """Successors that were acknowledged do not help."""

    def maybe_resolve_sequences(self) -> None:
        for partition in [each for each in self.unresolved if not self.has_in_flight(each)]:
            self.request_epoch_bump(partition)
            del self.unresolved[partition]


class DoubtKeepsTheLatestBatch(TransactionManager):
    """Of two batches in doubt the one that expired last counts."""

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        self.unresolved[batch.partition] = batch.last_sequence


class BumpRewritesEveryPartition(TransactionManager):
    """All partitions begin at 0."""

    def request_epoch_bump(self, partition: int) -> None:
        TransactionManager.request_epoch_bump(self, partition)
        self.to_rewrite |= dict.fromkeys(self.entries)


class BumpRewritesNothing(TransactionManager):
    """What is in flight keeps its numbers."""

    def request_epoch_bump(self, partition: int) -> None:
        self.epoch_bump_required = True


class BumpForgetsTheOffset(TransactionManager):
    """The last acknowledged offset goes with the sequence."""

    def _bump(self) -> None:
        for partition in self.to_rewrite:
            self.entry(partition).last_acked_offset = INVALID_OFFSET
        TransactionManager._bump(self)


class EpochGoesBeyondItsLimit(TransactionManager):
    """Epoch 32768 follows 32767."""

    def _bump(self) -> None:
        at_limit = self.producer_epoch == 32_767
        self.producer_epoch -= at_limit
        TransactionManager._bump(self)
        for partition in self.entries if at_limit else ():
            self.entries[partition].producer_epoch = 32_768
        self.producer_epoch += at_limit


class BumpTakesANewId(TransactionManager):
    """As in 2.0."""

    def _bump(self) -> None:
        self.producer_epoch = 32_767
        TransactionManager._bump(self)


class GapIsOnlyRetried(TransactionManager):
    """OUT_OF_ORDER never raises the epoch."""

    def can_retry(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        known = answer.error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
        return known or TransactionManager.can_retry(self, batch, answer)


class EveryGapBumps(TransactionManager):
    """OUT_OF_ORDER raises the epoch although the batch before is still to come."""

    def can_retry(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        if answer.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.request_epoch_bump(batch.partition)
        return TransactionManager.can_retry(self, batch, answer)


class RewrittenBatchBumpsAgain(TransactionManager):
    """An answer to the old numbers is taken for one to the new."""

    def can_retry(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        batch.reopened = False
        return TransactionManager.can_retry(self, batch, answer)


class UnknownProducerWithoutLogStartBumps(TransactionManager):
    """An answer without the log's start is believed."""

    def can_retry(self, batch: ProducerBatch, answer: PartitionAnswer) -> bool:
        known = PartitionAnswer(answer.error, answer.base_offset, max(answer.log_start_offset, 0))
        return TransactionManager.can_retry(self, batch, known)


class LatestAckCounts(TransactionManager):
    """The last acknowledged sequence falls when an earlier batch is acknowledged later."""

    def handle_completed_batch(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        TransactionManager.handle_completed_batch(self, batch, answer)
        self.entry(batch.partition).last_acked_sequence = batch.last_sequence


class StaleSuccessIsIgnored(TransactionManager):
    """A success under an older epoch moves nothing, as in 2.0."""

    def handle_completed_batch(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        before = self.entry(batch.partition).last_acked_sequence
        TransactionManager.handle_completed_batch(self, batch, answer)
        if batch.reopened:
            self.entry(batch.partition).last_acked_sequence = before


class FailureLeavesAHole(TransactionManager):
    """A batch that was certainly not written keeps its numbers."""

    def handle_failed_batch(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        TransactionManager.handle_failed_batch(self, batch, error, False)


class EveryFailureBumps(TransactionManager):
    """Also one that may have been written."""

    def handle_failed_batch(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        TransactionManager.handle_failed_batch(self, batch, error, True)


class FailureStaysTracked(TransactionManager):
    """A failed batch holds up those behind it."""

    def handle_failed_batch(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        TransactionManager.handle_failed_batch(self, batch, error, adjust)
        self.entry(batch.partition).add_in_flight(batch)


class FormerEpochIsFatal(TransactionManager):
    """INVALID_PRODUCER_EPOCH ends the producer, as in 2.0."""

    def handle_failed_batch(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        TransactionManager.handle_failed_batch(self, batch, error, adjust)
        if error is ErrorCode.INVALID_PRODUCER_EPOCH:
            self.transition_to(ProducerState.FATAL_ERROR, "ProducerFencedException")


class NumbersComeInsteadOfBeingKept(TransactionManager):
    """A retry is numbered anew."""

    def may_reenqueue(self, batch: ProducerBatch) -> bool:
        entry: TxnPartitionEntry = self.entry(batch.partition)
        entry.remove_in_flight(batch)
        batch.number_from(self.producer_id, self.producer_epoch, entry.next_sequence)
        entry.next_sequence += batch.count
        entry.add_in_flight(batch)
        return True


class ExpiresBeforeTheDrain(Sender):
    """What is too old is not sent."""

    def _send_producer_data(self, now_ms: int) -> Any:
        self._expire(now_ms)
        return Sender._send_producer_data(self, now_ms)


class InFlightNeverExpires(Sender):
    """As in 2.0."""

    def _expired_in_flight(self, now_ms: int) -> list[ProducerBatch]:
        return []


class EveryExpiryIsInDoubt(Sender):
    """Also a batch that expired on its first attempt."""

    def _expired_in_flight(self, now_ms: int) -> list[ProducerBatch]:
        expired = Sender._expired_in_flight(self, now_ms)
        for batch in expired:
            batch.in_retry = True
        return expired


class SendsWhileDisconnected(Sender):
    """Requests leave before what was lost is known."""

    def disconnect(self) -> None:
        Sender.disconnect(self)
        self.state = LoopState.AWAKE


class OneMoreInFlight(Sender):
    """The limit is one too high."""

    @property
    def _can_send(self) -> bool:
        room = len(self.in_flight_requests) <= self.config.max_in_flight_requests_per_connection
        return room and self.state is not LoopState.DISCONNECTED


class OneInFlightIsNotMuted(Sender):
    """With one request in flight its partition may still be drained."""

    def _send_producer_data(self, now_ms: int) -> Any:
        self.accumulator.muted.clear()
        requests = Sender._send_producer_data(self, now_ms)
        self.accumulator.muted.clear()
        return requests


class TimeOutLosesOneRequest(Sender):
    """The connection survives an answer that is overdue."""

    def _lose_requests(self) -> None:
        oldest = next(iter(self.in_flight_requests), None)
        if self.state is LoopState.DISCONNECTED or oldest is None:
            Sender._lose_requests(self)
        else:
            self.answers.append((self.in_flight_requests.pop(oldest), None))


class DuplicateIsAFailure(Sender):
    """Error 46 is told to the user."""

    def _succeed(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        if answer.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._fail(batch, answer.error, False)
        else:
            Sender._succeed(self, batch, answer)


class RetriesHaveNoEnd(Sender):
    """The number of retries is not looked at."""

    def _can_retry(self, batch: ProducerBatch, answer: PartitionAnswer, now_ms: int) -> bool:
        attempts, batch.attempts = batch.attempts, 0
        can = Sender._can_retry(self, batch, answer, now_ms)
        batch.attempts = attempts
        return can


class LateErrorIsRetried(Sender):
    """A batch whose end the user knows is put back into the queue."""

    def _can_retry(self, batch: ProducerBatch, answer: PartitionAnswer, now_ms: int) -> bool:
        created, batch.created_ms, state, batch.final_state = batch.created_ms, now_ms, batch.final_state, None
        can = Sender._can_retry(self, batch, answer, now_ms)
        batch.created_ms, batch.final_state = created, state
        if state is not None and can and self.transaction_manager:
            self.transaction_manager.add_in_flight(batch)
        return can


class Forgetful(Sender):
    """A client that breaks."""

    def disconnect(self) -> None:
        raise ZeroDivisionError("division by zero")


BUGS: list[type] = [
    RetriesComeBackAtTheFront, RetriesComeBackAtTheEnd, BlockedPartitionIsPassedOver, DrainBeginsAtTheFirstPartition,
    RetriesExpireLater, SplitAimsAtBatchSizeAgain, PartsOfASplitAreNotTracked, RetriesArePipelined, NewEpochDoesNotWait,
    DoubtDoesNotHoldBack, DoubtIsNeverResolved, DoubtAlwaysBumps, DoubtKeepsTheLatestBatch, BumpRewritesEveryPartition,
    BumpRewritesNothing, BumpForgetsTheOffset, EpochGoesBeyondItsLimit, BumpTakesANewId, GapIsOnlyRetried, EveryGapBumps,
    RewrittenBatchBumpsAgain, UnknownProducerWithoutLogStartBumps, LatestAckCounts, StaleSuccessIsIgnored, FailureLeavesAHole,
    EveryFailureBumps, FailureStaysTracked, FormerEpochIsFatal, NumbersComeInsteadOfBeingKept, ExpiresBeforeTheDrain,
    InFlightNeverExpires, EveryExpiryIsInDoubt, SendsWhileDisconnected, OneMoreInFlight, OneInFlightIsNotMuted,
    TimeOutLosesOneRequest, DuplicateIsAFailure, RetriesHaveNoEnd, LateErrorIsRetried, Forgetful,
]  # fmt: skip


def with_bug(bug: type) -> Build:
    """A client of which one part has a bug."""
    if issubclass(bug, TransactionManager):
        return sender_with(manager=bug)
    return sender_with(accumulator=bug) if issubclass(bug, RecordAccumulator) else sender_with(sender=bug)
