"""The notebooks as they are in the repository: clean files, and every stored output comes out again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitlib.lab import notebooks
from tests.conftest import REPOSITORY
from tests.notebooks.checks import problems
from tests.notebooks.harness import compare
from tests.side_by_side import is_worker

PROMISED = (
    "00_start_here",
    "01_partition_manager",
    "02_max_offset_behind",
    "03_out_of_range_and_restart",
    "04_tuple_trees_and_the_acker",
    "05_when_things_crash",
    "06_word_count_end_to_end",
    "07_inside_the_producer",
    "08_idempotent_producer",
    "09_in_flight_and_order",
    "10_transactions",
    "11_the_offsets_topic",
    "12_two_incidents",
    "13_unclean_election",
    "14_watching_lag",
    "15_groups_and_rebalances",
    "16_connect_and_streams",
)
ALL = [path for folder in notebooks.FOLDERS for path in sorted((REPOSITORY / folder).glob("*.ipynb"))]

each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
each_notebook_one_of_them_quick = pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.quick] if path.stem[:2] == "00" else []) for path in ALL]
)

# A notebook may take a minute on a machine of its own; beside another test, as in `make test`, three quarters as much again
# there, and on a runner that is slower now and then two minutes and more.
SECONDS, SECONDS_BESIDE = 60, 210


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
@pytest.mark.timeout(300)
@each_notebook_one_of_them_quick
def test_notebook_run_again_gives_its_stored_outputs(path: Path, broker: Any, request: pytest.FixtureRequest) -> None:
    """A notebook gives the same outputs within its time on a broker that others have used before it."""
    comparison = compare(path, seconds=SECONDS_BESIDE if is_worker(request.config) else SECONDS)
    assert comparison.passed, comparison.report[-6000:]
