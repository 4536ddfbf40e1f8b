"""What a reader of one partition receives: everything, or only what was committed.

A read_committed reader gets nothing from the last stable offset on: that is where the oldest
open transaction started. Below it the broker names the aborted transactions of what it sends, and the
reader's own client drops their records: from where such a transaction began until its marker comes.
Markers have offsets of their own and are never delivered, so the offsets that a reader sees have gaps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from kitlib.errors import KnobError
from kitlib.mechanisms.broker.unified_log import StoredBatch, UnifiedLog

ISOLATION = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, slots=True)
class AbortedTxn:
    """An aborted transaction of one partition, by which readers know what to drop.

    Source: Apache Kafka 4.3.1, `AbortedTxn`.
    Differs: the last stable offset of the time is left out, a reader is not told it.
    """

    producer_id: int
    first_offset: int  # of its first record
    last_offset: int  # of its marker


def aborted_transactions(batches: Iterable[StoredBatch]) -> list[AbortedTxn]:
    """The aborted transactions of a log, in the order of their markers.

    Source: Apache Kafka 4.3.1, `ProducerAppendInfo.appendEndTxnMarker`, `TransactionIndex`.
    Differs: nothing.
    """
    began: dict[int, int] = {}
    found: list[AbortedTxn] = []
    for stored in batches:
        producer_id = stored.batch.producer_id
        if stored.marker is None:
            if stored.batch.is_transactional:
                began.setdefault(producer_id, stored.base_offset)
        else:
            first = began.pop(producer_id, None)
            if first is not None and not stored.marker.is_commit:
                found.append(AbortedTxn(producer_id, first, stored.base_offset))
    return found


def last_stable_offset(log: UnifiedLog) -> int:
    """Where readers of committed records have to wait: the first open transaction's begin, or the log's end."""
    first = log.first_unstable_offset
    return log.end if first is None else first


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """One record as a reader gets it."""

    offset: int
    producer_id: int
    producer_epoch: int
    value: bytes | None  # None in runs that only count


@dataclass(slots=True)
class Reader:
    """A consumer of one partition that was assigned by hand; `position` is the offset that it asks for next.

    Source: Apache Kafka 4.3.1, `CompletedFetch` (`nextFetchedRecord`, `consumeAbortedTransactionsUpTo`), `Partition.fetchRecords`.
    Differs: a fetch has no limit of bytes.
    """

    isolation: str = "read_uncommitted"  # ConsumerConfig.ISOLATION_LEVEL_CONFIG's default
    position: int = 0
    aborted_now: set[int] = field(default_factory=set)  # producers whose aborted transaction is being passed

    def __post_init__(self) -> None:
        if self.isolation not in ISOLATION:
            raise KnobError(f"isolation is {self.isolation!r}, expected one of {', '.join(ISOLATION)}.")

    def end(self, log: UnifiedLog) -> int:
        """Up to where the broker gives this reader anything."""
        return last_stable_offset(log) if self.isolation == "read_committed" else log.end

    def poll(self, log: UnifiedLog) -> list[ReadRecord]:
        """All records that there are for it now; afterwards `position` lies behind the last batch, marker or not."""
        end = self.end(log)
        batches = log.batches
        begin = bisect_left(batches, self.position, key=lambda stored: stored.last_offset)
        sent = [stored for stored in batches[begin:] if stored.base_offset < end]
        told = self._told_aborted(aborted_transactions(batches), sent)
        found: list[ReadRecord] = []
        for stored in sent:
            found += self._take(stored, told)
            self.position = max(self.position, stored.last_offset + 1)
        return found

    def _told_aborted(self, aborted: list[AbortedTxn], sent: list[StoredBatch]) -> list[AbortedTxn]:
        """What the broker's answer says of aborted transactions: those that overlap what it sends, by their first offset."""
        if self.isolation != "read_committed" or not sent:
            return []
        first, last = max(self.position, sent[0].base_offset), sent[-1].last_offset
        overlapping = (each for each in aborted if each.last_offset >= first and each.first_offset <= last)
        return sorted(overlapping, key=lambda each: each.first_offset)

    def _take(self, stored: StoredBatch, told: list[AbortedTxn]) -> list[ReadRecord]:
        producer_id = stored.batch.producer_id
        if self.isolation == "read_committed":
            while told and told[0].first_offset <= stored.last_offset:
                self.aborted_now.add(told.pop(0).producer_id)
            if stored.marker is not None:
                if not stored.marker.is_commit:
                    self.aborted_now.discard(producer_id)
            elif stored.batch.is_transactional and producer_id in self.aborted_now:
                return []
        if stored.marker is not None:
            return []
        values = stored.batch.values or (None,) * stored.batch.count
        return [
            ReadRecord(offset, producer_id, stored.batch.producer_epoch, value)
            for offset, value in enumerate(values, start=stored.base_offset)
            if offset >= self.position
        ]
