"""What a partition's broker remembers of all producers: entries, open transactions, guards, snapshots.

The entries live in memory. On disk there are the log, and occasionally a snapshot of the entries at an
offset: for each producer, only its epoch and its newest batch. So a restarted broker knows one
batch of each producer, however it went down, while a follower that received the log batch by batch knows
five. Batches deleted from the start of the log, and expired producers, are unknown to a broker that rebuilds its state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kitlib.mechanisms.broker.append_checks import (
    check_marker,
    check_open_transaction,
    check_producer_epoch,
    check_sequence,
    check_transaction,
)
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.entry import (
    NO_TIMESTAMP,
    SENTINEL,
    BatchMetadata,
    EndTransactionMarker,
    ProducerStateEntry,
    VerificationGuard,
    VerificationStateEntry,
)
from kitlib.mechanisms.protocol import Batch


class Outcome(Enum):
    """What a broker did with a batch."""

    APPENDED = "appended"  # written now
    DUPLICATE = "duplicate"  # written before, so answered as a success
    REJECTED = "rejected"  # not written


@dataclass(slots=True)
class ProducerStateManager:
    """The producers of one partition.

    Source: Apache Kafka 4.3.1, `ProducerStateManager`, `UnifiedLog.analyzeAndValidateProducerState` and
    `updateProducers`; 2.0.0, the Scala classes of these names.
    Differs: snapshots are kept in memory and never damaged. Offsets that are not yet replicated do not hold
    the first unstable offset back, as the one broker of the model is all replicas. Under release "2.0" the
    length of a batch that straddles 2^31 - 1 is counted right; 2.0.0 subtracted sequence numbers. The same
    release let a marker without a transaction complete an empty one, which nobody can see.
    """

    config: BrokerConfig = field(default_factory=BrokerConfig)
    entries: dict[int, ProducerStateEntry] = field(default_factory=dict)  # by producer id
    waiting: dict[int, VerificationStateEntry] = field(default_factory=dict)  # by producer id; lost at a restart
    ongoing_txns: dict[int, int] = field(default_factory=dict)  # first offset -> producer id; in offset order
    snapshots: dict[int, list[ProducerStateEntry]] = field(default_factory=dict)  # end offset -> entries; the disk
    map_end_offset: int = 0  # the entries hold everything below
    last_snapshot_offset: int = 0  # no snapshot is taken before the map's end is above it

    def find_duplicate(self, batch: Batch) -> BatchMetadata | None:
        """The remembered batch that `batch` repeats, or None."""
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            return None
        return entry.find_duplicate(batch.producer_epoch, batch.base_sequence, batch.last_sequence)

    def check(self, batch: Batch, guard: VerificationGuard | None = None) -> ProducerStateEntry:
        """All checks of a client's batch that is no duplicate; its entry, which is a new one for an unknown producer.

        Changes nothing. Raises one of the refusals of `append_checks`.
        """
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            entry = ProducerStateEntry(batch.producer_id)
        waiting = self.waiting.get(batch.producer_id) if self.waiting else None
        if batch.is_transactional:
            check_transaction(entry, batch, waiting, guard, self.config.transaction_verification)
        check_producer_epoch(entry, batch)
        check_sequence(entry, batch, waiting, self.config.release)
        check_open_transaction(entry, batch)
        return entry

    def verify(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """A transaction's first batch must be verified: the guard it is to bring; SENTINEL when it needs none.

        All batches that wait for the same transaction get the same guard. Raises InvalidProducerEpochError
        for an epoch below the newest seen.

        Source: Apache Kafka 4.3.1, `UnifiedLog.maybeStartTransactionVerification`.
        Differs: nothing.
        """
        entry = self.entries.get(producer_id)
        if entry is not None:
            check_producer_epoch(entry, Batch(-1, 1, producer_id, epoch, sequence))
            if entry.txn_first_offset is not None and entry.epoch == epoch:
                return SENTINEL
        waiting = self.waiting.get(producer_id)
        if waiting is None:
            waiting = VerificationStateEntry(now_ms, VerificationGuard(), sequence, epoch, supports_epoch_bump)
            self.waiting[producer_id] = waiting
        else:
            waiting.maybe_lower(sequence, epoch)
        return waiting.guard

    def update(self, entry: ProducerStateEntry, batch: Batch, first_offset: int) -> None:
        """The batch is in the log from `first_offset` on: remember it."""
        producer_id = batch.producer_id
        if producer_id not in self.entries:
            self.entries[producer_id] = entry
        if batch.is_transactional:
            self.waiting.pop(producer_id, None)
            if entry.txn_first_offset is None:
                self.ongoing_txns[first_offset] = producer_id
        entry.add_batch(batch, first_offset, self.config.remembered_batches)
        self.map_end_offset = first_offset + batch.count

    def check_marker(self, marker: EndTransactionMarker) -> ProducerStateEntry:
        """The entry that a coordinator's marker would change; raises as `append_checks.check_marker` does."""
        entry = self.entries.get(marker.producer_id) or ProducerStateEntry(marker.producer_id)
        check_marker(entry, marker)
        return entry

    def update_marker(self, entry: ProducerStateEntry, marker: EndTransactionMarker, offset: int) -> None:
        """The marker is in the log at `offset`: the transaction has ended.

        A guard that waits dies with it, but for one of version 2 that already has the marker's epoch: it
        belongs to the next transaction.
        """
        producer_id = marker.producer_id
        self.entries.setdefault(producer_id, entry)
        if entry.txn_first_offset is not None:
            self.ongoing_txns.pop(entry.txn_first_offset, None)
        timestamp_ms = marker.timestamp_ms
        if self.config.release == "2.0":  # there a producer is as old as its newest remembered batch
            timestamp_ms = entry.last_timestamp_ms if marker.producer_epoch == entry.epoch else NO_TIMESTAMP
        entry.end_transaction(marker.producer_epoch, marker.coordinator_epoch, timestamp_ms)
        waiting = self.waiting.get(producer_id)
        if waiting is not None and not (waiting.supports_epoch_bump and waiting.epoch == marker.producer_epoch):
            del self.waiting[producer_id]
        self.map_end_offset = offset + 1

    def replay(self, batch: Batch, marker: EndTransactionMarker | None, first_offset: int) -> None:
        """Learn a batch from the log, as a follower or a recovering broker does: nothing is checked but transactions.

        What the log holds was checked by the leader of its time; a lower epoch after a higher one is what an
        expired producer leaves there. Raises InvalidTxnStateError as `check_open_transaction` does.
        """
        entry = self.entries.get(batch.producer_id) or ProducerStateEntry(batch.producer_id)
        if marker is not None:
            self.update_marker(entry, marker, first_offset)
        else:
            check_open_transaction(entry, batch)
            self.update(entry, batch, first_offset)

    def is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        """Idle for the configured time, by its last record's time stamp, and in no transaction."""
        idle_ms = now_ms - entry.last_timestamp_ms
        return entry.txn_first_offset is None and idle_ms >= self.config.producer_id_expiration_ms

    def remove_expired(self, now_ms: int) -> list[int]:
        """Forget the expired producers, and guards that have waited so long; the producer ids that were forgotten."""
        gone = [producer_id for producer_id, entry in self.entries.items() if self.is_expired(entry, now_ms)]
        for producer_id in gone:
            del self.entries[producer_id]
        limit = self.config.producer_id_expiration_ms
        self.waiting = {pid: each for pid, each in self.waiting.items() if now_ms - each.timestamp_ms < limit}
        return gone

    def log_start_moved(self, start: int) -> None:
        """Records below `start` are gone. The entries stay, but release 2.0 forgets producers that have none left."""
        if self.config.release == "2.0":
            self.entries = {pid: entry for pid, entry in self.entries.items() if is_retained(entry, start)}
            self.ongoing_txns = {offset: pid for offset, pid in self.ongoing_txns.items() if pid in self.entries}
            self.snapshots = {offset: entries for offset, entries in self.snapshots.items() if offset >= start}
        self.map_end_offset = max(self.map_end_offset, start)
        self.last_snapshot_offset = max(self.snapshots, default=start)

    def take_snapshot(self) -> None:
        """Write the entries to disk, each with its newest batch alone, unless nothing came since the last time."""
        if self.map_end_offset > self.last_snapshot_offset:
            self.snapshots[self.map_end_offset] = [entry.snapshot() for entry in self.entries.values()]
            self.last_snapshot_offset = self.map_end_offset

    def reload(self, start: int, end: int, now_ms: int) -> ProducerStateManager:
        """What a new process makes of the disk, for a log from `start` to `end`.

        Snapshots at or below the start, or above the end, are thrown away; of the newest one left the
        producers that have not expired are taken. `map_end_offset` says up to where they know the log.

        Source: Apache Kafka 4.3.1, `ProducerStateManager.truncateAndReload` and `loadFromSnapshot`.
        Differs: nothing.
        """
        left = {offset: entries for offset, entries in self.snapshots.items() if start < offset <= end}
        loaded = ProducerStateManager(self.config, snapshots=left, map_end_offset=start, last_snapshot_offset=start)
        if left:
            newest = max(left)
            loaded.map_end_offset = loaded.last_snapshot_offset = newest
            for stored in left[newest]:
                entry = stored.snapshot()
                lost = self.config.release == "2.0" and not is_retained(entry, start)
                if not lost and not self.is_expired(entry, now_ms):
                    loaded.entries[entry.producer_id] = entry
        loaded.ongoing_txns = dict(
            sorted(
                (entry.txn_first_offset, entry.producer_id)
                for entry in loaded.entries.values()
                if entry.txn_first_offset is not None
            )
        )
        return loaded

    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction began; None without one."""
        return min(self.ongoing_txns, default=None)

    def __repr__(self) -> str:
        return f"<ProducerStateManager: {len(self.entries)} producers up to offset {self.map_end_offset}>"


def is_retained(entry: ProducerStateEntry, start: int) -> bool:
    """Release 2.0: whether the newest batch still lies in the log, at least in part.

    Source: Apache Kafka 2.0.0, `ProducerStateManager.isProducerRetained`.
    Differs: nothing. (It means to forget the older batches as well, but its `removeBatchesOlderThan` changes nothing.)
    """
    return bool(entry.batches) and entry.batches[-1].last_offset >= start
