"""The transaction coordinator: who may write under a transactional id, what the transaction touches, and how it ends.

A producer asks for a producer id under its transactional id and gets an epoch higher than any
before: the previous owner of the id is fenced. It adds partitions to the transaction, writes to
them, and asks for the end. The coordinator first writes the decision to its own log, then a marker
into every partition that was touched. Between the two, the transaction is decided but not yet
visible; `unsent` holds the markers still to be written, and their writer reports each with
`marker_written`.

Left out: the coordinator's own log (a step is written as soon as it is decided), a coordinator that
moves to another broker, ids that are forgotten when they were idle for a week, who may do what (ACLs), and transactions
prepared for an outside coordinator (KIP-939).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kitlib.mechanisms.broker.entry import EndTransactionMarker
from kitlib.mechanisms.protocol import MAX_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ErrorCode, InitProducerIdAnswer
from kitlib.mechanisms.transactions.metadata import (
    TopicPartition,
    TransactionMetadata,
    TransactionState,
    is_epoch_exhausted,
    supports_epoch_bump,
)

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class EndTxnAnswer:
    """The answer to EndTxn: with version 2 it has the producer id and epoch of the next transaction."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(slots=True)
class UnsentMarkers:
    """An end that is decided, and the partitions whose markers are still to be written."""

    transactional_id: str
    marker: EndTransactionMarker
    partitions: set[TopicPartition]


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of an entry, for whoever tells the story."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    why: str = ""


@dataclass(slots=True)
class TransactionCoordinator:
    """The coordinator of all transactional ids; nothing here reads a clock.

    `version` of a request is the transaction version that the client uses: 1 or 2, the cluster's at most.

    Source: Apache Kafka 4.3.1, `TransactionCoordinator`, `TransactionStateManager.timedOutTransactions`.
    Differs: its log takes every step at once; one coordinator for all ids. What a client of an old protocol version is
    told instead of PRODUCER_FENCED (INVALID_PRODUCER_EPOCH) is left to whoever speaks that version.
    """

    new_producer_id: Callable[[], int]
    max_timeout_ms: int = 900_000  # TransactionStateManagerConfig.TRANSACTIONS_MAX_TIMEOUT_MS_DEFAULT
    transaction_version: int = 2  # of the cluster: the highest that a client may use; the coordinator's own aborts use it
    epoch: int = 0  # of the coordinator: markers of an older one are refused
    entries: dict[str, TransactionMetadata] = field(default_factory=dict)
    unsent: list[UnsentMarkers] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)  # all steps so far, in order

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, now_ms: int, expected: tuple[int, int] | None = None
    ) -> InitProducerIdAnswer:
        """A producer begins under this id; `expected` is the (producer id, epoch) of one that goes on after an error.

        Errors: INVALID_REQUEST for an empty id; INVALID_TRANSACTION_TIMEOUT unless 0 < timeout_ms <= max_timeout_ms;
        PRODUCER_FENCED when `expected` is of the past; CONCURRENT_TRANSACTIONS while the last transaction is being
        ended. One that is still open is aborted by this, and the producer is told to come again.
        """
        if not transactional_id:
            return InitProducerIdAnswer(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.max_timeout_ms:
            return InitProducerIdAnswer(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        entry = self.entries.get(transactional_id)
        if entry is None:
            entry = TransactionMetadata(transactional_id, self.new_producer_id(), timeout_ms)
            self.entries[transactional_id] = entry
        if entry.state.is_preparing:
            return InitProducerIdAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _may_go_on(entry, *expected):
            return InitProducerIdAnswer(ErrorCode.PRODUCER_FENCED)
        if entry.state is TransactionState.ONGOING:
            self._fence(entry, now_ms, "a producer with the same transactional id has begun")
            return InitProducerIdAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
        if entry.is_epoch_exhausted and (expected is None or expected[1] == entry.producer_epoch):
            entry.rotate_producer_id(self.new_producer_id(), timeout_ms, expected is not None)
        elif not entry.begin(timeout_ms, expected and expected[1]):
            return InitProducerIdAnswer(ErrorCode.PRODUCER_FENCED)
        self._note(entry)
        return InitProducerIdAnswer(ErrorCode.NONE, entry.producer_id, entry.producer_epoch)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        version: int = 1,
    ) -> ErrorCode:
        """Partitions join the transaction, a group's one of the offsets' topic too. With version 2 their leaders ask when a batch comes.

        Errors: INVALID_REQUEST for an empty id, INVALID_PRODUCER_ID_MAPPING for an unknown one or another producer
        id, PRODUCER_FENCED for another epoch, CONCURRENT_TRANSACTIONS while the last transaction is being ended.
        """
        added = frozenset(partitions)
        entry, error = self._entry_of(transactional_id, producer_id, epoch)
        if entry is None:
            return error
        if entry.state.is_preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if entry.state is not TransactionState.ONGOING or not added <= entry.partitions:
            entry.add_partitions(added, now_ms, version)
            self._note(entry)
        return ErrorCode.NONE

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether partitions are in the open transaction; a leader asks this for a client of version 1.

        TRANSACTION_ABORTABLE for one that is not.
        """
        asked = list(partitions)
        entry, error = self._entry_of(transactional_id, producer_id, epoch)
        if entry is None:
            return dict.fromkeys(asked, error)
        if entry.state.is_preparing:
            return dict.fromkeys(asked, ErrorCode.CONCURRENT_TRANSACTIONS)
        return {each: ErrorCode.NONE if each in entry.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in asked}

    def end_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, now_ms: int, version: int = 1
    ) -> EndTxnAnswer:
        """The producer ends its transaction. The answer comes as soon as it is decided; the markers follow.

        Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED as above; CONCURRENT_TRANSACTIONS while
        it is being ended in this way already; INVALID_TXN_STATE when it ended in the other way or never began.
        Version 2 may abort what never began.
        """
        if not transactional_id:
            return EndTxnAnswer(ErrorCode.INVALID_REQUEST)
        entry = self.entries.get(transactional_id)
        if entry is None:
            return EndTxnAnswer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        error = (_cannot_end_2 if supports_epoch_bump(version) else _cannot_end_1)(entry, producer_id, epoch, commit)
        if error is None:
            return self._end(entry, commit, now_ms, version, "")
        if error is ErrorCode.NONE:  # it has ended so: the answer was lost
            return EndTxnAnswer(ErrorCode.NONE, entry.producer_id, entry.producer_epoch)
        return EndTxnAnswer(error)

    def abort_timed_out(self, now_ms: int) -> list[str]:
        """Abort what has been open for longer than its producer's timeout; a broker looks every few seconds. The ids."""
        late = [
            entry for entry in self.entries.values()
            if entry.state is TransactionState.ONGOING and entry.txn_start_ms + entry.txn_timeout_ms < now_ms
        ]  # fmt: skip
        for entry in late:
            self._fence(entry, now_ms, "transaction.timeout.ms")
        return [entry.transactional_id for entry in late]

    def marker_written(self, sending: UnsentMarkers, partition: TopicPartition) -> None:
        """One of the markers is in its partition's log; with the last one the transaction has ended."""
        sending.partitions.discard(partition)
        self.entries[sending.transactional_id].partitions -= {partition}
        self._maybe_complete(sending)

    def _entry_of(
        self, transactional_id: str, producer_id: int, epoch: int
    ) -> tuple[TransactionMetadata | None, ErrorCode]:
        """The entry of the producer that may speak for this id; None, and why not."""
        if not transactional_id:
            return None, ErrorCode.INVALID_REQUEST
        entry = self.entries.get(transactional_id)
        if entry is None or entry.producer_id != producer_id:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if entry.producer_epoch != epoch:
            return None, ErrorCode.PRODUCER_FENCED
        return entry, ErrorCode.NONE

    def _fence(self, entry: TransactionMetadata, now_ms: int, why: str) -> None:
        """Raise the epoch and abort: the producer that has this transaction open is shut out."""
        version = self.transaction_version
        if not supports_epoch_bump(version):  # version 2 raises the epoch with the abort itself
            entry.fence()
        self._end(entry, False, now_ms, version, why)

    def _end(self, entry: TransactionMetadata, commit: bool, now_ms: int, version: int, why: str) -> EndTxnAnswer:
        """Write the decision, and make ready the markers."""
        bumps = supports_epoch_bump(version)
        next_id = self.new_producer_id() if bumps and entry.is_epoch_exhausted else NO_PRODUCER_ID
        entry.end(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT, version, next_id, now_ms
        )
        self._note(entry, why)
        marker = EndTransactionMarker(
            entry.producer_id, entry.producer_epoch, self.epoch, commit, 2 if bumps else 1, now_ms
        )
        answer = EndTxnAnswer(ErrorCode.NONE, *entry.identity_after_end)
        sending = UnsentMarkers(entry.transactional_id, marker, set(entry.partitions))
        self.unsent.append(sending)
        self._maybe_complete(sending)
        return answer

    def _maybe_complete(self, sending: UnsentMarkers) -> None:
        if not sending.partitions:
            self.unsent.remove(sending)
            entry = self.entries[sending.transactional_id]
            entry.complete()
            self._note(entry)

    def _note(self, entry: TransactionMetadata, why: str = "") -> None:
        self.transitions.append(
            Transition(entry.transactional_id, entry.state, entry.producer_id, entry.producer_epoch, why)
        )

    def __repr__(self) -> str:
        told = ", ".join(
            f"{entry.transactional_id}: {entry.state.value} epoch {entry.producer_epoch}"
            for entry in self.entries.values()
        )
        return f"<TransactionCoordinator {told or 'without ids'}>"


def _may_go_on(entry: TransactionMetadata, producer_id: int, epoch: int) -> bool:
    """Whether a producer that names its id may be the one that this entry is about."""
    return (
        entry.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == entry.producer_id
        or (producer_id == entry.prev_producer_id and is_epoch_exhausted(epoch))
    )


def _cannot_end_1(entry: TransactionMetadata, producer_id: int, epoch: int, commit: bool) -> ErrorCode | None:
    """Version 1: why a client's EndTxn is not done; NONE when it was done before, None when it may be.

    Source: Apache Kafka 4.3.1, `TransactionCoordinator.endTransactionWithTV1`.
    Differs: nothing.
    """
    if entry.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if entry.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if entry.state.is_preparing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if entry.state is TransactionState.ONGOING:
        return None
    return _ended_before(entry.state, commit)


def _cannot_end_2(entry: TransactionMetadata, producer_id: int, epoch: int, commit: bool) -> ErrorCode | None:
    """Version 2: the same. An epoch below the entry's by one is a request that comes again.

    Source: Apache Kafka 4.3.1, `TransactionCoordinator.endTransaction`.
    Differs: nothing.
    """
    overflowed = entry.prev_producer_id == producer_id and epoch == MAX_EPOCH - 1 and entry.producer_epoch == 0
    comes_again = entry.producer_epoch == epoch + 1
    if entry.state.is_preparing:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if entry.producer_id != producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if epoch != entry.producer_epoch and not (entry.state.is_complete and (comes_again or overflowed)):
        return ErrorCode.PRODUCER_FENCED
    if entry.state is TransactionState.ONGOING:
        return None
    if entry.state.is_expiration_allowed and not (comes_again or overflowed):
        return ErrorCode.INVALID_TXN_STATE if commit else None
    return _ended_before(entry.state, commit)


def _ended_before(state: TransactionState, commit: bool) -> ErrorCode:
    """The answer about a transaction that has ended, or was never begun."""
    ended = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    return ErrorCode.NONE if state is ended else ErrorCode.INVALID_TXN_STATE
