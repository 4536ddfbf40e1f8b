"""Replays recorded scripts of Kafka's log cleaner on the kit's segmented log: appends, rolls and passes.

After each pass everything that is left is compared: records, batches with their horizons, segments, and
where the next pass begins. A log and a cleaner of the learner's own go through the same door: `build` makes
a cleaner of a log and a config, and the cleaner has `look(now_ms)`, `clean(now_ms)` and `log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kitlib.conformance.golden import fields_of, unknown
from kitlib.mechanisms.offsets_topic.compaction import CleanerConfig, LogCleaner
from kitlib.mechanisms.offsets_topic.segments import KeylessRecordError, SegmentedLog

Build = Callable[[SegmentedLog, CleanerConfig], Any]
SKIPPED = "no cleanable bytes: LogCleanerManager would not pick this log"
_TOLD_ERRORS = 3  # Kafka's message has the first three


def replay(trace: dict[str, Any], build: Build = LogCleaner) -> Iterator[dict[str, Any]]:
    """What each operation of one recorded script led to."""
    settings = trace["config"]
    config = CleanerConfig(
        delete_retention_ms=settings["delete_retention_ms"], min_compaction_lag_ms=settings["min_compaction_lag_ms"],
        map_keys=settings["offset_map_max_keys"],
    )  # fmt: skip
    cleaner = build(SegmentedLog(auto_high_watermark=settings["auto_high_watermark"]), config)
    for step in trace["steps"]:
        yield {"result": {"op": step["op"]} | done(cleaner, step["op"], step.get("args", {}))}


def done(cleaner: Any, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """The result of one operation."""
    log = cleaner.log
    match op:
        case "append":
            return appended(log, args)
        case "roll":
            return {"active_segment_base": log.roll()}
        case "hw":
            return {"high_watermark": log.update_high_watermark(args["offset"])}
        case "clean":
            return cleaned(cleaner, args["now"])
        case other:
            raise unknown(other)


def appended(log: SegmentedLog, args: dict[str, Any]) -> dict[str, Any]:
    """A batch's offsets, or why Kafka refuses it."""
    try:
        batch = log.append([(raw(row["key"]), raw(row["value"]), row["ts"]) for row in args["batch"]])
    except KeylessRecordError as refused:
        errors = ", ".join(
            f"RecordError(batchIndex={index}, message='Compacted topic cannot accept message without key in topic "
            f"partition {log.name}')"
            for index in refused.indexes[:_TOLD_ERRORS]
        )
        return {
            "error": "RecordValidationException",
            "message": "org.apache.kafka.common.InvalidRecordException: One or more records have been rejected due to "
            f"{len(refused.indexes)} record errors in total, and only showing the first three errors at most: [{errors}]",
        }
    return {"first_offset": batch.base_offset, "last_offset": batch.last_offset}


def cleaned(cleaner: Any, now_ms: int) -> dict[str, Any]:
    """What a pass found and what it left, in the recording's words."""
    log = cleaner.log
    found = cleaner.look(now_ms)
    done = cleaner.clean(now_ms)
    told: dict[str, Any] = {
        "first_dirty_offset": found.first_dirty,
        "first_uncleanable_offset": found.first_uncleanable,
    }
    told |= {"skipped": SKIPPED} if done is None else {"next_first_dirty_offset": done.next_first_dirty}
    return told | {
        "segment_bases": [each.base_offset for each in log.segments],
        "log_end_offset": log.end_offset,
        "surviving": [
            {"offset": each.offset, "key": text(each.key), "value": text(each.value), "ts": each.timestamp_ms}
            for each in log.records()
        ],
        "batches": [
            fields_of(each, "base_offset last_offset delete_horizon_ms") | {"record_offsets": [record.offset for record in each.records]}
            for each in log.batches()
        ],
    }


def raw(text: str | None) -> bytes | None:
    """A key or a value as it lies in the log."""
    return None if text is None else text.encode("utf-8", "replace")


def text(raw: bytes | None) -> str | None:
    """A key or a value as the script writes it."""
    return None if raw is None else raw.decode()
