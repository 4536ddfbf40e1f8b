"""The log cleaner against every recorded script of Kafka's own, and against bugs planted by hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kitlib.conformance.compaction import replay
from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.errors import TraceError
from kitlib.kafka.offsets import compaction, segments
from kitlib.kafka.offsets.compaction import KeepsLastBatch, LogCleaner

NAMED = {row["name"]: row for row in read_traces(bundled("groups", "compaction_named.jsonl.gz"))}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [*NAMED.values(), *read_traces(bundled("groups", "compaction_public.jsonl.gz"))]


def test_cleaner_of_4_3_1_differs_in_one_named_script() -> None:
    """There the last batch of the round stays although it is empty; 4.4.0 keeps the one at the high watermark."""

    def older(log: Any, config: Any) -> LogCleaner:
        return LogCleaner(log, replace(config, keeps_last_batch=KeepsLastBatch.AT_ROUND_END))

    differing = [name for name, row in NAMED.items() if not conform(partial(replay, build=older), iter([row])).agrees]
    assert differing == ["map_full_tombstone_high_watermark_beyond"]


_REAL_RETAINED = compaction.is_retained
_REAL_RANGE = compaction.cleanable_range
_REAL_MAP = compaction.build_offset_map
_REAL_APPEND = segments.SegmentedLog.append


def _horizon_must_be_past(record: Any, horizon_ms: int | None, offset_map: Any, now_ms: int) -> bool:
    return _REAL_RETAINED(record, horizon_ms, offset_map, now_ms - 1)


def _tombstones_go_at_once(record: Any, horizon_ms: int | None, offset_map: Any, now_ms: int) -> bool:
    return _REAL_RETAINED(record, now_ms if horizon_ms is None else horizon_ms, offset_map, now_ms)


def _empty_value_is_a_tombstone(log: Any, rows: Any) -> Any:
    return _REAL_APPEND(log, [(key, value or None, ts) for key, value, ts in rows])


def _the_round_is_always_done(log: Any, found: Any, map_keys: int) -> Any:
    done = _REAL_MAP(log, found, map_keys)
    done.latest = found.first_uncleanable - 1
    return done


def _first_value_wins(record: Any, horizon_ms: int | None, offset_map: Any, now_ms: int) -> bool:
    return bool(record.offset > offset_map.latest or record.offset <= offset_map.offsets.get(record.key, 2**62))


def _active_too(log: Any, checkpoint: int | None, now_ms: int, lag_ms: int = 0) -> Any:
    found = _REAL_RANGE(log, checkpoint, now_ms, lag_ms)
    return replace(found, first_uncleanable=log.end_offset)


def _no_lag(log: Any, checkpoint: int | None, now_ms: int, lag_ms: int = 0) -> Any:
    return _REAL_RANGE(log, checkpoint, now_ms, 0)


def _no_checkpoint(log: Any, checkpoint: int | None, now_ms: int, lag_ms: int = 0) -> Any:
    return _REAL_RANGE(log, None, now_ms, lag_ms)


def _high_watermark_is_ignored(log: Any, checkpoint: int | None, now_ms: int, lag_ms: int = 0) -> Any:
    kept, log.high_watermark = log.high_watermark, log.end_offset
    found = _REAL_RANGE(log, checkpoint, now_ms, lag_ms)
    log.high_watermark = kept
    return found


def _moving_horizon(batch: Any, kept: Any, delete_horizon_ms: int | None) -> Any:
    moved = None if delete_horizon_ms is None else delete_horizon_ms + bool(batch.delete_horizon_ms)
    return segments.without(batch, kept, moved)


def _batch_shrinks(batch: Any, kept: Any, delete_horizon_ms: int | None) -> Any:
    return replace(segments.without(batch, kept, delete_horizon_ms), base_offset=kept[0].offset)


PATCHES: dict[str, tuple[Any, str, Any]] = {
    "the horizon itself still keeps": (compaction, "is_retained", _horizon_must_be_past),
    "tombstones go in the first pass": (compaction, "is_retained", _tombstones_go_at_once),
    "an empty value is a tombstone": (segments.SegmentedLog, "append", _empty_value_is_a_tombstone),
    "a full map covers everything": (compaction, "build_offset_map", _the_round_is_always_done),
    "the first value wins": (compaction, "is_retained", _first_value_wins),
    "the active segment is cleaned too": (compaction, "cleanable_range", _active_too),
    "the compaction lag is forgotten": (compaction, "cleanable_range", _no_lag),
    "every pass begins at the start": (compaction, "cleanable_range", _no_checkpoint),
    "the high watermark is ignored": (compaction, "cleanable_range", _high_watermark_is_ignored),
    "young is as old as the lag": (
        compaction,
        "is_young",
        lambda segment, newest_ms: segment.largest_timestamp_ms is None or segment.largest_timestamp_ms >= newest_ms,
    ),
    "the horizon moves": (compaction, "without", _moving_horizon),
    "a batch gets a new base offset": (compaction, "without", _batch_shrinks),
    "segments are not merged": (compaction, "grouped", lambda found, most_bytes, end: [[each] for each in found]),
    "the map never fills": (compaction, "build_offset_map", lambda log, found, map_keys: _REAL_MAP(log, found, 10**6)),
    "the map takes one key less": (compaction, "build_offset_map", lambda log, found, map_keys: _REAL_MAP(log, found, map_keys - 1)),
    "no batch stays empty": (LogCleaner, "kept_end", lambda self, found: -1),
    "empty batches stay": (LogCleaner, "kept_end", lambda self, found: type("Any", (), {"__ne__": lambda *_: False})()),
    "an empty active segment is rolled": (
        segments.SegmentedLog,
        "roll",
        lambda self: self.segments.append(segments.Segment(self.end_offset)) or self.end_offset,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", PATCHES)
def test_cleaner_with_a_planted_bug_is_caught(
    bug: str, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bug differs in some script."""
    monkeypatch.setattr(*PATCHES[bug])
    assert any(not conform(replay, iter([row])).agrees for row in rows)


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (0, lambda args: args.update(batch=[]), "batch is []"), (0, lambda args: args.update(batch=[7]), "a record is 7"),
        (0, lambda args: args["batch"][0].update(ts="1"), "ts is '1'"), (0, lambda args: args["batch"][0].update(key=1), "a record is"),
        (6, lambda args: args.update(now=-1), "now is -1"), (6, lambda args: args.pop("now"), "now is missing"),
    ],
)  # fmt: skip
def test_operation_that_is_never_recorded_is_told(number: int, change: Callable[[Any], Any], words: str) -> None:
    """An argument that the recorder never writes differs at its step, and the next script goes on."""
    row = copy.deepcopy(NAMED["latest_value_wins"])
    change(row["steps"][number]["args"])
    found = conform(replay, iter([row, NAMED["partial_batch"]]))
    assert found.traces == 2 and found.differences[0].step == number and words in str(found.differences[0].got)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"delete_retention_ms": -1}, "delete_retention_ms is -1"), ({"offset_map_max_keys": 0}, "offset_map_max_keys is 0"),
        ({"auto_high_watermark": 1}, "auto_high_watermark is 1"), ({"min_compaction_lag_ms": True}, "min_compaction_lag_ms is True"),
    ],
)  # fmt: skip
def test_settings_that_are_never_recorded_are_told(config: dict[str, Any], words: str) -> None:
    """A script says how long tombstones stay, how old a record must be, and how many keys a map has."""
    row = NAMED["partial_batch"]
    found = conform(replay, iter([row | {"config": row["config"] | config}]))
    assert found.matched == 0 and words in str(found.differences[0])


def test_operation_that_is_not_known_is_told() -> None:
    """A script of a later recorder is not taken for one of this."""
    row = copy.deepcopy(NAMED["partial_batch"])
    row["steps"][0]["op"] = "truncate"
    assert "an operation 'truncate'" in str(conform(replay, iter([row])).differences[0])


@pytest.mark.parametrize(
    "row",
    [
        {"input": {"config": {}, "ops": [{"op": "roll"}]}, "output": []}, {"input": {"config": {}, "ops": []}, "output": []},
        {"input": {"config": 1, "ops": [{"op": "roll"}]}, "output": [{}]}, {"input": {"ops": [{"op": "roll"}]}, "output": [{}]},
        {"input": {"config": {}, "ops": [7]}, "output": [{}]}, {"input": {"config": {}, "ops": [{"op": 7}]}, "output": [{}]},
    ],
)  # fmt: skip
def test_row_that_is_no_script_is_told(row: dict[str, Any], tmp_path: Path) -> None:
    """A script has a config, operations with names, and as many answers."""
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row))
    with pytest.raises(TraceError, match="no recorded trace"):
        list(read_traces(file))
