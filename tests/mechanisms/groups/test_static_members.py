"""Members with a name of their own, and whose commits count."""

from __future__ import annotations

from kitlib.mechanisms.groups.group_protocol import Synced
from kitlib.mechanisms.protocol import ErrorCode
from tests.mechanisms.groups.desk import Desk, Person, stable

E = ErrorCode


def pair(*strategies: str) -> tuple[Desk, Person, Person]:
    """A stable group of two static members, A, who leads, and B."""
    desk = Desk()
    known = strategies or ("range",)
    a, b = Person(desk, "A", known, instance_id="a"), Person(desk, "B", known, instance_id="b")
    stable(desk, a, b)
    return desk, a, b


def test_static_member_back_between_join_and_sync_begins_a_rebalance() -> None:
    """The leader may already deal to the old id, so the generation cannot stand; a sync that waits is fenced."""
    desk, a, b = pair()
    a.join()
    b.join()
    a.joined(), b.joined()
    assert b.sync() is None
    group = desk.coordinator.group
    number = group.members[b.member_id].awaiting_sync if group else None
    assert Person(desk, "B again", instance_id="b").join() is None and desk.state == "PreparingRebalance"
    assert number is not None and desk.answers[number] == Synced(E.FENCED_INSTANCE_ID)


def test_static_member_that_is_away_keeps_its_place_through_a_rebalance() -> None:
    """The generation begins without it, and it is dealt its part; only when it does not sync either is its place gone."""
    desk = Desk()
    a, b = (Person(desk, name, instance_id=name.lower(), rebalance_ms=6_000) for name in "AB")
    stable(desk, a, b)
    a.join()
    desk.wait(6_000)
    answer = a.joined()
    assert answer is not None and (answer.generation, [name for _, name, _ in answer.members]) == (3, ["a", "b"])
    a.sync({a.member_id: (0,), b.member_id: (1,)})
    assert desk.state == "Stable" and desk.happened() == ["prepare", "sync", "stable"]
    desk.wait(5_999)
    assert a.beat() is E.NONE and b.beat() is E.ILLEGAL_GENERATION and desk.happened() == []
    desk.wait(1)
    assert desk.happened() == ["evict b-2: did not sync in time", "prepare"]
