"""Cooperative sticky: the sticky assignment in two rebalances, so that nobody stops reading what it keeps.

A partition that changes hands is given to nobody at first. Its owner sees that it has lost it, stops, and
joins again; only the next rebalance gives it to the new owner. So no two members ever have it, and no
member had to give up everything to make sure of that.

Source: Apache Kafka 4.3.1, `CooperativeStickyAssignor`.
Differs: racks are left out; `rounds` plays the members, who own what they were given and join again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kitlib.kafka.groups.assignors.sticky import decide
from kitlib.kafka.groups.assignors.subscription import (
    NO_GENERATION,
    Assignment,
    Partitions,
    Subscription,
    TopicPartition,
    by_topic,
)


def assign_cooperative_sticky(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """The sticky assignment without what somebody else still owns, as the members' lists come over the wire: sorted."""
    subscriptions = [replace(each, owned=tuple(sorted(each.owned, key=by_topic))) for each in subscriptions]
    assignment, transferring = decide(partitions, subscriptions)
    if transferring is None:
        transferring = changing_hands(subscriptions, assignment)
    for partition, taker in transferring.items():
        assignment[taker].remove(partition)
    return assignment


def changing_hands(subscriptions: Sequence[Subscription], assignment: Assignment) -> dict[TopicPartition, str]:
    """What a member gets and another one, who owned it, loses: partition -> new owner."""
    added: dict[TopicPartition, str] = {}
    lost: set[TopicPartition] = set()
    for each in subscriptions:
        owned, assigned = set(each.owned), set(assignment[each.member])
        added |= {partition: each.member for partition in assignment[each.member] if partition not in owned}
        lost |= owned - assigned
    return {partition: member for partition, member in added.items() if partition in lost}


Assign = Callable[[Partitions, Sequence[Subscription]], Assignment]


def rounds(
    partitions: Partitions,
    subscriptions: Sequence[Subscription],
    most: int = 20,
    assign: Assign = assign_cooperative_sticky,
) -> list[Assignment]:
    """The assignments of a rebalance and of those that follow from it, until nothing changes any more, `most` at most."""
    found = [assign(partitions, subscriptions)]
    generation = max((each.generation for each in subscriptions), default=NO_GENERATION)
    while len(found) < most:
        generation += 1
        now = [replace(each, owned=tuple(found[-1][each.member]), generation=generation) for each in subscriptions]
        following = assign(partitions, now)
        if {member: sorted(has) for member, has in following.items()} == {
            member: sorted(has) for member, has in found[-1].items()
        }:
            break
        found.append(following)
    return found
