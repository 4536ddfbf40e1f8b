"""Answers with an error, in the broker's place: for each partition that a request names, the same error.

A broker gives some errors only when a machine is lost or a race is won; who wants to see what a
client makes of them has to say them himself. The messages are read and written by the protocol
library (kafka-python), in the version that the client spoke.
Source: Kafka 4.3.1, common/message/ProduceResponse.json, InitProducerIdResponse.json; clients,
protocol.Errors.
"""

from __future__ import annotations

from typing import Any

from kitlib.lab.chaos_frames import GarbageError
from kitlib.lab.chaos_words import ERRORS


def error_answer(api: str, version: int, correlation_id: int, request: bytes, error: str) -> bytes:
    """The answer that refuses a request, as a whole frame; GarbageError when the request cannot be read."""
    requests, responses = _messages(api)
    code = ERRORS[error]
    asked = _decoded(requests, version, request)
    if api == "Produce":
        refused = [_refused(responses, version, topic, code) for topic in asked.topic_data]
        answer = responses[version](throttle_time_ms=0, responses=refused)
    else:
        answer = responses[version](throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
    return _encoded(answer, correlation_id)


def with_error(api: str, version: int, correlation_id: int, answer: bytes, error: str) -> bytes:
    """A broker's answer with this error in place of whatever it said; GarbageError when it cannot be read."""
    said = _decoded(_messages(api)[1], version, answer)
    for part in [part for topic in said.responses for part in topic.partition_responses] if api == "Produce" else [said]:
        part.error_code = ERRORS[error]
        if api == "Produce":
            part.base_offset = -1
    return _encoded(said, correlation_id)


def _decoded(message: Any, version: int, frame: bytes) -> Any:
    try:
        return message.decode(frame, version=version, header=True, framed=True)
    except Exception as error:
        raise GarbageError(f"a {message.__name__} of version {version} that cannot be read ({type(error).__name__})") from error


def _refused(responses: Any, version: int, topic: Any, code: int) -> Any:
    of_topic = responses.TopicProduceResponse
    partitions = [
        of_topic.PartitionProduceResponse(version=version, index=each.index, error_code=code, base_offset=-1)
        for each in topic.partition_data
    ]
    return of_topic(version=version, name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def _messages(api: str) -> tuple[Any, Any]:
    """The library's request and answer; imported late, because most proxies never need it."""
    from kafka.protocol import producer
    return getattr(producer, f"{api}Request"), getattr(producer, f"{api}Response")


def _encoded(answer: Any, correlation_id: int) -> bytes:
    answer.with_header(correlation_id=correlation_id)
    return bytes(answer.encode(header=True, framed=True))
