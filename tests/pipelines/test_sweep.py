"""Sweeps on real Spark: the rows, what is kept, what a stop leaves behind, and another master."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from kitlib.errors import DiskError
from kitlib.experiments.grid import FaultGrid, Grid
from kitlib.lab import workspace
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.pipelines import sweep as sweeps
from kitlib.pipelines.sweep import Store, schema_of, sweep
from kitlib.spark import server, sessions
from kitlib.views import every_fault
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


def test_every_schedule_of_faults_is_run_on_spark_as_here(spark: Any, home: Path) -> None:
    """The same rows, kept for the next time; a learner's own class goes to the executors, and its rows are not kept."""

    class Forgets(PartitionManager):
        def fail(self, offset: int) -> bool:
            self.pending.discard(offset)
            return False

    given: dict[str, Any] = {"only": "lose answer", "lost_answers": 0, "records": 12}
    grid = FaultGrid.of_faults("answers_lost", 2, **given)
    assert rows(sweep(grid, spark=spark)) == plain(grid)
    told: list[tuple[int, int]] = []
    assert len(every_fault("answers_lost", spark=False, progress=lambda *each: told.append(each), **given).rows) == len(grid) - 1
    assert told == [(len(grid), len(grid))]
    own = every_fault(NAME, 1, only="fail", records=8, outage_ms=0, manager=Forgets, spark=spark, progress=lambda *each: None)
    assert (own.rows["lost"] == 1).all() and not list(home.glob(f"sweeps/{NAME}/*/*.parquet"))


def test_sweep_makes_only_rows_that_are_not_there(spark: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger sweep makes the new runs alone, and rows of other code are removed and made again."""
    told: list[tuple[int, int]] = []
    first = rows(sweep(NAME, OVER, seeds=3, spark=spark, progress=lambda *counts: told.append(counts)))
    assert (told[0], told[-1], len(first)) == ((0, 12), (12, 12), 12)
    told.clear()
    larger = rows(sweep(NAME, OVER, seeds=4, spark=spark, progress=lambda *counts: told.append(counts)))
    assert (told[0], told[-1]) == ((12, 16), (16, 16))
    assert larger == plain(Grid.of(NAME, OVER, seeds=4))
    monkeypatch.setattr(sweeps, "code_hash", lambda: "0123456789abcdef")
    told.clear()
    assert rows(sweep(NAME, OVER, seeds=1, spark=spark, progress=lambda *counts: told.append(counts)))
    assert told[0] == (0, 4)
    assert [path.name for path in (home / "sweeps" / NAME).iterdir()] == ["0123456789abcdef"]


def test_sweep_interrupted_in_a_notebook_leaves_no_job_and_continues(spark: Any, home: Path) -> None:
    """What was finished is kept; the next call makes the rest and has the same rows, whatever was made first."""
    told: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        told.append((done, total))
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(NAME, OVER, seeds=5, spark=spark, progress=interrupt)
    assert spark.interruptAll() == []
    kept = told[-1][0]
    assert 0 < kept < 20
    told.clear()
    turned = {name: list(reversed(values)) for name, values in reversed(OVER.items())}
    found = rows(sweep(NAME, turned, seeds=[5, 4, 3, 2, 1], spark=spark, progress=lambda *counts: told.append(counts)))
    assert told[0] == (kept, 20)
    assert found == plain(Grid.of(NAME, turned, seeds=[5, 4, 3, 2, 1]))


def test_run_that_raises_on_spark_is_a_row_with_its_error(spark: Any, home: Path) -> None:
    """Its counts are null, and the rows of the other runs are whole."""
    grid = Grid.of(NAME, {"release": ["0.9.3", "1.1.0"]})
    broken = replace(grid, over={"release": ("0.9.3", "a release that nobody made")})
    made: list[dict[str, Any]] = []
    sweeps._run_missing(spark, broken, [0, 1], schema_of(grid), lambda table: made.extend(table.to_pylist()))
    assert made[0] == plain(grid)[0]
    assert made[1]["error"].startswith("KnobError: ") and "a release that nobody made" in made[1]["error"]
    assert (made[1]["release"], made[1]["seed"], made[1]["lost"], made[1]["steps"]) == ("a release that nobody made", 1, None, None)


def test_bar_in_a_notebook_says_how_far_it_is_and_leaves_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first run, what is waited for."""
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(sweeps, "display", lambda *data, **more: SimpleNamespace(update=lambda data, raw: shown.append(data)))
    bar = sweeps._CellBar(Grid.of(NAME))
    bar.say("Spark is starting.")
    bar.tell(3, 60)
    bar.tell(60, 60)
    line = f"1 runs of {NAME}"
    assert [data["text/plain"] for data in shown] == [f"{line}. Spark is starting.", f"3 of {line}", line]
    assert [("<progress" in data["text/html"]) for data in shown] == [False, True, False]


def test_a_start_says_how_long_the_last_one_took(home: Path) -> None:
    """What is kept is a number of seconds; without one, or with a damaged one, it says what is known."""
    for kept, told in (("23.4", "the last time it took 23 s"), ("x", "on a cold machine it takes 20 to 60 s")):
        workspace.write_atomic(server.folder_of(workspace.run_dir()) / server.LAST_START, kept)
        assert server.last_start() == told


def test_a_cell_says_that_spark_starts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark runs nothing is said. Where it has to be started a learner's cell says so; one whose outputs are compared does not."""
    said: list[str] = []
    monkeypatch.delenv("KIT_SPARK_REMOTE", raising=False)
    monkeypatch.setattr(sessions, "_session", None)
    monkeypatch.setattr(server, "living", lambda: None)
    monkeypatch.setattr(server, "ensure", lambda *given: sys.exit(7))
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    for folder, say, line in (("x", None, ""), ("x", said.append, ""), (None, None, "Spark is starting; ")):
        monkeypatch.setenv("KIT_PROGRESS", folder) if folder else monkeypatch.delenv("KIT_PROGRESS")
        with pytest.raises(SystemExit):
            sessions.session(say=say)
        printed = capsys.readouterr().out
        assert printed.startswith(line) and bool(printed) == bool(line)
    assert len(said) == 1


def test_a_half_written_file_of_rows_counts_as_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full, the sentence says so and no file of this write is there."""
    grid = Grid.of(NAME, seeds=1)
    store = Store.open(grid)

    def full(table: Any, path: Path) -> None:
        Path(path).write_bytes(b"PAR1 and then no room")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(DiskError, match=r"could not be kept .*: No space left on device, "):
        store.add(sweeps.pa.Table.from_pylist(plain(grid), store.schema))
    assert list(store.folder.iterdir()) == []


def test_a_damaged_file_of_rows_is_a_sentence(home: Path) -> None:
    """It names the file; nobody's rows are made up."""
    store = Store.open(Grid.of(NAME, seeds=1))
    (store.folder / "a.parquet").write_bytes(b"PAR1 and then no more")
    with pytest.raises(DiskError, match=r"a\.parquet cannot be read \(.*\)\. Delete it, and its runs are made again\."):
        store.read()


@pytest.mark.timeout(300)
def test_kit_sweep_on_executors_of_their_own_stopped_by_ctrl_c_leaves_its_rows_and_no_process(new_home: Path) -> None:
    """KIT_SPARK_MASTER moves it there. They get the kit's code with the job: they start where there is none.

    Exit code 130 and one line; every Java ends with it. What was finished is not made again: its rows are those of a plain loop.
    """
    environment = os.environ | {"KIT_HOME": str(new_home), "KIT_SPARK_MASTER": "local-cluster[1,2,1024]"}
    command = [sys.executable, "-m", "kitlib", "sweep", NAME, "--over", "max_offset_behind=1..200", "--seeds", "900"]
    started = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    kept = new_home / "sweeps" / NAME
    assert wait_for(lambda: list(kept.glob("*/*.parquet")), 200)
    os.killpg(started.pid, signal.SIGINT)
    told, complaints = started.communicate(timeout=60)
    assert (started.returncode, told) == (130, "")
    assert complaints.strip().splitlines()[-1] == "kit: stopped."
    assert "Traceback" not in complaints
    assert wait_for(lambda: not [each for each in our_processes() if mentions(each, str(new_home))], 20)
    found = [row for path in kept.glob("*/*.parquet") for row in pq.read_table(path).to_pylist()]
    assert found
    for row in found[:50]:
        assert [row] == plain(Grid.of(NAME, {"max_offset_behind": [row["max_offset_behind"]]}, seeds=[row["seed"]]))


ON_A_BARE_MACHINE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from kitlib.experiments.grid import Grid
from kitlib.experiments.grid import FaultGrid
print(json.dumps([Grid.of(name).row(0) for name in sys.argv[2:]]))
"""


def test_executor_without_any_package_makes_the_same_rows(tmp_path: Path) -> None:
    """The archive that is sent is enough, whatever the domain: Python's standard library is all that it needs there."""
    names = [NAME, "six_in_flight", "tuple_tree", "rebalance", "stale_offset"]
    sweeps.write_archive(tmp_path / "kitlib.zip")
    command = [sys.executable, "-I", "-S", "-c", ON_A_BARE_MACHINE, str(tmp_path / "kitlib.zip"), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == [Grid.of(name).row(0) for name in names]
