"""What a run about offsets came to, in a few words for a cell of a table."""

from __future__ import annotations

from typing import Any

from kitlib.monitor.delivery import judge
from kitlib.trace import Trace


def reset_ending(trace: Trace) -> str:
    """A run of `reset_policy`: "stops", "goes on", or how many records were lost or duplicated."""
    if any(step.what == "refused" for step in trace):
        return "stops"
    counts = judge(trace).counts
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("lost", "duplicated") if counts[kind]) or "goes on"


def where_it_resumed(trace: Trace) -> str:
    """A run of `truncated_commit`: where the restarted consumer begins, and what it works on twice or skips."""
    begin, counts = [step.data for step in trace if step.what == "start"][-1], judge(trace).counts
    return f"begins at {begin['offset']}: {counts['duplicated']} twice, {counts['skipped']} skipped"


def lost_and_refused(trace: Trace) -> str:
    """A run of `follower_cut`: how many records were lost, and how many the producer was refused."""
    refused = sum(step.data["count"] for step in trace if step.what == "refused")
    return f"{judge(trace).counts['lost']} lost, {refused} refused"


def left_in_log(trace: Trace) -> list[Any]:
    """The records that a compacted log holds at the end of the run, each [offset, number of its key, value]."""
    return list(trace.steps[-1].state["offsets"]["records"])
