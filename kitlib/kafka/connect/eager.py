"""Connect's first way to share work: everyone stops, and the leader reassigns everything.

Connectors first and then tasks, each sorted by name, are assigned round-robin to the workers sorted by name.
Current assignments are ignored, so one joining worker moves nearly everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kitlib.kafka.connect.work import Assignment, ConnectorsAndTasks, check_members, configured_work


def assign_eagerly(connectors: Mapping[str, int], members: Iterable[str]) -> dict[str, Assignment]:
    """Each worker's assignment, by name. ConnectError without a worker, or for a number of tasks below 0.

    `connectors` maps a connector to its number of tasks. The hand that deals goes on from the last
    connector to the first task.

    Source: Kafka 4.3.1, EagerAssignor.performTaskAssignment. Differs: nothing.
    """
    names = sorted(members)
    check_members(names)
    work = configured_work(connectors)
    dealt = {name: ConnectorsAndTasks() for name in names}
    at = 0
    for connector in work.connectors:
        dealt[names[at % len(names)]].connectors[connector] = None
        at += 1
    for task in work.tasks:
        dealt[names[at % len(names)]].tasks[task] = None
        at += 1
    return {name: Assignment(dealt[name], ConnectorsAndTasks()) for name in names}
