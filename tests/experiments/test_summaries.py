"""The words and the rows that notebooks 11 to 13 show of a run, and runs at the same time."""

from __future__ import annotations

from threading import Barrier

import pytest

from kitlib.errors import KnobError, TraceError
from kitlib.experiments import run
from kitlib.experiments.offsets.summaries import (
    after_the_move,
    answers_in,
    days_of,
    ending,
    first_step,
    last_load,
    left_in_log,
    log_start,
    lost_and_refused,
    records_at,
    reset_ending,
    rung,
    where_it_resumed,
    who_saw,
)
from kitlib.experiments.parallel import at_once


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


@pytest.mark.parametrize(
    ("state", "policy", "words"),
    [
        ("committed", "none", "goes on"),
        ("new", "none", "stops"),
        ("committed but forgotten", "latest", "50 lost"),
        ("committed but forgotten", "earliest", "20 duplicated"),
    ],
)
def test_reset_ends_as_its_verdict_says(state: str, policy: str, words: str) -> None:
    """A reset is loss, repetition, an error, or nothing at all."""
    assert reset_ending(run("reset_policy", state=state, policy=policy)) == words


def test_last_start_counts_after_a_truncation() -> None:
    """The consumer starts twice; where it begins the second time is what is told."""
    assert where_it_resumed(run("truncated_commit", new_records=0)) == "begins at 0: 40 twice, 0 skipped"
    assert where_it_resumed(run("truncated_commit", new_records=15)) == "begins at 50: 0 twice, 10 skipped"


def test_what_a_cut_costs_is_lost_or_refused() -> None:
    """Without a least number the records are lost, with one they were never taken."""
    assert lost_and_refused(run("follower_cut", replicas=2, min_insync_replicas=1)) == "10 lost, 0 refused"
    assert lost_and_refused(run("follower_cut", replicas=2, min_insync_replicas=2)) == "0 lost, 10 refused"


def test_purged_tombstone_is_not_left_in_the_log() -> None:
    """What is left are the records after the last pass: the tombstone's offset is among them only as long as it may not go."""
    purged, kept = run("tombstones"), run("tombstones", new_records=False, away_ms=3_000)
    removed = {offset for step in purged if step.what == "purge" for offset in step.data["offsets"]}
    assert removed
    assert not removed & {offset for offset, _, _ in left_in_log(purged)}
    assert removed <= {offset for offset, _, _ in left_in_log(kept)}


def test_calls_run_at_the_same_time_and_keep_their_order() -> None:
    """Each call waits for the others, so they must be under way together; an error of one is the answer to all."""
    together = Barrier(3, timeout=30)
    assert list(at_once(lambda key: (together.wait(), key * 2)[1], "cab").items()) == [("c", "cc"), ("a", "aa"), ("b", "bb")]
    assert at_once(str, ()) == {}
    with pytest.raises(KnobError, match="policy"):
        at_once(lambda policy: run("reset_policy", policy=policy), ("latest", "whatever"))
