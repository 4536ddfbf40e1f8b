"""The exercises of notebook 18: what becomes of a record, which lock runs out, and how often a record may end its consumer."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, expected
from kitlib.exercises.frame import Edge, Function, Knobs, Rows, Turned, Unlike, exercise
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.more.share_partition import Acknowledge, SharePartition

EVENTS = ("accept", "release", "reject", "renew", "time-out", "closed")
LIMITS = (1, 2, 5)
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


def state_in(value: Any, what: str) -> str:
    """A state's name."""
    names = ("available", "acquired", "acknowledged", "archived")
    if not isinstance(value, str) or value.strip().lower() not in names:
        raise expected(what, "one of " + ", ".join(names), value)
    return value.strip().lower()


@exercise(
    Function("after", after_cases, "{n} cases. Three events end a delivery without an effect, and all three count it.", state_in),
    solution=solutions.after,
)
def after_the_event(given: str, event: str, delivery: int, limit: int) -> Rows:
    right = became(event, delivery, limit)
    ends = event in ("release", "time-out", "closed")
    yield ends and given == "available" != right and NotYet(
        f"after({event!r}, {delivery}, {limit}) should return {right!r}, as that was the last delivery; yours returns {given!r}.", 2
    )
    yield event == "closed" and given != right and NotYet(
        f"after({event!r}, {delivery}, {limit}) should return {right!r}; yours returns {given!r}.",
        "In Kafka 4.3 a delivery whose consumer dies counts like any other.",
    )
    yield given != right and Unlike(right)


@exercise(Knobs("share_lock", story=SLOW | {"records": None}, exactly=1), solution={"max_poll_records": 1})
def nothing_twice(turned: Turned) -> Rows:
    counts, before = turned.verdict.counts, judge(run("share_lock", slow_ms=900))
    yield counts["lost"] > 0 and NotYet(f"{turned.words} {counts['lost']} records are lost.", "Look for a knob that gives nothing up.")
    yield counts["duplicated"] > 0 and NotYet(
        f"{turned.words} offset {turned.verdict.first('duplicated').offset} is processed twice"
        + (f", and {counts['duplicated'] - 1} more." if counts["duplicated"] > 1 else ".")
    )
    yield counts["stalled"] > 0 and HalfRight(
        f"{turned.words} no record is processed twice, but the whole group waits for the slow one: no lock is left for a new record."
    )
    yield (
        f"{turned.words} no record is processed twice; with the defaults it is offset {before.first('duplicated').offset}. A lock "
        "begins with the poll, so what waits behind a slow record uses its lock up in the queue."
    )


@exercise(
    Edge(
        "the number of consumers", 0, 8, largest=True,
        fits=lambda lost: lost == 0,
        fails="a record that ends {n} consumers is archived before it meets one that survives it.",
        right="{n} deliveries end with their consumer, and the next one is the last that the limit allows. After {m} dead consumers "
        "the record is archived, so one bad record cannot end consumers for ever.",
    ),
    solution=4,
)  # fmt: skip
def consumers_it_may_end(crashes: int) -> int:
    return judge(run("share_crash", crashes=crashes)).counts["lost"] if crashes <= 8 else 1
