"""Sticky: as even as can be, and each member keeps what it owned as far as that allows.

Two algorithms. When all members read the same topics, everybody keeps up to a quota and the rest is dealt
out. Else the general one starts from what is owned and moves partitions until nothing gets more even.

Members say themselves what they owned, and in which generation of the group; a member that was away for a
while may claim what has another owner by now. The higher generation wins. Two claims of one generation
are both void.

Source: Apache Kafka 4.3.1, `AbstractStickyAssignor` (`assignPartitions`, `allSubscriptionsEqual`), `StickyAssignor`.
Differs: racks are left out. The real object remembers the highest generation that it ever saw; here it
is that of the members of today.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kitlib.java.hash_tables import in_computed_order
from kitlib.kafka.groups.assignors.sticky_constrained import Constrained
from kitlib.kafka.groups.assignors.sticky_general import General
from kitlib.kafka.groups.assignors.subscription import (
    NO_GENERATION,
    Assignment,
    Partitions,
    Subscription,
    TopicPartition,
)


@dataclass(slots=True)
class Claims:
    """What the members own, after the claims of all were compared."""

    owned: Assignment = field(default_factory=dict)  # each partition under one member at most
    void: set[TopicPartition] = field(default_factory=set)  # claimed twice in one generation
    owner: dict[TopicPartition, str] = field(default_factory=dict)  # who claimed it last

    def add(self, partition: TopicPartition, claimant: Subscription, others: dict[str, Subscription]) -> None:
        """One more claim: of a free partition it is granted, else generations decide."""
        owner = self.owner.get(partition)
        other = None if owner is None else others[owner]
        if other is not None and claimant.generation < other.generation:
            return
        if other is not None:
            if partition in self.owned[other.member]:
                self.owned[other.member].remove(partition)
            if claimant.generation == other.generation:
                self.void.add(partition)
        if other is None or claimant.generation > other.generation:
            self.owned[claimant.member].append(partition)
        self.owner[partition] = claimant.member


def claims_of(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Claims:
    """Who owns what; topics without metadata are left out, partitions that are no more are not."""
    claims, members = Claims(), {each.member: each for each in subscriptions}
    for each in subscriptions:
        claims.owned[each.member] = []
        for partition in each.owned:
            if partition.topic in partitions:
                claims.add(partition, each, members)
    return claims


def all_subscriptions_equal(subscriptions: Sequence[Subscription]) -> bool:
    """Whether all members want the same topics.

    A bug of the real one is kept: as long as no topic has been seen, a member counts as the first one. So
    members that want nothing pass as equal to all when they come first, and are given partitions of topics
    that they never asked for.
    """
    topics: set[str] = set()
    for each in subscriptions:
        if not topics:
            topics |= set(each.topics)
        elif len(each.topics) != len(topics) or not topics.issuperset(each.topics):
            return False
    return True


def decide(
    partitions: Partitions, subscriptions: Sequence[Subscription]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and which partitions change hands (partition -> new owner); None where that was not kept."""
    claims = claims_of(partitions, subscriptions)
    if all_subscriptions_equal(subscriptions):
        constrained = Constrained(partitions, claims.owned, claims.void)
        return constrained.build(), constrained.transferring
    return General(partitions, claims.owned, {each.member: each for each in subscriptions}).build(), None


def assign_sticky(partitions: Partitions, subscriptions: Sequence[Subscription]) -> Assignment:
    """What an eager group gets: partitions change hands at once.

    The members have given everything up before they joined, so what they owned comes as data of the
    assignor, topic by topic; a member without a generation has none to tell.
    """
    return decide(partitions, [as_user_data(each) for each in subscriptions])[0]


def as_user_data(subscription: Subscription) -> Subscription:
    """The subscription as it comes out of the sticky assignor's user data."""
    if subscription.generation <= NO_GENERATION:
        return replace(subscription, owned=())
    topics = in_computed_order(each.topic for each in subscription.owned)
    return replace(
        subscription, owned=tuple(each for topic in topics for each in subscription.owned if each.topic == topic)
    )
