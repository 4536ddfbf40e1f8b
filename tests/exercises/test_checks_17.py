"""The exercises of notebook 17: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import nb_17
from tests.exercises import solutions
from tests.exercises.solutions import slip

Swept = list[dict[str, Any]]


def each_bound_alone(rows: Swept) -> int | None:
    losing = {row["max_offset_behind"] for row in rows if row["lost"]}
    return min({row["max_offset_behind"] for row in rows} - losing, default=None)


BROKEN_IS_CLEAN = slip("safe_bound", ' or row["error"]', "")
SOLUTIONS: list[tuple[str, Any, str]] = [
    ("seeds_needed", ..., "with one seed less 94.9%"),
    ("safe_bound", ..., "40 sweeps"),
    ("silent_loss", ..., "no commit stands still"),
    ("exchanges", ..., "must meet in one task"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("seeds_needed", 20, "with 20 seeds, 64.2% of all sweeps show a loss"),
    ("seeds_needed", 58, "with 58 seeds"),
    ("seeds_needed", 60, "60 is not the smallest: 59 works too"),
    ("safe_bound", each_bound_alone, "is clean, but with a bound of"),
    ("safe_bound", BROKEN_IS_CLEAN, "with a bound of 10, a run raised an error, so nobody knows"),
    ("safe_bound", lambda rows: max(row["max_offset_behind"] for row in rows), "yours returns 40"),
    ("safe_bound", lambda rows: 5, "with a bound of 5, a run"),
    ("safe_bound", lambda rows: 7, "one of the bounds of the rows, or None"),
    ("silent_loss", {"max_offset_behind": "unlimited"}, "no record is lost"),
    ("silent_loss", {"records": 20}, "but the commits stall"),
    ("silent_loss", {"outage_ms": 0, "fail_percent": 20}, "the outage stays as it is"),
    ("silent_loss", {"records": 40, "max_spout_pending": 3, "commit_every_ms": 400}, "but with 40 records"),
    ("exchanges", [0, 1, 1, 0], "situation 3"),
    ("exchanges", [1, 1, 2, 0], "situation 1"),
    ("exchanges", [0, 2, 2, 0], "situation 2"),
    ("exchanges", [0, 1, 2, 1], "situation 4"),
]


def test_cases_of_a_safe_bound_hold_every_trap() -> None:
    """Among the sweeps are some without a safe bound, some in which only an error decides, and some whose bound of 0 is clean alone."""
    cases = [rows for [rows] in nb_17.swept_rows()]
    right = [solutions.safe_bound(rows) for rows in cases]
    assert None in right and len(set(right)) >= 4
    assert any(BROKEN_IS_CLEAN(rows) != safe for rows, safe in zip(cases, right, strict=True))
    assert sum(each_bound_alone(rows) == 0 != safe for rows, safe in zip(cases, right, strict=True)) > 10
