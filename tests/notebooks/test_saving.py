"""`kit notebooks`: every notebook without a browser, saved anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.test_harness import written

pytestmark = [pytest.mark.notebooks, pytest.mark.kafka, pytest.mark.timeout(240)]


def kit(project: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kitlib", *arguments], capture_output=True, text=True, timeout=100, cwd=project,
        env={**os.environ, "KIT_HOME": str(home)}, stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two notebooks: one that runs, one that fails."""
    folder = tmp_path / "project" / "notebooks"
    folder.mkdir(parents=True)
    written(folder / "00_start_here.ipynb", "print('it runs', object())")
    written(
        folder / "01_fails.ipynb",
        "raise ValueError('<b>hostile</b>')",
        "'never reached'",
    )
    return folder.parent


def test_notebooks_saves_what_runs_and_leaves_what_fails(project: Path, new_home: Path) -> None:
    """`kit notebooks` saves a notebook that ran, keeps the file of one that failed, and `--check` then agrees."""
    failing = project / "notebooks" / "01_fails.ipynb"
    before = failing.read_bytes()
    assert kit(project, new_home, "notebooks", "--check", "00").returncode == 1
    done = kit(project, new_home, "notebooks")
    assert done.returncode == 1 and "saved" in done.stderr and "01_fails: code cell 2: ValueError: <b>hostile</b>" in done.stderr
    assert failing.read_bytes() == before
    saved = nbformat.read(project / "notebooks" / "00_start_here.ipynb", as_version=4)
    assert saved.cells[-1].outputs[0].text.startswith("it runs")
    assert kit(project, new_home, "notebooks", "--check", "00").returncode == 0
    assert [path.name for path in project.glob("notebooks/.*")] == [".sha256"]  # no half-written file
