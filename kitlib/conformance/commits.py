"""Compares the kit's windows and judgements with Burrow v1.9.5's: a row is a history of commits and log ends.

The events of a row go through the storage, and its window and its judgement at the end are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import fields_of, unknown
from kitlib.conformance.lag import as_recorded
from kitlib.mechanisms.lag import Commit, Status
from kitlib.monitor.lag_window import LagStorage

GROUP, TOPIC, PARTITION = "group", "topic", 0  # rows are about one partition of one group


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the storage and the rules make of one recorded history."""
    for step in trace["steps"]:
        args = step["args"]
        config = args["config"]
        storage = LagStorage(config["intervals"], config["min_distance_s"], config["expire_group_s"])
        for op in args["ops"]:
            happen(storage, op)
        yield {"result": look(storage, config, args["evaluate_at_ms"], step["result"])}


def happen(storage: LagStorage, op: dict[str, Any]) -> None:
    """One event."""
    match op["op"]:
        case "broker":
            storage.add_log_end(TOPIC, PARTITION, op["offset"])
        case "commit":
            commit = Commit(op["offset"], op["timestamp_ms"], order=op["order"])
            storage.add_commit(GROUP, TOPIC, PARTITION, commit, op["at_ms"])
        case other:
            raise unknown(other)


def look(storage: LagStorage, config: dict[str, Any], now_ms: int, recorded: dict[str, Any]) -> dict[str, Any]:
    """The window and its judgement in the recording's words."""
    allowed_lag, minimum_complete = config["allowed_lag"], config["minimum_complete"]
    windows = storage.windows(GROUP, now_ms, allowed_lag)
    group = storage.status(GROUP, now_ms, allowed_lag, minimum_complete)
    if windows is None or group.status is Status.NOTFOUND:
        nothing = ("window", "broker_offsets", "group_complete", "partition_status", "partition_complete")
        return dict.fromkeys(nothing) | {"found": False, "current_lag": 0, "group_status": group.status.name}
    window, partition = windows[TOPIC, PARTITION], group.partitions[TOPIC, PARTITION]
    return {
        "found": True,
        "window": [each and fields_of(each, "offset order timestamp_ms observed_at_ms lag") for each in window.commits],
        "broker_offsets": list(window.log_ends),
        "current_lag": partition.current_lag,
        "group_status": group.status.name,
        "group_complete": as_recorded(group.complete, recorded.get("group_complete")),
        "partition_status": partition.status.name,
        "partition_complete": as_recorded(partition.complete, recorded.get("partition_complete")),
    }
