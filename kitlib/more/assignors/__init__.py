"""Who gets which partition: range, round robin, sticky and cooperative sticky, as Kafka's Java client decides it.

The coordinator of a group only passes on; the decision is made by one of the members, the leader, with
the assignor that all of them support. Each assignor is a pure function of the topics' partitions and the
members' subscriptions, which it takes in the order in which Java's HashMap hands the members out:
`assign` sees to that.

    assign("range", {"orders": 3}, [Subscription("A", ("orders",)), Subscription("B", ("orders",))])

Source: Apache Kafka 4.3.1, `AbstractPartitionAssignor.assign`, `ConsumerCoordinator.onLeaderElected`.
Differs: racks are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from kitlib.errors import KnobError
from kitlib.java.hash_tables import in_hash_order
from kitlib.more.assignors.sticky import Assign, assign_cooperative_sticky, assign_sticky, rounds
from kitlib.more.assignors.subscription import (
    NO_GENERATION,
    Assignment,
    AssignorFailedError,
    Partitions,
    Subscription,
    TopicPartition,
    all_partitions,
    by_instance_id,
    by_java_order,
    partitions_of,
)


def assign_ranges(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """Each topic by itself, cut into one run of neighbouring partitions for each member.

    The partitions of equal numbers of two topics come to the same member, so that they can be joined. The price:
    the odd partitions of every topic (`partitions % members`, one each) go to the same first members.

    Source: Apache Kafka 4.3.1, `RangeAssignor.assignPartitions`.
    Differs: racks are left out, and with them the matching of co-partitioned topics to racks.
    """
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


def assign_round_robin(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """All partitions of all topics in one row, dealt out one by one to the members as range orders them.

    With equal subscriptions nobody has more than one partition more than another. A member that does not read
    a topic is passed over, and it stays passed over: the next partition goes to the one after.

    Source: Apache Kafka 4.3.1, `RoundRobinAssignor.assign`.
    Differs: nothing.
    """
    assignment: Assignment = {each.member: [] for each in subscriptions}
    readable = {topic for each in subscriptions for topic in each.topics} & set(partitions)
    members = cycle(sorted(subscriptions, key=by_instance_id))
    for partition in all_partitions(sorted(readable, key=by_java_order), partitions):
        reader = next(each for each in members if partition.topic in each.topics)
        assignment[reader.member].append(partition)
    return assignment


ASSIGNORS: dict[str, Assign] = {  # by the name that members send when they join
    "range": assign_ranges,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}
COOPERATIVE = frozenset({"cooperative-sticky"})  # whose members keep what they have while they join

__all__ = [
    "ASSIGNORS",
    "COOPERATIVE",
    "NO_GENERATION",
    "Assign",
    "Assignment",
    "AssignorFailedError",
    "Partitions",
    "Subscription",
    "TopicPartition",
    "as_the_leader_sees",
    "assign",
    "rounds",
]


def assign(strategy: str, partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """Member -> its partitions, in the order in which they were given; every member is in it.

    `subscriptions` come in the order of the coordinator's answer to the leader. KnobError for another
    strategy, for no member, for two with one id, and for a topic without partitions. AssignorFailedError
    where the real class throws.
    """
    if strategy not in ASSIGNORS:
        raise KnobError(f"there is no assignor '{strategy}'. There are {', '.join(ASSIGNORS)}.")
    return ASSIGNORS[strategy](*as_the_leader_sees(partitions, subscriptions))


def as_the_leader_sees(
    partitions: Partitions, subscriptions: Sequence[Subscription]
) -> tuple[dict[str, int], list[Subscription]]:
    """The subscribed topics that exist, and the members, both in the order of the leader's hash tables.

    KnobError for no member, for two with one id, and for a topic without partitions.
    """
    members = {each.member: each for each in subscriptions}
    if not members or len(members) < len(subscriptions):
        raise KnobError(
            f"{len(subscriptions)} members with {len(members)} ids: give 1 member or more, each with its own id."
        )
    empty = next((topic for topic, count in partitions.items() if count < 1), None)
    if empty is not None:
        raise KnobError(f"topic {empty} has {partitions[empty]} partitions. Give 1 or more.")
    in_order = (members[member] for member in in_hash_order(members))
    seen = [replace(each, topics=tuple(sorted(each.topics, key=by_java_order))) for each in in_order]  # as on the wire
    subscribed = in_hash_order(topic for each in seen for topic in each.topics)
    topics = in_hash_order(topic for topic in subscribed if topic in partitions)
    return {topic: partitions[topic] for topic in topics}, seen
