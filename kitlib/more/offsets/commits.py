"""Picks a commit's key, and what matters of its value, from their bytes, as fast as Python allows.

`records.decode` reads every kind of record by its declaration, field by field. A topic of millions holds
hardly anything but commits, all of the same few layouts, and of each only the offset, the time and the topic's
id are looked at. So these are picked from their places.
Whatever is not laid out in the ordinary way is not judged here: the answer is None, and `records.decode` says
what it is. Where an answer is given, it is that of `records.decode`.

Source: Apache Kafka 4.3.1, `OffsetCommitKey`, `OffsetCommitValue` versions 0 to 4, `LegacyOffsetCommitValue`.
Differs: leader epoch, metadata and expiry are passed over.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kitlib.java.texts import text_of

LEGACY, COMMIT = 0, 1  # the types that a commit's key begins with
HEAD = struct.Struct(">hq")  # version, offset
LENGTH = struct.Struct(">h")
TIMESTAMP = struct.Struct(">q")
TYPE_AND_LENGTH = struct.Struct(">hh")
PARTITION = struct.Struct(">i")

EPOCH_BYTES, EPOCH_SINCE = 4, 3  # the leader's epoch, before the metadata
EXPIRY_BYTES = 8  # of version 1, after the commit's time
FLEXIBLE = 4  # this version writes lengths as varints, and tagged fields at its end
TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field, number 0, of 16 bytes
TOPIC_ID_BYTES = 16
USUAL = struct.Struct(">hq4xBq3s16s")  # of the current version, without metadata: version, offset, its length, time, tag, topic's id
LONG_VARINT = 0x80  # from here on a varint has a second byte


class CommitKey(NamedTuple):
    """Whose commit it is."""

    type: int  # LEGACY or COMMIT
    group: str
    topic: str
    partition: int


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
    group = text_of(key[TYPE_AND_LENGTH.size : group_end])
    topic = text_of(key[topic_at:topic_end])
    return CommitKey(number, group, topic, PARTITION.unpack_from(key, topic_end)[0])


def commit_value(value: bytes) -> tuple[int, int, bytes] | None:
    """A commit's offset, its time in ms and its topic's id (b"" for none); None for a value of an unusual layout, or a cut one."""
    if len(value) == USUAL.size:
        version, offset, metadata, at_ms, tag, topic_id = USUAL.unpack(value)
        if version == FLEXIBLE and metadata == 1 and tag == TOPIC_ID_TAG:
            return offset, at_ms, topic_id if any(topic_id) else b""
    if len(value) < HEAD.size:
        return None
    version, offset = HEAD.unpack_from(value)
    at = HEAD.size + (EPOCH_BYTES if version >= EPOCH_SINCE else 0)
    if not 0 <= version <= FLEXIBLE or len(value) < at + LENGTH.size:
        return None
    length = value[at] - 1 if version == FLEXIBLE else LENGTH.unpack_from(value, at)[0]
    if not 0 <= length < (LONG_VARINT - 1 if version == FLEXIBLE else len(value)):
        return None
    time_at = at + length + (1 if version == FLEXIBLE else LENGTH.size)
    tags_at = time_at + TIMESTAMP.size
    if len(value) < tags_at + (1 if version == FLEXIBLE else EXPIRY_BYTES if version == 1 else 0):
        return None
    (at_ms,) = TIMESTAMP.unpack_from(value, time_at)
    if version != FLEXIBLE or not value[tags_at]:
        return offset, at_ms, b""
    topic_id = value[tags_at + len(TOPIC_ID_TAG) : tags_at + len(TOPIC_ID_TAG) + TOPIC_ID_BYTES]
    if not value.startswith(TOPIC_ID_TAG, tags_at) or len(topic_id) < TOPIC_ID_BYTES:
        return None
    return offset, at_ms, topic_id if any(topic_id) else b""
