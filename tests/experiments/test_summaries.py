"""The words and the rows that notebooks 11 to 13 show of a run, and runs at the same time."""

from __future__ import annotations

from threading import Barrier

import pytest

from kitlib.errors import KnobError, TraceError
from kitlib.experiments import run
from kitlib.experiments.offsets.summaries import first_step, left_in_log
from kitlib.experiments.parallel import at_once


def test_step_that_a_run_has_not_is_a_sentence() -> None:
    """Where a notebook asks for a step that did not come, the verb and the actor are told."""
    with pytest.raises(TraceError, match="no step is a dies now"):
        first_step(run("stale_offset"), "dies", "now")


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
