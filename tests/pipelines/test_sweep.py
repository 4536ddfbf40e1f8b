"""Sweeps on real Spark: the rows, what is kept, what a stop leaves behind, and another master."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kitlib.errors import DiskError
from kitlib.experiments.grid import Grid
from kitlib.pipelines import sweep as sweeps
from kitlib.pipelines.sweep import Store, schema_of, sweep
from tests.conftest import mentions, our_processes, wait_for

NAME = "small_max_offset_behind"
OVER = {"max_offset_behind": [2, 20], "fetch_records": [5, 20]}

pytestmark = pytest.mark.spark


@pytest.fixture
def home(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace without rows."""
    monkeypatch.setenv("KIT_HOME", str(new_home))
    return new_home


def plain(grid: Grid) -> list[dict[str, Any]]:
    """The rows by a loop in this process, with nulls where a row has no value."""
    return [dict.fromkeys(schema_of(grid).names) | grid.row(place) for place in range(len(grid))]


def rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


@pytest.mark.parametrize("name", [NAME, "six_in_flight", "transaction_timeout", "rebalance"])
def test_sweep_has_the_rows_of_a_plain_loop_in_its_order(spark: Any, home: Path, name: str) -> None:
    """Whatever the domain, with each of its anomalies in a column of its own."""
    assert rows(sweep(name, seeds=[5, 3], spark=spark)) == plain(Grid.of(name, seeds=[5, 3]))


def test_sweep_makes_only_rows_that_are_not_there(spark: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger sweep makes the new runs alone, and rows of other code are removed and made again."""
    told: list[tuple[int, int]] = []
    first = rows(sweep(NAME, OVER, seeds=3, spark=spark, progress=lambda *counts: told.append(counts)))
    assert (told[0], told[-1], len(first)) == ((0, 12), (12, 12), 12)
    told.clear()
    larger = rows(sweep(NAME, OVER, seeds=4, spark=spark, progress=lambda *counts: told.append(counts)))
    assert (told[0], told[-1]) == ((12, 16), (16, 16))
    assert larger == plain(Grid.of(NAME, OVER, seeds=4))
    monkeypatch.setattr(sweeps, "code_hash", lambda: "another")
    told.clear()
    assert rows(sweep(NAME, OVER, seeds=1, spark=spark, progress=lambda *counts: told.append(counts)))
    assert told[0] == (0, 4)
    assert [path.name for path in (home / "sweeps" / NAME).iterdir()] == ["another"]


def test_a_half_written_file_of_rows_counts_as_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full, the sentence says so and no file of this write is there."""
    grid = Grid.of(NAME, seeds=1)
    store = Store.open(grid)

    def full(table: Any, path: Path) -> None:
        Path(path).write_bytes(b"PAR1 and then no room")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(DiskError, match=r"could not be kept \(No space left on device\)"):
        store.add(sweeps.pa.Table.from_pylist(plain(grid), store.schema))
    assert list(store.folder.iterdir()) == []


def test_kit_sweep_stopped_by_ctrl_c_leaves_its_rows_and_no_process(new_home: Path) -> None:
    """Exit code 130 and one line; Spark's Java ends with it, and what was finished is not made again."""
    environment = os.environ | {"KIT_HOME": str(new_home)}
    command = [sys.executable, "-m", "kitlib", "sweep", NAME, "--over", "max_offset_behind=1..200", "--seeds", "900"]
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    kept = new_home / "sweeps" / NAME
    assert wait_for(lambda: list(kept.glob("*/*.parquet")), 120)
    os.killpg(started.pid, signal.SIGINT)
    told, complaints = started.communicate(timeout=60)
    assert (started.returncode, told) == (130, "")
    assert complaints.strip().splitlines()[-1] == "kit: stopped."
    assert "Traceback" not in complaints
    assert wait_for(lambda: not [each for each in our_processes() if mentions(each, str(new_home))], 20)
    whole = [pq.read_table(path).num_rows for path in kept.glob("*/*.parquet")]
    assert sum(whole) > 0


ON_A_CLUSTER = """
from kitlib.lab import spark
from kitlib.pipelines.sweep import sweep
session = spark.session("sweep", "local-cluster[2,1,1024]")
frame = sweep({name!r}, {over!r}, seeds=3, spark=session)
print(*[row.lost for row in frame.collect()])
spark.stop()
"""


def test_sweep_on_executors_of_their_own_has_the_same_rows(new_home: Path, tmp_path: Path) -> None:
    """They get the kit's code with the job: they start where there is none."""
    environment = os.environ | {"KIT_HOME": str(new_home)}
    done = subprocess.run(
        [sys.executable, "-c", ON_A_CLUSTER.format(name=NAME, over=OVER)],
        env=environment, capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert done.stdout.split() == [str(row["lost"]) for row in plain(Grid.of(NAME, OVER, seeds=3))], done.stderr[-2000:]
