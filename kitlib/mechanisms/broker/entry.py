"""What a broker remembers of one producer in one partition.

The newest batches, by their first and last sequence number and where they lie in the log: enough to
know a batch again that comes a second time, and to know which sequence number must come next. It is
kept by the partition's leader, and by every follower, which learns it from the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kitlib.mechanisms.protocol import NO_PRODUCER_EPOCH, NO_SEQUENCE, Batch

NO_COORDINATOR_EPOCH = -1
NO_TIMESTAMP = -1


@dataclass(slots=True)
class BatchMetadata:
    """One remembered batch; its records have offsets and sequence numbers without a gap.

    Source: Apache Kafka 4.3.1, `BatchMetadata`.
    Differs: the time stamp is left out; it only tells the time of a duplicate where the broker sets the time.
    """

    first_seq: int
    last_seq: int  # below first_seq when the batch straddles the wrap at 2^31 - 1
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class ProducerStateEntry:
    """The ledger of one producer in one partition.

    Source: Apache Kafka 4.3.1, `ProducerStateEntry`.
    Differs: an append changes it in place once all checks have passed; Kafka changes a copy, and then
    copies that. How many batches are kept is an argument.
    """

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH  # the newest seen; batches of older ones are refused
    coordinator_epoch: int = NO_COORDINATOR_EPOCH  # of the last marker; older coordinators are refused
    last_timestamp_ms: int = NO_TIMESTAMP  # of the last batch or marker, by its writer's clock; expiry counts from here
    txn_first_offset: int | None = None  # where the open transaction began; None without one
    batches: list[BatchMetadata] = field(default_factory=list)  # oldest first, all of this epoch

    @property
    def last_seq(self) -> int:
        """The last sequence number of the newest batch; NO_SEQUENCE when none is remembered."""
        return self.batches[-1].last_seq if self.batches else NO_SEQUENCE

    def find_duplicate(self, epoch: int, first_seq: int, last_seq: int) -> BatchMetadata | None:
        """The remembered batch with exactly this epoch and range, or None. Whether the records are equal is not asked."""
        if epoch == self.epoch:
            for known in self.batches:
                if known.last_seq == last_seq and known.first_seq == first_seq:
                    return known
        return None

    def add_batch(self, batch: Batch, first_offset: int, keep: int) -> None:
        """A batch was written from `first_offset` on; of more than `keep` batches the oldest are forgotten."""
        if batch.producer_epoch != self.epoch:
            self.begin_epoch(batch.producer_epoch)
        batches = self.batches
        batches.append(
            BatchMetadata(batch.base_sequence, batch.last_sequence, first_offset, first_offset + batch.count - 1)
        )
        if len(batches) > keep:
            del batches[:-keep]
        self.last_timestamp_ms = batch.timestamp_ms
        if batch.is_transactional and self.txn_first_offset is None:
            self.txn_first_offset = first_offset

    def begin_epoch(self, epoch: int) -> None:
        """Another epoch: the batches of the one before are forgotten. An open transaction stays open."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def end_transaction(self, epoch: int, coordinator_epoch: int, timestamp_ms: int) -> None:
        """A marker was written. With the same epoch the remembered batches stay, so sequences run on."""
        self.begin_epoch(epoch)
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = None
        self.last_timestamp_ms = timestamp_ms

    def snapshot(self) -> ProducerStateEntry:
        """What is kept on disk: all of it, but of the batches the newest alone."""
        return replace(self, batches=self.batches[-1:])


@dataclass(frozen=True, slots=True, eq=False)
class VerificationGuard:
    """What the first batch of a transaction must bring; equal to no other, however alike.

    Source: Apache Kafka 4.3.1, `VerificationGuard`.
    Differs: nothing.
    """


SENTINEL = VerificationGuard()  # the guard of a batch that needs none; it opens nothing


@dataclass(slots=True)
class VerificationStateEntry:
    """A transaction whose first batch waits until its coordinator has confirmed the partition.

    Source: Apache Kafka 4.3.1, `VerificationStateEntry`.
    Differs: nothing.
    """

    timestamp_ms: int  # by the broker's clock; a forgotten one goes when producers expire
    guard: VerificationGuard  # the first batch must bring it
    lowest_sequence: int  # no batch above it is written before it
    epoch: int
    supports_epoch_bump: bool  # transaction version 2

    def maybe_lower(self, sequence: int, epoch: int) -> None:
        """A further batch waits: a lower sequence of the same epoch counts, and any of a higher epoch."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The coordinator's word that a transaction of a producer has ended; takes one offset in the log."""

    producer_id: int
    producer_epoch: int  # version 1: the producer's, or higher to fence it; version 2: one higher
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 1  # 1 or 2
    timestamp_ms: int = 0
