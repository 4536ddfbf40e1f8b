"""Round robin: all partitions of all topics in one row, dealt out one by one.

With equal subscriptions nobody has more than one partition more than another. A member that does not read
a topic is passed over, and it stays passed over: the next partition goes to the one after.

Source: Apache Kafka 4.3.1, `RoundRobinAssignor.assign`.
Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from kitlib.kafka.groups.assignors.subscription import (
    Assignment,
    Partitions,
    Subscription,
    all_partitions,
    by_instance_id,
    by_java_order,
)


def assign_round_robin(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """Partitions by topic and number, members as range orders them; the deal goes on where it stopped."""
    assignment: Assignment = {each.member: [] for each in subscriptions}
    readable = {topic for each in subscriptions for topic in each.topics} & set(partitions)
    members = cycle(sorted(subscriptions, key=by_instance_id))
    for partition in all_partitions(sorted(readable, key=by_java_order), partitions):
        reader = next(each for each in members if partition.topic in each.topics)
        assignment[reader.member].append(partition)
    return assignment
