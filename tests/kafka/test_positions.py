"""Where a group begins: a table of the committed offset, the log and the policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.kafka.positions import NoOffsetForPartitionError, OffsetOutOfRangeError, start_position

# (committed, log start, log end, policy) -> the position, or the error.
POSITIONS = {
    "a committed offset inside": ((5, 0, 10, "latest"), 5),
    "at the start": ((3, 3, 10, "latest"), 3),
    "at the end": ((10, 3, 10, "earliest"), 10),
    "below the start, earliest": ((2, 3, 10, "earliest"), 3),
    "below the start, latest": ((2, 3, 10, "latest"), 10),
    "below the start, none": ((2, 3, 10, "none"), OffsetOutOfRangeError),
    "beyond the end, earliest": ((11, 3, 10, "earliest"), 3),
    "beyond the end, none": ((11, 3, 10, "none"), OffsetOutOfRangeError),
    "no offset, earliest": ((None, 3, 10, "earliest"), 3),
    "no offset, latest": ((None, 3, 10, "latest"), 10),
    "no offset, none": ((None, 3, 10, "none"), NoOffsetForPartitionError),
    "a committed 0 is an offset like any other": ((0, 0, 10, "latest"), 0),
}


@pytest.mark.parametrize("case", POSITIONS)
def test_start_position_asks_the_policy_only_without_a_usable_offset(case: str) -> None:
    """The committed offset counts wherever it lies in the log; only else the policy is asked."""
    (committed, start, end, policy), found = POSITIONS[case]
    if isinstance(found, int):
        assert start_position(committed, start, end, policy) == found  # type: ignore[arg-type]
        return
    with pytest.raises(found, match=r"auto\.offset\.reset=none.*Commit an offset"):
        start_position(committed, start, end, policy)  # type: ignore[arg-type]


@given(st.integers(0, 20) | st.none(), st.integers(0, 20), st.integers(0, 20), st.sampled_from(["earliest", "latest"]))
def test_start_position_lies_in_the_log(committed: int | None, start: int, more: int, policy: str) -> None:
    """Whatever was committed, the first offset read is one the broker answers for."""
    assert start <= start_position(committed, start, start + more, policy) <= start + more  # type: ignore[arg-type]
