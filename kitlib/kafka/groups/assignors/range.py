"""Range: each topic by itself, cut into one run of neighbouring partitions for each member.

The partitions of equal numbers of two topics come to the same member, so that they can be joined. The
price: the odd partition of every topic goes to the same first members.

Source: Apache Kafka 4.3.1, `RangeAssignor.assignPartitions`.
Differs: racks are left out, and with them the matching of co-partitioned topics to racks.
"""

from __future__ import annotations

from collections.abc import Sequence

from kitlib.kafka.groups.assignors.subscription import (
    Assignment,
    Partitions,
    Subscription,
    by_instance_id,
    partitions_of,
)


def assign_ranges(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """The first `partitions % members` of a topic's members get one partition more than the others."""
    assignment: Assignment = {each.member: [] for each in subscriptions}
    for topic in partitions:
        readers = sorted((each for each in subscriptions if topic in each.topics), key=by_instance_id)
        if not readers:
            continue
        unassigned = partitions_of(topic, partitions)
        each_gets, get_one_more = divmod(len(unassigned), len(readers))
        for number, reader in enumerate(readers):
            count = each_gets + (number < get_one_more)
            assignment[reader.member] += unassigned[:count]
            unassigned = unassigned[count:]
    return assignment
