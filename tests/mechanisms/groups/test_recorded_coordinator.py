"""What a real coordinator answered: groups of Kafka 4.3.1, asked at random through raw requests, replayed on the model.

Each row has the time in ms: a request with the random end of the member id that the broker made up, the
passing of time, or the broker's answer to one of the requests. Clients that wait for an answer of a
rebalance got it when another one's request came, or when a timeout was over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kitlib.mechanisms.groups import group_protocol
from kitlib.mechanisms.groups.coordinator import GroupConfig, GroupCoordinator
from kitlib.mechanisms.groups.group_protocol import Answered, Effect, Joined, Synced

RECORDED = [json.loads(line) for line in Path(__file__).with_name("recorded_coordinator.jsonl").read_text().splitlines()]
CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=500)  # of the broker that was asked


def as_tuple(value: Any) -> Any:
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def as_recorded(answer: Any) -> Any:
    """An answer as the rows have it: without the group's type, an empty assignment as an empty text."""
    if isinstance(answer, Joined):
        return (
            answer.error.name, answer.member_id, answer.generation, answer.protocol_name, answer.leader, answer.members,
            answer.skip_assignment,
        )  # fmt: skip
    if isinstance(answer, Synced):
        return answer.error.name, answer.assignment or ""
    return (answer.error.name,)


def replayed(rows: list[list[Any]]) -> tuple[dict[int, Any], dict[int, Any]]:
    """What the model answered, and what the broker did, by the requests' numbers."""
    suffix = ""
    coordinator = GroupCoordinator("g", CONFIG, suffix_of=lambda _: suffix)
    ours: dict[int, Any] = {}
    theirs: dict[int, Any] = {}

    def take(effects: list[Effect]) -> None:
        ours.update((each.asked, as_recorded(each.answer)) for each in effects if isinstance(each, Answered))

    for now_ms, what, *more in rows:
        if what == "answer":
            number, answer = more
            theirs[number] = as_tuple(answer)
            assert ours.get(number) == theirs[number], f"request {number} at {now_ms} ms"
            continue
        if what != "advance":
            fields, suffix = more
            request = getattr(group_protocol, what)(**{name: as_tuple(value) for name, value in fields.items()})
            take(coordinator.handle(request, now_ms))
        take(coordinator.advance(now_ms))
    return ours, theirs


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: f"group {recorded['group']}")
def test_recorded_group_is_answered_as_the_broker_did(recorded: dict[str, Any]) -> None:
    """The same errors, generations, leaders, strategies and assignments, at the same time, and members in the same order."""
    ours, theirs = replayed(recorded["rows"])
    assert ours == theirs and len(theirs) >= 20
