"""`kit sweep`: what it shows, what it writes, and what it refuses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kitlib.experiments.grid import Grid
from tests.cli.conftest import CommandLine

NAME = "small_max_offset_behind"
READERS = {".csv": pd.read_csv, ".json": partial(pd.read_json, lines=True), ".parquet": pd.read_parquet}


@pytest.fixture(autouse=True)
def without_spark(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kit sweep` ends its session, and these tests share theirs."""
    monkeypatch.setenv("KIT_HOME", str(new_home))
    monkeypatch.setattr("kitlib.spark.sessions.stop", lambda: None)


@pytest.mark.spark
@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_kit_sweep_shows_shares_and_writes_the_rows(
    spark: Any, command_line: CommandLine, tmp_path: Path, ending: str
) -> None:
    """A line for each setting, and all rows in the file."""
    out = tmp_path / f"rows{ending}"
    asked = ("--over", "max-offset-behind=2..3", "--set", "records=20", "--seeds", "2", "--out", str(out))
    code, told, complaints = command_line("sweep", NAME, *asked)
    assert (code, complaints.splitlines()[-1]) == (0, f"4 rows are in {out}.")
    assert "max_offset_behind" in told and "lost" in told
    found = READERS[ending](out)
    grid = Grid.of(NAME, {"max_offset_behind": [2, 3]}, seeds=2, records=20)
    assert found["lost"].tolist() == [grid.row(place)["lost"] for place in range(len(grid))]
    assert [path.name for path in tmp_path.iterdir() if "rows" in path.name] == [out.name]


def test_kit_sweep_of_faults_says_which_schedules_break_the_run(command_line: CommandLine, tmp_path: Path) -> None:
    """In one sentence, or as rows; where there are few schedules, without Spark."""
    asked = ("sweep", "answers_lost", "--faults", "1", "--only", "lose answer", "--set", "lost_answers=0", "--set", "idempotence=false")
    code, told, _ = command_line(*asked, "--out", str(tmp_path / "rows.csv"))
    found = pd.read_csv(tmp_path / "rows.csv")
    assert code == 0 and told.startswith(f"Of {len(found)} schedules with one fault, {len(found)} duplicate a record; the smallest: lose")
    assert command_line(*asked, "--json")[1].count('"script":"lose answer') == len(found)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--over", "max_offset_behind"), "'max_offset_behind' is no setting, expected KNOB=VALUE"),
        (("--over", "records=9..1"), "'9..1' is no range"),
        (("--out", "rows.txt"), "ends in '.txt', expected one of .csv, .json, .parquet"),
        (("--out", "nowhere/rows.csv"), "there is no folder nowhere"),
        (("--over", "records=20,many"), "records is 'many', expected"),
        (("--over", "records=20,30", "--faults", "2"), "Give one of the two"),
    ],
)
def test_kit_sweep_refuses_before_spark_starts(command_line: CommandLine, asked: tuple[str, str], told: str) -> None:
    """With a sentence, and without a traceback."""
    code, out, complaints = command_line("sweep", NAME, *asked)
    assert (code != 0, out) == (True, "")
    assert told in complaints
