"""The trees of a topology's trace, made ready to be drawn: after any step, without the steps before it.

A tuple's way never turns back, so what it is after step n follows from six numbers: the steps at which
it was sent, executed, acked, failed, lost, and at which a planted fault acted on it. In the same way a
tree keeps the steps at which its status changed, and an entry of the spout's or an acker's map those
at which it changed its bucket. A picture of any step, and the steps at which a piece of it changes, are
read from these.

Left out: how the trace is read (`kitlib.views.trees.reader`), and the drawing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add
from typing import Any

from kitlib.text import plain_text
from kitlib.views.trees.layout import (
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
    UNTRACKED,
    Layout,
    tuple_code_of,
)
from kitlib.views.trees.ledger_rows import LedgerRow, Told

NEVER = -1
GONE = -1  # the bucket of what is in none
STATES = {"sent": SENT, "executed": EXECUTED, "acked": ACKED, "failed": FAILED, "lost": LOST}
ENDED = ("acked", "failed", "lost")


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


@dataclass(slots=True)
class TreeView:
    """All that is known of one spout tuple's tree over the whole run."""

    name: str  # "offset 12"
    short: str  # "12", for small boxes
    detail: str  # "attempt 2, root …a3f2"
    spout: int  # its task, by its place in `Forest.tasks`; its map holds the tree
    root: int | None = None  # None where nobody follows the record
    layout: Layout = field(default_factory=Layout)
    status: History = field(default_factory=History)  # of OPEN, TREE_ACKED, ...
    bucket: History = field(default_factory=History)  # of the spout's map, newest is 0; GONE when in none
    ledger: list[LedgerRow] = field(default_factory=list)
    acker: int = NEVER  # the task that follows it

    @property
    def is_tracked(self) -> bool:
        """Whether an acker follows it."""
        return self.root is not None

    @property
    def ref(self) -> str | None:
        """By which a page asks for its life; None where nobody follows it."""
        return None if self.root is None else f"tree:{plain_text(self.root, 40)}"


@dataclass(slots=True)
class TupleView:
    """One tuple over the whole run, and the steps at which it came to each of its states."""

    name: object  # in the trace
    values: str  # in words
    task: int
    ids: dict[int, int]  # tree -> id
    parents: list[int]
    last_heard: int  # the last step of the whole trace in which its task did something with it, or NEVER
    children: list[int] = field(default_factory=list)  # anchored to it
    steps: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, NEVER))
    fault: tuple[int, str] = (NEVER, "")  # when a planted fault acted on it, and which

    @property
    def end(self) -> int:
        """The step at which it was acked, failed or lost, or NEVER."""
        return min((step for name in ENDED if (step := self.steps[name]) != NEVER), default=NEVER)

    def flags_at(self, step: int) -> int:
        """What has happened to it by this step."""
        return sum(flag for name, flag in STATES.items() if NEVER < self.steps[name] <= step)


@dataclass(slots=True)
class EntryView:
    """One entry of an acker's map."""

    acker: int  # its task
    name: str  # the tree's short name
    tree: int
    bucket: History = field(default_factory=History)
    value: History = field(default_factory=History)  # as a learner reads it
    told: Told = field(default_factory=Told)
    is_claimed: bool = False  # an init came, so somebody waits for its end


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
    tuples: list[TupleView] = field(default_factory=list)
    focus: list[int] = field(default_factory=list)  # per step: the tree that it is about, or the one before, or NEVER
    current: list[int] = field(default_factory=list)  # per step: its tuple, or NEVER
    _tallies: dict[int, History] = field(default_factory=dict)  # per tree
    _ended: History | None = None

    def ref_of(self, number: int) -> str:
        """By which a page asks for a tuple's life."""
        return f"tuple:{plain_text(self.tuples[number].name, 40)}"

    def code_of(self, tree: int, place: int, step: int) -> str:
        """The code of one node of a tree; the spout's own record, which comes first, has its tree's."""
        node, status = self.trees[tree].layout.nodes[place], self.status_of(tree, step)
        if node.number < 0:
            return STATUSES[status][1]
        over = 0 if status in (OPEN, UNTRACKED) else OVER | (IS_FALSE if status == FALSELY_ACKED else 0)
        return tuple_code_of(self.tuples[node.number].flags_at(step) | over | (LOOSE if node.is_loose else 0))

    def codes_of(self, tree: int, step: int) -> list[str]:
        """The codes of all nodes of a tree."""
        return [self.code_of(tree, place, step) for place in range(len(self.trees[tree].layout.nodes))]

    def begin_of(self, tree: int) -> int:
        """The step from which on a tree is there; a root that no spout has emitted is there from the start."""
        steps = self.trees[tree].status.steps
        return steps[0] if steps else 0

    def changes_of(self, tree: int, place: int) -> list[int]:
        """The steps at which a node may become another one, the first of which is its first."""
        number, ends = self.trees[tree].layout.nodes[place].number, self.trees[tree].status.steps
        if number < 0:
            return ends or [0]
        given = self.tuples[number]
        return sorted({step for step in (*given.steps.values(), given.fault[0], *ends) if step >= given.steps["sent"]})

    def status_of(self, tree: int, step: int) -> int:
        """What the spout knows of a tree: OPEN, TREE_ACKED, ..."""
        return int(self.trees[tree].status.at(step, OPEN))

    def tally_of(self, tree: int) -> History:
        """Of a tree's tuples that were sent: (the anchored ones that are not acked, all anchored ones, the unanchored ones)."""
        if tree not in self._tallies:
            changes: list[tuple[int, int, int, int]] = []
            for node in self.trees[tree].layout.nodes:
                if node.number >= 0:
                    steps = self.tuples[node.number].steps
                    sent = (steps["sent"], 0, 0, 1) if node.is_loose else (steps["sent"], 1, 1, 0)
                    changes += [sent] if node.is_loose else [sent, (steps["acked"], -1, 0, 0)]
            tally, found = [0, 0, 0], History()
            for step, *change in sorted(each for each in changes if each[0] != NEVER):
                tally = [*map(add, tally, change)]
                found.put(step, tuple(tally))
            self._tallies[tree] = found
        return self._tallies[tree]

    def open_of(self, tree: int, step: int) -> tuple[int, int, int]:
        """The same after a step."""
        found: tuple[int, int, int] = self.tally_of(tree).at(step, (0, 0, 0))
        return found

    @property
    def ended(self) -> History:
        """How many trees have ended so far, by how: {status: count}."""
        if self._ended is None:
            self._ended, counts = History(), dict[int, int]()
            changes = [(step, old, new) for view in self.trees for step, old, new in _changes(view.status)]
            for step, old, new in sorted(changes):
                counts = {status: counts.get(status, 0) + (status == new) - (status == old) for status in {*counts, old, new} - {OPEN}}
                self._ended.put(step, counts)
        return self._ended

    def row_of(self, tree: int, step: int) -> LedgerRow | None:
        """The last change of the tree's ledger."""
        rows = self.trees[tree].ledger
        place = bisect_right(rows, step, key=lambda row: row.step)
        return rows[place - 1] if place else None

    def counts(self, steps: int) -> tuple[list[int], list[int]]:
        """After each step: the trees that spouts wait for, and the tuples sent and not acked, failed or lost."""
        trees, tuples = [0] * (steps + 1), [0] * (steps + 1)
        for view in self.trees:
            for at, status in zip(view.status.steps, view.status.values, strict=True):
                trees[at] += 1 if status == OPEN else -1 if status != UNTRACKED else 0
        for given in self.tuples:
            tuples[given.steps["sent"]] += 1
            tuples[given.end] -= 1  # of one without an end the last, which is cut off below
        return list(accumulate(trees[:-1])), list(accumulate(tuples[:-1]))


def _changes(history: History) -> Iterator[tuple[int, int, int]]:
    """When a status changed, from what to what; before the first one a tree is as if it were open."""
    return zip(history.steps, [OPEN, *history.values], history.values, strict=False)
