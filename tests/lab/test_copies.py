"""The learner's copies: what a learner has done is never written to, what nobody has touched is kept up to date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kitlib.errors import LabError
from kitlib.lab import copies, notebooks
from tests.conftest import REPOSITORY, git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with three small notebooks and a file that they read."""
    folder = tmp_path / "project" / "notebooks"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "table.json").write_text("[1]")
    for name in ("00_start_here", "01_second", "02_third"):
        cells = [
            nbformat.v4.new_markdown_cell(f"# {name}, before [the next](01_second.ipynb)", id="head"),
            nbformat.v4.new_code_cell("answer = None", id="answer", metadata={"tags": ["raises-exception"]}, execution_count=1,
                                      outputs=[nbformat.v4.new_output("stream", text="Not yet")]),
        ]  # fmt: skip
        nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
    return folder.parent


def make(project: Path) -> list[str]:
    """Make the copies as `kit lab` does; what it said."""
    said: list[str] = []
    copies.make(copies.desk(project), said.append)
    return said


def change(path: Path, *changes: Callable[[Any], None]) -> Path:
    """Write the notebook anew with changes."""
    notebook = nbformat.read(path, as_version=4)
    for each in changes:
        each(notebook)
    nbformat.write(notebook, path)
    return path


def newer(notebook: Any) -> None:
    """What an update of the kit brings."""
    notebook.cells[0].source += "\n\nA newer sentence."


def last_code_cell(notebook: Any) -> Any:
    return [cell for cell in notebook.cells if cell.cell_type == "code"][-1]


def answered(notebook: Any) -> None:
    last_code_cell(notebook).source = "answer = 42"


def was_run(notebook: Any) -> None:
    last_code_cell(notebook).outputs = [nbformat.v4.new_output("stream", text="42")]


def extended(notebook: Any) -> None:
    notebook.cells.append(nbformat.v4.new_code_cell("1 + 1"))


def turned_round(notebook: Any) -> None:
    notebook.cells.reverse()


def without_record(notebook: Any) -> None:
    """A notebook of the learner's own that happens to have the name."""
    del notebook.metadata[copies.RECORD]


def record_damaged(notebook: Any) -> None:
    notebook.metadata[copies.RECORD] = "?"


def autosaved(notebook: Any) -> None:
    """What JupyterLab writes of its own accord into a notebook that was opened."""
    notebook.metadata.kernelspec = notebooks.KERNELSPEC
    notebook.metadata.language_info = {"name": "python", "version": "3.11.2", "mimetype": "text/x-python"}
    for cell in notebook.cells:
        cell.metadata["scrolled"] = True


def test_make_copies_every_notebook_without_its_outputs(project: Path) -> None:
    """A copy has the cells, tags and name of its original, nothing run; where all are there nothing more is said or written."""
    assert make(project) == [f"Copied 3 notebooks to {project / 'work'}: work on these"]
    for original in notebooks.find(project):
        old, new = notebooks.load(original), notebooks.load(project / "work" / original.name)
        assert [(cell.id, cell.source, cell.metadata) for cell in new.cells] == [(c.id, c.source, c.metadata) for c in old.cells]
        assert all(cell.outputs == [] and cell.execution_count is None for cell in new.cells if cell.cell_type == "code")
    before = {path: path.stat().st_mtime_ns for path in (project / "work").iterdir()}
    assert make(project) == []
    assert {path: path.stat().st_mtime_ns for path in (project / "work").iterdir()} == before


@pytest.mark.parametrize("edit", [answered, was_run, extended, turned_round], ids=lambda edit: edit.__name__)
def test_make_after_an_update_puts_it_beside_a_copy_that_was_worked_on(project: Path, edit: Callable[[Any], None]) -> None:
    """The learner's copy stays, to the byte; the newer one is beside it, said once, and the next one beside both."""
    make(project)
    path = change(project / "work" / "01_second.ipynb", autosaved, edit)
    mine = path.read_bytes()
    for name in ("01_second.new.ipynb", "01_second.new1.ipynb"):
        change(project / "notebooks" / "01_second.ipynb", newer)
        assert make(project) == [f"The kit has a newer 01_second.ipynb: {name}, beside yours"]
        beside = change(path.with_name(name), answered)  # they go on with the newer one
        assert beside.read_bytes() and make(project) == []
        assert path.read_bytes() == mine
    assert [notebooks.load(path.with_name(f"01_second.{name}.ipynb")).cells[0].source.count("newer") for name in ("new", "new1")] == [1, 2]


@pytest.mark.parametrize("edit", [without_record, record_damaged], ids=lambda edit: edit.__name__)
def test_make_after_an_update_leaves_a_notebook_that_is_no_copy(project: Path, edit: Callable[[Any], None]) -> None:
    """A notebook of the learner's own that has the name of one of the kit's stays as it is, to the byte."""
    make(project)
    mine = change(project / "work" / "01_second.ipynb", autosaved, edit).read_bytes()
    change(project / "notebooks" / "01_second.ipynb", newer)
    make(project)
    assert (project / "work" / "01_second.ipynb").read_bytes() == mine


ASKED = "**Predict.** How many?"


@pytest.mark.parametrize(
    ("answer", "folded", "open_"),
    [
        ("**Look.** Five.\n\nAnd why.", "**Look.** Five.\n\nAnd why.", ""),
        ("**Look.** Five.\n\n**Break it.** And six?", "**Look.** Five.", "**Break it.** And six?"),
        ("Five.\n\n## Next", "Five.", "## Next"),
        ("Five.\n\nNow the other one:", "Five.", "Now the other one:"),
        ("Five. And why. Now the other one:", "Five. And why.", "Now the other one:"),
    ],
)
def test_answer_to_a_prediction_is_folded_in_the_copy(answer: str, folded: str, open_: str) -> None:
    """What follows the run can be opened; the next task and the line that leads to a cell are there at once."""
    texts = ["Before.", ASKED, None, answer, None, "Not an answer to a prediction."]
    cells = [nbformat.v4.new_code_cell("run()") if text is None else nbformat.v4.new_markdown_cell(text) for text in texts]
    copied = copies.as_copied(nbformat.v4.new_notebook(cells=cells)).cells
    parts = [f"<details><summary>{copies.SUMMARY}</summary>", folded, "</details>", *([open_] if open_ else [])]
    assert copied[3].source == "\n\n".join(parts)
    assert [cell.source for at, cell in enumerate(copied) if at != 3] == [cell.source for at, cell in enumerate(cells) if at != 3]


@pytest.mark.parametrize("original", notebooks.shipped_in(REPOSITORY), ids=lambda path: path.stem)
def test_shipped_notebook_folds_answers_and_nothing_that_is_to_be_done(original: Path) -> None:
    """No heading, no question and no exercise is hidden, and the shipped notebook itself is not changed."""
    shipped = notebooks.load(original)
    text = notebooks.text_of(shipped)
    copied = copies.as_copied(shipped).cells
    asks = {cell.id for cell in shipped.cells if re.search(r"^(\w+ = )?predict\(", cell.source, re.MULTILINE)}
    assert {cell.id for cell in copied if cell.metadata.get("jupyter") == {"source_hidden": True}} == asks != set()
    hidden = [part for cell in copied for part in re.findall(r"<details>.*?</details>", cell.source, re.DOTALL)]
    assert hidden and notebooks.text_of(shipped) == text
    assert not [part for part in hidden if re.search(r"^#|\*\*(Predict|Think|Explain)|hint\(", part, re.MULTILINE)]


def test_make_after_an_update_renews_an_untouched_copy(project: Path) -> None:
    """A copy that was only opened gets the newer cells; the others are not written."""
    make(project)
    change(project / "work" / "01_second.ipynb", autosaved)
    change(project / "notebooks" / "01_second.ipynb", newer)
    assert make(project) == ["Updated 1 notebook that you had not touched"]
    assert notebooks.load(project / "work" / "01_second.ipynb").cells[0].source.endswith("A newer sentence.")
    assert make(project) == []


@pytest.mark.parametrize("content", [b"", b'{"cells": [', b"\xff\xfe", b"[]"], ids=["empty", "cut short", "binary", "a list"])
def test_make_where_a_copy_is_unreadable_says_so_and_leaves_it(project: Path, content: bytes) -> None:
    """A copy that is no notebook may still be worth something: it stays, a sentence says what to do, the others are made."""
    (project / "work").mkdir()
    (project / "work" / "01_second.ipynb").write_bytes(content)
    said = make(project)
    assert any("01_second.ipynb cannot be read as a notebook. Delete it" in line for line in said)
    assert (project / "work" / "01_second.ipynb").read_bytes() == content
    assert (project / "work" / "02_third.ipynb").is_file()


def test_copies_read_the_data_of_the_notebooks(project: Path) -> None:
    """`data` is found from the copies, follows a project that was moved, and is left alone where it is the learner's own folder."""
    make(project)
    assert (project / "work" / "data" / "table.json").read_text() == "[1]"
    (project / "work" / "data").unlink()
    (project / "work" / "data").symlink_to(project / "elsewhere")
    make(project)
    assert (project / "work" / "data" / "table.json").read_text() == "[1]"
    (project / "work" / "data").unlink()
    (project / "work" / "data").mkdir()
    make(project)
    assert list((project / "work" / "data").iterdir()) == []


def test_page_of_a_shipped_notebook_is_that_of_its_copy(project: Path, tmp_path: Path) -> None:
    """JupyterLab opens the copy, whichever of the two was named, also where `work` is a link; any other notebook as it is."""
    (tmp_path / "deep" / "other disk").mkdir(parents=True)
    (project / "work").symlink_to(tmp_path / "deep" / "other disk")
    make(project)
    assert (project / "work" / "data" / "table.json").is_file()
    desk = copies.desk(project)
    for folder in ("notebooks", "work"):
        assert desk.page(project / folder / "02_third.ipynb") == "work/02_third.ipynb"
    (project / "mine.ipynb").touch()
    assert desk.page(project / "mine.ipynb") == "mine.ipynb"
    (tmp_path / "far.ipynb").touch()
    with pytest.raises(LabError, match=r"far\.ipynb is outside of .* Copy it there"):
        desk.page(tmp_path / "far.ipynb")


@pytest.mark.parametrize("has_folder", [False, True], ids=["without work", "with work"])
def test_copies_of_a_read_only_project_are_in_the_workspace(
    project: Path, new_home: Path, has_folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the project cannot be written to, the copies are in the workspace, their data is found, and JupyterLab shows them."""
    if has_folder:
        (project / "work").mkdir()
    monkeypatch.setenv("KIT_HOME", str(new_home))
    monkeypatch.setattr(os, "access", lambda path, _: not Path(path).is_relative_to(project))
    folder = new_home / "work"
    assert make(project) == [
        f"{project / 'work'} cannot be written to, so your notebooks are in {folder}",
        f"Copied 3 notebooks to {folder}: work on these",
    ]
    desk = copies.desk(project)
    assert (desk.top, desk.page(project / "notebooks" / "02_third.ipynb")) == (folder, "02_third.ipynb")
    assert (folder / "data" / "table.json").read_text() == "[1]"


def test_lab_where_there_are_no_notebooks_says_where_to_run_it(tmp_path: Path, new_home: Path) -> None:
    """A kit that was installed without its notebooks names the folder it looked in, makes nothing and starts nothing."""
    wheel = shutil.copytree(REPOSITORY / "kitlib", tmp_path / "site" / "kitlib", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "kitlib", "lab", "--no-browser"], cwd=tmp_path / "empty", capture_output=True, text=True,
        env={**os.environ, "KIT_HOME": str(new_home), "PYTHONPATH": str(wheel.parent)}, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert f"There are no notebooks in {tmp_path / 'empty'}. Run this in the folder that holds `notebooks`." in done.stderr
    assert not list((tmp_path / "empty").iterdir()) and not (new_home / "run").exists()


def test_hours_of_work_leave_the_clone_as_it_was() -> None:
    """Whatever a learner does in `work`, git does not see it, and nothing that is shipped is there."""
    for name in ("00_start_here.ipynb", ".ipynb_checkpoints/x.ipynb", "data", "mine/notes.txt"):
        assert git(REPOSITORY, "check-ignore", f"work/{name}").strip() == f"work/{name}"


def test_copies_of_the_shipped_notebooks_find_what_they_read(tmp_path: Path) -> None:
    """Every file that a shipped notebook reads by a relative path is found from the folder of its copy."""
    shutil.copytree(REPOSITORY / "notebooks", tmp_path / "notebooks")
    copies.make(copies.desk(tmp_path), print)
    cells = [cell for path in notebooks.find(tmp_path) for cell in notebooks.load(path).cells if cell.cell_type == "code"]
    read = {name for cell in cells for name in re.findall(r'"(data/[^"]+)"', cell.source)}
    assert read and all((tmp_path / "work" / name).is_file() for name in read)
