"""What a transaction's story may ask of a backend, the model that answers in memory, and the kit's own transactional producer.

There are an input topic that a group reads, an output topic that transactions write to, and a
coordinator. After each call the run looks at all of them, and tells what is new: so the model and the
real broker are told about in the same words, by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

from kitlib.experiments.script import Intervention
from kitlib.mechanisms.broker.append_checks import BatchRefusedError
from kitlib.mechanisms.broker.config import BrokerConfig
from kitlib.mechanisms.broker.entry import SENTINEL, EndTransactionMarker
from kitlib.mechanisms.broker.unified_log import StoredBatch, UnifiedLog
from kitlib.mechanisms.producer.transaction_manager import ProducerState
from kitlib.mechanisms.protocol import Batch, ErrorCode
from kitlib.mechanisms.transactions.coordinator import (
    OFFSETS_TOPIC,
    TransactionCoordinator,
    Transition,
    UnsentMarkers,
)
from kitlib.mechanisms.transactions.metadata import TopicPartition
from kitlib.mechanisms.transactions.offsets import GroupIdentity, GroupOffsets
from kitlib.mechanisms.transactions.producer import Api, Meaning, ProducerMisusedError, TransactionalProducer
from kitlib.mechanisms.transactions.reader import Reader, last_stable_offset

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


Answer = tuple[ErrorCode, int, int]  # an error, and the producer's id and epoch where they are asked for


@dataclass(frozen=True, slots=True)
class Request:
    """What a transactional producer asks of a broker."""

    api: Api
    by: TransactionalProducer  # whose ids, timeout and version it carries
    batch: Batch | None = None  # of Produce
    offset: int = -1  # of TxnOffsetCommit
    group: GroupIdentity | None = None  # of AddOffsetsToTxn and TxnOffsetCommit


@dataclass(slots=True)
class KitTransactionalProducer:
    """The model of the client's states, talking to a model broker or, by the wire, to a real one: a producer for one partition.

    An ordinary client hides its requests, and librdkafka's transactions are of version 1. This one speaks
    version 1 or 2, and can be made to do what no client would: hold a batch back until its transaction has ended.
    """

    name: str
    core: TransactionalProducer
    broker: Any  # ModelTransactions, or its twin on Kafka
    held: list[Batch] = field(default_factory=list)  # batches that are still on their way

    def do(
        self, what: str, records: Sequence[int] = (), hold: bool = False, offset: int = -1, group: GroupIdentity | None = None
    ) -> CallResult:
        """A call of its user: "init", "begin", "send" these records as one batch, "send_offsets" of the group, "commit" or "abort".

        "init" gets a producer id and epoch, which fences whoever had the transactional id. With `hold` the batch is only
        handed to the network, and arrives at `release`.
        """
        core, partition = self.core, (self.broker.topic, PARTITION)
        calls: dict[str, Callable[[], list[Api]]] = {
            "init": core.init_transactions, "begin": core.begin, "send": lambda: core.send(partition),
            "send_offsets": core.send_offsets, "commit": core.commit, "abort": core.abort,
        }  # fmt: skip
        try:
            asked = calls[what]()
        except ProducerMisusedError:
            return CallResult(MISUSED, is_fatal=core.state is ProducerState.FATAL_ERROR)
        while asked:
            api = asked.pop(0)
            batch = self._batch(records) if api is Api.PRODUCE else None
            if batch is not None and hold:
                self.held.append(batch)
                core.receive(api, ErrorCode.NONE, partition=partition, count=batch.count)
                continue
            touched = partition if api in (Api.ADD_PARTITIONS, Api.PRODUCE) else None
            error, meaning = self._ask(Request(api, core, batch, offset, group), touched)
            if meaning in (Meaning.FATAL, Meaning.ABORTABLE):
                return CallResult(error.name, meaning is Meaning.FATAL, meaning is Meaning.ABORTABLE)
            if core.state is ProducerState.INITIALIZING and not asked:
                asked.append(Api.INIT_PRODUCER_ID)
        return CallResult()

    def release(self) -> CallResult:
        """The batches that were held arrive now, with the numbers that they have."""
        told = CallResult()
        for batch in self.held:
            error = self.broker.answer(Request(Api.PRODUCE, self.core, batch))[0]
            told = CallResult(error.name) if error else told
        self.held.clear()
        return told

    def kill(self) -> None:
        """Nothing more comes from it; after `freeze` nothing until `thaw`. It has no process, so there is nothing to do."""

    freeze = thaw = close = kill

    @property
    def identity(self) -> tuple[int, int]:
        """(producer id, epoch) as the client knows them."""
        return self.core.producer_id, self.core.epoch

    def _ask(self, request: Request, touched: TopicPartition | None) -> tuple[ErrorCode, Meaning]:
        """Send a request until the answer is another than: come again."""
        for _ in range(MOST_RETRIES):
            answer: Answer | None = self.broker.carry(self.name, request)
            if answer is not None:  # else the connection is gone: the same request, on another one
                count = request.batch.count if request.batch else 0
                meaning = self.core.receive(request.api, *answer, partition=touched, count=count)
                if meaning is not Meaning.COME_AGAIN:
                    return answer[0], meaning
            self.broker.pass_ms(RETRY_MS)
        return ErrorCode.REQUEST_TIMED_OUT, Meaning.FATAL

    def _batch(self, records: Sequence[int]) -> Batch:
        core, values = self.core, tuple(b"%d" % record for record in records)
        sequence = core.next_sequence((self.broker.topic, PARTITION))
        return Batch(PARTITION, len(values), core.producer_id, core.epoch, sequence, True, 0, values)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there is to be seen at one moment."""

    log: Sequence[StoredBatch]
    lso: int
    high_watermark: int
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
    due: list[tuple[int, UnsentMarkers]] = field(default_factory=list)
    requests: int = 0  # of all producers, so far
    is_down: bool = False  # the broker, which is the coordinator too
    is_gone: bool = False  # and does not come back
    # What a script does to a request, to its answer, and as time goes by.
    done_to: Callable[[str, str, str, int], Intervention | None] = lambda thing, by, api, number: None
    on_time: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.output = UnifiedLog(BrokerConfig(transaction_verification=self.verification))
        self.coordinator = TransactionCoordinator(count().__next__)
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

    def carry(self, by: str, request: Request) -> Answer | None:
        """The answer to a request; None when it is lost, or the request is, or no one will ever be there to ask."""
        if not self._is_up():
            return None
        number = self.requests
        self.requests += 1
        found = self.done_to("request", by, request.api.value, number)
        if found is not None and found.verb == "lose":
            return None
        if found is not None and found.verb == "delay":
            self.pass_ms(found.ms or 0)
        answer = self.answer(request)
        if found is not None and found.verb == "double":
            self.answer(request)
        found = self.done_to("answer", by, request.api.value, number)
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
        return KitTransactionalProducer(name, TransactionalProducer(transactional_id, timeout_ms, version), self)

    def write_plainly(self, records: Sequence[int]) -> CallResult:
        """Records outside of any transaction, on the output topic."""
        if not self._is_up():
            return CallResult(ErrorCode.REQUEST_TIMED_OUT.name)
        self.pass_ms(self.delay_ms)
        self.output.append(Batch(PARTITION, len(records), values=tuple(b"%d" % record for record in records)))
        return CallResult()

    def snapshot(self) -> Snapshot:
        output = self.output
        committed = self.offsets.committed.get(self.input)
        return Snapshot(output.batches, last_stable_offset(output), output.end, self.coordinator.transitions, committed)

    def read(self, isolation: str, position: int) -> tuple[list[tuple[int, int]], int]:
        """(offset, record) of all that a reader of this isolation is given from `position` on, and its position afterwards."""
        reader = Reader(isolation, position)
        found = reader.poll(self.output)
        return [(record.offset, int(record.value or b"-1")) for record in found], reader.position

    def commit_plainly(self, producer: KitTransactionalProducer, offset: int, who: GroupIdentity) -> CallResult:
        """The group's offset, outside of any transaction, by the consumer beside this producer if it is a member."""
        if not self._is_up():
            return CallResult(ErrorCode.REQUEST_TIMED_OUT.name)
        self.pass_ms(self.delay_ms)
        error = self.offsets.commit({self.input: offset}, who)
        return CallResult(error.name if error else "")

    def join(self, producer: KitTransactionalProducer) -> GroupIdentity:
        """The producer's process joins the group and gets the input in a new generation, once whoever had it is out."""
        self.pass_ms(self.delay_ms)
        member = producer.name
        self.offsets.generation += 1 if self.offsets.generation >= 0 else 2
        self.offsets.members = {member}
        return GroupIdentity(self.group, member, self.offsets.generation)

    def write_marker(self, producer_id: int, epoch: int, commit: bool, version: int) -> CallResult:
        """A marker of one's own making arrives at the output topic: late, or by an administrator's hand."""
        self.pass_ms(self.delay_ms)
        marker = EndTransactionMarker(producer_id, epoch, self.coordinator.epoch, commit, version, self.now_ms)
        try:
            self.output.append_marker(marker)
        except BatchRefusedError as refused:
            return CallResult(refused.error.name)
        return CallResult()

    def answer(self, asked: Request) -> Answer:
        """The broker's answer to a producer's request: to a batch it is the leader's, else that of one of the coordinators."""
        self.pass_ms(self.delay_ms)
        by, coordinator = asked.by, self.coordinator
        name, producer_id, epoch = by.transactional_id, by.producer_id, by.epoch
        match asked.api:
            case Api.INIT_PRODUCER_ID:
                given = coordinator.init_producer_id(name, by.timeout_ms, self.now_ms, None if producer_id < 0 else (producer_id, epoch))
                self._work()
                return given.error, given.producer_id, given.producer_epoch
            case Api.END_TXN:
                commits = by.state is ProducerState.COMMITTING
                ended = coordinator.end_transaction(name, producer_id, epoch, commits, self.now_ms, by.version)
                self._work()
                return ended.error, ended.producer_id, ended.producer_epoch
            case Api.PRODUCE:
                assert asked.batch is not None
                error = self._append(name, asked.batch, by.version)
            case Api.ADD_PARTITIONS:
                error = coordinator.add_partitions(name, producer_id, epoch, [(self.topic, PARTITION)], self.now_ms)
            case Api.ADD_OFFSETS:
                error = coordinator.add_partitions(name, producer_id, epoch, [(OFFSETS_TOPIC, GROUP_PARTITION)], self.now_ms)
            case Api.TXN_OFFSET_COMMIT:
                assert asked.group is not None
                error = self._joined(name, producer_id, epoch, (OFFSETS_TOPIC, GROUP_PARTITION), by.version)
                error = error or self.offsets.commit_transactional(producer_id, {self.input: asked.offset}, asked.group)
        return error, -1, -1

    def _append(self, name: str, batch: Batch, version: int) -> ErrorCode:
        place = self.topic, PARTITION
        try:
            guard = self.output.verify(
                batch.producer_id, batch.base_sequence, batch.producer_epoch, self.now_ms, supports_epoch_bump=version >= 2
            )
            is_checked = guard is not SENTINEL and (self.verification or version >= 2)
            if is_checked and (error := self._joined(name, batch.producer_id, batch.producer_epoch, place, version)):
                return error
            self.output.append(batch, guard)
        except BatchRefusedError as refused:
            return refused.error
        return ErrorCode.NONE

    def _joined(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition, version: int
    ) -> ErrorCode:
        """A leader's question to the coordinator: with version 2 the partition joins the transaction by it.

        Source: Apache Kafka 4.3.1, `AddPartitionsToTxnManager`, `ReplicaManager.maybeSendPartitionsToTransactionCoordinator`.
        Differs: a leader that has no verification to ask for adds the partition all the same with version 2.
        """
        if version >= 2:
            error = self.coordinator.add_partitions(transactional_id, producer_id, epoch, [partition], self.now_ms, version)
        else:
            error = self.coordinator.verify_partitions(transactional_id, producer_id, epoch, [partition])[partition]
            if error is ErrorCode.CONCURRENT_TRANSACTIONS:
                error = ErrorCode.NOT_ENOUGH_REPLICAS  # old clients know to come again after that
        return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
