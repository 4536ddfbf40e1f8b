"""The exercises of notebooks 00 and 01: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from kitlib.exercises import check, exercises, nb_00, nb_01
from kitlib.exercises.answers import NotYet, a_function
from kitlib.exercises.frame import Exercise, Given, Rows, find, values_of
from kitlib.exercises.spouts import spout_on
from kitlib.experiments import run
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.trace import from_ranges
from tests.exercises import solutions
from tests.exercises.solutions import slip, slips

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


STUB = slip("own_ack", "w(offset - limit)\n    p", "w(offset)\n    else:\n        p")  # as 0.9.2


class MendedManager(PartitionManager):
    """A whole class is an answer, too."""

    def ack(self, offset: int) -> Any:
        return solutions.own_ack(self, offset)


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("mend_the_crash", ..., "5 records are processed twice"),
    ("mend_the_crash", {"commit_every_ms": 20}, "none of them twice"),
    ("mend_the_crash", {"commit_every_ms": "2e1"}, "none of them twice"),
    ("name_the_anomalies", ..., "and the settings explain every one of them"),
    ("name_the_anomalies", ["Reordered", "duplicated "], "and the settings explain every one of them"),
    ("done_but_not_saved", ..., "a crash now would repeat 6"),
    ("done_but_not_saved", 6.0, "a crash now would repeat 6"),
    ("what_is_committed", ..., "[3, 6, 9]"),
    ("cheap_restart", ..., "The price is waiting, for as long as the record is stuck"),
    ("commit_goes_back", ..., "write 2, then 0"),
    ("commit_goes_back", ["next", "ack 0", "commit", "fail 0", "next", "next", "commit"], "write 1, then 0"),
    ("forgotten_too_much", ..., "8 of them are inside the limit"),
    ("forgotten_too_much", [36, 35, 34, 33, 32, 31, 30, 29], "37, which is finished, is still pending"),
    ("own_ack", ..., "every recorded step"),
    ("own_ack", MendedManager, "every recorded step"),
    ("own_partition_manager", ..., "every recorded step"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("mend_the_crash", {}, "this turns 0"),
    ("mend_the_crash", {"force_from_start": True, "commit_every_ms": 20}, "this turns 2"),
    ("mend_the_crash", {"commit_every_ms": 50}, "50 is the default of commit_every_ms"),
    ("mend_the_crash", {"commit_every_ms": 46}, "only 5 of 6 records are processed (no stored offset"),
    ("mend_the_crash", {"crash_at_ms": 60}, "belongs to the story"),
    ("mend_the_crash", {"force_from_strat": True}, "has no knob 'force_from_strat'"),
    ("mend_the_crash", {"commit_every_ms": 0}, "expected 10 to 60,000 ms"),
    ("mend_the_crash", "force_from_start", "a dict of knobs"),
    ("name_the_anomalies", set(), "you name none; 2 apply"),
    ("name_the_anomalies", "duplicated", "1 more"),
    ("name_the_anomalies", {"lost", "duplicated", "reordered"}, "'lost' does not occur"),
    ("name_the_anomalies", {"duplicated", "reordered", "stalled"}, "'stalled' does not occur"),
    ("name_the_anomalies", {"repeated"}, "should be one of 'lost'"),
    ("name_the_anomalies", 2, "a set of names"),
    ("done_but_not_saved", 10, "10 is all processed records"),
    ("done_but_not_saved", 4, "the committed offset itself"),
    ("done_but_not_saved", 5, "it is not 5"),
    ("done_but_not_saved", "6", "should be a number"),
    ("done_but_not_saved", float("nan"), "a whole number"),
    ("what_is_committed", 6, "a commit of 6 would say that the failed offset 3 is done"),
    ("what_is_committed", 9, "but 2 offsets are not"),
    ("what_is_committed", 8, "the highest acked offset"),
    ("what_is_committed", 7, "how many were acked"),
    ("what_is_committed", 2, "one further"),
    ("what_is_committed", 10, "emitted_to_offset"),
    ("cheap_restart", {}, "the restart repeats 38"),
    ("cheap_restart", {"max_spout_pending": 3}, "which is right, but the restart repeats 38 records; expected fewer than 10"),
    ("cheap_restart", {"max_offset_behind": 5}, "1 will never be processed (max_offset_behind=5"),
    ("cheap_restart", {"max_offset_behind": 5}, "expected none lost"),
    ("cheap_restart", {"process_ms": 1000}, "33 will never be processed (no stored offset"),
    ("cheap_restart", {"stuck_offset": -1}, "belongs to the story"),
    ("commit_goes_back", "next, ack 0, commit, fail 0, commit", "which is right so far, but is in failed and not in pending"),
    ("commit_goes_back", "next, ack 0, commit, fail 0, next, next", "and offset 0 is pending again: right so far, but one call is missing"),
    ("commit_goes_back", "next, fail 0, commit, commit", "Offset 0 is in failed and not in pending"),
    ("commit_goes_back", "next, commit, ack 0, commit", "never less than before"),
    ("commit_goes_back", "next, ack 0, commit", "takes two"),
    ("commit_goes_back", "next, ack 1, back", "'back' is not a call"),
    ("commit_goes_back", "ack 0, next", "before that offset was emitted"),
    ("commit_goes_back", ["next"] * 41, "41 calls"),
    ("forgotten_too_much", range(37), "0.9.3 forgets 29 of them too"),
    ("forgotten_too_much", range(29), "both releases forget them"),
    ("forgotten_too_much", range(29, 38), "37 is the acked one"),
    ("forgotten_too_much", range(28, 37), "fewer"),
    ("forgotten_too_much", [3, 44], "not the offsets"),
    ("own_ack", STUB, "pending should now be {104}; yours is {103..104}"),
    *slips(
        "own_ack",
        ("w(offset - limit)", "w(offset - limit + 1)", "pending should now be {106..109}; yours is {107..109}"),
        ("discard(offset)", "discard(offset)\n    manager.failed.discard(offset)", "failed should now be {1}; yours is nothing"),
        ("manager.number_acked += 1", "pass", "number_acked should now be 3; yours is 0"),
        ("discard(offset)", "discard(offset)\n    assert offset <= 101, 'lost my way'", "your code raised AssertionError: lost my way"),
    ),
    ("own_ack", lambda manager: None, "your code raised TypeError"),
    ("own_ack", PartitionManager.ack, "the kit's own"),
    ("own_ack", type("AddsNothing", (PartitionManager,), {}), "the kit's own"),
    *slips(
        "own_partition_manager",
        ("self.pending.first() if self.pending else self.emitted_to_offset", "self.emitted_to_offset",
         "start(); next(); commit(): committed_to should now be "),
        ("self.failed.add(offset)", 'raise LookupError("not yet written")', "your code raised LookupError: not yet written"),
    ),
    ("own_partition_manager", type("AddsNothing", (PartitionManager,), {}), "this is the kit's own, or built on it."),
]  # fmt: skip


def test_notebook_00_story_is_the_checked_one() -> None:
    """The story that the learner runs and the one that the check runs have the same knobs."""
    cells = nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4).cells
    line = next(line for cell in cells for line in cell.source.splitlines() if line.startswith("story = "))
    assert line == f"story = dict({', '.join(f'{name}={value}' for name, value in nb_00.STORY.items())})"


def test_done_but_not_saved_truth_is_read_off_the_trace() -> None:
    """The answer is what the run's own steps say: processed offsets that the first written commit does not cover."""
    trace = run("happy_path", **nb_01.SCRUBBED)
    commit = next(step for step in trace if step.what == "commit" and step.data["written"])
    done = [step.data["offset"] for step in trace.steps[: commit.number] if step.what == "process"]
    assert sorted(done) == from_ranges(commit.state["processed"])
    assert check("done_but_not_saved", sum(offset >= commit.data["offset"] for offset in done)).passed


def test_exercises_are_in_the_order_of_the_notebooks() -> None:
    """The list of exercises follows the notebooks, and each has one name."""
    names = list(exercises())
    assert sorted(notebooks := [each.told.notebook for each in exercises().values()]) == notebooks and len(set(notebooks)) == 47
    assert names[:8] == [
        "mend_the_crash", "name_the_anomalies", "what_is_committed", "done_but_not_saved", "cheap_restart",
        "commit_goes_back", "forgotten_too_much", "own_ack",
    ]  # fmt: skip


def calling(*arguments: Any) -> Exercise:
    """An exercise that shows what a function returns for each argument."""

    def rule(function: Any) -> Rows:
        yield str(values_of(function, [[each] for each in arguments]))

    return Exercise("called", Given(a_function), rule)


def test_find_tells_what_the_learners_code_printed() -> None:
    """Prints of the learner's function are not lost: their beginning stands behind the finding, on one line."""

    def talks(number: int) -> int:
        print(f"got {number}\n\x1b[31m" + "and so on " * 100)
        return number

    finding = find(calling(1, 2), talks)
    assert finding.passed and finding.said == "[1, 2]"
    assert "Your code printed: got 1\\n\\x1b[31mand so on" in repr(finding) and len(repr(finding)) < 250
    assert finding.printed.startswith("got 1\n")


def test_values_of_names_the_learners_line_and_not_the_kits() -> None:
    """An exception inside of the kit points at the learner's line that led there."""

    def asks_for_nothing(records: int) -> int:
        return spout_on(records).pending.first()

    with pytest.raises(NotYet, match=r"KeyError.*of asks_for_nothing"):
        values_of(asks_for_nothing, [[1]])


def test_offsets_without_an_end_are_refused() -> None:
    """A range that no computer can look through is a wrong answer at once."""
    assert "more than 1,000,000 offsets" in check("forgotten_too_much", range(10**30)).said
