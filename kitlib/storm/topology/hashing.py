"""Java's hash codes, by which Storm chooses the task for a fields grouping.

The same word must come to the same task on every worker, so Storm takes Java's own hash of the list
of values, modulo the number of tasks.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache

from kitlib.errors import KitError
from kitlib.storm.java_long import MAX_LONG, MIN_LONG

_INT_BITS = 32
_ALL_64 = 2**64 - 1
_NAN_HASH = 0x7FF80000  # Java knows one NaN only


def hash_code(value: object) -> int:
    """Java's `hashCode` of a value, as a signed 32-bit number.

    For None (0), bool, int (as a Long), float (as a Double), str (UTF-16 units) and lists or tuples of these.
    Differs: bytes hash by content, like a list of signed bytes; a Java array hashes by its identity, so
    that a fields grouping on one does not work at all. KitError for other types and ints beyond 64 bits.
    """
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int) and MIN_LONG <= value <= MAX_LONG:
        return _fold(value & _ALL_64)
    if isinstance(value, float):
        return _NAN_HASH if math.isnan(value) else _fold(int.from_bytes(struct.pack(">d", value)))
    if isinstance(value, str):
        return _text_hash_code(value)
    if isinstance(value, bytes):
        return _combine(((byte ^ 0x80) - 0x80 for byte in value), 1)
    if isinstance(value, list | tuple):
        return list_hash_code(value)
    raise KitError(
        f"{value!r:.60} of type {type(value).__name__} has no Java hash code here. "
        "Expected None, bool, a 64-bit int, float, str, bytes, or a list of these: group by another field."
    )


def list_hash_code(values: Sequence[object]) -> int:
    """Java's `hashCode` of a list of values, as a signed 32-bit number."""
    return _combine(map(hash_code, values), 1)


@lru_cache(maxsize=10_000)  # a word count hashes the same words again and again
def _text_hash_code(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    return _combine(struct.unpack(f">{len(units) // 2}H", units), 0)


def _fold(unsigned: int) -> int:
    """The two halves of a 64-bit number, XORed, as Long and Double do it."""
    return _to_int(unsigned ^ (unsigned >> _INT_BITS))


def _combine(codes: Iterable[int], begin: int) -> int:
    found = begin
    for code in codes:
        found = (found * 31 + code) & 0xFFFFFFFF
    return _to_int(found)


def _to_int(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - 2**_INT_BITS if value >= 2 ** (_INT_BITS - 1) else value
