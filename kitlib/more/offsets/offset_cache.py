"""What a coordinator keeps in memory for its partition of the offsets topic: each group's offsets, and the groups.

The log is the truth and the cache its sum: replaying the log's records into an empty cache, in order,
yields what the last coordinator had. A record without a value takes its offset out.

Source: Apache Kafka 4.3.1, `OffsetMetadataManager.replay`, `GroupCoordinatorShard.replay`, `GroupMetadataManager.replay`.
Differs: groups of the newer protocols (record types 3 and up) are ignored, and what was committed within a transaction counts
at once, not with its marker; no snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.more.offsets.messages import SUBSCRIPTION
from kitlib.more.offsets.offset_rules import CachedGroup, OffsetEvent
from kitlib.more.offsets.records import CONSUMER, GROUP_METADATA_TYPE, OffsetsRecord
from kitlib.more.offsets.wire import INTEGERS, Reader, WireError, read_message

TopicPartition = tuple[str, int]
Key = tuple[str, str, int]  # group, topic, partition


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """One committed offset. Metadata, leader epoch and topic id of a record are not kept."""

    committed_offset: int  # the offset that the group reads next
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # of a record that says so

    @classmethod
    def from_record(cls, value: dict[str, Any]) -> OffsetAndMetadata:
        """What a commit's value says; -1 in its expiry means none."""
        expires = value.get("expireTimestamp", -1)
        return cls(value["offset"], value["commitTimestamp"], None if expires == -1 else expires)


def key_of(record: OffsetsRecord) -> Key:
    """Whose offset a commit's record is about."""
    return record.key["group"], record.key["topic"], record.key["partition"]


def key_text(key: Key) -> str:
    """A key as traces tell it."""
    return f"{key[0]} {key[1]}-{key[2]}"


@dataclass(slots=True)
class OffsetCache:
    """The offsets of all groups of one partition of the offsets topic."""

    offsets: dict[Key, OffsetAndMetadata] = field(default_factory=dict)
    groups: dict[str, CachedGroup] = field(default_factory=dict)  # every group that has an offset, and others
    version: int = 0  # grows with each record that is played

    def replay(self, record: OffsetsRecord) -> Key | None:
        """Play one record of the log; the key that it took out of the cache, if it took one."""
        self.version += 1
        if record.type.number == GROUP_METADATA_TYPE:
            self._replay_group(record)
            return None
        if not record.is_commit:
            return None
        key = key_of(record)
        if record.value is None:
            return key if self.offsets.pop(key, None) is not None else None
        self.groups.setdefault(key[0], CachedGroup())  # a consumer without a group's protocol, or one not yet read
        self.offsets[key] = OffsetAndMetadata.from_record(record.value)
        return None

    def _replay_group(self, record: OffsetsRecord) -> None:
        group, value = record.key["group"], record.value
        if value is None:
            self.groups.pop(group, None)
            return
        self.groups[group] = CachedGroup(
            value["protocolType"] or None,
            len(value["members"]),
            None if value.get("currentStateTimestamp", -1) == -1 else value["currentStateTimestamp"],
            subscribed_topics(value),
        )


def subscribed_topics(value: dict[str, Any]) -> frozenset[str] | None:
    """The topics that a group's members read, as its record tells them; None when that cannot be known."""
    if value["protocolType"] != CONSUMER:
        return None
    if not value["members"]:
        return frozenset()
    if value["protocol"] is None:
        return None
    topics: set[str] = set()
    for member in value["members"]:
        reader = Reader(member["subscription"])
        try:
            reader.integer(INTEGERS["int16"])  # whatever its version, it begins as version 0 does
            topics.update(read_message(reader, SUBSCRIPTION, 0)["topics"])
        except WireError:
            return None
    return frozenset(topics)


def told(record: OffsetsRecord) -> tuple[str, int | None]:
    """A record's key and value in the words of a trace; the value of a group's record is told as its number of members."""
    key = key_text(key_of(record)) if record.is_commit else f"group {record.group}"
    if record.value is None:
        return key, None
    return key, int(record.value["offset"]) if record.is_commit else len(record.value.get("members", ()))


def noted(offset: int, record: OffsetsRecord, now_ms: int) -> list[OffsetEvent]:
    """A written record, and what it put into the cache, in the words of a trace."""
    key, value = told(record)
    of_format = {"format": record.version} if record.is_commit and record.version is not None else {}
    written = OffsetEvent("write", {"offset": offset, "key": key, "value": value, "timestamp_ms": now_ms} | of_format)
    return [written] if value is None or not record.is_commit else [written, OffsetEvent("cache", {"key": key, "value": value})]
