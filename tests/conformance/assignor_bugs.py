"""Bugs of assignors, planted by hand: what each puts in the place of a function or method of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kitlib.kafka.groups import assignors
from kitlib.kafka.groups.assignors import ASSIGNORS, sticky
from kitlib.kafka.groups.assignors.sticky import Claims, Constrained, General, Movements
from kitlib.kafka.groups.assignors.subscription import Assignment, Subscription, TopicPartition, by_java_order, by_topic

Patch = tuple[Any, str, Any]  # where, which name, what stands there instead

_REAL_KEEP = Constrained.keep_owned
_REAL_UNASSIGNED = Constrained.unassigned_partitions
_REAL_ADD = Claims.add
_REAL_EQUAL = sticky.all_subscriptions_equal


def _by_member_id(subscription: Subscription) -> bytes:
    """Static members are ordered as the others are."""
    return by_java_order(subscription.member)


def _static_last(subscription: Subscription) -> tuple[bool, bytes]:
    """Static members come after the others."""
    instance = subscription.instance_id
    return instance is not None, by_java_order(subscription.member if instance is None else instance)


def _ids_as_numbers(subscription: Subscription) -> tuple[int, str]:
    """c2 before c10."""
    return len(subscription.member), subscription.member


def _each_topic_from_the_first(partitions: Any, subscriptions: Sequence[Subscription]) -> Assignment:
    """The deal does not go on from topic to topic."""
    deals = [
        assignors.assign_round_robin({topic: count}, subscriptions) for topic, count in sorted(partitions.items())
    ]
    return {each.member: [part for deal in deals for part in deal[each.member]] for each in subscriptions}


def _keeps_by_topic(self: Constrained, member: str) -> None:
    """Who has too much keeps the first topics, not the lowest numbers."""
    before = len(self.assignment[member])
    _REAL_KEEP(self, member)
    kept = self.assignment[member]
    owned = sorted((each for each in self.owned[member] if each not in self.void), key=by_topic)
    kept[before:] = owned[: len(kept) - before]
    self.revoked = {each: by for each, by in self.revoked.items() if by != member}
    self.revoked |= dict.fromkeys(owned[len(kept) :], member)


def _no_one_keeps_more(self: Constrained, member: str) -> None:
    """Everybody keeps the lower quota, and the rest is dealt out anew."""
    wanted, self.max_quota = self.max_quota, 10**9
    _REAL_KEEP(self, member)
    self.max_quota = wanted


def _dealt_by_number(self: Constrained) -> list[TopicPartition]:
    """The rest is dealt by number and topic."""
    return sorted(_REAL_UNASSIGNED(self), key=lambda each: (each.partition, each.topic))


def _first_claim_wins(
    self: Claims, partition: TopicPartition, claimant: Subscription, others: dict[str, Subscription]
) -> None:
    """Generations are not compared."""
    if partition not in self.owner:
        _REAL_ADD(self, partition, claimant, others)


def _older_claim_voids(
    self: Claims, partition: TopicPartition, claimant: Subscription, others: dict[str, Subscription]
) -> None:
    """Every second claim is void, whichever generation it is from."""
    if partition in self.owner:
        self.void.add(partition)
    _REAL_ADD(self, partition, claimant, others)


def _equal_without_the_bug(subscriptions: Sequence[Subscription]) -> bool:
    """A member that wants nothing is no first one."""
    return len({frozenset(each.topics) for each in subscriptions}) == 1


def _gives_at_once(partitions: Any, subscriptions: Sequence[Subscription]) -> Assignment:
    """Nothing is taken out: two members own a partition for a while."""
    return sticky.decide(partitions, subscriptions)[0]


def _all_that_is_new(subscriptions: Sequence[Subscription], assignment: Assignment) -> dict[TopicPartition, str]:
    """What nobody owned waits as well."""
    return {part: each.member for each in subscriptions for part in assignment[each.member] if part not in each.owned}


def _any_member(self: General) -> list[str]:
    """Members by id, whoever has least."""
    return sorted(self.balancing, key=by_java_order)


def _no_older_claims(self: General) -> None:
    """What was owned in an older generation is forgotten."""


def _topics_by_name(self: General, topic: str) -> tuple[int, bytes]:
    """Topics with few readers are not given out first."""
    return 0, by_java_order(topic)


def _one_less_is_uneven(self: General) -> bool:
    """Balanced only when all have the same."""
    return len({len(has) for has in self.assignment.values()}) == 1


BUGS: dict[str, Patch] = {
    "range: static members are not first": (assignors, "by_instance_id", _by_member_id),
    "range: ids are ordered as numbers": (assignors, "by_instance_id", _ids_as_numbers),
    "round robin: static members last": (assignors, "by_instance_id", _static_last),
    "round robin: each topic from the first member": (ASSIGNORS, "roundrobin", _each_topic_from_the_first),
    "sticky: always the general algorithm": (sticky, "all_subscriptions_equal", lambda subscriptions: False),
    "sticky: an empty subscription is no first one": (sticky, "all_subscriptions_equal", _equal_without_the_bug),
    "sticky: a member without generation tells what it owned": (sticky, "as_user_data", lambda each: each),
    "sticky: the first claim wins": (Claims, "add", _first_claim_wins),
    "sticky: any second claim is void": (Claims, "add", _older_claim_voids),
    "sticky: the first topics are kept": (Constrained, "keep_owned", _keeps_by_topic),
    "sticky: nobody keeps one more": (Constrained, "keep_owned", _no_one_keeps_more),
    "sticky: the rest is dealt by number": (Constrained, "unassigned_partitions", _dealt_by_number),
    "general: older claims are forgotten": (General, "remember_older_claims", _no_older_claims),
    "general: topics by name": (General, "topic_order", _topics_by_name),
    "general: any member gets what is free": (General, "by_count", _any_member),
    "general: balanced only when equal": (General, "is_balanced", _one_less_is_uneven),
    "general: always balanced": (General, "is_balanced", lambda self: True),
    "general: what was moved is never undone": (sticky, "score", lambda assignment: -len(str(assignment))),
    "general: moves both ways": (Movements, "actual_partition", lambda self, partition, giver, taker: partition),
    "cooperative: gives at once": (ASSIGNORS, "cooperative-sticky", _gives_at_once),
    "cooperative: waits for what is free": (sticky, "changing_hands", _all_that_is_new),
}
