"""A query's plan, as Spark will carry it out, without the numbers that are different in every session.

    print(plan(rows.groupBy("max_offset_behind").count()))

It is read from the bottom up: a line for each operator, below it what it reads. `Exchange` moves rows between tasks,
which is what a query costs on a cluster; `*(1)` are operators that Spark has compiled into one function.
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame

LONGEST_LINE = 140  # characters
NUMBERS = re.compile(r"#\d+L?|, \[plan_id=\d+\]|(?<=_common_expr)_\d+")  # of columns, of exchanges, and of what several columns share


def plan(frame: DataFrame) -> str:
    """The physical plan of a DataFrame that does not stream, an operator a line."""
    _, *told = NUMBERS.sub("", frame._explain_string()).splitlines()  # type: ignore[operator]  # Spark Connect's frames have it
    return "\n".join(line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…" for line in told if line.strip())
