"""The words that a group's members and its coordinator exchange: requests, answers, error names.

A member joins (and learns who the leader is), syncs (the leader sends the assignment,
everyone gets a part of it), beats, commits and leaves. A join and a sync may be answered long after they
were asked; so every request carries a number of the asker's own, and the answer names it.

Source: Apache Kafka 4.3.1, `JoinGroupRequest` and its siblings, `Errors`.
Differs: one group and one topic a coordinator, so both are left out of the requests; what members send
each other through the coordinator (`metadata`, `assignment`) are Python values instead of bytes; versions
are those of today's clients, where a member without an id receives one and has to join again with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.mechanisms.protocol import ErrorCode

UNKNOWN_MEMBER_ID = ""  # a member's id before its first join
UNKNOWN_GENERATION = -1  # a commit of nobody's: an administrator's, or of a consumer without a group


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Ask to be a member of the next generation. `protocols` are (strategy, metadata), the most wanted first."""

    asked: int
    client_id: str
    protocols: tuple[tuple[str, Any], ...]
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_type: str = "consumer"


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Ask for one's part of the assignment; the leader brings the whole of it: (member id, assignment)."""

    asked: int
    member_id: str
    generation: int
    assignments: tuple[tuple[str, Any], ...] = ()
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """I am alive; the answer tells whether the group is being rebalanced."""

    asked: int
    member_id: str
    generation: int
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """I am going. An administrator removes a static member by its instance id, with an empty member id."""

    asked: int
    member_id: str
    group_instance_id: str | None = None
    reason: str = "leave"  # "leave", or "poll" of a consumer that has not polled for too long


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Keep these offsets, each the next one to be read: ((topic, partition), offset)."""

    asked: int
    offsets: tuple[tuple[tuple[str, int], int], ...]
    member_id: str = UNKNOWN_MEMBER_ID
    generation: int = UNKNOWN_GENERATION
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """What is committed for these partitions?"""

    asked: int
    partitions: tuple[tuple[str, int], ...]


Request = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetCommit | OffsetFetch


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a join. Only the leader is told the members: (member id, instance id, metadata of the protocol)."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = UNKNOWN_MEMBER_ID
    generation: int = UNKNOWN_GENERATION
    protocol_name: str | None = None
    protocol_type: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, Any], ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer to a sync: the asker's part, None for nothing."""

    error: ErrorCode = ErrorCode.NONE
    assignment: Any = None
    protocol_name: str | None = None
    protocol_type: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """The answer to a heartbeat or a leave: an error and nothing else."""

    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Committed:
    """The answer to a commit; one error for all its partitions."""

    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Fetched:
    """The committed offset of each partition that was asked for, None without one."""

    offsets: tuple[tuple[tuple[str, int], int | None], ...] = ()


Answer = Joined | Synced | HeartbeatResponse | Committed | Fetched


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer on its way to whoever asked with this number."""

    asked: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class CoordinatorEvent:
    """What happened in the group: prepare, sync, stable, evict or empty, with the members' ids."""

    what: str
    data: dict[str, Any] = field(default_factory=dict)


Effect = Answered | CoordinatorEvent
