"""The log cleaner against every recorded script of Kafka's own."""

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
from kitlib.mechanisms.offsets_topic.compaction import KeepsLastBatch, LogCleaner

NAMED = {row["name"]: row for row in read_traces(bundled("groups", "compaction_named.jsonl.gz"))}


def test_cleaner_of_4_3_1_differs_in_one_named_script() -> None:
    """There the last batch of the round stays although it is empty; 4.4.0 keeps the one at the high watermark."""

    def older(log: Any, config: Any) -> LogCleaner:
        return LogCleaner(log, replace(config, keeps_last_batch=KeepsLastBatch.AT_ROUND_END))

    differing = [name for name, row in NAMED.items() if not conform(partial(replay, build=older), iter([row])).agrees]
    assert differing == ["map_full_tombstone_high_watermark_beyond"]


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
