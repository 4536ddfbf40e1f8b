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


# What Java's AutoOffsetResetStrategy makes of these; 6,000 random ones were compared with it by hand.
DURATIONS = {
    "PT1H": 3_600_000, "pt1h": 3_600_000, "P1DT2H3M4.5S": 93_784_500, "PT0S": 0, "PT1H-5M": 3_300_000, "PT1,5S": 1_500,
    "PT0.0005S": 1, "+PT+1M": 60_000, "-PT-1M": 60_000, "PT1M-0.5S": 59_500,
}  # fmt: skip
NO_POLICIES = (
    "", "first", "EARLIEST", "by_duration", "by_duration:", "by_duration:PT", "by_duration:P1DT", "by_duration:-PT1H",
    "by_duration:PT-6H", "by_duration:P1W", "by_duration:PT1.5H", "by_duration: PT1H", "BY_DURATION:PT1H", "by_duration:PT\u0661H",
)  # fmt: skip


@pytest.mark.parametrize("text", DURATIONS)
def test_reset_policy_by_duration_is_read_as_java_does(text: str) -> None:
    """Days to seconds, each with a sign of its own, and a fraction of a second; part of a ms counts as one."""
    assert reset_since_ms(f"by_duration:{text}") == DURATIONS[text]


@pytest.mark.parametrize("policy", NO_POLICIES)
def test_reset_policy_that_is_none_is_refused_with_the_choices(policy: str) -> None:
    """A word that no client knows, a duration that is none, and one that lies ahead."""
    with pytest.raises(ResetPolicyError, match=r"expected (earliest, latest, none or by_duration|a duration of 0 or more)"):
        reset_since_ms(policy)
