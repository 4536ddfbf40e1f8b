"""What a transaction's story may ask of a backend, the model that answers in memory, and the kit's own transactional producer.

There are an input topic that a group reads, an output topic that transactions write to, and a
coordinator. After each call the run looks at all of them, and tells what is new: so the model and the
real broker are told about in the same words, by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.experiments.interventions import Intervention
from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.entry import SENTINEL, EndTransactionMarker
from kitlib.mechanisms.broker.unified_log import UnifiedLog
from kitlib.mechanisms.producer.transaction_manager import ProducerState
from kitlib.mechanisms.protocol import Batch, ErrorCode, InitProducerIdAnswer
from kitlib.mechanisms.transactions.coordinator import (
    OFFSETS_TOPIC,
    CoordinatorConfig,
    EndTxnAnswer,
    TransactionCoordinator,
    Transition,
    UnsentMarkers,
)
from kitlib.mechanisms.transactions.metadata import TopicPartition
from kitlib.mechanisms.transactions.offsets import GroupIdentity, GroupOffsets
from kitlib.mechanisms.transactions.producer import Api, Meaning, ProducerMisusedError, TransactionalProducer
from kitlib.mechanisms.transactions.reader import Reader, aborted_transactions, last_stable_offset

PARTITION = 0
GROUP_PARTITION = 0  # the model's offsets' topic has one
CHECK_MS = 500  # how often late transactions are looked for, as the kit's broker does
STEP_MS = 20  # how finely time passes while one waits
RETRY_MS = 20  # TransactionManager.ADD_PARTITIONS_RETRY_BACKOFF_MS
MOST_RETRIES = 500
FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED")
MISUSED = "MISUSED"  # the client itself refused the call


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call told its user."""

    error: str = ""  # the error's name; empty for success
    is_fatal: bool = False  # the producer can only be closed
    must_abort: bool = False  # the transaction can only be aborted

    @property
    def is_fenced(self) -> bool:
        """Whether the user was told that its epoch is of the past, and that nothing but the end is left."""
        return self.is_fatal and self.error in FENCED


@dataclass(slots=True)
class NoTransactions:
    """A producer that writes outside of transactions; all that belongs to them is refused."""

    name: str
    identity: tuple[int, int] | None = None

    def init(self) -> CallResult:
        """There is nothing to ask for."""
        return CallResult()

    def begin(self) -> CallResult:
        """Not without a transactional id."""
        return CallResult(MISUSED)

    def send(self, records: Sequence[int], hold: bool = False) -> CallResult:
        """Not here: the run writes its records plainly."""
        return CallResult(MISUSED)

    def send_offsets(self, offset: int, who: GroupIdentity) -> CallResult:
        """Not without a transaction."""
        return CallResult(MISUSED)

    commit = abort = release = begin

    def kill(self) -> None:
        """Nothing more comes from it."""

    freeze = thaw = close = kill


@dataclass(slots=True)
class KitTransactionalProducer:
    """The model of the client's states, talking to a model broker or, by the wire, to a real one: a producer for one partition.

    An ordinary client hides its requests, and librdkafka's transactions are of version 1. This one speaks
    version 1 or 2, and can be made to do what no client would: hold a batch back until its transaction has ended.
    """

    name: str
    core: TransactionalProducer
    broker: Any  # ModelTransactions, or its twin on Kafka
    partition: TopicPartition
    input: TopicPartition  # what the group reads
    held: list[Batch] = field(default_factory=list)  # batches that are still on their way

    def init(self) -> CallResult:
        """A producer id and epoch; fences whoever had the transactional id."""
        return self._do(self.core.init_transactions)

    def begin(self) -> CallResult:
        return self._do(self.core.begin)

    def send(self, records: Sequence[int], hold: bool = False) -> CallResult:
        """One batch of records. With `hold` it is only handed to the network, and arrives at `release`."""
        return self._do(
            lambda: self.core.send(self.partition), values=tuple(b"%d" % record for record in records), hold=hold
        )

    def send_offsets(self, offset: int, who: GroupIdentity) -> CallResult:
        """The group's position, as a part of this transaction."""
        return self._do(self.core.send_offsets, offset=offset, who=who)

    def commit(self) -> CallResult:
        return self._do(self.core.commit)

    def abort(self) -> CallResult:
        return self._do(self.core.abort)

    def release(self) -> CallResult:
        """The batches that were held arrive now, with the numbers that they have."""
        told = CallResult()
        for batch in self.held:
            error = self.broker.produce(self.core.transactional_id, self.partition[0], batch, self.core.version)
            told = CallResult(error.name) if error else told
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
    ) -> CallResult:
        try:
            asked = list(call())  # type: ignore[operator]
        except ProducerMisusedError:
            return CallResult(MISUSED, is_fatal=self.core.state is ProducerState.FATAL_ERROR)
        while asked:
            api = asked.pop(0)
            if api is Api.PRODUCE and hold:
                self.held.append(self._batch(values))
                self.core.receive(api, ErrorCode.NONE, partition=self.partition, count=len(values))
                continue
            error, meaning = self._ask(api, values, offset, who)
            if meaning in (Meaning.FATAL, Meaning.ABORTABLE):
                return CallResult(error.name, meaning is Meaning.FATAL, meaning is Meaning.ABORTABLE)
            if self.core.state is ProducerState.INITIALIZING and not asked:
                asked.append(Api.INIT_PRODUCER_ID)
        return CallResult()

    def _ask(
        self, api: Api, values: tuple[bytes, ...], offset: int, who: GroupIdentity | None
    ) -> tuple[ErrorCode, Meaning]:
        """Send a request until the answer is another than: come again."""
        core = self.core
        for _ in range(MOST_RETRIES):
            answer: tuple[ErrorCode, int, int] | None = self.broker.carry(self.name, api, lambda: self._request(api, values, offset, who))
            if answer is None:  # the connection is gone: the same request, on another one
                self.broker.pass_ms(RETRY_MS)
                continue
            meaning = core.receive(api, *answer, partition=self._touched(api), count=len(values))
            if meaning is not Meaning.COME_AGAIN:
                return answer[0], meaning
            self.broker.pass_ms(RETRY_MS)
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


Producer = KitTransactionalProducer | NoTransactions  # on a real broker also its own


@dataclass(frozen=True, slots=True)
class LogBatch:
    """One batch of the output topic: records, or a marker."""

    first: int
    last: int
    producer_id: int  # -1 for records outside of transactions
    epoch: int
    records: tuple[int, ...]
    kind: str | None = None  # "COMMIT" or "ABORT"; None for records


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there is to be seen at one moment."""

    log: Sequence[LogBatch]
    lso: int
    high_watermark: int
    aborted: Sequence[tuple[int, int, int]]  # (producer id, first offset, marker's offset)
    transitions: Sequence[Transition]  # of the coordinator, all so far
    committed_input: int | None  # the group's committed offset


@dataclass(slots=True)
class ModelTransactions:
    """One run's topics, group and coordinator: one broker in memory, virtual time, to which the kit's producer talks.

    On a real broker `on_kafka` takes its place.
    """

    on_kafka: ClassVar[str] = "kitlib.experiments.transactions.kafka_transactions:KafkaTransactions"

    delay_ms: int = 5  # of each request with its answer
    marker_delay_ms: int = 0  # from the decision to the markers
    verification: bool = True  # transaction.partition.verification.enable
    kit_client: bool = False  # a story needs the kit's own client even for version 1; the model has no other
    now_ms: int = 0  # since the run began
    output: UnifiedLog = field(init=False)
    coordinator: TransactionCoordinator = field(init=False)
    offsets: GroupOffsets = field(init=False)
    checked_ms: int = 0
    producer_ids: int = 0
    due: list[tuple[int, UnsentMarkers]] = field(default_factory=list)
    requests: int = 0  # of all producers, so far
    is_down: bool = False  # the broker, which is the coordinator too
    is_gone: bool = False  # and does not come back
    # What a script does to a request, to its answer, and as time goes by.
    done_to: Callable[[str, str, str, int], Intervention | None] = lambda thing, by, api, number: None
    on_time: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.output = UnifiedLog(BrokerConfig(transaction_verification=self.verification))
        self.coordinator = TransactionCoordinator(self._new_id, CoordinatorConfig())
        self.offsets = GroupOffsets(self.group)

    @property
    def topic(self) -> str:
        return "output"

    @property
    def group(self) -> str:
        """Whose offsets of the input are committed."""
        return "group"

    @property
    def input(self) -> TopicPartition:
        return "input", PARTITION

    def _new_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids - 1

    def pass_ms(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + STEP_MS)
            self._work()
            self.on_time()

    def _work(self) -> None:
        """What the broker does by itself: look for late transactions, write markers that are due."""
        if self.is_down:
            return
        if self.now_ms - self.checked_ms >= CHECK_MS:
            self.checked_ms = self.now_ms
            self.coordinator.abort_timed_out(self.now_ms)
        known = [sending for _, sending in self.due]
        self.due += [
            (self.now_ms + self.marker_delay_ms, each) for each in self.coordinator.unsent if each not in known
        ]
        for at_ms, sending in list(self.due):
            if at_ms <= self.now_ms:
                self.due.remove((at_ms, sending))
                self._write_markers(sending)

    def _write_markers(self, sending: UnsentMarkers) -> None:
        for partition in sorted(sending.partitions):
            if partition[0] == OFFSETS_TOPIC:
                self.offsets.end_transaction(sending.marker.producer_id, sending.marker.is_commit)
            else:
                try:
                    self.output.append_marker(sending.marker)
                except BatchRefusedError:  # a coordinator gives up on a partition that has a newer epoch
                    pass
            self.coordinator.marker_written(sending, partition)

    def _spend(self) -> None:
        self.pass_ms(self.delay_ms)

    def carry(self, by: str, api: Api, ask: Callable[[], tuple[ErrorCode, int, int]]) -> tuple[ErrorCode, int, int] | None:
        """The answer to a request; None when it is lost, or the request is, or no one will ever be there to ask."""
        if not self._is_up():
            return None
        number = self.requests
        self.requests += 1
        found = self.done_to("request", by, api.value, number)
        if found is not None and found.verb == "lose":
            return None
        if found is not None and found.verb == "delay":
            self.pass_ms(found.ms or 0)
        answer = ask()
        if found is not None and found.verb == "double":
            ask()
        found = self.done_to("answer", by, api.value, number)
        if found is not None and found.verb == "delay":
            self.pass_ms(found.ms or 0)
        return None if found is not None and found.verb == "lose" else answer

    def _is_up(self) -> bool:
        """Wait for the broker as a client does; False when it does not come back."""
        while self.is_down and not self.is_gone:
            self.pass_ms(RETRY_MS)
        return not self.is_down

    def start(self, name: str, transactional_id: str, timeout_ms: int, version: int) -> KitTransactionalProducer:
        """A new producer, without an id yet."""
        core = TransactionalProducer(transactional_id, timeout_ms, version)
        return KitTransactionalProducer(name, core, self, (self.topic, PARTITION), self.input)

    def write_plainly(self, records: Sequence[int]) -> CallResult:
        """Records outside of any transaction, on the output topic."""
        if not self._is_up():
            return CallResult(ErrorCode.REQUEST_TIMED_OUT.name)
        self._spend()
        self.output.append(Batch(PARTITION, len(records), values=tuple(b"%d" % record for record in records)))
        return CallResult()

    def snapshot(self) -> Snapshot:
        log = [
            LogBatch(
                stored.base_offset, stored.last_offset, stored.batch.producer_id, stored.batch.producer_epoch,
                tuple(map(int, stored.batch.values)),
                None if stored.marker is None else "COMMIT" if stored.marker.is_commit else "ABORT",
            )
            for stored in self.output.batches
        ]  # fmt: skip
        aborted = [
            (each.producer_id, each.first_offset, each.last_offset)
            for each in aborted_transactions(self.output.batches)
        ]
        committed = self.offsets.committed.get(self.input)
        return Snapshot(
            log, last_stable_offset(self.output), self.output.end, aborted, self.coordinator.transitions, committed
        )

    def read(self, isolation: str, position: int) -> tuple[list[tuple[int, int]], int]:
        """(offset, record) of all that a reader of this isolation is given from `position` on, and its position afterwards."""
        reader = Reader(isolation, position)
        found = reader.poll(self.output)
        return [(record.offset, int(record.value or b"-1")) for record in found], reader.position

    def commit_plainly(self, producer: Producer, offset: int, who: GroupIdentity) -> CallResult:
        """The group's offset, outside of any transaction, by the consumer beside this producer if it is a member."""
        if not self._is_up():
            return CallResult(ErrorCode.REQUEST_TIMED_OUT.name)
        self._spend()
        error = self.offsets.commit({self.input: offset}, who)
        return CallResult(error.name if error else "")

    def join(self, producer: Producer) -> GroupIdentity:
        """The producer's process joins the group and gets the input in a new generation, once whoever had it is out."""
        self._spend()
        member = producer.name
        self.offsets.generation += 1 if self.offsets.generation >= 0 else 2
        self.offsets.members = {member}
        return GroupIdentity(self.group, member, self.offsets.generation)

    def write_marker(self, producer_id: int, epoch: int, commit: bool, version: int) -> CallResult:
        """A marker of one's own making arrives at the output topic: late, or by an administrator's hand."""
        self._spend()
        marker = EndTransactionMarker(producer_id, epoch, self.coordinator.epoch, commit, version, self.now_ms)
        try:
            self.output.append_marker(marker)
        except BatchRefusedError as refused:
            return CallResult(refused.error.name)
        return CallResult()

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None
    ) -> InitProducerIdAnswer:
        self._spend()
        answer = self.coordinator.init_producer_id(transactional_id, timeout_ms, self.now_ms, expected)
        self._work()
        return answer

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """As the coordinator's, for a client of version 1."""
        self._spend()
        return self.coordinator.add_partitions(transactional_id, producer_id, epoch, [partition], self.now_ms)

    def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> ErrorCode:
        """As the coordinator's, for a client of version 1."""
        self._spend()
        return self.coordinator.add_offsets(transactional_id, producer_id, epoch, GROUP_PARTITION, self.now_ms)

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
        self._spend()
        error = self._joined(transactional_id, producer_id, epoch, (OFFSETS_TOPIC, GROUP_PARTITION), version)
        return error or self.offsets.commit_transactional(producer_id, {partition: offset}, who)

    def produce(self, transactional_id: str, topic: str, batch: Batch, version: int) -> ErrorCode:
        """One transactional batch."""
        self._spend()
        try:
            guard = self.output.verify(
                batch.producer_id,
                batch.base_sequence,
                batch.producer_epoch,
                self.now_ms,
                supports_epoch_bump=version >= 2,
            )
            if guard is not SENTINEL and (self.verification or version >= 2):
                error = self._joined(
                    transactional_id, batch.producer_id, batch.producer_epoch, (topic, batch.partition), version
                )
                if error:
                    return error
            self.output.append(batch, guard)
        except BatchRefusedError as refused:
            return refused.error
        return ErrorCode.NONE

    def verify(self, transactional_id: str, producer_id: int, epoch: int) -> ErrorCode:
        """What the coordinator tells a leader that asks about the output's partition."""
        place = (self.topic, PARTITION)
        return self.coordinator.verify_partitions(transactional_id, producer_id, epoch, [place])[place]

    def _joined(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition, version: int
    ) -> ErrorCode:
        """A leader's question to the coordinator: with version 2 the partition joins the transaction by it.

        Source: Apache Kafka 4.3.1, `AddPartitionsToTxnManager`, `ReplicaManager.maybeSendPartitionsToTransactionCoordinator`.
        Differs: a leader that has no verification to ask for adds the partition all the same with version 2.
        """
        if version >= 2:
            error = self.coordinator.add_partitions(
                transactional_id, producer_id, epoch, [partition], self.now_ms, version
            )
        else:
            error = self.coordinator.verify_partitions(transactional_id, producer_id, epoch, [partition])[partition]
            if error is ErrorCode.CONCURRENT_TRANSACTIONS:
                error = ErrorCode.NOT_ENOUGH_REPLICAS  # old clients know to come again after that
        return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error

    def end_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, version: int
    ) -> EndTxnAnswer:
        self._spend()
        answer = self.coordinator.end_transaction(transactional_id, producer_id, epoch, commit, self.now_ms, version)
        self._work()
        return answer
