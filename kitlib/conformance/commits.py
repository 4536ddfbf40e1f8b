"""Compares the kit's windows and judgements with Burrow v1.9.5's: a row is a history of commits and log ends.

The events of a row go through the storage, and its window and its judgement at the end are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import number_in
from kitlib.conformance.lag import UNSIGNED_MOST, as_recorded, share_in
from kitlib.errors import TraceError
from kitlib.mechanisms.lag import Commit, Status, Window
from kitlib.monitor.lag_window import LagStorage

GROUP, TOPIC, PARTITION = "group", "topic", 0  # rows are about one partition of one group


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the storage and the rules make of one recorded history. TraceError for a row that is no recorded one."""
    for step in trace["steps"]:
        args, recorded = step.get("args", {}), step.get("result")
        config, ops = args.get("config"), args.get("ops")
        if not isinstance(config, dict) or not isinstance(ops, list):
            raise TraceError("the row has no config or no ops, expected settings and a list of events.")
        intervals, distance_s, expire_s = (number_in(config, name) for name in ("intervals", "min_distance_s", "expire_group_s"))
        storage = LagStorage(intervals, distance_s, expire_s)
        for op in ops:
            happen(storage, op)
        yield {"result": look(storage, config, number_in(args, "evaluate_at_ms"), recorded)}


def happen(storage: LagStorage, op: Any) -> None:
    """One event; TraceError for one that the recorder never writes."""
    kind = op.get("op") if isinstance(op, dict) else op
    if kind == "broker":
        storage.add_log_end(TOPIC, PARTITION, number_in(op, "offset"))
    elif kind == "commit":
        commit = Commit(number_in(op, "offset"), number_in(op, "timestamp_ms"), order=number_in(op, "order"))
        storage.add_commit(GROUP, TOPIC, PARTITION, commit, number_in(op, "at_ms"))
    else:
        raise TraceError(f"an event is {kind!r:.60}, expected broker or commit.")


def look(storage: LagStorage, config: dict[str, Any], now_ms: int, recorded: Any) -> dict[str, Any]:
    """The window and its judgement in the recording's words."""
    told = recorded if isinstance(recorded, dict) else {}
    allowed_lag = number_in(config, "allowed_lag", most=UNSIGNED_MOST)
    minimum_complete = share_in(config, "minimum_complete")
    windows = storage.windows(GROUP, now_ms, allowed_lag)
    group = storage.status(GROUP, now_ms, allowed_lag, minimum_complete)
    if windows is None or group.status is Status.NOTFOUND:
        nothing = ("window", "broker_offsets", "group_complete", "partition_status", "partition_complete")
        return dict.fromkeys(nothing) | {"found": False, "current_lag": 0, "group_status": group.status.name}
    window, partition = windows[TOPIC, PARTITION], group.partitions[TOPIC, PARTITION]
    return {
        "found": True,
        "window": window_told(window),
        "broker_offsets": list(window.log_ends),
        "current_lag": partition.current_lag,
        "group_status": group.status.name,
        "group_complete": as_recorded(group.complete, told.get("group_complete")),
        "partition_status": partition.status.name,
        "partition_complete": as_recorded(partition.complete, told.get("partition_complete")),
    }


def window_told(window: Window) -> list[dict[str, Any] | None]:
    """The slots in the recording's words."""
    return [
        None
        if each is None
        else {
            "offset": each.offset,
            "order": each.order,
            "timestamp_ms": each.timestamp_ms,
            "observed_at_ms": each.observed_at_ms,
            "lag": each.lag,
        }
        for each in window.commits
    ]
