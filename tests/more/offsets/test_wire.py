"""Corners of Kafka's wire forms, each as the generated classes of Kafka 4.3.1 have it."""

from __future__ import annotations

import pytest

from kitlib.more.offsets.messages import SUBSCRIPTION
from kitlib.more.offsets.records import OffsetsRecord, decode, encode, subscription_of
from kitlib.more.offsets.wire import BrokenRecordError, write_message

COMMIT_KEY = bytes.fromhex("000100016700017400000001")
COMMIT_V4 = bytes.fromhex("0004000000000000006400000009036d6400000000000003e8")  # up to its tagged fields
def read(tags: str) -> OffsetsRecord:
    """A commit in version 4 with these tagged fields."""
    return decode(COMMIT_KEY, COMMIT_V4 + bytes.fromhex(tags))


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("0105ffffffff0f", "due to: -1."), ("010504beef", "Error reading byte array of 4 byte(s): only 2 byte(s) available."),
        ("01", "read 1 tagged fields, but there are only 0 bytes remaining.."), ("feffffff0f", "negative number of tagged fields -2."),
        ("0100", "due to: null."), ("", "due to: null."), ("ffffffffff", "Varint is too long"), ("010010" + "00" * 15, "due to: null."),
    ],
)  # fmt: skip
def test_broken_tagged_fields_are_told_in_java_s_words(tags: str, words: str) -> None:
    """A size below 0, bytes that are not there, a number that does not end."""
    with pytest.raises(BrokenRecordError) as told:
        read(tags)
    assert words in str(told.value) and str(told.value).startswith(
        "Could not read record with version 4 from value's buffer"
    )


def test_length_of_the_least_int_is_the_largest_as_in_java() -> None:
    """One less than the least int is the largest one: no null, but far too long."""
    with pytest.raises(BrokenRecordError, match="string field metadata had invalid length 2147483647"):
        decode(COMMIT_KEY, COMMIT_V4[:14] + b"\x80\x80\x80\x80\x08")


@pytest.mark.parametrize("generation", [-1, -2, -(2**31)])
def test_rack_of_no_letters_is_no_rack_and_no_generation_is_below_none(generation: int) -> None:
    """As the consumer protocol's own reader has it."""
    told = {"topics": ["t"], "userData": b"\x01", "rackId": "", "generationId": generation}
    raw = b"\x00\x03" + write_message(SUBSCRIPTION, 3, told)
    found = subscription_of(raw)
    assert found is not None and (found["rack"], found["user_data_hex"], found["generation"]) == (None, "01", -1)


def test_collection_longer_than_its_bytes_is_refused_before_it_is_made() -> None:
    """A number in a broken record does not become a list of two thousand millions."""
    with pytest.raises(
        BrokenRecordError, match="Tried to allocate a collection of size 2147483646, but there are only 0 bytes"
    ):
        decode(b"\x00\x10\x00\x01g\x00\x01r", b"\x00\x00\xff\xff\xff\xff\x07")


def test_string_that_is_no_utf_8_is_read_with_a_mark() -> None:
    """Java puts U+FFFD in the place of what it cannot read; written again, the bytes are others."""
    key, value = COMMIT_KEY, bytes.fromhex("0000000000000000000100016100000000000003e8").replace(b"a", b"\xff")
    record = decode(key, value)
    assert record.value is not None and record.value["metadata"] == "\ufffd" and encode(record)[1] != value
