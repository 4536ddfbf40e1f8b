"""The coordinator's rules that no recorded group has met (`test_recorded_coordinator`)."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.groups.coordinator import GroupConfig
from kitlib.mechanisms.groups.group_protocol import Joined
from kitlib.mechanisms.protocol import ErrorCode
from tests.mechanisms.groups.desk import Desk, Person, stable

E = ErrorCode


def trio() -> tuple[Desk, Person, Person, Person]:
    """A stable group of A, who leads, B and C, in generation 3."""
    desk = Desk()
    people = Person(desk, "A"), Person(desk, "B"), Person(desk, "C")
    stable(desk, *people)
    assert desk.state == "Stable" and people[0].generation == 3 and people[0].leader == people[0].member_id
    return desk, *people


REFUSED = {
    "an id that nobody gave out is not known": (Person(Desk(), "A", member_id="A-9"), E.UNKNOWN_MEMBER_ID),
    "a group needs a name": (Person(Desk(group_id=""), "A"), E.INVALID_GROUP_ID),
    "a session may not be too short": (Person(Desk(), "A", session_ms=5_999), E.INVALID_SESSION_TIMEOUT),
    "nor too long": (Person(Desk(), "A", session_ms=1_800_001), E.INVALID_SESSION_TIMEOUT),
    "a member needs a strategy": (Person(Desk(), "A", strategies=()), E.INCONSISTENT_GROUP_PROTOCOL),
}


@pytest.mark.parametrize("case", REFUSED)
def test_join_is_refused(case: str) -> None:
    """What cannot be a member is told so at once."""
    person, error = REFUSED[case]
    answer = person.join()
    assert answer is not None and answer.error is error


def test_first_rebalance_waits_for_more_members_and_longer_while_they_come() -> None:
    """An empty group waits for its delay, and once more after a wait in which a member came; never past the timeout."""
    desk = Desk(GroupConfig(group_initial_rebalance_delay_ms=3_000))
    a, b = Person(desk, "A", rebalance_ms=7_000), Person(desk, "B", rebalance_ms=7_000)
    assert a.enter() is None and desk.state == "PreparingRebalance"
    desk.wait(2_999)
    assert b.enter() is None
    desk.wait(1)  # the delay is over, and begins again because of B
    assert a.joined() is None
    desk.wait(2_999)
    c = Person(desk, "C", rebalance_ms=7_000)
    assert c.enter() is None
    desk.wait(1)  # and again, for what is left of the timeout: 7,000 - 3,000 - 3,000
    assert a.joined() is None
    d = Person(desk, "D", rebalance_ms=7_000)
    assert d.enter() is None
    desk.wait(1_000)
    answer = a.joined()
    assert answer is not None and (answer.generation, len(answer.members)) == (1, 4)


VOTES = {
    "the first choice of most wins": ([("range", "sticky"), ("sticky", "range"), ("sticky", "range")], "sticky"),
    "what one of them does not know cannot win": ([("sticky", "range"), ("sticky", "range"), ("range",)], "range"),
    "on a tie Java's hash table decides": ([("range", "sticky"), ("sticky", "range")], "sticky"),
    "whoever came first": ([("sticky", "range"), ("range", "sticky")], "sticky"),
    "as with these two": ([("range", "roundrobin"), ("roundrobin", "range")], "range"),
}


@pytest.mark.parametrize("case", VOTES)
def test_strategy_is_chosen_by_votes(case: str) -> None:
    """Each member votes for the first of its strategies that all know."""
    chosen, expected = VOTES[case]
    desk = Desk()
    people = [Person(desk, name, strategies) for name, strategies in zip("ABC", chosen, strict=False)]
    stable(desk, *people)
    group = desk.coordinator.group
    assert group is not None and group.protocol_name == expected


def test_silent_member_is_out_after_its_session() -> None:
    """Each heartbeat, and each commit, begins the session anew; a silent one's end begins a rebalance."""
    desk, a, b, c = trio()
    desk.wait(9_000)
    assert (a.beat(), b.commit(5)) == (E.NONE, E.NONE)
    desk.wait(1_000)
    assert desk.happened() == [f"evict {c.member_id}: session", "prepare"] and a.beat() is E.REBALANCE_IN_PROGRESS
    desk.wait(8_999)
    assert b.beat() is E.REBALANCE_IN_PROGRESS
    desk.wait(1_001)
    assert desk.happened() == [f"evict {a.member_id}: session"]
    assert b.join() is not None and b.leader == b.member_id  # alone, it need not wait


def test_new_member_that_waits_for_too_long_is_told_that_it_is_not_known() -> None:
    """After five minutes its join is answered with UNKNOWN_MEMBER_ID, so that it asks again if it still lives."""
    desk, a, b, c = trio()
    a.rebalance_ms = 900_000
    a.join()
    d = Person(desk, "D")
    assert d.enter() is None
    for _ in range(59):
        desk.wait(5_000)
        assert b.beat() is c.beat() is E.REBALANCE_IN_PROGRESS
    desk.wait(4_999)
    assert d.joined() is None
    desk.wait(1)
    assert d.joined() == Joined(E.UNKNOWN_MEMBER_ID)
