"""Forests: what every tuple, tree and entry of a topology's trace is after any step."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import TraceError
from kitlib.experiments import get
from kitlib.trace import Step, Trace
from kitlib.views.browser.played import played
from kitlib.views.frames import to_frames
from kitlib.views.trees.buckets import MapsOf
from kitlib.views.trees.forest import NEVER, Forest
from kitlib.views.trees.layout import MOST_TALL, TREE_LEFT, TREE_TOP, TREE_WIDE, rows_of
from kitlib.views.trees.reader import to_forest
from tests.views.groves import ACKER, SPLIT, SPOUT, Grove, everything, false_completion, joined, large


def forest_of(trace: Trace) -> Forest:
    forest = to_forest(trace)
    assert forest is not None
    return forest


def codes(grove: Grove, tree: int = 0, step: int | None = None) -> str:
    """The codes of a tree's boxes, the spout's own record first."""
    return "".join(forest_of(grove.trace).codes_of(tree, len(grove.trace) - 1 if step is None else step))


def lines_of(forest: Forest, tree: int, step: int) -> str:
    row = forest.row_of(tree, step)
    assert row is not None
    return " ".join(text for text, _ in row.lines)


def one_line() -> tuple[Grove, Any]:
    grove = Grove()
    (line,) = grove.emit(7, SPLIT)
    return grove, line


def sent(grove: Grove, line: Any) -> None:
    grove.send("count-3", line)


def acked(grove: Grove, line: Any) -> None:
    grove.ack(line)


def failed(grove: Grove, line: Any) -> None:
    grove.fail(line)


def unanchored(grove: Grove, line: Any) -> None:
    grove.send("count-3", line, is_anchored=False)


def unanchored_child(grove: Grove, line: Any) -> None:
    loose = grove.send("count-3", line, is_anchored=False)
    grove.ack(line)
    grove.send("store-4", loose)


def lost(grove: Grove, line: Any) -> None:
    grove.fault("lose", line)


def crashed(grove: Grove, line: Any) -> None:
    grove.crash(SPLIT, lost=1)


def timed_out(grove: Grove, line: Any) -> None:
    grove.tick()
    grove.tick()


def spout_died(grove: Grove, line: Any) -> None:
    grove.crash(SPOUT, lost=1)


CASES: list[tuple[Callable[[Grove, Any], None], str, str]] = [
    (lambda grove, line: None, "PP", "a tuple that was sent is in flight, and its tree is pending"),
    (sent, "PEP", "a tuple that has sent another is executed, the other is in flight"),
    (acked, "AA", "a tree without open tuples is acked"),
    (failed, "FF", "a failed tuple fails its tree"),
    (unanchored, "PEP", "an unanchored tuple is drawn beside the one that it came from"),
    (unanchored_child, "AAEP", "what an unanchored tuple sends is in no tree either"),
    (lost, "PL", "a message that was lost is a lost tuple, and the tree waits for it"),
    (crashed, "PL", "what was in the queue of a task that died is lost"),
    (timed_out, "FO", "after the timeout the tree has failed, and nobody waits for what is still out"),
    (spout_died, "OO", "when the spout dies its trees are forgotten"),
]


@pytest.mark.parametrize(("act", "expected", "sentence"), CASES, ids=[case[2] for case in CASES])
def test_codes_after_case(act: Callable[[Grove, Any], None], expected: str, sentence: str) -> None:
    """What happened to a tuple and to its tree decides its box."""
    grove, line = one_line()
    act(grove, line)
    assert codes(grove) == expected, sentence


def test_false_completion_is_told_where_it_happens() -> None:
    """Zero while tuples are out is zero by chance: the ledger says so, and the tuples left behind are marked."""
    grove = false_completion()
    forest = forest_of(grove.trace)
    step = next(s.number for s in grove.trace if s.what == "acker_ack" and s.data["end"] == "ack")
    row = forest.row_of(0, step)
    assert row is not None and row.is_false and row.after == 0
    assert lines_of(forest, 0, step).endswith(
        "ZERO BY CHANCE: 1011 ⊕ 1011 = 0. They came only once, yet the tree counts as done."
    )
    assert codes(grove, step=step + 1) == "XAXX"
    assert codes(grove) == "XAAX"


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize(
    "knobs", [{"id_bits": 4}, {"id_bits": 4, "fault": "ack_twice"}, {"id_bits": 4, "join": True}], ids=str
)
def test_false_completions_are_those_that_the_run_counts(seed: int, knobs: dict[str, Any]) -> None:
    """An end is called false exactly where the runtime, which knows every open tuple, says that some were open."""
    trace = get("tuple_tree").run(seed=seed, **knobs)
    forest = forest_of(trace)
    by_step = {row.step: row for tree in forest.trees for row in tree.ledger}
    ends = {
        s.data["root"]: by_step[s.number] for s in trace if s.what.startswith("acker_") and s.data.get("end") == "ack"
    }
    found = {s.data["root"]: s.data["outstanding"] > 0 for s in trace if s.what == "ack"}
    assert found and {root: ends[root].is_false for root in found} == found


def test_ledger_says_what_a_message_is_made_of() -> None:
    """An ack's value is the tuple's own id XOR those it sent; what was told once so far is the number."""
    grove = Grove(4)
    (line,) = grove.emit(1, SPLIT, ids=(0b0110,))
    grove.send("count-3", line, ids=(0b1010,))
    grove.send("count-4", line, ids=(0b0001,))
    grove.ack(line)
    forest = forest_of(grove.trace)
    last = len(grove.trace) - 1
    row = forest.row_of(0, last)
    assert row is not None
    assert (row.title, row.before, row.message, row.after) == ("ack of split-2", 0x6, 0xD, 0xB)
    assert lines_of(forest, 0, last) == "Its own id 0110 ⊕ sent 1010 ⊕ 0001. Not zero: told once so far 1010 ⊕ 0001."
    assert lines_of(forest, 0, 1) == "The id of the tuple sent. Not zero: told once so far 0110."
    assert forest.row_of(0, 0) is None


@pytest.mark.parametrize("bits", [4, 8, 16, 64])
def test_ledger_rows_are_the_ackers_own_numbers(bits: int) -> None:
    """Before XOR message is after, as 64 bits without a sign, negative numbers included."""
    trace = large(400, bits=bits)
    forest = forest_of(trace)
    by_step = {row.step: row for tree in forest.trees for row in tree.ledger}
    told = [step for step in trace if step.what in ("acker_init", "acker_ack")]
    assert forest.bits == bits and len(told) > 80
    for step in told:
        row = by_step[step.number]
        before, message, after = (number or 0 for number in (row.before, row.message, row.after))
        assert before ^ message == after < 2**bits
        assert before == (step.data["before"] or 0) & (2**64 - 1) and message == step.data["val"] & (2**64 - 1)


def test_ledger_of_a_dead_acker_is_wiped() -> None:
    """When the acker dies its number is gone, and what comes then begins an entry that nobody claims."""
    grove, line = one_line()
    grove.crash(ACKER, lost=1)
    crash = len(grove.trace) - 1
    grove.ack(line)
    forest = forest_of(grove.trace)
    row = forest.row_of(0, crash)
    assert row is not None and row.after is None and row.title == "the acker dies"
    assert "No init came" in lines_of(forest, 0, len(grove.trace) - 1)
    assert codes(grove) == "PA"


@pytest.mark.parametrize("release", ["0.9.3", "2.4.0"])
def test_buckets_are_those_of_the_real_maps(release: str) -> None:
    """After any step the roots in each bucket are those that the spout's map and the acker's really hold."""
    grove = Grove(8, release=release)
    held: list[tuple[int, list[set[int]], list[set[int]]]] = []
    lines = []
    for offset in range(6):
        lines += grove.emit(offset, SPLIT)
        if offset % 2:
            grove.ack(lines.pop(0))
            word = grove.send("count-3", lines[0])
            grove.tick()
            del word
        held.append(
            (
                len(grove.trace) - 1,
                [set(b) for b in grove.pending.buckets],
                [set(b) for b in grove.acker.pending.buckets],
            )
        )
    forest = forest_of(grove.trace)
    roots = [s.data["root"] for s in grove.trace if s.what == "emit"]
    maps = MapsOf(forest)
    for step, pending, entries in held:
        for shown, really in ((maps.pending_of(forest.tasks.index(SPOUT)), pending), (maps.entries_of(forest.tasks.index(ACKER)), entries)):
            found = shown.found_at(step)
            assert [{roots[shown.members[number].tree] for number in bucket} for bucket in found[:-1]] == really


def test_a_tick_shows_what_it_drops_until_the_spout_has_failed_it() -> None:
    """The bucket below the last one holds what has timed out; each failure takes one out of it."""
    grove = Grove()
    for offset in range(3):
        grove.emit(offset, SPLIT)
    grove.tick()
    first = len(grove.trace)
    grove.tick()
    forest = forest_of(grove.trace)
    pending = MapsOf(forest).pending_of(forest.tasks.index(SPOUT))
    assert [len(pending.found_at(first + after)[-1]) for after in range(4)] == [3, 2, 1, 0]
    assert {step: [list(bucket) for bucket in found] for step, found in pending.found_over()} == {
        step: pending.found_at(step) for step, _ in pending.found_over()
    }


def test_a_joined_tuple_has_two_parents_and_stands_once() -> None:
    """A tuple anchored to two others is one box with two lines to it, right of both."""
    forest = forest_of(joined().trace)
    nodes = forest.trees[0].layout.nodes
    store = nodes[-1]
    assert len(store.parents) == 2 and len({node.number for node in nodes}) == len(nodes) == 6
    assert all(nodes[parent].x < store.x for parent in store.parents)
    assert "finished" in lines_of(forest, 0, len(joined().trace) - 1)


def test_a_record_that_nobody_follows_has_a_tree_of_loose_tuples() -> None:
    """Without a root id the tuples are drawn, and all of them are in no tree."""
    grove = Grove()
    (line,) = grove.emit(3, SPLIT, is_tracked=False)
    grove.send("count-3", line)
    forest = forest_of(grove.trace)
    assert [node.is_loose for node in forest.trees[0].layout.nodes] == [True, True, True]
    assert forest.open_of(0, len(grove.trace) - 1) == (0, 0, 2) and forest.row_of(0, len(grove.trace) - 1) is None
    assert codes(grove) == "OEP"


def test_focus_is_the_tree_that_the_step_is_about() -> None:
    """Each step shows its own tree; a step that is about none leaves the last one in view."""
    grove = everything()
    forest = forest_of(grove.trace)
    trees = {s.data["root"]: n for n, s in enumerate(s for s in grove.trace if s.what == "emit")}
    shown = NEVER
    for step in grove.trace:
        shown = trees.get(step.data.get("root"), shown)
        if step.what in ("spout_tick", "acker_tick"):
            assert forest.focus[step.number] == shown
        elif "root" in step.data:
            assert forest.focus[step.number] == trees[step.data["root"]]
        elif "tuple" in step.data:
            number = forest.current[step.number]
            shown = forest.focus[step.number]
            assert number in {node.number for node in forest.trees[shown].layout.nodes}


SHAPES = [(1, 0), (3, 1), (12, 1), (26, 1), (100, 3), (400, 4)]


@pytest.mark.parametrize(("words", "deep"), SHAPES, ids=str)
def test_boxes_stay_inside_their_area_and_do_not_overlap(words: int, deep: int) -> None:
    """However large the tree: every box is inside, none lies on another, and children are right of their parents."""
    grove = Grove(16)
    (line,) = grove.emit(1, SPLIT)
    for word in [grove.send(f"count-{n % 5}", line) for n in range(words)]:
        for _ in range(deep):
            grove.send("store-9", word)
    forest = forest_of(grove.trace)
    layout = forest.trees[0].layout
    shown = [node for node in layout.nodes if node.x >= 0]
    assert len(shown) + layout.hidden == 2 + words * (1 + deep) and forest.tall <= MOST_TALL
    for node in shown:
        assert node.x - layout.wide / 2 >= TREE_LEFT and node.x + layout.wide / 2 <= TREE_LEFT + TREE_WIDE
        assert node.y - layout.tall / 2 >= TREE_TOP and node.y + layout.tall / 2 <= TREE_TOP + forest.tall + 1
        assert all(layout.nodes[parent].x < node.x for parent in node.parents)
    places = sorted((node.x, node.y) for node in shown)
    for (x, y), (other_x, other_y) in pairwise(places):
        assert x != other_x or other_y - y >= layout.tall, "one box lies on another"
    assert rows_of(layout.nodes) >= 1


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 299))
def test_counts_of_random_runs_are_those_of_a_step_by_step_reading(seed: int, at: int) -> None:
    """Pending trees and tuples out, at any step, counted from the steps before it alone."""
    trace = large(300, fan_out=3, bits=8, seed=seed)
    forest = forest_of(trace)
    pending: set[int] = set()
    out: set[int] = set()
    for step in trace.steps[: at + 1]:
        data = step.data
        if step.what == "emit":
            pending.add(data["root"])
            out |= {number for number, _, _ in data["tuples"]}
        elif step.what == "send":
            out.add(data["tuple"])
        elif step.what in ("bolt_ack", "bolt_fail"):
            out.discard(data["tuple"])
        elif step.what in ("ack", "fail"):
            pending.discard(data["root"])
    trees, tuples = forest.counts(len(trace))
    assert (trees[at], tuples[at]) == (len(pending), len(out))


def test_a_trace_without_trees_has_no_forest() -> None:
    """Records alone make no trees: a spout's run, and a topology's that kept only its records' words."""
    assert to_forest(get("happy_path").run()) is None
    assert to_forest(get("false_completion").run(records=20)) is None


def test_a_message_of_an_unknown_tree_or_tuple_is_no_error() -> None:
    """A trace may begin in the middle: what was never emitted is a tree without tuples."""
    trace = Trace("cut", "cut", domain="topology")
    trace.record(0, "split-2", "execute", tuple=99, values=[])
    trace.record(1, ACKER, "acker_ack", root=-5, val=3, before=None, after=3, end=None)
    trace.record(2, SPOUT, "late", root=-6, answer="ack")
    forest = forest_of(trace)
    assert [tree.detail for tree in forest.trees] == ["never emitted", "never emitted"]
    assert forest.focus == [NEVER, 0, 1]


BAD: list[tuple[str, dict[str, Any]]] = [
    ("send", {"tuple": 1}),
    ("emit", {"tuples": [[1]], "root": 1}),
    ("acker_ack", {"root": "x", "val": "y", "before": None, "after": None, "end": None}),
    ("bolt_ack", {"tuple": 0, "vals": 7}),
    ("acker_tick", {"dropped": None}),
]


@pytest.mark.parametrize(("what", "data"), BAD, ids=str)
def test_broken_data_raise_a_trace_error(what: str, data: dict[str, Any]) -> None:
    """A step whose data are not what its word needs is a TraceError that says what to do."""
    grove, _ = one_line()
    grove.trace.steps.append(Step(len(grove.trace), 99, "split-2", "execute", {"tuple": 0}))
    grove.trace.steps.append(Step(len(grove.trace), 99, "split-2", what, data))
    with pytest.raises(TraceError, match="Record the trace again"):
        to_frames(grove.trace)


def test_a_run_of_trees_is_safe_for_javascript() -> None:
    """JavaScript would round no number in a thousand steps with trees, ledgers and maps."""
    def check(value: object) -> None:
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                check(item)
        else:
            assert not isinstance(value, int) or abs(value) < 2**53

    check(json.loads(played(to_frames(large(1000)))))
