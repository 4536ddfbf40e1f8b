"""The records of __consumer_offsets against every row of Kafka's own serializers, and against bugs planted by hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.conformance.offsets_topic import Serde, replay
from kitlib.errors import TraceError
from kitlib.kafka.offsets import messages, records, wire
from kitlib.kafka.offsets.records import OffsetsRecord, decode, encode
from kitlib.kafka.offsets.wire import UNKNOWN_TAGS, BrokenRecordError

ROWS = {row["name"]: row for row in read_traces(bundled("groups", "offsets_topic_public.jsonl.gz"))}


def without_unknown_tags(record: OffsetsRecord) -> tuple[bytes, bytes | None]:
    """A writer that forgets the tagged fields it does not know."""
    value = record.value and {name: each for name, each in record.value.items() if name != UNKNOWN_TAGS}
    return encode(replace(record, value=value))


def zero_length_is_a_tombstone(key: bytes, value: bytes | None) -> OffsetsRecord:
    """A reader to which no bytes are no value."""
    return decode(key, value or None)


def refusing_what_is_left(key: bytes, value: bytes | None) -> OffsetsRecord:
    """A reader that wants a record to end where its fields end."""
    record = decode(key, value)
    if value is not None and len(encode(record)[1] or b"") != len(value):
        raise BrokenRecordError("bytes are left")
    return record


SERDES: dict[str, Serde] = {
    "unknown tags are forgotten": Serde(encode=without_unknown_tags),
    "a value of no bytes is a tombstone": Serde(decode=zero_length_is_a_tombstone),
    "bytes at the end are refused": Serde(decode=refusing_what_is_left),
    "the newest version is always written": Serde(
        encode=lambda record: encode(
            replace(record, version=None if record.value is None else record.type.value.highest)
        )
    ),
    "tombstones are written as no bytes": Serde(encode=lambda record: (encode(record)[0], encode(record)[1] or b"")),
}


@pytest.mark.parametrize("bug", SERDES)
def test_serializer_with_a_planted_bug_is_caught(bug: str) -> None:
    """Each bug differs in some row."""
    assert not conform(partial(replay, own=SERDES[bug]), iter(ROWS.values())).agrees


PATCHES: dict[str, tuple[Any, str, Any]] = {
    "null strings are empty strings": (wire, "read_long", lambda *args: ""),
    "lengths are not one more in flexible versions": (
        wire.Reader,
        "unsigned_varint",
        (lambda real: lambda self: real(self) + 1)(wire.Reader.unsigned_varint),
    ),
    "a version later than all is read as the last": (
        records,
        "read_version",
        (lambda real: lambda reader, part: min(4, real(reader, part)))(records.read_version),
    ),
    "user data is never null": (records, "hex_or_null", lambda raw: (raw or b"").hex()),
    "bytes are told in hexadecimal": (
        records,
        "as_json",
        lambda value: json.loads(json.dumps(value, default=bytes.hex)),
    ),
}


@pytest.mark.parametrize("bug", PATCHES)
def test_reader_with_a_planted_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bug differs in some row."""
    monkeypatch.setattr(*PATCHES[bug])
    assert not conform(replay, iter(ROWS.values())).agrees


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
