"""How many tasks a connector gets, and how many of them have anything to do.

`tasks.max` is an upper bound and no order. A source connector returns as many task configurations as it
has work for: one for a single log, one for each table. A sink connector usually returns `tasks.max`, and
then its tasks are members of one consumer group: a task without a partition idles.
"""

from __future__ import annotations

from collections.abc import Mapping

from kitlib.kafka.connect.work import ConnectError


class TooManyTasksError(ConnectError):
    """A connector returned more task configurations than `tasks.max`, and that is enforced (`tasks.max.enforce`)."""


def source_tasks(connector: str, wanted: int, tasks_max: int, enforce: bool = True) -> int:
    """How many tasks a source connector that returns `wanted` configurations gets.

    TooManyTasksError when wanted > tasks_max and that is enforced; else all of them run. ConnectError
    unless tasks_max >= 1 and wanted >= 0. Well-behaved connectors return at most what they were offered.

    Source: Kafka 4.3.1, connect.runtime.Worker.connectorTaskConfigs, TooManyTasksException. Differs: nothing.
    """
    if tasks_max < 1 or wanted < 0:
        raise ConnectError(
            f"connector {connector}: tasks.max is {tasks_max} and {wanted} tasks, expected 1 and 0 or more."
        )
    if wanted > tasks_max and enforce:
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
