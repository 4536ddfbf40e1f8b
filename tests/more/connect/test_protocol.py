"""What workers write for each other: byte for byte what Connect 4.3.1's own classes write, and hostile bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.more.connect.protocol import (
    ExtendedAssignment,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from kitlib.more.connect.work import Assignment, ConnectError, ConnectorsAndTasks

RECORDED = (Path(__file__).parent / "recorded_messages.txt").read_text(encoding="utf-8").splitlines()
WORK = st.builds(
    ConnectorsAndTasks.of,
    st.lists(st.text(max_size=5), max_size=4),
    st.lists(st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1)), max_size=6),
)


def work(connectors: str, tasks: str) -> ConnectorsAndTasks:
    parts = [each.split("/") for each in tasks.split(",") if each]
    return ConnectorsAndTasks.of(
        [each for each in connectors.split(",") if each], ((name, int(number)) for name, number in parts)
    )


@pytest.mark.parametrize("line", RECORDED, ids=range(len(RECORDED)))
def test_messages_are_those_of_the_real_classes(line: str) -> None:
    """An assignment, the metadata around it, and the eager assignment, as the real classes wrote them."""
    told, _, recorded = line.partition(" -> ")
    leader, url, offset, *held, delay, sessioned, owns = told.split("|")
    protocol = "sessioned" if sessioned == "1" else "compatible"
    assigned, revoked = work(held[0], held[1]), work(held[2], held[3])
    message = ExtendedAssignment(leader, url, int(offset), Assignment(assigned, revoked, int(delay)))
    wanted_assignment, wanted_metadata, wanted_eager = recorded.split(" ")
    assert encode_assignment(message, protocol).hex() == wanted_assignment
    assert encode_metadata(url, int(offset), protocol, message if owns == "1" else None).hex() == wanted_metadata
    assert encode_assignment(message, "default").hex() == wanted_eager


@given(WORK, WORK, st.integers(0, 2**31 - 1), st.sampled_from(["sessioned", "compatible"]))
def test_what_is_written_is_read_again(
    assigned: ConnectorsAndTasks, revoked: ConnectorsAndTasks, delay_ms: int, protocol: str
) -> None:
    """The same work, the same delay; and inside a worker's metadata too."""
    told = ExtendedAssignment("w1", "http://h/", 7, Assignment(assigned, revoked, delay_ms))
    read = decode_assignment(encode_assignment(told, protocol))
    assert (read.leader, read.config_offset, read.assignment.delay_ms) == ("w1", 7, delay_ms)
    assert set(read.assignment.assigned.tasks) == set(assigned.tasks)
    assert set(read.assignment.revoked.connectors) == set(revoked.connectors)
    url, offset, runs = decode_metadata(encode_metadata("http://h/", 7, protocol, told))
    assert (url, offset, set(runs.connectors)) == ("http://h/", 7, set(assigned.connectors))


def test_worker_that_never_ran_anything_says_so() -> None:
    """No bytes at all for its work; the eager protocol has no room for it."""
    for protocol in ("sessioned", "default"):
        assert decode_metadata(encode_metadata("u", 1, protocol, None)) == ("u", 1, ConnectorsAndTasks())


@given(st.binary(max_size=80))
def test_bytes_that_are_none_are_refused_in_a_sentence(data: bytes) -> None:
    """Whatever comes: work, or a ConnectError."""
    for read in (decode_assignment, decode_metadata):
        try:
            read(data)
        except ConnectError as error:
            assert "Connect's message" in str(error)


def test_each_cut_message_is_refused() -> None:
    """An assignment without its last byte, and every shorter one."""
    whole = encode_assignment(ExtendedAssignment("w1", "u", 1, Assignment(work("a,b", "a/0,b/1"), work("c", "c/2"), 9)), "sessioned")
    for end in range(len(whole)):
        with pytest.raises(ConnectError, match="ends at byte"):
            decode_assignment(whole[:end])
    head = whole[:19]  # version, error, "w1", "u", offset; then the list of connectors
    with pytest.raises(ConnectError, match="a list of"):
        decode_assignment(head + b"\x7f\xff\xff\xff" + whole[len(head) + 4 :])
