"""Compares the kit's reader and writer of __consumer_offsets with the serializers of Kafka 4.4.0.

Each row is one record, so it is a trace of one step: what its bytes say, in the words of Kafka's own
converters, and whether the same bytes come out when it is written again; or, of a broken one, what Kafka's
reader throws, with its message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kitlib.conformance.golden import unknown
from kitlib.more.offsets.records import decode, encode
from kitlib.more.offsets.wire import BrokenRecordError


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the functions make of one record."""
    for step in trace["steps"]:
        if step["op"] != "decode":
            raise unknown(step["op"])
        key, value = step["args"]["key_hex"], step["args"]["value_hex"]
        yield {"result": told(bytes.fromhex(key), None if value is None else bytes.fromhex(value))}


def told(key: bytes, value: bytes | None) -> dict[str, Any]:
    """One record in the recording's words."""
    try:
        record = decode(key, value)
    except BrokenRecordError as error:
        return {"decoded": None, "error": {"class": error.java_class, "message": str(error)}}
    return {"decoded": record.as_json(), "reencodes_identically": same_bytes(record, key, value)}


def same_bytes(record: Any, key: bytes, value: bytes | None) -> bool:
    """True when writing the record gives the bytes it was read from."""
    try:
        return encode(record) == (key, value)
    except BrokenRecordError:
        return False
