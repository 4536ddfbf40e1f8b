"""What happens between the user's `send` and the wire: metadata, partition, memory, batch, and the sender's loop.

`send` returns at once when the topic is known and there is memory; otherwise it blocks, for both
together at most max.block.ms. What it returns is no delivery: the record lies in a batch, and the
sender's loop takes it from there. The two sides share the metadata, the queues and the memory, and one
signal: the user's side wakes the loop when metadata is wanted, a batch is new, or one is full.

A call that blocks is a `Sending` here, to be asked again by `advance` whenever something has happened.

Two reasons to send sooner than `linger.ms` and the backoff say (`PooledAccumulator`): a caller waits for memory,
so every batch goes as it is; and a retry whose partition has a newer leader than at its last attempt goes at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kitlib.errors import KnobError
from kitlib.mechanisms.producer.accumulator import RecordAccumulator
from kitlib.mechanisms.producer.batch import ProducerBatch, batch_upper_bound
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.earlier import EarlierAccumulator
from kitlib.mechanisms.producer.exceptions import TIMEOUT
from kitlib.mechanisms.producer.sender import Completion, InFlightRequest, Sender, SenderEvent
from kitlib.mechanisms.protocol import (
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceRequest,
    record_bytes,
)
from kitlib.more.client.backoff import MIDDLE
from kitlib.more.client.buffer_pool import Allocation, BufferPool
from kitlib.more.client.cluster import Node
from kitlib.more.client.connections import MAX_LONG, ClusterConnectionStates
from kitlib.more.client.metadata import RELEASES, Metadata, MetadataWait, producer_metadata
from kitlib.more.client.network_client import MAX_INT, InFlight, NetworkClient, SelectTimeout
from kitlib.more.client.partitioner import BuiltInPartitioner, RoundRobinPartitioner, partition_of_key


@dataclass(frozen=True, slots=True)
class SendConfig:
    """The settings of the whole path, under Kafka's names. Times in ms, sizes in bytes.

    Source: Apache Kafka 4.3.1, `ProducerConfig`; 0.10.1.0 with `release` "0.10", which has no idempotence.
    Differs: as `ProducerConfig` of this folder. With "0.10" the sender follows 2.0's rules, which expire a batch as 0.10's do.
    """

    producer: ProducerConfig = field(default_factory=ProducerConfig)
    max_block_ms: int = 60_000
    buffer_memory: int = 33_554_432
    metadata_max_age_ms: int = 300_000
    metadata_max_idle_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000
    release: str = "4.3"

    def __post_init__(self) -> None:
        if self.release not in RELEASES:
            raise KnobError(f"release is {self.release!r}. Give one of {', '.join(RELEASES)}.")
        if self.max_block_ms < 0 or self.buffer_memory < 0:
            raise KnobError(
                f"max_block_ms is {self.max_block_ms} and buffer_memory {self.buffer_memory}, expected 0 or more."
            )

    @property
    def for_sender(self) -> ProducerConfig:
        """What the sender is made with."""
        if self.release == "4.3":
            return self.producer
        return replace(self.producer, release="2.0", enable_idempotence=False)


@dataclass(slots=True, eq=False)
class Sending:
    """One call of `send`, from its beginning to its return."""

    number: int
    topic: str
    value: bytes
    key: bytes | None
    wanted_partition: int | None
    begun_ms: int
    deadline_ms: int  # for metadata and memory together
    state: str = "metadata"  # what it waits for: "metadata" or "memory"; "appended" or "failed" once it returned
    wait: MetadataWait | None = None
    allocation: Allocation | None = None
    partition: int | None = None  # once it is chosen
    batch: int | None = None  # the batch's send number, see `Completion.send`
    is_new_batch: bool = False
    wakes_sender: bool = False  # its batch is new or full
    error: str | None = None  # an exception class of Java's client
    message: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the call has returned."""
        return self.state in ("appended", "failed")


@dataclass(slots=True)
class PooledAccumulator(RecordAccumulator):
    """The queues of a producer with limited memory.

    Source: Apache Kafka 4.3.1, `RecordAccumulator.batchReady`, `ProducerBatch.maybeUpdateLeaderEpoch`.
    Differs: as its base class, but for memory.
    """

    is_exhausted: bool = False  # someone waits for memory
    leader_epochs: dict[int, int] = field(default_factory=dict)  # partition -> the newest that is known
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)  # batch -> (its leader's epoch, attempts when that changed)

    def ready(self, now_ms: int) -> tuple[bool, int | None]:
        """Whether any partition has something to send; without memory whatever waits is sent."""
        self._look_at_leaders()
        if self.is_exhausted and any(
            queue and partition not in self.muted and not self.is_backing_off(queue[0], now_ms)
            for partition, queue in self.queues.items()
        ):
            return True, 0
        return RecordAccumulator.ready(self, now_ms)

    def is_backing_off(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Whether a retry still has to wait; not when its leader changed since the last attempt."""
        attempts = self.seen.get(batch.number, (-1, 0))[1]
        has_changed = batch.attempts >= 1 and attempts == batch.attempts
        return not has_changed and RecordAccumulator.is_backing_off(self, batch, now_ms)

    def _look_at_leaders(self) -> None:
        for partition, queue in self.queues.items():
            epoch = self.leader_epochs.get(partition)
            if queue and epoch is not None:
                known = self.seen.get(queue[0].number)
                if known is None or epoch > known[0]:
                    self.seen[queue[0].number] = (epoch, queue[0].attempts)


@dataclass(slots=True)
class EarlierPooledAccumulator(PooledAccumulator, EarlierAccumulator):
    """The same by earlier rules, to which nobody tells a leader's epoch.

    Source: Apache Kafka 0.10.1.0, `RecordAccumulator.ready`; 2.0.0 for the rest.
    Differs: as its base classes, but for memory.
    """


@dataclass(frozen=True, slots=True)
class SendRules:
    """What one release does differently between `send` and the wire."""

    accumulator: type[PooledAccumulator]
    has_sticky_partitioner: bool  # records without a key fill a batch of one partition (KIP-794); else they go round
    believes_told_leaders: bool  # a refusal that names the new leader is news
    gives_up_connecting: bool  # an attempt to connect has a timeout, and the backoff grows
    wakes_to_expire: bool  # the loop sleeps no longer than until the first batch runs out of time
    no_metadata: str  # what the user is told who waited for the topic in vain


SEND_RULES = {
    "4.3": SendRules(
        PooledAccumulator, True, True, True, True, "Topic {topic} not present in metadata after {max_block_ms} ms."
    ),
    "0.10": SendRules(EarlierPooledAccumulator, False, False, False, False, "Failed to update metadata after {max_block_ms} ms."),
}


def network_client(config: SendConfig, metadata: Metadata, luck: Callable[[], float]) -> NetworkClient:
    """A producer's connections; by the rules of 0.10 an attempt is never given up, and no backoff grows."""
    rules, producer = SEND_RULES[config.release], config.for_sender
    connections = ClusterConnectionStates(
        config.reconnect_backoff_ms,
        config.reconnect_backoff_max_ms if rules.gives_up_connecting else config.reconnect_backoff_ms,
        config.connection_setup_timeout_ms if rules.gives_up_connecting else MAX_INT,
        30_000 if rules.gives_up_connecting else MAX_INT,  # socket.connection.setup.timeout.max.ms
        luck,
    )
    return NetworkClient(
        metadata,
        config.release,
        producer.request_timeout_ms,
        producer.max_in_flight_requests_per_connection,
        connections,
        luck=luck,
    )


@dataclass(slots=True)
class KafkaProducer:
    """A producer for one topic.

    Source: Apache Kafka 4.3.1, `KafkaProducer.doSend`, `KafkaProducer.waitOnMetadata`, `RecordAccumulator.append`,
    `Sender.runOnce`, `Sender.sendProducerData`; 0.10.1.0.
    Differs: one topic, whose partitions have one leader at a time; closed batches are not split into memory of
    their own; no interceptors, serializers, headers, transactions.
    """

    config: SendConfig
    topic: str
    luck: Callable[[], float] = lambda: MIDDLE
    partition_luck: Callable[[], int] = lambda: 0
    rules: SendRules = field(init=False)
    metadata: Metadata = field(init=False)
    client: NetworkClient = field(init=False)
    sender: Sender = field(init=False)
    pool: BufferPool = field(init=False)
    built_in: BuiltInPartitioner = field(init=False)
    round_robin: RoundRobinPartitioner = field(init=False)
    sendings: list[Sending] = field(default_factory=list)  # calls that have not returned
    calls: int = 0
    is_woken: bool = False  # the loop is to turn without sleeping
    allocated: dict[int, int] = field(default_factory=dict)  # batch's send number -> bytes of the pool
    left: dict[int, tuple[Node, InFlightRequest]] = field(
        default_factory=dict
    )  # client's request number -> produce request
    events: list[SenderEvent] = field(default_factory=list)  # what the sender did inside; whoever looks empties it
    told_of: int = 0  # completions of the sender's list whose memory has come back
    is_id_wanted: bool = False  # the sender made a request for an id that has not left

    def __post_init__(self) -> None:
        config, producer = self.config, self.config.for_sender
        self.rules = SEND_RULES[config.release]
        self.metadata = producer_metadata(
            config.release, self.luck,
            refresh_backoff_ms=producer.retry_backoff_ms, refresh_backoff_max_ms=producer.retry_backoff_max_ms,
            metadata_expire_ms=config.metadata_max_age_ms, metadata_idle_ms=config.metadata_max_idle_ms,
        )  # fmt: skip
        self.client = network_client(config, self.metadata, self.luck)
        self.sender = Sender(producer, [], accumulator_type=self.rules.accumulator, times_out_requests=False)
        self.pool = BufferPool(config.buffer_memory)
        self.built_in = BuiltInPartitioner(self.topic, max(producer.batch_size, 1), self.partition_luck)
        self.round_robin = RoundRobinPartitioner(self.topic, self.partition_luck())

    # The user's side

    def send(self, value: bytes, now_ms: int, key: bytes | None = None, partition: int | None = None) -> Sending:
        """Begin to hand one record over; look at `is_over`, and `advance` it when something has happened."""
        sending = Sending(
            self.calls, self.topic, value, key, partition, now_ms, now_ms + self.config.max_block_ms
        )  # fmt: skip
        self.calls += 1
        self.sendings.append(sending)
        self.metadata.add(self.topic, now_ms)
        if self._is_known(partition):
            self._after_metadata(sending, now_ms)
        else:
            self._wait_for_metadata(sending, now_ms)
        return sending

    def advance(self, now_ms: int) -> list[Sending]:
        """Let every call that blocks look whether it may go on; those that returned."""
        for sending in list(self.sendings):
            if sending.state == "metadata":
                self._look_at_metadata(sending, now_ms)
        self.pool.expire(now_ms)
        for sending in list(self.sendings):
            if sending.state == "memory" and sending.allocation is not None and sending.allocation.is_over:
                self._after_memory(sending, now_ms)
        self._tell_exhausted()
        return self._returned()

    def next_deadline_ms(self) -> int | None:
        """When the first call that blocks gives up."""
        return min((sending.deadline_ms for sending in self.sendings), default=None)

    def _returned(self) -> list[Sending]:
        over = [sending for sending in self.sendings if sending.is_over]
        self.sendings = [sending for sending in self.sendings if not sending.is_over]
        return over

    def _is_known(self, partition: int | None) -> bool:
        return len(self.metadata.cluster.partitions_of(self.topic)) > (partition or 0)

    def _wait_for_metadata(self, sending: Sending, now_ms: int) -> None:
        self.metadata.add(self.topic, now_ms)
        version = self.metadata.request_update_for_topic(self.topic)
        self.is_woken = True
        sending.wait = self.metadata.await_update(version, sending.deadline_ms - now_ms, now_ms)

    def _look_at_metadata(self, sending: Sending, now_ms: int) -> None:
        if sending.wait is None:
            return
        is_late = now_ms >= sending.deadline_ms
        if not sending.wait.is_over(self.metadata) and not is_late:
            return
        if is_late:
            told = self.rules.no_metadata.format(topic=self.topic, max_block_ms=self.config.max_block_ms)
            self._fail(sending, TIMEOUT, told)
        elif self._is_known(sending.wanted_partition):
            self._after_metadata(sending, now_ms)
        else:
            self._wait_for_metadata(sending, now_ms)

    def _after_metadata(self, sending: Sending, now_ms: int) -> None:
        """The topic is known: choose a partition, and find room in a batch or memory for a new one."""
        self._learn_partitions()
        most = self.config.producer.max_request_size
        size = batch_upper_bound(len(sending.value))
        if size > min(most, self.config.buffer_memory):
            self._fail(sending, "RecordTooLargeException", f"{size} bytes")
            return
        sending.partition = self._choose(sending)
        last = self.sender.accumulator.queues[sending.partition]
        if (
            last
            and last[-1].is_open
            and last[-1].size_bytes + record_bytes(len(sending.value), last[-1].count) <= last[-1].capacity_bytes
        ):
            self._append(sending, now_ms)
            return
        wanted = max(self.config.producer.batch_size, size)
        if wanted > self.pool.total_memory:  # a batch of batch.size never fits: Java's client finds out only here
            self._fail(sending, "IllegalArgumentException", f"{wanted} bytes, and buffer.memory is {self.pool.total_memory}")
            return
        sending.state = "memory"
        sending.allocation = self.pool.allocate(wanted, sending.deadline_ms - now_ms, now_ms)
        if sending.allocation.is_granted:
            self._after_memory(sending, now_ms)
        else:
            self._tell_exhausted()
            self.is_woken = True

    def _after_memory(self, sending: Sending, now_ms: int) -> None:
        allocation = sending.allocation
        if allocation is None or allocation.error is not None:
            told = f"Failed to allocate memory within the configured max blocking time {self.config.max_block_ms} ms."
            self._fail(sending, (allocation.error if allocation else None) or TIMEOUT, told)
            return
        before = self.sender.accumulator.batches
        self._append(sending, now_ms)
        if self.sender.accumulator.batches == before or sending.batch is None:
            self.pool.deallocate(allocation.size)  # someone else had begun a batch meanwhile
        else:
            self.allocated[sending.batch] = allocation.size

    def _append(self, sending: Sending, now_ms: int) -> None:
        partition = sending.partition
        assert partition is not None, "a partition is chosen before a record is appended"
        accumulator = self.sender.accumulator
        before = accumulator.batches
        sending.batch = self.sender.append(partition, sending.value, now_ms)
        sending.is_new_batch = accumulator.batches > before
        queue = accumulator.queues[partition]
        sending.wakes_sender = sending.is_new_batch or len(queue) > 1 or queue[-1].is_full
        self.is_woken = self.is_woken or sending.wakes_sender
        sending.state = "appended"
        if self.rules.has_sticky_partitioner and sending.key is None and sending.wanted_partition is None:
            last = queue[-1]
            appended = last.size_bytes if sending.is_new_batch else record_bytes(len(sending.value), last.count - 1)
            self.built_in.update(appended, self.metadata.cluster, all(batch.is_full for batch in queue))

    def _choose(self, sending: Sending) -> int:
        if sending.wanted_partition is not None:
            return sending.wanted_partition
        cluster = self.metadata.cluster
        if sending.key is not None:
            return partition_of_key(sending.key, len(cluster.partitions_of(self.topic)))
        return self.built_in.peek(cluster) if self.rules.has_sticky_partitioner else self.round_robin.next_partition(cluster)

    def _fail(self, sending: Sending, error: str, message: str) -> None:
        sending.state, sending.error, sending.message = "failed", error, message

    def _tell_exhausted(self) -> None:
        accumulator = self.sender.accumulator
        if isinstance(accumulator, PooledAccumulator):
            accumulator.is_exhausted = self.pool.queued > 0

    # The sender's loop

    def start(self, addresses: Iterable[tuple[str, int]], now_ms: int) -> None:
        """The producer is made: it knows addresses, and its loop begins to turn."""
        self.metadata.bootstrap(addresses, now_ms)
        self.is_woken = True

    def run_once(self, now_ms: int) -> SelectTimeout:
        """One turn of the loop, up to its sleep: look at answers, send what is ready, ask for metadata.

        What is to be done on the network is in `client.effects`, what the user is told in `sender.completions`.
        """
        self.is_woken = False
        self.client.expire(now_ms)
        self.take_lost(now_ms)
        self._learn_partitions()
        has_sent = False
        while True:
            happened, sent = self._send_what_is_ready(now_ms)
            has_sent = has_sent or sent
            if not happened:
                break
        poll_ms = 0 if has_sent else self.poll_timeout_ms(now_ms)
        return self.client.poll(poll_ms, now_ms)

    def _send_what_is_ready(self, now_ms: int) -> tuple[bool, bool]:
        """Let the sender run once; whether it did anything, and whether a request left."""
        self._tell_exhausted()
        if self._needs_id:
            self.is_id_wanted = True
        self._send_id_request(now_ms)
        leader = self.leader
        is_ready = self.sender.accumulator.ready(now_ms)[0]
        if is_ready and leader is None:
            self.metadata.add(self.topic, now_ms)
            self.metadata.request_update()
        can_send = leader is not None and not self.is_id_wanted
        if is_ready and leader is not None and not self.is_id_wanted:
            can_send = self.client.ready(leader, now_ms)
        requests = self.sender.poll(now_ms, connected=can_send)
        self.events += self.sender.events
        self._settle_memory()
        sent = {kept.request.number: kept for kept in self.sender.last_sent}
        for request in requests:
            if isinstance(request, InitProducerIdRequest):
                self.is_id_wanted = True
                self._send_id_request(now_ms)
            elif leader is not None:
                number = self.client.send(leader, request, now_ms)
                self.left[number] = leader, sent[request.number]
                if request.acks == 0:
                    self.client.complete_without_answer(leader, number)
        return not self.sender.is_idle, any(isinstance(request, ProduceRequest) for request in requests)

    @property
    def leader(self) -> Node | None:
        """Who leads the topic's partitions, as far as the client knows."""
        cluster = self.metadata.cluster
        found = cluster.available_partitions_of(self.topic)
        return cluster.node_by_id(found[0].leader_id) if found else None

    def poll_timeout_ms(self, now_ms: int) -> int:
        """What the sender wants to do next, in how many ms; MAX_LONG when nothing waits."""
        if self.is_id_wanted or (self.sender.transaction_manager and self.sender.transaction_manager.id_request_in_flight):
            return self.config.producer.retry_backoff_ms
        is_ready, delay_ms = self.sender.accumulator.ready(now_ms)
        leader = self.leader
        if is_ready and leader is not None:
            full = len(self.sender.in_flight_requests) >= self.config.producer.max_in_flight_requests_per_connection
            delay_ms = MAX_LONG if full else self.client.connections.connection_delay_ms(leader.id, now_ms)
        elif is_ready or delay_ms is None:
            delay_ms = MAX_LONG
        if not self.rules.wakes_to_expire:
            return delay_ms
        expiry_ms = self.next_expiry_ms()
        return max(min(delay_ms, MAX_LONG if expiry_ms is None else expiry_ms - now_ms), 0)

    def next_expiry_ms(self) -> int | None:
        """When the first batch runs out of time."""
        out = [batches[0].created_ms for batches in self.sender.in_flight_batches.values() if batches]
        times = [created_ms + self.config.producer.delivery_timeout_ms for created_ms in out]
        waiting_ms = self.sender.accumulator.next_expiry_ms()
        return min(times + ([] if waiting_ms is None else [waiting_ms]), default=None)

    # What the network brings

    def receive(self, node: Node, number: int, answer: object, now_ms: int) -> None:
        """An answer: of metadata or versions to the client, of an id or of batches to the sender."""
        found = self.client.receive(node, number, answer, now_ms)
        if found is None:
            self._learn_partitions()
            return
        if isinstance(answer, InitProducerIdAnswer):
            self.sender.receive_id(answer)
        elif number in self.left:
            _, kept = self.left.pop(number)
            answers: dict[int, PartitionAnswer] = answer  # type: ignore[assignment]
            if any(told.error.wants_new_metadata for told in answers.values()):
                self.metadata.request_update()
            self._take_answer(kept.request.number, answers, now_ms)

    def take_lost(self, now_ms: int) -> list[InFlight]:
        """Requests that went with their connections: the sender hears of it, and may try again."""
        lost = self.client.take_lost()
        for gone in lost:
            if isinstance(gone.request, InitProducerIdRequest):
                if self.sender.transaction_manager is not None:
                    self.sender.transaction_manager.id_request_lost()
            elif gone.number in self.left:
                _, kept = self.left.pop(gone.number)
                self.metadata.request_update()
                self._take_answer(kept.request.number, None, now_ms)
        return lost

    def _take_answer(self, number: int, answers: dict[int, PartitionAnswer] | None, now_ms: int) -> None:
        """What an answer means counts at once: the batches end or wait again, and memory comes back."""
        self.sender.receive(number, answers)
        self.events += self.sender.take_answers(now_ms)
        self._settle_memory()

    def move_leader(self, leader: Node, leader_epoch: int) -> bool:
        """A broker that is not the leader any more said who is: believe it at once, if it is news (4.3 only)."""
        if not self.rules.believes_told_leaders:
            return False
        told = {key: (leader.id, leader_epoch) for key in self.metadata.cluster.partitions if key[0] == self.topic}
        moved = self.metadata.update_partition_leadership(told, [leader])
        self._learn_partitions()
        return bool(moved)

    # Inside

    @property
    def _needs_id(self) -> bool:
        manager = self.sender.transaction_manager
        return manager is not None and manager.id_request_due

    def _send_id_request(self, now_ms: int) -> None:
        """An id can be had from anyone; until it is there, no batch leaves."""
        manager = self.sender.transaction_manager
        if not self.is_id_wanted or manager is None or not manager.id_request_in_flight:
            return
        node = self.client.least_loaded_node(now_ms)
        if node is not None and self.client.ready(node, now_ms):
            self.client.send(node, InitProducerIdRequest(), now_ms)
            self.is_id_wanted = False

    def _learn_partitions(self) -> None:
        """New partitions get queues; leaders' epochs are noted."""
        accumulator = self.sender.accumulator
        for info in self.metadata.cluster.partitions.values():
            if info.topic != self.topic:
                continue
            if info.partition not in accumulator.queues:
                accumulator.queues[info.partition] = deque()
                accumulator.partitions = self.sender.partitions = sorted(accumulator.queues)
            if isinstance(accumulator, PooledAccumulator) and self.rules.believes_told_leaders:
                accumulator.leader_epochs[info.partition] = info.leader_epoch

    def _settle_memory(self) -> None:
        """Memory of batches that have ended comes back."""
        for done in self.sender.completions[self.told_of :]:
            size = self.allocated.pop(done.send, None)
            if size is not None:
                self.pool.deallocate(size)
        self.told_of = len(self.sender.completions)

    def completed(self) -> list[Completion]:
        """What the user is told of since the last call."""
        self.told_of = 0
        return self.sender.completed()
