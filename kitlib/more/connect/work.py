"""The work of a Connect cluster, connectors and tasks, and what the leader tells each worker about it.

A connector is configured by its name; it says how many tasks it wants, and each task is a unit of work
of its own. `tasks.max` is an upper bound and no order: a source connector returns as many task configurations as
it has work for, a sink connector usually returns `tasks.max`, and then its tasks are members of one consumer
group, in which a task without a partition idles. Both are handed to workers. The leader of the group keeps no table of who runs what: every
worker reports it in its JoinGroup, and the leader answers with what to start and what to stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kitlib.errors import KitError
from kitlib.java.hash_codes import text_hash_code
from kitlib.java.hash_tables import SMALLEST_TABLE, HashOrder
from kitlib.more.assignors import Subscription, assign

TaskId = tuple[str, int]  # the connector's name and the task's number, from 0
Part = str | TaskId  # a connector or a task


class ConnectError(KitError):
    """A Connect cluster is asked for something that it cannot do."""


class ConnectorsAndTasks(dict[Part, None]):
    """Connectors and tasks, each once, in the order in which they were added."""

    @classmethod
    def of(cls, parts: Iterable[Part]) -> ConnectorsAndTasks:
        """A new collection; what comes again is left out."""
        return cls(dict.fromkeys(parts))

    @property
    def connectors(self) -> list[str]:
        return [each for each in self if isinstance(each, str)]

    @property
    def tasks(self) -> list[TaskId]:
        return [each for each in self if isinstance(each, tuple)]

    def remove(self, other: Iterable[Part]) -> None:
        """Take out what `other` holds; the rest keeps its order."""
        for each in other:
            self.pop(each, None)

    def without(self, *others: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """What is in none of the others: connectors by name, then tasks by connector and number."""
        left = self.keys() - set().union(*others)
        return ConnectorsAndTasks.of(sorted(left, key=lambda part: (isinstance(part, tuple), part)))

    def within(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """What both hold."""
        return ConnectorsAndTasks.of(each for each in self if each in other)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader tells one worker: begin this, stop that, and come again after `delay_ms` if it is not 0."""

    assigned: ConnectorsAndTasks
    revoked: ConnectorsAndTasks
    delay_ms: int = 0


def configured_work(connectors: Mapping[str, int]) -> ConnectorsAndTasks:
    """All that is configured: connectors by name with their number of tasks. ConnectError for a number below 0."""
    for name, tasks in connectors.items():
        if tasks < 0:
            raise ConnectError(f"connector {name}: it has {tasks} tasks, expected 0 or more. Give another number.")
    names = sorted(connectors)
    return ConnectorsAndTasks.of([*names, *((name, number) for name in names for number in range(connectors[name]))])


def as_told(work: ConnectorsAndTasks) -> ConnectorsAndTasks:
    """The same work in the order in which it arrives over the wire: tasks by connector, connectors in Java's hash order.

    Source: Kafka 4.3.1, ConnectProtocol.Assignment.asMap, ExtendedAssignment.toStruct; OpenJDK 21, HashSet(Collection), which is
    made large enough at once. Differs: nothing that matters; fewer than eight names share a bucket.
    """
    wanted = max(int(len(work.connectors) / 0.75) + 1, SMALLEST_TABLE)
    named = HashOrder[str](text_hash_code, buckets=1 << (wanted - 1).bit_length())
    for name in work.connectors:
        named.add(name)
    by_connector: dict[str, list[TaskId]] = {name: [] for name in named}
    for task in work.tasks:
        by_connector.setdefault(task[0], []).append(task)
    return ConnectorsAndTasks.of([*named, *(task for tasks in by_connector.values() for task in tasks)])


ConnectProtocol = Literal["sessioned", "compatible", "eager"]  # connect.protocol
EAGER: ConnectProtocol = "eager"


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """The settings of every worker of one cluster, all times in ms, >= 0."""

    scheduled_rebalance_max_delay_ms: int = 300_000  # Source: Kafka 4.3.1, DistributedConfig
    session_timeout_ms: int = 10_000  # Source: Kafka 4.3.1, DistributedConfig; a worker's own, not a consumer's
    join_ms: int = 1_000  # until all workers have joined again; at most a heartbeat, if none is dead
    protocol: ConnectProtocol = "sessioned"


class TooManyTasksError(ConnectError):
    """A connector returned more task configurations than `tasks.max`."""


def source_tasks(connector: str, wanted: int, tasks_max: int) -> int:
    """How many tasks a source connector that returns `wanted` configurations gets.

    TooManyTasksError when wanted > tasks_max. ConnectError unless tasks_max >= 1 and wanted >= 0. Well-behaved
    connectors return at most what they were offered.

    Source: Kafka 4.3.1, connect.runtime.Worker.connectorTaskConfigs, TooManyTasksException. Differs: `tasks.max.enforce` is true.
    """
    if tasks_max < 1 or wanted < 0:
        raise ConnectError(
            f"connector {connector}: tasks.max is {tasks_max} and {wanted} tasks, expected 1 and 0 or more."
        )
    if wanted > tasks_max:
        raise TooManyTasksError(
            f"connector {connector}: it returned {wanted} tasks, expected at most tasks.max={tasks_max}. "
            "Raise tasks.max, or fix the connector."
        )
    return wanted


def sink_tasks(tasks_max: int, partitions: Mapping[str, int]) -> list[list[tuple[str, int]]]:
    """The partitions of each of a sink's `tasks_max` tasks, whose consumers begin with the range assignor; an empty list is an idle task.

    KnobError unless tasks_max >= 1 and each topic has a partition.
    """
    tasks = [Subscription(f"{number:06}", tuple(partitions)) for number in range(tasks_max)]
    dealt = assign("range", partitions, tasks)
    return [[(each.topic, each.partition) for each in sorted(dealt[task.member])] for task in tasks]
