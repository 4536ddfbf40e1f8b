"""The rows that notebook 12 shows of the incidents."""

from __future__ import annotations

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import run
from kitlib.experiments.offsets.summaries import (
    after_the_move,
    answers_in,
    days_of,
    ending,
    first_step,
    last_load,
    log_start,
    records_at,
    rung,
    who_saw,
)


def test_rows_of_the_stale_offset_tell_its_story() -> None:
    """The load that ended early, the old answer, the log with both formats, and where the topic begins."""
    trace = run("stale_offset")
    failed = first_step(trace, "load_failed")
    assert [(row["what"], row["told"]) for row in answers_in(trace)][-4:] == [
        ("load_failed", "at offset 86: A commit of version 1 cannot be read"), ("load_end", "2 records in 5 ms"),
        ("answer", "4"), ("start", "4"),
    ]  # fmt: skip
    assert {row["key"]: row["committed"] for row in records_at(failed)}["mail orders-0, old format"] == 4
    assert (ending(trace), log_start(trace)) == ({"told": 4, "lost": 0, "sent twice": 21}, 0)
    assert rung(trace) == [{"figure": "offsets missing in the cache", "value": 0.5, "days before the move": 0.0}]
    assert who_saw(trace)["Burrow says"] == "OK, REWIND"
    with pytest.raises(TraceError, match="no step is a dies now"):
        first_step(trace, "dies", "now")


def test_rows_of_the_dead_cleaner_tell_its_story() -> None:
    """The tombstone that is written during the load, the key that leaves twice, the last answer; and the days before."""
    trace = run("dead_cleaner")
    rows = after_the_move(trace)
    assert [row["told"] for row in rows if row["what"] in ("write", "evict")] == [
        "a tombstone at offset 96", "expired", "a tombstone at offset 103", "expired", "tombstone",
    ]  # fmt: skip
    assert (rows[0]["read"], rows[-1]) == ("0 of 80", {"seconds": 90, "read": "", "what": "answer", "told": "-1"})
    assert last_load(trace) == {"records read": 88, "load (s)": 88}
    days = days_of(trace)
    assert [row["day"] for row in days] == list(range(13))
    assert [row["records"] for row in days] == [8, 16, 18, *range(16, 88, 8), 95]
