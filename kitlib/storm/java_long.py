"""Java's 64-bit arithmetic, where Storm's sums wrap around instead of growing."""

from __future__ import annotations

MAX_LONG = 2**63 - 1
MIN_LONG = -(2**63)


def to_long(value: int) -> int:
    """`value` as a Java `long` holds it: modulo 2^64, from MIN_LONG to MAX_LONG."""
    if MIN_LONG <= value <= MAX_LONG:
        return value
    return (value - MIN_LONG) % 2**64 + MIN_LONG
