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

    @property
    def offsets(self) -> list[int]:
        """The offsets of all its commits. EmptyWindowError as above."""
        return [self.commit(index).offset for index in range(len(self.commits))]


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


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, its status, and what it says when it applies (None when it does not)."""

    name: str
    status: Status
    why: Callable[[Window], str | None]


def why_no_lag(window: Window) -> str | None:
    """There is no lag now, so nothing can be wrong now."""
    if window.current_lag > window.allowed_lag:
        return None
    return f"the lag is {window.current_lag}, and up to {window.allowed_lag} counts as none"


def why_stopped(window: Window) -> str | None:
    """Commits have stopped, and the consumer had not just caught up."""
    if not has_stopped(window) or was_caught_up_lately(window):
        return None
    silence_ms, span_ms = silence_and_span_ms(window)
    return (
        f"the last commit is {in_seconds(silence_ms)} old, which is longer than the {in_seconds(span_ms)} that the window "
        f"spans, with a lag of {window.current_lag}"
    )


def why_rewound(window: Window) -> str | None:
    """Commits went back, and have not reached the old offset again."""
    index = rewind_index(window)
    if index is None or has_recovered(window, index):
        return None
    before, after = window.commit(index - 1).offset, window.commit(index).offset
    return f"commit {index + 1} of {len(window.commits)} went back from {before} to {after}, and none has reached {before} since"


def why_caught_up_once(window: Window) -> str | None:
    """Somewhere in the window there was no lag."""
    if is_lag_always_not_zero(window):
        return None
    lags = [(index, each.lag) for index, each in enumerate(window.commits) if each is not None]
    index, lag = next((index, lag) for index, lag in lags if lag is not None and lag <= window.allowed_lag)
    return (
        f"commit {index + 1} of {len(window.commits)} had a lag of {lag}, and up to {window.allowed_lag} counts as none"
    )


def why_stalled(window: Window) -> str | None:
    """The same offset is committed again and again."""
    if not is_stalled(window):
        return None
    count = len(window.commits)
    told = "the only commit is" if count == 1 else f"all {count} commits are"
    return f"{told} of offset {window.commit(-1).offset}, with a lag of {window.current_lag}"


def why_slow(window: Window) -> str | None:
    """The consumer moves, but never gets closer to the end."""
    if not is_lag_not_decreasing(window):
        return None
    lags = [each.lag for each in window.commits if each is not None and each.lag is not None]
    if not lags:
        return f"none of the {len(window.commits)} commits has a known lag, so none is seen to shrink; it is {window.current_lag} now"
    return f"the lag never shrinks from one commit to the next: {lags[0]} at first, {lags[-1]} at last"


def why_fine(window: Window) -> str | None:
    """Nothing else applies."""
    return f"there is a lag of {window.current_lag}, and it has shrunk within the window"


RULES = (
    Rule("no lag", Status.OK, why_no_lag),
    Rule("stopped", Status.STOP, why_stopped),
    Rule("rewound", Status.REWIND, why_rewound),
    Rule("caught up once", Status.OK, why_caught_up_once),
    Rule("stalled", Status.STALL, why_stalled),
    Rule("slow", Status.WARN, why_slow),
    Rule("behind and moving", Status.OK, why_fine),
)  # the first that applies is the answer


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a window looks like: the status, the rule that gave it, and its sentence."""

    status: Status
    rule: str
    why: str

    def __str__(self) -> str:
        return f"{self.status.name}: {self.why}"


def calculate(window: Window, rules: Sequence[Rule] = RULES) -> Judgement:
    """The first rule that applies. EmptyWindowError when a rule needs a commit from an empty slot."""
    for rule in rules:
        why = rule.why(window)
        if why is not None:
            return Judgement(rule.status, rule.name, why)
    return Judgement(Status.OK, "none", "no rule applies")


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
