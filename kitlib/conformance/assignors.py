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

from kitlib.conformance.golden import count_in
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

MOST_PARTITIONS = 100_000  # of one topic; a recorder's have a few


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the assignors decide for one recorded group."""
    for step in trace["steps"]:
        topics = step["args"]["topics"]
        group = as_the_leader_sees({topic: count_in(topics, topic, MOST_PARTITIONS) for topic in topics}, subscriptions_of(step["args"]))
        yield {"result": {name: answer(name, group, recorded) for name, recorded in step["result"].items()}}


def answer(name: str, group: tuple[Any, Any], recorded: dict[str, Any]) -> dict[str, Any]:
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
    if "order_sensitive" in recorded:
        told["order_sensitive"] = recorded["order_sensitive"]
    if name in COOPERATIVE:
        told["follow_up_rounds"] = [as_recorded(each, in_order=False) for each in following]
    return told


def as_recorded(assignment: Assignment, in_order: bool) -> dict[str, list[list[Any]]]:
    """An assignment in the recording's words: as it was given, or sorted by topic and number."""
    return {member: [[*each] for each in (has if in_order else sorted(has))] for member, has in assignment.items()}


def subscriptions_of(args: dict[str, Any]) -> list[Subscription]:
    """The members of the group."""
    return [
        Subscription(
            each["id"], tuple(each["topics"]), tuple(TopicPartition(*owned) for owned in each["owned"]), each["generation"],
            each.get("instance_id"),
        )
        for each in args["members"]
    ]  # fmt: skip
