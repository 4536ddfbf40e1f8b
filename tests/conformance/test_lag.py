"""Burrow's judgements against every recorded window and history."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kitlib.conformance import commits
from kitlib.conformance import lag as windows
from kitlib.conformance.golden import bundled, conform, read_traces

WINDOWS = {row["name"]: row for row in read_traces(bundled("burrow", "windows_named.jsonl.gz"))}
HISTORIES = {row["name"]: row for row in read_traces(bundled("burrow", "commits_named.jsonl.gz"))}


def test_lag_beyond_63_bits_is_a_lag() -> None:
    """Burrow's lags are unsigned: the greatest is no reason to refuse a row."""
    row = copy.deepcopy(WINDOWS["stalled_consumer"])
    row["steps"][0]["args"].update(current_lag=2**64 - 1, allowed_lag=2**64 - 1)
    [done] = windows.replay(row)
    assert (done["result"]["status"], done["result"]["current_lag"]) == ("OK", 2**64 - 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda args: args.update(offsets=7), "offsets is 7"),
        (lambda args: args["offsets"].append(7), "a commit is 7"),
        (lambda args: args["offsets"][0].update(lag="1"), "lag is '1'"),
        (lambda args: args.update(broker_offsets=[None]), "broker_offsets is None"),
        (lambda args: args.update(current_lag=True), "current_lag is True"),
        (lambda args: args.pop("minimum_complete"), "minimum_complete is None"),
    ],
)  # fmt: skip
def test_window_that_is_never_recorded_is_told(change: Callable[[Any], Any], words: str) -> None:
    """What the recorder never writes differs in a sentence, and the next row goes on."""
    row = copy.deepcopy(WINDOWS["stalled_consumer"])
    change(row["steps"][0]["args"])
    found = conform(windows.replay, iter([row, WINDOWS["stop_beats_rewind"]]))
    assert found.matched == 1 and words in str(found.differences[0].got)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda args: args.update(ops=None), "no config or no ops"),
        (lambda args: args["ops"].append(7), "an event is 7"),
        (lambda args: args["ops"].append({"op": "owner"}), "an event is 'owner'"),
        (lambda args: args["config"].update(intervals=0), "intervals is 0"),
        (lambda args: args["ops"][0].update(offset="1"), "offset is '1'"),
        (lambda args: args.pop("evaluate_at_ms"), "evaluate_at_ms is missing"),
    ],
)  # fmt: skip
def test_history_that_is_never_recorded_is_told(change: Callable[[Any], Any], words: str) -> None:
    """What the recorder never writes differs in a sentence, and the next row goes on."""
    row = copy.deepcopy(HISTORIES["e2e_stop"])
    change(row["steps"][0]["args"])
    found = conform(partial(commits.replay), iter([row, HISTORIES["e2e_rewind"]]))
    assert found.matched == 1 and words in str(found.differences[0].got)
