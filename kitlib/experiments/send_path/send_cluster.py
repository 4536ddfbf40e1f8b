"""The brokers of a send's experiment, in virtual time: addresses, a topic, its leader, and the copies of its log.

One broker leads all partitions of the one topic. A broker may be unreachable at the address that it
advertises, may accept requests and never answer, and may stop copying; the leader may move or be
destroyed. What a leader does with a batch is the model of `kitlib.mechanisms.broker`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.mechanisms.broker.leader import BrokerConfig, Leader
from kitlib.mechanisms.protocol import ErrorCode, PartitionAnswer, ProduceRequest
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node, PartitionMetadata, TopicMetadata

PORT = 9092
REPLICA_LAG_MS = 500  # replica.lag.time.max.ms of these brokers: a follower that is behind for longer leaves the ISR


@dataclass(slots=True)
class Replicas:
    """Who has copies, how far each has come, and who counts as in sync.

    Source: Apache Kafka 4.3.1, `Partition` (`maybeShrinkIsr`, `maybeIncrementLeaderHW`, `checkEnoughReplicasReachOffset`).
    Differs: one partition; a follower that copies has copied at once.
    """

    followers: list[int]  # brokers besides the leader
    copied: dict[int, int] = field(default_factory=dict)  # follower -> offset up to which it has the log
    stopped_at_ms: dict[int, int] = field(default_factory=dict)  # followers that do not copy, and since when
    out_of_sync: set[int] = field(default_factory=set)  # followers that are not in the ISR

    def in_sync(self) -> list[int]:
        """The followers in the ISR."""
        return [number for number in self.followers if number not in self.out_of_sync]

    def copy(self, log_end: int) -> None:
        """Whoever copies has everything."""
        for number in self.followers:
            if number not in self.stopped_at_ms:
                self.copied[number] = log_end
                self.out_of_sync.discard(number)

    def shrink(self, log_end: int, now_ms: int) -> list[int]:
        """Who is behind for too long leaves the ISR; those that left."""
        late = [
            number
            for number, since_ms in self.stopped_at_ms.items()
            if number not in self.out_of_sync
            and self.copied.get(number, 0) < log_end
            and now_ms - since_ms >= REPLICA_LAG_MS
        ]
        self.out_of_sync.update(late)
        return late

    def high_watermark(self, log_end: int) -> int:
        """Up to where everybody in the ISR has the log: what consumers see, and what acks=all waits for."""
        return min([log_end, *(self.copied.get(number, 0) for number in self.in_sync())])


@dataclass(slots=True)
class SendCluster:
    """Brokers 0, 1, ... at broker-<n>:9092, and one topic."""

    topic: str
    partitions: int = 1
    brokers: int = 1
    config: BrokerConfig = field(default_factory=BrokerConfig)
    order: list[int] = field(default_factory=list)  # in which the answers list the partitions; empty: ascending
    exists: bool = True  # whether there is such a topic
    bootstrap_host: str = "bootstrap"  # reaches broker 0, unless it is in `unreachable`
    unreachable: set[str] = field(default_factory=set)  # hosts where nobody listens
    silent: set[int] = field(default_factory=set)  # brokers that take produce requests and do nothing with them
    mute: set[int] = field(default_factory=set)  # brokers that write and answer nothing
    down: set[int] = field(default_factory=set)  # brokers that a script has broken
    leader_id: int = 0
    leader_epoch: int = 0
    replicas: Replicas = field(init=False)
    leader: Leader = field(init=False)
    busy_until_ms: int = 0  # the leader works on one request after the other

    def __post_init__(self) -> None:
        self.leader = Leader(self.config, self.partitions)
        self.replicas = Replicas(list(range(1, self.brokers)))

    def node(self, number: int) -> Node:
        """A broker as it tells clients of itself."""
        return Node(number, f"broker-{number}", PORT)

    @property
    def bootstrap_addresses(self) -> list[tuple[str, int]]:
        """What the client is given."""
        return [(self.bootstrap_host, PORT)]

    def is_reachable(self, node: Node) -> bool:
        """Whether anybody listens at that address."""
        return node.host not in self.unreachable and self.number_of(node) not in self.down

    def number_of(self, node: Node) -> int:
        """Which broker a client reaches there: the bootstrap address is broker 0's."""
        return max(node.id, 0)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        """What a broker answers."""
        brokers = tuple(self.node(number) for number in range(self.brokers))
        return MetadataResponse(brokers, tuple(self._topic(name) for name in request.topics))

    def _topic(self, name: str) -> TopicMetadata:
        if name != self.topic or not self.exists:
            return TopicMetadata(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        in_sync = (self.leader_id, *self.replicas.in_sync())
        partitions = tuple(
            PartitionMetadata(
                name,
                partition,
                leader_id=self.leader_id,
                leader_epoch=self.leader_epoch,
                replica_ids=tuple(range(self.brokers)),
                in_sync_replica_ids=in_sync,
            )
            for partition in self.order or range(self.partitions)
        )
        return TopicMetadata(name, partitions=partitions)

    def log_end(self, partition: int) -> int:
        return self.leader.logs[partition].end

    def produce(self, node: Node, request: ProduceRequest, now_ms: int) -> dict[int, PartitionAnswer]:
        """What the broker at the other end does with a request, and answers once it may."""
        self.leader.last_outcomes = {}
        number = self.number_of(node)
        if not self.exists:
            return {batch.partition: PartitionAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for batch in request.batches}
        if number != self.leader_id:
            return {batch.partition: PartitionAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER) for batch in request.batches}
        if request.acks == -1 and not self.has_enough_in_sync:
            return {batch.partition: PartitionAnswer(ErrorCode.NOT_ENOUGH_REPLICAS) for batch in request.batches}
        answers = self.leader.produce(request, now_ms)
        if self.partitions == 1:
            self.replicas.copy(self.log_end(0))
        return answers

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether acks=all can be had at present."""
        return 1 + len(self.replicas.in_sync()) >= min(self.config.min_insync_replicas, self.brokers)

    def is_replicated(self, request: ProduceRequest) -> bool:
        """Whether an answer to this request may leave: with acks=all once the whole ISR has what is written."""
        end = self.log_end(0)
        return request.acks != -1 or self.partitions > 1 or self.replicas.high_watermark(end) >= end

    def successor(self) -> int | None:
        """Who takes over from a leader that dies: the first follower in the ISR that copies; None without one."""
        return next((number for number in self.replicas.in_sync() if number not in self.replicas.stopped_at_ms), None)

    def move_leader(self, to: int) -> None:
        """A controlled move: the new leader has everything."""
        self.replicas.followers = [number for number in range(self.brokers) if number != to]
        self.replicas.copied = dict.fromkeys(self.replicas.followers, self.log_end(0))
        self.leader_id, self.leader_epoch = to, self.leader_epoch + 1

    def destroy_leader(self) -> int:
        """The leader and its disk are gone: a follower leads with what it had copied. How many records are gone.

        One in the ISR is taken first; with unclean.leader.election.enable one that is not in it.
        """
        candidates = self.replicas.in_sync() or self.replicas.followers
        successor = max(candidates, key=lambda number: self.replicas.copied.get(number, 0))
        keep, end = self.replicas.copied.get(successor, 0), self.log_end(0)
        survivors = Leader(self.config, self.partitions)
        for stored in self.leader.logs[0].batches:
            if stored.base_offset + stored.batch.count <= keep:
                survivors.logs[0].append(stored.batch)
        self.leader = survivors
        self.unreachable.add(f"broker-{self.leader_id}")
        self.replicas.followers = [number for number in self.replicas.followers if number != successor]
        self.replicas.out_of_sync.clear()
        self.replicas.stopped_at_ms.clear()
        self.leader_id, self.leader_epoch = successor, self.leader_epoch + 1
        return end - keep
