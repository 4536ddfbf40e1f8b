"""Picks a commit's key from its bytes, as fast as Python allows, and says where the parts of a commit's value stand.

`records.decode` reads every kind of record by its declaration, field by field. A topic of millions holds
hardly anything but commits, all of the same few layouts, and of each only the offset, the time and the topic's
id are looked at. So these are picked from their places (the values of a whole batch in `kitlib.pipelines.offsets_ledger`).
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

EXPIRY_BYTES = 8  # of version 1, after the commit's time
FLEXIBLE = 4  # this version writes lengths as varints, and tagged fields at its end
TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field, number 0, of 16 bytes
TOPIC_ID_BYTES = 16


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
