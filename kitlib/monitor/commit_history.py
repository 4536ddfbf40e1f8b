"""What the offsets topic says about groups over time: each commit, each deleted commit, and who was a member then.

A commit record of __consumer_offsets says which offset, not who committed it. The group's own metadata
records, in the same partition, do: they hold the members of its last generation and their assignments. So both
are read together, in log order.

Left out: for groups of the newer protocols, the number of members is known, but not their names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kitlib.more.offsets.messages import ZERO_UUID
from kitlib.more.offsets.records import OffsetsRecord

CLASSIC_GROUP = 2
GROUP_EPOCHS = (3, 11, 17)  # the record types by which a newer group begins and ends
GROUP_MEMBERS = (5, 10, 19)  # the record types by which its members come and go


class GroupPartition(NamedTuple):
    """One partition as one group reads it."""

    group: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.group} on {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit. `offset` None is a tombstone: from here on, the group has no committed offset."""

    order: int  # the offset of its record in __consumer_offsets
    at_ms: int  # a commit's own timestamp, a tombstone's time in the log
    offset: int | None
    topic_id: str | None = None  # of the topic, where the record has it: a topic made again has another
    by: str | None = None  # the member to which the partition was assigned then, if it is known; of a tombstone as well
    members: int | None = None  # how many members the group had then, None if nothing had told it


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """How a group stood from one record on."""

    order: int
    at_ms: int
    members: int
    is_gone: bool = False  # the group has been deleted, or has expired


@dataclass(slots=True)
class GroupNow:
    """What is known of a group while its records are read."""

    members: set[str] | None = None  # None until a record tells
    owners: dict[tuple[str, int], str] = field(default_factory=dict)  # (topic, partition) -> member at its host


@dataclass(slots=True)
class CommitHistory:
    """Every commit of every group's partition, and every change of the groups, in the order of the log."""

    commits: dict[GroupPartition, list[Committed]] = field(default_factory=dict)
    groups: dict[str, list[GroupSeen]] = field(default_factory=dict)
    now: dict[str, GroupNow] = field(default_factory=dict)

    def add(self, order: int, at_ms: int, record: OffsetsRecord) -> None:
        """One record, at its offset and its time in the log. Others than commits, groups and members change nothing."""
        group = record.group
        now = self.now.setdefault(group, GroupNow())
        if record.is_commit:
            self._add_commit(order, at_ms, record, now)
        elif record.type.number == CLASSIC_GROUP:
            self._add_generation(order, at_ms, record, now, group)
        elif record.type.number in GROUP_MEMBERS:
            members = set() if now.members is None else now.members
            member = str(record.key["memberId"])
            now.members = members - {member} if record.is_tombstone else members | {member}
            self.groups.setdefault(group, []).append(GroupSeen(order, at_ms, len(now.members)))
        elif record.type.number in GROUP_EPOCHS and record.is_tombstone:
            self._add_end(order, at_ms, now, group)

    def _add_commit(self, order: int, at_ms: int, record: OffsetsRecord, now: GroupNow) -> None:
        where = GroupPartition(record.key["group"], record.key["topic"], record.key["partition"])
        members = None if now.members is None else len(now.members)
        by = now.owners.get((where.topic, where.partition))
        value = record.value or {"commitTimestamp": at_ms, "offset": None}
        topic_id = None if value.get("topicId") == ZERO_UUID else value.get("topicId")
        self.commits.setdefault(where, []).append(Committed(order, value["commitTimestamp"], value["offset"], topic_id, by, members))

    def _add_generation(self, order: int, at_ms: int, record: OffsetsRecord, now: GroupNow, group: str) -> None:
        if record.value is None:
            self._add_end(order, at_ms, now, group)
            return
        hosts = {each["memberId"]: f"{each['memberId']} at {each['clientHost']}" for each in record.value["members"]}
        now.members = set(hosts)
        now.owners = {
            (topic, partition): hosts[member["memberId"]]
            for member in record.members() or ()
            for topic, partition in (member["assignment"] or {"partitions": ()})["partitions"]
        }
        self.groups.setdefault(group, []).append(GroupSeen(order, at_ms, len(hosts)))

    def _add_end(self, order: int, at_ms: int, now: GroupNow, group: str) -> None:
        now.members, now.owners = set(), {}
        self.groups.setdefault(group, []).append(GroupSeen(order, at_ms, 0, is_gone=True))
