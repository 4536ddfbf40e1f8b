"""The folding of a log of numbers, held against the same log sorted; and what three witnesses say of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.desk.fold import LogFold, tally_of
from kitlib.desk.lamps import Drained, Witness
from kitlib.desk.runs import RUNS_SCHEMA, to_runs

LOGS = st.lists(st.integers(-1, 30), max_size=60)


def folded(numbers: Sequence[int]) -> LogFold:
    """A log, taken as runs of numbers that go up by one."""
    found, at = LogFold(), 0
    while at < len(numbers):
        end = at + 1
        while numbers[at] >= 0 and end < len(numbers) and numbers[end] == numbers[end - 1] + 1:
            end += 1
        found.skip(at) if numbers[at] < 0 else found.take(at, numbers[at], end - at)
        at = end
    return found


@given(LOGS)
def test_folded_log_counts_what_the_sorted_log_counts(numbers: list[int]) -> None:
    """Lines, second copies, late first copies and gaps are those of the whole log, whatever it holds."""
    assert folded(numbers).tally(31) == tally_of(np.array(numbers, np.int64), 31)


@given(LOGS)
def test_task_of_spark_makes_runs_of_a_batch(numbers: list[int]) -> None:
    """Runs hold the batch's lines in their order; a stretch of lines without a number is one run of -1."""
    count = len(numbers)
    columns = {
        "topic": ["a"] * count, "offset": list(range(7, 7 + count)), "log_ms": [5] * count, "number": [*numbers],
        "told": list(range(count)),
    }  # fmt: skip
    ints = {name: pa.array(values, pa.string() if name == "topic" else pa.int64()) for name, values in columns.items()}
    made = [batch.to_pylist() for batch in to_runs(iter([pa.RecordBatch.from_pydict(ints)]))]
    rows = [row for batch in made for row in batch]
    told = [row["first"] + index if row["first"] >= 0 else -1 for row in rows for index in range(row["count"])]
    assert told == [*numbers]
    assert [row["offset"] for row in rows] == [7 + sum(row["count"] for row in rows[:index]) for index in range(len(rows))]
    assert all(pa.RecordBatch.from_pylist(batch, schema=RUNS_SCHEMA) for batch in made)


def witness(name: str, topic: Sequence[int], results: Sequence[int], unread: int = 0) -> Witness:
    return Witness(name, tally_of(np.array(topic, np.int64), 10), tally_of(np.array(results, np.int64), len(topic)), unread)


TEN = list(range(10))


@pytest.mark.parametrize(
    ("topic", "results", "sentence"),
    [
        pytest.param(TEN, TEN, "Spark: the same in all counts.", id="all the same"),
        pytest.param(
            [*TEN, 4], TEN,
            "Spark counts 1 duplicated in the topic, the broker's log 0.", id="a copy too many",
        ),
        pytest.param(
            [0, 1, 2, 4, 5, 6, 7, 8, 9], TEN[:9],
            "Spark counts 1 missing in the topic, the broker's log 0.", id="a record too few",
        ),
        pytest.param(
            TEN, [0, 1, 2, 3, 4, 5, 7, 8, 9],
            "Spark counts 1 missing in the results, the broker's log 0.", id="a result too few",
        ),
    ],
)  # fmt: skip
def test_lamp_that_differs_says_in_what(topic: list[int], results: list[int], sentence: str) -> None:
    """A witness held against the log: the first count that differs."""
    ledgers, log = (witness(name, TEN, TEN) for name in ("our ledgers", "the broker's log"))
    drained = Drained(10, 10, (ledgers, log, witness("Spark", topic, results)))
    assert drained.lamps[2].sentence == sentence
    assert drained.agree == ("the same" in sentence)
    assert json.loads(json.dumps(drained.to_json()))["lamps"][0]["state"] == "agrees"


def test_lamp_of_a_witness_that_misses_other_records_differs() -> None:
    """As many are missing, and not the same ones."""
    log, spark = witness("the broker's log", TEN, TEN[1:]), witness("Spark", TEN, TEN[:9])
    drained = Drained(10, 10, (log, log, spark))
    assert not drained.agree and drained.sentence == "Spark counts as many missing in the results as the broker's log, but other records."


def test_lamp_of_ledgers_that_skipped_offsets_cannot_tell() -> None:
    """Where a spout began behind records that none had read, the ledgers speak of the results only."""
    ledgers = witness("our ledgers", TEN[:5], TEN, unread=5)
    log, spark = (witness(name, TEN, TEN) for name in ("the broker's log", "Spark"))
    drained = Drained(10, 10, (ledgers, log, spark))
    assert (drained.lamps[0].state, drained.agree) == ("unknown", False)
    assert "5 offsets were never read" in drained.sentence


def test_drained_desk_tells_a_loss_from_a_stall() -> None:
    """What the commit has passed without a result is lost; the rest would be read again."""
    log = witness("the broker's log", TEN, [0, 1, 2, 4, 5, 5])
    drained = Drained(10, 7, (log, log, log))
    assert drained.agree
    assert "5 of them have no result, and the commit has passed 2 of these; 1 was processed again" in drained.sentence
