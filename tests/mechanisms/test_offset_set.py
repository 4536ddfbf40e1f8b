"""The sorted set of offsets, against a plain sorted list, with its bounds on memory and cost."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kitlib.mechanisms.offset_set import OffsetSet

OFFSETS = st.integers(-5, 60) | st.integers(-(2**63), 2**63 - 1)


class OffsetSetBesideAPlainSet(RuleBasedStateMachine):
    """The same operations on an OffsetSet and on a plain set that is sorted whenever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = OffsetSet()
        self.plain: set[int] = set()
        self.next_offset = 0

    def add(self, offset: int) -> None:
        is_new = offset not in self.plain
        self.offsets.add(offset)
        self.plain.add(offset)
        assert not is_new or len(self.offsets.rising) + len(self.offsets.strays) <= 2 * len(self.plain) + 65

    @rule(count=st.integers(1, 40))
    def add_rising(self, count: int) -> None:
        for offset in range(self.next_offset, self.next_offset + count):
            self.add(offset)
        self.next_offset += count

    @rule(offset=OFFSETS)
    def add_any(self, offset: int) -> None:
        self.add(offset)

    @rule(offset=OFFSETS)
    def discard_any(self, offset: int) -> None:
        self.offsets.discard(offset)
        self.plain.discard(offset)

    @precondition(lambda self: self.plain)
    @rule(data=st.data(), again=st.integers(0, 100))
    def discard_a_member_and_add_it_again(self, data: st.DataObject, again: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.plain)))
        for _ in range(again):
            self.discard_any(offset)
            self.add(offset)
        self.discard_any(offset)

    @rule(bound=OFFSETS)
    def clear_below(self, bound: int) -> None:
        assert self.offsets.clear_below(bound) == sorted(offset for offset in self.plain if offset < bound)
        self.plain = {offset for offset in self.plain if offset >= bound}

    @rule()
    def discard_all_but_the_last(self) -> None:
        for offset in sorted(self.plain)[:-1]:
            self.discard_any(offset)

    @invariant()
    def holds_the_same(self) -> None:
        assert list(self.offsets) == sorted(self.plain) and len(self.offsets) == len(self.plain)
        assert bool(self.offsets) is bool(self.plain) and repr(self.offsets) == f"OffsetSet({sorted(self.plain)})"

    @rule()
    def ask_for_the_first(self) -> None:  # which tidies up: so it is no invariant
        if self.plain:
            assert self.offsets.first() == min(self.plain) and min(self.plain) in self.offsets
        else:
            with pytest.raises(KeyError, match="empty"):
                self.offsets.first()


OffsetSetBesideAPlainSet.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestOffsetSetBesideAPlainSet = OffsetSetBesideAPlainSet.TestCase


class Counted(int):
    """An offset that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) < int(other)

    __hash__ = int.__hash__


def test_clear_below_costs_what_it_clears() -> None:
    """Clearing ten offsets takes eleven comparisons under a hundred thousand pending ones."""
    offsets = OffsetSet(map(Counted, range(100_000)))
    Counted.comparisons = 0
    assert len(offsets.clear_below(Counted(10))) == 10 and Counted.comparisons <= 11
