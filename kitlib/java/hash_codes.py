"""Java's hash codes: Storm chooses the task for a fields grouping by them, Kafka the partition that keeps a group's offsets.

The same word must come to the same task on every worker, and the same group to the same partition on every broker
and client, so all take Java's own hash. A text is hashed as Java holds it, in units of UTF-16.

Source: OpenJDK 21, `hashCode` of String, Boolean, Long, Double and List. Differs: bytes, as `hash_code` says.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache

from kitlib.errors import KitError
from kitlib.java.numbers import INT_BITS, MAX_LONG, MIN_LONG, to_int

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
        return text_hash_code(value)
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
def text_hash_code(text: str) -> int:
    """Java's String.hashCode, as a signed 32-bit number: a character beyond the first 65,536 counts as two units."""
    units = utf16_units(text)
    return _combine(struct.unpack(f">{len(units) // 2}H", units), 0)


def utf16_units(text: str) -> bytes:
    """The text as Java holds it, two bytes a unit, high byte first; in the order of these bytes Java sorts strings."""
    return text.encode("utf-16-be", "surrogatepass")


def _fold(unsigned: int) -> int:
    """The two halves of a 64-bit number, XORed, as Long and Double do it."""
    return to_int(unsigned ^ (unsigned >> 32))


def _combine(codes: Iterable[int], begin: int) -> int:
    found = begin
    for code in codes:
        found = (found * 31 + code) & INT_BITS
    return to_int(found)
