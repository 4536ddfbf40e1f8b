"""The brokers of a send's experiment, in virtual time: addresses, a topic, and its leader.

One broker leads all partitions of the one topic, and the others have copies. A broker may be unreachable at the address
that it advertises, and may accept requests and never answer; the leader may move. What a leader does with a batch is the
model of `kitlib.mechanisms.broker`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.mechanisms.broker.leader import Leader
from kitlib.mechanisms.protocol import ErrorCode, PartitionAnswer, ProduceRequest
from kitlib.more.client.cluster import MetadataRequest, MetadataResponse, Node, PartitionMetadata, TopicMetadata

PORT = 9092


@dataclass(slots=True)
class SendCluster:
    """Brokers 0, 1, ... at broker-<n>:9092, and one topic."""

    topic: str
    partitions: int = 1
    brokers: int = 1
    order: list[int] = field(default_factory=list)  # in which the answers list the partitions; empty: ascending
    exists: bool = True  # whether there is such a topic
    bootstrap_host: str = "bootstrap"  # reaches broker 0, unless it is in `unreachable`
    unreachable: set[str] = field(default_factory=set)  # hosts where nobody listens
    silent: set[int] = field(default_factory=set)  # brokers that take produce requests and do nothing with them
    mute: set[int] = field(default_factory=set)  # brokers that write and answer nothing
    down: set[int] = field(default_factory=set)  # brokers that a script has broken
    leader_id: int = 0
    leader_epoch: int = 0
    leader: Leader = field(init=False)
    busy_until_ms: int = 0  # the leader works on one request after the other

    def __post_init__(self) -> None:
        self.leader = Leader(partitions=self.partitions)

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
        led = (self.leader_id, self.leader_epoch)
        return TopicMetadata(name, partitions=tuple(PartitionMetadata(name, each, *led) for each in self.order or range(self.partitions)))

    def produce(self, node: Node, request: ProduceRequest, now_ms: int) -> dict[int, PartitionAnswer]:
        """What the broker at the other end does with a request, and answers once it may."""
        self.leader.last_outcomes = {}
        number = self.number_of(node)
        if not self.exists:
            return {batch.partition: PartitionAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for batch in request.batches}
        if number != self.leader_id:
            return {batch.partition: PartitionAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER) for batch in request.batches}
        return self.leader.produce(request, now_ms)

    def successor(self) -> int | None:
        """Who takes over from a leader that dies: the first of the others; None without one."""
        return next((number for number in range(self.brokers) if number != self.leader_id), None)

    def move_leader(self, to: int) -> None:
        """A controlled move: the new leader has everything."""
        self.leader_id, self.leader_epoch = to, self.leader_epoch + 1
