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
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.producer.accumulator import RecordAccumulator
from kitlib.mechanisms.producer.batch import ProducerBatch, batch_upper_bound
from kitlib.mechanisms.producer.config import MAX_INT, ProducerConfig
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
from kitlib.more.client.buffer_pool import Allocation, BufferPool
from kitlib.more.client.cluster import Node
from kitlib.more.client.connections import ClusterConnectionStates
from kitlib.more.client.metadata import EarlierMetadata, Metadata, MetadataWait
from kitlib.more.client.network_client import NetworkClient, SelectTimeout, Send
from kitlib.more.hashes import to_positive

BUFFER_EXHAUSTED = "BufferExhaustedException"  # a TimeoutException to whoever catches those


@dataclass(slots=True, eq=False)
class Sending:
    """One call of `send`, from its beginning to its return."""

    value: bytes
    begun_ms: int
    deadline_ms: int  # for metadata and memory together
    state: str = "metadata"  # what it waits for: "metadata" or "memory"; "appended" or "failed" once it returned
    wait: MetadataWait | None = None
    allocation: Allocation | None = None
    partition: int = 0  # once it is chosen
    batch: int | None = None  # the batch's send number, see `Completion.send`
    is_new_batch: bool = False
    wakes_sender: bool = False  # its batch is new or full
    error: str | None = None  # an exception class of Java's client
    message: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the call has returned."""
        return self.state in ("appended", "failed")

    def fail(self, error: str, message: str) -> None:
        """The call returns with an error."""
        self.state, self.error, self.message = "failed", error, message


@dataclass(slots=True)
class PooledAccumulator(RecordAccumulator):
    """The queues of a producer with limited memory.

    Source: Apache Kafka 4.3.1, `RecordAccumulator.batchReady`, `ProducerBatch.maybeUpdateLeaderEpoch`.
    Differs: as its base class, but for memory.
    """

    pool: BufferPool = field(default_factory=lambda: BufferPool(0))
    leader_epochs: dict[int, int] = field(default_factory=dict)  # partition -> the newest that is known
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)  # batch -> (its leader's epoch, attempts when that changed)

    def ready(self, now_ms: int) -> tuple[bool, int | None]:
        """Whether any partition has something to send; while someone waits for memory whatever waits is sent."""
        self._look_at_leaders()
        if self.pool.queued and any(
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


@dataclass(slots=True)
class KafkaProducer:
    """A producer for one topic. Times in ms, sizes in bytes.

    Source: Apache Kafka 4.3.1, `KafkaProducer.doSend`, `KafkaProducer.waitOnMetadata`, `RecordAccumulator.append`,
    `Sender.runOnce`, `Sender.sendProducerData`; 0.10.1.0 with `is_earlier`, which has no idempotence.
    Differs: by the rules of 0.10 the sender follows 2.0's, which expire a batch as 0.10's do; one topic, whose partitions
    have one leader at a time; records without keys, which stay with the partition that chance has chosen also after
    batch.size bytes (KIP-794); closed batches are not split into memory of their own; no interceptors, serializers,
    headers, transactions, and no acks=0.
    """

    config: ProducerConfig
    topic: str
    max_block_ms: int = 60_000
    buffer_memory: int = 33_554_432
    metadata_max_age_ms: int = 300_000
    metadata_max_idle_ms: int = 300_000
    is_earlier: bool = False  # whether the client follows the rules of 0.10
    chance: int = 0  # which partition comes first
    metadata: Metadata = field(init=False)
    client: NetworkClient = field(init=False)
    sender: Sender = field(init=False)
    accumulator: PooledAccumulator = field(init=False)
    pool: BufferPool = field(init=False)
    sendings: list[Sending] = field(default_factory=list)  # calls that have not returned
    is_woken: bool = False  # the loop is to turn without sleeping
    allocated: dict[int, int] = field(default_factory=dict)  # batch's send number -> bytes of the pool
    events: list[SenderEvent] = field(default_factory=list)  # what the sender did inside; whoever looks empties it
    completions: list[Completion] = field(default_factory=list)  # what the user has not been told yet
    is_id_wanted: bool = False  # the sender made a request for an id that has not left

    def __post_init__(self) -> None:
        earlier = self.is_earlier
        if earlier:
            self.config = replace(self.config, release="2.0", enable_idempotence=False)
        config = self.config
        self.metadata = (EarlierMetadata if earlier else Metadata)(
            config.retry_backoff_ms, config.retry_backoff_max_ms, self.metadata_max_age_ms, self.metadata_max_idle_ms
        )
        # By the rules of 0.10 an attempt to connect is never given up, and its backoff does not grow.
        connections = ClusterConnectionStates(50, 50, MAX_INT) if earlier else ClusterConnectionStates()
        limits = config.request_timeout_ms, config.max_in_flight_requests_per_connection
        self.client = NetworkClient(self.metadata, "0.10" if earlier else "4.3", *limits, connections)
        self.sender = Sender(config, [], times_out_requests=False)
        self.pool = BufferPool(self.buffer_memory)
        accumulator = EarlierPooledAccumulator if earlier else PooledAccumulator
        self.sender.accumulator = self.accumulator = accumulator(config, [], self.sender.transaction_manager, pool=self.pool)

    # The user's side

    def send(self, value: bytes, now_ms: int) -> Sending:
        """Begin to hand one record over; look at `is_over`, and `advance` it when something has happened."""
        sending = Sending(value, now_ms, now_ms + self.max_block_ms)
        self.sendings.append(sending)
        self.metadata.add(self.topic, now_ms)
        self._look_at_topic(sending, now_ms)
        return sending

    def advance(self, now_ms: int) -> list[Sending]:
        """Let every call that blocks look whether it may go on; those that returned."""
        for sending in list(self.sendings):
            if sending.state == "metadata":
                self._look_at_metadata(sending, now_ms)
            if sending.state == "memory":
                self._look_at_memory(sending, now_ms)
        over = [sending for sending in self.sendings if sending.is_over]
        self.sendings = [sending for sending in self.sendings if not sending.is_over]
        return over

    def next_deadline_ms(self) -> int | None:
        """When the first call that blocks gives up."""
        return min((sending.deadline_ms for sending in self.sendings), default=None)

    def _look_at_metadata(self, sending: Sending, now_ms: int) -> None:
        if now_ms >= sending.deadline_ms:
            told = "Failed to update metadata" if self.is_earlier else f"Topic {self.topic} not present in metadata"
            sending.fail(TIMEOUT, f"{told} after {self.max_block_ms} ms.")
        elif sending.wait is not None and sending.wait.is_over(self.metadata):
            self._look_at_topic(sending, now_ms)

    def _look_at_topic(self, sending: Sending, now_ms: int) -> None:
        """Wait for the topic to be known; then find room in a batch, or memory for a new one."""
        if not self.metadata.cluster.partitions_of(self.topic):
            self.metadata.add(self.topic, now_ms)
            version = self.metadata.request_update_for_topic(self.topic)
            self.is_woken = True
            sending.wait = self.metadata.await_update(version, sending.deadline_ms - now_ms, now_ms)
            return
        self._learn_partitions()
        size = batch_upper_bound(len(sending.value))
        if size > min(self.config.max_request_size, self.buffer_memory):
            sending.fail("RecordTooLargeException", f"{size} bytes")
            return
        sending.partition = self._choose()
        last = self.accumulator.queues[sending.partition]
        if (
            last
            and last[-1].is_open
            and last[-1].size_bytes + record_bytes(len(sending.value), last[-1].count) <= last[-1].capacity_bytes
        ):
            self._append(sending, now_ms)
            return
        wanted = max(self.config.batch_size, size)
        if wanted > self.pool.total_memory:  # a batch of batch.size never fits: Java's client finds out only here
            sending.fail("IllegalArgumentException", f"{wanted} bytes, and buffer.memory is {self.pool.total_memory}")
            return
        sending.state = "memory"
        sending.allocation = self.pool.allocate(wanted)
        self.is_woken = self.is_woken or not sending.allocation.is_granted
        self._look_at_memory(sending, now_ms)

    def _look_at_memory(self, sending: Sending, now_ms: int) -> None:
        allocation = sending.allocation
        assert allocation is not None, "who waits for memory has asked for it"
        if allocation.is_granted:
            self._append(sending, now_ms)
            if sending.is_new_batch and sending.batch is not None:
                self.allocated[sending.batch] = allocation.size
            else:
                self.pool.deallocate(allocation.size)  # someone else had begun a batch meanwhile
        elif now_ms >= sending.deadline_ms:
            self.pool.give_up(allocation)
            told = f"Failed to allocate memory within the configured max blocking time {self.max_block_ms} ms."
            sending.fail(BUFFER_EXHAUSTED, told)

    def _append(self, sending: Sending, now_ms: int) -> None:
        before = self.accumulator.batches
        sending.batch = self.sender.append(sending.partition, sending.value, now_ms)
        sending.is_new_batch = self.accumulator.batches > before
        queue = self.accumulator.queues[sending.partition]
        sending.wakes_sender = sending.is_new_batch or len(queue) > 1 or queue[-1].is_full
        self.is_woken = self.is_woken or sending.wakes_sender
        sending.state = "appended"

    def _choose(self) -> int:
        """The next record's partition: in 0.10 each in its turn, today one; those without a leader only when none has one."""
        cluster = self.metadata.cluster
        choices = cluster.available_partitions_of(self.topic) or cluster.partitions_of(self.topic)
        at = to_positive(self.chance) % len(choices)
        self.chance += self.is_earlier
        return choices[at].partition

    # The sender's loop

    def start(self, addresses: Iterable[tuple[str, int]], now_ms: int) -> None:
        """The producer is made: it knows addresses, and its loop begins to turn."""
        self.metadata.bootstrap(addresses, now_ms)
        self.is_woken = True

    def run_once(self, now_ms: int) -> SelectTimeout:
        """One turn of the loop, up to its sleep: look at answers, send what is ready, ask for metadata.

        What is to be done on the network is in `client.effects`, what the user is told in `completions`.
        """
        self.is_woken = False
        self.client.expire(now_ms)
        self.take_lost(now_ms)
        self._learn_partitions()
        has_sent = False
        while True:
            has_sent = self._send_what_is_ready(now_ms) or has_sent
            if self.sender.is_idle:
                break
        return self.client.poll(0 if has_sent else self.poll_timeout_ms(now_ms), now_ms)

    def _send_what_is_ready(self, now_ms: int) -> bool:
        """Let the sender run once; whether a request left."""
        manager = self.sender.transaction_manager
        if manager is not None and manager.id_request_due:
            self.is_id_wanted = True
        self._send_id_request(now_ms)
        leader, is_ready = self.leader, self.accumulator.ready(now_ms)[0]
        if is_ready and leader is None:
            self.metadata.add(self.topic, now_ms)
            self.metadata.request_update()
        can_send = leader is not None and not self.is_id_wanted
        if is_ready and leader is not None and can_send:
            can_send = self.client.ready(leader, now_ms)
        requests = self.sender.poll(now_ms, connected=can_send)
        self.events += self.sender.events
        self._settle()
        if any(isinstance(request, InitProducerIdRequest) for request in requests):
            self.is_id_wanted = True
            self._send_id_request(now_ms)
        for sent in self.sender.last_sent:
            assert leader is not None, "without a leader the sender is not connected, and sends nothing"
            self.client.send(leader, sent, now_ms)
        return bool(self.sender.last_sent)

    @property
    def leader(self) -> Node | None:
        """Who leads the topic's partitions, as far as the client knows."""
        cluster = self.metadata.cluster
        found = cluster.available_partitions_of(self.topic)
        return cluster.node_by_id(found[0].leader_id) if found else None

    def poll_timeout_ms(self, now_ms: int) -> int:
        """What the sender wants to do next, in how many ms; MAX_LONG when nothing waits."""
        if self.is_id_wanted or (self.sender.transaction_manager and self.sender.transaction_manager.id_request_in_flight):
            return self.config.retry_backoff_ms
        is_ready, delay_ms = self.accumulator.ready(now_ms)
        leader = self.leader
        if is_ready and leader is not None:
            full = len(self.sender.in_flight_requests) >= self.config.max_in_flight_requests_per_connection
            delay_ms = MAX_LONG if full else self.client.connections.connection_delay_ms(leader.id, now_ms)
        elif is_ready or delay_ms is None:
            delay_ms = MAX_LONG
        if self.is_earlier:
            return delay_ms
        out = [batches[0].created_ms for batches in self.sender.in_flight_batches.values() if batches]
        times = [created_ms + self.config.delivery_timeout_ms for created_ms in out]
        waiting_ms = self.accumulator.next_expiry_ms()
        expiry_ms = min(times + ([] if waiting_ms is None else [waiting_ms]), default=None)  # of the first batch
        return max(min(delay_ms, MAX_LONG if expiry_ms is None else expiry_ms - now_ms), 0)

    # What the network brings

    def receive(self, node: Node, number: int, answer: object, now_ms: int) -> None:
        """An answer: of metadata or versions to the client, of an id or of batches to the sender."""
        found = self.client.receive(node, number, answer, now_ms)
        if found is None:
            self._learn_partitions()
        elif isinstance(answer, InitProducerIdAnswer):
            self.sender.receive_id(answer)
        elif isinstance(found.request, InFlightRequest):
            answers: dict[int, PartitionAnswer] = answer  # type: ignore[assignment]
            if any(told.error.wants_new_metadata for told in answers.values()):
                self.metadata.request_update()
            self._take_answer(found.request.request, answers, now_ms)

    def take_lost(self, now_ms: int) -> list[Send]:
        """Requests that went with their connections: the sender hears of it, and may try again."""
        lost = self.client.take_lost()
        for gone in lost:
            if isinstance(gone.request, InFlightRequest):
                self.metadata.request_update()
                self._take_answer(gone.request.request, None, now_ms)
            elif self.sender.transaction_manager is not None:
                self.sender.transaction_manager.id_request_lost()
        return lost

    def _take_answer(self, request: ProduceRequest, answers: dict[int, PartitionAnswer] | None, now_ms: int) -> None:
        """What an answer means counts at once: the batches end or wait again, and memory comes back."""
        self.sender.receive(request.number, answers)
        self.events += self.sender.take_answers(now_ms)
        self._settle()

    def move_leader(self, leader: Node, leader_epoch: int) -> bool:
        """A broker that is not the leader any more said who is: believe it at once, if it is news."""
        told = {key: (leader.id, leader_epoch) for key in self.metadata.cluster.partitions if key[0] == self.topic}
        moved = self.metadata.update_partition_leadership(told, [leader])
        self._learn_partitions()
        return bool(moved)

    def completed(self) -> list[Completion]:
        """What the user is told of since the last call."""
        told, self.completions = self.completions, []
        return told

    # Inside

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
        for info in self.metadata.cluster.partitions_of(self.topic):
            if info.partition not in self.accumulator.queues:
                self.accumulator.queues[info.partition] = deque()
                self.accumulator.partitions = self.sender.partitions = sorted(self.accumulator.queues)
            if not self.is_earlier:
                self.accumulator.leader_epochs[info.partition] = info.leader_epoch

    def _settle(self) -> None:
        """Batches have ended: their memory comes back, and the user is to be told."""
        for done in self.sender.completed():
            if done.send in self.allocated:
                self.pool.deallocate(self.allocated.pop(done.send))
            self.completions.append(done)
