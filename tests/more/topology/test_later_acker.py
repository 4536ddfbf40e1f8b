"""The acker of Storm 2 beside its rules: three buckets, what renews, and the message for more time."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.mechanisms.acker import AckerEntry, Completion
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
