"""What lies in a log of numbered records, folded run by run into a few numbers that stay small for ever.

Each record of the desk holds one number in decimal: in the topic of the records the number that the producer gave it, in the topic
of the results the offset of the record that the bolt has worked through. A `LogFold` reads such a log once, in its order, and knows
at each moment which numbers are there, which lie there again, and which came behind a higher one.

It is used by the desk's own ledgers, record by record, and by Spark's streaming query, run by run. Its state does not grow with the
records: numbers are kept as ranges, and where all goes well that is one range. A gap is kept for as long as it may still be filled;
of more than `MOST_RANGES` gaps the oldest count as missing for good. `tally_of` counts a whole log in another way, by sorting it: what
the two say of the same log must agree.

Left out: records of which the number cannot be read are counted, and nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kitlib.words.word import Range

MOST_RANGES = 5_000  # of the numbers that are there; beyond it the oldest gaps are closed
WRAP = 2**64  # of a sum of numbers


@dataclass(slots=True)
class LogFold:
    """A log of numbers, read once from its start on."""

    lines: int = 0  # records read
    next_offset: int = 0  # of the next one
    highest: int = -1  # the highest number so far
    seen: list[Range] = field(default_factory=list)  # the numbers that are there: ascending, disjoint, not adjoining
    duplicated: int = 0  # lines whose number was there before
    reordered: int = 0  # first copies behind a higher number
    first_sum: int = 0  # of the numbers that are there, each once
    again_sum: int = 0  # of the numbers of second copies
    closed_to: int = 0  # numbers below it are not told apart any more: what was missing is missing for good
    missing_for_good: int = 0  # numbers < closed_to that are not there

    def take(self, offset: int, first: int, count: int = 1) -> None:
        """The lines from `offset` on hold the numbers first, first + 1, ..."""
        last = first + count - 1
        self.lines += count
        self.next_offset = offset + count
        for low, high, is_there in self._parts(first, last):
            if is_there:
                self.duplicated += high - low + 1
                self.again_sum += _sum(low, high)
            else:
                self.first_sum += _sum(low, high)
                self.reordered += max(0, min(high, self.highest) - low + 1)
        self.highest = max(self.highest, last)
        self._add(first, last)

    def skip(self, offset: int) -> None:
        """The line at this offset holds no number."""
        self.lines += 1
        self.next_offset = offset + 1

    def missing(self, end: int) -> int:
        """How many of the numbers 0 to end - 1 are not there."""
        if end <= self.closed_to:
            return self.missing_for_good
        there = sum(min(last, end - 1) - first + 1 for first, last in self.seen if first < end)
        return self.missing_for_good + end - self.closed_to - there

    def _parts(self, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
        """The range cut where what is there begins and ends: (first, last, whether it is there)."""
        at = first
        if at < self.closed_to:  # these cannot be told apart any more, and nearly all of them are there
            yield at, min(last, self.closed_to - 1), True
            at = self.closed_to
        index = bisect_left(self.seen, at, key=lambda found: found[1])
        while at <= last:
            low, high = self.seen[index] if index < len(self.seen) else (last + 1, last + 1)
            if low > at:
                yield at, min(last, low - 1), False
                at = low
            if at <= last:
                yield at, min(last, high), True
                at = high + 1
            index += 1

    def _add(self, first: int, last: int) -> None:
        """Join the range to those that are there."""
        first = max(first, self.closed_to)
        if first > last:
            return
        seen = self.seen
        begin = bisect_left(seen, first - 1, key=lambda found: found[1])
        end = begin
        while end < len(seen) and seen[end][0] <= last + 1:
            first, last = min(first, seen[end][0]), max(last, seen[end][1])
            end += 1
        seen[begin:end] = [[first, last]]
        while len(seen) > MOST_RANGES:
            self.missing_for_good += seen[0][0] - self.closed_to
            self.closed_to = seen.pop(0)[1] + 1


def _sum(first: int, last: int) -> int:
    """Of the numbers first, first + 1, ... last."""
    return (first + last) * (last - first + 1) // 2


@dataclass(frozen=True, slots=True)
class Tally:
    """What one witness says of one log, when all is over."""

    lines: int
    duplicated: int
    reordered: int
    missing: int
    sums: tuple[int, int]  # of the numbers that are there, and of those of second copies, modulo WRAP: they tell other records apart
    gaps: tuple[tuple[int, int], ...] = field(default=(), compare=False)  # the numbers that are missing, where the whole log was counted

    @classmethod
    def of(cls, fold: LogFold, end: int) -> Self:
        """What a fold says, where the numbers 0 to end - 1 should be there."""
        sums = fold.first_sum % WRAP, fold.again_sum % WRAP
        return cls(fold.lines, fold.duplicated, fold.reordered, fold.missing(end), sums)

    @property
    def counts(self) -> dict[str, int]:
        """The four numbers by their names."""
        return {"lines": self.lines, "duplicated": self.duplicated, "reordered": self.reordered, "missing": self.missing}


def tally_of(numbers: NDArray[np.int64], end: int) -> Tally:
    """A whole log counted by sorting it; `numbers` are those of its lines in their order, -1 for a line that holds none."""
    told = numbers[numbers >= 0]
    _, firsts = np.unique(told, return_index=True)
    is_first = np.zeros(len(told), bool)
    is_first[firsts] = True
    before = np.maximum.accumulate(np.concatenate([[np.int64(-1)], told]))[:-1] if len(told) else told
    absent = np.setdiff1d(np.arange(end, dtype=np.int64), told)
    sums = int(told[is_first].astype(np.uint64).sum()), int(told[~is_first].astype(np.uint64).sum())
    late = int((is_first & (told < before)).sum())
    return Tally(len(numbers), int((~is_first).sum()), late, len(absent), sums, runs_of(absent))


def runs_of(numbers: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Numbers in their order as runs in which each is one more than the one before."""
    if not len(numbers):
        return ()
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    begins = np.concatenate([[0], breaks + 1])
    ends = np.concatenate([breaks, [len(numbers) - 1]])
    return tuple((int(numbers[begin]), int(numbers[end])) for begin, end in zip(begins, ends, strict=True))
