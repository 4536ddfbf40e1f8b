"""What Connect's workers write into JoinGroup and SyncGroup: bytes that the coordinator passes on and never reads.

A worker reports to the leader how far it has read the configuration and what it runs; the leader answers
what to start, what to stop, and how long to wait. A connector itself is written as a task with the
number -1. An empty assignment is written as no bytes.

Source: Kafka 4.3.1, ConnectProtocol, IncrementalCooperativeConnectProtocol, ConnectProtocolCompatibility.
Differs: only the incremental versions (1 and 2) and the eager one (0) that they fall back to; sizes are
bounded when reading.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kitlib.more.connect.work import Assignment, ConnectError, ConnectorsAndTasks, TaskId, hash_set_order

CONNECTOR_TASK = -1
VERSIONS = {"default": 0, "compatible": 1, "sessioned": 2}  # the protocol's name in JoinGroup -> its version
OFFERED = {  # connect.protocol -> what a worker offers, the most wanted first
    "sessioned": ("sessioned", "compatible", "default"),
    "compatible": ("compatible", "default"),
    "eager": ("default",),
}
NO_ERROR = 0
MOST_ITEMS = 100_000  # connectors, or tasks of one, in a message that is read


@dataclass(frozen=True, slots=True)
class ExtendedAssignment:
    """One worker's assignment as it travels: the leader's word, with its name and the configuration that it used."""

    leader: str
    leader_url: str
    config_offset: int
    assignment: Assignment
    error: int = NO_ERROR


@dataclass(slots=True)
class _Reader:
    """Bytes that are read from the front. ConnectError when they end too early or say something impossible."""

    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise ConnectError(
                f"Connect's message ends at byte {len(self.data)}, expected {count} more from {self.at} on."
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        (found,) = struct.unpack(f">{form}", self.take(struct.calcsize(form)))
        return int(found)

    def text(self) -> str:
        try:
            return self.take(self.number("h")).decode()
        except UnicodeDecodeError as error:
            raise ConnectError(
                f"Connect's message has a text at byte {self.at} that is not UTF-8: {error.reason}."
            ) from None

    def count(self) -> int:
        found = self.number("i")
        if found > MOST_ITEMS:
            raise ConnectError(f"Connect's message has a list of {found:,}, expected at most {MOST_ITEMS:,}.")
        return found

    def work(self) -> ConnectorsAndTasks:
        found = ConnectorsAndTasks()
        for _ in range(self.count()):  # -1: no list at all
            name = self.text()
            for _ in range(self.count()):
                task = self.number("i")
                if task == CONNECTOR_TASK:
                    found.connectors[name] = None
                else:
                    found.tasks[name, task] = None
        return found


def encode_metadata(url: str, config_offset: int, protocol: str, told: ExtendedAssignment | None) -> bytes:
    """What a worker writes into JoinGroup under this protocol: its configuration's offset, and what it runs.

    `told` holds what it runs as an assignment, None for a worker that has never had one.
    """
    version = VERSIONS[protocol]
    state = struct.pack(">h", version) + _text(url) + struct.pack(">q", config_offset)
    if version == 0:
        return state
    inner = b"" if told is None else encode_assignment(told, protocol)
    return state + struct.pack(">i", len(inner) if told is not None else -1) + inner


def decode_metadata(data: bytes) -> tuple[str, int, ConnectorsAndTasks]:
    """A worker's URL, its configuration's offset, and what it says it runs. ConnectError for bytes that are none."""
    reader = _Reader(data)
    version = _version(reader)
    url, offset = reader.text(), reader.number("q")
    if version == 0:
        return url, offset, ConnectorsAndTasks()
    size = reader.number("i")
    if size < 0:
        return url, offset, ConnectorsAndTasks()
    return url, offset, decode_assignment(reader.take(size)).assignment.assigned


def encode_assignment(told: ExtendedAssignment, protocol: str) -> bytes:
    """What the leader writes into SyncGroup for one worker."""
    version = VERSIONS[protocol]
    head = struct.pack(">hh", version, told.error) + _text(told.leader) + _text(told.leader_url)
    assigned, revoked = told.assignment.assigned, told.assignment.revoked
    body = head + struct.pack(">q", told.config_offset) + _work(hash_set_order(assigned.connectors), assigned.tasks)
    if version == 0:
        return body
    return body + _work(revoked.connectors, revoked.tasks) + struct.pack(">i", told.assignment.delay_ms)


def decode_assignment(data: bytes) -> ExtendedAssignment:
    """A worker's assignment, in the order in which it was written. ConnectError for bytes that are none."""
    reader = _Reader(data)
    version = _version(reader)
    error, leader, url, offset = reader.number("h"), reader.text(), reader.text(), reader.number("q")
    assigned = reader.work()
    revoked, delay_ms = (reader.work(), reader.number("i")) if version else (ConnectorsAndTasks(), 0)
    return ExtendedAssignment(leader, url, offset, Assignment(assigned, revoked, delay_ms), error)


def _version(reader: _Reader) -> int:
    version = reader.number("h")
    if version < 0:
        raise ConnectError(f"Connect's message has version {version}, expected 0 or more.")
    return version


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _work(names: Iterable[str], tasks: Iterable[TaskId]) -> bytes:
    """Tasks under their connectors, in the order in which the connectors come."""
    listed: dict[str, list[int]] = {name: [CONNECTOR_TASK] for name in names}
    for name, number in tasks:
        listed.setdefault(name, []).append(number)
    parts = [struct.pack(">i", len(listed))]
    for name, numbers in listed.items():
        parts += [_text(name), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)
