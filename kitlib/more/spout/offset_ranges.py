"""A sorted set of offsets for a ledger that is filled and emptied by whole ranges.

A batch of a million records is one range, and what fails in it are a few gaps. So the members are ascending,
disjoint ranges, and an operation costs what the number of ranges is, whatever lies in them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from kitlib.trace import from_ranges, to_ranges
from kitlib.words.word import Range


class OffsetRanges:
    """Distinct offsets with a smallest one; answers as an `OffsetSet`, and takes whole ranges as well.

    A range is [first, last], both inclusive; one with last < first holds nothing.
    """

    __slots__ = ("ranges",)

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self.ranges: list[Range] = to_ranges(set(offsets))  # ascending, disjoint, never touching

    def add(self, offset: int) -> None:
        """Make `offset` a member; nothing changes if it is one."""
        self.add_range(offset, offset)

    def discard(self, offset: int) -> None:
        """Take `offset` out; nothing changes if it is no member."""
        self.discard_range(offset, offset)

    def add_range(self, first: int, last: int) -> None:
        """Make first, ..., last members."""
        if last < first:
            return
        begin = bisect_left(self.ranges, first - 1, key=lambda found: found[1])
        end = bisect_right(self.ranges, last + 1, key=lambda found: found[0])
        met = self.ranges[begin:end]
        self.ranges[begin:end] = [[min(first, met[0][0]), max(last, met[-1][1])]] if met else [[first, last]]

    def discard_range(self, first: int, last: int) -> None:
        """Take first, ..., last out."""
        if last < first:
            return
        begin = bisect_left(self.ranges, first, key=lambda found: found[1])
        end = bisect_right(self.ranges, last, key=lambda found: found[0])
        met = self.ranges[begin:end]
        left = [[met[0][0], first - 1]] if met and met[0][0] < first else []
        right = [[last + 1, met[-1][1]]] if met and met[-1][1] > last else []
        self.ranges[begin:end] = left + right

    def count(self, first: int, last: int) -> int:
        """How many of first, ..., last are members."""
        begin = bisect_left(self.ranges, first, key=lambda found: found[1])
        end = bisect_right(self.ranges, last, key=lambda found: found[0])
        return sum(max(0, min(high, last) - max(low, first) + 1) for low, high in self.ranges[begin:end])

    def first(self) -> int:
        """The smallest member. KeyError when empty."""
        if not self.ranges:
            raise KeyError("first() of empty OffsetRanges")
        return self.ranges[0][0]

    def clear_below(self, bound: int) -> list[int]:
        """Remove every member < `bound`; those, ascending."""
        cleared = from_ranges([first, min(last, bound - 1)] for first, last in self.ranges if first < bound)
        if cleared:
            self.discard_range(cleared[0], bound - 1)
        return cleared

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        at = bisect_left(self.ranges, offset, key=lambda found: found[1])
        return at < len(self.ranges) and self.ranges[at][0] <= offset

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __iter__(self) -> Iterator[int]:
        return iter(from_ranges(self.ranges))

    def __repr__(self) -> str:
        return f"OffsetRanges({self.ranges})"
