"""The broker's side of a consumer group: who is a member, which generation it is, and whose commits count.

Members cannot agree on anything among themselves, so one broker coordinates them. It keeps the members
apart from those who are gone (a time-out for each), lets all of them join again whenever one comes or
goes, picks a strategy that all know and a leader that deals the partitions out, and passes the dealt
parts on. Everything a member asks for carries its generation, so that one who slept through a rebalance
is refused: this is what keeps its late commits from undoing the work of its successor.

Requests and time come in, effects go out: answers, some of them to a request of long ago, and notes of
what happened to the group. `advance` is to be called when the time of `next_due` has come.

Source: Apache Kafka 4.3.1, `GroupMetadataManager` (`classicGroup*`, `prepareRebalance`,
`completeClassicGroupJoin`, `expirePendingSync`), `OffsetMetadataManager` (`validateOffsetCommit`).
Differs: one group; writing to `__consumer_offsets` takes no time and never fails; a group is never
deleted, and its committed offsets never expire; members of the newer protocol are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kitlib.kafka.groups.classic_group import ClassicGroup, ClassicGroupMember, GroupState
from kitlib.kafka.groups.group_protocol import (
    Committed,
    Effect,
    Fetched,
    FindCoordinator,
    Found,
    GroupError,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    Request,
    Synced,
    SyncGroup,
    Told,
)
from kitlib.kafka.groups.rebalance import COMPLETING, EMPTY, PREPARING, STABLE, SYNC, GroupConfig, Rebalance

__all__ = ["GroupConfig", "GroupCoordinator"]


@dataclass(slots=True)
class GroupCoordinator(Rebalance):
    """The coordinator of one group, with its timers and committed offsets."""

    group: ClassicGroup | None = None  # none before the first member or commit
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # (topic, partition) -> next to be read
    given_ids: int = 0  # member ids given out
    suffix_of: Callable[[int], str] = str  # the end of the nth one; a broker's is random

    def handle(self, request: Request, now_ms: int) -> list[Effect]:
        """Take one request; the effects, the answer to it among them unless it has to wait."""
        self._advance_to(now_ms)
        match request:
            case JoinGroup():
                self._join(request)
            case SyncGroup():
                self._sync(request)
            case Heartbeat():
                self._answer(request.asked, Told(self._heartbeat(request)))
            case LeaveGroup():
                self._leave(request)
            case OffsetCommit():
                self._answer(request.asked, Committed(self._commit(request)))
            case OffsetFetch():
                found = tuple((partition, self.offsets.get(partition)) for partition in request.partitions)
                self._answer(request.asked, Fetched(found))
            case FindCoordinator():
                self._answer(request.asked, Found(self.config.node))
        return self._taken()

    # -- joining -----------------------------------------------------------------------------------

    def _join(self, request: JoinGroup) -> None:
        config, member_id = self.config, request.member_id
        if not self.group_id:
            return self._refuse_join(request, GroupError.INVALID_GROUP_ID)
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return self._refuse_join(request, GroupError.INVALID_SESSION_TIMEOUT)
        if self.group is None:
            if member_id:
                return self._refuse_join(request, GroupError.UNKNOWN_MEMBER_ID)
            self.group = ClassicGroup(self.group_id)
        group = self.group
        if not self._accepts(group, member_id):
            group.remove(member_id)
            return self._answer(request.asked, Joined(GroupError.GROUP_MAX_SIZE_REACHED))
        if group.is_in(GroupState.DEAD):
            return self._refuse_join(request, GroupError.COORDINATOR_NOT_AVAILABLE)
        if not group.supports_protocols(request.protocol_type, {name for name, _ in request.protocols}):
            return self._refuse_join(request, GroupError.INCONSISTENT_GROUP_PROTOCOL)
        if member_id:
            self._join_existing(group, request)
        else:
            self._join_new(group, request)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether there is room: for those who wait already, and for others up to the greatest size."""
        most, member = self.config.group_max_size, group.members.get(member_id)
        if group.is_in(EMPTY, GroupState.DEAD):
            return True
        if group.is_in(PREPARING):
            awaiting = sum(found.awaiting_join is not None for found in group.members.values())
            return (member is not None and member.awaiting_join is not None) or awaiting < most
        return member is not None or len(group.members) < most

    def _join_new(self, group: ClassicGroup, request: JoinGroup) -> None:
        self.given_ids += 1
        new_id = f"{request.group_instance_id or request.client_id}-{self.suffix_of(self.given_ids)}"
        existing = group.static_members.get(request.group_instance_id or "")
        if request.group_instance_id is not None and existing is not None:
            self._update_static_member(group, request, existing, new_id)
        elif request.group_instance_id is not None or not request.requires_known_member_id:
            self._add_member(group, request, new_id)
        else:
            group.pending_join_members.add(new_id)
            self._schedule(new_id, request.session_timeout_ms, lambda: self._expire_member(group, new_id))
            self._answer(request.asked, Joined(GroupError.MEMBER_ID_REQUIRED, new_id))

    def _join_existing(self, group: ClassicGroup, request: JoinGroup) -> None:
        member_id = request.member_id
        if member_id in group.pending_join_members:
            return self._add_member(group, request, member_id)
        error = group.validate_member(member_id, request.group_instance_id)
        if error is not GroupError.NONE:
            return self._refuse_join(request, error)
        member = group.members[member_id]
        is_same = member.supported_protocols == request.protocols
        if group.is_in(PREPARING):
            self._update_member(group, member, request)
        elif group.is_in(COMPLETING) and is_same:  # the answer to its join was lost
            self._answer(request.asked, self._current(group, member_id, group.leader_id == member_id))
        elif group.is_in(STABLE) and is_same and group.leader_id != member_id:
            self._answer(request.asked, self._current(group, member_id, is_told_members=False))
        elif group.is_in(COMPLETING, STABLE):  # its metadata changed, or the leader wants to deal anew
            self._update_member(group, member, request)
        else:
            self._refuse_join(request, GroupError.UNKNOWN_MEMBER_ID)

    def _add_member(self, group: ClassicGroup, request: JoinGroup, member_id: str) -> None:
        member = ClassicGroupMember(
            member_id, request.group_instance_id, request.client_id, request.rebalance_timeout_ms,
            request.session_timeout_ms, request.protocol_type, request.protocols,
            awaiting_join=request.asked, is_new=True,
        )  # fmt: skip
        if group.is_in(PREPARING) and group.previous_state is EMPTY:
            group.new_member_added = True
        group.add(member)
        self._reschedule(group, member, self.config.new_member_join_timeout_ms)
        self._maybe_prepare_rebalance(group, f"{member_id} joins")

    def _update_member(self, group: ClassicGroup, member: ClassicGroupMember, request: JoinGroup) -> None:
        self._take_over(member, request)
        self._maybe_prepare_rebalance(group, f"{member.member_id} joins again")

    def _update_static_member(self, group: ClassicGroup, request: JoinGroup, old_id: str, new_id: str) -> None:
        """Someone comes with an instance id that is a member's: it takes its place, and whoever held it is fenced."""
        old, leader = group.members[old_id], group.leader_id
        if old.awaiting_join is not None:
            self._answer(old.awaiting_join, Joined(GroupError.FENCED_INSTANCE_ID, old_id))
        if old.awaiting_sync is not None:
            self._answer(old.awaiting_sync, Synced(GroupError.FENCED_INSTANCE_ID))
        member = group.replace_static_member(request.group_instance_id or "", old_id, new_id)
        self._note("evict", member=old_id, why="fenced")
        self._reschedule(group, member)
        self._take_over(member, request)
        why = f"the static member {request.group_instance_id} is back"
        if group.is_in(STABLE):
            if group.protocol_name != group.select_protocol():
                return self._maybe_prepare_rebalance(group, why)
            member.awaiting_join = None  # the same strategy, the same members: nobody has to stop
            is_leader = request.supports_skipping_assignment and group.leader_id == new_id
            current = self._current(group, new_id, is_leader, skip=is_leader)
            if not request.supports_skipping_assignment:  # it must not think that it leads
                current = Joined(
                    GroupError.NONE, new_id, group.generation_id, group.protocol_name, group.protocol_type, leader or ""
                )
            self._answer(request.asked, current)
        elif group.is_in(COMPLETING):
            self._prepare_rebalance(group, why)
        else:
            self._maybe_complete_join(group)

    def _sync(self, request: SyncGroup) -> None:
        group, member_id = self.group, request.member_id
        if group is None or group.is_in(EMPTY):
            return self._answer(request.asked, Synced(GroupError.UNKNOWN_MEMBER_ID))
        error = self._validate_sync(group, request)
        if error is not GroupError.NONE:
            return self._answer(request.asked, Synced(error))
        if group.is_in(PREPARING):
            return self._answer(request.asked, Synced(GroupError.REBALANCE_IN_PROGRESS))
        member = group.members[member_id]
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self.timers.pop(SYNC, None)
        if group.is_in(STABLE):
            answer = Synced(GroupError.NONE, member.assignment, group.protocol_name, group.protocol_type)
            return self._answer(request.asked, answer)
        member.awaiting_sync = request.asked
        if group.leader_id == member_id:
            assigned = dict(request.assignments)
            for found in group.members.values():
                found.assignment = assigned.get(found.member_id)
            self._propagate(group, GroupError.NONE)
            group.transition_to(STABLE)
            self._note("stable", generation=group.generation_id)

    def _validate_generation(self, group: ClassicGroup, request: SyncGroup | Heartbeat) -> GroupError:
        """Whether this is a member, and of the generation that there is."""
        if group.is_in(GroupState.DEAD):
            return GroupError.COORDINATOR_NOT_AVAILABLE
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is not GroupError.NONE:
            return error
        return GroupError.NONE if request.generation == group.generation_id else GroupError.ILLEGAL_GENERATION

    def _validate_sync(self, group: ClassicGroup, request: SyncGroup) -> GroupError:
        error = self._validate_generation(group, request)
        if error is not GroupError.NONE:
            return error
        asked, agreed = (request.protocol_type, request.protocol_name), (group.protocol_type, group.protocol_name)
        if any(
            mine is not None and theirs is not None and mine != theirs
            for mine, theirs in zip(asked, agreed, strict=True)
        ):
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        return GroupError.NONE

    # -- those who stay, those who go -----------------------------------------------------------------

    def _heartbeat(self, request: Heartbeat) -> GroupError:
        group = self.group
        if group is None:
            return GroupError.UNKNOWN_MEMBER_ID
        error = self._validate_generation(group, request)
        if error is not GroupError.NONE:
            return error
        self._reschedule(group, group.members[request.member_id])
        return GroupError.REBALANCE_IN_PROGRESS if group.is_in(PREPARING) else GroupError.NONE

    def _leave(self, request: LeaveGroup) -> None:
        group, member_id = self.group, request.member_id
        if group is None:
            return self._answer(request.asked, Told(GroupError.UNKNOWN_MEMBER_ID))
        if group.is_in(GroupState.DEAD):
            return self._answer(request.asked, Told(GroupError.COORDINATOR_NOT_AVAILABLE))
        error = GroupError.NONE
        if not member_id:
            member_id = group.static_members.get(request.group_instance_id or "", "")
            error = GroupError.NONE if member_id else GroupError.UNKNOWN_MEMBER_ID
        elif member_id not in group.pending_join_members:
            error = group.validate_member(member_id, request.group_instance_id)
        self._answer(request.asked, Told(error))
        if error is not GroupError.NONE:
            return
        self._remove(group, member_id, request.reason)
        if group.is_in(STABLE, COMPLETING):
            self._maybe_prepare_rebalance(group, f"{member_id} leaves")
        elif group.is_in(PREPARING):
            self._maybe_complete_join(group)

    # -- offsets ---------------------------------------------------------------------------------------

    def _commit(self, request: OffsetCommit) -> GroupError:
        if self.group is None:
            if request.generation >= 0:
                return GroupError.GROUP_ID_NOT_FOUND
            self.group = ClassicGroup(self.group_id)
        group = self.group
        error = group.validate_offset_commit(request.member_id, request.group_instance_id, request.generation)
        if error is not GroupError.NONE:
            return error
        if request.member_id in group.members and group.is_in(STABLE, PREPARING):  # as good as a heartbeat
            self._reschedule(group, group.members[request.member_id])
        self.offsets.update(request.offsets)
        return GroupError.NONE

    def delete_offsets(self, partitions: Iterable[tuple[str, int]]) -> GroupError:
        """An operator deletes committed offsets of the group's topic; nobody may be a member meanwhile.

        Source: Apache Kafka 4.3.1, `GroupCoordinatorService.deleteOffsets`, `ClassicGroup.validateOffsetDelete`.
        Differs: every member is subscribed to every topic that is named.
        """
        if self.group is None or self.group.is_in(GroupState.DEAD):
            return GroupError.GROUP_ID_NOT_FOUND
        if not self.group.is_in(EMPTY):
            return GroupError.GROUP_SUBSCRIBED_TO_TOPIC
        for partition in partitions:
            self.offsets.pop(partition, None)
        return GroupError.NONE

    def _refuse_join(self, request: JoinGroup, error: GroupError) -> None:
        self._answer(request.asked, Joined(error, request.member_id))

    def __repr__(self) -> str:
        return f"<GroupCoordinator of {self.group!r}, {len(self.offsets)} offsets, next timer at {self.next_due()}>"
