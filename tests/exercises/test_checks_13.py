"""The exercises of notebook 13: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from tests.exercises import solutions


def nothing_is_gone(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return copied + alone + new_records, 0


def without_the_new(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return (copied, alone) if unclean else (copied + alone, 0)


def refused_for_ever(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return (copied + new_records, alone) if unclean else (copied + alone, 0)


def end_is_outside(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    return solutions.goes_on(committed, end - (policy != "latest"), epoch_end, policy)


def one_behind_the_end_is_inside(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    if epoch_end is None and committed == end + 1:
        return committed
    return solutions.goes_on(committed, end, epoch_end, policy)


def epoch_that_ends_at_0_is_none(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    return solutions.goes_on(committed, end, epoch_end or None, policy)


def range_only(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    return committed if committed <= end else {"earliest": 0, "latest": end, "none": None}[policy]


def always_the_policy(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    return {"earliest": 0, "latest": end, "none": None}[policy]


def policy_after_the_epoch(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    if epoch_end is not None and epoch_end < committed:
        return {"earliest": 0, "latest": end, "none": None}[policy]
    return range_only(committed, end, None, policy)


def never_an_error(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    if epoch_end is not None and epoch_end < committed:
        return epoch_end
    return committed if committed <= end else {"earliest": 0, "latest": end, "none": 0}[policy]


def one_too_far(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    found = solutions.goes_on(committed, end, epoch_end, policy)
    return None if found is None else found + 1


def by_epochs(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    part = 0
    for (table, end), (other, other_end) in zip(
        [(leader[:n], leader[n][1] if n < len(leader) else leader_end) for n in range(1, len(leader) + 1)],
        [(follower[:n], follower[n][1] if n < len(follower) else follower_end) for n in range(1, len(follower) + 1)],
        strict=False,
    ):
        if table != other:
            break
        part = min(end, other_end)
    return part


def with_the_ends_exchanged(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return by_epochs(leader, follower_end, follower, leader_end)


def by_the_leaders_epochs_alone(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    """Where the leader's newest common epoch ends, whatever the follower wrote there."""
    ends = [*(first for _, first in leader[1:]), leader_end]
    common = [end for (epoch, _), end in zip(leader, ends, strict=True) if epoch in dict(map(tuple, follower))]  # type: ignore[arg-type]
    return min(common[-1], follower_end) if common else 0


def by_ends(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return min(leader_end, follower_end)


def one_less(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return max(0, by_epochs(leader, leader_end, follower, follower_end) - 1)


SOLUTIONS = [
    ("what_is_left", ..., "and its offsets are used again"),
    ("safe_follower", ..., "one may be away"),
    ("goes_on", ..., "first the epoch"),
    ("cut_to", by_epochs, "each cut where it did"),
    ("cut_to", ..., "each cut where it did"),
]
WRONG = [
    ("what_is_left", nothing_is_gone, "new_records=5, unclean=True) should return (45, 20); yours returns (65"),
    ("what_is_left", lambda copied, alone, new_records, unclean: alone, "what your function returns should be a list of 2 numbers"),
    ("what_is_left", without_the_new, "yours returns (40, 20)"),
    ("what_is_left", lambda copied, alone, new_records, unclean: (copied + new_records, alone), "unclean=False) should return (65, 0)"),
    ("what_is_left", refused_for_ever, "yours returns (60, 0)"),
    ("safe_follower", {"replicas": 2}, "with these settings 10 acknowledged records are lost"),
    ("safe_follower", {"replicas": 2, "min_insync_replicas": 2}, "10 records are refused"),
    ("safe_follower", {"replicas": 3, "min_insync_replicas": 3}, "10 records are refused"),
    ("safe_follower", {"replicas": 3}, "by luck"),
    ("safe_follower", {"unclean_leader_election": False}, "only replicas, min_insync_replicas may be turned"),
    ("goes_on", end_is_outside, "goes_on(committed=40, end=40, epoch_end=None, policy='earliest') should return 40"),
    ("goes_on", one_behind_the_end_is_inside, "goes_on(committed=41, end=40, epoch_end=None, policy='latest') should return 40"),
    ("goes_on", epoch_that_ends_at_0_is_none, "end=9, epoch_end=0, policy='latest') should return 0; yours returns 5"),
    ("goes_on", range_only, "goes_on(committed=50, end=55, epoch_end=40"),
    ("goes_on", always_the_policy, "should return 50; yours returns 0"),
    ("goes_on", policy_after_the_epoch, "policy='latest') should return 40; yours returns 55"),
    ("goes_on", never_an_error, "should return None; yours returns 40"),
    ("goes_on", one_too_far, "policy='earliest') should return 0; yours returns 1"),
    ("cut_to", with_the_ends_exchanged, "your function cuts to 40, which is beyond the follower's own end; expected 30"),
    ("cut_to", by_the_leaders_epochs_alone, "cuts to 40 and keeps offset 30, which is a different record on the leader"),
    ("cut_to", lambda leader, leader_end, follower, follower_end: follower_end, "which is a different record on the leader"),
    ("cut_to", lambda leader, leader_end, follower, follower_end: leader[-1][1], "the leader has"),
    ("cut_to", one_less, "throws away records that both have"),
    ("cut_to", by_ends, "which is a different record on the leader"),
    ("cut_to", lambda leader, leader_end, follower, follower_end: 0, "throws away records that both have"),
]
