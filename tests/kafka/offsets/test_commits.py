"""The quick reader of commits: it answers as `records.decode` does, or leaves the answer to it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.kafka.offsets.commits import COMMIT, LEGACY, commit_key, commit_value
from kitlib.kafka.offsets.records import decode
from kitlib.kafka.offsets.wire import BrokenRecordError
from tests.kafka.offsets.commit_bytes import TOPIC_ID, as_decoded, commit, values

KEY, _ = commit("g", "t", 0)
LEGACY_KEY, _ = commit("g", "t", 0, 0, LEGACY)


@pytest.mark.parametrize(
    ("kind", "version"), [(LEGACY, 0), *((COMMIT, version) for version in range(5))], ids=lambda value: str(value)
)
def test_every_version_is_read_by_its_places(kind: int, version: int) -> None:
    """Offset and time of each version, whatever stands between them."""
    for metadata in ("", "m", "m" * 127, "m" * 300):
        _, value = commit("g", "t", 0, version, kind, offset=2**40, commitTimestamp=7, metadata=metadata)
        assert value is not None and commit_value(value, kind) == (2**40, 7, None)


def test_topic_id_is_read_from_its_tag() -> None:
    """Version 4 alone has it, as a tagged field; one of zeros is none."""
    _, value = commit("g", "t", 0, offset=1, topicId=TOPIC_ID)
    assert value is not None and commit_value(value) == (1, 0, b"\x00" * 15 + b"\x01")
    assert commit_value(value[:-16] + b"\x00" * 16) == (1, 0, None)


def test_legacy_key_knows_one_version_only() -> None:
    """A value of version 1 under a key of type 0 is a broken record, and not read here."""
    _, value = commit("g", "t", 0, 1)
    assert value is not None and commit_value(value, LEGACY) is None and commit_value(value) is not None


@given(value=values())
@settings(max_examples=300, deadline=None)
def test_value_that_is_read_is_the_one_that_decode_reads(value: bytes) -> None:
    """Cut, changed or longer: an answer is that of `records.decode`, or there is none."""
    found = commit_value(value)
    assert found is None or tuple(found) == as_decoded(KEY, value)


@given(value=values(kind=LEGACY))
@settings(max_examples=100, deadline=None)
def test_legacy_value_that_is_read_is_the_one_that_decode_reads(value: bytes) -> None:
    """The same under a key of type 0."""
    found = commit_value(value, LEGACY)
    assert found is None or tuple(found) == as_decoded(LEGACY_KEY, value)


@given(group=st.text(max_size=4), topic=st.text(max_size=4), partition=st.integers(-(2**31), 2**31 - 1), cut=st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_key_is_read_or_left_as_decode_does(group: str, topic: str, partition: int, cut: int) -> None:
    """A cut key is none; of a whole one the group, the topic and the partition."""
    key, _ = commit(group, topic, partition, None)
    for raw in (key, key[:cut], key + b"more"):
        try:
            expected = tuple(decode(raw, None).key.values())
        except BrokenRecordError:
            assert commit_key(raw) is None
        else:
            assert commit_key(raw) == (COMMIT, *expected)


def test_key_of_another_record_is_none() -> None:
    """A group's own record, and no key at all."""
    assert commit_key(b"\x00\x02\x00\x01g") is None and commit_key(None) is None and commit_key(b"\x00") is None
