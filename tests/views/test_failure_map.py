"""Failure maps: cells, sentences, marks, and the run behind a cell."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from kitlib.errors import KnobError
from kitlib.experiments.grid import Grid
from kitlib.monitor.delivery import judge
from kitlib.views.browser.failure_map import FailureMap

NAME = "small_max_offset_behind"


def swept(over: dict[str, Any], seeds: int = 2, **fixed: Any) -> pd.DataFrame:
    """The rows of a sweep, by a plain loop."""
    grid = Grid.of(NAME, over, seeds, **fixed)
    return pd.DataFrame([grid.row(place) for place in range(len(grid))])


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return swept({"max_offset_behind": [5, 9, 24], "fetch_records": [2, 10]}, seeds=4, process_ms=20)


def test_each_cell_says_how_many_of_its_seeds_failed(rows: pd.DataFrame) -> None:
    """The number in it and its title are the share of rows with the anomaly."""
    svg = FailureMap(rows, "max_offset_behind", "fetch_records").svg()
    for (behind, fetch), group in rows.groupby(["max_offset_behind", "fetch_records"]):
        share = (group["lost"] > 0).mean()
        assert f"max_offset_behind={behind}, fetch_records={fetch}: {share:.0%} of its seeds" in svg
    assert svg.count("data-cell") == 6
    assert 0 < (rows["lost"] > 0).mean() < 1


def test_smallest_failing_setting_is_named(rows: pd.DataFrame) -> None:
    """With its share, and from which value on the anomaly is gone."""
    found = FailureMap(rows, "max_offset_behind", "fetch_records").sentence
    assert "the smallest of them max_offset_behind=5, fetch_records=2 (100% of its seeds)" in found
    assert found.endswith("With max_offset_behind=24 it never appeared.")
    turned = FailureMap(rows, "fetch_records", "max_offset_behind").sentence
    assert "never appeared" not in turned
    none = FailureMap(rows, "max_offset_behind", "fetch_records", "duplicated").sentence
    assert none == "Duplicated: in none of the 6 settings."


def test_own_setting_is_marked_and_a_setting_that_was_not_run_is_dashed(rows: pd.DataFrame) -> None:
    """One cell has the thick frame; a hole in the sweep is no zero."""
    holed = rows[~((rows["max_offset_behind"] == 9) & (rows["fetch_records"] == 2))]
    svg = FailureMap(holed, "max_offset_behind", "fetch_records", mine={"max_offset_behind": 5, "fetch_records": 10}).svg()
    assert svg.count('stroke-width="3"') == 1 + 1  # and the hatch, which every document has
    assert "max_offset_behind=9, fetch_records=2: not run" in svg
    assert svg.count('stroke-dasharray="2 3"') == 1


def test_a_small_grid_is_run_at_once_and_an_unlimited_knob_is_called_so() -> None:
    """Rows of a grid are those of a sweep over it; 2^63 - 1 is a word in the picture and in the sentence."""
    over = {"max_offset_behind": [5, "unlimited"], "fetch_records": [10]}
    found = FailureMap(Grid.of(NAME, over), "max_offset_behind", "fetch_records")
    pd.testing.assert_frame_equal(found.rows, swept(over, 1))
    assert found.sentence.endswith("With max_offset_behind=unlimited it never appeared.")
    assert ">unlimited<" in found.svg() and "9223372036854775807" not in found.svg() + found.sentence


def test_third_knob_has_a_picture_for_each_value() -> None:
    """The slider begins at one's own value."""
    rows = swept({"max_offset_behind": [2, 30], "fetch_records": [2, 20], "process_ms": [20, 40]})
    found = FailureMap(rows, "max_offset_behind", "fetch_records", by="process_ms", mine={"process_ms": 40})
    slider, picture, _ = found.children
    assert (slider.description, slider.options, slider.value) == ("process_ms", (("20", 0), ("40", 1)), 1)
    assert "process_ms=20: " not in picture.picture
    slider.value = 0
    assert "process_ms=20: " in picture.picture


def test_chosen_cell_opens_a_run_with_the_anomaly(rows: pd.DataFrame) -> None:
    """The player has the cell's knobs and a seed for which the verdict counts the anomaly."""
    found = FailureMap(rows, "max_offset_behind", "fetch_records")
    shares = rows.assign(bad=rows["lost"] > 0).groupby(["max_offset_behind", "fetch_records"])["bad"].mean()
    (behind, fetch) = next(where for where, share in shares.items() if share > 0)
    found.picture.chosen = [found.xs.index(behind), found.ys.index(fetch), 1]
    assert found.player is not None and found.children == (found.picture, found.player)
    knobs = found.player.trace.settings
    assert (knobs["max_offset_behind"], knobs["fetch_records"], knobs["process_ms"]) == (behind, fetch, 20)
    assert judge(found.player.trace).counts["lost"] > 0


def test_without_widgets_the_map_is_a_picture_and_a_sentence(rows: pd.DataFrame) -> None:
    """As GitHub shows it."""
    found = FailureMap(rows, "max_offset_behind", "fetch_records")
    data = found._repr_mimebundle_()[0]
    assert data["text/plain"] == found.sentence == repr(found)
    assert data["image/svg+xml"].startswith("<svg") and f">{found.sentence}</desc>" in data["image/svg+xml"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x": "max_offset"}, "no column 'max_offset', expected one of experiment, records"),
        ({"anomaly": "lots"}, "no column 'lots'"),
        ({"by": "nothing"}, "no column 'nothing'"),
    ],
)
def test_columns_that_are_not_there_are_refused(rows: pd.DataFrame, change: dict[str, str], told: str) -> None:
    """With those that are."""
    with pytest.raises(KnobError, match=told):
        FailureMap(rows, **{"x": "max_offset_behind", "y": "fetch_records"} | change)


def test_too_many_cells_and_foreign_rows_are_refused(rows: pd.DataFrame) -> None:
    """A map of thousands of cells cannot be read, and rows without an experiment cannot be opened."""
    many = pd.DataFrame({"experiment": NAME, "x": range(3_000), "y": 1, "lost": 0})
    many = pd.concat([many, many.assign(y=2)])
    with pytest.raises(KnobError, match="3000 values of x and 2 of y make more than 2,500 cells"):
        FailureMap(many, "x", "y")
    with pytest.raises(KnobError, match="do not say which experiment"):
        FailureMap(rows.drop(columns="experiment"), "max_offset_behind", "fetch_records")
    with pytest.raises(KnobError, match=r"no run has .*'max_offset_behind': 7"):
        FailureMap(rows, "max_offset_behind", "fetch_records").open_run(max_offset_behind=7)
