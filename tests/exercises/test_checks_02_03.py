"""The exercises of notebooks 02 and 03: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from kitlib.exercises import check, nb_02, nb_03
from kitlib.experiments import run
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.monitor.delivery import judge
from kitlib.more.spout.earlier import EarlierPartitionManager
from tests.exercises import solutions
from tests.exercises.solutions import slip, slips

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def all_without_a_result(results: Any) -> set[int]:
    done = {offset for _, offset in results}
    return set(range(max(done))) - done


ALL_THAT_WAS_CLEARED = slip("forgotten", ' - {step.data["offset"] for step in trace if step.what == "process"}', "")
SKIPPED = nb_03.LOG_END - nb_03.STORED
NOT_FORCED = {"max_offset_behind": "unlimited", "force_from_start": False}
FORCED = {"max_offset_behind": "unlimited", "force_from_start": True}

SOLUTIONS: list[tuple[str, Any, str]] = [
    ("smallest_bound", ..., "with one less it is refused"),
    ("smallest_bound", 250.0, "with one less it is refused"),
    ("forgotten", ..., "agrees on"),
    ("forgotten", lambda trace: sorted(solutions.forgotten(trace)), "agrees on"),
    ("stop_the_partition", ..., "19 of 40"),
    ("stop_the_partition", {"max_spout_pending": "1"}, "19 of 40"),
    ("choose_a_default", ..., "one poison record is lost"),
    ("choose_a_default", {"max_offset_behind": 100, "poison": "Lost"}, "one poison record is lost"),
    ("choose_a_default", {"max_offset_behind": "unlimited", "poison": "stalled"}, "one poison record is stalled"),
    ("choose_a_default", {"max_offset_behind": 1_000, "poison": "stalled"}, "one poison record is stalled"),
    ("passed_over", ..., "agrees on 4 runs"),
    ("silent_jump", ..., "without an error"),
    ("lying_line", ..., "lies twice"),
    ("lying_line", " c", "lies twice"),
    ("reproduce_the_jump", ..., "29 records were skipped"),
    (
        "reproduce_the_jump",
        {"same_topology_id": False, "force_from_start": False, "max_offset_behind": 39},
        "29 records were skipped",
    ),
    (
        "reproduce_the_jump",
        {"same_topology_id": False, "max_offset_behind": 100, "records_while_down": 500},
        "509 records were skipped",
    ),
    ("second_bug", ..., "10 unfinished records within 10"),
    ("second_bug", [*range(1, 12), 25], "10 unfinished records within 10"),
    ("defend_a_start", ..., "the price: loss"),
    ("defend_a_start", {**FORCED, "price": "duplicates"}, "the price: duplicates"),
    ("defend_a_start", {**FORCED, "max_offset_behind": 50, "price": "duplicates"}, "the price: duplicates"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("smallest_bound", 249, "is refused"),
    ("smallest_bound", 251, "a smaller bound would do"),
    ("smallest_bound", 0, "is refused"),
    ("forgotten", ALL_THAT_WAS_CLEARED, "and it was processed anyway, at step 26"),
    *slips(
        "forgotten",
        ('offset in from_ranges(step.data["ranges"])', 'first, last in step.data["ranges"] for offset in range(first, last)',
         "the last one of its range"),
        ('in trace if step.what == "clear"', 'in [step for step in trace if step.what == "clear"][-1:]',
         "cleared it, and it was never processed"),
        ("cleared - {", '{step.data["offset"] for step in trace if step.what == "emit"} - {', "no ack cleared it"),
        ("cleared - {", '{step.data["offset"] for step in trace if step.what == "fail" and not step.data["retry"]}  # {',
         "no ack cleared it"),
    ),
    ("forgotten", lambda trace: trace.step, "AttributeError"),
    ("stop_the_partition", {"max_spout_pending": 2}, "39 of 40"),
    ("stop_the_partition", {"fetch_records": 1}, "how many new records come at once"),
    ("stop_the_partition", {"max_spout_pending": 1, "fetch_records": 1}, "this turns 2"),
    ("choose_a_default", {"max_offset_behind": 20, "poison": "lost"}, "fetches of 40 records"),
    ("choose_a_default", {"max_offset_behind": 40, "poison": "stalled"}, "and the commit passes it silently"),
    ("choose_a_default", {"max_offset_behind": "unlimited", "poison": "lost"}, "nothing ever clears"),
    ("choose_a_default", {"max_offset_behind": 40}, "no answer for poison"),
    ("passed_over", all_without_a_result, "it may still be processed"),
    ("passed_over", lambda results: set(range(results[-1][0])), "and it has a result"),
    ("passed_over", lambda results: [], "none belongs to offset"),
    ("silent_jump", nb_03.STORED, "is an offset"),
    ("silent_jump", SKIPPED - 100_000, "you subtracted the bound of 100,000"),
    ("silent_jump", 100_000, "is the bound"),
    ("silent_jump", SKIPPED - 1, "off by one"),
    ("silent_jump", 12, "is not the distance"),
    ("lying_line", "A", "line A only says what was stored"),
    ("lying_line", "B", "had committed"),
    ("lying_line", "D", "is true"),
    ("reproduce_the_jump", {"max_offset_behind": 30}, "restarts the same topology"),
    (
        "reproduce_the_jump",
        {"same_topology_id": False, "force_from_start": True, "max_offset_behind": 30},
        "this start is forced",
    ),
    ("reproduce_the_jump", {"same_topology_id": False, "start_offset_time": "latest"}, "not too far ahead"),
    (
        "reproduce_the_jump",
        {"same_topology_id": False, "max_offset_behind": 9, "records_while_down": 9, "force_from_start": False},
        "3 knobs are enough",
    ),
    ("second_bug", [], "without an ack"),
    ("second_bug", list(range(40)), "everything below it is finished"),
    ("second_bug", list(range(1, 12)), "passed 1 unfinished record, all more than 10 behind an acked one"),
    ("second_bug", [30, 30], "each ack should name a different one of the 40 emitted records"),
    ("second_bug", [40], "0 to 39"),
    ("defend_a_start", {**NOT_FORCED, "price": "duplicates"}, "it jumps over 25 records that were still there"),
    ("defend_a_start", {**FORCED, "price": "loss"}, "but a redeployment processes 20 records again"),
    ("defend_a_start", {**NOT_FORCED, "max_offset_behind": 100_000, "price": "loss"}, "100,001 records waiting"),
    ("defend_a_start", {**NOT_FORCED, "max_offset_behind": 30, "price": "loss"}, "20 records that arrived"),
]  # fmt: skip


def test_notebook_03_retells_the_numbers_that_are_checked() -> None:
    """The log lines of the notebook have the stored offset and the log's end that the checks use."""
    cells = nbformat.read(NOTEBOOKS / "03a_where_a_restart_begins.ipynb", as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert f"{nb_03.STORED:,}" in prose and f"{nb_03.LOG_END:,}" in prose
    assert f"{SKIPPED:,}" not in prose and str(SKIPPED) not in prose


def test_silent_jump_without_a_jump_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bound is not exceeded the rule goes on from the stored offset, and nothing is skipped."""
    monkeypatch.setattr(nb_03, "LOG_END", nb_03.STORED + nb_03.DEFAULT_MAX_OFFSET_BEHIND)
    assert nb_03.jumped_spout().committed_to == nb_03.STORED
    assert check("silent_jump", 0).passed


def test_second_bug_no_history_of_one_ack_breaks_0_9_3() -> None:
    """0.9.3 never passes an unfinished record within the bound; 0.9.2 does after every ack beyond it."""
    for offset in range(nb_03.BUG_RECORDS):
        assert not nb_03.young_losses(PartitionManager, [offset])
        assert bool(nb_03.young_losses(EarlierPartitionManager, [offset])) == (offset > nb_03.BUG_BOUND)


def test_forgotten_is_what_the_verdict_calls_lost_or_about_to_be() -> None:
    """Whatever a run of the exercise lost was forgotten: cleared and never worked on."""
    for seed, knobs in nb_02.FORGOTTEN_RUNS:
        trace = run("small_max_offset_behind", seed=seed, **knobs)
        assert judge(trace).counts["lost"] <= len(solutions.forgotten(trace))


def test_wrong_answers_about_a_run_bring_its_picture() -> None:
    """Where a run shows what is wrong, its picture comes with the sentence, the same each time."""
    for name, answer in [
        ("forgotten", ALL_THAT_WAS_CLEARED),
        ("stop_the_partition", {"fetch_records": 1}),
        ("choose_a_default", {"max_offset_behind": 5, "poison": "lost"}),
        ("reproduce_the_jump", {"same_topology_id": False, "max_offset_behind": 40}),
        ("defend_a_start", {**NOT_FORCED, "price": "duplicates"}),
    ]:
        assert check(name, answer).picture.svg == check(name, answer).picture.svg
