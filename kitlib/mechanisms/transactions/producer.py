"""The states of a transactional producer's client: what the application may do now, and what an error from the broker means.

A call that does not fit (`begin` twice, `send` outside a transaction) is refused here and nothing is
sent. An answer from the broker is one of four things: done; retry; *abortable*, and then the application can
only abort, after which the producer is as good as new; or *fatal*, and then it can only be closed. Being
fenced is fatal: another producer has the transactional id.

Each call names the requests that it needs, `receive` takes each answer. Sending them is left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kitlib.errors import KitError, KnobError
from kitlib.mechanisms.producer.transaction_manager import PREVIOUS, ProducerState
from kitlib.mechanisms.protocol import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ErrorCode, increment_sequence
from kitlib.mechanisms.transactions.metadata import TopicPartition, supports_epoch_bump

LONGEST_ID_BYTES = 32_767  # a longer text does not fit into a request; a broker ends the connection on which one comes


class ProducerMisusedError(KitError):
    """The call does not fit to the client's state; nothing was sent and nothing has changed."""


class Api(Enum):
    """The requests of a transactional producer."""

    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    TXN_OFFSET_COMMIT = "TxnOffsetCommit"
    PRODUCE = "Produce"
    END_TXN = "EndTxn"


class Meaning(Enum):
    """What an answer means for the client."""

    DONE = "done"
    COME_AGAIN = "come again"
    ABORTABLE = "abortable"
    FATAL = "fatal"


_E = ErrorCode
_FENCED = frozenset({_E.PRODUCER_FENCED, _E.INVALID_PRODUCER_EPOCH})
_MEMBER = frozenset({_E.UNKNOWN_MEMBER_ID, _E.ILLEGAL_GENERATION, _E.FENCED_INSTANCE_ID})
_NOT_ALLOWED = frozenset({_E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _E.CLUSTER_AUTHORIZATION_FAILED})
# After these the user may abort, and then go on. With a batch it is everything but _FATAL_WITH_A_BATCH.
_ABORTABLE: dict[Api, frozenset[ErrorCode]] = {
    Api.INIT_PRODUCER_ID: _NOT_ALLOWED | {_E.TRANSACTION_ABORTABLE},
    Api.ADD_OFFSETS: frozenset({_E.UNKNOWN_PRODUCER_ID, _E.TRANSACTION_ABORTABLE}),
    Api.TXN_OFFSET_COMMIT: _MEMBER | {_E.TRANSACTION_ABORTABLE},
    Api.END_TXN: frozenset({_E.UNKNOWN_PRODUCER_ID, _E.TRANSACTION_ABORTABLE}),
}
_FATAL_WITH_A_BATCH = _NOT_ALLOWED | {_E.PRODUCER_FENCED, _E.UNSUPPORTED_VERSION, _E.INVALID_PRODUCER_ID_MAPPING}
_FATAL_WITH_PARTITIONS = _FENCED | {
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _E.INVALID_TXN_STATE, _E.INVALID_PRODUCER_ID_MAPPING
}  # fmt: skip


def meaning_of(api: Api, error: ErrorCode) -> Meaning:
    """What Java's client makes of an answer.

    A batch that is refused for its epoch is abortable: the client learns at the coordinator whether it was fenced.
    Everywhere else the same code, and PRODUCER_FENCED, are fatal.

    Source: Apache Kafka 4.3.1, `TransactionManager` (the handlers' `handleResponse`, `maybeTransitionToErrorState`).
    Differs: a batch's retriable error is sent again here; in Java the sender does so, and tells only the last one.
    """
    if error is ErrorCode.NONE or (api is Api.PRODUCE and error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Meaning.DONE
    if error.is_retriable:
        return Meaning.COME_AGAIN
    if api is Api.PRODUCE:
        return Meaning.FATAL if error in _FATAL_WITH_A_BATCH else Meaning.ABORTABLE
    if api is Api.ADD_PARTITIONS:
        return Meaning.FATAL if error in _FATAL_WITH_PARTITIONS else Meaning.ABORTABLE
    return Meaning.ABORTABLE if error in _ABORTABLE[api] else Meaning.FATAL


@dataclass(slots=True)
class TransactionalProducer:
    """The client's ledger for one transactional id.

    Source: Apache Kafka 4.3.1, `TransactionManager`.
    Differs: one call at a time, and each of its requests is answered before the next; batches are numbered here and not
    by the accumulator. After an abortable error version 1 asks for a new epoch as Java's client does, if it was a batch that failed.
    """

    transactional_id: str
    timeout_ms: int
    version: int = 2  # of transactions: 1, or 2 (no AddPartitionsToTxn, and each end brings the next epoch)
    state: ProducerState = ProducerState.UNINITIALIZED
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    partitions: set[TopicPartition] = field(
        default_factory=set
    )  # those that the coordinator knows to be in this transaction
    sequences: dict[TopicPartition, int] = field(default_factory=dict)  # the next one
    has_offsets: bool = False  # the group's offsets are part of it
    is_started: bool = False  # the coordinator knows that there is a transaction
    needs_epoch: bool = False  # a batch failed in doubt: ask for a new epoch once the transaction is aborted
    last_error: ErrorCode = ErrorCode.NONE  # why it is in an error state

    def __post_init__(self) -> None:
        length = len(self.transactional_id.encode())
        if length > LONGEST_ID_BYTES:
            raise KnobError(
                f"a transactional id of {length:,} bytes, at most {LONGEST_ID_BYTES:,}. A real broker ends the connection over it, and "
                "real clients try again until their timeout without saying why. Choose a shorter one."
            )

    def init_transactions(self) -> list[Api]:
        """Get a producer id and epoch, which ends whatever an earlier producer left open."""
        self._enter(ProducerState.INITIALIZING, "init_transactions")
        return [Api.INIT_PRODUCER_ID]

    def begin(self) -> list[Api]:
        """Nothing is sent: the broker learns of a transaction by the first partition."""
        self._enter(ProducerState.IN_TRANSACTION, "begin_transaction")
        self.partitions.clear()
        self.has_offsets = self.is_started = False
        return []

    def send(self, partition: TopicPartition) -> list[Api]:
        """A batch for this partition."""
        self._check_in_transaction("send")
        if partition in self.partitions or supports_epoch_bump(self.version):
            return [Api.PRODUCE]
        return [Api.ADD_PARTITIONS, Api.PRODUCE]

    def send_offsets(self) -> list[Api]:
        """A group's offsets."""
        self._check_in_transaction("send_offsets_to_transaction")
        if self.has_offsets or supports_epoch_bump(self.version):
            return [Api.TXN_OFFSET_COMMIT]
        return [Api.ADD_OFFSETS, Api.TXN_OFFSET_COMMIT]

    def commit(self) -> list[Api]:
        """End it so that all of it is seen. A transaction without a partition needs no request."""
        self._enter(ProducerState.COMMITTING, "commit_transaction")
        return self._ending()

    def abort(self) -> list[Api]:
        """End it so that nothing of it is seen by readers of committed records."""
        self._enter(ProducerState.ABORTING, "abort_transaction")
        return self._ending()

    def _ending(self) -> list[Api]:
        if self.is_started or (self.needs_epoch and supports_epoch_bump(self.version)):
            return [Api.END_TXN]
        self._ended()
        return [Api.INIT_PRODUCER_ID] if self.state is ProducerState.INITIALIZING else []

    def receive(
        self,
        api: Api,
        error: ErrorCode,
        producer_id: int = NO_PRODUCER_ID,
        epoch: int = NO_PRODUCER_EPOCH,
        partition: TopicPartition | None = None,
        count: int = 0,
    ) -> Meaning:
        """Take an answer. COME_AGAIN: send the same request again. An InitProducerId may have to follow an end: see `state`.

        `producer_id` and `epoch` are those of the answer to InitProducerId, and of that to EndTxn with version 2;
        `partition` and `count` are those of the batch.
        """
        meaning = meaning_of(api, error)
        if meaning is Meaning.DONE:
            self._done(api, producer_id, epoch, partition, count)
        elif meaning is Meaning.FATAL:
            self.state, self.last_error = ProducerState.FATAL_ERROR, error
        elif meaning is Meaning.ABORTABLE:
            if self.state not in PREVIOUS[ProducerState.ABORTABLE_ERROR]:  # an abort that fails so has no way out
                self.state, self.last_error = ProducerState.FATAL_ERROR, error
                return Meaning.FATAL
            self.state, self.last_error = ProducerState.ABORTABLE_ERROR, error
            if api is Api.PRODUCE:
                self.is_started = self.is_started or supports_epoch_bump(self.version)
                self.needs_epoch = not supports_epoch_bump(self.version)
        return meaning

    def _done(self, api: Api, producer_id: int, epoch: int, partition: TopicPartition | None, count: int) -> None:
        if api is Api.INIT_PRODUCER_ID:
            self._take_identity(producer_id, epoch)
            self.state, self.needs_epoch = ProducerState.READY, False
        elif api is Api.END_TXN:
            if supports_epoch_bump(self.version) and producer_id != NO_PRODUCER_ID:
                self._take_identity(producer_id, epoch)
                self.needs_epoch = False
            self._ended()
        else:
            self.is_started = True
            if api in (Api.ADD_OFFSETS, Api.TXN_OFFSET_COMMIT):
                self.has_offsets = True
            if partition is not None:
                self.partitions.add(partition)
                if api is Api.PRODUCE:
                    self.sequences[partition] = increment_sequence(self.next_sequence(partition), count)

    def _ended(self) -> None:
        self.state = ProducerState.INITIALIZING if self.needs_epoch else ProducerState.READY
        self.is_started = self.has_offsets = False
        self.partitions.clear()

    def _take_identity(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences.clear()

    def next_sequence(self, partition: TopicPartition) -> int:
        """The sequence number of the next batch for a partition; 0 after each new epoch."""
        return self.sequences.get(partition, 0)

    def _enter(self, state: ProducerState, call: str) -> None:
        if self.state not in PREVIOUS[state]:
            raise ProducerMisusedError(self._misused(call))
        self.state = state

    def _check_in_transaction(self, call: str) -> None:
        if self.state is not ProducerState.IN_TRANSACTION:
            raise ProducerMisusedError(self._misused(call))

    def _misused(self, call: str) -> str:
        advice = {
            ProducerState.UNINITIALIZED: "Call init_transactions first.",
            ProducerState.READY: "Call begin_transaction first.",
            ProducerState.IN_TRANSACTION: "Commit or abort the one that is open.",
            ProducerState.ABORTABLE_ERROR: f"The last error was {self.last_error.name}: call abort_transaction.",
            ProducerState.FATAL_ERROR: f"The last error was {self.last_error.name}: close the producer and start another one.",
        }.get(self.state, "Wait until the call before has returned.")
        return f"producer '{self.transactional_id}' epoch {self.epoch}: {call} in state '{self.state.value}'. {advice}"

    def __repr__(self) -> str:
        return f"<TransactionalProducer {self.transactional_id} epoch {self.epoch}: {self.state.value}>"
