"""The trees of a topology's run in numbers: how large each one grew, and how it ended.

A spout tuple and everything anchored to it form a tree; the spout is notified of its end once, or gives up on it.
Here, each tree is followed through the trace, from its emit to its end and beyond, because tuples
of a tree may be processed long after the spout has stopped waiting for them.

The words of a topology's tasks, whose names are such as split-2. `ids` and `vals` are [root, number]
pairs, one for each tree; `root` is None for a tuple that nobody tracks.

    spout task   emit {root, val, tuples: [[tuple, task, id], ...], offset?, attempt?}   ack {root, outstanding}
                 fail {root, retry, why: "failed" | "timeout"}   late {root, answer}   spout_tick {expired}
    bolt task    execute {tuple, values}   send {tuple, parents, ids, to, values}   process
                 bolt_ack {tuple, vals}   bolt_fail {tuple, roots}
    acker task   acker_init {root, val, spout_task, before, after, end}   acker_ack {root, val, before, after, end}
                 acker_fail {root, before, after, end}   acker_reset {root, end}   acker_tick {dropped: [root, ...]}
    any task     fault {kind, tuple?}   crash {lost}   restart

`outstanding` = tuples of the tree that were not acked when it was; `end` = "ack" or "fail" when the
message ended the tree. Words that are about a record of a topic name it, too.

Left out: tuples that belong to no tree (sent without a message id, without ackers, or unanchored); how
many of a run's emits had no tree is counted. What became of the records is the verdict's.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from kitlib.text import html_table
from kitlib.trace import Step, Trace
from kitlib.words.template import count

End = Literal["acked", "failed", "timed out", "forgotten", "open"]
ENDS: tuple[End, ...] = ("acked", "failed", "timed out", "forgotten", "open")
ACKER_MESSAGES = ("acker_init", "acker_ack", "acker_fail", "acker_reset")
COLUMNS = ("offset", "attempt", "root", "tuples", "acked", "depth", "end", "ms")
ROWS = 12  # of trees in a table; the rest are counted


@dataclass(slots=True, eq=False)
class Tree:
    """One tree: the tuples that grew from one emit of a spout."""

    root: int
    spout: str  # the task that waits for it
    offset: int | None  # the record it came from; None for a spout that reads no topic
    attempt: int  # the record's first, second, ... tree
    emitted_ms: int
    depth_of: dict[int, int]  # its tuples, late ones included -> the length of the chain from the spout to each
    acked_tuples: set[int] = field(default_factory=set)  # of them, those acked by their bolts
    end: End = "open"  # "forgotten": its spout died, or emitted another tree under the same root
    ended_ms: int | None = None  # None while it is open
    outstanding: int = 0  # tuples not acked when it was acked; 0 for every other end

    @property
    def tuples(self) -> int:
        return len(self.depth_of)

    @property
    def acked(self) -> int:
        return len(self.acked_tuples)

    @property
    def depth(self) -> int:
        """Of the longest chain of tuples; 1 when no bolt sent anything."""
        return max(self.depth_of.values(), default=0)

    @property
    def is_false(self) -> bool:
        return self.outstanding > 0

    @property
    def ms(self) -> int | None:
        return None if self.ended_ms is None else self.ended_ms - self.emitted_ms

    def finish(self, end: End, at_ms: int, outstanding: int = 0) -> None:
        """It has ended; a tree ends once."""
        if self.end == "open":
            self.end, self.ended_ms, self.outstanding = end, at_ms, outstanding

    def row(self) -> tuple[str, ...]:
        end = f"acked, {self.outstanding} too early" if self.is_false else self.end
        ms = "" if self.ms is None else f"{self.ms:,}"
        offset = "" if self.offset is None else str(self.offset)
        root = f"{self.root & 2**64 - 1:x}"
        short = root if len(root) <= 4 else f"…{root[-4:]}"
        return (offset, str(self.attempt), short, str(self.tuples), str(self.acked), str(self.depth), end, ms)


@dataclass(slots=True)
class TreeReport:
    """All trees of a run, and what the run did around them."""

    trees: list[Tree] = field(default_factory=list)  # in the order of their emits
    untracked: int = 0  # emits that no acker followed
    late_answers: int = 0  # ackers' answers for trees that the spout was no longer waiting for
    acker_messages: int = 0
    wasted_executions: int = 0  # of tuples whose trees had failed, timed out or been forgotten by then
    by_root: dict[int | None, Tree] = field(default_factory=dict)  # the newest tree of each
    of_tuple: dict[int, list[Tree]] = field(default_factory=dict)  # the trees that a tuple belongs to

    def count(self, end: End) -> int:
        return sum(tree.end == end for tree in self.trees)

    @property
    def acked(self) -> int:
        return self.count("acked")

    @property
    def false_completions(self) -> int:
        return sum(tree.is_false for tree in self.trees)

    @property
    def tuples(self) -> int:
        return sum(tree.tuples for tree in self.trees)

    @property
    def sentence(self) -> str:
        if not self.trees:
            return f"No tree was followed; {count(self.untracked, 'tuple')} left the spout untracked."
        ends = [f"{self.count(end)} {end}" for end in ENDS if self.count(end)]
        if self.false_completions:
            ends = [f"{end} ({self.false_completions} too early)" if end.endswith(" acked") else end for end in ends]
        more = {
            "arrived late": count(self.late_answers, "answer"),
            "came too late for any tree": count(self.wasted_executions, "execution"),
            "had no tree": count(self.untracked, "emit"),
            "reached the ackers": count(self.acker_messages, "message"),
        }
        told = [f"{number} {what}" for what, number in more.items() if not number.startswith("0 ")]
        size = f" of {count(self.tuples, 'tuple')} in all" if self.acker_messages else ""  # else bolts were not recorded
        text = f"{count(len(self.trees), 'tree')}{size}: {', '.join(ends)}"
        return "; ".join([text, *told]) + "."

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        table = html_table(COLUMNS, (tree.row() for tree in self.trees[:ROWS]))
        rest = len(self.trees) - ROWS
        more = f"<p>... and {count(rest, 'more tree')}.</p>" if rest > 0 else ""
        return f"<div><p><b>{html.escape(self.sentence)}</b></p>{table}{more}</div>"

    def follow(self, step: Step) -> None:
        """The next step of the run."""
        if step.what in ACKER_MESSAGES:
            self.acker_messages += 1
        elif handler := getattr(self, f"_on_{step.what}", None):
            handler(step)

    def _on_emit(self, step: Step) -> None:
        data, root = step.data, step.data.get("root")
        if root is None:
            self.untracked += "root" in data  # the emit of a spout without topology has none
            return
        if root in self.by_root:
            self.by_root[root].finish("forgotten", step.at_ms)
        depths = {number: 1 for number, *_ in data["tuples"]}
        tree = self.by_root[root] = Tree(root, step.actor, data.get("offset"), data.get("attempt", 1), step.at_ms, depths)
        self.trees.append(tree)
        self.of_tuple |= {number: [tree] for number in depths}

    def _on_send(self, step: Step) -> None:
        number, roots = step.data["tuple"], {root for root, _ in step.data["ids"]}
        for parent in step.data["parents"]:
            for tree in self.of_tuple.get(parent, ()):
                if tree.root not in roots:
                    continue
                tree.depth_of[number] = max(tree.depth_of.get(number, 0), tree.depth_of[parent] + 1)
                members = self.of_tuple.setdefault(number, [])
                if tree not in members:
                    members.append(tree)

    def _on_bolt_ack(self, step: Step) -> None:
        for tree in self.of_tuple.get(step.data["tuple"], ()):
            tree.acked_tuples.add(step.data["tuple"])

    def _on_execute(self, step: Step) -> None:
        trees = self.of_tuple.get(step.data["tuple"], ())
        self.wasted_executions += bool(trees) and all(tree.end not in ("open", "acked") for tree in trees)

    def _on_ack(self, step: Step) -> None:
        if tree := self.by_root.get(step.data.get("root")):
            tree.finish("acked", step.at_ms, step.data.get("outstanding") or 0)

    def _on_fail(self, step: Step) -> None:
        if tree := self.by_root.get(step.data.get("root")):
            tree.finish("timed out" if step.data.get("why") == "timeout" else "failed", step.at_ms)

    def _on_late(self, step: Step) -> None:
        self.late_answers += 1

    def _on_crash(self, step: Step) -> None:
        for tree in self.trees:
            if tree.spout == step.actor:
                tree.finish("forgotten", step.at_ms)


def follow_trees(steps: Iterable[Step]) -> TreeReport:
    report = TreeReport()
    for step in steps:
        report.follow(step)
    return report


@dataclass(frozen=True, slots=True)
class Tracking:
    """What tracking adds to a run's network.

    Source: Storm 0.9.3, `MessageId.serialize`, `KryoTupleSerializer`: each tuple carries the number of its trees in one byte (to
    127) and for each of them its root and an id, 8 bytes each. Differs: of a message to an acker only root and number are
    counted, as 16 bytes; Kryo packs them a little differently, and a header comes before them.
    """

    tuples: int
    id_bytes: int  # in the tuples
    messages: int  # to ackers
    message_bytes: int
    busiest: int  # messages at the acker that had the most


def tracking_of(trace: Trace) -> Tracking:
    trees: list[int] = []  # of each tuple
    heard: Counter[str] = Counter()
    for step in trace:
        if step.what == "emit":
            trees += [int(id_ is not None) for _, _, id_ in step.data["tuples"]]
        elif step.what == "send":
            trees.append(len(step.data["ids"]))
        elif step.what in ACKER_MESSAGES:
            heard[step.actor] += 1
    messages = heard.total()
    return Tracking(len(trees), sum(1 + 16 * each for each in trees), messages, 16 * messages, max(heard.values(), default=0))
