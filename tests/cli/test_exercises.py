"""`kit exercises`: what is done, what comes next, and a notebook from the beginning again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kitlib.exercises import check, exercises, explain
from kitlib.exercises.prose import to_explain
from tests.cli.conftest import CommandLine
from tests.conftest import REPOSITORY


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))


def test_exercises_are_listed_with_what_is_done_and_what_comes_next(command_line: CommandLine) -> None:
    """The overview, one notebook and the next one, as text and as JSON."""
    check("what_is_committed", 3)
    check("cheap_restart", {"max_offset_behind": 5})
    explain("two_seconds_of_work", "a commit stands at the oldest record that is not finished yet")
    code, out, _ = command_line("exercises")
    every = [*(each.told for each in exercises().values()), *to_explain().values()]
    own = sum(row.notebook == "01a" for row in every)
    assert code == 0 and f"[ ] 01a   2 of {own:2}  ##{'-' * (own - 2)}" in out
    assert f'2 of {len(every)} done. Next: check("mend_the_crash", ...) in notebook 00.' in out
    listed = command_line("exercises", "list", "1a")[1].splitlines()
    assert listed[0] == f"01a  2 of {own} done" and [line.split()[-1] for line in listed[1:4]] == ["right", "open", "try"]
    following = command_line("exercises", "next", "01a_one_number_for_many_records")[1]
    assert following.startswith('Next: check("done_but_not_saved", ...) in notebook 01a.\n\n')


def test_exercises_of_no_notebook_are_a_sentence(command_line: CommandLine) -> None:
    """A number that no notebook has is told with those that are there."""
    code, out, told = command_line("exercises", "list", "x\x1b")
    assert (code, out) == (2, "") and "Name one of 00, 01a" in told and "\x1b" not in told


@pytest.mark.parametrize("asked", ["1", "0", "01a_one", "01a; rm", "04b-typo", ""])
def test_reset_takes_exact_names_only(command_line: CommandLine, asked: str) -> None:
    """What is nearly a notebook's name starts no notebook over; the sentence names those that there are."""
    code, out, told = command_line("exercises", "reset", asked, "--yes")
    assert (code, out) == (2, "") and told.startswith(f"kit: {asked!r} is no notebook with exercises. ") and "00, 01a, 01b" in told


@pytest.mark.parametrize("asked", ["01a", "01", "01a_one_number_for_many_records", "work/01a_one_number_for_many_records.ipynb"])
def test_reset_knows_a_notebook_by_number_chapter_name_and_path(command_line: CommandLine, asked: str) -> None:
    """All of these mean the notebook; without --yes nothing is changed."""
    assert "a new copy of 01a_one_number_for_many_records" in command_line("exercises", "reset", asked)[2]


def test_reset_makes_a_new_copy_and_keeps_the_old_one(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner's file is renamed, never deleted; the notebook's exercises are open again, and no others."""
    project = tmp_path / "project"
    (project / "notebooks").mkdir(parents=True)
    for name in ("00_start_here", "01a_one_number_for_many_records"):
        shutil.copy(REPOSITORY / "notebooks" / f"{name}.ipynb", project / "notebooks")
    monkeypatch.chdir(project)
    check("what_is_committed", 3)
    check("mend_the_crash", {"force_from_start": True})
    assert "add --yes" in command_line("exercises", "reset", "01a")[2]
    mine = project / "work" / "01a_one_number_for_many_records.ipynb"
    told = command_line("exercises", "reset", "01a", "--yes")[1]
    assert told.endswith("01a_one_number_for_many_records.ipynb is new. 1 of its exercises forgotten.\n")
    made = mine.read_bytes()
    mine.write_text("my own words")
    assert "yours is 01a_one_number_for_many_records.mine.ipynb now" in command_line("exercises", "reset", "01a", "-y")[1]
    assert mine.read_bytes() == made and mine.with_name("01a_one_number_for_many_records.mine.ipynb").read_text() == "my own words"
    assert "[x] mend_the_crash" in command_line("exercises", "list")[1]
