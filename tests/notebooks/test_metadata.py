"""What a notebook says of itself: minutes, needs, aims and key points, in its metadata for programs and in its cells for learners."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kitlib.exercises.course import number_of
from kitlib.exercises.instructor import minutes_of
from tests.conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
NUMBERS = [number_of(path.stem) for path in NOTEBOOKS]
LONGEST = 60  # minutes
TOLERANCE = 0.25
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> tuple[Any, dict[str, Any]]:
    """The cells of a notebook and what it says of itself."""
    notebook = nbformat.read(path, 4)
    return notebook.cells, notebook.metadata["course"]


def points_of(text: str) -> list[str]:
    return re.findall(r"^\* (.+)$", text, re.MULTILINE)


@each_notebook
def test_minutes_are_what_the_notebook_takes(path: Path) -> None:
    """Reading, running, predicting, playing and the exercises take the stated minutes, within a quarter, and an hour at most."""
    cells, course = read(path)
    minutes = minutes_of(cells)
    assert minutes <= LONGEST and abs(minutes / course["minutes"] - 1) <= TOLERANCE, f"it takes {minutes:.0f} minutes"


@each_notebook
def test_first_cell_says_aims_minutes_and_needs(path: Path) -> None:
    """A learner reads the same as a program: what one can do afterwards, how long it takes, what comes before."""
    cells, course = read(path)
    first = cells[0].source
    assert [point.rstrip(".;") for point in points_of(first.partition("After it you can")[2])] == course["objectives"] and 2 <= len(course["objectives"]) <= 4
    assert re.findall(r"\b[Aa]bout (\d+) minutes", first) == [str(course["minutes"])]
    needs = "".join(re.findall(r"It needs notebooks? (.+)\.", first))
    assert re.findall(r"\d\d[a-z]?", needs) == course["needs"]


@each_notebook
def test_key_points_are_those_of_what_to_keep(path: Path) -> None:
    """The section that a learner rereads has three to six points."""
    cells, course = read(path)
    [kept] = [cell.source for cell in cells if cell.source.startswith("## What to keep")]
    assert points_of(kept) == course["key_points"] and 3 <= len(course["key_points"]) <= 6


@each_notebook
def test_nothing_is_needed_before_it_is_taught(path: Path) -> None:
    """What a notebook needs comes before it."""
    assert set(read(path)[1]["needs"]) <= set(NUMBERS[: NUMBERS.index(number_of(path.stem))])
