"""A sorted set of offsets for a spout's ledgers: the smallest one at hand, whatever the size.

A spout adds offsets almost always in rising order, removes them in any order and asks for the
smallest one at every ack. So the members are a plain set; rising offsets also join a queue, strays
(a retry, a position that moved back) a heap. Removing touches the set alone: entries of queue and
heap whose offset is no longer a member are dropped when they come to the front. Every operation
costs the same at a hundred and at a million members; what an operation clears it pays for once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush


class OffsetSet:
    """Distinct offsets with a smallest one. As `java.util.TreeSet<Long>` where Storm uses it.

    Source: the JDK's TreeSet: add, remove, first, headSet(x).clear().
    Differs: `clear_below` returns what it cleared.
    """

    __slots__ = ("members", "rising", "strays")

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self.members: set[int] = set()  # the truth; the two below may hold former members too
        self.rising: deque[int] = deque()  # strictly ascending
        self.strays: list[int] = []  # a heap
        for offset in offsets:
            self.add(offset)

    def add(self, offset: int) -> None:
        """Make `offset` a member; nothing changes if it is one."""
        members = self.members
        if offset in members:
            return
        members.add(offset)
        rising = self.rising
        if not rising or offset > rising[-1]:
            rising.append(offset)
        else:
            heappush(self.strays, offset)
        if len(rising) + len(self.strays) > 2 * len(members) + 64:
            self._forget_former_members()

    def discard(self, offset: int) -> None:
        """Take `offset` out; nothing changes if it is no member."""
        self.members.discard(offset)

    def first(self) -> int:
        """The smallest member. KeyError when empty."""
        members, rising, strays = self.members, self.rising, self.strays
        if not members:
            raise KeyError("first() of an empty OffsetSet")
        while rising and rising[0] not in members:
            rising.popleft()
        while strays and strays[0] not in members:
            heappop(strays)
        if strays and (not rising or strays[0] < rising[0]):
            return strays[0]
        return rising[0]

    def clear_below(self, bound: int) -> list[int]:
        """Remove every member < `bound`; those, ascending. Costs what it removes."""
        members, rising, strays = self.members, self.rising, self.strays
        cleared = []
        while rising and rising[0] < bound:
            offset = rising.popleft()
            if offset in members:
                members.remove(offset)
                cleared.append(offset)
        in_order = len(cleared)
        while strays and strays[0] < bound:
            offset = heappop(strays)
            if offset in members:
                members.remove(offset)
                cleared.append(offset)
        if len(cleared) > in_order:
            cleared.sort()
        return cleared

    def _forget_former_members(self) -> None:
        self.rising = deque(sorted(self.members))
        self.strays = []

    def __contains__(self, offset: object) -> bool:
        return offset in self.members

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.members))

    def __repr__(self) -> str:
        return f"OffsetSet({sorted(self.members)})"
