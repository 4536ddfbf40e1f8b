"""What every assignment must be, for random groups: complete, even, sticky; and the order of Java's hash tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.errors import KnobError
from kitlib.more.assignors import Assignment, Subscription, TopicPartition, as_the_leader_sees, assign, rounds

TOPICS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1, max_size=5)
IDS = st.lists(st.text("xyz0123456789-", min_size=1, max_size=6), min_size=1, max_size=7, unique=True)


@st.composite
def groups(draw: st.DrawFn, same: bool = False) -> tuple[dict[str, int], list[Subscription]]:
    """Topics, and members that want one of them at least; all the same with `same`."""
    topics = draw(TOPICS)
    wanted = st.sets(st.sampled_from(sorted(topics)), min_size=1)
    everybody = draw(wanted)
    members = [
        Subscription(
            name, tuple(sorted(everybody if same else draw(wanted))), instance_id=draw(st.none() | st.just(f"i-{name}"))
        )
        for name in draw(IDS)
    ]
    return topics, members


def holders(assignment: Assignment) -> dict[TopicPartition, list[str]]:
    """Who has each partition."""
    found: dict[TopicPartition, list[str]] = {}
    for member, has in assignment.items():
        for partition in has:
            found.setdefault(partition, []).append(member)
    return found


def after(members: list[Subscription], assignment: Assignment, generation: int = 1) -> list[Subscription]:
    """The members when they own what they were given; new ones own nothing."""
    return [
        replace(each, owned=tuple(assignment[each.member]), generation=generation)
        if each.member in assignment
        else each
        for each in members
    ]


def check_complete(assignment: Assignment, topics: dict[str, int], members: list[Subscription]) -> None:
    """Every partition of a wanted topic has one owner, which wants the topic; nothing else has any."""
    wants = {each.member: each.topics for each in members}
    owners = holders(assignment)
    wanted = {topic for each in members for topic in each.topics}
    assert set(owners) == {TopicPartition(topic, number) for topic in wanted for number in range(topics[topic])}
    for partition, who in owners.items():
        assert len(who) == 1 and partition.topic in wants[who[0]]


@given(groups(), st.data())
def test_cooperative_never_gives_what_another_owns(
    group: tuple[dict[str, int], list[Subscription]], data: st.DataObject
) -> None:
    """Whoever joins or leaves, a partition has two owners at no time, and in the end exactly one."""
    topics, members = group
    before = data.draw(st.lists(st.sampled_from(members), min_size=1, unique=True))
    owned = assign("cooperative-sticky", topics, before)
    seen = as_the_leader_sees(topics, after(members, owned))
    rebalances = rounds(*seen)
    for given_now in rebalances:
        for partition, who in holders(given_now).items():
            others = {m for m, has in owned.items() if partition in has and m in given_now}
            assert len(who) == 1 and others <= {who[0]}
        owned = given_now
    check_complete(rebalances[-1], topics, members)


@pytest.mark.parametrize(
    ("strategy", "topics", "members", "said"),
    [
        ("rangy", {"t": 1}, ["A"], "there is no assignor"),
        ("range", {"t": 0}, ["A"], "Give 1 or more"),
        ("sticky", {"t": 1}, [], "give 1 member or more"),
        ("sticky", {"t": 1}, ["A", "A"], "each with its own id"),
    ],
)
def test_group_that_cannot_be_is_a_knob_error(
    strategy: str, topics: dict[str, int], members: list[str], said: str
) -> None:
    """An unknown assignor, a topic without partitions, no members, two with one id."""
    with pytest.raises(KnobError, match=said):
        assign(strategy, topics, [Subscription(name, ("t",)) for name in members])
