"""The broker's side of a consumer group: who is a member, which generation it is, and whose commits count.

Members cannot agree on anything among themselves, so one broker coordinates them. It keeps the members
apart from those that are gone (a timeout for each), lets all of them rejoin whenever one joins or
leaves, picks a strategy that all support and a leader that assigns the partitions, and passes the
assignments on. Every request of a member carries its generation, so that one that slept through a rebalance
is refused: this is what keeps its late commits from undoing the work of its successor.

Requests and time come in, effects go out: answers, some of them to a request of long ago, and notes of
what happened to the group. Call `advance` when the time of `next_due` has come.

Source: Apache Kafka 4.3.1, `GroupMetadataManager` (`classicGroup*`, `prepareRebalance`, `maybeCompleteJoinPhase`,
`tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`, `expirePendingSync`,
`expireClassicGroupMemberHeartbeat`), `OffsetMetadataManager` (`validateOffsetCommit`).
Differs: one group, of any size; writing to `__consumer_offsets` takes no time and never fails; a group is never
deleted, and its committed offsets never expire; members of the newer protocol are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kitlib.mechanisms.groups.classic_group import ClassicGroup, ClassicGroupMember, GroupState
from kitlib.mechanisms.groups.group_protocol import (
    Answer,
    Answered,
    Committed,
    CoordinatorEvent,
    Effect,
    Fetched,
    Heartbeat,
    HeartbeatResponse,
    Joined,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    Request,
    Synced,
    SyncGroup,
)
from kitlib.mechanisms.protocol import ErrorCode

EMPTY, PREPARING, COMPLETING, STABLE = (
    GroupState.EMPTY, GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE,
)  # fmt: skip
JOIN, SYNC = "join", "sync"  # the timers of the group; the others are members' ids


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The broker's settings for groups, with the defaults of Kafka 4.3.1 (`GroupCoordinatorConfig`)."""

    group_initial_rebalance_delay_ms: int = 3_000  # how long an empty group waits for more members
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    new_member_join_timeout_ms: int = 300_000  # CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS, no setting


@dataclass(slots=True)
class GroupCoordinator:
    """The coordinator of one group, with its timers and committed offsets."""

    group_id: str
    config: GroupConfig = field(default_factory=GroupConfig)
    timers: dict[str, tuple[int, Callable[[], None]]] = field(default_factory=dict)  # name -> (due_ms, what then)
    now_ms: int = 0
    effects: list[Effect] = field(default_factory=list)  # of the call that goes on
    group: ClassicGroup | None = None  # none before the first member or commit
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)  # (topic, partition) -> next to be read
    given_ids: int = 0  # member ids given out
    suffix_of: Callable[[int], str] = str  # the end of the nth one; a broker's is random

    def advance(self, now_ms: int) -> list[Effect]:
        """Let every timer run that is due by `now_ms`, in their order; the effects."""
        self._advance_to(now_ms)
        return self._taken()

    def next_due(self) -> int | None:
        """When the next timer runs, in ms; None without one."""
        return min((due for due, _ in self.timers.values()), default=None)

    def handle(self, request: Request, now_ms: int) -> list[Effect]:
        """Take one request; the effects, the answer to it among them unless it has to wait."""
        self._advance_to(now_ms)
        match request:
            case JoinGroup():
                self._join(request)
            case SyncGroup():
                self._sync(request)
            case Heartbeat():
                self._answer(request.asked, HeartbeatResponse(self._heartbeat(request)))
            case LeaveGroup():
                self._leave(request)
            case OffsetCommit():
                self._answer(request.asked, Committed(self._commit(request)))
            case OffsetFetch():
                found = tuple((partition, self.offsets.get(partition)) for partition in request.partitions)
                self._answer(request.asked, Fetched(found))
        return self._taken()

    def _join(self, request: JoinGroup) -> None:
        config, member_id = self.config, request.member_id
        if not self.group_id:
            return self._refuse_join(request, ErrorCode.INVALID_GROUP_ID)
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return self._refuse_join(request, ErrorCode.INVALID_SESSION_TIMEOUT)
        if self.group is None:
            if member_id:
                return self._refuse_join(request, ErrorCode.UNKNOWN_MEMBER_ID)
            self.group = ClassicGroup(self.group_id)
        group = self.group
        if not group.supports_protocols(request.protocol_type, {name for name, _ in request.protocols}):
            return self._refuse_join(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if member_id:
            self._join_existing(group, request)
        else:
            self._join_new(group, request)

    def _join_new(self, group: ClassicGroup, request: JoinGroup) -> None:
        self.given_ids += 1
        new_id = f"{request.group_instance_id or request.client_id}-{self.suffix_of(self.given_ids)}"
        existing = group.static_members.get(request.group_instance_id or "")
        if request.group_instance_id is not None and existing is not None:
            self._update_static_member(group, request, existing, new_id)
        elif request.group_instance_id is not None:
            self._add_member(group, request, new_id)
        else:
            group.pending_join_members.add(new_id)
            self._schedule(new_id, request.session_timeout_ms, lambda: self._expire_member(group, new_id))
            self._answer(request.asked, Joined(ErrorCode.MEMBER_ID_REQUIRED, new_id))

    def _join_existing(self, group: ClassicGroup, request: JoinGroup) -> None:
        member_id = request.member_id
        if member_id in group.pending_join_members:
            return self._add_member(group, request, member_id)
        error = group.validate_member(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return self._refuse_join(request, error)
        member = group.members[member_id]
        is_same = member.supported_protocols == request.protocols
        if group.is_in(PREPARING):
            self._update_member(group, member, request)
        elif group.is_in(COMPLETING) and is_same:  # the answer to its join was lost
            self._answer(request.asked, self._current(group, member_id, group.leader_id == member_id))
        elif group.is_in(STABLE) and is_same and group.leader_id != member_id:
            self._answer(request.asked, self._current(group, member_id, is_told_members=False))
        elif group.is_in(COMPLETING, STABLE):  # its metadata changed, or the leader wants to deal again
            self._update_member(group, member, request)
        else:
            self._refuse_join(request, ErrorCode.UNKNOWN_MEMBER_ID)

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
        old = group.members[old_id]
        if old.awaiting_join is not None:
            self._answer(old.awaiting_join, Joined(ErrorCode.FENCED_INSTANCE_ID, old_id))
        if old.awaiting_sync is not None:
            self._answer(old.awaiting_sync, Synced(ErrorCode.FENCED_INSTANCE_ID))
        member = group.replace_static_member(request.group_instance_id or "", old_id, new_id)
        self._note("evict", member=old_id, why="fenced")
        self._reschedule(group, member)
        self._take_over(member, request)
        why = f"the static member {request.group_instance_id} is back"
        if group.is_in(STABLE):
            if group.protocol_name != group.select_protocol():
                return self._maybe_prepare_rebalance(group, why)
            member.awaiting_join = None  # the same strategy, the same members: nobody has to stop
            is_leader = group.leader_id == new_id
            self._answer(request.asked, self._current(group, new_id, is_leader, skip=is_leader))
        elif group.is_in(COMPLETING):
            self._prepare_rebalance(group, why)
        else:
            self._maybe_complete_join(group)

    def _sync(self, request: SyncGroup) -> None:
        group, member_id = self.group, request.member_id
        if group is None or group.is_in(EMPTY):
            return self._answer(request.asked, Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        error = self._validate_sync(group, request)
        if error is not ErrorCode.NONE:
            return self._answer(request.asked, Synced(error))
        if group.is_in(PREPARING):
            return self._answer(request.asked, Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        member = group.members[member_id]
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self.timers.pop(SYNC, None)
        if group.is_in(STABLE):
            answer = Synced(ErrorCode.NONE, member.assignment, group.protocol_name, group.protocol_type)
            return self._answer(request.asked, answer)
        member.awaiting_sync = request.asked
        if group.leader_id == member_id:
            assigned = dict(request.assignments)
            for found in group.members.values():
                found.assignment = assigned.get(found.member_id)
            self._propagate(group, ErrorCode.NONE)
            group.transition_to(STABLE)
            self._note("stable", generation=group.generation_id)

    def _validate_generation(self, group: ClassicGroup, request: SyncGroup | Heartbeat) -> ErrorCode:
        """Whether this is a member, and of the generation that there is."""
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        return ErrorCode.NONE if request.generation == group.generation_id else ErrorCode.ILLEGAL_GENERATION

    def _validate_sync(self, group: ClassicGroup, request: SyncGroup) -> ErrorCode:
        error = self._validate_generation(group, request)
        if error is not ErrorCode.NONE:
            return error
        asked, agreed = (request.protocol_type, request.protocol_name), (group.protocol_type, group.protocol_name)
        if any(
            mine is not None and theirs is not None and mine != theirs
            for mine, theirs in zip(asked, agreed, strict=True)
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _heartbeat(self, request: Heartbeat) -> ErrorCode:
        group = self.group
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._validate_generation(group, request)
        if error is not ErrorCode.NONE:
            return error
        self._reschedule(group, group.members[request.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(PREPARING) else ErrorCode.NONE

    def _leave(self, request: LeaveGroup) -> None:
        group, member_id = self.group, request.member_id
        if group is None:
            return self._answer(request.asked, HeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID))
        error = ErrorCode.NONE
        if not member_id:
            member_id = group.static_members.get(request.group_instance_id or "", "")
            error = ErrorCode.NONE if member_id else ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id not in group.pending_join_members:
            error = group.validate_member(member_id, request.group_instance_id)
        self._answer(request.asked, HeartbeatResponse(error))
        if error is not ErrorCode.NONE:
            return
        self._remove(group, member_id, request.reason)
        if group.is_in(STABLE, COMPLETING):
            self._maybe_prepare_rebalance(group, f"{member_id} leaves")
        elif group.is_in(PREPARING):
            self._maybe_complete_join(group)

    def _commit(self, request: OffsetCommit) -> ErrorCode:
        if self.group is None:
            if request.generation >= 0:
                return ErrorCode.GROUP_ID_NOT_FOUND
            self.group = ClassicGroup(self.group_id)
        group = self.group
        error = group.validate_offset_commit(request.member_id, request.group_instance_id, request.generation)
        if error is not ErrorCode.NONE:
            return error
        if request.member_id in group.members and group.is_in(STABLE, PREPARING):  # as good as a heartbeat
            self._reschedule(group, group.members[request.member_id])
        self.offsets.update(request.offsets)
        return ErrorCode.NONE

    def delete_offsets(self, partitions: Iterable[tuple[str, int]]) -> ErrorCode:
        """An operator deletes committed offsets of the group's topic; nobody may be a member meanwhile.

        Source: Apache Kafka 4.3.1, `GroupCoordinatorService.deleteOffsets`, `ClassicGroup.validateOffsetDelete`.
        Differs: every member is subscribed to every topic that is named.
        """
        if self.group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not self.group.is_in(EMPTY):
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        for partition in partitions:
            self.offsets.pop(partition, None)
        return ErrorCode.NONE

    def _refuse_join(self, request: JoinGroup, error: ErrorCode) -> None:
        self._answer(request.asked, Joined(error, request.member_id))

    # From one generation to the next: a rebalance begins when a member comes or goes. It waits until every member has
    # joined again, for no longer than the longest of their timeouts; who is missing then is out. The new generation
    # waits for every member's sync. A member that is silent for its session's time is out in any state, unless it is
    # the coordinator that lets it wait for an answer.

    def _maybe_prepare_rebalance(self, group: ClassicGroup, why: str) -> None:
        if group.can_rebalance():
            self._prepare_rebalance(group, why)
        else:
            self._maybe_complete_join(group)

    def _prepare_rebalance(self, group: ClassicGroup, why: str) -> None:
        if group.is_in(COMPLETING):
            for member in group.all_members():
                member.assignment = None
            self._propagate(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync_members.clear()
        self.timers.pop(SYNC, None)
        is_initial = group.is_in(EMPTY)
        if is_initial:
            delay = self.config.group_initial_rebalance_delay_ms
            rest = max(group.rebalance_timeout_ms() - delay, 0)
            self._schedule(JOIN, delay, lambda: self._complete_initial_rebalance(group, delay, rest))
        before = group.state
        group.transition_to(PREPARING)
        self._note("prepare", why=why, state=before.value)
        if is_initial:
            return
        if group.has_all_members_joined():
            self._complete_join(group)
        else:
            self._schedule(JOIN, group.rebalance_timeout_ms(), lambda: self._complete_join(group))

    def _complete_initial_rebalance(self, group: ClassicGroup, delay_ms: int, rest_ms: int) -> None:
        """The wait of an empty group is over; wait again while members keep coming."""
        if not group.new_member_added or rest_ms == 0:
            return self._complete_join(group)
        group.new_member_added = False
        again, rest = min(self.config.group_initial_rebalance_delay_ms, rest_ms), max(rest_ms - delay_ms, 0)
        self._schedule(JOIN, again, lambda: self._complete_initial_rebalance(group, again, rest))

    def _maybe_complete_join(self, group: ClassicGroup) -> None:
        """Begin the generation if all are there; the first one of a group waits for its time."""
        if group.is_in(PREPARING) and group.previous_state is not EMPTY and group.has_all_members_joined():
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """Begin the next generation with those who joined; dynamic members who did not are removed."""
        self.timers.pop(JOIN, None)
        for member in group.all_members():
            if member.awaiting_join is None and not member.is_static:
                group.remove(member.member_id)
                self.timers.pop(member.member_id, None)
                self._note("evict", member=member.member_id, why="did not join in time")
        if not group.maybe_elect_new_joined_leader() and group.members:
            self._schedule(JOIN, group.rebalance_timeout_ms(), lambda: self._complete_join(group))
            return
        group.init_next_generation()
        if group.is_in(EMPTY):
            self._note("empty", generation=group.generation_id)
            return
        self._note("sync", generation=group.generation_id, leader=group.leader_id, protocol=group.protocol_name)
        for member in group.all_members():
            if member.awaiting_join is not None:
                answer = self._current(group, member.member_id, group.leader_id == member.member_id)
                self._answer(member.awaiting_join, answer)
                member.awaiting_join = None
            self._reschedule(group, member)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        generation = group.generation_id
        self._schedule(SYNC, group.rebalance_timeout_ms(), lambda: self._expire_pending_sync(group, generation))

    def _propagate(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answer every sync that waits: with the member's part, or with this error."""
        is_good = error is ErrorCode.NONE
        for member in group.all_members():
            if member.awaiting_sync is not None:
                named = (group.protocol_name, group.protocol_type) if is_good else (None, None)
                self._answer(member.awaiting_sync, Synced(error, member.assignment, *named))
                member.awaiting_sync = None
                self._reschedule(group, member)

    def _remove(self, group: ClassicGroup, member_id: str, why: str) -> None:
        """Forget a member; a join of it that waits is answered first, so that it may come again."""
        self.timers.pop(member_id, None)
        member = group.members.get(member_id)
        if member is not None and member.awaiting_join is not None:
            self._answer(member.awaiting_join, Joined(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        self._note("evict", member=member_id, why=why)

    def _expire_member(self, group: ClassicGroup, member_id: str) -> None:
        """No heartbeat came for the session's time."""
        member = group.members.get(member_id)
        if member_id in group.pending_join_members:
            self._remove(group, member_id, "session")
        elif member is None or member.has_satisfied_heartbeat:
            return
        else:
            self._remove(group, member_id, "session")
            if group.is_in(STABLE, COMPLETING):
                return self._maybe_prepare_rebalance(group, f"no heartbeat of {member_id}")
        if group.is_in(PREPARING) and group.has_all_members_joined():
            self._complete_join(group)

    def _expire_pending_sync(self, group: ClassicGroup, generation: int) -> None:
        """Those who joined but never synced are removed."""
        if generation != group.generation_id or not group.is_in(COMPLETING, STABLE) or not group.pending_sync_members:
            return
        for member_id in sorted(group.pending_sync_members):
            group.remove(member_id)
            self.timers.pop(member_id, None)
            self._note("evict", member=member_id, why="did not sync in time")
        self._prepare_rebalance(group, "members did not sync in time")

    def _take_over(self, member: ClassicGroupMember, request: JoinGroup) -> None:
        """The member is as its newest join says, and waits for the answer."""
        member.supported_protocols = request.protocols
        member.rebalance_timeout_ms, member.session_timeout_ms = (
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
        )
        member.awaiting_join = request.asked

    def _current(self, group: ClassicGroup, member_id: str, is_told_members: bool, skip: bool = False) -> Joined:
        """The answer to a join of the generation that is."""
        members = group.metadata_of_members() if is_told_members else ()
        return Joined(
            ErrorCode.NONE, member_id, group.generation_id, group.protocol_name, group.protocol_type,
            group.leader_id or "", members, skip,
        )  # fmt: skip

    def _reschedule(self, group: ClassicGroup, member: ClassicGroupMember, after_ms: int | None = None) -> None:
        """The member was heard of: its session starts over."""
        session_ms = member.session_timeout_ms if after_ms is None else after_ms
        self._schedule(member.member_id, session_ms, lambda: self._expire_member(group, member.member_id))

    def _schedule(self, name: str, after_ms: int, run: Callable[[], None]) -> None:
        self.timers.pop(name, None)  # of two that are due together, the one set first runs first
        self.timers[name] = self.now_ms + after_ms, run

    def _advance_to(self, now_ms: int) -> None:
        while (due := self.next_due()) is not None and due <= now_ms:
            name = next(name for name, (at, _) in self.timers.items() if at == due)
            self.now_ms = max(self.now_ms, due)
            self.timers.pop(name)[1]()
        self.now_ms = max(self.now_ms, now_ms)

    def _answer(self, asked: int, answer: Answer) -> None:
        self.effects.append(Answered(asked, answer))

    def _note(self, what: str, **data: Any) -> None:
        self.effects.append(CoordinatorEvent(what, data))

    def _taken(self) -> list[Effect]:
        taken, self.effects = self.effects, []
        return taken

    def __repr__(self) -> str:
        return f"<GroupCoordinator of {self.group!r}, {len(self.offsets)} offsets, next timer at {self.next_due()}>"
