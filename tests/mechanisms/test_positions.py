"""Where a group begins: a table of the committed offset, the log and the policy."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.positions import (
    NoOffsetForPartitionError,
    NoRecordSinceError,
    OffsetOutOfRangeError,
    ResetPolicyError,
    reset_since_ms,
    start_position,
)

SINCE = {1_000: 5}  # the first record that is no older than so many ms

# (committed, log start, log end, policy) -> the position, or the error.
POSITIONS = {
    "a committed offset inside": ((5, 0, 10, "latest"), 5),
    "at the start": ((3, 3, 10, "latest"), 3),
    "at the end": ((10, 3, 10, "earliest"), 10),
    "below the start, earliest": ((2, 3, 10, "earliest"), 3),
    "below the start, latest": ((2, 3, 10, "latest"), 10),
    "by duration, a record that is young enough": ((None, 3, 10, "by_duration:PT1S"), 5),
    "by duration, which lies below the start": ((2, 6, 10, "by_duration:PT1S"), 6),
    "by duration, none is young enough": ((11, 3, 10, "by_duration:PT0S"), NoRecordSinceError),
    "by duration, a committed offset inside": ((7, 3, 10, "by_duration:PT1S"), 7),
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
        assert start_position(committed, start, end, policy, SINCE.get) == found
        return
    with pytest.raises(found, match=r"auto\.offset\.reset=none.*Commit an offset|nowhere to start yet\. Wait for one"):
        start_position(committed, start, end, policy, SINCE.get)


DURATIONS = {"PT1H": 3_600_000, "PT1H30M5S": 5_405_000, "PT0S": 0, "P1DT2H3M4.5S": 93_784_500, "pt1,5s": 1_500, "PT0.0005S": 1}
NO_POLICIES = ("", "first", "EARLIEST", "by_duration", "by_duration:PT", "by_duration:P1DT", "by_duration:PT-6H", "by_duration:PT1.5H",
               "by_duration: PT1H", "by_duration:PT\u0661H")  # fmt: skip


@pytest.mark.parametrize("text", DURATIONS)
def test_reset_policy_by_duration_is_so_many_ms(text: str) -> None:
    """Days to seconds and a fraction of a second, of which part of a ms counts as one: as Java's Duration.parse."""
    assert reset_since_ms(f"by_duration:{text}") == DURATIONS[text]


@pytest.mark.parametrize("policy", NO_POLICIES)
def test_reset_policy_that_is_none_is_refused_with_the_choices(policy: str) -> None:
    """A word that no client knows, and a duration that is none."""
    with pytest.raises(ResetPolicyError, match="expected earliest, latest, none or by_duration"):
        reset_since_ms(policy)
