"""The sorted set of offsets, against a plain sorted list, with its bounds on memory and cost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
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

    @rule(count=st.integers(1, 40))
    def add_rising(self, count: int) -> None:
        for offset in range(self.next_offset, self.next_offset + count):
            self.offsets.add(offset)
            self.plain.add(offset)
        self.next_offset += count

    @rule(offset=OFFSETS)
    def add_any(self, offset: int) -> None:
        self.offsets.add(offset)
        self.plain.add(offset)

    @rule(offset=OFFSETS)
    def discard_any(self, offset: int) -> None:
        self.offsets.discard(offset)
        self.plain.discard(offset)

    @precondition(lambda self: self.plain)
    @rule(data=st.data(), again=st.integers(0, 5))
    def discard_a_member_and_add_it_again(self, data: st.DataObject, again: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.plain)))
        for _ in range(again):
            self.offsets.discard(offset)
            self.offsets.add(offset)
        self.offsets.discard(offset)
        self.plain.discard(offset)

    @rule(bound=OFFSETS)
    def clear_below(self, bound: int) -> None:
        assert self.offsets.clear_below(bound) == sorted(offset for offset in self.plain if offset < bound)
        self.plain = {offset for offset in self.plain if offset >= bound}

    @rule()
    def discard_all_but_the_last(self) -> None:
        for offset in sorted(self.plain)[:-1]:
            self.offsets.discard(offset)
            self.plain.discard(offset)

    @invariant()
    def holds_the_same(self) -> None:
        assert list(self.offsets) == sorted(self.plain) and len(self.offsets) == len(self.plain)
        assert bool(self.offsets) is bool(self.plain)
        if self.plain:
            assert self.offsets.first() == min(self.plain)
        else:
            with pytest.raises(KeyError):
                self.offsets.first()

    @invariant()
    def queue_ascends(self) -> None:
        rising = list(self.offsets.rising)
        assert all(before < after for before, after in pairwise(rising))


class OffsetSetNeverAsked(OffsetSetBesideAPlainSet):
    """The same without asking for the smallest one, which would tidy up, so that only `add` bounds the memory."""

    @invariant()
    def holds_the_same(self) -> None:
        assert self.offsets.members == self.plain


OffsetSetBesideAPlainSet.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
OffsetSetNeverAsked.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestOffsetSetBesideAPlainSet = OffsetSetBesideAPlainSet.TestCase
TestOffsetSetNeverAsked = OffsetSetNeverAsked.TestCase


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["add", "discard"]), st.integers(0, 300)), max_size=1_500))
def test_add_after_any_discards_keeps_memory_bounded(operations: list[tuple[str, int]]) -> None:
    """After an add that changed something, queue and heap together hold at most 2 * members + 64 entries, one more while it joins."""
    offsets = OffsetSet()
    for what, offset in operations:
        is_new = offset not in offsets
        getattr(offsets, what)(offset)
        if what == "add" and is_new:
            assert len(offsets.rising) + len(offsets.strays) <= 2 * len(offsets) + 65


def test_add_and_discard_of_one_retry_a_million_times_keeps_memory_bounded() -> None:
    """One offset that fails for ever under a thousand pending ones costs no memory."""
    offsets = OffsetSet(range(1_000))
    for _ in range(100_000):
        offsets.discard(500)
        offsets.add(500)
    assert len(offsets.rising) + len(offsets.strays) <= 2 * len(offsets) + 65


class Counted(int):
    """An offset that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) < int(other)

    __hash__ = int.__hash__


@pytest.mark.parametrize("pending", [100, 10_000, 100_000])
def test_clear_below_costs_what_it_clears(pending: int) -> None:
    """Clearing ten offsets takes as many comparisons under a hundred pending ones as under a hundred thousand."""
    offsets = OffsetSet(map(Counted, range(pending)))
    Counted.comparisons = 0
    assert len(offsets.clear_below(Counted(10))) == 10
    assert Counted.comparisons <= 11
    assert offsets.first() == 10


def test_clear_below_returns_strays_in_their_place() -> None:
    """What was added late is cleared in order with the rest."""
    offsets = OffsetSet([10, 20, 30, 5, 15, 25])
    assert offsets.clear_below(26) == [5, 10, 15, 20, 25]
    assert list(offsets) == [30]


def test_first_of_an_empty_set_raises() -> None:
    """There is no smallest offset of none."""
    with pytest.raises(KeyError, match="empty"):
        OffsetSet().first()


def test_membership_and_repr_show_the_members_only() -> None:
    """What was discarded is not seen any more, wherever it may still lie."""
    offsets = OffsetSet([3, 1, 2])
    offsets.discard(3)
    assert 3 not in offsets and 1 in offsets
    assert repr(offsets) == "OffsetSet([1, 2])"
