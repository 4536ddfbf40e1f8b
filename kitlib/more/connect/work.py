"""The work of a Connect cluster, connectors and tasks, and what the leader tells each worker about it.

A connector is configured by its name; it says how many tasks it wants, and each task is a unit of work
of its own. `tasks.max` is an upper bound and no order: a source connector returns as many task configurations as
it has work for, a sink connector usually returns `tasks.max`, and then its tasks are members of one consumer
group, in which a task without a partition idles. Both are handed to workers. The leader of the group keeps no table of who runs what: every
worker reports it in its JoinGroup, and the leader answers with what to start and what to stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kitlib.errors import KitError
from kitlib.java.hash_codes import text_hash_code
from kitlib.java.hash_tables import SMALLEST_TABLE, HashOrder

TaskId = tuple[str, int]  # the connector's name and the task's number, from 0


class ConnectError(KitError):
    """A Connect cluster is asked for something that it cannot do."""


@dataclass(slots=True)
class ConnectorsAndTasks:
    """Connectors and tasks, each once, in the order in which they were added."""

    connectors: dict[str, None] = field(default_factory=dict)
    tasks: dict[TaskId, None] = field(default_factory=dict)

    @classmethod
    def of(cls, connectors: Iterable[str] = (), tasks: Iterable[TaskId] = ()) -> ConnectorsAndTasks:
        """A new collection; what comes again is left out."""
        return cls(dict.fromkeys(connectors), dict.fromkeys(tasks))

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __len__(self) -> int:
        return len(self.connectors) + len(self.tasks)

    def copy(self) -> ConnectorsAndTasks:
        """The same work in a collection of its own."""
        return ConnectorsAndTasks(dict(self.connectors), dict(self.tasks))

    def add(self, other: ConnectorsAndTasks) -> None:
        """Add what is not there yet, behind what is."""
        self.connectors |= other.connectors
        self.tasks |= other.tasks

    def remove(self, other: ConnectorsAndTasks) -> None:
        """Take out what `other` holds; the rest keeps its order."""
        for connector in other.connectors:
            self.connectors.pop(connector, None)
        for task in other.tasks:
            self.tasks.pop(task, None)

    def without(self, *others: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """What is in none of the others, sorted by name, tasks by connector and number."""
        left = self.copy()
        for other in others:
            left.remove(other)
        return ConnectorsAndTasks.of(sorted(left.connectors), sorted(left.tasks))

    def within(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """What both hold."""
        return ConnectorsAndTasks.of(
            (each for each in self.connectors if each in other.connectors),
            (each for each in self.tasks if each in other.tasks),
        )


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
    return ConnectorsAndTasks.of(names, ((name, number) for name in names for number in range(connectors[name])))


def check_members(members: Iterable[str]) -> None:
    """ConnectError unless there is a worker to give work to."""
    if not list(members):
        raise ConnectError("the group has no worker, expected at least 1. Let a worker join first.")


def as_told(connectors: Iterable[str], tasks: Iterable[TaskId]) -> ConnectorsAndTasks:
    """The same work in the order in which it arrives over the wire: tasks by connector, connectors in Java's hash order.

    Source: Kafka 4.3.1, ConnectProtocol.Assignment.asMap, ExtendedAssignment.toStruct. Differs: nothing
    that matters; fewer than eight names share a bucket.
    """
    named = hash_set_order(list(dict.fromkeys(connectors)))
    by_connector: dict[str, list[TaskId]] = {name: [] for name in named}
    for task in tasks:
        by_connector.setdefault(task[0], []).append(task)
    return ConnectorsAndTasks.of(named, (task for each in by_connector.values() for task in each))


def hash_set_order(names: Iterable[str]) -> list[str]:
    """Each name once, as `new HashSet<>(collection)` hands them out, which is made large enough at once.

    Source: OpenJDK 21, HashSet(Collection), HashMap.tableSizeFor. Differs: as HashOrder.
    """
    distinct = list(dict.fromkeys(names))
    wanted = max(int(len(distinct) / 0.75) + 1, SMALLEST_TABLE)
    order = HashOrder[str](text_hash_code, buckets=1 << (wanted - 1).bit_length())
    for name in distinct:
        order.add(name)
    return list(order)


ConnectProtocol = Literal["sessioned", "compatible", "eager"]  # connect.protocol
EAGER: ConnectProtocol = "eager"


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """The settings of every worker of one cluster, all times in ms."""

    scheduled_rebalance_max_delay_ms: int = 300_000  # Source: Kafka 4.3.1, DistributedConfig
    session_timeout_ms: int = 10_000  # Source: Kafka 4.3.1, DistributedConfig; a worker's own, not a consumer's
    join_ms: int = 1_000  # until all workers have joined again; at most a heartbeat, if none is dead
    protocol: ConnectProtocol = "sessioned"

    def __post_init__(self) -> None:
        for name in ("scheduled_rebalance_max_delay_ms", "session_timeout_ms", "join_ms"):
            if getattr(self, name) < 0:
                raise ConnectError(f"{name} is {getattr(self, name)}, expected 0 or more.")
        if self.protocol not in ("sessioned", "compatible", "eager"):
            raise ConnectError(f"connect.protocol is {self.protocol!r:.40}, expected sessioned, compatible or eager.")


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
    """The partitions of each of a sink's `tasks_max` tasks, by the range rule; an empty list is an idle task.

    ConnectError unless tasks_max >= 1. The tasks' consumers begin with the range assignor, topic by topic.
    """
    if tasks_max < 1:
        raise ConnectError(f"tasks.max is {tasks_max}, expected 1 or more.")
    held: list[list[tuple[str, int]]] = [[] for _ in range(tasks_max)]
    for topic in sorted(partitions):
        share, extras = divmod(partitions[topic], tasks_max)
        first = 0
        for number, task in enumerate(held):
            count = share + (number < extras)
            task.extend((topic, partition) for partition in range(first, first + count))
            first += count
    return held
