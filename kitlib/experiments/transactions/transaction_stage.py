"""Where a transaction's experiment takes place: what a story may ask of it, and the model that answers in memory.

There are an input topic that a group reads, an output topic that transactions write to, and a
coordinator. After each call the run looks at all of them, and tells what is new: so the model and the
real broker are told about in the same words, by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kitlib.experiments.transactions.transaction_client import KitTransactionalProducer, Told
from kitlib.kafka.broker.append_checks import BatchRefusedError
from kitlib.kafka.broker.config import BrokerConfig
from kitlib.kafka.broker.entry import SENTINEL, EndTransactionMarker
from kitlib.kafka.broker.unified_log import UnifiedLog
from kitlib.kafka.protocol import Batch, ErrorCode, InitProducerIdAnswer
from kitlib.kafka.transactions.coordinator import (
    OFFSETS_TOPIC,
    CoordinatorConfig,
    EndTxnAnswer,
    TransactionCoordinator,
    Transition,
    UnsentMarkers,
)
from kitlib.kafka.transactions.metadata import TopicPartition
from kitlib.kafka.transactions.offsets import GroupIdentity, GroupOffsets
from kitlib.kafka.transactions.producer import TransactionalProducer
from kitlib.kafka.transactions.reader import Reader, aborted_transactions, last_stable_offset

PARTITION = 0
GROUP_PARTITION = 0  # the model's offsets' topic has one
CHECK_MS = 500  # how often late transactions are looked for, as the kit's broker does
STEP_MS = 20  # how finely time passes while one waits


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
class Look:
    """What there is to be seen at one moment."""

    log: Sequence[LogBatch]
    lso: int
    high_watermark: int
    aborted: Sequence[tuple[int, int, int]]  # (producer id, first offset, marker's offset)
    transitions: Sequence[Transition]  # of the coordinator, all so far
    committed_input: int | None  # the group's committed offset


class TxProducer(Protocol):
    """One transactional producer, whoever it is."""

    name: str

    @property
    def identity(self) -> tuple[int, int] | None:
        """(producer id, epoch), if that is known."""
        ...

    def init(self) -> Told: ...
    def begin(self) -> Told: ...
    def send(self, records: Sequence[int], hold: bool = False) -> Told: ...
    def send_offsets(self, offset: int, who: GroupIdentity) -> Told: ...
    def commit(self) -> Told: ...
    def abort(self) -> Told: ...
    def release(self) -> Told: ...
    def kill(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def close(self) -> None: ...


class TransactionStage(Protocol):
    """One run's topics, group and coordinator."""


    @property
    def topic(self) -> str:
        """The output."""
        ...

    @property
    def group(self) -> str:
        """Whose offsets of the input are committed."""
        ...

    @property
    def now_ms(self) -> int:
        """Since the run began."""
        ...

    def pass_ms(self, ms: int) -> None:
        """Let time pass."""
        ...

    def wait_until(self, condition: Callable[[], bool], most_ms: int) -> bool:
        """Let time pass until it holds; whether it did within `most_ms`."""
        ...

    def start(self, name: str, transactional_id: str, timeout_ms: int, version: int) -> TxProducer:
        """A new producer, without an id yet."""
        ...

    def write_plainly(self, records: Sequence[int]) -> Told:
        """Records outside of any transaction, on the output topic."""
        ...

    def look(self) -> Look:
        """What there is now."""
        ...

    def read(self, isolation: str, position: int) -> tuple[list[tuple[int, int]], int]:
        """(offset, record) of all that a reader of this isolation is given from `position` on, and its position afterwards."""
        ...

    def commit_plainly(self, producer: TxProducer, offset: int, who: GroupIdentity) -> Told:
        """The group's offset, outside of any transaction, by the consumer beside this producer if it is a member."""
        ...

    def join(self, producer: TxProducer) -> GroupIdentity:
        """The producer's process joins the group and gets the input in a new generation, once whoever had it is out."""
        ...

    def write_marker(self, producer_id: int, epoch: int, commit: bool, version: int) -> Told:
        """A marker of one's own making arrives at the output topic: late, or by an administrator's hand."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


@dataclass(slots=True)
class ModelTransactions:
    """The model: one broker in memory, virtual time. It is the broker that the kit's producer talks to, too."""

    run: str
    delay_ms: int = 5  # of each request with its answer
    marker_delay_ms: int = 0  # from the decision to the markers
    verification: bool = True  # transaction.partition.verification.enable
    max_timeout_ms: int = 900_000
    now_ms: int = 0
    output: UnifiedLog = field(init=False)
    coordinator: TransactionCoordinator = field(init=False)
    offsets: GroupOffsets = field(init=False)
    checked_ms: int = 0
    producer_ids: int = 0
    due: list[tuple[int, UnsentMarkers]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output = UnifiedLog(BrokerConfig(transaction_verification=self.verification))
        self.coordinator = TransactionCoordinator(self._new_id, CoordinatorConfig(max_timeout_ms=self.max_timeout_ms))
        self.offsets = GroupOffsets(self.group)

    @property
    def topic(self) -> str:
        return "output"

    @property
    def group(self) -> str:
        return "group"

    @property
    def input(self) -> TopicPartition:
        """What the group reads."""
        return "input", PARTITION

    def _new_id(self) -> int:
        self.producer_ids += 1
        return self.producer_ids - 1

    # -- time ---------------------------------------------------------------------------------------------

    def pass_ms(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + STEP_MS)
            self._work()

    def pause(self, ms: int) -> None:
        self.pass_ms(ms)

    def wait_until(self, condition: Callable[[], bool], most_ms: int) -> bool:
        end_ms = self.now_ms + most_ms
        while not condition():
            if self.now_ms >= end_ms:
                return False
            self.pass_ms(STEP_MS)
        return True

    def _work(self) -> None:
        """What the broker does by itself: look for late transactions, write markers that are due."""
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

    # -- what a story asks ------------------------------------------------------------------------------------

    def start(self, name: str, transactional_id: str, timeout_ms: int, version: int) -> KitTransactionalProducer:
        core = TransactionalProducer(transactional_id, timeout_ms, version)
        return KitTransactionalProducer(name, core, self, (self.topic, PARTITION), self.input)

    def write_plainly(self, records: Sequence[int]) -> Told:
        self._spend()
        self.output.append(Batch(PARTITION, len(records), values=tuple(b"%d" % record for record in records)))
        return Told()

    def look(self) -> Look:
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
        return Look(
            log, last_stable_offset(self.output), self.output.end, aborted, self.coordinator.transitions, committed
        )

    def read(self, isolation: str, position: int) -> tuple[list[tuple[int, int]], int]:
        reader = Reader(isolation, position)
        found = reader.poll(self.output)
        return [(record.offset, int(record.value or b"-1")) for record in found], reader.position

    def commit_plainly(self, producer: TxProducer, offset: int, who: GroupIdentity) -> Told:
        self._spend()
        error = self.offsets.commit({self.input: offset}, who)
        return Told(error.name if error else "")

    def join(self, producer: TxProducer) -> GroupIdentity:
        self._spend()
        member = producer.name
        self.offsets.generation += 1 if self.offsets.generation >= 0 else 2
        self.offsets.members = {member}
        return GroupIdentity(self.group, member, self.offsets.generation)

    def write_marker(self, producer_id: int, epoch: int, commit: bool, version: int) -> Told:
        self._spend()
        marker = EndTransactionMarker(producer_id, epoch, self.coordinator.epoch, commit, version, self.now_ms)
        try:
            self.output.append_marker(marker)
        except BatchRefusedError as refused:
            return Told(refused.error.name)
        return Told()

    def close(self) -> None:
        """Nothing to let go of."""

    # -- the broker, as the kit's producer asks it ------------------------------------------------------------------

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
        self._spend()
        return self.coordinator.add_partitions(transactional_id, producer_id, epoch, [partition], self.now_ms)

    def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> ErrorCode:
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
        self._spend()
        error = self._joined(transactional_id, producer_id, epoch, (OFFSETS_TOPIC, GROUP_PARTITION), version)
        return error or self.offsets.commit_transactional(producer_id, {partition: offset}, who)

    def produce(self, transactional_id: str, topic: str, batch: Batch, version: int) -> ErrorCode:
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
