"""Numbers in prose: what a text says is what the cells of its section show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.notebooks.numbers_said import held_and_free

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
LEAST_HELD = 850  # in all notebooks; 905 when this was written

LISTED = "counts what the text itself lists or names"
REASONED = "follows from what is shown: a sum, a share, the end of a range"
STORY = "a fact of the story that its cells do not print"
HISTORY = "a year, a release or an incident: said of the world, and not of a run"
UNSHOWN = {  # notebook -> reason -> the numbers that no cell of their section shows
    "00": {LISTED: "4 6", STORY: "5 6"},
    "01": {LISTED: "6", REASONED: "4", HISTORY: "0.11", STORY: "49"},
    "02": {STORY: "100"},
    "03": {LISTED: "0 4 5 6 9", STORY: "10", REASONED: "25 29 34 44", HISTORY: "4 2014"},
    "04": {STORY: "10000", REASONED: "58", HISTORY: "20"},
    "05": {STORY: "16"},
    "06": {REASONED: "17 109", LISTED: "6"},
    "09": {HISTORY: "2017", LISTED: "4 6 9"},
    "07": {REASONED: "0 5 10 157 292000 2147483640", STORY: "110 860", HISTORY: "2.8 3.0"},
    "08": {REASONED: "40", STORY: "5 100 110 2110", HISTORY: "2.0"},
    "15": {LISTED: "16", STORY: "10 15"},
    "11": {HISTORY: "2.0 2.1", REASONED: "1"},
    "12": {LISTED: "6", HISTORY: "17 2015", REASONED: "39"},
    "13": {LISTED: "4", STORY: "3 20", REASONED: "45 49", HISTORY: "0.11"},
    "14": {LISTED: "4 8"},
    "10": {STORY: "8 60", REASONED: "24 58 101", HISTORY: "0.9 2020 55000"},
    "16": {LISTED: "4", STORY: "100"},
    "17": {REASONED: "0.1 0.8 3 30 72", LISTED: "5"},
}


def unshown(path: Path) -> set[str]:
    return {number for numbers in UNSHOWN.get(path.stem[:2], {}).values() for number in numbers.split()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_number_in_prose_is_shown_by_a_cell_of_its_section(path: Path) -> None:
    """In its source, its stored output or the defaults of its experiment; what no cell can show is in UNSHOWN, with a reason."""
    _, free = held_and_free(path)
    assert [number for number in free if number[0] not in unshown(path)] == []


def test_most_numbers_are_held_by_cells() -> None:
    """The list of what is not shown stays a short one."""
    found = [held_and_free(path) for path in NOTEBOOKS]
    assert sum(held for held, _ in found) >= LEAST_HELD > 7 * sum(len(free) for _, free in found)


def test_number_that_a_run_gives_no_more_is_found(tmp_path: Path) -> None:
    """39 records are lost in notebook 03b; if they were 41 by another model, its text would have to say so."""
    original = next(path for path in NOTEBOOKS if path.stem.startswith("03b"))
    notebook = json.loads(original.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = json.loads(re.sub(r"\b39\b", "41", json.dumps(cell["outputs"])))
    planted = tmp_path / original.name
    planted.write_text(json.dumps(notebook), encoding="utf-8")
    assert [number for number, _ in held_and_free(planted)[1]].count("39") == 1
