"""Who leads a partition, who is in sync, and how its leader is moved: by order, by the death of a broker, or uncleanly.

For the kit's set of three brokers. Node 1 is also the only controller and must live for a leader to move.
Source: Apache Kafka 4.3.1, AlterPartitionReassignments and ElectLeaders (KIP-455, KIP-460).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kitlib.errors import LabError, LateError
from kitlib.lab import created_resources
from kitlib.lab.clients import Cluster, answered, client_config, kafka_python_admin
from kitlib.lab.processes import wait_until

MOVED_DEADLINE_S = 30.0
LOOK_S = 1.0  # the broker that is asked may be the one that has just died


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the brokers describe it."""

    leader: int  # -1: none
    replicas: tuple[int, ...]  # the first one is the preferred leader
    in_sync: tuple[int, ...]


@dataclass(slots=True)
class Leaders:
    """Partition 0 of a topic, and what can be done about its leader."""

    cluster: Cluster
    topic: str
    admin: AdminClient
    looker: AdminClient = field(init=False)  # asks at one door, node 1's: a paused broker keeps who has come to it waiting

    def __post_init__(self) -> None:
        self.looker = self._new_looker()

    def _new_looker(self) -> AdminClient:
        return AdminClient(client_config(self.cluster) | {"bootstrap.servers": self.cluster.bootstrap.split(",")[0]})

    @classmethod
    def create(cls, cluster: Cluster, topic: str, replicas: Sequence[int], config: dict[str, str]) -> Leaders:
        """A new topic of one partition with its copies on these brokers, led by the first. LabError when it cannot be made."""
        created_resources.remember("topic", topic)
        leaders = cls(cluster, topic, AdminClient(client_config(cluster)))
        new = NewTopic(topic, num_partitions=1, replica_assignment=[list(replicas)], config=config)
        answered(leaders.admin.create_topics([new])[topic], f"topic {topic} could not be made")
        leaders.wait(lambda found: found.leader == replicas[0] and set(found.in_sync) == set(replicas), "it is led by its first broker")
        return leaders

    def look(self) -> Partition | None:
        """The partition now; None when no broker says."""
        try:
            topics = self.looker.list_topics(self.topic, timeout=LOOK_S).topics
        except KafkaException:
            self.looker = self._new_looker()  # it had found its way to others, and one of those is silent
            return None
        found = topics[self.topic].partitions.get(0) if self.topic in topics else None
        return None if found is None else Partition(found.leader, tuple(found.replicas), tuple(found.isrs))

    def wait(self, condition: Callable[[Partition], bool], what: str) -> Partition:
        """Wait until the partition is so. LabError when it is not within MOVED_DEADLINE_S."""
        seen: Partition | None = None

        def is_so() -> Partition | None:
            nonlocal seen
            seen = self.look()
            return seen if seen is not None and condition(seen) else None

        try:
            return wait_until(is_so, MOVED_DEADLINE_S, what)  # type: ignore[return-value]
        except LateError:
            told = f"{self.topic}-0: {what} was not so within {MOVED_DEADLINE_S:g} s, it is {seen}"
            raise LabError(f"{told}. Look at `kit status`.") from None

    def move(self, replicas: Sequence[int]) -> Partition:
        """Make the first of these brokers the leader, in order: nobody dies and nothing is lost.

        They have to be the brokers that have copies, in another order. LabError when it is not done in time.
        """
        from kafka import TopicPartition as Named

        with kafka_python_admin(self.cluster, f"{self.topic}-0: its brokers could not be put in the order {list(replicas)}") as admin:
            admin.alter_partition_reassignments({Named(self.topic, 0): list(replicas)})
        self.wait(lambda found: found.replicas == tuple(replicas), f"its brokers are in the order {list(replicas)}")
        self._elect(ElectionType.PREFERRED)
        return self.wait(lambda found: found.leader == replicas[0], f"broker {replicas[0]} leads")

    def elect_uncleanly(self) -> Partition:
        """Let a broker lead that is not in sync, where none is that lives: what it has not copied is lost."""
        self._elect(ElectionType.UNCLEAN)
        return self.wait(lambda found: found.leader >= 0, "somebody leads")

    def _elect(self, how: ElectionType) -> None:
        """By the client that has just looked: the other may still take a dead broker for the one to ask."""
        asked = self.looker.elect_leaders(how, [TopicPartition(self.topic, 0)])
        answered(asked, f"{self.topic}-0: no leader could be elected")
