"""Bytes of commits for tests: every version, and what can become of them."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st

from kitlib.more.offsets.messages import RECORD_TYPES, ZERO_UUID
from kitlib.more.offsets.records import OffsetsRecord, decode, encode
from kitlib.more.offsets.wire import BrokenRecordError

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
LONGS = st.integers(-(2**63), 2**63 - 1)
METADATA = st.sampled_from(["", "m", "\u00e9", "m" * 126, "m" * 127, "m" * 128, "m" * 16_382, "m" * 16_383])


def commit(group: str, topic: str, partition: int, version: int | None = 4, kind: int = 1, **value: Any) -> tuple[bytes, bytes | None]:
    """Key and value of a commit; version None is a tombstone."""
    key = {"group": group, "topic": topic, "partition": partition}
    given = {"offset": 0, "commitTimestamp": 0, "metadata": ""} | value
    return encode(OffsetsRecord(RECORD_TYPES[kind], key, version, None if version is None else given))


def as_decoded(key: bytes | None, value: bytes | None) -> tuple[int, int, bytes | None] | None:
    """What `records.decode` says of a commit's value: offset, time, topic id; None for a broken record."""
    try:
        found = decode(key, value).value
    except BrokenRecordError:
        return None
    assert found is not None
    told = found.get("topicId", ZERO_UUID)
    return found["offset"], found["commitTimestamp"], None if told == ZERO_UUID else base64.urlsafe_b64decode(told + "==")


@st.composite
def values(draw: st.DrawFn, kind: int = 1) -> bytes:
    """The bytes of a commit's value: whole, cut, with more behind it, or with one byte changed."""
    version = draw(st.integers(0, 4 if kind else 0))
    told = {"topicId": draw(st.sampled_from([ZERO_UUID, TOPIC_ID]))} if version == 4 else {}
    _, value = commit(
        "g", "t", 0, version, kind, offset=draw(LONGS), commitTimestamp=draw(LONGS), metadata=draw(METADATA), **told
    )
    assert value is not None
    match draw(st.sampled_from(["whole", "cut", "longer", "changed"])):
        case "cut":
            return value[: draw(st.integers(0, len(value)))]
        case "longer":
            return value + draw(st.binary(max_size=4))
        case "changed":
            at = draw(st.integers(0, min(len(value) - 1, 60)))
            return value[:at] + draw(st.binary(min_size=1, max_size=1)) + value[at + 1 :]
        case _:
            return value
