"""A member's side of the group protocol: join, sync, beat, and what that does to the partitions it holds.

Two threads share a consumer. The user's thread polls, and only there partitions are given up and taken
over. The other one beats, and looks at the time since the last poll: a user who works for too long on
what one poll gave is not alive either, and the member leaves before the coordinator has noticed
anything. Heartbeats therefore never come from `poll`.

Eager members give up everything before they join, so that nobody can hold a partition twice; nothing is
read until the last one has synced. What comes back begins at the committed offset. Cooperative ones keep what
they have, learn from the assignment what must go, give that up and join a second time, in which it is dealt out.

    begin_poll -> [outbox: JoinGroup] -> receive(Joined) -> [outbox: SyncGroup] -> receive(Synced)

Requests are put into `outbox`; answers come by `receive`. Java's client looks at an answer to a join or a sync
in the user's poll; librdkafka does so in the background and leaves to the poll only the giving up and taking over.

Source: Apache Kafka 4.3.1, `AbstractCoordinator`, `ConsumerCoordinator` (`onJoinPrepare`, `onJoinComplete`),
`Heartbeat`; librdkafka 2.x, `rdkafka_cgrp.c`.
Differs: one topic; looking for the coordinator always succeeds; a retry comes with the next poll or beat
instead of after a backoff; librdkafka's two queues are one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

from kitlib.mechanisms.groups.group_protocol import (
    UNKNOWN_GENERATION,
    UNKNOWN_MEMBER_ID,
    Answer,
    Heartbeat,
    HeartbeatResponse,
    Joined,
    JoinGroup,
    LeaveGroup,
    Request,
    Synced,
    SyncGroup,
)
from kitlib.mechanisms.positions import ResetPolicy
from kitlib.mechanisms.protocol import ErrorCode

COOPERATIVE = "cooperative-sticky"
_AGAIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)  # no longer a member: join as a new one
_FATAL = (
    ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.INVALID_GROUP_ID,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """The settings of a consumer that the model reads; the names are those of its configuration."""

    library: Literal["librdkafka", "java"] = "java"
    strategies: tuple[str, ...] = ("range",)  # partition.assignment.strategy, the most wanted first
    auto_commit: bool = False
    auto_commit_interval_ms: int = 5_000
    auto_store: bool = True  # librdkafka's enable.auto.offset.store
    commit_on_revoke: bool = False  # not a setting: the user's callback commits the positions
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    instance_id: str | None = None
    auto_offset_reset: ResetPolicy = "earliest"
    release: tuple[int, int, int] = (2, 0, 0)  # librdkafka's; 1.4.2 and 1.9.0 changed what becomes of stored offsets
    metadata_max_age_ms: int = 300_000

    @property
    def is_cooperative(self) -> bool:
        """Whether the member keeps partitions through a rebalance: only if all its strategies allow it."""
        return all(strategy == COOPERATIVE for strategy in self.strategies)

    @property
    def is_background(self) -> bool:
        """Whether joins and commits go on without the user's polls."""
        return self.library == "librdkafka"


class MemberState(Enum):
    """Where a member is on its way into a generation (`AbstractCoordinator.MemberState`)."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"  # its join is not answered
    COMPLETING_REBALANCE = "completing rebalance"  # its sync is not answered
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member tells the leader with its join: what it holds, and since which generation."""

    owned: tuple[int, ...] = ()
    generation: int = UNKNOWN_GENERATION


@dataclass(frozen=True, slots=True)
class MemberEvent:
    """What the user is told in a poll: partitions came or went, a commit of the library's own was answered.

    `revoked` still allows a commit, `lost` does not: another member may have them already. `committed`
    has an error when it was refused, `error` is of a client that cannot go on, or was told so.
    """

    what: Literal["assigned", "revoked", "lost", "committed", "error"]
    partitions: tuple[int, ...] = ()
    generation: int | None = None
    error: str = ""  # as the library names it


# (strategy, (member id, instance id, metadata) of each) -> member id -> partitions
Deal = Callable[[str, Sequence[tuple[str, str | None, MemberMetadata]]], dict[str, tuple[int, ...]]]


@dataclass(slots=True)
class GroupMembership:
    """One member's part in the protocol; positions and commits are added by `consumer.GroupConsumer`."""

    client_id: str
    config: ConsumerConfig
    deal: Deal  # what the member does when it is the leader
    number: Callable[[], int]  # the next request's number, unique among all members
    state: MemberState = MemberState.UNJOINED
    member_id: str = UNKNOWN_MEMBER_ID
    generation: int = UNKNOWN_GENERATION
    is_leader: bool = False
    held: dict[int, int | None] = field(default_factory=dict)  # partition -> position; None until it is known
    sticky: MemberMetadata = field(default_factory=MemberMetadata)  # the last assignment, which the assignors remember
    needs_rejoin: bool = True
    is_prepared: bool = False  # what had to be given up before the join has been given up
    awaits_poll: bool = False  # librdkafka: the user has not been told of the last assignment; no join before that
    fatal: ErrorCode = ErrorCode.NONE  # it cannot go on
    polled_ms: int | None = None  # the last poll; None before the first
    beat_ms: int = 0  # the last heartbeat sent
    outbox: list[Request] = field(default_factory=list)
    asked: dict[int, Request] = field(default_factory=dict)  # without an answer
    inbox: list[tuple[Request, Answer]] = field(default_factory=list)  # answers that wait for the user's poll
    events: list[MemberEvent] = field(default_factory=list)  # for the user's next poll

    def begin_poll(self, now_ms: int) -> None:
        """The user polls: look at the answers that came, give up what must be given up, join if it is time."""
        self.polled_ms, self.awaits_poll = now_ms, False
        waiting, self.inbox = self.inbox, []
        for request, answer in waiting:
            self._settle(request, answer, now_ms)
        self.go_on(now_ms)

    def go_on(self, now_ms: int) -> None:
        """Take the next step towards the group; to be called again in the same poll after answers came."""
        if (
            self.fatal is ErrorCode.NONE
            and self.needs_rejoin
            and self.state in (MemberState.UNJOINED, MemberState.STABLE)
        ):
            self._prepare(now_ms)
            self._join()

    def _prepare(self, now_ms: int) -> None:
        """Before the join: lost if it is no member any more; else an eager member gives up everything."""
        if self.is_prepared:
            return
        self.is_prepared = True
        if self.generation == UNKNOWN_GENERATION:
            self.before_revoke(now_ms, is_lost=True)
            self._give_up("lost", tuple(self.held))
        else:
            self.before_revoke(now_ms, is_lost=False)
            if not self.config.is_cooperative:
                self._give_up("revoked", tuple(self.held))

    def _join(self) -> None:
        config = self.config
        self.state, self.needs_rejoin = MemberState.PREPARING_REBALANCE, False
        self.send(
            JoinGroup(
                self.number(), self.client_id, tuple((name, self._metadata(name)) for name in config.strategies),
                self.member_id, config.instance_id, config.session_timeout_ms, config.max_poll_interval_ms,
            )
        )  # fmt: skip

    def _metadata(self, strategy: str) -> MemberMetadata:
        if strategy == COOPERATIVE:
            return MemberMetadata(tuple(sorted(self.held)), self.sticky.generation if self.held else UNKNOWN_GENERATION)
        return self.sticky if strategy == "sticky" else MemberMetadata()

    def tick(self, now_ms: int) -> None:
        """Leave when the last poll is too long ago, else send a heartbeat when it is time."""
        config = self.config
        if self.polled_ms is None or self.fatal is not ErrorCode.NONE or self.state is MemberState.UNJOINED:
            return
        if now_ms - self.polled_ms >= config.max_poll_interval_ms:
            self.leave("poll")
        elif (
            now_ms - self.beat_ms >= config.heartbeat_interval_ms and self.state is not MemberState.PREPARING_REBALANCE
        ):
            self.beat_ms = now_ms
            self.send(Heartbeat(self.number(), self.member_id, self.generation, config.instance_id))

    def next_due(self) -> int | None:
        """When `tick` has something to do; None while it has not."""
        if self.polled_ms is None or self.fatal is not ErrorCode.NONE or self.state is MemberState.UNJOINED:
            return None
        late = self.polled_ms + self.config.max_poll_interval_ms
        if self.state is MemberState.PREPARING_REBALANCE:
            return late
        return min(late, self.beat_ms + self.config.heartbeat_interval_ms)

    def leave(self, reason: str) -> None:
        """Leave the group; a static member goes without a word, so that its place is kept for its session's time."""
        if self.config.instance_id is None and self.member_id and self.state is not MemberState.UNJOINED:
            self.send(LeaveGroup(self.number(), self.member_id, reason=reason))
        self._reset()

    def send(self, request: Request) -> None:
        """Put a request in flight."""
        self.asked[request.asked] = request
        self.outbox.append(request)

    def receive(self, number: int, answer: Answer, now_ms: int, in_poll: bool) -> None:
        """An answer has come; one to a join or a sync waits for the user's poll, unless the library needs none."""
        request = self.asked.pop(number, None)
        if request is None:
            return
        if isinstance(answer, Joined | Synced) and not in_poll and not self.config.is_background:
            self.inbox.append((request, answer))
        else:
            self._settle(request, answer, now_ms)

    def disconnected(self) -> None:
        """Nothing that was asked will be answered any more."""
        self.asked.clear()
        self.inbox.clear()
        if self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE):
            self.state, self.needs_rejoin = MemberState.UNJOINED, True

    def _settle(self, request: Request, answer: Answer, now_ms: int) -> None:
        match request, answer:
            case JoinGroup(), Joined():
                self._joined(answer, now_ms)
            case SyncGroup(), Synced():
                self._synced(request, answer, now_ms)
            case Heartbeat(), HeartbeatResponse():
                self._beaten(request, answer)
            case _:
                self.other_answer(request, answer, now_ms)
        keeps_all = self.config.is_cooperative and self.generation != UNKNOWN_GENERATION
        if self.config.is_background and (self.is_prepared or keeps_all) and not self.awaits_poll:
            self.go_on(now_ms)

    def _joined(self, answer: Joined, now_ms: int) -> None:
        if self.state is not MemberState.PREPARING_REBALANCE:
            return  # it has left in between
        if answer.error is ErrorCode.NONE:
            self.state, self.member_id, self.generation = (
                MemberState.COMPLETING_REBALANCE,
                answer.member_id,
                answer.generation,
            )
            self.is_leader = answer.leader == answer.member_id
            self.beat_ms = now_ms
            dealt: tuple[tuple[str, Any], ...] = ()
            if self.is_leader and not answer.skip_assignment:
                dealt = tuple(self.deal(answer.protocol_name or "", answer.members).items())
            self.send(
                SyncGroup(
                    self.number(), self.member_id, self.generation, dealt, self.config.instance_id,
                    answer.protocol_type, answer.protocol_name,
                )
            )  # fmt: skip
        elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.state = answer.member_id, MemberState.UNJOINED
            self._join()
        else:
            self.state = MemberState.UNJOINED
            self.refused(answer.error)

    def _synced(self, request: SyncGroup, answer: Synced, now_ms: int) -> None:
        if self.state is not MemberState.COMPLETING_REBALANCE or request.generation != self.generation:
            return
        if answer.error is not ErrorCode.NONE:
            self.state = MemberState.UNJOINED
            return self.refused(answer.error)
        self.state, self.is_prepared = MemberState.STABLE, False
        assigned: tuple[int, ...] = tuple(sorted(answer.assignment or ()))
        self.sticky = MemberMetadata(assigned, self.generation)
        revoked = tuple(partition for partition in self.held if partition not in assigned)
        if revoked:  # a cooperative member's: they will be dealt out when it has joined again without them
            self.before_cooperative_revoke(revoked)
            self._give_up("revoked", revoked)
            self.needs_rejoin = True
        added = tuple(partition for partition in assigned if partition not in self.held)
        self.held.update(dict.fromkeys(added))
        self.awaits_poll = bool(revoked or added)
        self.events.append(MemberEvent("assigned", added, self.generation))
        self.after_assigned(added, now_ms)

    def _beaten(self, request: Heartbeat, answer: HeartbeatResponse) -> None:
        if answer.error is ErrorCode.NONE or request.generation != self.generation:
            return
        if answer.error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.needs_rejoin = self.needs_rejoin or self.state is MemberState.STABLE
        else:
            self.refused(answer.error)

    def refused(self, error: ErrorCode) -> None:
        """The coordinator refuses the member: it joins again, as a new one if it is not known, or gives up for good."""
        if error in _FATAL:
            self.fatal = error
            self.events.append(MemberEvent("error", error=error.name))
        elif error in _AGAIN:
            self._reset()
        self.needs_rejoin = True

    def _reset(self) -> None:
        self.state, self.member_id, self.generation = MemberState.UNJOINED, UNKNOWN_MEMBER_ID, UNKNOWN_GENERATION
        self.needs_rejoin, self.is_prepared, self.is_leader = True, False, False

    def _give_up(self, what: Literal["revoked", "lost"], partitions: tuple[int, ...]) -> None:
        if partitions:
            self.events.append(MemberEvent(what, tuple(sorted(partitions)), self.generation))
            for partition in partitions:
                del self.held[partition]
            self.after_given_up(partitions)

    def before_revoke(self, now_ms: int, is_lost: bool) -> None:
        """Partitions are about to be given up; here a consumer commits."""

    def before_cooperative_revoke(self, partitions: tuple[int, ...]) -> None:
        """These partitions of a cooperative member are about to be given up; the user may commit."""

    def after_assigned(self, partitions: tuple[int, ...], now_ms: int) -> None:
        """Partitions were taken over; here a consumer asks where to begin."""

    def after_given_up(self, partitions: tuple[int, ...]) -> None:
        """Partitions are gone."""

    def other_answer(self, request: Request, answer: Answer, now_ms: int) -> None:
        """An answer that is not about membership."""
