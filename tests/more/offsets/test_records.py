"""Records of __consumer_offsets: whatever is written is read again, and whatever is broken is told and passed over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.more.offsets.messages import RECORD_TYPES, Field, Message
from kitlib.more.offsets.records import (
    OffsetsRecord,
    Reading,
    decode,
    encode,
    read_records,
)
from kitlib.more.offsets.wire import UNKNOWN_TAGS, BrokenRecordError, Reader, WireError, write_unsigned_varint

COMMIT = RECORD_TYPES[1]
KEY = {"group": "billing", "topic": "orders", "partition": 3}
VALUE = {"offset": 1234, "leaderEpoch": 5, "metadata": "meta", "commitTimestamp": 1_700_000_000_000}
INTS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}


def values_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    """Any value of a field."""
    if field.kind == "array":
        return st.lists(values_of(Field("element", field.of, fields=field.fields), version), max_size=2)
    if field.kind == "struct":
        return structs(field.fields, version)
    if field.kind in INTS:
        bits = INTS[field.kind]
        low, high = (0, 2**bits - 1) if field.kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return st.integers(low, high)
    strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    uuids = st.sampled_from(["A" * 22, "ESIzRFVmd4iZqrvM3e7_AA"])
    return {"string": strings, "bytes": st.binary(max_size=4), "uuid": uuids}[field.kind]


def structs(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any struct that Kafka could have written: a tagged field with its default is left out."""
    there = {each.name: each for each in fields if each.since <= version <= each.until}
    values = {
        name: st.none() | values_of(each, version) if each.nullable else values_of(each, version)
        for name, each in there.items()
    }
    return st.fixed_dictionaries(values).map(
        lambda found: {
            name: value for name, value in found.items() if there[name].tag is None or value != there[name].default
        }
    )


def messages(message: Message, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any message in this version."""
    return structs(message.fields, version)


@st.composite
def any_record(draw: st.DrawFn) -> OffsetsRecord:
    """A record of any type and version, or a tombstone."""
    kind = RECORD_TYPES[draw(st.sampled_from(sorted(RECORD_TYPES)))]
    key = draw(messages(kind.key, 0))
    if draw(st.booleans()) and draw(st.booleans()):
        return OffsetsRecord(kind, key)
    version = draw(st.integers(0, kind.value.highest))
    return OffsetsRecord(kind, key, version, draw(messages(kind.value, version)))


@settings(max_examples=60, deadline=None)
@given(any_record())
def test_record_of_any_type_is_read_as_it_was_written(record: OffsetsRecord) -> None:
    """Every field comes back, and the same bytes from it."""
    found = decode(*encode(record))
    assert found == record and encode(found) == encode(record)
    assert decode(*encode(record)).as_json()["tombstone"] is record.is_tombstone


@settings(max_examples=60, deadline=None)
@given(any_record(), st.data())
def test_record_that_is_cut_is_broken_and_nothing_worse(record: OffsetsRecord, data: st.DataObject) -> None:
    """Whatever bytes there are, the reader gives a record or a sentence; a key without its last byte is always broken."""
    key, value = encode(record)
    with pytest.raises(BrokenRecordError, match="key's buffer"):
        decode(key[:-1], value)
    if value:
        cut = data.draw(st.integers(0, len(value) - 1))
        junk = value[:cut] + data.draw(st.binary(max_size=6)) + value[cut + 1 :]
        for broken in (value[:cut], junk):
            try:
                decode(key, broken)
            except BrokenRecordError as error:
                assert str(error) and error.java_class


def test_unknown_tagged_fields_are_kept_in_their_place() -> None:
    """A tag that only a newer broker knows goes out again, before or after the known ones, by its number."""
    tagged = VALUE | {"topicId": "ESIzRFVmd4iZqrvM3e7_AA", UNKNOWN_TAGS: [(5, b"\xbe\xef")]}
    record = OffsetsRecord(COMMIT, KEY, 4, tagged)
    assert decode(*encode(record)) == record and UNKNOWN_TAGS not in str(record.as_json())
    falling = OffsetsRecord(COMMIT, KEY, 4, VALUE | {UNKNOWN_TAGS: [(5, b""), (3, b"")]})
    with pytest.raises(BrokenRecordError, match="tag 3 comes after tag 5"):
        encode(falling)


def test_number_that_does_not_fit_is_told() -> None:
    """A value of the kit's own that no field can hold is no record."""
    with pytest.raises(BrokenRecordError, match="a value does not fit its field"):
        encode(OffsetsRecord(COMMIT, KEY, 4, VALUE | {"offset": 2**63}))


def test_read_records_passes_over_the_broken_ones_and_tells_them() -> None:
    """One good record among many broken ones is read; all are counted, the first one is told with its offset."""
    key, value = encode(OffsetsRecord(COMMIT, KEY, 4, VALUE))
    broken = [
        (b"\x00\x63", b""),
        (key, b""),
        (key[:-1], value),
        (key, value and value[:9]),
        (None, value),
        (key, b"\x00\x09"),
    ]
    rows = [(offset, *row) for offset, row in enumerate([(key, value), *broken * 30, (key, None)])]
    reading = Reading()
    found = list(read_records(rows, reading))
    assert [(offset, record.is_tombstone) for offset, record in found] == [(0, False), (181, True)]
    assert (reading.decoded, reading.broken) == (2, 180)
    assert reading.first_broken == "offset 1: Found an unknown record type 99"


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varint_is_read_as_java_s_int(number: int) -> None:
    """Five bytes at most; a number above 2^31 - 1 is a negative int."""
    out = bytearray()
    write_unsigned_varint(out, number)
    assert len(out) <= 5 and Reader(bytes(out)).unsigned_varint() == (number if number < 2**31 else number - 2**32)
    with pytest.raises(WireError, match="null"):
        Reader(bytes(out[:-1])).unsigned_varint()
