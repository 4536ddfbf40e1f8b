"""The kit's own transactional producer: the model of the client's states, talking to a model broker or, by the wire, to a real one.

An ordinary client hides its requests, and librdkafka's transactions are of version 1. This one speaks
version 1 or 2, and can be made to do what no client would: hold a batch back until its transaction has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kitlib.kafka.producer.transaction_manager import ProducerState
from kitlib.kafka.protocol import Batch, ErrorCode, InitProducerIdAnswer
from kitlib.kafka.transactions.coordinator import EndTxnAnswer
from kitlib.kafka.transactions.metadata import TopicPartition
from kitlib.kafka.transactions.offsets import GroupIdentity
from kitlib.kafka.transactions.producer import Api, Meaning, ProducerMisusedError, TransactionalProducer

RETRY_MS = 20  # TransactionManager.ADD_PARTITIONS_RETRY_BACKOFF_MS
MOST_RETRIES = 500


@dataclass(frozen=True, slots=True)
class Told:
    """What a call told its user."""

    error: str = ""  # the error's name; empty for success
    is_fatal: bool = False  # the producer can only be closed
    must_abort: bool = False  # the transaction can only be aborted

    @property
    def is_fenced(self) -> bool:
        """Whether the user was told that its epoch is of the past, and that nothing but the end is left."""
        return self.is_fatal and self.error in FENCED


FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED")
MISUSED = "MISUSED"  # the client itself refused the call


@dataclass(slots=True)
class NoTransactions:
    """A producer that writes outside of transactions; all that belongs to them is refused."""

    name: str
    identity: tuple[int, int] | None = None

    def init(self) -> Told:
        """There is nothing to ask for."""
        return Told()

    def begin(self) -> Told:
        """Not without a transactional id."""
        return Told(MISUSED)

    def send(self, records: Sequence[int], hold: bool = False) -> Told:
        """Not here: the run writes its records plainly."""
        return Told(MISUSED)

    def send_offsets(self, offset: int, who: GroupIdentity) -> Told:
        """Not without a transaction."""
        return Told(MISUSED)

    commit = abort = release = begin

    def kill(self) -> None:
        """Nothing more comes from it."""

    freeze = thaw = close = kill


class TransactionBroker(Protocol):
    """The broker that leads everything and coordinates everything, asked one request at a time."""

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None
    ) -> InitProducerIdAnswer:
        """As the coordinator's."""
        ...

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """As the coordinator's, for a client of version 1."""
        ...

    def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> ErrorCode:
        """As the coordinator's, for a client of version 1."""
        ...

    def commit_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        who: GroupIdentity,
        partition: TopicPartition,
        offset: int,
        version: int,
    ) -> ErrorCode:
        """TxnOffsetCommit: the group's offset, pending until the marker comes."""
        ...

    def produce(self, transactional_id: str, topic: str, batch: Batch, version: int) -> ErrorCode:
        """One transactional batch."""
        ...

    def end_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, version: int
    ) -> EndTxnAnswer:
        """As the coordinator's."""
        ...

    def pause(self, ms: int) -> None:
        """Let so much time pass before a request is sent again."""
        ...


@dataclass(slots=True)
class KitTransactionalProducer:
    """One producer for one partition of one topic."""

    name: str
    core: TransactionalProducer
    broker: TransactionBroker
    partition: TopicPartition
    input: TopicPartition  # what the group reads
    held: list[Batch] = field(default_factory=list)  # batches that are still on their way

    def init(self) -> Told:
        """A producer id and epoch; fences whoever had the transactional id."""
        return self._do(self.core.init_transactions)

    def begin(self) -> Told:
        """Begin a transaction."""
        return self._do(self.core.begin)

    def send(self, records: Sequence[int], hold: bool = False) -> Told:
        """One batch of records. With `hold` it is only handed to the network, and arrives at `release`."""
        return self._do(
            lambda: self.core.send(self.partition), values=tuple(b"%d" % record for record in records), hold=hold
        )

    def send_offsets(self, offset: int, who: GroupIdentity) -> Told:
        """The group's position, as a part of this transaction."""
        return self._do(self.core.send_offsets, offset=offset, who=who)

    def commit(self) -> Told:
        """Commit what is open."""
        return self._do(self.core.commit)

    def abort(self) -> Told:
        """Abort what is open."""
        return self._do(self.core.abort)

    def release(self) -> Told:
        """The batches that were held arrive now, with the numbers that they have."""
        told = Told()
        for batch in self.held:
            error = self.broker.produce(self.core.transactional_id, self.partition[0], batch, self.core.version)
            told = Told(error.name) if error else told
        self.held.clear()
        return told

    def kill(self) -> None:
        """Nothing more comes from it."""

    def freeze(self) -> None:
        """Nothing comes from it until `thaw`."""

    def thaw(self) -> None:
        """It goes on where it was."""

    def close(self) -> None:
        """Nothing to let go of."""

    @property
    def identity(self) -> tuple[int, int] | None:
        """(producer id, epoch) as the client knows them; None before the first."""
        return None if self.core.producer_id < 0 else (self.core.producer_id, self.core.epoch)

    def _do(
        self,
        call: object,
        values: tuple[bytes, ...] = (),
        hold: bool = False,
        offset: int = -1,
        who: GroupIdentity | None = None,
    ) -> Told:
        try:
            asked = list(call())  # type: ignore[operator]
        except ProducerMisusedError:
            return Told(MISUSED, is_fatal=self.core.state is ProducerState.FATAL_ERROR)
        while asked:
            api = asked.pop(0)
            if api is Api.PRODUCE and hold:
                self.held.append(self._batch(values))
                self.core.receive(api, ErrorCode.NONE, partition=self.partition, count=len(values))
                continue
            error, meaning = self._ask(api, values, offset, who)
            if meaning in (Meaning.FATAL, Meaning.ABORTABLE):
                return Told(error.name, meaning is Meaning.FATAL, meaning is Meaning.ABORTABLE)
            if self.core.state is ProducerState.INITIALIZING and not asked:
                asked.append(Api.INIT_PRODUCER_ID)
        return Told()

    def _ask(
        self, api: Api, values: tuple[bytes, ...], offset: int, who: GroupIdentity | None
    ) -> tuple[ErrorCode, Meaning]:
        """Send a request until the answer is another than: come again."""
        core = self.core
        for _ in range(MOST_RETRIES):
            answer = self._request(api, values, offset, who)
            meaning = core.receive(api, *answer, partition=self._touched(api), count=len(values))
            if meaning is not Meaning.COME_AGAIN:
                return answer[0], meaning
            self.broker.pause(RETRY_MS)
        return ErrorCode.REQUEST_TIMED_OUT, Meaning.FATAL

    def _touched(self, api: Api) -> TopicPartition | None:
        return self.partition if api in (Api.ADD_PARTITIONS, Api.PRODUCE) else None

    def _request(
        self, api: Api, values: tuple[bytes, ...], offset: int, who: GroupIdentity | None
    ) -> tuple[ErrorCode, int, int]:
        core, broker = self.core, self.broker
        name, identity = core.transactional_id, (core.producer_id, core.epoch)
        if api is Api.INIT_PRODUCER_ID:
            begun = broker.init_producer_id(name, core.timeout_ms, None if core.producer_id < 0 else identity)
            return begun.error, begun.producer_id, begun.producer_epoch
        if api is Api.END_TXN:
            ended = broker.end_transaction(name, *identity, core.state is ProducerState.COMMITTING, core.version)
            return ended.error, ended.producer_id, ended.producer_epoch
        if api is Api.PRODUCE:
            return broker.produce(name, self.partition[0], self._batch(values), core.version), -1, -1
        if api is Api.ADD_PARTITIONS:
            return broker.add_partitions(name, *identity, self.partition), -1, -1
        assert who is not None
        if api is Api.ADD_OFFSETS:
            return broker.add_offsets(name, *identity, who.group), -1, -1
        return broker.commit_offsets(name, *identity, who, self.input, offset, core.version), -1, -1

    def _batch(self, values: tuple[bytes, ...]) -> Batch:
        core = self.core
        return Batch(
            self.partition[1], len(values), core.producer_id, core.epoch, core.next_sequence(self.partition), True, 0, values
        )  # fmt: skip
