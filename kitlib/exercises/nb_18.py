"""The exercises of notebook 18: what becomes of a record, which lock runs out, and how often a record may end its consumer."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.answers import choice
from kitlib.exercises.frame import Edge, Function, Half, Knobs, Miss, Right, Rows, Turned, Unlike, exercise
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.more.share_partition import Acknowledge, SharePartition

EVENTS = ("accept", "release", "reject", "renew", "time-out", "closed")
LIMITS = (1, 2, 5)
STATES = ("available", "acquired", "acknowledged", "archived")
SLOW: dict[str, Any] = {"slow_ms": 900, "lock_ms": None, "renew": None, "slow_offset": None}


def after_cases() -> list[list[Any]]:
    """Each event at each delivery of limits of 1, 2 and 5: [event, delivery, limit]."""
    return [[event, delivery, limit] for limit in LIMITS for delivery in range(1, limit + 1) for event in EVENTS]


def became(event: str, delivery: int, limit: int) -> str:
    """What the model makes of a record in this delivery."""
    share = SharePartition(delivery_limit=limit, lock_ms=100)
    for _ in range(delivery - 1):
        share.acquire("A", 1, 1, 0)
        share.acknowledge("A", {0: Acknowledge.RELEASE}, 0)
    share.acquire("A", 1, 1, 0)
    match event:
        case "time-out":
            [change] = share.expire(100)
        case "closed":
            [change] = share.close_session("A")
        case _:
            changes = share.acknowledge("A", {0: Acknowledge(event)}, 0)
            if not changes:
                return str(share.records[0].state)
            [change] = changes
    return str(change.state)


@exercise(Function(after_cases, choice(*STATES)))
def after_the_event(given: str, event: str, delivery: int, limit: int) -> Rows:
    right = became(event, delivery, limit)
    ends = event in ("release", "time-out", "closed")
    yield ends and given == "available" != right and Miss(
        "last delivery", event=event, delivery=delivery, limit=limit, right=right, given=given, look=2
    )
    yield given != right and Unlike(right, "closed" if event == "closed" else "")


@exercise(Knobs("share_lock", story=SLOW | {"records": None}, exactly=1))
def nothing_twice(turned: Turned) -> Rows:
    counts, before = turned.verdict.counts, judge(run("share_lock", slow_ms=900))
    yield counts["lost"] > 0 and Miss("lost", turned=turned, counts=counts)
    more = f", and {counts['duplicated'] - 1} more" if counts["duplicated"] > 1 else ""
    yield counts["duplicated"] > 0 and Miss("twice", turned=turned, first=turned.verdict.first("duplicated"), more=more)
    yield counts["stalled"] > 0 and Half("waits", turned=turned)
    yield Right(turned=turned, before=before.first("duplicated").offset)


@exercise(Edge("the number of consumers", 0, 8, largest=True, fits=lambda lost: lost == 0))
def consumers_it_may_end(crashes: int) -> int:
    return judge(run("share_crash", crashes=crashes)).counts["lost"] if crashes <= 8 else 1
