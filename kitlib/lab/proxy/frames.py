"""The Kafka protocol as far as a proxy must know it: where a frame ends, and what its first bytes say.

Every request and every answer is a frame: a length of 4 bytes, then so many bytes. A request begins
with its API's key, its version, a correlation id and the client's name; its answer begins with the
same correlation id. All else is cargo, which a proxy passes on without looking.

A broker gives some errors only when a machine is lost or a race is won; who wants to see what a client makes of them
has to say them himself. Those answers are read and written by the protocol library (kafka-python), in the client's version.
Source: Kafka 4.3.1, common/message/RequestHeader.json, ResponseHeader.json, ProduceRequest.json, ProduceResponse.json,
InitProducerIdResponse.json; clients, protocol.Errors.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kitlib.lab.proxy.rules import apis, errors

# socket.request.max.bytes of a broker as it comes: what claims to be larger is no request, and no answer that a client waits for.
LONGEST_FRAME_BYTES = 104_857_600
# Keys and versions up to here may be those of a newer Kafka; above it is something else.
HIGHEST_KEY, HIGHEST_VERSION = 255, 127
PRODUCE = 0
FIRST_FLEXIBLE_PRODUCE = 9

_REQUEST = struct.Struct(">ihhih")


class GarbageError(Exception):
    """These bytes are not the Kafka protocol; the text says what they are instead."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the first bytes of a request say."""

    # Of the whole frame, its length field included.
    size: int
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    # False for a Produce with acks=0 alone.
    is_answered: bool = True

    @property
    def api(self) -> str:
        return apis().get(self.api_key, f"api {self.api_key}")


def read_request(frame: bytes) -> Request:
    """What a whole request says of itself; GarbageError when it is none."""
    try:
        _, api_key, version, correlation_id, name_length = _REQUEST.unpack_from(frame)
        end = _REQUEST.size + max(0, name_length)
        if not 0 <= api_key <= HIGHEST_KEY or not 0 <= version <= HIGHEST_VERSION or name_length < -1 or end > len(frame):
            raise GarbageError(f"API key {api_key}, version {version}, a client id of {name_length} bytes")
        # A Produce says further on whether it wants an answer.
        is_answered = api_key != PRODUCE or struct.unpack_from(">h", frame, _acks_at(frame, end, version)) != (0,)
    except (IndexError, struct.error):
        raise GarbageError(f"a request of {len(frame)} bytes that ends too early") from None
    client_id = frame[_REQUEST.size : end].decode("utf-8", "replace")
    return Request(len(frame), api_key, version, correlation_id, client_id, is_answered)


def _acks_at(frame: bytes, at: int, version: int) -> int:
    """Where the field acks of a Produce is. IndexError or struct.error when the frame ends before that is said."""
    if version < FIRST_FLEXIBLE_PRODUCE:
        return at if version < 3 else at + 2 + max(0, struct.unpack_from(">h", frame, at)[0])
    tags, at = _varint(frame, at)
    for _ in range(tags):
        _, at = _varint(frame, at)
        length, at = _varint(frame, at)
        at += length
    length, at = _varint(frame, at)
    return at + max(0, length - 1)


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint and where it ends. IndexError when the frame ends before it does."""
    value = 0
    for shift in range(0, 35, 7):
        value |= (frame[at] & 0x7F) << shift
        at += 1
        if frame[at - 1] < 0x80:
            return value, at
    raise GarbageError("a number of more than 5 bytes")


OFFSET_FETCH = 9  # a broker refuses it as a whole, whatever partitions it asks for
# Where a request has what an answer has under another name.
ASKED_AS = {
    "responses": ("topics", "topic_data"), "partition_responses": ("partition_data",), "partition_index": ("partition",),
    "topic": ("topic_name",), "coordinators": ("coordinator_keys",), "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",), "results_by_transaction": ("transactions",), "topic_results": ("topics",),
}  # fmt: skip
UNKNOWN = ("base_offset", "offset", "timestamp", "node_id", "producer_id", "producer_epoch", "high_watermark", "end_offset")


def error_answer(api: str, version: int, correlation_id: int, request: bytes, error: str) -> bytes:
    """The answer that refuses a request, as a whole frame; GarbageError when the request cannot be read."""
    requests, responses = _messages(api)
    return encoded(_refusal(responses, responses._struct, version, decoded(requests, version, request), errors()[error]), correlation_id)


def with_error(api: str, version: int, correlation_id: int, answer: bytes, error: str) -> bytes:
    """A broker's answer with this error in place of whatever it said; GarbageError when it cannot be read."""
    responses = _messages(api)[1]
    return encoded(_refusal(responses, responses._struct, version, decoded(responses, version, answer), errors()[error]), correlation_id)


def _refusal(message: Any, struct: Any, version: int, asked: Any, code: int) -> Any:
    """An answer, or a part of one, with the error where a broker gives it: of each partition that is asked for, else of the whole.

    `asked` is the request, or an answer of the same API.
    """
    values: dict[str, Any] = {}
    for name, part in struct.fields.items():
        if not part.for_version_q(version):
            continue
        found = next((value for each in (name, *ASKED_AS.get(name, ())) if (value := getattr(asked, each, None)) is not None), None)
        if part.is_struct_array():
            whole = message.API_KEY == OFFSET_FETCH if hasattr(message, "API_KEY") else name == "topics" and "group_id" in struct.fields
            mirrored = [] if found is None or (whole and name != "groups" and version > 1) else found
            values[name] = [_refusal(part.data_class, part, version, each, code) for each in mirrored]
        elif name in ("key", "partition_index", "partition") and isinstance(asked, str | int):
            values[name] = asked
        elif found is not None and not part.is_struct():
            values[name] = found
    # What a broker says of an id or an offset that it does not give.
    values |= {name: -1 for name in UNKNOWN if name in struct.fields and struct.fields[name].for_version_q(version)}
    codes = [name for name, part in struct.fields.items() if name.endswith("error_code") and part.for_version_q(version)]
    inner = any(isinstance(value, list) and value and not isinstance(value[0], str | int) for value in values.values())
    return message(version=version, **values | dict.fromkeys(codes, 0 if inner else code))


def decoded(message: Any, version: int, frame: bytes) -> Any:
    """A whole frame as the library's message of this version; GarbageError when it cannot be read."""
    try:
        return message.decode(frame, version=version, header=True, framed=True)
    except Exception as error:
        raise GarbageError(f"a {message.__name__} of version {version} that cannot be read ({type(error).__name__})") from error


def _messages(api: str) -> tuple[Any, Any]:
    """The library's request and answer; imported late, because most proxies never need it."""
    from kafka.protocol import consumer, metadata, producer

    library = next(each for each in (producer, consumer, metadata) if hasattr(each, f"{api}Response"))
    return getattr(library, f"{api}Request"), getattr(library, f"{api}Response")


def encoded(answer: Any, correlation_id: int) -> bytes:
    """The library's answer as a whole frame."""
    answer.with_header(correlation_id=correlation_id)
    return bytes(answer.encode(header=True, framed=True))
