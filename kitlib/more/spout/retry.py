"""What came after 0.9.3: retries that wait, grow apart and come to an end.

The retry manager keeps, for every failed offset, how often it was tried and when it may be tried
again. A record that keeps failing then no longer stops the new ones: between its retries the
partition moves on. With a limit, the record is given up for good, which is a loss by choice.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME, FetchError
from kitlib.mechanisms.partition_manager import PartitionManager


@dataclass(frozen=True, slots=True)
class RetryRecord:
    """The next retry of one offset."""

    offset: int
    retry_num: int  # 1 for the first retry
    retry_at_ms: int  # not before this time


@dataclass(slots=True)
class BackoffPartitionManager(PartitionManager):
    """A PartitionManager whose failures wait `initial * multiplier^(n-1)` ms before the n-th retry.

    `now_ms` is the clock: set it before `next` and `fail`.

    Source: Storm 1.1.0, `org.apache.storm.kafka.PartitionManager` and `ExponentialBackoffMsgRetryManager`.
    Differs: the two are one class; of two failures due at the same ms the older comes first; an offset that
    fails again while it waits is due at its new time only (1.1.0 also asks for it at the old one); a scheme that
    gives an empty list of tuples leaves its record pending as in 0.9.3, where 1.1.0 acks it.

    Differs from 0.9.3 in what it fixes: new records flow while failed ones wait; an ack ends a retry; a
    failed offset that left the log is dropped from the retries, and the position goes to the earliest
    offset that is left (to the end if it was beyond it) and not to the latest; a retry can be bounded.
    And in what it costs: a failed offset that compaction took is asked for at every fetch all the same;
    offsets that left the log stay pending, so the commit stays; after `retry_limit` retries a record is
    lost without an error; a retried record comes later, and more records come before it.
    """

    retry_initial_delay_ms: int = 0
    retry_delay_multiplier: float = 1.0
    retry_delay_max_ms: int = 60_000
    retry_limit: int = -1  # no limit unless > 0
    now_ms: int = 0
    records: dict[int, RetryRecord] = field(default_factory=dict)  # every offset that failed and was not acked
    due: list[tuple[int, int, int]] = field(default_factory=list)  # a heap: (retry_at_ms, order, offset)
    waiting: dict[int, RetryRecord] = field(default_factory=dict)  # of `records`, those not being retried now
    given_up: set[int] = field(default_factory=set)  # offsets that will not be retried any more
    lost_message_count: int = 0  # jumped over when out of range, or dropped from the retries then
    order: int = 0

    def fill(self) -> None:
        """Fetch a failed record whose time has come, else new ones. Raises as PartitionManager.fill."""
        retry = self.next_failed_offset()
        processing_new = retry is None
        offset = self.emitted_to_offset if retry is None else retry
        fetched = self.fetch(offset)
        if fetched.error is FetchError.OFFSET_OUT_OF_RANGE:
            self._go_to_what_is_left(offset, processing_new)
            return
        for record in fetched.records:
            at = record.offset
            if at < offset or not (processing_new or self.should_retry(at)):
                continue
            self.pending.add(at)
            self.waiting_to_emit.append(record)
            if self.emitted_to_offset <= at < MAX_LONG:
                self.emitted_to_offset = at + 1
            if self.should_retry(at):
                del self.waiting[at]

    def ack(self, offset: int) -> list[int]:
        """As PartitionManager.ack; also ends the retries of `offset`."""
        cleared = list(PartitionManager.ack(self, offset))
        self.records.pop(offset, None)
        self.waiting.pop(offset, None)
        return cleared

    def fail(self, offset: int) -> bool:
        """Plan the next retry of `offset`; False when it is too far behind or was retried enough.

        Raises TooManyTupleFailuresError as PartitionManager.fail; nothing is planned then.
        """
        if offset < self.emitted_to_offset - self.config.max_offset_behind:
            return False
        self.number_failed += 1
        self.check_tuple_failures()
        before = self.records.get(offset)
        if before is not None and 0 < self.retry_limit <= before.retry_num:
            self.given_up.add(offset)
            self.pending.discard(offset)
            self.records.pop(offset)
            self.waiting.pop(offset, None)
            return False
        retry_num = before.retry_num + 1 if before else 1
        record = RetryRecord(offset, retry_num, self.now_ms + self.delay_ms(retry_num))
        self.records[offset] = self.waiting[offset] = record
        self.order += 1
        heapq.heappush(self.due, (record.retry_at_ms, self.order, offset))
        return True

    def delay_ms(self, retry_num: int) -> int:
        """How long the `retry_num`-th retry waits; at most `retry_delay_max_ms`."""
        try:
            delay = self.retry_initial_delay_ms * self.retry_delay_multiplier ** (retry_num - 1)
        except OverflowError:
            delay = float("inf")
        return min(MAX_LONG if delay >= MAX_LONG else int(delay), self.retry_delay_max_ms)

    def next_failed_offset(self) -> int | None:
        """The failed offset whose retry is due first, if its time has come."""
        while self.due:
            retry_at_ms, _, offset = self.due[0]
            record = self.waiting.get(offset)
            if record is None or record.retry_at_ms != retry_at_ms:
                heapq.heappop(self.due)  # acked, given up or planned again since
                continue
            return offset if self.now_ms >= retry_at_ms else None
        return None

    def should_retry(self, offset: int) -> bool:
        """True when `offset` waits for a retry whose time has come."""
        record = self.waiting.get(offset)
        return record is not None and self.now_ms >= record.retry_at_ms

    def failed_offsets(self) -> list[int]:
        """Offsets that wait for a retry, ascending."""
        return sorted(self.waiting)

    def _go_to_what_is_left(self, offset: int, processing_new: bool) -> None:
        """Out of range: drop the retries that are gone, and move the position up to what is there."""
        latest = self.offset_at(LATEST_TIME)
        left = latest if latest < offset else self.offset_at(EARLIEST_TIME)
        if not processing_new:
            gone = [failed for failed in self.records if failed < left]
            for failed in gone:
                self.records.pop(failed)
                self.waiting.pop(failed, None)
            self.lost_message_count += len(gone)
        if left > self.emitted_to_offset:
            self.lost_message_count += left - self.emitted_to_offset
            self.emitted_to_offset = left
