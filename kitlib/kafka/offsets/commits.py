"""Reads the committed offsets among the records of __consumer_offsets, and only these, as fast as Python allows.

`records.decode` reads every kind of record by its declaration, field by field. A topic of millions holds
hardly anything but commits, all of the same few layouts, and of each only the offset, the time and the topic's
id are looked at. So these are picked from their places. Whatever is not laid out in the ordinary way (an unknown
version, a cut value, an unknown tagged field) is not judged here: the answer is None, and `records.decode` says
what it is. Where an answer is given, it is that of `records.decode`.

Source: Apache Kafka 4.3.1, `OffsetCommitKey`, `OffsetCommitValue` versions 0 to 4, `LegacyOffsetCommitValue`.
Differs: leader epoch, metadata and expiry are passed over.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

LEGACY, COMMIT = 0, 1  # the types that a commit's key begins with
HEAD = struct.Struct(">hq")  # version, offset
LENGTH = struct.Struct(">h")
TIMESTAMP = struct.Struct(">q")
TYPE_AND_LENGTH = struct.Struct(">hh")
PARTITION = struct.Struct(">i")

METADATA_AT = {0: 10, 1: 10, 2: 10, 3: 14, 4: 14}  # version -> where the metadata's length stands
EXPIRY_BYTES = 8  # of version 1, after the commit's time
FLEXIBLE = 4  # this version writes lengths as varints, and tagged fields at its end
NO_TAGS = b"\x00"
TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field, number 0, of 16 bytes
TOPIC_ID_BYTES = 16


class CommitKey(NamedTuple):
    """Whose commit it is."""

    type: int  # LEGACY or COMMIT
    group: str
    topic: str
    partition: int


class CommitValue(NamedTuple):
    """What was committed, and when."""

    offset: int
    timestamp_ms: int
    topic_id: bytes | None  # 16 bytes that are not all 0; None where the record has no id


def commit_key(key: bytes | None) -> CommitKey | None:
    """A commit's key; None for any other one, and for one that is cut or holds a null."""
    if key is None or len(key) < TYPE_AND_LENGTH.size:
        return None
    number, length = TYPE_AND_LENGTH.unpack_from(key)
    group_end = TYPE_AND_LENGTH.size + length
    if number not in (LEGACY, COMMIT) or length < 0 or len(key) < group_end + LENGTH.size:
        return None
    (topic_length,) = LENGTH.unpack_from(key, group_end)
    topic_at = group_end + LENGTH.size
    topic_end = topic_at + topic_length
    if topic_length < 0 or len(key) < topic_end + PARTITION.size:
        return None
    group = key[TYPE_AND_LENGTH.size : group_end].decode("utf-8", "replace")
    topic = key[topic_at:topic_end].decode("utf-8", "replace")
    return CommitKey(number, group, topic, PARTITION.unpack_from(key, topic_end)[0])


def commit_value(value: bytes, kind: int = COMMIT) -> CommitValue | None:
    """A commit's value under a key of type `kind`; None for one that is not laid out in the ordinary way."""
    if len(value) < HEAD.size:
        return None
    version, offset = HEAD.unpack_from(value)
    at = METADATA_AT.get(version)
    if at is None or (kind == LEGACY and version != 0):
        return None
    if version == FLEXIBLE:
        return _flexible(value, offset, at)
    if len(value) < at + LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(value, at)
    at += LENGTH.size + length
    if length < 0 or len(value) < at + TIMESTAMP.size + (EXPIRY_BYTES if version == 1 else 0):
        return None
    return CommitValue(offset, TIMESTAMP.unpack_from(value, at)[0], None)


def _flexible(value: bytes, offset: int, at: int) -> CommitValue | None:
    """A value of version 4: metadata of less than 16,383 bytes, and no tagged field but the topic's id."""
    if len(value) <= at + 1:
        return None
    coded = value[at]
    at += 1
    if coded & 0x80:
        if value[at] & 0x80:
            return None
        coded = coded & 0x7F | value[at] << 7
        at += 1
    at += coded - 1
    tags_at = at + TIMESTAMP.size
    if coded == 0 or len(value) <= tags_at:
        return None
    (timestamp_ms,) = TIMESTAMP.unpack_from(value, at)
    if value[tags_at : tags_at + 1] == NO_TAGS:
        return CommitValue(offset, timestamp_ms, None)
    id_at = tags_at + len(TOPIC_ID_TAG)
    topic_id = value[id_at : id_at + TOPIC_ID_BYTES]
    if value[tags_at:id_at] != TOPIC_ID_TAG or len(topic_id) < TOPIC_ID_BYTES:
        return None
    return CommitValue(offset, timestamp_ms, topic_id if any(topic_id) else None)
