"""Compares the kit's judgement of lag with Burrow v1.9.5's: one window of commits a row.

Beside the judgement each row has the answer of every rule by itself, so that a difference names the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import number_in
from kitlib.errors import TraceError
from kitlib.mechanisms import lag
from kitlib.mechanisms.lag import Commit, EmptyWindowError, Window

PANIC = "runtime error: invalid memory address or nil pointer dereference"  # what Go says on an empty slot
_LONG = 2**63
UNSIGNED_MOST = 2**64 - 1  # a lag is unsigned in Burrow


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the rules say of one recorded window. TraceError for a row that is no recorded one."""
    for step in trace["steps"]:
        args = step.get("args", {})
        recorded = step.get("result")
        window = window_of(args)
        try:
            found = lag.evaluate(window, share_in(args, "minimum_complete"))
        except EmptyWindowError:
            yield {"result": crashed()}
            continue
        told = recorded.get("complete") if isinstance(recorded, dict) else None
        cut = Window(lag.trimmed(window.commits), window.log_ends, window.current_lag, window.now_s, window.allowed_lag)
        is_judged = bool(cut.commits) and None not in cut.commits
        yield {
            "result": {
                "status": found.status.name,
                "complete": as_recorded(found.complete, told),
                "current_lag": found.current_lag,
                "start": commit_told(found.start),
                "end": commit_told(found.end),
                "calculate_status": lag.calculate(cut).status.name if is_judged else None,
                "rules": rules_told(cut) if is_judged else None,
            }
        }


def crashed() -> dict[str, Any]:
    """The row of a window on which Burrow crashes."""
    names = ("status", "complete", "current_lag", "start", "end", "calculate_status", "rules")
    return dict.fromkeys(names) | {"panic": PANIC}


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
    is_share = isinstance(recorded, int | float) and not isinstance(recorded, bool) and abs(recorded) <= 1
    if is_share and lag.float32(recorded) == lag.float32(share):
        return recorded
    forms = (float(f"{share:.{digits}g}") for digits in range(1, 18))
    short = next(form for form in forms if lag.float32(form) == lag.float32(share))
    return int(short) if short.is_integer() else short


def commit_told(commit: Commit | None) -> dict[str, Any] | None:
    """A commit in the recording's words."""
    return None if commit is None else {"offset": commit.offset, "timestamp_ms": commit.timestamp_ms, "lag": commit.lag}


def window_of(args: dict[str, Any]) -> Window:
    """The window of a row; TraceError for what is none."""
    slots, ends = args.get("offsets"), args.get("broker_offsets")
    if not isinstance(slots, list) or not isinstance(ends, list):
        raise TraceError(f"offsets is {slots!r:.60} and broker_offsets {ends!r:.60}, expected two lists.")
    return Window(
        [None if slot is None else commit_of(slot) for slot in slots],
        [number_in({"broker_offsets": end}, "broker_offsets") for end in ends],
        number_in(args, "current_lag", most=UNSIGNED_MOST),
        number_in(args, "time_now_s"),
        number_in(args, "allowed_lag", most=UNSIGNED_MOST),
    )


def commit_of(slot: Any) -> Commit:
    """One commit of a row; TraceError for what is none."""
    if not isinstance(slot, dict):
        raise TraceError(f"a commit is {slot!r:.60}, expected offset, timestamp_ms and lag.")
    lag_then = None if slot.get("lag") is None else number_in(slot, "lag", most=UNSIGNED_MOST)
    return Commit(number_in(slot, "offset"), number_in(slot, "timestamp_ms"), lag_then)


def share_in(values: dict[str, Any], name: str) -> float:
    """The share under a name, which may be more than 1; TraceError for anything else."""
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _LONG:
        raise TraceError(f"{name} is {value!r:.60}, expected a share, 0 or more.")
    return float(value)
