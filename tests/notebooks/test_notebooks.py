"""The notebooks as they are in the repository: clean files, and every stored output comes out again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitlib.lab import notebooks
from tests.conftest import REPOSITORY
from tests.notebooks.checks import problems
from tests.notebooks.harness import compare

PROMISED = (
    "00_start_here",
    "01_partition_manager",
    "02_max_offset_behind",
    "03_out_of_range_and_restart",
    "04_tuple_trees_and_the_acker",
    "05_when_things_crash",
    "06_word_count_end_to_end",
)
ALL = [path for folder in notebooks.FOLDERS for path in sorted((REPOSITORY / folder).glob("*.ipynb"))]

each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)


@pytest.mark.parametrize("name", PROMISED)
def test_notebook_promised_is_there(name: str) -> None:
    """The notebooks that the README names are in the repository."""
    assert name in [path.stem for path in ALL]


@each_notebook
def test_notebook_as_a_file_keeps_the_rules(path: Path) -> None:
    """Run from top to bottom, clean metadata, short cells, one import cell, no paths, no sleeps, no scripts."""
    assert not problems(path)


@pytest.mark.notebooks
@pytest.mark.kafka
@pytest.mark.timeout(150)
@each_notebook
def test_notebook_run_again_gives_its_stored_outputs(path: Path, broker: Any) -> None:
    """A notebook gives the same outputs within 60 s on a broker that others have used before it."""
    comparison = compare(path, seconds=60)
    assert comparison.passed, comparison.report[-6000:]
