"""The exercises of notebook 13: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import nb_13

# -- what_is_left --------------------------------------------------------------------------------------


def by_the_new_leader(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return (copied + new_records, alone) if unclean else (copied + alone + new_records, 0)


def nothing_is_gone(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return copied + alone + new_records, 0


def one_number(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return alone


def without_the_new(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return (copied, alone) if unclean else (copied + alone, 0)


def always_gone(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return copied + new_records, alone


def refused_for_ever(copied: int, alone: int, new_records: int, unclean: bool) -> Any:
    return (copied + new_records, alone) if unclean else (copied + alone, 0)


# -- goes_on -------------------------------------------------------------------------------------------


def epoch_first(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    if epoch_end is not None and epoch_end < committed:
        return None if policy == "none" else epoch_end
    if committed <= end:
        return committed
    return {"earliest": 0, "latest": end, "none": None}[policy]


def end_is_outside(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    return epoch_first(committed, end - 1, epoch_end, policy) if policy != "latest" else epoch_first(committed, end, epoch_end, policy)


def one_behind_the_end_is_inside(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    if epoch_end is None and committed == end + 1:
        return committed
    return epoch_first(committed, end, epoch_end, policy)


def epoch_that_ends_at_0_is_none(committed: int, end: int, epoch_end: int | None, policy: str) -> Any:
    return epoch_first(committed, end, epoch_end or None, policy)


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
    found = epoch_first(committed, end, epoch_end, policy)
    return None if found is None else found + 1


# -- cut_to --------------------------------------------------------------------------------------------


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


def by_the_newest_common_epoch(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    """As Kafka's brokers do: epochs below the newest common one are the same in both logs."""
    ends = [
        {epoch: end for (epoch, _), end in zip(table, [*(first for _, first in table[1:]), last], strict=True)}
        for table, last in ((leader, leader_end), (follower, follower_end))
    ]
    common = max(ends[0].keys() & ends[1].keys(), default=None)
    return 0 if common is None else min(ends[0][common], ends[1][common])


def by_ends(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return min(leader_end, follower_end)


def everything_anew(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return 0


def not_at_all(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return follower_end


def where_the_last_epoch_began(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return leader[-1][1]


def one_less(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> Any:
    return max(0, by_epochs(leader, leader_end, follower, follower_end) - 1)


SOLUTIONS = [
    ("what_is_left", by_the_new_leader, "given out again"),
    ("safe_follower", {"replicas": 3, "min_insync_replicas": 2}, "one may be away"),
    ("goes_on", epoch_first, "first the epoch"),
    ("cut_to", by_epochs, "each cut where it did"),
    ("cut_to", by_the_newest_common_epoch, "each cut where it did"),
]
WRONG = [
    ("what_is_left", nothing_is_gone, "the log ends at 45 and 20 are gone, your function says 65 and 0"),
    ("what_is_left", one_number, "should return two numbers"),
    ("what_is_left", without_the_new, "your function says 40 and 20"),
    ("what_is_left", always_gone, "unclean=False: the log ends at 65 and 0 are gone"),
    ("what_is_left", refused_for_ever, "your function says 60 and 0"),
    ("safe_follower", {"replicas": 2}, "10 acknowledged records are gone"),
    ("safe_follower", {"replicas": 2, "min_insync_replicas": 2}, "10 records are refused"),
    ("safe_follower", {"replicas": 3, "min_insync_replicas": 3}, "10 records are refused"),
    ("safe_follower", {"replicas": 3}, "by luck"),
    ("safe_follower", {"unclean_leader_election": False}, "only replicas, min_insync_replicas may be turned"),
    ("goes_on", end_is_outside, "committed 40, the log ends at 40, no epoch was committed, earliest: it goes on at 40, your"),
    ("goes_on", one_behind_the_end_is_inside, "committed 41, the log ends at 40, no epoch was committed, latest: it goes on at 40"),
    ("goes_on", epoch_that_ends_at_0_is_none, "the committed epoch ends at 0, latest: it goes on at 0, your function says 5"),
    ("goes_on", range_only, "the committed epoch ends at 40"),
    ("goes_on", always_the_policy, "committed 50, the log ends at 55"),
    ("goes_on", policy_after_the_epoch, "it goes on at 40, your function says 55"),
    ("goes_on", never_an_error, "it goes on at an error (None)"),
    ("goes_on", one_too_far, "it goes on at 0, your function says 1"),
    ("cut_to", with_the_ends_exchanged, "cut to 40, which is beyond the follower's own end; expected 30"),
    ("cut_to", by_the_leaders_epochs_alone, "cut to 40, it keeps offset 30, which is another record on the leader"),
    ("cut_to", not_at_all, "which is another record on the leader"),
    ("cut_to", where_the_last_epoch_began, "the leader has"),
    ("cut_to", one_less, "throws away records that both have"),
    ("cut_to", by_ends, "which is another record on the leader"),
    ("cut_to", everything_anew, "throws away records that both have"),
]
OURS = {"13_unclean_election": nb_13.EXERCISES}
