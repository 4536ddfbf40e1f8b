"""The folding of a log of numbers, held against the same log sorted; and what three witnesses say of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.desk import fold
from kitlib.desk.audit import DeskFold
from kitlib.desk.fold import LogFold, Tally, runs_of, tally_of
from kitlib.desk.lamps import Drained, Witness
from kitlib.desk.runs import RUNS_SCHEMA, to_runs

LOGS = st.lists(st.integers(-1, 30), max_size=60)


def folded(numbers: Sequence[int]) -> LogFold:
    """A log, taken as runs."""
    found, at = LogFold(), 0
    for first, last in runs_of(np.array(numbers, np.int64)):
        if first < 0:  # -1 goes on as 0, 1, ...
            found.skip(at)
            first, at = first + 1, at + 1
        found.take(at, first, last - first + 1)
        at += last - first + 1
    return found


@given(LOGS)
def test_folded_log_counts_what_the_sorted_log_counts(numbers: list[int]) -> None:
    """Lines, second copies, late first copies and gaps are those of the whole log, whatever it holds."""
    assert Tally.of(folded(numbers), 31) == tally_of(np.array(numbers, np.int64), 31)


def test_state_stays_small_when_every_other_record_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest gaps become a number when there are too many of them, and what was missing stays missing."""
    monkeypatch.setattr(fold, "MOST_RANGES", 10)
    log = LogFold()
    for index in range(1_000):
        log.take(index, 2 * index)
    assert len(log.seen) == 10
    assert log.missing(1_999) == 999
    assert log.missing(100) >= 50


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


def test_desk_fold_tells_lag_from_loss() -> None:
    """What lies below the commit that a result tells of is lost; what lies above it is lag."""
    known = DeskFold(committed_to=50)
    known.topic.take(0, 0, 100)
    known.results.take(0, 0, 40)
    known.results.take(40, 60, 10)
    assert (known.lost, known.lag) == (10, 40)


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
    drained = Drained.of(10, ledgers, log, witness("Spark", topic, results), committed_to=10)
    assert drained.lamps[2].sentence == sentence
    assert drained.agree == ("the same" in sentence)
    assert json.loads(json.dumps(drained.to_json()))["lamps"][0]["state"] == "agrees"


def test_lamp_of_ledgers_that_skipped_offsets_cannot_tell() -> None:
    """Where a spout began behind records that none had read, the ledgers speak of the results only."""
    ledgers = witness("our ledgers", TEN[:5], TEN, unread=5)
    log, spark = (witness(name, TEN, TEN) for name in ("the broker's log", "Spark"))
    drained = Drained.of(10, ledgers, log, spark, committed_to=10)
    assert (drained.lamps[0].state, drained.agree) == ("unknown", False)
    assert "5 offsets were never read" in drained.sentence


def test_drained_desk_tells_a_loss_from_a_stall() -> None:
    """What the commit has passed without a result is lost; the rest would be read again."""
    log = witness("the broker's log", TEN, [0, 1, 2, 4, 5, 5])
    drained = Drained.of(10, log, log, log, committed_to=7)
    assert drained.agree
    assert "5 of them have no result, and the commit has passed 2 of these; 1 was processed again" in drained.sentence


def test_same_count_of_other_records_is_a_difference() -> None:
    """Two witnesses that name different records differ, although they count as many."""
    log, other = witness("the broker's log", [*TEN, 3], TEN), witness("Spark", [*TEN, 5], TEN)
    said = Drained.of(10, log, log, other, committed_to=10).lamps[2].sentence
    assert said == "Spark counts as many in the topic as the broker's log, but other records."
