"""Grids of runs: which runs they hold, what a row says, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import get, run
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.grid import Grid
from kitlib.monitor.delivery import judge

NAME = "small_max_offset_behind"


def test_grid_holds_every_combination_with_every_seed_once() -> None:
    """Seeds change fastest, then the last knob; a value that is given twice counts once."""
    grid = Grid.of(NAME, {"max_offset_behind": [1, "5", 5], "records": [20, 30]}, seeds=[3, 4], fail_percent=10)
    at = {name: grid.knobs.index(name) for name in ("max_offset_behind", "records", "fail_percent")}
    keys = [grid.key(place) for place in range(len(grid))]
    assert [(key[at["max_offset_behind"]], key[at["records"]], key[-1]) for key in keys] == [
        (behind, records, seed) for behind in (1, 5) for records in (20, 30) for seed in (3, 4)
    ]
    assert {key[at["fail_percent"]] for key in keys} == {10}


def test_row_says_what_the_run_and_its_verdict_say() -> None:
    """Knobs, seed, counts and first witnesses are those of `run` and `judge`."""
    row = Grid.of(NAME, {"max_offset_behind": [5]}, seeds=[7]).row(0)
    trace = run(NAME, seed=7, max_offset_behind=5)
    verdict = judge(trace)
    assert {name: row[name] for name in trace.settings} == trace.settings
    assert (row["seed"], row["steps"], row["appended"], row["processed"]) == (7, len(trace), verdict.appended, verdict.processed)
    assert row["lost"] == verdict.counts["lost"] > 0
    assert row["lost_step"] == verdict.first("lost").witness
    assert row["figure"] == verdict.counts["lost"]
    assert (row["is_violation"], row["error"]) == (bool(verdict.violations), None)


def test_run_that_raises_is_a_row_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its knobs and seed say which one it was."""

    def breaks(self: Experiment, backend: str = "model", seed: int = 1, **knobs: Any) -> Any:
        raise ZeroDivisionError("what a bug says")

    grid = Grid.of(NAME, seeds=[2], records=20)
    monkeypatch.setattr(Experiment, "run", breaks)
    row = grid.row(0)
    assert row["error"] == "ZeroDivisionError: what a bug says"
    assert (row["records"], row["seed"]) == (20, 2)
    assert "lost" not in row


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"over": {"max_offset": [1]}}, "no knob 'max_offset'.*max_offset_behind"),
        ({"over": {"max_offset_behind": []}}, "values of max_offset_behind are"),
        ({"over": {"max_offset_behind": "15"}}, "values of max_offset_behind are '15'"),
        ({"over": {"max_offset_behind": 5}}, "values of max_offset_behind are '5'"),
        ({"over": {"records": [-1]}}, "records is -1, expected"),
        ({"over": {"records": [20]}, "records": 30}, "records is both varied and fixed"),
        ({"recrods": 30}, "no knob 'recrods'"),
        ({"seeds": []}, "seeds are"),
        ({"seeds": 0}, "seeds are"),
        ({"seeds": [1, -1]}, "seeds are '-1'"),
        ({"seeds": [1.5]}, "seeds are '1.5'"),
        ({"seeds": True}, "seeds are 'True'"),
        ({"seeds": 30, "most": 29}, "30 runs, and at most 29.*most=30"),
        ({"experiment": "happy_pat"}, "no experiment 'happy_pat'.*'happy_path'"),
    ],
)
def test_bad_grid_is_refused_with_what_to_do(given: dict[str, Any], told: str) -> None:
    """Before anything is run."""
    with pytest.raises(KnobError, match=told):
        Grid.of(**{"experiment": NAME} | given)


def test_grid_reads_its_experiment_by_name() -> None:
    """So that it stays small on its way to another process."""
    assert Grid.of(NAME).experiment is get(NAME)
