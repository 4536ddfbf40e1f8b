"""A partition that a share group reads: each record has a state, a lock and a delivery count of its own.

A consumer group keeps one number for a partition: everything below the committed offset is done. A share group (KIP-932)
hands the records of a partition to all of its consumers at once, so one number cannot say what is done. The broker that
leads the partition keeps a row for each record between two offsets instead:

    start offset (SPSO)   everything below is acknowledged or archived, for good
    end offset (SPEO)     nothing from here on has been handed out yet

    Available --acquire--> Acquired --accept--> Acknowledged
        ^                     |------reject--> Archived
        |--release, time-out--|                    ^
                              |--the last delivery-|

A record that is acquired is locked for `lock_ms`: the consumer has to answer by then, or to renew the lock. Each delivery
counts, and a record that comes back from its last one (`delivery_limit`) is archived: no one gets it again. Between the two
offsets lie at most `max_record_locks` records, done or not.

Left out: the state's copies in `__share_group_state`, and the state between a change and its copy; transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kitlib.errors import KitError


class InvalidRecordStateError(KitError):
    """The record is not locked by whoever answers for it."""


class RecordState(StrEnum):
    """What a record is to the group. Source: Kafka 4.3, `RecordState`; Differs: no ARCHIVING."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVED = "archived"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing will change it any more."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Acknowledge(StrEnum):
    """What a consumer answers for a record. Source: Kafka 4.3, `AcknowledgeType`; Differs: nothing."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


ANSWERED = {
    Acknowledge.ACCEPT: RecordState.ACKNOWLEDGED,
    Acknowledge.RELEASE: RecordState.AVAILABLE,
    Acknowledge.REJECT: RecordState.ARCHIVED,
}  # RENEW changes no state


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record on its way to a consumer."""

    offset: int
    delivery_count: int  # 1 at the first time


@dataclass(frozen=True, slots=True)
class Change:
    """A record that is not acquired any more."""

    offset: int
    state: RecordState
    delivery_count: int


@dataclass(slots=True, eq=False)
class Batch:
    """The records that were acquired together for the first time."""

    size: int = 0  # those that are done by now included


@dataclass(slots=True)
class InFlightRecord:
    """The row of one record. Source: Kafka 4.3, `InFlightState`; Differs: a row for each record, where Kafka keeps one for a
    whole batch as long as its records are alike; no `rollbackState`, because nothing is written here that could fail.
    """

    batch: Batch
    state: RecordState = RecordState.ACQUIRED
    delivery_count: int = 1  # 1 <= it <= delivery_limit
    member: str | None = None  # who has the lock; None unless the record is ACQUIRED
    lock_until_ms: int | None = None  # None unless the record is ACQUIRED

    def lock(self, member: str, until_ms: int) -> None:
        self.state, self.member, self.lock_until_ms = RecordState.ACQUIRED, member, until_ms

    def settle(self, state: RecordState) -> None:
        """Nobody has it any more."""
        self.state, self.member, self.lock_until_ms = state, None, None


@dataclass(slots=True)
class SharePartition:
    """What the leader of a partition knows for one share group.

    Source: Apache Kafka 4.3, `SharePartition` (`acquire`, `acknowledge`, `releaseAcquiredRecords`,
    `releaseAcquisitionLockOnTimeout`, `lastOffsetAndMaxRecordsToAcquire`, `shouldThrottleRecordsDelivery`).
    Differs: `end_offset` is the first offset that nobody was handed yet, Kafka's `endOffset` the one before; a fetch ends at
    `max_records`, where Kafka hands out whole batches of the log; a lock ends when `expire` is called; the log's start never moves.
    """

    delivery_limit: int = 5  # >= 1
    lock_ms: int = 30_000  # > 0
    max_record_locks: int = 2_000  # >= 1
    start_offset: int = 0
    end_offset: int = 0  # start_offset <= end_offset <= start_offset + max_record_locks
    records: dict[int, InFlightRecord] = field(default_factory=dict)  # a row for each start_offset <= offset < end_offset

    @property
    def next_fetch_offset(self) -> int:
        """Where the next fetch begins: at the first record that is available again, or else at the end offset."""
        available = (offset for offset, row in self.records.items() if row.state is RecordState.AVAILABLE)
        return min(available, default=self.end_offset)

    def next_lock_ends_ms(self) -> int | None:
        """When the first lock runs out; None when there is none."""
        return min((row.lock_until_ms for row in self.records.values() if row.lock_until_ms is not None), default=None)

    def acquire(self, member: str, max_records: int, log_end: int, now_ms: int) -> list[Delivery]:
        """Lock records for a consumer, `max_records` at most: those available again and new ones, in the order of offsets.

        A record that has come back often comes with few others, and for the last time alone: if it is the one that makes its
        consumers fail, it takes no healthy record with it.
        """
        begin, locks_left = self.next_fetch_offset, self.max_record_locks - (self.end_offset - self.start_offset)
        end = log_end if locks_left > 0 else min(log_end, self.end_offset)
        most = min(max_records, locks_left) if locks_left > 0 else max_records
        found: list[Delivery] = []
        batch, is_throttled, new_batch, throttled_to = None, False, Batch(), 0
        for offset in range(begin, end):
            row = self.records.get(offset)
            if len(found) >= most:
                break
            if row is None:
                if found and is_throttled:
                    break
                row = self.records[offset] = InFlightRecord(new_batch)
                new_batch.size += 1
                self.end_offset = offset + 1
            elif row.state is RecordState.AVAILABLE:
                if row.batch is not batch:
                    if found and (is_throttled or self._is_throttled(row.batch)):
                        break
                    batch, is_throttled = row.batch, self._is_throttled(row.batch)
                if found and self._is_last(row.delivery_count + 1):
                    break
                if not throttled_to and row.delivery_count >= self.throttle_limit:  # the first such record decides
                    throttled_to = self._most_of(row)
                row.delivery_count += 1
            else:
                continue
            row.lock(member, now_ms + self.lock_ms)
            found.append(Delivery(offset, row.delivery_count))
            if self._is_last(row.delivery_count) or len(found) == throttled_to:  # if more were found before, there is no limit
                break
        return found

    def acknowledge(self, member: str, answers: Mapping[int, Acknowledge], now_ms: int) -> list[Change]:
        """A consumer's answers for some of its records. All of them count, or none but each RENEW before the one that is refused.

        Answers for records below the start offset are ignored. InvalidRecordStateError when another one is not locked by this
        consumer: it never was, or the lock has run out.
        """
        open_answers = {offset: answer for offset, answer in sorted(answers.items()) if offset >= self.start_offset}
        for offset in open_answers:
            row = self.records.get(offset)
            if row is None or row.member != member:
                holder = "nobody has" if row is None or row.member is None else f"{row.member} has"
                raise InvalidRecordStateError(
                    f"{member}: offset {offset} cannot be acknowledged, because {holder} its lock now. "
                    f"Answer within lock_ms={self.lock_ms}."
                )
            if open_answers[offset] is Acknowledge.RENEW:
                row.lock(member, now_ms + self.lock_ms)
        changed: list[Change] = []
        for offset, answer in open_answers.items():
            row = self.records[offset]
            if answer is Acknowledge.RELEASE:
                changed.append(self._give_back(offset))
            elif answer is not Acknowledge.RENEW:
                row.settle(ANSWERED[answer])
                changed.append(Change(offset, row.state, row.delivery_count))
        self._move_start()
        return changed

    def expire(self, now_ms: int) -> list[Change]:
        """The locks that have run out by now are gone, and their records are available again or archived."""
        late = [offset for offset, row in self.records.items() if row.lock_until_ms is not None and row.lock_until_ms <= now_ms]
        changed = [self._give_back(offset) for offset in sorted(late)]
        self._move_start()
        return changed

    def close_session(self, member: str) -> list[Change]:
        """A consumer has left, or its connection is gone: what it has locked is available at once, or archived.

        Source: Kafka 4.3.1, `releaseAcquiredRecords`. Before KAFKA-19972 such a delivery did not count, so a record that ended each of
        its consumers could be delivered for ever.
        """
        changed = [self._give_back(offset) for offset, row in sorted(self.records.items()) if row.member == member]
        self._move_start()
        return changed

    def _give_back(self, offset: int) -> Change:
        """A delivery has ended without an effect: once more, unless it was the last one. Source: `InFlightState.tryUpdateState`."""
        row = self.records[offset]
        row.settle(RecordState.ARCHIVED if row.delivery_count >= self.delivery_limit else RecordState.AVAILABLE)
        return Change(offset, row.state, row.delivery_count)

    def _move_start(self) -> None:
        while self.start_offset in self.records and self.records[self.start_offset].state.is_terminal:
            del self.records[self.start_offset]
            self.start_offset += 1

    # Records that come back often

    @property
    def throttle_limit(self) -> int:
        """From this many deliveries on, the records of a batch come in smaller numbers."""
        return max(2, (self.delivery_limit + 1) // 2)

    def _is_last(self, delivery_count: int) -> bool:
        """Whether this delivery is the last one, and so made alone; with a limit of 1 or 2 that makes no difference."""
        return self.delivery_limit > 2 and delivery_count == self.delivery_limit

    def _is_throttled(self, batch: Batch) -> bool:
        counts = [row.delivery_count for row in self.records.values() if row.batch is batch and row.state is RecordState.AVAILABLE]
        return max(counts, default=0) >= self.throttle_limit

    def _most_of(self, row: InFlightRecord) -> int:
        """Half of its batch, then a quarter, and so on. Source: `acquireSubsetBatchRecords`."""
        return max(1, row.batch.size >> (row.delivery_count - self.throttle_limit + 1))
