"""The lag windows of many groups' partitions as arrays: a batch of commits moves all of them on at once.

Row `i` is the window of one group's partition, its newest commit in the last slot. Commits come in the order
of the log, so each is an append, or is merged into the slot before it, and never an insertion. Memory: five
numbers a slot, whatever the history.

Source: `kitlib.monitor.lag_window.CommitRing`, whose windows these are. Differs: nothing is inserted late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kitlib.monitor.lag import Commit

Longs = NDArray[np.int64]

OFFSET, TIMESTAMP, LAG, ORDER, OBSERVED = range(5)
FIELDS = 5
LEAST_ROWS = 64


def empty_slots(rows: int, intervals: int) -> Longs:
    """Slots for so many rows: row, field, slot."""
    return np.zeros((rows, FIELDS, intervals), np.int64)


@dataclass(slots=True)
class LagRings:
    """All windows. `filled[i]` slots of row i, the last ones, hold a commit."""

    intervals: int = 10
    min_distance_ms: int = 0
    slots: Longs = field(init=False)
    filled: Longs = field(init=False)

    def __post_init__(self) -> None:
        self.slots = empty_slots(0, self.intervals)
        self.filled = np.zeros(0, np.int64)

    def grow(self, rows: int) -> None:
        """Make room for so many rows; there may be more already."""
        have = len(self.filled)
        if rows > have:
            more = max(rows, 2 * have, LEAST_ROWS) - have
            self.slots = np.concatenate([self.slots, empty_slots(more, self.intervals)])
            self.filled = np.concatenate([self.filled, np.zeros(more, np.int64)])

    def commits(self, row: int) -> tuple[Commit | None, ...]:
        """The window of one row, oldest first."""
        empty = self.intervals - int(self.filled[row])
        found = self.slots[row, :, empty:].T.tolist()
        commits = (Commit(offset, at_ms, lag, order, observed) for offset, at_ms, lag, order, observed in found)
        return (*(None,) * empty, *commits)

    def add(self, rows: Longs, commits: Longs) -> None:
        """Commits (one a line, its FIELDS beside each other) for these rows: sorted by row, each row's in the order of the log."""
        if not rows.size:
            return
        rows, commits = self._merged(rows, commits)
        if not rows.size:
            return
        begins = starts_of(rows)
        touched, counts = rows[begins], np.diff(begins, append=len(rows))
        from_end = np.repeat(begins + counts, counts) - 1 - np.arange(len(rows))
        moved = np.minimum(counts, self.intervals)
        places = np.arange(self.intervals) + moved[:, None]
        kept = np.minimum(places, self.intervals - 1)[:, None, :].repeat(FIELDS, axis=1)
        self.slots[touched] = np.take_along_axis(self.slots[touched], kept, axis=2)
        is_new = from_end < self.intervals
        self.slots[rows[is_new], :, self.intervals - 1 - from_end[is_new]] = commits[is_new]
        self.filled[touched] = np.minimum(self.intervals, self.filled[touched] + counts)

    def _merged(self, rows: Longs, commits: Longs) -> tuple[Longs, Longs]:
        """Without those that follow the one before them too soon: they take its slot, and its time."""
        at_ms = commits[:, TIMESTAMP]
        begins = starts_of(rows)
        before = np.empty(len(rows), np.int64)
        before[1:] = at_ms[:-1]
        first = rows[begins]
        has_before = self.filled[first] > 0
        before[begins] = np.where(has_before, self.slots[first, TIMESTAMP, -1], at_ms[begins] - self.min_distance_ms)
        too_soon = at_ms - before < self.min_distance_ms
        if not too_soon.any():
            return rows, commits
        keep = np.ones(len(rows), bool)
        commits = commits.copy()
        ends = np.append(begins[1:], len(rows))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if too_soon[begin:end].any():
                self._merge(int(rows[begin]), begin, end, commits, keep)
        return rows[keep], commits[keep]

    def _merge(self, row: int, begin: int, end: int, commits: Longs, keep: Any) -> None:
        """One row's commits, from `begin` to `end`, each with the slot before it."""
        slot = self.slots[row, :, -1] if self.filled[row] else None
        for at in range(begin, end):
            if slot is not None and commits[at, TIMESTAMP] - slot[TIMESTAMP] < self.min_distance_ms:
                kept_ms = slot[TIMESTAMP]
                slot[:] = commits[at]
                slot[TIMESTAMP] = kept_ms
                keep[at] = False
            else:
                slot = commits[at]


def starts_of(rows: Longs) -> Longs:
    """Where each stretch of equal numbers begins; `rows` is not empty."""
    return np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
