"""The notebooks as they are in the repository: clean files, and every stored output comes out again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kitlib.lab import notebooks
from kitlib.lab.notebook_tests import compare
from tests.conftest import REPOSITORY
from tests.notebooks.checks import problems
from tests.side_by_side import is_worker

ALL = [path for folder in notebooks.FOLDERS for path in sorted((REPOSITORY / folder).glob("*.ipynb"))]

each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
each_notebook_one_of_them_quick = pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.quick] if path.stem[:2] == "00" else []) for path in ALL]
)

# A notebook may take a minute on a machine of its own; beside another test, as in `make test`, three quarters as much again
# there, and on a runner that is slower now and then two minutes and more.
SECONDS, SECONDS_BESIDE = 60, 210


@each_notebook
def test_notebook_as_a_file_keeps_the_rules(path: Path) -> None:
    """Run from top to bottom, clean metadata, short cells, one import cell, no paths, no sleeps, no scripts."""
    assert not problems(path)


@each_notebook
def test_notebook_asks_before_it_shows(path: Path) -> None:
    """Each notebook has predictions that are asked for, kept and scored."""
    code = [cell.source for cell in notebooks.load(path).cells if cell.cell_type == "code"]
    assert any(re.search(r"^(\w+ = )?predict\(", source, re.MULTILINE) for source in code)


@pytest.mark.notebooks
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(300)
@each_notebook_one_of_them_quick
def test_notebook_run_again_gives_its_stored_outputs(path: Path, broker: Any, request: pytest.FixtureRequest) -> None:
    """A notebook gives the same outputs within its time on a broker that others have used before it."""
    comparison = compare(path, seconds=SECONDS_BESIDE if is_worker(request.config) else SECONDS)
    assert comparison.passed, comparison.report[-6000:]
