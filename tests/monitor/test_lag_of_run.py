"""Burrow's judgement after each commit of a run: what it takes from a trace, and what it cannot see."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import TraceError
from kitlib.experiments.lag.lag_stories import judged_commits
from kitlib.mechanisms.lag import Status
from kitlib.trace import Trace


def committed(*offsets: int | None, log_end: int = 100) -> Trace:
    """A trace of commits, ten seconds apart; None is an operator's tombstone."""
    trace = Trace("r", "x", domain="groups")
    trace.record(0, "log", "append", state={"log_end": log_end}, topic="t", partition=0, first=0, last=log_end - 1)
    for number, offset in enumerate(offsets, 1):
        who, what = ("operator", "forget") if offset is None else ("A", "commit")
        data: dict[str, Any] = {"before": 0} if offset is None else {"offset": offset, "written": True}
        trace.record(number * 10_000, who, what, state={"log_end": log_end}, topic="t", partition=0, **data)
    return trace


def statuses(*offsets: int | None, log_end: int = 100) -> list[Status]:
    return [each.status for each in judged_commits(committed(*offsets, log_end=log_end))]


def test_rewind_is_told_until_the_old_offset_is_reached_again() -> None:
    """Caught up, back to 20, and up again: REWIND at each commit below 90, and its sentence says from where."""
    found = judged_commits(committed(80, 90, 20, 50, 90))
    assert [each.status.name for each in found] == ["STALL", "OK", "REWIND", "REWIND", "OK"]
    assert str(found[2].judgement) == "REWIND: commit 3 of 3 went back from 90 to 20, and none has reached 90 since"
    assert [each.end.timestamp_ms for each in found[:2] if each.end] == [10_000, 20_000]


def test_loss_is_not_seen() -> None:
    """The offset vanishes and the next commit is at the end: a jump forward, and no lag."""
    assert statuses(90, None, 100) == [Status.STALL, Status.OK]


def test_partition_that_there_is_none_of_is_refused() -> None:
    """As in the signs."""
    with pytest.raises(TraceError, match="no step is about partition 3"):
        judged_commits(committed(1), partition=3)
    assert judged_commits(committed()) == []
