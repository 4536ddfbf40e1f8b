"""The windows that Burrow 1.9.5 was asked about, as a learner's own rules get them, the shortest ones first.

Offsets, times and log ends are shifted so that the smallest offset and the first commit's second are 0: no rule minds, and
a sentence can show them.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.lag import window_of
from kitlib.monitor.lag import Window, trimmed

FILES = ("windows_named.jsonl.gz", "windows_public.jsonl.gz")
ASKED = 5  # how many parts of a case are arguments


@cache
def windows() -> tuple[tuple[list[list[int | None]], list[int], int, int, int, str], ...]:
    """Commits as [offset, ms, lag or None], log ends, the lag now, the time now in s, what counts as no lag; and Burrow's word."""
    found = []
    for trace in chain.from_iterable(read_traces(bundled("burrow", name)) for name in FILES):
        for step in trace["steps"]:
            window, word = window_of(step["args"]), step["result"].get("calculate_status")
            commits = [commit for commit in trimmed(window.commits) if commit is not None]
            if word is None or len(commits) < len(trimmed(window.commits)):
                continue  # Burrow did not judge it
            low, begin_s = min(commit.offset for commit in commits), commits[0].timestamp_ms // 1000
            rows = [[commit.offset - low, commit.timestamp_ms - 1000 * begin_s, commit.lag] for commit in commits]
            ends = [end - low for end in window.log_ends]
            found.append((rows, ends, window.current_lag, window.now_s - begin_s, window.allowed_lag, word))
    return tuple(sorted(found, key=lambda case: (len(case[0]), len(case[1]), sum(case[1]))))


def as_window(commits: list[list[int | None]], log_ends: list[int], lag: int, now_s: int, allowed: int) -> Window:
    """The window of a case."""
    slots: list[dict[str, Any]] = [{"offset": offset, "timestamp_ms": at_ms, "lag": lag_then} for offset, at_ms, lag_then in commits]
    args = {"offsets": slots, "broker_offsets": log_ends, "current_lag": lag, "time_now_s": now_s, "allowed_lag": allowed}
    return window_of(args)
