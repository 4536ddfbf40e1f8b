"""The batch acker beside the plain one: the same completions in the same order, and the same ledger after each batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kitlib.errors import KitError
from kitlib.java.numbers import MAX_LONG, MIN_LONG
from kitlib.mechanisms.acker import ACKER_ACK_STREAM_ID, Acker, IdOutOfRangeError
from kitlib.pipelines import batch_acker
from kitlib.pipelines.batch_acker import ACK, CHUNK, FAIL, GATHER, HAS_VAL, INIT, KNOWN, BatchAcker, grouped

Message = tuple[int, int, int, int]  # kind, root, value, spout task
TICK = -1


def root_of(key: int) -> int:
    """The root whose sort key this is."""
    unsigned = key * int(GATHER) % 2**64
    return unsigned - 2**64 if unsigned > MAX_LONG else unsigned


# Roots whose sort keys differ only in the bits that a message's number takes the place of.
TWINS = [root_of((7 << 40) + low) for low in (0, 1, CHUNK - 1)]


class BothAckers:
    """A plain and a batch acker that are told the same."""

    def __init__(self, id_bits: int = 64) -> None:
        self.plain, self.batch = Acker(id_bits), BatchAcker(id_bits)

    def feed(self, messages: list[Message]) -> int:
        """Both answer alike and have the same ledger; how many trees ended."""
        expected = []
        for number, (kind, root, val, task) in enumerate(messages):
            if kind == INIT:
                ended = self.plain.init(root, val, task)
            else:
                ended = self.plain.ack(root, val) if kind == ACK else self.plain.fail(root)
            if ended:
                expected.append((number, ended.root, ended.spout_task, ended.stream == ACKER_ACK_STREAM_ID))
        columns = [list(column) for column in zip(*messages, strict=True)] or [[], [], [], []]
        got = self.batch.feed(*columns)
        rows = zip(got.message.tolist(), got.root.tolist(), got.spout_task.tolist(), got.acked.tolist(), strict=True)
        assert list(rows) == expected
        self.check()
        return len(expected)

    def tick(self) -> None:
        assert self.batch.tick() == len(self.plain.tick())
        self.check()

    def check(self) -> None:
        assert self.batch.buckets() == list(self.plain.pending.buckets)
        trees = self.batch.trees
        assert len(trees) == len(self.plain.pending) and trees.nbytes == 21 * len(trees)
        assert np.all(trees.key[1:] > trees.key[:-1])
        assert not trees.spout_task[(trees.flags & KNOWN) == 0].any() and not trees.val[(trees.flags & HAS_VAL) == 0].any()
        assert all(len(column) == len(trees) and column.base is None for column in trees.columns())


ROOTS = st.sampled_from([1, 2, 3, MIN_LONG, MAX_LONG, *TWINS])
VALUES = st.sampled_from([0, 1, 2, 3, 1, 2, 3, MIN_LONG, MAX_LONG, -1])
TASKS = st.sampled_from([0, 1, 2, -(2**31), 2**31 - 1])
MESSAGES = st.tuples(st.sampled_from([INIT, ACK, ACK, ACK, FAIL]), ROOTS, VALUES, TASKS)
BATCHES = st.lists(st.lists(MESSAGES, max_size=25) | st.just(TICK), max_size=12)


@settings(max_examples=400, deadline=None)
@given(BATCHES)
@example([[(FAIL, 1, 0, 0)], TICK, [(ACK, 1, 0, 0)], TICK, [(INIT, 1, 5, 9)]])
def test_batch_acker_told_anything_is_the_plain_acker(batches: list[Any]) -> None:
    """Few roots and few values, so that trees fail, cancel, end in the middle, begin again and are told of after their end."""
    both = BothAckers()
    for batch in batches:
        both.tick() if batch == TICK else both.feed(batch)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 4, 8, 64]), st.floats(0, 0.3))
def test_batch_acker_real_trees_with_faults_are_the_plain_ackers(seed: int, id_bits: int, trouble: float) -> None:
    """Whole trees whose messages are doubled, lost, failed and mixed, cut into batches anywhere, with ticks between them."""
    rng = random.Random(seed)
    both = BothAckers(id_bits)
    messages = list(mixed_trees(rng, 120, id_bits, trouble))
    ended = 0
    while messages:
        size = rng.choice([1, 2, 7, 60, 500])
        ended += both.feed(messages[:size])
        del messages[:size]
        if rng.random() < 0.1:
            both.tick()
    assert ended or trouble


def mixed_trees(rng: random.Random, count: int, id_bits: int, trouble: float) -> Iterator[Message]:
    """The messages of trees of one to five edges, those of up to twenty trees at a time in any order."""
    low = MIN_LONG if id_bits == 64 else 0
    waiting: list[Message] = []
    for root in range(count):
        edges = [rng.getrandbits(id_bits) + low for _ in range(rng.randint(1, 5))]
        vals = [edges[0], *(a ^ b for a, b in pairwise(edges)), edges[-1]]
        kinds = [INIT] + [ACK] * len(edges)
        told = [(kind, root - count // 2, val, rng.randint(0, 3)) for kind, val in zip(kinds, vals, strict=True)]
        if rng.random() < trouble:
            fault = rng.choice(["double", "lose", "fail", "again"])
            number = rng.randrange(len(told))
            if fault == "lose":
                del told[number]
            else:
                told.append(told[number] if fault == "double" else (FAIL, told[0][1], 0, 0) if fault == "fail" else told[0])
        waiting += told
        rng.shuffle(waiting)
        while len(waiting) > 60:
            yield waiting.pop()
    yield from waiting


# Messages of one batch -> (message, acked) of what they end. The rules as such are the plain acker's; these are cuts of theirs.
CASES: dict[str, tuple[list[Message], list[tuple[int, bool]]]] = {
    "a whole tree": ([(INIT, 1, 3, 5), (ACK, 1, 1, 0), (ACK, 1, 2, 0)], [(2, True)]),
    "the init comes last": ([(ACK, 1, 1, 0), (ACK, 1, 2, 0), (INIT, 1, 3, 5)], [(2, True)]),
    "zero before the init is no end": ([(ACK, 1, 1, 0), (ACK, 1, 1, 0), (INIT, 1, 3, 5)], []),
    "two trees in one another": ([(INIT, 1, 3, 5), (INIT, 2, 4, 6), (ACK, 2, 4, 0), (ACK, 1, 3, 0)], [(2, True), (3, True)]),
    "an id twice in a batch": ([(INIT, 1, 3, 5), (ACK, 1, 3, 0), (INIT, 1, 4, 5), (ACK, 1, 4, 0)], [(1, True), (3, True)]),
    "zero before failed": ([(ACK, 1, 3, 0), (FAIL, 1, 9, 9), (INIT, 1, 3, 5)], [(2, True)]),
    "a fail carries no value": ([(INIT, 1, 3, 5), (FAIL, 1, 3, 0)], [(1, False)]),
    "an ack after the end": ([(INIT, 1, 3, 5), (ACK, 1, 3, 0), (ACK, 1, 3, 0), (ACK, 1, 3, 0)], [(1, True)]),
    "an init of zero": ([(INIT, 1, 0, 5)], [(0, True)]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1, 2, 100], ids="batches of {}".format)
def test_feed_case_ends_what_it_should_however_it_is_cut(case: str, size: int) -> None:
    """The same trees end at the same messages, in one batch or in several."""
    messages, expected = CASES[case]
    batch, ended = BatchAcker(), []
    for first in range(0, len(messages), size):
        got = batch.feed(*zip(*messages[first : first + size], strict=True))
        ended += [(first + number, acked) for number, acked in zip(got.message.tolist(), got.acked.tolist(), strict=True)]
    assert ended == expected


def test_grouped_roots_that_share_their_high_bits_are_told_apart() -> None:
    """Messages whose roots differ only in the bits that a number takes the place of are in order by root and arrival all the same."""
    roots = [TWINS[number] for number in (2, 0, 1, 0, 2, 1)]
    told = grouped(np.array(roots))
    assert [roots[number] for number in told.order] == [root for root in TWINS for _ in range(2)]
    assert told.order.tolist() == [1, 3, 2, 5, 0, 4] and (told.start.tolist(), told.end.tolist()) == ([0, 2, 4], [1, 3, 5])


def test_feed_more_than_a_chunk_counts_messages_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of several chunks is one batch: the numbers of messages go on."""
    monkeypatch.setattr(batch_acker, "CHUNK", 8)
    both = BothAckers()
    assert both.feed(list(mixed_trees(random.Random(4), 40, 64, 0.2))) > 25


def test_feed_a_million_messages_is_the_plain_acker() -> None:
    """Beyond a chunk's size, with every hundredth tree in trouble."""
    both = BothAckers()
    assert both.feed(list(mixed_trees(random.Random(5), 100_000, 64, 0.01))) > 98_000


def test_feed_simple_trees_never_ask_the_plain_acker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the batch fast: trees without trouble are array operations only."""
    monkeypatch.setattr(BatchAcker, "play", lambda *_: pytest.fail("a simple tree was played message by message"))
    acker, messages = BatchAcker(), list(mixed_trees(random.Random(6), 500, 64, 0))
    for first in range(0, len(messages), 100):
        acker.feed(*zip(*messages[first : first + 100], strict=True))
    assert len(acker.trees) == 0


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        (([0], [1], [1], []), KitError, r"columns of \[1, 1, 1, 0\] messages"),
        (([3], [1], [1], [1]), KitError, r"kinds\[0\] is 3, expected 0 to 2"),
        (([0, -1], [1, 1], [1, 1], [1, 1]), KitError, r"kinds\[1\] is -1, expected 0 to 2"),
        (([0], [2**63], [1], [1]), IdOutOfRangeError, r"roots\[0\] is 9223372036854775808"),
        (([1], [1], [2**63], [1]), IdOutOfRangeError, r"vals\[0\] is 9223372036854775808"),
        (([0], [2**64], [1], [1]), KitError, "roots has the type object"),
        (([0], [1], [1], [2**31]), KitError, r"spout_tasks\[0\] is 2147483648"),
        (([0], [1.0], [1], [1]), KitError, "roots has the type float64"),
        (([0], ["1"], [1], [1]), KitError, "whole numbers"),
        (([True], [1], [1], [1]), KitError, "kinds has the type bool"),
        (([0], [[1]], [1], [1]), KitError, r"roots has the type int64 and the shape \(1, 1\)"),
        (([0, 0], [[1], [1, 2]], [1, 1], [1, 1]), KitError, "roots is no column of numbers"),
        (([0], 1, [1], [1]), KitError, r"the shape \(\)"),
        (([0], None, [1], [1]), KitError, "roots has the type object"),
    ],
)  # fmt: skip
def test_feed_column_of_another_kind_is_refused_and_changes_nothing(columns: Any, error: type[KitError], words: str) -> None:
    """A wrong column is named with its first wrong message and what it may be; no message of the batch has counted."""
    acker = BatchAcker()
    acker.feed([INIT], [7], [3], [1])
    with pytest.raises(error, match=words):
        acker.feed(*columns)
    assert list(acker.buckets()[0]) == [7]


def test_feed_value_beyond_the_ids_bits_is_refused() -> None:
    """Ids of 8 bits are 0 to 255, but for a fail, whose value does not matter."""
    acker = BatchAcker(8)
    with pytest.raises(IdOutOfRangeError, match=r"vals\[1\] is 256, expected 0 to 255"):
        acker.feed([INIT, ACK], [1, 1], [255, 256], [1, 1])
    assert acker.feed([INIT, FAIL], [1, 1], [255, 256], [1, 2**40]).acked.tolist() == [False]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, ">i4", ">u8"])
def test_feed_columns_of_any_whole_type_are_taken(dtype: Any) -> None:
    """Whatever the width, the sign and the order of the bytes; a column may also be every second number of another."""
    columns = [np.array([given, [99, 99]], dtype).T.reshape(-1)[::2] for given in ([INIT, ACK], [7, 7], [3, 3], [1, 0])]
    assert BatchAcker().feed(*columns).root.tolist() == [7]
