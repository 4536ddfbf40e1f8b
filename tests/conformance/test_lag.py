"""Burrow's judgements against every recorded window and history."""

from __future__ import annotations

import copy

from kitlib.conformance import lag as windows
from kitlib.conformance.golden import bundled, read_traces

WINDOWS = {row["name"]: row for row in read_traces(bundled("burrow", "windows_named.jsonl.gz"))}


def test_lag_beyond_63_bits_is_a_lag() -> None:
    """Burrow's lags are unsigned: the greatest is no reason to refuse a row."""
    row = copy.deepcopy(WINDOWS["stalled_consumer"])
    row["steps"][0]["args"].update(current_lag=2**64 - 1, allowed_lag=2**64 - 1)
    [done] = windows.replay(row)
    assert (done["result"]["status"], done["result"]["current_lag"]) == ("OK", 2**64 - 1)
