"""Finding the smallest run with a property."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.find import find
from kitlib.experiments.grid import Grid
from kitlib.monitor.delivery import judge


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
