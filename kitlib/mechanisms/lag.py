"""Judges a consumer group by its commits alone, as LinkedIn's Burrow does: no thresholds, only the shape of a window.

How much lag is too much, no one can say for all topics. So Burrow keeps the last few commits of each
partition, with the lag each had when it arrived, and asks what they look like: have they stopped, do they go
back, do they stand still, does the lag ever shrink? `RULES` has the questions in order;
the first that applies is the answer, and says why in a sentence with its numbers.

Rules look at one window only, and each has its blind spot: a second rewind in one window, a stop while an
old log end is still in the ring, a topic on which commits are rare.

Source: Burrow v1.9.5, core/internal/evaluator/caching.go and core/protocol/evaluator.go.
Differs: where Burrow crashes on an empty window, EmptyWindowError; of several partitions with the same
largest lag the first one is reported, where Burrow reports any.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from kitlib.errors import KitError
from kitlib.java.numbers import to_long


class Status(IntEnum):
    """Burrow's words, worst last. A partition is never ERR; a group is never worse than ERR."""

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


class EmptyWindowError(KitError):
    """A partition with lag but without a commit to judge it by. Burrow itself crashes on one."""

    def __init__(self) -> None:
        super().__init__(
            "The window has an empty slot where a commit is needed, and the partition has lag: there is nothing to judge by. "
            "Set minimum_complete above the share of filled slots, or wait for a commit."
        )


@dataclass(frozen=True, slots=True)
class Commit:
    """One committed offset."""

    offset: int
    timestamp_ms: int  # of the commit, set by its writer
    lag: int | None = None  # when the commit arrived; None for one that arrived out of order
    order: int = 0  # the offset of the commit's record in __consumer_offsets
    observed_at_ms: int = 0  # when it arrived, in whole seconds


@dataclass(frozen=True, slots=True)
class Window:
    """What is known about one partition of one group."""

    commits: Sequence[Commit | None]  # a slot each, oldest first; empty ones are None and stand at the front
    log_ends: Sequence[int]  # the partition's log-end offsets that were seen last
    current_lag: int  # now: newest log end - newest commit, 0 at least
    now_s: int  # whole seconds
    allowed_lag: int = 0  # lag up to this counts as none

    def commit(self, index: int) -> Commit:
        """A commit of the window. EmptyWindowError when its slot is empty."""
        found = self.commits[index]
        if found is None:
            raise EmptyWindowError
        return found


def has_stopped(window: Window) -> bool:
    """The silence since the last commit is longer (>) than the time from the first commit to the last."""
    silence_ms, span_ms = silence_and_span_ms(window)
    return silence_ms > span_ms


def silence_and_span_ms(window: Window) -> tuple[int, int]:
    """How long ago the last commit was, and how long after the first; both may be below 0 when clocks disagree.

    Of more than 64 bits the low ones remain, as in Go.
    """
    first, last = window.commit(0), window.commit(-1)
    return to_long(window.now_s * 1000 - last.timestamp_ms), to_long(last.timestamp_ms - first.timestamp_ms)


def was_caught_up_lately(window: Window) -> bool:
    """Some log end in the ring is <= the last commit; allowed_lag plays no part."""
    last = window.commit(-1).offset
    return any(end <= last for end in window.log_ends)


def rewind_index(window: Window) -> int | None:
    """The first commit with a smaller offset than the one before it; later ones are never looked at."""
    for index in range(1, len(window.commits)):
        if window.commit(index).offset < window.commit(index - 1).offset:
            return index
    return None


def has_recovered(window: Window, index: int) -> bool:
    """From the rewind at `index` on, some commit is >= the last one before it."""
    before = window.commit(index - 1).offset
    return any(window.commit(each).offset >= before for each in range(index, len(window.commits)))


def is_lag_always_not_zero(window: Window) -> bool:
    """No known lag in the window is <= allowed_lag."""
    lags = (window.commit(index).lag for index in range(len(window.commits)))
    return all(lag is None or lag > window.allowed_lag for lag in lags)


def is_stalled(window: Window) -> bool:
    """All commits have the same offset, as a single one always has; lag is not looked at."""
    return all(window.commit(index).offset == window.commit(index - 1).offset for index in range(1, len(window.commits)))


def is_lag_not_decreasing(window: Window) -> bool:
    """No known lag is smaller than the known lag before it."""
    lags = (lag for index in range(len(window.commits)) if (lag := window.commit(index).lag) is not None)
    return all(later >= earlier for earlier, later in pairwise(lags))


Answer = tuple[bool, str]  # whether a rule applies to a window, and why it does, or does not


def no_lag(window: Window) -> Answer:
    """There is no lag now, so nothing can be wrong now."""
    lag, allowed_lag = window.current_lag, window.allowed_lag
    if lag > allowed_lag:
        return False, f"the lag is {lag:,}, more than {allowed_lag:,}"
    return True, f"the lag is {lag}, and up to {allowed_lag} counts as none"


def stopped(window: Window) -> Answer:
    """Commits have stopped, and the consumer had not just caught up."""
    silence, span = map(in_seconds, silence_and_span_ms(window))
    if not has_stopped(window):
        return False, f"the last commit is {silence} old, not longer than the {span} of the window"
    if was_caught_up_lately(window):
        end = next(end for end in window.log_ends if end <= window.commit(-1).offset)
        return False, f"silent for {silence}, but a known log end ({end:,}) is not above its last commit"
    why = f"the last commit is {silence} old, which is longer than the {span} that the window spans, with a lag of {window.current_lag}"
    return True, why


def rewound(window: Window) -> Answer:
    """Commits went back, and have not reached the old offset again."""
    index, count = rewind_index(window), len(window.commits)
    if index is None:
        return False, "no commit is smaller than the one before it"
    before, after = window.commit(index - 1).offset, window.commit(index).offset
    if not has_recovered(window, index):
        return True, f"commit {index + 1} of {count} went back from {before} to {after}, and none has reached {before} since"
    again = next(at for at in range(index, count) if window.commit(at).offset >= before)
    told = f"commit {index + 1} went back, but commit {again + 1} has reached {before:,} again"
    known = [(at, each.offset) for at, each in enumerate(window.commits) if each is not None and at >= index]
    later = next((at for (_, earlier), (at, offset) in pairwise(known) if offset < earlier), None)
    return False, told if later is None else f"{told}; commit {later + 1}, which went back too, is never looked at"


def caught_up_once(window: Window) -> Answer:
    """Somewhere in the window there was no lag."""
    lags = known_lags(window)
    if not is_lag_always_not_zero(window):
        at, lag = next((at, lag) for at, lag in lags if lag <= window.allowed_lag)
        return True, f"commit {at + 1} of {len(window.commits)} had a lag of {lag}, and up to {window.allowed_lag} counts as none"
    if not lags:
        return False, "no commit has a known lag"
    return False, f"the smallest known lag is {min(lag for _, lag in lags):,}, more than {window.allowed_lag:,}"


def stalled(window: Window) -> Answer:
    """The same offset is committed again and again."""
    if not is_stalled(window):
        offsets = [each.offset for each in window.commits if each is not None]
        return False, f"the commits differ, from {min(offsets):,} to {max(offsets):,}"
    count = len(window.commits)
    told = "the only commit is" if count == 1 else f"all {count} commits are"
    return True, f"{told} of offset {window.commit(-1).offset}, with a lag of {window.current_lag}"


def slow(window: Window) -> Answer:
    """The consumer moves, but never gets closer to the end."""
    lags = known_lags(window)
    if not is_lag_not_decreasing(window):
        at, lag, before = next((at, lag, before) for (_, before), (at, lag) in pairwise(lags) if lag < before)
        return False, f"at commit {at + 1} the lag shrank from {before:,} to {lag:,}"
    if not lags:
        count = len(window.commits)
        return True, f"none of the {count} commits has a known lag, so none is seen to shrink; it is {window.current_lag} now"
    return True, f"the lag never shrinks from one commit to the next: {lags[0][1]} at first, {lags[-1][1]} at last"


def behind_and_moving(window: Window) -> Answer:
    """Nothing else applies."""
    return True, f"there is a lag of {window.current_lag}, and it has shrunk within the window"


def known_lags(window: Window) -> list[tuple[int, int]]:
    """The lags that are known, each with the index of its commit."""
    return [(at, each.lag) for at, each in enumerate(window.commits) if each is not None and each.lag is not None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, its status, and what it says of a window."""

    name: str
    status: Status
    answer: Callable[[Window], Answer]


RULES = (
    Rule("no lag", Status.OK, no_lag),
    Rule("stopped", Status.STOP, stopped),
    Rule("rewound", Status.REWIND, rewound),
    Rule("caught up once", Status.OK, caught_up_once),
    Rule("stalled", Status.STALL, stalled),
    Rule("slow", Status.WARN, slow),
    Rule("behind and moving", Status.OK, behind_and_moving),
)  # the first that applies is the answer; the last one always does


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a window looks like: the status, the rule that gave it, and its sentence."""

    status: Status
    rule: str
    why: str

    def __str__(self) -> str:
        return f"{self.status.name}: {self.why}"


def calculate(window: Window) -> Judgement:
    """The first rule that applies. EmptyWindowError when a rule needs a commit from an empty slot."""
    answers = ((rule, *rule.answer(window)) for rule in RULES)
    return next(Judgement(rule.status, rule.name, why) for rule, applies, why in answers if applies)


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The judgement of one partition, with what it was judged by."""

    judgement: Judgement
    complete: float  # the share of slots that are filled, as a float32
    current_lag: int
    start: Commit | None = None  # the first commit of the window
    end: Commit | None = None  # the last one

    @property
    def status(self) -> Status:
        """The status alone."""
        return self.judgement.status

    def __str__(self) -> str:
        return f"{self.judgement} (window {self.complete:.0%} full)"


def trimmed(commits: Sequence[Commit | None]) -> Sequence[Commit | None]:
    """The window without its leading empty slots; of one that is all empty the last slot stays, as in Burrow."""
    filled = (index for index, each in enumerate(commits) if each is not None)
    return commits[next(filled, max(len(commits) - 1, 0)) :]


def evaluate(window: Window, minimum_complete: float = 0.0) -> PartitionStatus:
    """The judgement of one partition; OK unread while its share of filled slots is < minimum_complete.

    EmptyWindowError for a window of empty slots with lag above the allowed one.
    """
    if not window.commits:
        return PartitionStatus(
            Judgement(Status.OK, "no window", "there is no window to judge by"), 0.0, window.current_lag
        )
    commits = trimmed(window.commits)
    complete = float32(len(commits) / len(window.commits))
    if complete >= float32(minimum_complete):
        cut = Window(commits, window.log_ends, window.current_lag, window.now_s, window.allowed_lag)
        judgement = calculate(cut)
    else:
        why = (
            f"only {len(commits)} of {len(window.commits)} slots are filled, less than a share of {minimum_complete:g}"
        )
        judgement = Judgement(Status.OK, "incomplete", why)
    return PartitionStatus(judgement, complete, window.current_lag, commits[0], commits[-1])


def float32(value: float) -> float:
    """The nearest 32-bit number, which Burrow uses for shares."""
    (near,) = struct.unpack("f", struct.pack("f", value))
    return float(near)


def in_seconds(duration_ms: int) -> str:
    """A duration as people say it: 540 s, 540.001 s."""
    return f"{duration_ms / 1000:g} s" if abs(duration_ms) < 10**8 else f"{duration_ms // 1000} s"


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group is as healthy as its worst partition."""

    status: Status
    complete: float  # the share of partitions whose window is full, as a float32
    total_lag: int
    max_lag: tuple[str, int] | None  # the topic and partition with the largest lag
    partitions: Mapping[tuple[str, int], PartitionStatus]


NOT_FOUND = GroupStatus(Status.NOTFOUND, 1.0, 0, None, {})


def evaluate_group(windows: Mapping[tuple[str, int], Window] | None, minimum_complete: float = 0.0) -> GroupStatus:
    """The status of a group by the windows of its partitions; NOTFOUND for None."""
    if windows is None:
        return NOT_FOUND
    found = {where: evaluate(window, minimum_complete) for where, window in windows.items()}
    worst = max((each.status for each in found.values()), default=Status.OK)
    full = sum(each.complete == 1.0 for each in found.values())
    return GroupStatus(
        min(max(worst, Status.OK), Status.ERR),
        float32(full / len(found)) if found else 0.0,
        sum(each.current_lag for each in found.values()),
        max(found, key=lambda where: found[where].current_lag, default=None),
        found,
    )
