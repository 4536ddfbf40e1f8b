"""From one generation of a group to the next: the time-outs, and what each of them does.

A rebalance begins when somebody comes or goes. It waits until every member has joined again, for no
longer than the longest of their time-outs; who is missing then is out. The new generation waits for
every member's sync. Whoever is silent for its session's time is out in any state, unless it is the
coordinator that lets it wait for an answer.

`kitlib.kafka.groups.coordinator` brings the requests; this part has the timers and the effects.

Source: Apache Kafka 4.3.1, `GroupMetadataManager` (`prepareRebalance`, `maybeCompleteJoinPhase`,
`tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`, `expirePendingSync`,
`expireClassicGroupMemberHeartbeat`).
Differs: as `coordinator` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kitlib.kafka.groups.classic_group import ClassicGroup, ClassicGroupMember, GroupState
from kitlib.kafka.groups.group_protocol import Answer, Answered, Effect, GroupError, Joined, JoinGroup, Noted, Synced

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
    group_max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000  # CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS, no setting
    node: int = 1  # the coordinator's own


@dataclass(slots=True)
class Rebalance:
    """One group's timers, and its way through the generations."""

    group_id: str
    config: GroupConfig = field(default_factory=GroupConfig)
    timers: dict[str, tuple[int, Callable[[], None]]] = field(default_factory=dict)  # name -> (due_ms, what then)
    now_ms: int = 0
    effects: list[Effect] = field(default_factory=list)  # of the call that goes on

    def advance(self, now_ms: int) -> list[Effect]:
        """Let every timer run that is due by `now_ms`, in their order; the effects."""
        self._advance_to(now_ms)
        return self._taken()

    def next_due(self) -> int | None:
        """When the next timer runs, in ms; None without one."""
        return min((due for due, _ in self.timers.values()), default=None)

    def _maybe_prepare_rebalance(self, group: ClassicGroup, why: str) -> None:
        if group.can_rebalance():
            self._prepare_rebalance(group, why)
        else:
            self._maybe_complete_join(group)

    def _prepare_rebalance(self, group: ClassicGroup, why: str) -> None:
        if group.is_in(COMPLETING):
            for member in group.all_members():
                member.assignment = None
            self._propagate(group, GroupError.REBALANCE_IN_PROGRESS)
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

    def _propagate(self, group: ClassicGroup, error: GroupError) -> None:
        """Answer every sync that waits: with the member's part, or with this error."""
        is_good = error is GroupError.NONE
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
            self._answer(member.awaiting_join, Joined(GroupError.UNKNOWN_MEMBER_ID))
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

    # -- what the parts are made of -------------------------------------------------------------------

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
            GroupError.NONE, member_id, group.generation_id, group.protocol_name, group.protocol_type,
            group.leader_id or "", members, skip,
        )  # fmt: skip

    def _reschedule(self, group: ClassicGroup, member: ClassicGroupMember, after_ms: int | None = None) -> None:
        """The member was heard of: its session begins anew."""
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
        self.effects.append(Noted(what, data))

    def _taken(self) -> list[Effect]:
        taken, self.effects = self.effects, []
        return taken
