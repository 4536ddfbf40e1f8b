"""One partition on one broker: its log, what it remembers of producers, and what either makes of the other.

An append asks in the order of the real broker: is this batch one that is remembered, then it is answered
with the offsets of the first copy and nothing is written; else may it be written at all, then it gets the
next offsets and is remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from kitlib.mechanisms.broker.append_checks import OffsetOutOfRangeError, is_older
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.entry import EndTransactionMarker, ProducerStateEntry, VerificationGuard
from kitlib.mechanisms.broker.producer_state import Outcome, ProducerStateManager
from kitlib.mechanisms.protocol import INVALID_OFFSET, NO_PRODUCER_ID, NO_SEQUENCE, Batch


@dataclass(slots=True)
class StoredBatch:
    """A batch where it lies in the log."""

    base_offset: int
    batch: Batch
    marker: EndTransactionMarker | None = None  # what a control batch says; None for records

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.base_offset + self.batch.count - 1


@dataclass(frozen=True, slots=True)
class Append:
    """What became of a batch that was not refused."""

    outcome: Outcome
    base_offset: int  # of the first copy for a duplicate; INVALID_OFFSET when that is not remembered
    last_offset: int


@dataclass(slots=True)
class UnifiedLog:
    """A partition's log and the ledger of its producers, which change together.

    Source: Apache Kafka 4.3.1, `UnifiedLog` (`append`, `analyzeAndValidateProducerState`,
    `maybeIncrementLogStartOffset`, `rebuildProducerState`) and `LogLoader.recoverSegment`.
    Differs: one segment, which only a failover shortens; the one broker is all replicas, so the high
    watermark is the end of the log.
    """

    config: BrokerConfig = field(default_factory=BrokerConfig)
    start: int = 0  # the first offset that may be read
    end: int = 0  # the offset of the next record
    batches: list[StoredBatch] = field(default_factory=list)  # the segment: in offset order, also below the start
    state: ProducerStateManager = field(init=False)  # a new one after each restart

    def __post_init__(self) -> None:
        self.state = ProducerStateManager(self.config)

    @property
    def first_unstable_offset(self) -> int | None:
        """What a reader of committed records may not pass; None when no transaction is open.

        Where the oldest open transaction began; when that was deleted, where the batch at the log's start begins.
        """
        undecided = self.state.first_undecided_offset()
        if undecided is None or undecided >= self.start:
            return undecided
        if self.start == self.end:
            return self.start
        at_start = bisect_right(self.batches, self.start, key=lambda stored: stored.base_offset) - 1
        return self.batches[at_start].base_offset

    def append(self, batch: Batch, guard: VerificationGuard | None = None) -> Append:
        """A client's batch: written, or known from before. Raises BatchRefusedError, and nothing has changed."""
        if batch.producer_id <= NO_PRODUCER_ID:
            return self.write(batch, None)
        state = self.state
        known = state.find_duplicate(batch)
        if known is not None:
            return Append(Outcome.DUPLICATE, known.first_offset, known.last_offset)
        if self.config.older_is_duplicate and self.is_older(batch):
            return Append(Outcome.DUPLICATE, INVALID_OFFSET, INVALID_OFFSET)
        return self.write(batch, state.check(batch, guard))

    def write(self, batch: Batch, entry: ProducerStateEntry | None) -> Append:
        """Give the batch the next offsets, and remember it in its producer's entry; None for a batch without an id."""
        offset = self.end
        end = offset + batch.count
        self.batches.append(StoredBatch(offset, batch))
        self.end = end
        if entry is None:
            self.state.map_end_offset = end
        else:
            self.state.update(entry, batch, offset)
        return Append(Outcome.APPENDED, offset, end - 1)

    def is_older(self, batch: Batch) -> bool:
        """Whether the batch lies below what is expected of its producer in this epoch, remembered or not."""
        entry = self.state.entries.get(batch.producer_id)
        return (
            entry is not None
            and entry.epoch == batch.producer_epoch
            and is_older(entry.last_seq, batch.base_sequence, batch.count)
        )

    def append_marker(self, marker: EndTransactionMarker, partition: int = 0) -> Append:
        """A coordinator's marker: written, at one offset. Raises BatchRefusedError, and nothing has changed."""
        entry, offset = self.state.check_marker(marker), self.end
        batch = Batch(partition, 1, marker.producer_id, marker.producer_epoch, NO_SEQUENCE, True, marker.timestamp_ms)
        self.batches.append(StoredBatch(offset, batch, marker))
        self.end += 1
        self.state.update_marker(entry, marker, offset)
        return Append(Outcome.APPENDED, offset, offset)

    def verify(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, supports_epoch_bump: bool = False
    ) -> VerificationGuard:
        """The guard for the first batch of a transaction, as `ProducerStateManager.verify` gives it."""
        return self.state.verify(producer_id, sequence, epoch, supports_epoch_bump, now_ms)

    def expire(self, now_ms: int) -> list[int]:
        """Forget the producers that have been idle too long; their ids. A broker does so every ten minutes."""
        return self.state.remove_expired(now_ms)

    def delete_before(self, offset: int) -> int:
        """Records below `offset` may not be read any more; the new start. OffsetOutOfRangeError unless offset <= end."""
        if offset > self.end:
            raise OffsetOutOfRangeError(
                f"the log ends at {self.end}, so nothing can be deleted before {offset}. Give at most its end."
            )
        if offset > self.start:
            self.start = offset
            self.state.log_start_moved(offset)
        return self.start

    def restart(self, how: str, now_ms: int) -> None:
        """The broker goes down and comes up again with this log: "clean", or "kill".

        A clean one leaves a snapshot. After the other the log is read from its segment's first batch, and a
        snapshot of that is taken, and loaded: so both remember one batch of each producer. InvalidTxnStateError
        when the segment holds, below the start, a transaction without its end, whose producer wrote outside
        transactions when all of it was deleted and forgotten: with such a log a real broker does not come up.
        """
        state = self.state
        if how == "kill":
            state = self._replayed(self.batches)
        state.take_snapshot()
        self.state = state.reload(self.start, self.end, now_ms)

    def fail_over(self) -> None:
        """A follower that had replicated the log from its start becomes the leader. It has learned all it knows from there."""
        replicated = [stored for stored in self.batches if stored.last_offset >= self.start]
        self.state = self._replayed(replicated)
        self.state.map_end_offset = self.end
        self.batches = replicated

    def _replayed(self, batches: list[StoredBatch]) -> ProducerStateManager:
        state = ProducerStateManager(self.config)
        for stored in batches:
            if stored.batch.has_producer_id:
                state.replay(stored.batch, stored.marker, stored.base_offset)
            state.map_end_offset = stored.last_offset + 1
        return state

    def __repr__(self) -> str:
        return (
            f"<UnifiedLog [{self.start}, {self.end}): {len(self.batches)} batches, {len(self.state.entries)} producers>"
        )
