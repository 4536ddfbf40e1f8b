"""docs/workshop.md: its plans come to their minutes, and what it says of questions and answers is what the kit says."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kitlib.exercises import exercises, incidents
from kitlib.exercises.frame import find
from kitlib.exercises.instructor import Asked, by_section, sections_of
from kitlib.lab import notebooks

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "workshop.md").read_text(encoding="utf-8")
TABLES = re.findall(r"\| from \| minutes .*\n\| ---.*\n((?:\|.*\n)+)", PAGE)
TOTALS = (90, 240, 420, 420)
LEAST = 0.75  # of a section's minutes: a group is led through it, and does not read alone
FEWEST_FOR_AN_EXERCISE = 5  # minutes, in a group


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in table.splitlines()]


ROWS = [row for table in TABLES for row in rows_of(table)]
SECTIONS = [row for row in ROWS if re.search(r"\) \*.+\*$", row[2])]
EXERCISES = [row for row in ROWS if ") exercise `" in row[2]]


@cache
def sections(name: str) -> dict[str, tuple[float, list[Asked]]]:
    """Of a notebook: each section's minutes and predictions."""
    cells = notebooks.load(ROOT / "notebooks" / name).cells
    parts = sections_of(cells)
    return {part.title: (part.minutes, asked) for part, asked in zip(parts, by_section(parts, cells), strict=True)}


def planted() -> list[tuple[str, Any]]:
    """The wrong answers in the tests of the exercises: name and answer."""
    modules = [importlib.import_module(f"{__package__}.{path.stem}") for path in Path(__file__).parent.glob("test_checks_*.py")]
    return [(row[0], row[1]) for module in modules for row in module.WRONG]


@pytest.mark.parametrize(("table", "total"), list(zip(TABLES, TOTALS, strict=True)), ids=["90 minutes", "half a day", "day 1", "day 2"])
def test_a_plan_comes_to_its_minutes(table: str, total: int) -> None:
    """Each row begins when the one before ends, and the last line has the sum."""
    rows, at = rows_of(table), 0
    for begins, minutes, *_ in rows[:-1]:
        assert begins == f"{at // 60}:{at % 60:02}"
        at += int(minutes)
    assert rows[-1][:3] == [f"{total // 60}:{total % 60:02}", str(total), "the end"] and at == total


@pytest.mark.parametrize("row", SECTIONS, ids=lambda row: row[2][:60])
def test_a_section_has_its_time_and_its_question(row: list[str]) -> None:
    """The section is in that notebook and gets most of its own minutes; a question with a right answer is asked there."""
    [(name, title)] = re.findall(r"\(\.\./notebooks/(\S+)\) \*(.+)\*$", row[2])
    minutes, asked = sections(name)[title]
    assert int(row[1]) >= LEAST * minutes, f"{title} takes {minutes:.0f} minutes"
    question, right = re.findall(r"^(.+?)(?: \*\*(.+)\*\*)?$", row[3])[0]
    assert not asked or (question, right) in [(each.question, each.right) for each in asked]


@pytest.mark.parametrize("row", EXERCISES, ids=lambda row: f"{row[2][-30:]} {row[0]}")
def test_an_exercise_has_its_notebook_and_planted_wrong_answers(row: list[str]) -> None:
    """The exercise is of that notebook; each wrong answer is one of those planted in the tests, with the reply of its check."""
    [(number, name)] = re.findall(r"^\[(\d\d[a-z]?)\].* exercise `(\w+)`$", row[2])
    exercise = exercises()[name]
    assert exercise.notebook == number and int(row[1]) >= FEWEST_FOR_AN_EXERCISE
    wrong = re.findall(r"`(.+?)`: (.+?)(?:<br>|$)", row[4])
    assert len(wrong) >= 2
    for text, reply in wrong:
        answer = ast.literal_eval(text) if not text.startswith("range") else range(*ast.literal_eval(text[5:]))
        assert (name, answer) in planted()
        found = find(exercise, answer)
        assert not found.passed and found.said.rstrip(".") == reply


def test_every_row_is_a_section_an_exercise_or_neither() -> None:
    """No row of a notebook escapes the tests above."""
    assert len([row for row in ROWS if "](../notebooks/" in row[2]]) == len(SECTIONS) + len(EXERCISES) > 40


def test_the_incidents_that_are_named_are_one_of_each_kind() -> None:
    """The page's seeds draw every kind, and its plans use seeds of these."""
    [text] = re.findall(r"Seeds ([\d, and\n]+) are one of each", PAGE)
    seeds = [int(seed) for seed in re.findall(r"\d+", text)]
    assert {incidents.incident(seed).kind.cause for seed in seeds} == {kind.cause for kind in incidents.KINDS}
    assert len(seeds) == len(incidents.KINDS)
    assert {int(seed) for seed in re.findall(r"Incident room: `kit incident --seed (\d+)`", PAGE)} <= set(seeds)


def test_the_memory_to_plan_is_above_what_was_measured() -> None:
    """The advice follows from the table."""
    table = PAGE.partition("| | MiB | of which |\n")[2].partition("\n\n")[0]
    measured = {row[0]: int(row[1].rpartition(" to ")[2].replace(",", "")) for row in rows_of(table)[1:]}
    spark = next(value for name, value in measured.items() if "Spark" in name)
    three = next(value for name, value in measured.items() if "three brokers" in name)
    others = [value for value in measured.values() if value not in (spark, three)]
    advised = [float(each) * 1000 for each in re.findall(r"(\d+(?:\.\d+)?) GB", PAGE.partition("So plan")[2])[:3]]
    assert len(others) == 3 and max(others) < advised[0] and three < advised[1] and spark < advised[2]
