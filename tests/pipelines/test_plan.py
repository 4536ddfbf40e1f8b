"""Plans on real Spark: the same text every time, and what exercise 4 of notebook 17 says of them."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.exercises.nb_17 import QUERIES
from kitlib.pipelines.plan import LONGEST_LINE, plan

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def runs(spark: Any) -> str:
    """A table with the columns that the queries name."""
    columns = "max_offset_behind long, seed long, lost long, processed long"
    rows = spark.createDataFrame([(5, 1, 2, 60), (5, 2, 0, 60), (10, 1, 0, 60)], columns)
    rows.createOrReplaceTempView("runs")
    return "runs"


@pytest.mark.parametrize(("query", "moves"), QUERIES)
def test_plan_is_the_same_text_every_time_and_shows_what_moves(spark: Any, runs: str, query: str, moves: int) -> None:
    """Spark's own numbers are different for each query; the operators are not."""
    first, again = plan(spark.sql(query)), plan(spark.sql(query))
    assert first == again and "#" not in first and "plan_id" not in first
    assert first.count("Exchange ") == moves


def test_line_of_a_plan_is_cut(spark: Any, runs: str) -> None:
    """So that a notebook's page shows it."""
    wide = spark.sql("SELECT " + ", ".join(f"max(lost + {number})" for number in range(40)) + " FROM runs GROUP BY seed")
    assert max(map(len, plan(wide).splitlines())) == LONGEST_LINE
