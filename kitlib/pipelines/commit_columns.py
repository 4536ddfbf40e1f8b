"""Commit values as columns: a whole Arrow batch of them is read at once, by NumPy, from Arrow's own bytes.

The rules are those of `kitlib.kafka.offsets.commits.commit_value`, applied to all values together: each
step takes the same few bytes of every value. Values of another layout are marked, and whoever calls reads
them one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kitlib.kafka.offsets.commits import EXPIRY_BYTES, FLEXIBLE, HEAD, TIMESTAMP, TOPIC_ID_BYTES, TOPIC_ID_TAG

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

OFFSET_AT = 2
INT16 = 2
METADATA_AT: Longs = np.array([10, 10, 10, 14, 14])  # by version, as in `commits`
LAST_VERSION = len(METADATA_AT) - 1


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """One row a value. Where `is_read` is False the other columns mean nothing."""

    is_read: Flags
    offset: Longs
    timestamp_ms: Longs
    id_at: Longs  # where the topic's id begins in `data`, -1 where there is none
    data: NDArray[np.uint8]

    def topic_id(self, row: int) -> bytes | None:
        """The topic's id of one row; None where there is none, or it is all 0."""
        at = int(self.id_at[row])
        found = self.data[at : at + TOPIC_ID_BYTES].tobytes() if at >= 0 else b""
        return found if any(found) else None


def read_values(values: pa.Array) -> CommitColumns:
    """The columns of values (binary, under keys of type COMMIT). A null is not read."""
    binary = values.cast(pa.large_binary()) if not pa.types.is_large_binary(values.type) else values
    _, places, bytes_ = binary.buffers()
    ends = np.frombuffer(places, np.int64, len(binary) + 1, binary.offset * 8)
    data = np.zeros(1, np.uint8) if bytes_ is None or not bytes_.size else np.frombuffer(bytes_, np.uint8)
    start, end = ends[:-1], ends[1:]
    good = (end - start >= HEAD.size) & np.asarray(binary.is_valid())
    version = _number(data, start, INT16, good)
    good &= (version >= 0) & (version <= LAST_VERSION)
    offset = _number(data, start + OFFSET_AT, TIMESTAMP.size, good)
    metadata_at = start + METADATA_AT[np.where(good, version, 0)]
    is_flexible = good & (version == FLEXIBLE)
    good &= metadata_at + np.where(is_flexible, 1, INT16) <= end
    length = _number(data, metadata_at, INT16, good & ~is_flexible)
    flexible, size = _varint(data, metadata_at, end, is_flexible & good)
    good &= (length >= 0) & (~is_flexible | (flexible > 0))
    length = np.where(is_flexible, flexible - 1, length)
    time_at = metadata_at + np.where(is_flexible, size, INT16) + length
    behind = np.where(is_flexible, 1, np.where(version == 1, EXPIRY_BYTES, 0))
    good &= time_at + TIMESTAMP.size + behind <= end
    timestamp_ms = _number(data, time_at, TIMESTAMP.size, good)
    id_at, is_odd = _topic_ids(data, time_at + TIMESTAMP.size, end, good & is_flexible)
    return CommitColumns(good & ~is_odd, offset, timestamp_ms, id_at, data)


def _number(data: NDArray[np.uint8], at: Longs, size: int, where: Flags) -> Longs:
    """The signed number of `size` bytes at each place; 0 where there is none to read."""
    found = np.zeros(len(at), np.int64)
    places = at[where]
    if places.size:
        taken = data[places[:, None] + np.arange(size)]
        found[where] = np.ascontiguousarray(taken).view(f">i{size}").ravel()
    return found


def _varint(data: NDArray[np.uint8], at: Longs, end: Longs, where: Flags) -> tuple[Longs, Longs]:
    """Unsigned varints of one or two bytes, and how many; 0 for a longer one and for one that is cut."""
    first = _byte(data, at, where)
    is_long = (first & 0x80) != 0
    is_two = is_long & (at + 1 < end)
    second = _byte(data, at + 1, where & is_two)
    number = np.where(is_long, (first & 0x7F) | (second << 7), first)
    is_bad = (is_long & ~is_two) | ((second & 0x80) != 0)
    return np.where(is_bad, 0, number), np.where(is_long, 2, 1)


def _byte(data: NDArray[np.uint8], at: Longs, where: Flags) -> Longs:
    return np.where(where, data[np.where(where, at, 0)], 0).astype(np.int64)


def _topic_ids(data: NDArray[np.uint8], at: Longs, end: Longs, where: Flags) -> tuple[Longs, Flags]:
    """Where each topic's id begins, -1 for none; and which values have other tagged fields than that."""
    has_tags = where & (_byte(data, at, where) != 0)
    is_id = has_tags & (at + len(TOPIC_ID_TAG) + TOPIC_ID_BYTES <= end)
    for place, wanted in enumerate(TOPIC_ID_TAG):
        is_id &= _byte(data, at + place, is_id) == wanted
    return np.where(is_id, at + len(TOPIC_ID_TAG), -1), has_tags & ~is_id
