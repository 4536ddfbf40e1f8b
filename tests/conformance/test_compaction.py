"""The log cleaner against every recorded script of Kafka's own."""

from __future__ import annotations

import json
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
