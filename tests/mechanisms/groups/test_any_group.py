"""Whatever members ask and however long they wait: one owner a partition, one leader, no answer twice, nobody forgotten."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kitlib.mechanisms.groups.coordinator import GroupConfig
from kitlib.mechanisms.protocol import ErrorCode
from tests.mechanisms.groups.desk import Desk, Person

NAMES = ("A", "B", "C", "D")
PARTITIONS = 6


class AnyGroup(RuleBasedStateMachine):
    """Four clients, two of them static, one of those with a twin; every leader deals each partition once."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(GroupConfig(group_initial_rebalance_delay_ms=1_000))
        instances = {"C": "c", "D": "d", "D twin": "d"}
        self.people = {name: Person(self.desk, name, instance_id=instances.get(name)) for name in (*NAMES, "D twin")}
        self.generation = 0
        self.offset = 0

    person = st.sampled_from((*NAMES, "D twin"))

    @rule(name=person)
    def join(self, name: str) -> None:
        self.people[name].joined()
        self.people[name].join()

    @rule(name=person, is_new=st.booleans())
    def restart(self, name: str, is_new: bool) -> None:
        """The process is a new one; the old one's id is forgotten with it."""
        person = self.people[name]
        person.member_id, person.generation = "", -1
        if is_new:
            person.join()

    @rule(name=person)
    def sync(self, name: str) -> None:
        person, group = self.people[name], self.desk.coordinator.group
        person.joined()
        dealt: dict[str, Any] = {}
        if group is not None and person.member_id == group.leader_id and person.generation == group.generation_id:
            members = sorted(group.members)
            for partition in range(PARTITIONS):
                owner = members[partition % len(members)]
                dealt[owner] = (*dealt.get(owner, ()), partition)
        person.sync(dealt)

    @rule(name=person)
    def beat(self, name: str) -> None:
        self.people[name].beat()

    @rule(name=person)
    def leave(self, name: str) -> None:
        self.people[name].leave()

    @rule(name=person, back=st.integers(0, 2))
    def commit(self, name: str, back: int) -> None:
        """Only a member of this generation may, and only while it is not between its beginning and its assignment."""
        person, before = self.people[name], dict(self.desk.coordinator.offsets)
        generation = person.generation - back
        self.offset += 1
        error = person.commit(self.offset, generation=generation)
        group = self.desk.coordinator.group
        if error is ErrorCode.NONE:
            assert group is not None
            is_nobody = generation < 0 and group.state.value == "Empty"
            assert is_nobody or (generation == group.generation_id and person.member_id in group.members)
            assert group.state.value != "CompletingRebalance"
        else:
            assert self.desk.coordinator.offsets == before

    @rule(ms=st.sampled_from([1, 500, 4_000, 9_999, 10_000, 60_000]))
    def wait(self, ms: int) -> None:
        self.desk.wait(ms)

    @precondition(lambda self: self.desk.coordinator.group is not None)
    @rule()
    def silence(self) -> None:
        """When nobody says anything any more the group is empty, and every join and sync was answered."""
        for _ in range(3):
            self.desk.wait(700_000)
        group = self.desk.coordinator.group
        assert group is not None and not group.members and not group.pending_join_members
        assert group.state.value == "Empty" and not self.desk.coordinator.timers

    @invariant()
    def holds(self) -> None:
        group = self.desk.coordinator.group
        if group is None:
            return
        assert group.generation_id >= self.generation
        self.generation = group.generation_id
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        assert set(group.order) == set(group.members) and not group.pending_join_members & set(group.members)
        assert {m.group_instance_id: m.member_id for m in group.members.values() if m.is_static} == group.static_members
        assert group.members.keys() | group.pending_join_members <= self.desk.coordinator.timers.keys()
        if group.state.value == "Stable":
            owned = [partition for member in group.members.values() for partition in member.assignment or ()]
            assert len(owned) == len(set(owned))
            assert all(member.awaiting_join is None and member.awaiting_sync is None for member in group.members.values())
        if group.state.value == "Empty":
            assert not group.members


TestAnyGroup = AnyGroup.TestCase
TestAnyGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
