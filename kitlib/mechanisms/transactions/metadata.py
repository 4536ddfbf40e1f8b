"""What a coordinator writes down about one transactional id: producer id, epoch, state, partitions.

Every change has two halves. `prepare_*` checks whether the step is allowed, returns the new
entry, and notes it in `pending_state`; the coordinator writes that to its log; and
`complete_transition_to` applies it. While a step is pending, no other may begin, so a request that
arrives in between has to be retried.

Transactions of version 2 bump the epoch at each end, so that whatever is still in flight from the
last transaction has a stale epoch. Version 1 bumps it only for a new producer, and to fence an old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from kitlib.errors import KitError
from kitlib.mechanisms.protocol import MAX_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ErrorCode


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


class TransactionRefusedError(KitError):
    """What was asked for is not done, and nothing has changed; `error` is what the client is answered."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True, slots=True)
class TxnTransitMetadata:
    """What an entry will be once the coordinator's log has it.

    Source: Apache Kafka 4.3.1, `TxnTransitMetadata`.
    Differs: nothing.
    """

    producer_id: int
    prev_producer_id: int  # the id before this step
    next_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    txn_timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    txn_start_ms: int
    last_update_ms: int
    client_version: int


def supports_epoch_bump(version: int) -> bool:
    """Whether transactions of this version raise the epoch at their end (KIP-890)."""
    return version >= 2


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether a producer may not be given a higher epoch: one is kept back, to shut it out with."""
    return epoch >= MAX_EPOCH - 1


@dataclass(slots=True)
class TransactionMetadata:
    """A coordinator's entry for one transactional id.

    Source: Apache Kafka 4.3.1, `TransactionMetadata`.
    Differs: no lock, as nothing here happens at once. Versions 0 and 1 are one, they differ only in the log's format.
    """

    transactional_id: str
    producer_id: int  # what the broker's logs know the producer by
    txn_timeout_ms: int  # an open transaction that is older is aborted
    prev_producer_id: int = NO_PRODUCER_ID  # the id before the last change of ids, for a request that comes again
    next_producer_id: int = NO_PRODUCER_ID  # takes over once the markers are written; set only when epochs ran out
    producer_epoch: int = NO_PRODUCER_EPOCH  # the only one whose requests are taken; -1 before the first
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # the one before, known only if the same producer had it
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)  # those that still need a marker
    txn_start_ms: int = NO_TIMESTAMP  # when the first partition was added; timeouts count from here
    last_update_ms: int = NO_TIMESTAMP  # an id that has been idle since is forgotten
    client_version: int = 1  # of whoever caused the last step: 1, or 2
    pending_state: TransactionState | None = None  # what is being written; None between two steps
    has_failed_epoch_fence: bool = False  # the epoch was raised in memory, and the log did not take it

    @property
    def is_pending(self) -> bool:
        """Whether a step is under way, so that another has to wait."""
        return self.pending_state is not None

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next epoch needs another producer id."""
        return is_epoch_exhausted(self.producer_epoch)

    def remove_partition(self, partition: TopicPartition) -> None:
        """Its marker is written. IllegalTransitionError unless markers are in flight."""
        if not self.state.is_preparing:
            raise IllegalTransitionError(
                f"{self.transactional_id}: a marker was written in state {self.state.value}. Report it."
            )
        self.partitions = self.partitions - {partition}

    def prepare_fence_producer_epoch(self) -> TxnTransitMetadata:
        """Someone else is to take over: the epoch goes up, and the open transaction will be aborted."""
        keeps = self.has_failed_epoch_fence or self.producer_epoch == MAX_EPOCH
        epoch = self.producer_epoch + (not keeps)
        return self._prepare(TransactionState.PREPARE_EPOCH_FENCE, producer_epoch=epoch)

    def prepare_increment_producer_epoch(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TxnTransitMetadata:
        """A producer begins: the next epoch is its own. With `expected_epoch` it is one that goes on after an error.

        Its current epoch leads to the next one. Its last epoch: it asks for the second time, and gets the same answer. Any other
        raises TransactionRefusedError, PRODUCER_FENCED.
        """
        if self.is_epoch_exhausted:
            raise IllegalTransitionError(
                f"{self.transactional_id}: no epoch is left above {self.producer_epoch}. Report it."
            )
        epoch, last = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == self.producer_epoch:
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last = self.producer_epoch, self.last_producer_epoch
            else:
                raise TransactionRefusedError(
                    ErrorCode.PRODUCER_FENCED,
                    f"{self.transactional_id}: epoch {expected_epoch}, expected {self.producer_epoch}. Another producer has taken over.",
                )
        return self._prepare(
            TransactionState.EMPTY, producer_epoch=epoch, last_producer_epoch=last, txn_timeout_ms=timeout_ms,
            partitions=frozenset(), txn_start_ms=NO_TIMESTAMP, last_update_ms=now_ms,
        )  # fmt: skip

    def prepare_producer_id_rotation(
        self, new_producer_id: int, timeout_ms: int, now_ms: int, record_last_epoch: bool
    ) -> TxnTransitMetadata:
        """The epochs ran out: another producer id, with epoch 0."""
        if self.state is TransactionState.ONGOING or self.state.is_preparing:
            raise IllegalTransitionError(
                f"{self.transactional_id}: a new producer id in state {self.state.value}. Report it."
            )
        return self._prepare(
            TransactionState.EMPTY, producer_id=new_producer_id, producer_epoch=0,
            last_producer_epoch=self.producer_epoch if record_last_epoch else NO_PRODUCER_EPOCH, txn_timeout_ms=timeout_ms,
            partitions=frozenset(), txn_start_ms=NO_TIMESTAMP, last_update_ms=now_ms,
        )  # fmt: skip

    def prepare_add_partitions(self, added: frozenset[TopicPartition], now_ms: int, version: int) -> TxnTransitMetadata:
        """Partitions join the transaction; the first of them begins it."""
        start_ms = now_ms if self.state.is_expiration_allowed else self.txn_start_ms
        return self._prepare(
            TransactionState.ONGOING, partitions=self.partitions | added, txn_start_ms=start_ms, last_update_ms=now_ms,
            client_version=version,
        )  # fmt: skip

    def prepare_abort_or_commit(
        self, state: TransactionState, version: int, next_producer_id: int, now_ms: int, no_partition_added: bool
    ) -> TxnTransitMetadata:
        """It is decided how the transaction ends. Version 2 raises the epoch here."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if supports_epoch_bump(version):
            last = epoch
            if not (epoch == MAX_EPOCH and state is TransactionState.PREPARE_ABORT):
                epoch += 1
        return self._prepare(
            state, producer_epoch=epoch, last_producer_epoch=last, next_producer_id=next_producer_id,
            txn_start_ms=now_ms if no_partition_added else self.txn_start_ms, last_update_ms=now_ms, client_version=version,
        )  # fmt: skip

    def prepare_complete(self, now_ms: int) -> TxnTransitMetadata:
        """The markers are to be written, and then the transaction has ended. Where epochs ran out, the next id takes over."""
        self.has_failed_epoch_fence = False
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch = self.producer_id, self.producer_epoch
        if supports_epoch_bump(self.client_version) and self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._prepare(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT, producer_id=producer_id,
            producer_epoch=epoch, next_producer_id=NO_PRODUCER_ID, partitions=frozenset(), last_update_ms=now_ms,
        )  # fmt: skip

    def prepare_dead(self) -> TxnTransitMetadata:
        """The id was idle for too long."""
        return self._prepare(TransactionState.DEAD, partitions=frozenset())

    def _prepare(self, state: TransactionState, **changes: object) -> TxnTransitMetadata:
        if self.pending_state is not None:
            raise IllegalTransitionError(
                f"{self.transactional_id}: {state.value} while {self.pending_state.value} is being written. Report it."
            )
        now = TxnTransitMetadata(
            self.producer_id, self.producer_id, self.next_producer_id, self.producer_epoch, self.last_producer_epoch,
            self.txn_timeout_ms, state, self.partitions, self.txn_start_ms, self.last_update_ms, self.client_version,
        )  # fmt: skip
        found = replace(now, **changes)  # type: ignore[arg-type]
        if found.producer_id < 0 or (state is not TransactionState.DEAD and not 0 <= found.producer_epoch <= MAX_EPOCH):
            raise IllegalTransitionError(
                f"{self.transactional_id}: producer id {found.producer_id} epoch {found.producer_epoch} in {state.value}. Report it."
            )
        if self.state not in PREVIOUS[state]:
            raise IllegalTransitionError(
                f"{self.transactional_id}: from {self.state.value} to {state.value}. Report it."
            )
        self.pending_state = state
        return found

    def complete_transition_to(self, to: TxnTransitMetadata) -> None:
        """The coordinator's log has it: the entry is what was prepared. IllegalTransitionError when that cannot follow."""
        if self.pending_state is not to.state or not self._is_valid(to):
            raise IllegalTransitionError(
                f"{self.transactional_id}: epoch {to.producer_epoch} in {to.state.value} cannot follow epoch {self.producer_epoch} in "
                f"{self.state.value} (pending: {self.pending_state and self.pending_state.value}). Report it."
            )
        self.producer_id, self.prev_producer_id, self.next_producer_id = (
            to.producer_id,
            to.prev_producer_id,
            to.next_producer_id,
        )
        self.producer_epoch, self.last_producer_epoch = to.producer_epoch, to.last_producer_epoch
        self.txn_timeout_ms, self.partitions, self.client_version = to.txn_timeout_ms, to.partitions, to.client_version
        self.txn_start_ms, self.last_update_ms = to.txn_start_ms, to.last_update_ms
        self.pending_state, self.state = None, to.state

    def _is_valid(self, to: TxnTransitMetadata) -> bool:
        """Whether the prepared entry fits to this one, which may have changed meanwhile."""
        state = to.state
        if state is TransactionState.EMPTY:
            is_next = to.producer_epoch == self.producer_epoch + 1 or (
                to.producer_epoch == 0 and to.producer_id != self.producer_id
            )
            is_same = to.producer_epoch == self.producer_epoch
            return (is_same or is_next) and not to.partitions and to.txn_start_ms == NO_TIMESTAMP
        if state in (TransactionState.PREPARE_EPOCH_FENCE, TransactionState.DEAD):
            return False  # neither is ever written as such
        if not self._is_valid_epoch(to) or to.txn_timeout_ms != self.txn_timeout_ms:
            return False
        if state is TransactionState.ONGOING:
            return to.partitions >= self.partitions
        if state.is_preparing:
            bumps = supports_epoch_bump(to.client_version)
            is_empty_abort = state is TransactionState.PREPARE_ABORT and bumps and self.state.is_expiration_allowed
            return to.partitions == self.partitions and (to.txn_start_ms == self.txn_start_ms or is_empty_abort)
        return to.txn_start_ms != NO_TIMESTAMP

    def _is_valid_epoch(self, to: TxnTransitMetadata) -> bool:
        if supports_epoch_bump(to.client_version):
            if to.state.is_complete and to.producer_epoch == 0:
                return to.last_producer_epoch == self.last_producer_epoch and to.prev_producer_id == self.producer_id
            if to.state.is_preparing:
                return to.last_producer_epoch == self.producer_epoch and to.producer_id == self.producer_id
        return to.producer_epoch == self.producer_epoch and to.producer_id == self.producer_id
