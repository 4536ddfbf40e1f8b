"""A workshop's plans come to their minutes, and its leader's page says what the notebooks and the checks say."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import KitError
from kitlib.exercises import exercises, incidents
from kitlib.exercises.frame import find
from kitlib.exercises.instructor import sections_of
from kitlib.exercises.plans import DAYS, PLANS, Row, notebook_of, often, page_of_plan
from kitlib.lab import notebooks

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "workshop.md").read_text(encoding="utf-8")
LEAST = 0.75  # of a section's minutes: a group is led through it, and does not read alone
FEWEST_FOR_AN_EXERCISE = 5  # minutes, in a group
ROWS = list(dict.fromkeys(row for _, _, rows in PLANS.values() for row in rows))
SECTIONS = [row for row in ROWS if row.notebook and not row.is_exercise]
EXERCISES = [row for row in ROWS if row.is_exercise]


def planted() -> list[tuple[str, Any]]:
    """The wrong answers in the tests of the exercises: name and answer."""
    modules = [importlib.import_module(f"{__package__}.{path.stem}") for path in Path(__file__).parent.glob("test_checks_*.py")]
    return [(row[0], row[1]) for module in modules for row in module.WRONG]


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_comes_to_its_minutes_and_ends_with_an_incident(plan: str) -> None:
    """The sum is that of its title; the desk is in it, and the last thing that is worked on is an incident."""
    _, total, rows = PLANS[plan]
    assert sum(row.minutes for row in rows) == total
    assert [row for row in rows if row.notebook or row.seed is not None][-1].seed is not None
    assert {("00", "The desk"), ("08c", "4")} & {(row.notebook, row.part) for row in rows}


@pytest.mark.parametrize("plan", ["day", "two"])
def test_the_long_plans_have_the_acker_six_in_flight_and_spark(plan: str) -> None:
    """All three mechanisms, and what Spark counted, are in a day and in two."""
    numbers = {row.notebook for each in DAYS.get(plan, (plan,)) for row in PLANS[each][2]}
    assert {"02a", "02b", "04b", "07a", "08b"} <= numbers


@pytest.mark.parametrize("row", SECTIONS, ids=lambda row: f"{row.text} {row.minutes}")
def test_a_section_is_there_and_has_its_time(row: Row) -> None:
    """The section is in that notebook and gets most of its own minutes."""
    parts = sections_of(notebooks.load(notebook_of(row)).cells)
    [minutes] = [part.minutes for part in parts if part.title == row.part or part.title.startswith(f"{row.part}. ")]
    assert row.minutes >= LEAST * minutes, f"it takes {minutes:.0f} minutes"


@pytest.mark.parametrize("row", EXERCISES, ids=lambda row: f"{row.part} {row.minutes}")
def test_an_exercise_has_its_notebook_and_planted_wrong_answers(row: Row) -> None:
    """The exercise is of that notebook, and its wrong answers are some of those planted in the tests, and wrong."""
    exercise = exercises()[row.part]
    assert exercise.told.notebook == row.notebook and row.minutes >= FEWEST_FOR_AN_EXERCISE and len(often(exercise)) >= 2
    for answer in often(exercise):
        assert (row.part, answer) in planted() and not find(exercise, answer).passed


def test_the_leaders_page_has_questions_right_answers_and_wrong_ones() -> None:
    """One page for 90 minutes: when, what is asked, what is right, and the incident's command."""
    page = page_of_plan("90")
    assert "| 0:05 | 8 | 00, *A first loss* |" in page and "kit incident --seed 0 --answers" in page
    assert page.count("**Asked:**") > 5 and page.count("**Right:**") >= 5
    half = page_of_plan("half")
    assert "**Wrong answers to expect:**\n\n* `6`: " in half and "**Why:** " in half
    with pytest.raises(KitError, match="The plans are 90, half, day, two"):
        page_of_plan("91")


def test_the_incidents_that_are_named_are_one_of_each_kind() -> None:
    """The page's seeds draw every kind, and its plans use seeds of these."""
    [text] = re.findall(r"Seeds ([\d, and\n]+) are one of each", PAGE)
    seeds = [int(seed) for seed in re.findall(r"\d+", text)]
    assert {incidents.incident(seed).kind.cause for seed in seeds} == {kind.cause for kind in incidents.KINDS}
    assert len(seeds) == len(incidents.KINDS)
    asked = {row.seed: row.minutes for row in ROWS if row.seed is not None}
    assert asked.keys() == set(seeds)
    assert all(minutes >= incidents.MINUTES[incidents.incident(seed).difficulty] for seed, minutes in asked.items())
