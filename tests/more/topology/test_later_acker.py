"""The acker of Storm 2 beside its rules: three buckets, what renews, and the message for more time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.mechanisms.acker import Acker, AckerEntry, Completion, IdOutOfRangeError
from kitlib.more.topology.later_acker import LaterAcker

ACK, FAIL, RESET = "__ack_ack", "__ack_fail", "__ack_reset_timeout"


class AckerOfTheBook:
    """Storm 2.4.0's acker written down once more, flat: one dict of roots, each with the number of ticks it has left."""

    def __init__(self) -> None:
        self.val: dict[int, int] = {}
        self.task: dict[int, int] = {}
        self.failed: set[int] = set()
        self.left: dict[int, int] = {}

    def tell(self, what: str, root: int = 0, val: int = 0, task: int = 0) -> tuple[int, str, int] | None:
        if what == "tick":
            self.left = {root: left - 1 for root, left in self.left.items()}
            for gone in [root for root, left in self.left.items() if left == 0]:
                self.forget(gone)
            return None
        if root not in self.left or what in ("fail", "reset_timeout"):
            self.left[root] = 3
        self.val[root] = self.val.get(root, 0) ^ val
        if what == "init":
            self.task[root] = task
        if what == "fail":
            self.failed.add(root)
        if root not in self.task:
            return None
        spout_task = self.task[root]
        if self.val[root] == 0 or root in self.failed:
            stream = ACK if self.val[root] == 0 else FAIL
            self.forget(root)
            return (spout_task, stream, root)
        return (spout_task, RESET, root) if what == "reset_timeout" else None

    def forget(self, root: int) -> None:
        for known in (self.val, self.task, self.left):
            known.pop(root, None)
        self.failed.discard(root)


ROOTS, VALUES = st.integers(0, 2), st.integers(0, 3)
MESSAGES = st.one_of(
    st.tuples(st.just("init"), ROOTS, VALUES, st.integers(0, 2)),
    st.tuples(st.just("ack"), ROOTS, VALUES),
    st.tuples(st.sampled_from(["fail", "reset_timeout"]), ROOTS),
    st.just(("tick",)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, max_size=60))
def test_later_acker_answers_as_the_book_says(messages: list[tuple[Any, ...]]) -> None:
    """Whatever comes in whatever order: the same messages out, the same trees open, with the same time to live."""
    acker, book = LaterAcker(), AckerOfTheBook()
    for what, *given_values in messages:
        answer = getattr(acker, what)(*given_values)
        told = (answer.spout_task, answer.stream, answer.root) if isinstance(answer, Completion) else None
        assert told == book.tell(what, *given_values)
        assert {root: 3 - age for age, bucket in enumerate(acker.pending.buckets) for root in bucket} == book.left
        for root in acker.pending:
            entry = acker.pending.get(root) or AckerEntry()
            assert (entry.val or 0, entry.spout_task, entry.failed) == (book.val[root], book.task.get(root), root in book.failed)


# What is done between the second tick and the third -> whether the tree outlives the third.
RENEWS = {"ack": (("ack", 7, 2), False), "second init": (("init", 7, 2, 1), False), "reset_timeout": (("reset_timeout", 7), True)}


@pytest.mark.parametrize("case", RENEWS)
def test_later_acker_third_tick_drops_what_only_reset_timeout_renews(case: str) -> None:
    """A plain message does not make a tree younger, as it does in 0.9.3; a request for more time does."""
    (what, *given_values), lives = RENEWS[case]
    acker = LaterAcker()
    acker.init(7, 1, 1)
    acker.tick()
    acker.tick()
    getattr(acker, what)(*given_values)
    assert (7 not in acker.tick()) is lives and (7 in acker.pending) is lives


def test_later_acker_fail_before_the_init_renews() -> None:
    """A fail of a tree whose spout task is not known yet puts the entry into the newest bucket."""
    acker = LaterAcker()
    acker.ack(7, 1)
    acker.tick()
    acker.tick()
    acker.fail(7)
    assert acker.tick() == {} and acker.init(7, 2, 1) == Completion(1, FAIL, 7)


def test_later_acker_lives_one_tick_longer_than_the_earlier() -> None:
    """The same silence of two ticks loses the tree in 0.9.3 and not in 2.4.0."""
    answers = []
    for acker in (Acker(), LaterAcker()):
        acker.init(7, 1, 1)
        acker.tick()
        acker.tick()
        answers.append(acker.ack(7, 1))
    assert answers == [None, Completion(1, ACK, 7)]


def test_later_acker_reset_timeout_is_passed_on_to_the_spout_that_waits() -> None:
    """The message goes on to the spout task, and is kept as an entry while no task is known."""
    acker = LaterAcker()
    assert acker.reset_timeout(7) is None and 7 in acker.pending
    assert acker.init(7, 1, 4) is None
    assert acker.reset_timeout(7) == Completion(4, RESET, 7)
    assert acker.ack(7, 1) == Completion(4, ACK, 7) and len(acker.pending) == 0


def test_later_acker_id_beyond_its_bits_changes_nothing() -> None:
    """The bounds are those of the acker."""
    acker = LaterAcker(8)
    with pytest.raises(IdOutOfRangeError, match="expected 0 to 255"):
        acker.ack(7, 256)
    with pytest.raises(IdOutOfRangeError, match="the root id"):
        acker.reset_timeout(2**63)
    assert len(acker.pending) == 0
