"""The producer's memory against a model that only adds up: who has what, who waits, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kitlib.errors import KnobError
from kitlib.more.client.buffer_pool import BUFFER_EXHAUSTED, Allocation, BufferPool

TOTAL, SIZE = 40, 10


def test_allocate_of_more_than_there_is_is_refused_at_once() -> None:
    """Waiting would never end."""
    with pytest.raises(KnobError, match="41 bytes are more than the whole pool of 40"):
        BufferPool(TOTAL).allocate(41, 1_000, 0)


class Memory(RuleBasedStateMachine):
    """Nothing is lost or made, and waiters go on in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BufferPool(TOTAL)
        self.held: list[Allocation] = []
        self.waiting: list[Allocation] = []
        self.now_ms = 0

    def look(self) -> None:
        """Move those that were granted; only a first part of the queue may have been."""
        over = [asked.is_over for asked in self.waiting]
        granted = [asked.is_granted for asked in self.waiting if asked.error is None]
        assert granted == sorted(granted, reverse=True), "somebody was overtaken"
        self.held += [asked for asked in self.waiting if asked.is_granted]
        self.waiting = [asked for asked, is_over in zip(self.waiting, over, strict=True) if not is_over]

    @rule(size=st.sampled_from([SIZE, SIZE, 1, 7, 25, TOTAL]), block_ms=st.sampled_from([0, 100, 1_000]))
    def ask(self, size: int, block_ms: int) -> None:
        fits = self.pool.available >= size
        asked = self.pool.allocate(size, block_ms, self.now_ms)
        assert asked.is_granted is fits
        (self.held if asked.is_granted else self.waiting).append(asked)
        self.look()

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 99))
    def give_back(self, which: int) -> None:
        self.pool.deallocate(self.held.pop(which % len(self.held)).size)
        self.look()

    @rule(ms=st.sampled_from([1, 100, 500]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        late = [asked for asked in self.waiting if asked.deadline_ms <= self.now_ms]
        assert self.pool.expire(self.now_ms) == late
        assert all(asked.error == BUFFER_EXHAUSTED for asked in late)
        self.look()

    @invariant()
    def every_byte_is_somewhere(self) -> None:
        held = sum(asked.size for asked in self.held)
        collected = sum(asked.accumulated for asked in self.waiting)
        assert held + collected + self.pool.available == TOTAL
        assert list(self.pool.waiters) == self.waiting

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        if self.waiting:
            first = self.waiting[0]
            assert self.pool.available < first.size - first.accumulated


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
