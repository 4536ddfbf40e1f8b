"""Where a consumer goes on after its log was cut off, by library, policy, and whether it committed the leader epoch."""

from __future__ import annotations

import pytest

from kitlib.mechanisms.replication.epochs import Library, Resumed, resume

# The log is [0, end). 50 was committed in epoch 0, which now ends at 40. (library, epoch known, policy, end) -> where it goes on.
CASES: dict[str, tuple[tuple[Library, bool, str, int], Resumed]] = {
    "no epoch, out of range, earliest": (("java", False, "earliest", 40), Resumed(0, "earliest")),
    "no epoch, out of range, latest": (("java", False, "latest", 40), Resumed(40, "latest")),
    "no epoch, out of range, none": (("java", False, "none", 40), Resumed(None, error="OffsetOutOfRange")),
    "no epoch, grown past it: nobody notices": (("java", False, "none", 55), Resumed(50, "committed offset")),
    "epoch, out of range": (("java", True, "earliest", 40), Resumed(40, "log truncation")),
    "epoch, grown past it, whatever the policy": (("java", True, "latest", 55), Resumed(40, "log truncation")),
    "epoch, grown past it, none": (("java", True, "none", 55), Resumed(None, error="LogTruncation")),
    "librdkafka does not ask when it begins": (("librdkafka", True, "earliest", 55), Resumed(50, "committed offset")),
    "librdkafka, out of range": (("librdkafka", True, "earliest", 40), Resumed(0, "earliest")),
}


@pytest.mark.parametrize("case", CASES)
def test_resume_after_a_cut(case: str) -> None:
    """The epoch's end is below the committed offset: only who asks for it notices."""
    (library, knows_epoch, policy, end), expected = CASES[case]
    assert resume(50, 0, end, policy, library, 0 if knows_epoch else None, (0, 40)) == expected


def test_resume_in_an_unharmed_log_is_at_the_committed_offset() -> None:
    """An epoch that ends at or above the committed offset changes nothing."""
    for end in (50, 60):
        assert resume(50, 0, end, "none", "java", 0, (0, end)) == Resumed(50, "committed offset")


@pytest.mark.parametrize(("policy", "expected"), [
    ("earliest", Resumed(0, "earliest")), ("latest", Resumed(60, "latest")), ("none", Resumed(None, error="NoOffsetForPartition")),
])  # fmt: skip
def test_resume_without_a_committed_offset_asks_the_policy(policy: str, expected: Resumed) -> None:
    """As without replicas."""
    assert resume(None, 0, 60, policy) == expected


@pytest.mark.parametrize(("policy", "expected"), [("earliest", Resumed(0, "earliest")), ("none", Resumed(None, error="LogTruncation"))])
def test_resume_with_an_epoch_that_the_leader_does_not_know_asks_the_policy(policy: str, expected: Resumed) -> None:
    """A leader that knows no epoch so late answers -1."""
    assert resume(50, 0, 60, policy, "java", 7, (-1, -1)) == expected
