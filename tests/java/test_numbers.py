"""64-bit sums, as Java's."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.java.numbers import MAX_LONG, MIN_LONG, to_long


@given(st.integers(-(2**70), 2**70))
def test_to_long_any_integer_is_what_64_bits_keep(value: int) -> None:
    """The result is the signed number in the lowest 64 bits."""
    assert to_long(value) == ctypes.c_int64(value).value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (MAX_LONG, MAX_LONG), (MIN_LONG, MIN_LONG), (MAX_LONG + 1, MIN_LONG), (MIN_LONG - 1, MAX_LONG),
        (2**64, 0), (-5 - MAX_LONG, MAX_LONG - 3), (-1 - MAX_LONG, MIN_LONG), (10**30, ctypes.c_int64(10**30).value),
    ],
)  # fmt: skip
def test_to_long_at_the_edges_wraps(value: int, kept: int) -> None:
    """One beyond the largest is the smallest, and the other way round."""
    assert to_long(value) == kept
