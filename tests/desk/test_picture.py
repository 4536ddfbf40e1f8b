"""What the desk's page says of time: even ticks, and when the broker is back. That the parts run is in test_desk_on_kafka."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kitlib.desk.picture import draw
from kitlib.desk.run import DeskRun


def look(at_s: float) -> dict[str, Any]:
    spark = {"lost": 0, "duplicated_topic": 0, "duplicated_results": 0, "reordered_topic": 0, "reordered_results": 0}
    return {"at_s": at_s, "rate": {"stored": 1, "written": 1}, "lag": 0, "spark": spark}


@pytest.mark.parametrize(
    ("end_s", "expected"), [(2, [0, 1, 2]), (7, [0, 2, 4, 6]), (29, [0, 5, 10, 15, 20, 25]), (300, [180, 200, 220, 240, 260, 280, 300])]
)
def test_ticks_are_whole_seconds_evenly_apart(end_s: int, expected: list[int]) -> None:
    """As many as there is room for, and none twice."""
    drawn = draw([look(at_s) for at_s in range(end_s + 1)])
    assert [int(told) for told in re.findall(r">(\d+) s<", drawn)] == expected


def test_a_killed_broker_is_told_to_be_back_when_records_are_stored_again() -> None:
    """Once, and not for what was stored before it died."""
    run = DeskRun()
    for stored, killed_s in ((5, 1e9), (9, -1.0), (12, None)):  # it dies after the first look, and before the second
        run.killed_s, run.ledgers.stored = killed_s, stored
        run.snapshot()
    assert [said for _, said in run.events] == ["The broker is back: records are stored again."]
    assert run.killed_s is None
