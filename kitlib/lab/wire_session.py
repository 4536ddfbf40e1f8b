"""Questions and answers on one connection to a broker: versions, correlation ids, deadlines, answers that are none.

The protocol library writes the messages and reads them; here is what lies between a message and the
connection. Whatever comes, it is either read as the answer to something that was asked, or a LabError
and the end of the connection. No answer makes the reader work for longer or keep more than its
length allows: an answer to anything but Fetch has at most 1 MiB.

Source: Apache Kafka 4.3.1, clients/src/main/resources/common/message. Differs: answers are matched by
their correlation id, so one that never comes does not spoil those after it (Java closes the connection).
"""

from __future__ import annotations

import io
import re
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from kitlib.errors import LabError
from kitlib.lab.wire_frames import LONGEST_FRAME_BYTES, Connection, framed
from kitlib.lab.wire_library import ApiKey, ApiMessage, ApiVersionsRequest, KafkaError, for_code

# Anything but fetched records is small; a broker that says otherwise is none.
LONGEST_ANSWER_BYTES = 1 << 20
# The library reads a number of variable length for as long as its bytes go on; no real answer has so many of them.
ENDLESS_NUMBER = re.compile(rb"[\x80-\xff]{1024}")
# What the library raises when the bytes are not what they should be.
UNREADABLE = (KafkaError, ValueError, IndexError, TypeError, KeyError, AttributeError, OverflowError, EOFError, struct.error)

# The highest version that is used of each API: the last that names topics, and where there is a choice one
# without numbers of variable length. ApiVersions is asked first, in a version that every broker knows.
HIGHEST = {
    ApiKey.Produce: 12, ApiKey.Fetch: 11, ApiKey.ListOffsets: 5, ApiKey.Metadata: 8, ApiKey.InitProducerId: 4,
    ApiKey.DescribeProducers: 0, ApiKey.DeleteRecords: 1, ApiKey.WriteTxnMarkers: 2,
}  # fmt: skip
API_VERSIONS_VERSION = 2

Answer = TypeVar("Answer")
Answers = dict[int, tuple[int, int, int]]  # partition -> (error, base offset, log start offset)


@dataclass(slots=True)
class _Waiting:
    """A request whose answer has not come."""

    request: Any
    longest_bytes: int


class WireSession:
    """One connection to one broker, on which messages of the library are asked and answered.

    LabError when the broker answers something that is no answer; WireClosed (a LabError too) when the
    connection ends; LabError when nothing comes in time, after which a late answer is ignored.
    """

    def __init__(self, connection: Connection, client_id: str, timeout_s: float) -> None:
        self.connection = connection
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.versions: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._waiting: dict[int, _Waiting] = {}
        # Correlation ids whose answers nobody waits for any more.
        self._given_up: set[int] = set()
        self._produced: deque[tuple[int, Answers]] = deque()

    @classmethod
    def open(
        cls,
        host: str,
        port: int,
        client_id: str = "kit-wire",
        timeout_s: float = 10.0,
        longest_frame_bytes: int = LONGEST_FRAME_BYTES,
        ask_versions: bool = True,
    ) -> Self:
        """Connect and ask which versions the broker speaks, all within `timeout_s`.

        `timeout_s` is also how long later questions wait unless they say otherwise. No frame in either direction is
        longer than `longest_frame_bytes`. Without `ask_versions` nothing is said until one asks.
        """
        deadline = time.monotonic() + timeout_s
        wire = cls(Connection(host, port, timeout_s, longest_frame_bytes), client_id, timeout_s)
        if ask_versions:
            try:
                wire.api_versions(deadline - time.monotonic())
            except LabError:
                wire.close()
                raise
        return wire

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self.connection.is_open else "closed"
        return f"Wire({self.connection.where}, {state}, {len(self._waiting)} unanswered)"

    @property
    def is_open(self) -> bool:
        return self.connection.is_open

    @property
    def unanswered(self) -> int:
        """How many requests wait for an answer."""
        return len(self._waiting)

    def drain(self, timeout_s: float | None = None) -> None:
        """Hand what is unsent to the network; LabError when the broker does not read in time."""
        self._drain(self._deadline(timeout_s))

    def close(self) -> None:
        """End the connection at once; safe to call twice."""
        self.connection.close()

    def api_versions(self, timeout_s: float | None = None) -> dict[int, tuple[int, int]]:
        """API key -> (lowest, highest version) that the broker speaks."""

        def read(answer: Any) -> dict[int, tuple[int, int]]:
            if answer.error_code:
                raise self._refused("ApiVersions", answer.error_code)
            return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

        self.versions = self._ask(ApiVersionsRequest(version=API_VERSIONS_VERSION), self._deadline(timeout_s), read)
        return self.versions

    # Frames of one's own, for seeing what a broker does with them

    def send_raw(self, data: bytes) -> None:
        """Send these bytes as they are, without a length before them."""
        self.connection.send(data)
        self._drain(time.monotonic() + self.timeout_s)

    def send_frame(self, payload: bytes) -> None:
        """Send these bytes with their length before them."""
        self.send_raw(framed(payload))

    def receive_frame(self, timeout_s: float | None = None) -> bytes | None:
        """The next frame as it is, or None when none comes in time; do not mix with answers that one waits for."""
        return self.connection.receive(self._deadline(timeout_s))

    # Requests and answers

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)

    def _drain(self, deadline: float) -> None:
        if not self.connection.drain(deadline):
            raise LabError(
                f"The broker at {self.connection.where} has stopped reading: {self.connection.unsent_bytes:,} bytes are "
                "unsent. `kit status` tells whether it is paused."
            )

    def _request(self, kind: Callable[..., ApiMessage], version: int | None = None, **fields: Any) -> Any:
        """A request in the highest version that the broker, the library and this module know; LabError if there is none."""
        key = kind.API_KEY  # type: ignore[attr-defined]
        if not self.versions:
            self.api_versions()
        lowest, highest = self.versions.get(key, (0, -1))
        chosen = min(highest, HIGHEST[key]) if version is None else version
        if (version is None and chosen < lowest) or highest < 0:
            spoken = f"versions {lowest} to {highest}" if highest >= 0 else "no version"
            raise LabError(
                f"The broker at {self.connection.where} speaks {spoken} of {ApiKey(key).name}, the kit up to {HIGHEST[key]}. "
                "The kit is made for Kafka 4.3.1."
            )
        try:
            return kind(version=chosen, **fields)
        except (ValueError, TypeError) as error:
            raise LabError(f"{ApiKey(key).name} version {chosen} cannot be made: {error}. Choose another version.") from error

    def _send(self, request: Any, longest_answer_bytes: int) -> int:
        """Send a request; 0 as the longest answer: none will come."""
        self._correlation_id = (self._correlation_id + 1) % 2**31
        sent = self._correlation_id
        request.with_header(correlation_id=sent, client_id=self.client_id)
        try:
            data = request.encode(header=True, framed=True)
        except UNREADABLE as error:
            raise LabError(f"{request.name} cannot be written: {error or type(error).__name__}. Correct its arguments.") from error
        longest = self.connection.frames.longest_bytes
        if len(data) - 4 > longest:
            raise LabError(
                f"{request.name} of {len(data) - 4:,} bytes to {self.connection.where}: a frame has at most {longest:,}. "
                "Send fewer or shorter records at once."
            )
        if longest_answer_bytes:
            self._waiting[sent] = _Waiting(request, longest_answer_bytes)
        self.connection.send(data)
        return sent

    def _ask(
        self,
        request: Any,
        deadline: float,
        read: Callable[[Any], Answer],
        longest_answer_bytes: int = LONGEST_ANSWER_BYTES,
    ) -> Answer:
        """Send a request, wait for its answer and `read` it; answers to Produce that come before it are kept for `receive`."""
        sent = self._send(request, longest_answer_bytes)
        while True:
            frame = self.connection.receive(deadline)
            if frame is None:
                raise self._silent(sent, request.name)
            found = self._take(frame)
            if found is not None and found[0] == sent:
                try:
                    return read(found[1])
                except UNREADABLE as error:
                    # A list that is null, where a broker always has one.
                    raise self._no_answer(request.name, f"{type(error).__name__}: {error}") from error

    def _take(self, frame: bytes) -> tuple[int, Any] | None:
        """Read an answer; None when it was one to Produce, which is kept, or one that nobody waits for any more.

        LabError, and the end of the connection, when it is no answer to what was asked.
        """
        if len(frame) < 4:
            raise self._no_answer("any request", f"a frame of {len(frame)} bytes")
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id in self._given_up:
            self._given_up.remove(correlation_id)
            return None
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is None:
            asked = ", ".join(map(str, self._waiting)) or "none"
            raise self._no_answer("any request", f"correlation id {correlation_id}, expected one of: {asked}")
        request = waiting.request
        kind = request.header.get_response_class()
        if len(frame) > waiting.longest_bytes:
            raise self._no_answer(request.name, f"{len(frame):,} bytes, expected at most {waiting.longest_bytes:,}")
        if kind.flexible_version_q(request.API_VERSION) and ENDLESS_NUMBER.search(frame):
            raise self._no_answer(request.name, "a number without an end")
        try:
            header = io.BytesIO(frame)
            kind.parse_header(header)
            answer = kind.decode(memoryview(frame)[header.tell() :])
            if ApiKey.Produce == request.API_KEY:
                self._produced.append((correlation_id, _partitions_of(answer)))
                return None
        except UNREADABLE as error:
            raise self._no_answer(request.name, f"{type(error).__name__}: {error}") from error
        return correlation_id, answer

    def _one_partition(self, api: str, topics: Any) -> Any:
        """The answer for the one partition that was asked for; LabError when it is an error or not there."""
        partitions = [each for topic in topics for each in topic.partitions]
        if len(partitions) != 1:
            raise self._no_answer(api, f"{len(partitions)} partitions, expected 1")
        if partitions[0].error_code:
            raise self._refused(api, partitions[0].error_code)
        return partitions[0]

    def _refused(self, api: str, error: int) -> LabError:
        return LabError(
            f"{api} at {self.connection.where}: the broker answers error {error} ({for_code(error).__name__}). "
            "Check the topic, the partition and the numbers asked for."
        )

    def _silent(self, correlation_id: int, api: str) -> LabError:
        """Nobody waits for this answer any more."""
        self._waiting.pop(correlation_id, None)
        self._given_up.add(correlation_id)
        return LabError(
            f"The broker at {self.connection.where} gave no answer to {api} (correlation id {correlation_id}) in time. "
            "`kit status` tells whether it is paused."
        )

    def _no_answer(self, api: str, found: str) -> LabError:
        self.close()
        return LabError(
            f"{self.connection.where} answers {api} with something else: {found[:200]}. The connection was closed; "
            "check that a Kafka broker is at this address."
        )


def _partitions_of(answer: Any) -> Answers:
    """The partitions of an answer to Produce; TypeError when the broker left out a list."""
    return {
        each.index: (each.error_code, each.base_offset, each.log_start_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    }
