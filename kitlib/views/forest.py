"""The trees of a topology's trace, made ready to be drawn: after any step, without the steps before it.

A tuple's way never turns back, so what it is after step n follows from six numbers: the steps at which
it was sent, executed, acked, failed, lost, and at which a planted fault acted on it. In the same way a
tree keeps the steps at which its status changed, and an entry of the spout's or an acker's map those
at which it changed its bucket. Scrubbing in either direction is looking these up. The browser's player
gets the same numbers and decides nothing by itself.

Left out: how the trace is read (`kitlib.views.forest_reader`), and the drawing.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from kitlib.views.ledger_rows import LedgerRow
from kitlib.views.tree_layout import Layout
from kitlib.views.tree_look import (
    ACKED,
    EXECUTED,
    FAILED,
    FALSELY_ACKED,
    IS_FALSE,
    LOOSE,
    LOST,
    OPEN,
    OVER,
    SENT,
    STATUSES,
    TUPLE_TABLE,
    UNTRACKED,
    acker_chip,
)

NEVER = -1
GONE = -1  # the bucket of what is in none
STATES = (("sent", SENT), ("executed", EXECUTED), ("acked", ACKED), ("failed", FAILED), ("lost", LOST))


@dataclass(slots=True)
class History:
    """A value that changes at some steps: what it is after any step."""

    steps: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def put(self, step: int, value: Any) -> None:
        """From this step on it is `value`."""
        if self.steps and self.steps[-1] == step:
            self.values[-1] = value
        else:
            self.steps.append(step)
            self.values.append(value)

    def at(self, step: int, default: Any) -> Any:
        """The value after the step; `default` before the first one."""
        place = bisect_right(self.steps, step)
        return self.values[place - 1] if place else default

    @property
    def last(self) -> Any:
        """The newest value, or None."""
        return self.values[-1] if self.values else None

    def to_json(self) -> list[list[Any]]:
        return [self.steps, self.values]


@dataclass(slots=True)
class TreeView:
    """All that is known of one spout tuple's tree over the whole run."""

    name: str  # "offset 12"
    short: str  # "12", for small boxes
    detail: str  # "attempt 2, root …a3f2"
    spout: int  # its task, by its place in `Forest.tasks`; its map holds the tree
    is_tracked: bool
    layout: Layout = field(default_factory=Layout)
    status: History = field(default_factory=History)  # of OPEN, TREE_ACKED, ...
    bucket: History = field(default_factory=History)  # of the spout's map, newest is 0; GONE when in none
    ledger: list[LedgerRow] = field(default_factory=list)
    acker: int = NEVER  # the task that follows it


@dataclass(slots=True)
class EntryView:
    """One entry of an acker's map."""

    acker: int  # its task
    name: str  # the tree's short name
    tree: int
    bucket: History = field(default_factory=History)
    value: History = field(default_factory=History)  # as a learner reads it


@dataclass(slots=True)
class Forest:
    """Everything about trees that pictures of one trace need."""

    bits: int
    tall: int  # of the trees' area
    pending_buckets: int
    acker_buckets: int
    chip_rows: int = 1  # of one bucket
    tasks: list[str] = field(default_factory=list)
    trees: list[TreeView] = field(default_factory=list)
    entries: list[EntryView] = field(default_factory=list)
    steps_of: dict[str, list[int]] = field(default_factory=dict)  # "sent" -> the step for each tuple, or NEVER
    values: list[str] = field(default_factory=list)  # of each tuple, in words
    faulty: dict[int, tuple[int, str]] = field(default_factory=dict)  # tuple -> (step, kind of the fault)
    focus: list[int] = field(default_factory=list)  # per step: the tree that it is about, or the one before, or NEVER
    current: list[int] = field(default_factory=list)  # per step: its tuple, or NEVER

    def flags_of(self, number: int, step: int) -> int:
        """What has happened to a tuple by this step."""
        flags = 0
        for name, flag in STATES:
            if 0 <= self.steps_of[name][number] <= step:
                flags |= flag
        return flags

    def codes_of(self, tree: int, step: int) -> list[str]:
        """The code of each node of a tree; the spout's own record, which comes first, has its tree's."""
        view = self.trees[tree]
        status = self.status_of(tree, step)
        over = 0 if status in (OPEN, UNTRACKED) else OVER | (IS_FALSE if status == FALSELY_ACKED else 0)
        return [
            STATUSES[status][1]
            if node.number < 0
            else TUPLE_TABLE[self.flags_of(node.number, step) | over | (LOOSE if node.is_loose else 0)]
            for node in view.layout.nodes
        ]

    def status_of(self, tree: int, step: int) -> int:
        """What the spout knows of a tree: OPEN, TREE_ACKED, ..."""
        return int(self.trees[tree].status.at(step, OPEN))

    def open_of(self, tree: int, step: int) -> tuple[int, int]:
        """Of a tree's anchored tuples that were sent: how many are not acked, and how many there are."""
        nodes = [node.number for node in self.trees[tree].layout.nodes if node.number >= 0 and not node.is_loose]
        flags = [found for number in nodes if (found := self.flags_of(number, step)) & SENT]
        return sum(not found & ACKED for found in flags), len(flags)

    def row_of(self, tree: int, step: int) -> LedgerRow | None:
        """The last change of the tree's ledger."""
        rows = self.trees[tree].ledger
        place = bisect_right(rows, step, key=lambda row: row.step)
        return rows[place - 1] if place else None

    def pending_at(self, spout: int, step: int) -> list[list[int]]:
        """The trees in each bucket of a spout task's map, and in the one below them: dropped by the tick."""
        found: list[list[int]] = [[] for _ in range(self.pending_buckets + 1)]
        for number, view in enumerate(self.trees):
            if view.spout == spout and (bucket := view.bucket.at(step, GONE)) != GONE:
                found[bucket].append(number)
        return found

    def entries_at(self, acker: int, step: int) -> list[list[int]]:
        """The entries in each bucket of an acker's map, and those that the tick has dropped."""
        found: list[list[int]] = [[] for _ in range(self.acker_buckets + 1)]
        for number, entry in enumerate(self.entries):
            if entry.acker == acker and (bucket := entry.bucket.at(step, GONE)) != GONE:
                found[bucket].append(number)
        return found

    def counts(self, steps: int) -> tuple[list[int], list[int]]:
        """After each step: the trees that spouts wait for, and the tuples sent and not acked, failed or lost."""
        trees, tuples = [0] * (steps + 1), [0] * (steps + 1)
        for view in self.trees:
            for at, status in zip(view.status.steps, view.status.values, strict=True):
                trees[at] += 1 if status == OPEN else -1 if status != UNTRACKED else 0
        ends = zip(*(self.steps_of[name] for name in ("acked", "failed", "lost")), strict=True)
        for sent, found in zip(self.steps_of["sent"], ends, strict=True):
            tuples[sent] += 1
            tuples[min((end for end in found if end != NEVER), default=steps)] -= 1
        return list(accumulate(trees[:-1])), list(accumulate(tuples[:-1]))

    def to_json(self) -> dict[str, Any]:
        """All of it, compact, for the player."""
        return {
            "bits": self.bits,
            "tall": self.tall,
            "chipRows": self.chip_rows,
            "ackerChip": acker_chip(self.bits),
            "buckets": [self.pending_buckets, self.acker_buckets],
            "tasks": self.tasks,
            "steps": [self.steps_of[name] for name, _ in STATES],
            "values": self.values,
            "faulty": [[number, *found] for number, found in self.faulty.items()],
            "focus": self.focus,
            "current": self.current,
            "trees": [_tree_to_json(tree) for tree in self.trees],
            "entries": [
                [entry.acker, entry.name, entry.tree, *entry.bucket.to_json(), *entry.value.to_json()]
                for entry in self.entries
            ],
        }


def _tree_to_json(tree: TreeView) -> dict[str, Any]:
    layout = tree.layout
    return {
        "name": [tree.name, tree.short, tree.detail],
        "spout": tree.spout,
        "acker": tree.acker,
        "tracked": int(tree.is_tracked),
        "heads": layout.heads,
        "box": [layout.wide, layout.tall, layout.lines, int(layout.is_grid), layout.hidden],
        "nodes": [
            [node.number, node.x, node.y, int(node.is_loose), node.task, node.id, *node.parents]
            for node in layout.nodes
        ],
        "status": tree.status.to_json(),
        "bucket": tree.bucket.to_json(),
        "ledger": [
            [row.step, row.title, row.before, row.message, row.after, row.lines, int(row.is_false)]
            for row in tree.ledger
        ],
    }
