"""The old way to be a group: no coordinator, every member watches ZooKeeper and decides for itself.

Each member puts a node with its name under the group's `ids`, and watches that folder. A node of a session
goes when the session ends. A member that is notified of a change gives up its partitions, reads who is there, works
out the same range assignment as all others, and takes its share by making one owner node for each
partition.

Two things are wrong with it. A change wakes all members at once, and each of them reads about all others:
the herd, whose reads grow with the square of the members. And no one checks before a record is read:
a member whose session has expired without its knowledge keeps reading what another one owns by now.

Source: Apache Kafka 0.8.2.1, `ZookeeperConsumerConnector` (`registerConsumerInZK`, `ZKRebalancerListener`,
`ZKSessionExpireListener`), `PartitionAssignor`, `ConsumerConfig`; ZooKeeper 3.4, watches and sessions.
Differs: one topic and one thread a member; the broker and topic nodes are counted as reads, not kept; the
client that reads a watched folder again after each change counts as one read; there is one broker. Every member
is notified in time, so nobody finds another's owner node where it makes its own: that it then tries again
(`rebalance.max.retries`) is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kitlib.more.assignors import Subscription, assign

SESSION_TIMEOUT_MS = 6_000  # ZKConfig, zookeeper.session.timeout.ms


@dataclass(slots=True)
class ZooKeeper:
    """A tree of nodes, of which some live as long as the session that made them, and watches that fire once."""

    nodes: dict[str, tuple[str, str | None]] = field(default_factory=dict)  # path -> (data, session or None)
    watches: dict[str, list[str]] = field(default_factory=dict)  # folder -> who hears of the next change in it
    traffic: Counter[str] = field(default_factory=Counter)  # reads, writes, notifications

    def children(self, folder: str, watcher: str | None = None) -> list[str]:
        """The names in a folder, sorted; who watches hears of the next change, once."""
        self.traffic["reads"] += 1
        if watcher is not None and watcher not in self.watches.setdefault(folder, []):
            self.watches[folder].append(watcher)
        return sorted(path.removeprefix(folder + "/") for path in self.nodes if path.rpartition("/")[0] == folder)

    def get(self, path: str) -> str | None:
        """A node's data; None when it is not there."""
        self.traffic["reads"] += 1
        return self.nodes[path][0] if path in self.nodes else None

    def put(self, path: str, data: str) -> None:
        """Write a node that stays; nobody is asked who wrote it last."""
        self.traffic["writes"] += 1
        self.nodes[path] = data, None

    def create(self, path: str, data: str, session: str) -> list[str]:
        """Make a node of a session; who is woken."""
        self.traffic["writes"] += 1
        self.nodes[path] = data, session
        return self.fire(path)

    def delete(self, path: str) -> list[str]:
        """Take a node away; who is woken."""
        self.traffic["writes"] += 1
        self.nodes.pop(path, None)
        return self.fire(path)

    def expire(self, session: str) -> list[str]:
        """The session has ended, so its nodes go; who is woken."""
        gone = [path for path, (_, made_by) in self.nodes.items() if made_by == session]
        for path in gone:
            del self.nodes[path]
        return [name for path in gone for name in self.fire(path)]

    def fire(self, path: str) -> list[str]:
        """Those who watched the node's folder, who must look again to hear of the next change."""
        woken = self.watches.pop(path.rpartition("/")[0], [])
        self.traffic["notifications"] += len(woken)
        return woken


@dataclass(slots=True)
class OldConsumer:
    """One member of a group on ZooKeeper, and what it believes."""

    name: str
    group: str
    topic: str
    partitions: int
    session: str = ""  # that of its nodes; it may have ended without the member's knowledge
    holds: list[int] = field(default_factory=list)  # the partitions that it reads, whatever ZooKeeper says
    share: list[int] = field(default_factory=list)  # what it decided to take, before it has it

    @property
    def ids(self) -> str:
        """The folder of the group's members."""
        return f"/consumers/{self.group}/ids"

    def owner_path(self, partition: int) -> str:
        """The node that says who owns a partition."""
        return f"/consumers/{self.group}/owners/{self.topic}/{partition}"

    def offset_path(self, partition: int) -> str:
        """The node with a partition's committed offset."""
        return f"/consumers/{self.group}/offsets/{self.topic}/{partition}"

    def register(self, zookeeper: ZooKeeper, session: str) -> list[str]:
        """Be a member from now on, in this session; who is woken."""
        self.session = session
        return zookeeper.create(f"{self.ids}/{self.name}", self.topic, session)

    def give_up(self, zookeeper: ZooKeeper) -> list[int]:
        """Stop reading, and delete the owner nodes; the partitions that it held."""
        held, self.holds = self.holds, []
        for partition in held:
            zookeeper.delete(self.owner_path(partition))
        return held

    def decide(self, zookeeper: ZooKeeper) -> list[int]:
        """Read who is there, and work out its own share as everybody does; the folder is watched again.

        It reads the brokers twice, its own node, the list of members and each member's node, the topic's
        partitions, the list once more, and the offsets of its share.
        """
        zookeeper.traffic["reads"] += 6  # twice the folder of brokers and the one in it; its own node, the topic's node
        members = zookeeper.children(self.ids, watcher=self.name)
        wants = {name: zookeeper.get(f"{self.ids}/{name}") for name in members}
        zookeeper.traffic["reads"] += 1  # the list of members again, without a watch
        readers = [Subscription(name, (self.topic,)) for name, topic in wants.items() if topic == self.topic]
        dealt = assign("range", {self.topic: self.partitions}, readers) if readers else {}
        self.share = [each.partition for each in dealt.get(self.name, [])]
        return self.share

    def committed(self, zookeeper: ZooKeeper, partition: int) -> int:
        """Where a partition's reader left off; 0 when nobody has committed yet."""
        return int(zookeeper.get(self.offset_path(partition)) or 0)

    def take(self, zookeeper: ZooKeeper) -> None:
        """Make the owner nodes of its share."""
        for partition in self.share:
            zookeeper.create(self.owner_path(partition), self.name, self.session)
        self.holds = self.share


def share_by_threads(threads: Mapping[str, int], partitions: int) -> dict[str, list[int]]:
    """Who reads what when members have several threads of a topic: the range over all threads, sorted as texts.

    Source: Apache Kafka 0.8.2.1, `RangeAssignor`, `ConsumerThreadId`.
    Differs: nothing.
    """
    readers = [Subscription(f"{name}-{thread}", ("t",)) for name, count in threads.items() for thread in range(count)]
    dealt = assign("range", {"t": partitions}, readers)
    return {reader.member: [each.partition for each in dealt.get(reader.member, [])] for reader in readers}


def messages(traffic: Counter[str]) -> int:
    """All of it in messages: a question and its answer count as two, a notification as one."""
    return 2 * (traffic["reads"] + traffic["writes"]) + traffic["notifications"]


def coordinator_messages(members: int) -> int:
    """The messages of the same join with a coordinator: questions and answers, heartbeats only where they bring the news.

    The newcomer finds the coordinator and is sent back once for its member id; the others hear of the
    rebalance in the answer to a heartbeat; all of them join, and all of them sync.

    Source: Apache Kafka 4.3.1, `AbstractCoordinator`; KIP-394 for the id.
    """
    find, for_an_id = 2, 2
    heartbeats, joins, syncs = 2 * members, 2 * (members + 1), 2 * (members + 1)
    return find + for_an_id + heartbeats + joins + syncs
