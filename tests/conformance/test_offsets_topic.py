"""The records of __consumer_offsets against every row of Kafka's own serializers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.offsets_topic import replay
from kitlib.errors import TraceError
from kitlib.more.offsets import messages


def test_row_of_another_kind_is_told(tmp_path: Path) -> None:
    """A row of the hashes is not taken for a record, nor one without its bytes."""
    with pytest.raises(TraceError, match="an operation 'murmur2'"):
        list(replay(next(read_traces(bundled("groups", "hashes.jsonl.gz")))))
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"key_hex": "00", "decoded": None}))
    with pytest.raises(TraceError, match="no recorded trace"):
        list(read_traces(file))


def test_record_types_are_all_there() -> None:
    """0 to 23 without 9 and 18, which Kafka leaves out."""
    assert sorted(messages.RECORD_TYPES) == [number for number in range(24) if number not in (9, 18)]
