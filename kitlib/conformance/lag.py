"""Compares the kit's judgement of lag with Burrow v1.9.5's: one window of commits a row.

Beside the judgement each row has the answer of every rule by itself, so that a difference names the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import fields_of
from kitlib.mechanisms import lag
from kitlib.mechanisms.lag import Commit, EmptyWindowError, Window

PANIC = "runtime error: invalid memory address or nil pointer dereference"  # what Go says on an empty slot


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the rules say of one recorded window."""
    for step in trace["steps"]:
        window, told = window_of(step["args"]), step["result"].get("complete")
        try:
            found = lag.evaluate(window, step["args"]["minimum_complete"])
        except EmptyWindowError:
            yield {"result": crashed()}
            continue
        cut = Window(lag.trimmed(window.commits), window.log_ends, window.current_lag, window.now_s, window.allowed_lag)
        is_judged = bool(cut.commits) and None not in cut.commits
        yield {
            "result": {
                "status": found.status.name,
                "complete": as_recorded(found.complete, told),
                "current_lag": found.current_lag,
                "calculate_status": lag.calculate(cut).status.name if is_judged else None,
                "rules": rules_told(cut) if is_judged else None,
            }
            | {end: each and fields_of(each, "offset timestamp_ms lag") for end, each in (("start", found.start), ("end", found.end))}
        }


def crashed() -> dict[str, Any]:
    """The row of a window on which Burrow crashes."""
    return dict.fromkeys(("status", "complete", "current_lag", "start", "end", "calculate_status", "rules")) | {"panic": PANIC}


def rules_told(window: Window) -> dict[str, Any]:
    """Every rule's own answer, in the recording's words."""
    index = lag.rewind_index(window)
    return {
        "is_lag_always_not_zero": lag.is_lag_always_not_zero(window),
        "rewind_index": -1 if index is None else index,
        "rewind_recovered": None if index is None else lag.has_recovered(window, index),
        "offsets_stopped": lag.has_stopped(window),
        "offsets_stalled": lag.is_stalled(window),
        "lag_not_decreasing": lag.is_lag_not_decreasing(window),
        "recent_lag_zero": lag.was_caught_up_lately(window),
    }


def as_recorded(share: float, recorded: Any) -> Any:
    """A share as it is recorded, if both are the same float32; else its shortest decimal form."""
    if recorded is not None and lag.float32(recorded) == lag.float32(share):
        return recorded
    forms = (float(f"{share:.{digits}g}") for digits in range(1, 18))
    short = next(form for form in forms if lag.float32(form) == lag.float32(share))
    return int(short) if short.is_integer() else short


def window_of(args: dict[str, Any]) -> Window:
    """The window of a row."""
    commits = [slot and Commit(slot["offset"], slot["timestamp_ms"], slot["lag"]) for slot in args["offsets"]]
    return Window(commits, args["broker_offsets"], args["current_lag"], args["time_now_s"], args["allowed_lag"])
