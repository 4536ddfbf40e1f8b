"""A group as its coordinator holds it: members, generation, state, and which strategy all of them know.

A group is Empty until someone joins. A join or a departure makes it PreparingRebalance, until every
member has joined again or the time for that is over; then a new generation begins, CompletingRebalance,
until the leader has said who gets what, and the group is Stable.

Source: Apache Kafka 4.3.1, `ClassicGroup`, `ClassicGroupMember` and `ClassicGroupState` of
org.apache.kafka.coordinator.group.classic.
Differs: a group is never Dead, as it is never deleted. What a member waits for is the number of its request
instead of a future. Members are looked at in the order of a java.util.HashMap, as there; it decides who leads
when the leader is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kitlib.java.hash_codes import text_hash_code
from kitlib.java.hash_tables import HashOrder, in_hash_order
from kitlib.mechanisms.protocol import ErrorCode


class GroupState(Enum):
    """The states of a group."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"  # what a broker says of a group that it does not know


@dataclass(slots=True)
class ClassicGroupMember:
    """What the coordinator knows of one member."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    rebalance_timeout_ms: int  # how long it may take to join again: the consumer's max.poll.interval.ms
    session_timeout_ms: int  # without a heartbeat for this long it is removed
    protocol_type: str
    supported_protocols: tuple[tuple[str, Any], ...]  # (strategy, metadata), the most wanted first
    assignment: Any = None  # None until a leader has sent one; kept while a rebalance goes on
    awaiting_join: int | None = None  # the number of its join that is not answered
    awaiting_sync: int | None = None  # the same of its sync
    is_new: bool = False  # it has not yet been told of a generation

    @property
    def is_static(self) -> bool:
        """Whether it has an instance id, and so keeps its place while it is away."""
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """True while it cannot beat because it waits for the coordinator's own answer."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def vote(self, candidates: set[str]) -> str:
        """The first of its strategies that all members know."""
        return next(name for name, _ in self.supported_protocols if name in candidates)

    def metadata(self, protocol_name: str | None) -> Any:
        """What it said about itself for this strategy."""
        return dict(self.supported_protocols).get(protocol_name or "")


@dataclass(slots=True)
class ClassicGroup:
    """The members of one group and what they agreed on."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    generation_id: int = 0  # grows with every generation, an empty one too
    protocol_type: str | None = None  # of the first member; "consumer", "connect"
    protocol_name: str | None = None  # the strategy of this generation; None when it is empty
    leader_id: str | None = None  # always a member's
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)  # by id
    order: HashOrder[str] = field(default_factory=lambda: HashOrder(text_hash_code))  # the ids, as Java goes through them
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    pending_join_members: set[str] = field(default_factory=set)  # were told an id and have not come back with it
    pending_sync_members: set[str] = field(default_factory=set)  # of this generation, those that have not synced
    new_member_added: bool = False  # since the initial rebalance's last wait began

    def all_members(self) -> list[ClassicGroupMember]:
        """The members in the order in which they are gone through."""
        return [self.members[member_id] for member_id in self.order]

    def is_in(self, *states: GroupState) -> bool:
        """Whether the group is in one of these states."""
        return self.state in states

    def transition_to(self, state: GroupState) -> None:
        """Enter a state; its own and the coordinator's code never asks for one that may not follow."""
        self.previous_state, self.state = self.state, state

    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin: not while one is being prepared."""
        return self.state is not GroupState.PREPARING_REBALANCE

    def add(self, member: ClassicGroupMember) -> None:
        """Take a member in; the first one is the leader and decides the protocol type."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self.order.add(member.member_id)
        self.pending_join_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, pending or not; another one leads if it was the leader."""
        removed = self.members.pop(member_id, None)
        self.order.discard(member_id)
        if removed is not None and removed.group_instance_id is not None:
            self.static_members.pop(removed.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.order), None)
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.discard(member_id)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicGroupMember:
        """The same static member under a new id, with the old one's assignment and place."""
        old = self.members.pop(old_id)
        self.order.discard(old_id)
        new = ClassicGroupMember(
            new_id, old.group_instance_id, old.client_id, old.rebalance_timeout_ms, old.session_timeout_ms,
            old.protocol_type, old.supported_protocols, old.assignment,
        )  # fmt: skip
        self.members[new_id] = new
        self.order.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        return new

    def maybe_elect_new_joined_leader(self) -> bool:
        """Make sure that the leader is someone who has joined; False when nobody has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member for member in self.all_members() if member.awaiting_join is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member, and for a static one the one that holds the instance id now."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if existing != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def validate_offset_commit(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether a commit may be written: a member's of this generation, or anyone's while nobody is in the group.

        It may be while the group prepares a rebalance, and may not once the new generation has begun
        without an assignment.
        """
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = self.validate_member(member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation != self.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
        elif self.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def candidate_protocols(self) -> set[str]:
        """The strategies that every member knows."""
        known = [{name for name, _ in member.supported_protocols} for member in self.members.values()]
        return set.intersection(*known) if known else set()

    def supports_protocols(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a member with these strategies could be in the group: one of them is known to all who are."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        candidates = self.candidate_protocols() if self.members else names
        return self.protocol_type == protocol_type and bool(names & candidates)

    def select_protocol(self) -> str:
        """The strategy with the most votes of those that every member knows; on a tie, as Java's HashMap orders the names."""
        candidates = self.candidate_protocols()
        votes: dict[str, int] = {}
        for member in self.all_members():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(in_hash_order(votes), key=votes.__getitem__)

    def has_all_members_joined(self) -> bool:
        """Whether nobody is missing, neither a member nor one that was told an id."""
        return not self.pending_join_members and all(
            member.awaiting_join is not None for member in self.members.values()
        )

    def rebalance_timeout_ms(self) -> int:
        """The longest of the members'."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def init_next_generation(self) -> None:
        """Begin a generation: CompletingRebalance with the strategy that won, or Empty without members."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY)
        self.pending_sync_members.clear()

    def metadata_of_members(self) -> tuple[tuple[str, str | None, Any], ...]:
        """(member id, instance id, metadata for the chosen strategy) of each, as the leader is told."""
        return tuple(
            (member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.all_members()
        )

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id}: {self.state.value}, generation {self.generation_id}, "
            f"{len(self.members)} members, led by {self.leader_id}, {self.protocol_name}>"
        )
