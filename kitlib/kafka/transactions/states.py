"""The states of a transaction at its coordinator, and from which state each may be entered.

    Empty ──────► Ongoing ──► PrepareCommit ──► CompleteCommit ──► Empty, Ongoing
                     │                                             (version 2: PrepareAbort too)
                     ├──────► PrepareAbort ───► CompleteAbort ───► the same
                     └──────► PrepareEpochFence (momentary: an old producer is being fenced)

`PREVIOUS` holds all of it: the coordinator refuses every other step.

Source: Apache Kafka 4.3.1, `TransactionState`.
Differs: nothing.
"""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """A state by the name under which DescribeTransactions shows it."""

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

# The states from which each state may be entered.
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
