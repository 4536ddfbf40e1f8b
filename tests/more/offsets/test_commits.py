"""The quick reader of commits' keys: it answers as `records.decode` does, or leaves the answer to it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.more.offsets.commits import COMMIT, commit_key
from kitlib.more.offsets.records import decode
from kitlib.more.offsets.wire import BrokenRecordError
from tests.more.offsets.commit_bytes import commit


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
