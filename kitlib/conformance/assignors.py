"""Compares the kit's assignors with what the classes of Kafka 4.4.0 decided for recorded groups.

Each row is one group, so it is a trace of one step, and its result has every assignor's answer: who gets
what, in which order it was given, and for cooperative sticky the rebalances that follow until nothing
changes any more. Where the answer hangs on the order of Java's hash table (`order_sensitive`, which is the
recorder's finding and is not compared) it is compared all the same: the kit knows that order. Where the
class throws, the answer is the `exception`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import quoted
from kitlib.errors import TraceError
from kitlib.more.assignors import (
    ASSIGNORS,
    COOPERATIVE,
    Assignment,
    AssignorFailedError,
    Subscription,
    TopicPartition,
    as_the_leader_sees,
    rounds,
)

_INT = (-(2**31), 2**31 - 1)  # Java's


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the assignors decide for one recorded group. TraceError for a row that is no recorded one."""
    for step in trace["steps"]:
        args = step.get("args", {})
        group = as_the_leader_sees(partitions_of(args), subscriptions_of(args))
        recorded = step.get("result")
        unknown = [name for name in recorded if name not in ASSIGNORS] if isinstance(recorded, dict) else ["?"]
        if unknown:
            raise TraceError(f"the row has an assignor {unknown[0]!r:.60}, expected {', '.join(ASSIGNORS)}.")
        yield {"result": {name: answer(name, group, recorded[name]) for name in recorded}}


def answer(name: str, group: tuple[Any, Any], recorded: Any) -> dict[str, Any]:
    """One assignor's answer in the recording's words."""
    assign = ASSIGNORS[name]
    try:
        given, *following = rounds(*group, assign=assign) if name in COOPERATIVE else [assign(*group)]
    except AssignorFailedError as failed:
        return {"exception": failed.exception}
    told: dict[str, Any] = {
        "assignment": as_recorded(given, in_order=False),
        "raw_list_order": as_recorded(given, in_order=True),
    }
    if isinstance(recorded, dict) and "order_sensitive" in recorded:
        told["order_sensitive"] = recorded["order_sensitive"]
    if name in COOPERATIVE:
        told["follow_up_rounds"] = [as_recorded(each, in_order=False) for each in following]
    return told


def as_recorded(assignment: Assignment, in_order: bool) -> dict[str, list[list[Any]]]:
    """An assignment in the recording's words: as it was given, or sorted by topic and number."""
    return {member: [[*each] for each in (has if in_order else sorted(has))] for member, has in assignment.items()}


def partitions_of(args: dict[str, Any]) -> dict[str, int]:
    """Topic -> number of partitions. TraceError for something else."""
    topics = args.get("topics")
    if not isinstance(topics, dict) or not all(_is_int(count) and count > 0 for count in topics.values()):
        raise TraceError(f"topics is {quoted(topics)}, expected topics with their numbers of partitions, 1 or more.")
    return topics


def subscriptions_of(args: dict[str, Any]) -> list[Subscription]:
    """The members of the group. TraceError for a row without any, or with one that no group has."""
    members = args.get("members")
    if not isinstance(members, list) or not members:
        raise TraceError(f"members is {quoted(members)}, expected a list of 1 or more.")
    return [subscription_of(each) for each in members]


def subscription_of(member: Any) -> Subscription:
    """One member; TraceError for what is none."""
    try:
        name, instance, generation = member["id"], member.get("instance_id"), member["generation"]
        topics = tuple(member["topics"])
        owned = tuple(TopicPartition(topic, number) for topic, number in member["owned"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise TraceError(f"a member is {quoted(member)}, expected id, topics, owned and generation.") from None
    words = (name, *topics, *(each.topic for each in owned), *([] if instance is None else [instance]))
    numbers = (generation, *(each.partition for each in owned))
    if not all(isinstance(each, str) for each in words) or not all(map(_is_int, numbers)):
        raise TraceError(f"a member is {quoted(member)}: names are strings and partitions whole numbers.")
    return Subscription(name, topics, owned, generation, instance)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _INT[0] <= value <= _INT[1]
