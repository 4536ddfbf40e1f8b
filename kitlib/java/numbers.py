"""Java's integers of 64 and 32 bits: sums wrap around instead of growing."""

from __future__ import annotations

MAX_LONG = 2**63 - 1
MIN_LONG = -(2**63)
INT_BITS = 0xFFFFFFFF


def to_long(value: int) -> int:
    """`value` as a Java `long` holds it: modulo 2^64, from MIN_LONG to MAX_LONG."""
    if MIN_LONG <= value <= MAX_LONG:
        return value
    return (value - MIN_LONG) % 2**64 + MIN_LONG


def to_int(value: int) -> int:
    """`value` as a Java `int` holds it: its 32 low bits, with their sign."""
    value &= INT_BITS
    return value - 2**32 if value >= 2**31 else value
