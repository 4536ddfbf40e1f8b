"""The instructor's view: every question of a notebook with what is right, from the one source that learners are checked with."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from kitlib.errors import KitError
from kitlib.exercises import exercises
from kitlib.exercises.course import number_of
from kitlib.exercises.instructor import minutes_of, page_of, sections_of, view
from kitlib.exercises.prose import to_explain
from kitlib.lab import notebooks

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def views() -> dict[str, str]:
    return {path.stem: view(path, exercises()) for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_question_of_a_notebook_is_in_its_view_with_the_answer(path: Path, views: dict[str, str]) -> None:
    """Predictions, exercises with solution and discussion, and questions to explain with their model answers."""
    told, number = views[path.stem], number_of(path.stem)
    code = [cell.source for cell in notebooks.load(path).cells if cell.cell_type == "code"]
    asked = sum(len(re.findall(r"(?<!import )\bpredict\(", source)) for source in code)
    answered = re.split(r"^\*\*Asked:\*\* ", told.partition("\n## Exercises\n")[0], flags=re.MULTILINE)[1:]
    assert len(answered) == asked > 0
    assert [each for each in answered if not re.search(r"^(\*\*Right:\*\* |```text|\*\*Then the notebook says)", each, re.MULTILINE)] == []
    for exercise in exercises().values():
        if exercise.told.notebook == number:
            solution = f"```python\n{exercise.told.code}\n```\n\n{exercise.told.text}"
            assert f"### {exercise.name}\n\n{exercise.told.question}\n\n{solution}" in told
            assert all(hint in told for hint in exercise.told.hints)
    for explained in to_explain().values():
        if explained.notebook == number:
            assert f"### {explained.name}\n\n{explained.question}\n\n{explained.text}" in told
    rows = [int(minutes) for minutes in re.findall(r"^\| (?!all).* \| (\d+) \| \d+ \| \d+ \|$", told, re.MULTILINE)]
    [whole] = re.findall(r"^\| all \| (\d+) \|", told, re.MULTILINE)
    assert abs(sum(rows) - int(whole)) <= len(rows) / 2


def test_an_answer_that_counts_as_right_is_near_the_truth(views: dict[str, str]) -> None:
    """No tolerance is more than a quarter of what is right, and of nothing there is none."""
    rows = [row for told in views.values() for row in re.findall(r"\*\*Right:\*\* ([\d,.]+)( s)?.*, within ([\d.]+)( ms)?", told)]
    far = [row for row in rows if float(row[2]) > float(row[0].replace(",", "")) * (1_000 if row[1] and row[3] else 1) / 4]
    assert far == [] and len(rows) > 40


@pytest.mark.parametrize(
    ("stem", "words"),
    [
        ("00_start_here", "**Right:** 5 records"),
        ("02c_no_bound_and_a_poison_record", "**Asked:** Where does the commit end?\n\n**Right:** 13"),
        ("03a_where_a_restart_begins", "At which offset of payments does the second spout begin?"),
        ("05a_three_crashes", ", within "),
        ("06b_batches_and_sinks", "(exactly once / at least once / at most once / none)"),
        ("13a_acknowledged_and_lost", "**Asked:** How many acknowledged records are lost?\n\n**Right:** 10 records"),
        ("13a_acknowledged_and_lost", "10 lost, 40 duplicated"),
    ],
)
def test_answer_of_a_prediction_is_computed_from_its_run(stem: str, words: str, views: dict[str, str]) -> None:
    """A number with its unit, a commit, a choice with all of them, how far off is still right, and what the cells print."""
    assert words in views[stem]


def test_view_of_a_notebook_without_exercises_is_refused(tmp_path: Path) -> None:
    """A notebook that is not of the course has no view."""
    path = tmp_path / "99_other.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Other")]), path)
    with pytest.raises(KitError, match="nothing to say to an instructor"):
        view(path, exercises())


def test_minutes_of_sections_come_to_those_of_the_notebook() -> None:
    """No cell is counted twice or left out."""
    for path in NOTEBOOKS:
        cells = notebooks.load(path).cells
        assert sum(part.minutes for part in sections_of(cells)) == pytest.approx(minutes_of(cells), rel=0.01)


def test_page_runs_no_script_and_asks_for_nothing() -> None:
    """What a notebook or a run has put into the text cannot run: the policy of the page forbids it."""
    page = page_of("# A `title`\n\n<script>alert(1)</script>\n\n| a |\n| --- |\n| 1 |\n")
    assert "default-src &#39;none&#39;" in page.partition("<script")[0] and "<title>A title</title>" in page and "<td>1</td>" in page


def test_command_writes_a_page_and_refuses_what_is_no_notebook(tmp_path: Path) -> None:
    """A file that ends in .html is a page; another number is a sentence with the way to a right one."""
    command = [sys.executable, "-m", "kitlib", "course", "instructor"]
    out = tmp_path / "02.html"
    done = subprocess.run([*command, "02", "--out", str(out)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == f"{out}\n" and "<h3" in out.read_text(), done.stderr
    refused = subprocess.run([*command, "77"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "Name one by its number" in refused.stderr
