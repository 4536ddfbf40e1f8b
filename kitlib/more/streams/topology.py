"""A topology of Kafka Streams, cut into sub-topologies, and the tasks that come of it.

Processors that are joined by an edge or by a common state store must run in one place: together they are
a sub-topology. What goes from one sub-topology to another goes through a topic. Each sub-topology runs
once for each partition of its widest input topic, and each of these is a task: the unit that is given to
a thread, and the most that can run at once. So a narrow topic in the middle, such as a repartition topic
of two partitions, leaves two tasks behind it whatever comes before.

Left out: global stores, topics by pattern, named topologies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kitlib.errors import KitError

StreamsTaskId = tuple[int, int]  # (sub-topology, partition); written 0_3


class TopologyError(KitError):
    """A topology is asked for something that cannot run."""


def task_name(task: StreamsTaskId) -> str:
    """As Streams writes a task id: 0_3."""
    return f"{task[0]}_{task[1]}"


@dataclass(frozen=True, slots=True)
class SubTopology:
    """What runs together: the topics it reads and writes, its stores. Names in the order of the topology."""

    number: int
    source_topics: tuple[str, ...]
    sink_topics: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(slots=True)
class StreamsTopology:
    """Nodes in the order in which they were added, upstream first.

    Source: Kafka 4.3.1, streams.processor.internals.InternalTopologyBuilder (`connectProcessorAndStateStore`,
    `makeNodeGroups`), PartitionGrouper, CopartitionedTopicsEnforcer. Differs: a repartition topic has a number of its own.
    With group.protocol=streams, which is not here, the broker looks at every join.
    """

    topics_of: dict[str, tuple[str, ...]] = field(default_factory=dict)  # source or sink -> topics
    sinks: set[str] = field(default_factory=set)
    group_of: dict[str, str] = field(default_factory=dict)  # node or store -> another one of its group; union-find
    nodes: list[str] = field(default_factory=list)
    stores: dict[str, tuple[str, ...]] = field(default_factory=dict)  # store -> the processors that use it
    repartitions: dict[str, int] = field(default_factory=dict)  # internal topic -> partitions
    copartitioned: list[tuple[str, ...]] = field(default_factory=list)  # topics that are joined

    def source(self, name: str, *topics: str) -> StreamsTopology:
        """A node that reads topics; several topics of one source are read together."""
        self._add(name, ())
        self.topics_of[name] = topics
        return self

    def processor(self, name: str, *parents: str, stores: tuple[str, ...] = ()) -> StreamsTopology:
        """A node that works on what its parents hand on, with these state stores."""
        self._add(name, parents)
        for store in stores:
            self.stores[store] = (*self.stores.get(store, ()), name)
            self._join(name, f"store {store}")
        return self

    def sink(self, name: str, topic: str, *parents: str) -> StreamsTopology:
        """A node that writes a topic."""
        self._add(name, parents)
        self.topics_of[name] = (topic,)
        self.sinks.add(name)
        return self

    def repartition(self, topic: str, parent: str, partitions: int) -> StreamsTopology:
        """Cut here: what `parent` hands on goes through an internal topic, and a new source named like it reads that."""
        self.sink(f"{topic}-sink", topic, parent)
        self.source(f"{topic}-source", topic)
        self.repartitions[topic] = partitions
        return self

    def joined(self, *topics: str) -> StreamsTopology:
        """These topics are joined by key, so their partitions must be the same number.

        Streams looks at that only where something is repartitioned; without it, records whose partitions differ do not meet.
        """
        self.copartitioned.append(topics)
        return self

    def sub_topologies(self) -> list[SubTopology]:
        """The parts that run together, numbered in the order of their first nodes."""
        groups: dict[str, list[str]] = {}
        for node in self.nodes:
            groups.setdefault(self._root(node), []).append(node)
        found = []
        for number, nodes in enumerate(groups.values()):
            sources = dict.fromkeys(
                topic for node in nodes if node not in self.sinks for topic in self.topics_of.get(node, ())
            )
            sinks = dict.fromkeys(topic for node in nodes if node in self.sinks for topic in self.topics_of[node])
            stores = tuple(store for store, users in self.stores.items() if users[0] in nodes)
            found.append(SubTopology(number, tuple(sources), tuple(sinks), stores))
        return found

    def partitions(self, given: Mapping[str, int]) -> dict[str, int]:
        """The partitions of every topic that is read: those given, and those of repartition topics.

        TopologyError for a topic without a number, a number below 1, or joined topics that differ where something is repartitioned.
        """
        counts = {**given, **self.repartitions}
        for topic in (topic for sub in self.sub_topologies() for topic in sub.source_topics):
            if counts.get(topic, 0) < 1:
                raise TopologyError(f"topic {topic}: it has {counts.get(topic, 'no')} partitions, expected 1 or more.")
        for topics in self.copartitioned if self.repartitions else ():
            if len({counts.get(topic) for topic in topics}) > 1:
                told = ", ".join(f"{topic} has {counts.get(topic)}" for topic in topics)
                raise TopologyError(f"joined topics must have the same number of partitions: {told}. Repartition one of them.")
        return counts

    def tasks(self, given: Mapping[str, int]) -> dict[StreamsTaskId, tuple[tuple[str, int], ...]]:
        """Every task with the topic partitions that it reads. Errors as `partitions`."""
        counts = self.partitions(given)
        return {
            (sub.number, partition): tuple(
                (topic, partition) for topic in sub.source_topics if partition < counts[topic]
            )
            for sub in self.sub_topologies()
            for partition in range(max((counts[topic] for topic in sub.source_topics), default=0))
        }

    def stateful(self, tasks: Mapping[StreamsTaskId, object]) -> set[StreamsTaskId]:
        """Those of the tasks that have a store."""
        with_stores = {sub.number for sub in self.sub_topologies() if sub.stores}
        return {task for task in tasks if task[0] in with_stores}

    def _add(self, name: str, parents: tuple[str, ...]) -> None:
        if name in self.group_of:
            raise TopologyError(f"node {name}: it already exists. Choose another name.")
        for parent in parents:
            if parent not in self.group_of or parent in self.sinks:
                raise TopologyError(f"node {name}: its parent {parent} is not a source or processor. Add that first.")
        self.nodes.append(name)
        self.group_of[name] = name
        for parent in parents:
            self._join(name, parent)

    def _root(self, name: str) -> str:
        while self.group_of.setdefault(name, name) != name:
            name = self.group_of[name]
        return name

    def _join(self, one: str, other: str) -> None:
        self.group_of[self._root(one)] = self._root(other)
