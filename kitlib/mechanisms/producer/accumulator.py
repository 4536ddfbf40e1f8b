"""Where batches wait: one queue for each partition, and the rules by which they leave it.

A request takes at most one batch from each queue. New batches come in at the back. A retry comes back
in the place that its sequence gives it; without idempotence there is no sequence, it comes back at
the front, and two retries can change places. Left out: the memory pool, compression, flush, several
brokers (all partitions have one leader).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from kitlib.errors import KnobError
from kitlib.mechanisms.producer.batch import MOST_AROUND_A_VALUE, ProducerBatch, batch_upper_bound, closed_batch
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.transaction_manager import IllegalStateError, TransactionManager


@dataclass(slots=True)
class RecordAccumulator:
    """The queues of one producer.

    Source: Apache Kafka 4.3.1, `RecordAccumulator`.
    Differs: the back-off grows without its random part of 20%; one leader for all partitions.
    """

    config: ProducerConfig
    partitions: Sequence[int]  # in the order in which a drain visits them
    transaction_manager: TransactionManager | None  # None: no idempotence, so no numbers
    queues: dict[int, deque[ProducerBatch]] = field(default_factory=dict)
    muted: set[int] = field(default_factory=set)  # partitions with a request out, where only one may be
    drain_index: int = 0  # into `partitions`: where the last drain ended and the next one begins
    stopped_early: bool = False  # the last drain met a batch that may not leave yet
    sends: int = 0  # handed over so far
    batches: int = 0  # made so far, parts of split ones included

    def __post_init__(self) -> None:
        self.queues = {partition: deque() for partition in self.partitions}

    # The user's side

    def send(self, partition: int, values: Sequence[bytes], now_ms: int) -> ProducerBatch:
        """Queue a whole batch. KnobError when it is empty, too large or for a partition that is not there."""
        queue = self._queue(partition)
        if not values:
            raise KnobError("a batch of no records: give one record or more.")
        batch = closed_batch(self._next_number(), self.sends, partition, values, now_ms)
        if batch.max_record_bytes > self.config.max_request_size:
            raise self._too_large(batch.max_record_bytes)
        self.sends += 1
        queue.append(batch)
        return batch

    def append(self, partition: int, value: bytes, now_ms: int) -> ProducerBatch:
        """Add a record to the partition's last batch, or begin one when that is closed or full.

        KnobError when the record is too large or its partition is not there.
        """
        queue = self._queue(partition)
        if len(value) + MOST_AROUND_A_VALUE > self.config.max_request_size < batch_upper_bound(len(value)):
            raise self._too_large(batch_upper_bound(len(value)))
        if queue:
            last = queue[-1]
            if last.try_append(value, now_ms):
                return last
            last.is_open = False
        capacity = max(self.config.batch_size, batch_upper_bound(len(value)))
        batch = ProducerBatch(
            self._next_number(), self.sends, partition, 0, 0, now_ms, capacity_bytes=capacity, is_open=True
        )
        batch.try_append(value, now_ms)
        self.sends += 1
        queue.append(batch)
        return batch

    # The sender's side

    def ready(self, now_ms: int) -> tuple[bool, int | None]:
        """Whether any partition has something to send, and otherwise in how many ms one may have (None: never)."""
        delay: int | None = None
        for partition, queue in self.queues.items():
            if not queue or partition in self.muted:
                continue
            batch = queue[0]
            waited = batch.waited_ms(now_ms)
            backing_off = self.is_backing_off(batch, now_ms)
            to_wait = self.backoff_ms(batch) if backing_off else self.config.linger_ms
            if not backing_off and (len(queue) > 1 or batch.is_full or waited >= to_wait):
                return True, 0
            left = max(to_wait - waited, 0)
            delay = left if delay is None else min(delay, left)
        return False, delay

    def drain(self, now_ms: int) -> list[ProducerBatch]:
        """Take at most one batch from each queue, for one request.

        A partition whose first batch may not leave yet ends the drain: those after it wait as well,
        and the next drain begins with it again.
        """
        if not self.partitions:
            return []
        drained: list[ProducerBatch] = []
        size = 0
        start = index = self.drain_index % len(self.partitions)
        self.stopped_early = True
        while True:
            partition = self.partitions[index]
            self.drain_index = index
            index = (index + 1) % len(self.partitions)
            queue = self.queues[partition]
            if queue and partition not in self.muted and not self.is_backing_off(queue[0], now_ms):
                first = queue[0]
                if drained and size + first.size_bytes > self.config.max_request_size:
                    break
                if self.transaction_manager is not None and not self.transaction_manager.may_drain(first):
                    break
                queue.popleft()
                if self.transaction_manager is not None and not first.has_sequence:
                    self.transaction_manager.assign(first)
                first.close()
                size += first.size_bytes
                drained.append(first)
            if index == start:
                self.stopped_early = False
                break
        return drained

    def expired_batches(self, now_ms: int) -> list[ProducerBatch]:
        """Take what has waited beyond its delivery timeout out of the queues."""
        expired = []
        for partition in sorted(self.queues):
            queue = self.queues[partition]
            while queue and queue[0].has_reached(self.config.delivery_timeout_ms, now_ms):
                expired.append(queue.popleft())
        return expired

    def next_expiry_ms(self) -> int | None:
        """When the first of the waiting batches expires."""
        firsts = [queue[0].created_ms for queue in self.queues.values() if queue]
        return min(firsts) + self.config.delivery_timeout_ms if firsts else None

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Put a batch back that is to be retried."""
        batch.reenqueued(now_ms)
        self._insert(batch)

    def split_and_reenqueue(self, big: ProducerBatch) -> list[ProducerBatch]:
        """Put the parts of a batch in its place that the broker refused as too large.

        The first split aims at `batch_size` (and may leave the batch whole); a part that is refused
        again is halved, as far as its largest record allows.
        """
        parts = big.split(self.split_target_bytes(big), self.batches)
        self.batches += len(parts)
        for part in reversed(parts):
            if self.transaction_manager is not None:
                self.transaction_manager.add_in_flight(part)
            self._insert(part)
        return parts

    def split_target_bytes(self, big: ProducerBatch) -> int:
        """How large the parts of a refused batch may be."""
        return max(big.max_record_bytes, big.size_bytes // 2) if big.is_split else self.config.batch_size

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self.queues[batch.partition]
        if self.transaction_manager is None:
            queue.appendleft(batch)
            return
        if not batch.has_sequence or not self.transaction_manager.has_in_flight(batch.partition):
            raise IllegalStateError(f"batch {batch.number} comes back and is not tracked")
        # Sequences are compared as numbers: around the wrap, where 0 follows 2^31 - 1, the order turns round.
        at = 0
        while at < len(queue) and queue[at].has_sequence and queue[at].base_sequence < batch.base_sequence:
            at += 1
        queue.insert(at, batch)

    def is_backing_off(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether a retry still has to wait."""
        return batch.attempts > 0 and batch.waited_ms(now_ms) < self.backoff_ms(batch)

    def backoff_ms(self, batch: ProducerBatch) -> int:
        """How long a retry waits: twice as long each time, up to retry_backoff_max_ms."""
        longest = self.config.retry_backoff_max_ms
        return min(self.config.retry_backoff_ms << min(max(batch.attempts - 1, 0), 40), longest)

    def _queue(self, partition: int) -> deque[ProducerBatch]:
        queue = self.queues.get(partition)
        if queue is None:
            raise KnobError(f"there is no partition {partition}. This producer has {sorted(self.queues)}.")
        return queue

    def _too_large(self, size_bytes: int) -> KnobError:
        most = self.config.max_request_size
        return KnobError(f"a record needs {size_bytes} bytes, max_request_size is {most}. Send smaller records.")

    def _next_number(self) -> int:
        self.batches += 1
        return self.batches - 1
