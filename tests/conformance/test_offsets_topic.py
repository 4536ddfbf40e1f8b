"""The records of __consumer_offsets against every row of Kafka's own serializers."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.conformance.offsets_topic import replay
from kitlib.errors import TraceError
from kitlib.more.offsets import messages

ROWS = {row["name"]: row for row in read_traces(bundled("groups", "offsets_topic_public.jsonl.gz"))}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda args: args.update(key_hex="0"), "key_hex is '0'"), (lambda args: args.update(key_hex=None), "key_hex is null"),
        (lambda args: args.update(value_hex=7), "value_hex is 7"), (lambda args: args.pop("key_hex"), "result.decoded"),
    ],
)  # fmt: skip
def test_row_that_is_no_recorded_one_is_told(change: Callable[[dict[str, Any]], Any], words: str) -> None:
    """A row that the recorder never writes differs in a sentence, and the next one goes on."""
    row = copy.deepcopy(ROWS["offset_commit_v3"])
    change(row["steps"][0]["args"])
    found = conform(replay, iter([row, ROWS["offset_commit_v4"]]))
    assert (found.traces, found.matched) == (2, 1) and words in str(found.differences[0])


def test_row_of_another_kind_is_told(tmp_path: Path) -> None:
    """A row of the hashes is not taken for a record, nor one without its bytes."""
    with pytest.raises(TraceError, match="expected the bytes of a record"):
        list(replay(next(read_traces(bundled("groups", "hashes.jsonl.gz")))))
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"key_hex": "00", "decoded": None}))
    with pytest.raises(TraceError, match="no recorded trace"):
        list(read_traces(file))


def test_record_types_are_all_there() -> None:
    """0 to 23 without 9 and 18, which Kafka leaves out."""
    assert sorted(messages.RECORD_TYPES) == [number for number in range(24) if number not in (9, 18)]
