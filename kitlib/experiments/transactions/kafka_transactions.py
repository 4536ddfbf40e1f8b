"""A transaction's experiment on a real broker: real producers, the log and the coordinator's own log read by the wire.

Transactions of version 1 are librdkafka's, each producer a child process. librdkafka does not speak version 2,
so those, and whatever no ordinary client would do, are the kit's own client by the wire, which is the model's client
with real answers. What there is to see is read from the broker alone: the log with its markers, the last stable offset, and every
step of the coordinator from `__transaction_state`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, TopicReader, consume_to_end, create_topic
from kitlib.experiments.transactions.model_transactions import (
    PARTITION,
    Answer,
    CallResult,
    KitTransactionalProducer,
    Request,
    Snapshot,
)
from kitlib.lab import created_resources
from kitlib.lab.brokers.settings import broker_setting
from kitlib.lab.client_processes.producer import ProducerProcess
from kitlib.lab.clients import Cluster, client_config, kafka_python_config, must_be_own
from kitlib.lab.processes import wait_until
from kitlib.lab.wire.connection import Wire
from kitlib.lab.wire.coordinator import (
    GROUP,
    PRODUCE,
    STATE_TOPIC,
    TRANSACTION,
    CoordinatorWire,
    find_coordinator,
    state_records,
)
from kitlib.lab.wire.records import FetchedBatch, WireBatch
from kitlib.mechanisms.broker.entry import EndTransactionMarker
from kitlib.mechanisms.broker.unified_log import StoredBatch
from kitlib.mechanisms.producer.transaction_manager import ProducerState
from kitlib.mechanisms.protocol import Batch, ErrorCode
from kitlib.mechanisms.transactions.coordinator import Transition
from kitlib.mechanisms.transactions.metadata import TopicPartition as Place
from kitlib.mechanisms.transactions.metadata import TransactionState
from kitlib.mechanisms.transactions.offsets import GroupIdentity
from kitlib.mechanisms.transactions.producer import Api, TransactionalProducer
from kitlib.more.hashes import group_partition

VERIFICATION = "transaction.partition.verification.enable"
SESSION_MS = 3_000  # a member that lives is not late for that long, one that is dead is waited for
COMMIT_KEY = b"\x00\x00\x00\x01"  # of a marker's record; else it aborts


@dataclass(slots=True)
class LibrdkafkaTransactionalProducer:
    """One producer of librdkafka in a process of its own."""

    identity: ClassVar[None] = None  # it does not tell: the coordinator's log does

    name: str
    process: ProducerProcess
    topic: str
    input: str

    def do(
        self, what: str, records: Sequence[int] = (), hold: bool = False, offset: int = -1, group: GroupIdentity | None = None
    ) -> CallResult:
        """As the kit's own producer, and "commit_offsets" and "join" of the consumer beside it."""
        assert not hold, "stories that hold a batch back are told to the kit's own client"
        more: dict[str, Any] = {}
        if what == "send":
            more = {"topic": self.topic, "records": list(records)}
        elif what in ("send_offsets", "commit_offsets"):
            more = {"topic": self.input, "offset": offset}
        told = self.process.do(what, **more)
        return CallResult(told["error"], told["fatal"], told["must_abort"])

    def kill(self) -> None:
        self.process.kill()

    close = kill

    def freeze(self) -> None:
        self.process.freeze()

    def thaw(self) -> None:
        self.process.thaw()


RealProducer = KitTransactionalProducer | LibrdkafkaTransactionalProducer


@dataclass(slots=True)
class KafkaTransactions:
    """The twin of `ModelTransactions`: a run's topics on a real broker."""

    run: str
    cluster: Cluster
    wire: Wire  # to the output's leader
    kit_client: bool  # whether a story needs the kit's own client even for version 1
    began_s: float = field(default_factory=time.monotonic)
    producers: list[RealProducer] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)  # transactional ids of this run
    steps: list[Transition] = field(default_factory=list)
    state_read_to: dict[int, int] = field(default_factory=dict)  # partition of __transaction_state -> next offset
    log: list[StoredBatch] = field(default_factory=list)
    coordinators: dict[tuple[int, str], CoordinatorWire] = field(default_factory=dict)  # by (kind, transactional id or group)
    state_partitions: int = 0  # of __transaction_state; 0: not asked for yet
    settings: ExitStack = field(default_factory=ExitStack)
    members: int = 0

    @classmethod
    def open(
        cls, backend: KafkaBackend, marker_delay_ms: int = 0, verification: bool = True, kit_client: bool = False
    ) -> KafkaTransactions:
        """Create the topics; markers take as long as they take. LabError when the broker does not do what is asked for."""
        run = backend.run
        if not verification:
            must_be_own(backend.cluster, "a run with verification=false, a setting of the broker")
        for topic in (source := f"kit.{run}.input", output := f"kit.{run}.output"):
            create_topic(backend.admin, topic, 1, {"retention.ms": "-1"})
        TopicReader.open(backend.cluster, source).close()  # it has a leader
        place = cls(run, backend.cluster, TopicReader.open(backend.cluster, output).wire, kit_client)
        try:
            created_resources.remember("group", place.group)
            place.coordinator(place.group, GROUP)
            if not verification:
                place.settings.enter_context(broker_setting(backend.cluster, VERIFICATION, "false"))
        except BaseException:
            place.close()
            raise
        return place

    @property
    def topic(self) -> str:
        return f"kit.{self.run}.output"

    @property
    def input(self) -> Place:
        return f"kit.{self.run}.input", PARTITION

    @property
    def group(self) -> str:
        return f"kit.{self.run}.group"

    def coordinator(self, key: str, kind: int = TRANSACTION) -> CoordinatorWire:
        """A connection to the coordinator of a transactional id (or GROUP), which stays open. LabError when none answers in time."""
        if (kind, key) not in self.coordinators:
            _, host, port = find_coordinator(self.cluster, key, DEADLINE_S, kind)
            known = {wire.where: wire for wire in self.coordinators.values()}
            found = known.get(f"{host}:{port}")
            security = kafka_python_config(self.cluster)
            self.coordinators[kind, key] = found or CoordinatorWire.open(host, port, f"kit-{self.run}", DEADLINE_S, **security)
        return self.coordinators[kind, key]

    @property
    def now_ms(self) -> int:
        return int((time.monotonic() - self.began_s) * 1000)

    def pass_ms(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def carry(self, by: str, request: Request) -> Answer:
        return self.answer(request)

    def start(self, name: str, transactional_id: str, timeout_ms: int, version: int) -> RealProducer:
        if transactional_id not in self.ids:
            self.coordinator(transactional_id)
            self.ids.append(transactional_id)
        producer: RealProducer
        if version >= 2 or self.kit_client:
            producer = KitTransactionalProducer(name, TransactionalProducer(transactional_id, timeout_ms, version), self)
        else:
            process = ProducerProcess.start(name, self._settings(transactional_id, timeout_ms))
            producer = LibrdkafkaTransactionalProducer(name, process, self.topic, self.input[0])
        self.producers.append(producer)
        return producer

    def _settings(self, transactional_id: str, timeout_ms: int) -> dict[str, Any]:
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0, "log_level": 0,
               "message.timeout.ms": min(timeout_ms, 10_000), "socket.timeout.ms": min(timeout_ms, 10_000)}  # fmt: skip
        group = {"group.id": self.group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0,
                 "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}  # fmt: skip
        return {
            "producer": client_config(self.cluster, **own),
            "consumer": client_config(self.cluster, **group),
            "input": self.input[0],
        }

    def write_plainly(self, records: Sequence[int]) -> CallResult:
        batch = WireBatch(PARTITION, [b"%d" % record for record in records])
        error = self.wire.produce(self.topic, [batch])[PARTITION][0]
        return CallResult(ErrorCode.of(error).name if error else "")

    def snapshot(self) -> Snapshot:
        """Read on in the log and in the coordinator's, once no marker is on its way any more, and at one moment."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            wait_until(self._is_quiet, DEADLINE_S, "the coordinator has written its markers")
            steps = len(self.steps)
            end = self._read_log()
            lso = self.wire.list_offsets(self.topic, PARTITION, committed=True)
            if self._is_quiet() and len(self.steps) == steps:
                break
            if time.monotonic() > deadline:
                raise LabError(
                    f"{self.topic}: the coordinator is still writing, expected it to be idle within {DEADLINE_S:g} s. Look at `kit status`."
                )
        error, committed = self.coordinator(self.group, GROUP).fetch_offsets(self.group, [self.input], require_stable=False)
        if error:
            raise LabError(
                f"{self.group}: the broker answers {ErrorCode.of(error).name} to OffsetFetch. Look at `kit status`."
            )
        return Snapshot(self.log, lso, end, self.steps, None if committed[self.input] < 0 else committed[self.input])

    def _read_log(self) -> int:
        """Read on in the output's log; where it ends now."""
        at = self.log[-1].last_offset + 1 if self.log else 0
        self.log += map(_stored, self.wire.read_on(self.topic, PARTITION, at))
        return self.log[-1].last_offset + 1 if self.log else 0

    def _is_quiet(self) -> bool:
        self._read_steps()
        latest = {step.transactional_id: step.state for step in self.steps}
        return not any(state.is_preparing for state in latest.values())

    def _read_steps(self) -> None:
        if self.ids and not self.state_partitions:
            self.state_partitions = len(self.wire.metadata([STATE_TOPIC]).topics[STATE_TOPIC][1])
        of_partition = {group_partition(name, self.state_partitions): name for name in self.ids}
        for partition, name in sorted(of_partition.items()):  # a partition's leader coordinates its ids
            at = self.state_read_to.get(partition, 0)
            batches = self.coordinator(name).read_on(STATE_TOPIC, partition, at)
            for offset, whose, state, producer_id, epoch in state_records(batches):
                if offset >= at and whose in self.ids:
                    self.steps.append(Transition(whose, TransactionState(state), producer_id, epoch))
            self.state_read_to[partition] = batches[-1].last_offset + 1 if batches else at

    def read(self, isolation: str, position: int) -> tuple[list[tuple[int, int]], int]:
        """What librdkafka's consumer is given, up to the end that the broker shows to it."""
        settings = {"group.id": f"{self.group}.reader", "isolation.level": isolation, "enable.partition.eof": True,
                    "enable.auto.commit": False, "auto.offset.reset": "error", "fetch.wait.max.ms": 20}  # fmt: skip
        with closing(Consumer(client_config(self.cluster, **settings))) as reader:
            messages, ends = consume_to_end(reader, [TopicPartition(self.topic, PARTITION, position)], f"the {isolation} reader")
        return [(int(message.offset() or 0), int(message.value() or b"-1")) for message in messages], ends[PARTITION]

    def commit_plainly(self, producer: RealProducer, offset: int, who: GroupIdentity) -> CallResult:
        if who.member and isinstance(producer, LibrdkafkaTransactionalProducer):
            return producer.do("commit_offsets", offset=offset)
        with closing(Consumer(client_config(self.cluster, **{"group.id": self.group, "enable.auto.commit": False}))) as committer:
            try:
                committer.commit(offsets=[TopicPartition(*self.input, offset)], asynchronous=False)
            except KafkaException as error:
                return CallResult(error.args[0].name())
        return CallResult()

    def join(self, producer: RealProducer) -> GroupIdentity:
        if not isinstance(producer, LibrdkafkaTransactionalProducer):
            raise KnobError(
                "the kit's own client joins no real group: use version='1' (librdkafka), or generation=false."
            )
        producer.do("join")
        self.members += 1
        return GroupIdentity(self.group, producer.name, self.members)

    def write_marker(self, producer_id: int, epoch: int, commit: bool, version: int) -> CallResult:
        # A coordinator's epoch grows with each start of its broker, and a marker of an older one is refused.
        known = {each.producer_id: each.coordinator_epoch for each in self.wire.describe_producers(self.topic, PARTITION)}
        coordinator_epoch = max(0, known.get(producer_id, 0))
        error = self.wire.write_txn_markers(self.topic, PARTITION, producer_id, epoch, commit, coordinator_epoch, version)
        return CallResult(ErrorCode.of(error).name if error else "")

    def close(self) -> None:
        with ExitStack() as rest:  # one that does not end leaves the others no later
            for wire in (self.wire, *self.coordinators.values()):
                rest.callback(wire.close)
            rest.callback(self.settings.close)
            for producer in self.producers:
                rest.callback(producer.close)

    def answer(self, asked: Request) -> Answer:
        by, batch, group = asked.by, asked.batch, asked.group
        name, identity = by.transactional_id, (by.producer_id, by.epoch)
        coordinator = self.coordinator(name)
        given: Sequence[int] = (-1, -1)
        match asked.api:
            case Api.INIT_PRODUCER_ID:
                error, *given = coordinator.init_transactional_id(name, by.timeout_ms, *identity)
            case Api.END_TXN:
                error, *given = coordinator.end_transaction(name, *identity, by.state is ProducerState.COMMITTING, by.version)
            case Api.PRODUCE:
                assert batch is not None
                sent = WireBatch(PARTITION, batch.values, batch.producer_id, batch.producer_epoch, batch.base_sequence, None, True)
                answers = self.wire.produce(self.topic, [sent], transactional_id=name, version=PRODUCE[by.version])
                error = answers[PARTITION][0]
            case Api.ADD_PARTITIONS:
                error = coordinator.add_partition(name, *identity, self.topic, PARTITION)
            case Api.ADD_OFFSETS:
                error = coordinator.add_offsets(name, *identity, self.group)
            case Api.TXN_OFFSET_COMMIT:
                assert group is not None
                error = self.coordinator(self.group, GROUP).commit_offset(
                    name, *identity, self.group, self.input[0], asked.offset, group.member, group.generation, by.version
                )
        return ErrorCode.of(error), given[0], given[1]


def _stored(batch: FetchedBatch) -> StoredBatch:
    """A batch of the real log as the model's has it."""
    marker, values = None, tuple(batch.values)
    if batch.is_control:
        marker, values = EndTransactionMarker(batch.producer_id, batch.epoch, 0, batch.records[0][2] == COMMIT_KEY), ()
    count = batch.last_offset - batch.base_offset + 1
    return StoredBatch(batch.base_offset, Batch(PARTITION, count, batch.producer_id, batch.epoch, values=values), marker)
