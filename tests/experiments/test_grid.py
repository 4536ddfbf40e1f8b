"""Grids of runs: which runs they hold, what a row says, and what is refused; and the smallest run with a property."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import get, run
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.grid import Grid, find
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


def test_find_shrinks_to_the_fewest_records_and_default_knobs() -> None:
    """Records go down until the next smaller run has the property no more; the other knobs stay at their defaults."""
    found = find("small_max_offset_behind", "lost", runs=100)
    assert found is not None
    assert set(found.knobs) == {"records"}
    assert found.row["lost"] >= 1
    below = found.knobs["records"] - 1
    assert find("small_max_offset_behind", "lost", runs=1, records=below) is None


def test_find_leaves_the_default_only_where_the_property_needs_it() -> None:
    """With any one of the knobs that are left put back to its default, the property is gone."""
    found = find("six_in_flight", lambda row: row["duplicated"], runs=500, max_in_flight=5)
    assert found is not None
    left = {name: value for name, value in found.knobs.items() if name not in ("batches", "max_in_flight")}
    assert left
    for name in left:
        others = {key: value for key, value in found.knobs.items() if key != name}
        assert not Grid.of("six_in_flight", seeds=[found.seed], **others).row(0)["duplicated"]


def test_found_run_can_be_run_again_and_read() -> None:
    """It says how, as one would type it."""
    found = find("small_max_offset_behind", "lost", runs=100)
    assert found is not None
    assert judge(found.run()).counts["lost"] == found.row["lost"]
    assert repr(found).startswith(f'run("small_max_offset_behind", seed={found.seed}, records={found.knobs["records"]}) has it')
    assert repr(found) == repr(find("small_max_offset_behind", "lost", runs=100))


def test_find_of_what_no_run_has_is_none() -> None:
    """After as many runs as it may try."""
    tried: list[dict[str, Any]] = []
    assert find("happy_path", lambda row: tried.append(row), runs=12) is None
    assert len(tried) == 12


@pytest.mark.parametrize(
    ("where", "knobs", "told"),
    [
        ("lots", {}, "where is 'lots', expected one of lost, duplicated"),
        (7, {}, "where is '7'"),
        ("lost", {"recrods": 5}, "no knob 'recrods'"),
        ("lost", {"records": -5}, "records is -5"),
    ],
)
def test_bad_search_is_refused(where: Any, knobs: dict[str, Any], told: str) -> None:
    """With a sentence that names what there is."""
    with pytest.raises(KnobError, match=told):
        find("happy_path", where, **knobs)
