"""How fast the acker is, message by message and in batches, and how much memory an open tree takes.

The load: as many trees are always open, each of one init and three acks. In every turn one tree begins,
two others move on and one more ends, so the messages of a tree lie far apart and are always mixed with
those of others. Both ackers are given the same messages, in turn.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kitlib.bench.figures import Figure, paired, seconds
from kitlib.errors import KitError
from kitlib.java.numbers import MAX_LONG, MIN_LONG
from kitlib.pipelines.batch_acker import ACK, CHUNK, FAIL, INIT, BatchAcker
from kitlib.storm.acker import Acker

OPEN, MANY_OPEN = 50_000, 1_000_000  # trees that are open all the time
TURNS = CHUNK  # of each measurement; a turn is four messages and the end of a tree
SMALL_BATCH = 1 << 14
EVERY_FAILING = 100  # one tree of so many fails, where trees fail

Columns = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Load:
    """Trees, one begun each turn, and the messages of all turns."""

    open_trees: int
    root: NDArray[np.int64]  # of each tree
    edges: NDArray[np.int64]  # three of each tree: a chain of three bolts

    @classmethod
    def of(cls, open_trees: int, turns: int) -> Load:
        """Trees for the turns that fill the acker and for `turns` more."""
        rng = np.random.default_rng(4)
        count = open_trees + turns
        return cls(open_trees, longs(rng, count), longs(rng, 3, count))

    def messages(self, first: int, end: int, every_failing: int = 0) -> Columns:
        """The messages of turns `first` to `end`; with every_failing > 0 some trees' second ack is a fail."""
        turns = np.arange(first, end)
        one, two, three = self.edges
        lags = (0, self.open_trees // 2, self.open_trees * 3 // 4, self.open_trees)
        tree = np.stack([turns - lag for lag in lags], axis=1).reshape(-1)
        which = np.tile(np.arange(4), len(turns))
        val = np.stack([one, one ^ two, two ^ three, three])[which, tree]
        kind = np.where(which == 0, INIT, ACK)
        if every_failing:
            kind[(which == 2) & (tree % every_failing == 0)] = FAIL
        there = tree >= 0
        columns = kind.astype(np.uint8), self.root[tree], val, np.ones(len(tree), np.int32)
        return tuple(column[there] for column in columns)  # type: ignore[return-value]

    def filled(self) -> BatchAcker:
        """A batch acker in which as many trees are open as always."""
        acker = BatchAcker()
        feed(acker, self.messages(0, self.open_trees), CHUNK)
        return acker


def longs(rng: np.random.Generator, *shape: int) -> NDArray[np.int64]:
    """Random 64-bit ids."""
    return rng.integers(MIN_LONG, MAX_LONG, shape, np.int64, endpoint=True)


def feed(acker: BatchAcker, columns: Columns, batch: int) -> int:
    """Feed all messages in batches of so many; the number of trees that ended."""
    ended = 0
    for first in range(0, len(columns[0]), batch):
        ended += len(acker.feed(*(column[first : first + batch] for column in columns)))
    return ended


def play(acker: Acker, rows: list[tuple[int, int, int, int]]) -> int:
    """Tell the plain acker message by message; the number of trees that ended."""
    init, ack = acker.init, acker.ack
    ended = 0
    for kind, root, val, spout_task in rows:
        completion = init(root, val, spout_task) if kind == INIT else ack(root, val)
        if completion is not None:
            ended += 1
    return ended


def rows_of(columns: Columns) -> list[tuple[int, int, int, int]]:
    """The messages as plain integers."""
    return list(zip(*(column.tolist() for column in columns), strict=True))


def timed(work: Callable[[], int], expected: int) -> float:
    """The seconds that `work` takes; KitError unless it ended as many trees as it should."""
    found: list[int] = []
    taken = seconds(lambda: found.append(work()))
    if found != [expected]:
        raise KitError(f"bench of the acker: {found[0]:,} trees ended, expected {expected:,}. Run the acker's tests.")
    return taken


def plain_seconds(filling: list[Any], rows: list[Any], turns: int) -> float:
    """Seconds a turn of the plain acker, once it is filled."""
    acker = Acker()
    play(acker, filling)
    return timed(lambda: play(acker, rows), turns) / turns


def batch_seconds(load: Load, columns: Columns, turns: int, batch: int = CHUNK, more: int = 0) -> float:
    """Seconds a turn of the batch acker, once it is filled; `more` trees end than there are turns."""
    acker = load.filled()
    return timed(lambda: feed(acker, columns, batch), turns + more) / turns


def bytes_per_tree(open_trees: int) -> float:
    """Bytes that a batch acker keeps for each open tree, all that belongs to it included, after a batch in the middle of a run."""
    load = Load.of(open_trees, CHUNK // 4)
    filling, columns = load.messages(0, open_trees), load.messages(open_trees, open_trees + CHUNK // 4)
    gc.collect()
    tracemalloc.start()
    acker = BatchAcker()
    feed(acker, filling, CHUNK)
    feed(acker, columns, CHUNK)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(acker.trees)


def speeds(rounds: int) -> dict[str, float]:
    """Seconds a turn, by what is measured."""
    load, large = Load.of(OPEN, TURNS), Load.of(MANY_OPEN, TURNS)
    columns, failing = load.messages(OPEN, OPEN + TURNS), load.messages(OPEN, OPEN + TURNS, EVERY_FAILING)
    many = large.messages(MANY_OPEN, MANY_OPEN + TURNS)
    filling, rows = rows_of(load.messages(0, OPEN)), rows_of(columns)
    sooner = OPEN // 4 // EVERY_FAILING  # a tree that fails does so a quarter of its life before it would have ended
    gc.collect()
    gc.freeze()  # the messages are no garbage; do not look at them again
    try:
        return paired(
            {
                "plain": lambda: plain_seconds(filling, rows, TURNS),
                "batch": lambda: batch_seconds(load, columns, TURNS),
                "small": lambda: batch_seconds(load, columns, TURNS, SMALL_BATCH),
                "failing": lambda: batch_seconds(load, failing, TURNS, more=sooner),
                "many": lambda: batch_seconds(large, many, TURNS),
            },
            rounds,
        )
    finally:
        gc.unfreeze()


def measure(rounds: int = 5, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The acker's figures; takes about half a minute."""
    say("messages and trees a second")
    cost = speeds(rounds)
    say("memory")
    memory = {open_trees: bytes_per_tree(open_trees) for open_trees in (OPEN, MANY_OPEN)}
    few, many = f"{OPEN:,} open trees", f"{MANY_OPEN:,} open trees"
    return [
        Figure(f"Acker, {few}", 4 / cost["plain"], "messages/s", 250_000),
        Figure(f"BatchAcker, {few}", 1 / cost["batch"], "trees/s", 1_500_000),
        Figure("BatchAcker to Acker, the same messages", cost["plain"] / cost["batch"], "times"),
        Figure(f"BatchAcker, {few}, batches of {SMALL_BATCH:,}", 1 / cost["small"], "trees/s"),
        Figure(f"BatchAcker, {few}, 1 of {EVERY_FAILING} fails", 1 / cost["failing"], "trees/s"),
        Figure(f"BatchAcker, {many}", 1 / cost["many"], "trees/s"),
        Figure(f"BatchAcker, memory of each of {few}", memory[OPEN], "bytes", 24, at_most=True),
        Figure(f"BatchAcker, memory of each of {many}", memory[MANY_OPEN], "bytes", 24, at_most=True),
    ]
