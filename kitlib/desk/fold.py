"""What lies in a log of numbered records, folded run by run into a few numbers.

Each record of the desk holds one number in decimal: in the topic of the records the number that the producer gave it, in the topic
of the results the offset of the record that the bolt has worked through. A `LogFold` reads such a log once, in its order, and knows
at each moment which numbers are there, which lie there again, and which came behind a higher one.

It is used by the desk's own ledgers, record by record, and by Spark's streaming query, run by run. Numbers are kept as ranges: where
all goes well that is one range, and each gap makes one more. `tally_of` counts a whole log in another way, by sorting it: what
the two say of the same log must agree.

Left out: records of which the number cannot be read are counted, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kitlib.more.spout.offset_ranges import OffsetRanges
from kitlib.trace import to_ranges

MOST_DIGITS = 16  # of a number that a record may hold


def number_in(value: bytes | None) -> int | None:
    """The number that a record holds; None where it holds none."""
    return int(value) if value and value.isdigit() and len(value) <= MOST_DIGITS else None


@dataclass(frozen=True, slots=True)
class Tally:
    """What one witness says of one log, when all is over."""

    lines: int
    duplicated: int
    reordered: int
    missing: int
    gaps: tuple[tuple[int, int], ...] = ()  # the numbers that are missing: (first, last)

    @property
    def counts(self) -> dict[str, int]:
        """The four numbers by their names."""
        return {"lines": self.lines, "duplicated": self.duplicated, "reordered": self.reordered, "missing": self.missing}


@dataclass(slots=True)
class LogFold:
    """A log of numbers, read once from its start on."""

    lines: int = 0  # records read
    next_offset: int = 0  # of the next one
    highest: int = -1  # the highest number so far
    numbers: OffsetRanges = field(default_factory=OffsetRanges)  # those that are there
    duplicated: int = 0  # lines whose number was there before
    reordered: int = 0  # first copies behind a higher number

    def take(self, offset: int, first: int, count: int = 1) -> None:
        """The lines from `offset` on hold the numbers first, first + 1, ..."""
        last = first + count - 1
        again = self.numbers.count(first, last)
        self.lines += count
        self.next_offset = offset + count
        self.duplicated += again
        self.reordered += max(0, min(last, self.highest) - first + 1) - again
        self.highest = max(self.highest, last)
        self.numbers.add_range(first, last)

    def skip(self, offset: int) -> None:
        """The line at this offset holds no number."""
        self.lines += 1
        self.next_offset = offset + 1

    def missing(self, end: int) -> int:
        """How many of the numbers 0 to end - 1 are not there."""
        return end - self.numbers.count(0, end - 1)

    def tally(self, end: int) -> Tally:
        """What it says, where the numbers 0 to end - 1 should be there."""
        absent = OffsetRanges()
        absent.add_range(0, end - 1)
        for first, last in self.numbers.ranges:
            absent.discard_range(first, last)
        return Tally(self.lines, self.duplicated, self.reordered, len(absent), tuple((first, last) for first, last in absent.ranges))


def tally_of(numbers: NDArray[np.int64], end: int) -> Tally:
    """A whole log counted by sorting it; `numbers` are those of its lines in their order, -1 for a line that holds none."""
    told = numbers[numbers >= 0]
    _, firsts = np.unique(told, return_index=True)
    is_late = told[1:] < np.maximum.accumulate(told)[:-1]  # of each line but the first: a higher number lies before it
    late = int(np.isin(np.flatnonzero(is_late) + 1, firsts).sum())
    absent = np.setdiff1d(np.arange(end, dtype=np.int64), told).tolist()
    gaps = tuple((first, last) for first, last in to_ranges(absent))
    return Tally(len(numbers), len(told) - len(firsts), late, len(absent), gaps)
