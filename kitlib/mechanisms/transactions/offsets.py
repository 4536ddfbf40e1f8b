"""A group's offsets, and those that wait for a transaction's marker.

A producer that transforms a group's records commits the group's offsets within its transaction. The
group's coordinator keeps them beside the committed ones until the marker comes: a commit makes them
the group's, an abort forgets them. So input and output move together, or not at all. Since KIP-447 the
commit carries the member and generation it was made for, so a member that lost its partitions is
refused here even if its transactional id is still its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kitlib.mechanisms.protocol import ErrorCode
from kitlib.mechanisms.transactions.metadata import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class GroupIdentity:
    """For whom offsets are committed: a member in a generation, or nobody in particular."""

    group: str
    member: str = ""
    generation: int = NO_GENERATION  # -1: the client is too old to say, or assigned its partitions by hand


@dataclass(slots=True)
class GroupOffsets:
    """The offsets of one group at its coordinator.

    Source: Apache Kafka 4.3.1, `OffsetMetadataManager` (`commitTransactionalOffset`, `replayEndTransactionMarker`,
    `fetchOffsets`), `ClassicGroup.validateOffsetCommit`.
    Differs: members are names with one generation for all; static members and the new protocol's epochs are left out.
    """

    group: str
    generation: int = NO_GENERATION  # of the group now; -1: it has no members
    members: set[str] = field(default_factory=set)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    pending: dict[int, dict[TopicPartition, int]] = field(
        default_factory=dict
    )  # by producer id; until its marker comes

    def check(self, who: GroupIdentity) -> ErrorCode:
        """Whether this member may commit within a transaction: UNKNOWN_MEMBER_ID, or ILLEGAL_GENERATION, or NONE."""
        if who.generation == NO_GENERATION and not who.member:
            return ErrorCode.NONE  # a client from before KIP-447: only its epoch protects the offsets
        if not self.members and who.generation != NO_GENERATION and self.generation == NO_GENERATION:
            return ErrorCode.ILLEGAL_GENERATION  # no such group
        if who.member not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if who.generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def commit(self, offsets: Mapping[TopicPartition, int], who: GroupIdentity) -> ErrorCode:
        """Offsets outside any transaction: the group's at once; as `check`, and from nobody only while it has no members."""
        error = self.check(who)
        if error is ErrorCode.NONE and self.members and not who.member:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE:
            self.committed.update(offsets)
        return error

    def commit_transactional(
        self, producer_id: int, offsets: Mapping[TopicPartition, int], who: GroupIdentity
    ) -> ErrorCode:
        """Offsets within a transaction: kept until its marker comes; as `check`."""
        error = self.check(who)
        if error is ErrorCode.NONE:
            self.pending.setdefault(producer_id, {}).update(offsets)
        return error

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """The producer's marker has come to the group's partition of the offsets' topic."""
        waiting = self.pending.pop(producer_id, {})
        if commit:
            self.committed.update(waiting)

    def __repr__(self) -> str:
        return f"<GroupOffsets {self.group}: {self.committed}, {len(self.pending)} transactions pending>"
