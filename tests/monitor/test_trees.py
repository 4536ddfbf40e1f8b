"""The trees of a topology's run in numbers, on hand-made traces."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib import experiments
from kitlib.experiments import run
from kitlib.monitor.trees import ENDS, TreeReport, follow_trees, tracking_of
from kitlib.trace import Step, Trace

Told = list[tuple[str, str, dict[str, Any]]]  # actor, word, data; 10 ms apart


def emit(root: int | None, *tuples: int, offset: int = 0, attempt: int = 1, spout: str = "lines-1") -> Told:
    sent = [[number, "split-2", number * 7] for number in tuples]
    return [(spout, "emit", {"offset": offset, "attempt": attempt, "root": root, "val": 0, "tuples": sent})]


def send(number: int, *parents: int, roots: tuple[int, ...] = (5,)) -> Told:
    ids = [[root, number * 7] for root in roots]
    return [("split-2", "send", {"tuple": number, "parents": list(parents), "ids": ids, "to": "count-3", "values": []})]


def bolt_ack(*tuples: int) -> Told:
    return [("count-3", "bolt_ack", {"tuple": number, "vals": []}) for number in tuples]


def execute(*tuples: int) -> Told:
    return [("count-3", "execute", {"tuple": number, "values": []}) for number in tuples]


def ack(root: int, outstanding: int = 0) -> Told:
    return [("lines-1", "ack", {"offset": 0, "root": root, "outstanding": outstanding})]


def fail(root: int, why: str) -> Told:
    return [("lines-1", "fail", {"offset": 0, "root": root, "retry": True, "why": why})]


def told(*parts: Told) -> TreeReport:
    story = [word for part in parts for word in part]
    return follow_trees(Step(n, 10 * n, actor, what, data) for n, (actor, what, data) in enumerate(story))


# A line becomes two words, of which one becomes a letter.
GROWN = [*emit(5, 1), *send(2, 1), *send(3, 1), *bolt_ack(1), *send(4, 3)]

# A story -> tuples, acked, depth, end, ms of its first tree.
STORIES: dict[str, tuple[Told, tuple[int, int, int, str, int | None]]] = {
    "a tree that nobody ended is open": ([*GROWN], (4, 1, 3, "open", None)),
    "a tree whose tuples are all acked": ([*GROWN, *bolt_ack(2, 3, 4), *ack(5)], (4, 4, 3, "acked", 80)),
    "a tuple that was acked twice is one acked tuple": ([*GROWN, *bolt_ack(2, 2)], (4, 2, 3, "open", None)),
    "a tuple that came by two ways lies at the end of the longer one": (
        [*GROWN, *send(9, 4, 1)], (5, 1, 4, "open", None)),
    "an unanchored tuple is in no tree": ([*GROWN, *send(9, roots=()), *bolt_ack(9)], (4, 1, 3, "open", None)),
    "a tree that a bolt failed": ([*GROWN, *fail(5, "failed")], (4, 1, 3, "failed", 50)),
    "a tree that took too long": ([*GROWN, *fail(5, "timeout")], (4, 1, 3, "timed out", 50)),
    "a tree that grows after its end": ([*GROWN, *fail(5, "timeout"), *send(6, 2)], (5, 1, 3, "timed out", 50)),
    "the first end stands": ([*GROWN, *fail(5, "timeout"), *ack(5, outstanding=2)], (4, 1, 3, "timed out", 50)),
    "a tree whose spout died": ([*GROWN, ("lines-1", "crash", {"lost": 1})], (4, 1, 3, "forgotten", 50)),
    "a tree of another spout than the one that died": ([*GROWN, ("lines-9", "crash", {"lost": 1})], (4, 1, 3, "open", None)),
    "a tree whose root another one took": ([*GROWN, *emit(5, 6), *ack(5)], (4, 1, 3, "forgotten", 50)),
    "a tree that nobody works on": ([*emit(5), *ack(5)], (0, 0, 0, "acked", 10)),
}  # fmt: skip


@pytest.mark.parametrize("case", STORIES)
def test_tree_of_a_story_grows_and_ends_as_told(case: str) -> None:
    """How large and deep a tree became, how many of its tuples were acked, how it ended and after how long."""
    story, expected = STORIES[case]
    tree = told(story).trees[0]
    assert (tree.tuples, tree.acked, tree.depth, tree.end, tree.ms) == expected
    assert not tree.is_false


def test_tuple_anchored_to_two_trees_counts_in_both() -> None:
    """A tuple with two parents is a part of each tree that its ids name, and of no other."""
    both = [*emit(5, 1), *emit(6, 2, offset=1), *emit(7, 3, offset=2)]
    report = told(both, send(4, 1, 2, 3, roots=(5, 6)), bolt_ack(4))
    assert [(tree.tuples, tree.acked, tree.depth) for tree in report.trees] == [(2, 1, 2), (2, 1, 2), (1, 0, 1)]
    assert [tree.offset for tree in report.trees] == [0, 1, 2]


def test_tree_acked_with_tuples_outstanding_is_a_false_completion() -> None:
    """An ack while tuples were not acked is counted as false, and told with their number."""
    report = told(GROWN, ack(5, outstanding=3))
    assert (report.acked, report.false_completions, report.trees[0].is_false) == (1, 1, True)
    assert "acked, 3 too early" in report._repr_html_()
    assert report.sentence == "1 tree: 1 acked (1 too early)."  # how many tuples it had, a trace without ackers' words may not hold


def test_execution_is_wasted_once_none_of_its_trees_is_waited_for() -> None:
    """Work on a failed, timed-out or forgotten tree is done again anyway; work on an open or acked tree is not."""
    assert told(GROWN, execute(2), fail(5, "failed"), execute(3, 4)).wasted_executions == 2
    assert told(GROWN, ack(5, outstanding=3), execute(2)).wasted_executions == 0
    two_trees = [*emit(5, 1), *emit(6, 2), *send(4, 1, 2, roots=(5, 6)), *fail(5, "failed"), *execute(1, 4)]
    assert told(two_trees).wasted_executions == 1
    assert told(two_trees, fail(6, "failed"), execute(4)).wasted_executions == 2
    assert told(emit(None, 1), execute(1)).wasted_executions == 0


def test_report_of_a_run_says_it_in_one_sentence() -> None:
    """The sentence has the trees by their ends, then only what happened at all."""
    acker: Told = [("__acker-9", word, {"root": 5}) for word in ("acker_init", "acker_ack", "acker_fail", "acker_reset")]
    ticks: Told = [("__acker-9", "acker_tick", {"dropped": [5]}), ("lines-1", "spout_tick", {"expired": 1})]
    late: Told = [("lines-1", "late", {"root": 5, "answer": "ack"})]
    again = emit(6, 8, attempt=2)
    report = told(GROWN, acker, ticks, fail(5, "timeout"), again, late, execute(4), emit(None, 9), ack(6))
    assert report.sentence == repr(report) == (
        "2 trees of 5 tuples in all: 1 acked, 1 timed out; 1 answer arrived late; 1 execution came too late for any tree; "
        "1 emit had no tree; 4 messages reached the ackers."
    )
    assert (report.count("timed out"), report.count("failed"), report.late_answers) == (1, 0, 1)
    assert [tree.attempt for tree in report.trees] == [1, 2]


def test_report_without_trees_says_so() -> None:
    """A run whose tuples nobody follows, and one without a topology, have no trees."""
    assert told(emit(None, 1), emit(None, 2)).sentence == "No tree was followed; 2 tuples left the spout untracked."
    trace = Trace("r", "e")
    trace.record(0, "spout", "emit", topic="t", partition=0, offset=0, attempt=1, parts=1)
    trace.record(1, "spout", "ack", topic="t", partition=0, offset=0)
    trace.record(2, "spout", "fail", topic="t", partition=0, offset=0, retry=True)
    assert follow_trees(trace) == TreeReport()
    assert follow_trees(trace).sentence == "No tree was followed; 0 tuples left the spout untracked."


def test_table_of_many_trees_is_short_and_escaped() -> None:
    """The table holds the first trees and says how many more there are; roots are short."""
    report = told(*(emit(-(2**60) - number, number, offset=number) for number in range(1, 31)))
    page = report._repr_html_()
    assert page.count("<tr>") == 13 and "and 18 more trees" in page
    assert "<td>…ffff</td>" in page
    hostile: Any = "<script>"
    assert "&lt;script&gt;" in told(emit(5, 1, offset=hostile))._repr_html_()


RUNS: list[tuple[str, dict[str, Any]]] = [
    *(("tuple_tree", {"fault": fault, "id_bits": 64}) for fault in ("none", "fail", "drop", "raise", "lose")),
    ("tuple_tree", {"id_bits": 4, "fail_percent": 20}),
    ("tuple_tree", {"join": True, "fan_out": 2, "acker_release": "2.4.0", "fail_percent": 10}),
    ("reliability_off", {"topology_ackers": 2}),
    *((name, {}) for name in ("bolt_crash", "acker_crash", "spout_crash", "word_count")),
]


@pytest.mark.parametrize(("name", "knobs"), RUNS, ids=str)
def test_trees_of_an_experiment_agree_with_what_its_tasks_say(name: str, knobs: dict[str, Any]) -> None:
    """On a real run: each answer a spout took ended one tree, and a tree acked in truth had all its tuples acked."""
    trace = experiments.run(name, seed=7, **knobs)
    report, words = follow_trees(trace), trace.words()
    assert len(report.trees) == words["emit"] == sum(report.count(end) for end in ENDS)
    assert (report.acked, report.count("failed") + report.count("timed out")) == (words["ack"], words.get("fail", 0))
    assert (report.late_answers, report.untracked) == (words.get("late", 0), 0)
    for tree in report.trees:
        assert tree.acked <= tree.tuples and (tree.end != "acked" or tree.is_false or tree.acked == tree.tuples)
    assert bool(report.false_completions) is (knobs.get("id_bits") == 4)


def test_tracking_costs_sixteen_bytes_a_tree_in_each_tuple_and_a_message_for_each_ack() -> None:
    """Without ackers a tuple carries one byte of ids, and nobody is told anything."""
    tracked, plain = (tracking_of(run("reliability_off", lose_percent=0, topology_ackers=ackers)) for ackers in (1, 0))
    assert tracked.tuples == plain.tuples == 120 and (plain.id_bytes, plain.messages) == (120, 0)
    assert tracked.id_bytes == 120 * 17 and tracked.messages == 40 + 120 and tracked.message_bytes == 16 * 160
    spread = tracking_of(run("reliability_off", lose_percent=0, topology_ackers=4))
    assert spread.messages == tracked.messages and 160 / 4 <= spread.busiest < tracked.busiest
