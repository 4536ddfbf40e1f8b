"""What a coordinator writes down about one transactional id: producer id, epoch, state, partitions.

A transaction ends in two steps. `end` is the decision; from then on the state *is preparing*, and no other step may begin,
so a request that arrives in between has to be retried. `complete` follows once every partition has its marker.

Transactions of version 2 bump the epoch at each end, so that whatever is still in flight from the
last transaction has a stale epoch. Version 1 bumps it only for a new producer, and to fence an old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kitlib.errors import KitError
from kitlib.mechanisms.protocol import MAX_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class TransactionState(Enum):
    """A state by the name under which DescribeTransactions shows it, entered only as `PREVIOUS` allows.

        Empty ──────► Ongoing ──► PrepareCommit ──► CompleteCommit ──► Empty, Ongoing
                         │                                             (version 2: PrepareAbort too)
                         ├──────► PrepareAbort ───► CompleteAbort ───► the same
                         └──────► PrepareEpochFence (momentary: an old producer is being fenced)

    Source: Apache Kafka 4.3.1, `TransactionState`.
    Differs: nothing.
    """

    EMPTY = "Empty"  # the id is known, no transaction has begun
    ONGOING = "Ongoing"  # at least one partition was added
    PREPARE_COMMIT = "PrepareCommit"  # decided and written down; markers are in flight
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"  # every partition has its marker
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"  # the id was idle for too long and is being forgotten
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  # only ever pending: the abort follows in the same breath

    @property
    def is_preparing(self) -> bool:
        """Whether it is decided how the transaction ends, while markers are still missing."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether the last transaction has ended and its markers are written."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def is_expiration_allowed(self) -> bool:
        """Whether an id may be forgotten in this state."""
        return self is TransactionState.EMPTY or self.is_complete


_REST = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

# The states from which each state may be entered; the coordinator refuses every other step.
PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _REST,
    TransactionState.ONGOING: _REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # From the states at rest with version 2 alone: a client may abort before anything was added.
    TransactionState.PREPARE_ABORT: _REST | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}


TopicPartition = tuple[str, int]
NO_TIMESTAMP = -1


class IllegalTransitionError(KitError):
    """A step that the coordinator never takes; whoever sees this has found a fault of the kit."""


def supports_epoch_bump(version: int) -> bool:
    """Whether transactions of this version raise the epoch at their end (KIP-890)."""
    return version >= 2


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether a producer may not be given a higher epoch: one is kept back, to shut it out with."""
    return epoch >= MAX_EPOCH - 1


@dataclass(slots=True)
class TransactionMetadata:
    """A coordinator's entry for one transactional id.

    Source: Apache Kafka 4.3.1, `TransactionMetadata`, `TxnTransitMetadata`.
    Differs: a step takes effect at once, where Kafka prepares it, writes it to a log, and only then completes it; so nothing
    is pending but an end whose markers are under way. Versions 0 and 1 are one, they differ only in the log's format.
    """

    transactional_id: str
    producer_id: int  # what the broker's logs know the producer by
    txn_timeout_ms: int  # an open transaction that is older is aborted
    prev_producer_id: int = NO_PRODUCER_ID  # the id before the last step, for a request that comes again
    next_producer_id: int = NO_PRODUCER_ID  # takes over once the markers are written; set only when epochs ran out
    producer_epoch: int = NO_PRODUCER_EPOCH  # the only one whose requests are taken; -1 before the first
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # the one before, known only if the same producer had it
    state: TransactionState = TransactionState.EMPTY  # only `move_to` changes it
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)  # those that still need a marker
    txn_start_ms: int = NO_TIMESTAMP  # when the first partition was added; timeouts count from here
    client_version: int = 1  # of whoever caused the last step: 1, or 2

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next epoch needs another producer id."""
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def identity_after_end(self) -> tuple[int, int]:
        """The producer id and epoch of the next transaction: where epochs ran out, the next id takes over."""
        if supports_epoch_bump(self.client_version) and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def move_to(self, state: TransactionState, producer_id: int | None = None) -> None:
        """Enter a state, perhaps with another producer id. IllegalTransitionError when PREVIOUS does not allow it."""
        if self.state not in PREVIOUS[state]:
            raise IllegalTransitionError(
                f"{self.transactional_id}: from {self.state.value} to {state.value}. Report it."
            )
        self.state, self.prev_producer_id = state, self.producer_id
        self.producer_id = self.producer_id if producer_id is None else producer_id

    def begin(self, timeout_ms: int, expected_epoch: int | None) -> bool:
        """A producer begins: the next epoch is its own. With `expected_epoch` it is one that goes on after an error.

        Its current epoch leads to the next one. Its last epoch: it asks for the second time, and gets the same answer. False with
        any other, for another producer has taken over, and nothing has changed.
        """
        epoch, last = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == self.producer_epoch:
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last = self.producer_epoch, self.last_producer_epoch
            else:
                return False
        self.move_to(TransactionState.EMPTY)
        self._begin_empty(epoch, last, timeout_ms)
        return True

    def rotate_producer_id(self, new_producer_id: int, timeout_ms: int, record_last_epoch: bool) -> None:
        """The epochs ran out: another producer id, with epoch 0."""
        last = self.producer_epoch if record_last_epoch else NO_PRODUCER_EPOCH
        self.move_to(TransactionState.EMPTY, new_producer_id)
        self._begin_empty(0, last, timeout_ms)

    def _begin_empty(self, epoch: int, last_epoch: int, timeout_ms: int) -> None:
        self.producer_epoch, self.last_producer_epoch, self.txn_timeout_ms = epoch, last_epoch, timeout_ms
        self.partitions, self.txn_start_ms = frozenset(), NO_TIMESTAMP

    def add_partitions(self, added: frozenset[TopicPartition], now_ms: int, version: int) -> None:
        """Partitions join the transaction; the first of them begins it."""
        if self.state.is_expiration_allowed:
            self.txn_start_ms = now_ms
        self.move_to(TransactionState.ONGOING)
        self.partitions |= added
        self.client_version = version

    def fence(self) -> None:
        """Someone else is to take over: the epoch goes up, so that the producer of the open transaction is shut out."""
        self.producer_epoch = min(self.producer_epoch + 1, MAX_EPOCH)
        self.last_producer_epoch = NO_PRODUCER_EPOCH

    def end(self, state: TransactionState, version: int, next_producer_id: int, now_ms: int) -> None:
        """It is decided how the transaction ends: `state` is one of those that prepare. Version 2 raises the epoch here."""
        if self.state.is_expiration_allowed:  # nothing was added
            self.txn_start_ms = now_ms
        self.move_to(state)
        if supports_epoch_bump(version):
            self.last_producer_epoch, self.producer_epoch = self.producer_epoch, min(self.producer_epoch + 1, MAX_EPOCH)
        self.next_producer_id, self.client_version = next_producer_id, version

    def complete(self) -> None:
        """The markers are written, and the transaction has ended."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch = self.identity_after_end
        self.move_to(TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT, producer_id)
        self.producer_epoch, self.next_producer_id, self.partitions = epoch, NO_PRODUCER_ID, frozenset()
