"""The wire's own parser, given what no broker says: any bytes end in an answer or a LabError, soon and in little memory."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kitlib.errors import LabError
from kitlib.lab.wire import Wire, WireBatch, WireClosed
from kitlib.lab.wire_frames import LONGEST_FRAME_BYTES, Frames, framed
from kitlib.lab.wire_library import ApiKey, checksum_of_the_library
from kitlib.lab.wire_records import DAMAGES, LONGEST_UNPACKED_BYTES, checksum, decode_batches, encode_batch, seal
from kitlib.lab.wire_session import HIGHEST
from tests.lab.wires import Handler, Stub, is_silent, says

VERSIONS = {int(key): (0, highest) for key, highest in HIGHEST.items()}
DEADLINE_S = 1.0  # time enough for a stub's thread to answer on a busy machine
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x28"

ASK: dict[ApiKey, Callable[[Wire], Any]] = {
    ApiKey.ApiVersions: lambda wire: wire.api_versions(),
    ApiKey.Metadata: lambda wire: wire.metadata(["t"]),
    ApiKey.InitProducerId: lambda wire: wire.init_producer_id(0),
    ApiKey.Produce: lambda wire: wire.produce("t", [WireBatch(0, [b"x"])]),
    ApiKey.Fetch: lambda wire: wire.fetch("t", 0, 0),
    ApiKey.ListOffsets: lambda wire: wire.list_offsets("t", 0),
    ApiKey.DescribeProducers: lambda wire: wire.describe_producers("t", 0),
    ApiKey.DeleteRecords: lambda wire: wire.delete_records("t", 0, 0),
    ApiKey.WriteTxnMarkers: lambda wire: wire.write_txn_markers("t", 0, 1, 0, commit=True),
}


class Told:
    """Stands in for a connection: whatever is sent, this is what comes back."""

    where = "nowhere:1"
    unsent_bytes = 0

    def __init__(self, *arrived: bytes) -> None:
        self.frames = Frames()
        self.arrived = list(arrived)
        self.is_open = True

    def send(self, data: bytes) -> None:
        pass

    def drain(self, deadline: float) -> bool:
        return True

    def receive(self, deadline: float) -> bytes | None:
        return self.arrived.pop(0) if self.arrived else None

    def close(self, why: str = "") -> None:
        self.is_open = False


def wire_told(*frames: bytes) -> Wire:
    wire = Wire(Told(*frames), "test", 0.0)  # type: ignore[arg-type]
    wire.versions = VERSIONS
    return wire


def api_versions_answer() -> bytes:
    each = b"".join(struct.pack(">hhh", key, *versions) for key, versions in VERSIONS.items())
    return struct.pack(">ihi", 1, 0, len(VERSIONS)) + each + bytes(4)


# As a broker of 4.3.1 answered the first request of a connection.
GOOD = {ApiKey.ApiVersions: api_versions_answer()} | {
    api: bytes.fromhex(text)
    for api, text in {
        ApiKey.Metadata: "00000001000000000000000100000001" "00093132372e302e302e3100007021ffff"
        "0016665550734f3178455156363849754457685146615f67"
        "0000000100000001" "0000000174" "00" "0000000100000000000000000001" "00000000" "0000000100000001" "0000000100000001"
        "00000000" "80000000" "80000000",
        ApiKey.InitProducerId: "00000001000000000000000000000000000003000000",
        ApiKey.Produce: "0000000100" "0202740200000000" "0000" "0000000000000000" "ffffffffffffffff"
        "0000000000000000" "010000" "00" "000000" "0000",
        ApiKey.Fetch: "00000001" "00000000" "0000" "00000000" "00000001" "000174" "00000001" "00000000" "0000" "0000000000000002"
        "0000000000000002" "0000000000000000" "ffffffff" "ffffffff" "0000004d" "0000000000000000" "00000041" "00000000" "02" "ebd1e135"
        "0000" "00000001" "00000000000003e8" "00000000000003e8" "0000000000000004" "0000" "00000000" "00000002"
        "0e000000010261000e00000201026200",
        ApiKey.ListOffsets: "00000001000000000000000100017400000001000000000000ffffffffffffffff000000000000000200000000",
        ApiKey.DescribeProducers: "0000000100" "00000000" "02027402" "00000000" "0000" "00" "02" "0000000000000004" "00000000" "00000001"
        "00000000000003e8" "ffffffff" "ffffffffffffffff" "00" "00" "00" "00",
        ApiKey.DeleteRecords: "000000010000000000000001000174000000010000000000000000000000000000",
        ApiKey.WriteTxnMarkers: "0000000100" "02" "0000000000000004" "02027402" "00000000" "0000" "00" "00" "00" "00",
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("api", ASK, ids=lambda api: api.name)
def test_wire_answer_as_the_broker_gives_it_is_read(api: ApiKey) -> None:
    """The answers that the next tests spoil are read as long as they are not spoiled."""
    wire = wire_told(GOOD[api])
    found = ASK[api](wire)
    assert wire.is_open and wire.unanswered == 0
    if api == ApiKey.ApiVersions:
        assert found == VERSIONS
    elif api == ApiKey.Produce:
        assert found == {0: (0, 0, 0)}
    elif api == ApiKey.Fetch:
        assert [each.values for each in found] == [(b"a", b"b")]


def spoiled(good: bytes) -> st.SearchStrategy[bytes]:
    """The answer with a part replaced by other bytes, cut off at its end, or begun well and gone wrong."""
    places = st.integers(4, len(good))
    bits = st.sampled_from([b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80" * 9]) | st.binary(max_size=12)
    return (
        st.builds(lambda at, count, new: good[:at] + new + good[at + count :], places, st.integers(0, 8), bits)
        | st.builds(lambda at: good[:at], places)
        | st.builds(lambda at, new: good[:at] + new, places, st.binary(max_size=200))
        | st.binary(max_size=200).map(lambda new: good[:4] + new)
    )


@pytest.mark.parametrize("api", ASK, ids=lambda api: api.name)
@settings(max_examples=80, deadline=5_000)
@given(data=st.data())
def test_wire_any_answer_is_read_or_refused(api: ApiKey, data: st.DataObject) -> None:
    """Whatever follows the right correlation id: an answer, or a LabError; never another error, never a long wait."""
    wire = wire_told(data.draw(spoiled(GOOD[api])))
    try:
        ASK[api](wire)
    except LabError as error:
        assert str(error).count("\n") == 0 and len(str(error)) < 600


@pytest.mark.parametrize("api", ASK, ids=lambda api: api.name)
@pytest.mark.parametrize("filling", [b"\xff", b"\x80", b"\x00", b"\x01", b"\x7f"], ids=lambda filling: filling.hex())
def test_wire_long_answers_of_one_byte_end_soon(api: ApiKey, filling: bytes) -> None:
    """A quarter of a megabyte of the same byte, at each of the first places, is no answer for a reader to be lost in."""
    begin = time.monotonic()
    for at in (4, 5, 9, 13):
        try:
            ASK[api](wire_told(GOOD[api][:at] + filling * ((1 << 18) - at)))
        except LabError:
            pass
    assert time.monotonic() - begin < 10


def test_wire_answer_of_more_than_a_megabyte_is_none() -> None:
    """Only fetched records are long."""
    with pytest.raises(LabError, match="expected at most 1,048,576"):
        ASK[ApiKey.Metadata](wire_told(GOOD[ApiKey.Metadata] + bytes(1 << 20)))


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\0\0\2", b"\0\0\0\7" + GOOD[ApiKey.Metadata][4:]], ids=["0", "1", "2", "7"])
def test_wire_answer_to_something_else_ends_the_connection(frame: bytes) -> None:
    """A frame without the correlation id of a request that waits is no answer, and the connection is closed."""
    wire = wire_told(frame)
    with pytest.raises(LabError, match="answers any request with something else"):
        wire.metadata(["t"])
    assert not wire.is_open


def test_wire_answer_that_comes_too_late_is_ignored() -> None:
    """Who gave up waiting is not disturbed by the answer to the question before."""
    wire = wire_told()
    with pytest.raises(LabError, match="gave no answer to Metadata"):
        wire.metadata(["t"])
    second = b"\0\0\0\2" + GOOD[ApiKey.ListOffsets][4:]
    wire.connection.arrived += [GOOD[ApiKey.Metadata], second]
    assert wire.list_offsets("t", 0) == 2
    with pytest.raises(LabError, match="gave no answer to Produce"):
        wire.produce("t", [WireBatch(0, [b"x"])])
    wire.connection.arrived += [b"\0\0\0\3" + GOOD[ApiKey.Produce][4:], b"\0\0\0\4" + GOOD[ApiKey.Produce][4:]]
    assert wire.produce("t", [WireBatch(0, [b"x"])]) == {0: (0, 0, 0)} and wire.unanswered == 0


def test_wire_broker_that_is_not_ready_is_asked_again() -> None:
    """COORDINATOR_LOAD_IN_PROGRESS for a producer id is asked again until the deadline, and is the answer if it passes."""
    good = GOOD[ApiKey.InitProducerId]
    not_yet = good[:9] + b"\x00\x0e" + b"\xff" * 10 + b"\x00"
    frames = [not_yet, b"\0\0\0\2" + not_yet[4:], b"\0\0\0\3" + good[4:]]
    assert wire_told(*frames).init_producer_id(5) == (0, 3, 0)
    assert wire_told(*frames).init_producer_id(0) == (14, -1, -1)


# Frames


def cut(data: bytes, longest: int) -> tuple[list[bytes], bool]:
    """The frames of a stream, and whether it is still one; written as plainly as can be."""
    found = []
    while len(data) >= 4:
        length = int.from_bytes(data[:4], "big", signed=True)
        if not 0 <= length <= longest:
            return found, False
        if len(data) < 4 + length:
            break
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found, True


@given(
    st.lists(st.binary(max_size=40).map(framed) | st.binary(max_size=8) | st.sampled_from([b"\0\0\0", HTTP, TLS_ALERT]), max_size=8),
    st.lists(st.integers(1, 20), max_size=30),
)
@example([b"\xff\xff\xff\xff"], [1, 1, 1])
@example([b"\x7f\xff\xff\xff"], [])
@example([b"\0\0\0\0"], [2])
def test_frames_are_the_same_however_the_stream_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    """Frames come out as they went in, in whatever pieces; a wrong length is a LabError; no more is held than came."""
    stream = b"".join(parts)
    expected, good = cut(stream, longest=64)
    frames = Frames(longest_bytes=64)
    found: list[bytes] = []
    refused = False
    at = 0
    for size in [*cuts, len(stream)]:
        if refused:
            break
        try:
            found += frames.feed(stream[at : at + size])
        except LabError:
            refused = True
        at += size
        assert len(frames) <= 64 + 3 and len(frames) <= len(stream)
    assert refused is not good
    assert found == expected if good else found == expected[: len(found)]


def test_frames_claimed_length_takes_no_memory() -> None:
    """A frame that claims 100 MiB and brings ten bytes takes ten bytes."""
    tracemalloc.start()
    frames = Frames()
    assert frames.feed(struct.pack(">i", LONGEST_FRAME_BYTES) + bytes(10)) == []
    taken, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(frames) == 14 and peak < 10_000 and taken < 10_000


# Batches of records

BATCH = bytes(encode_batch(WireBatch(0, [b"one", b"", b"three" * 40], 5, 0, 7, 1_000)))
PACKED = bytes(encode_batch(WireBatch(0, [b"one" * 90, b"", b"three" * 40], 5, 0, 7, 1_000, compression="gzip")))


@given(st.binary(max_size=600))
@example(b"")
@example(b"123456789")
@example(bytes(256))
def test_checksum_is_that_of_the_library(data: bytes) -> None:
    """The fast checksum gives what the protocol library's own gives."""
    assert checksum(data) == checksum_of_the_library(data)
    assert checksum(b"123456789") == 0xE3069283  # the check value of CRC-32C


@settings(max_examples=200, deadline=5_000)
@given(st.sampled_from([BATCH, PACKED]), st.data(), st.booleans())
def test_batches_any_bytes_are_read_or_refused(good: bytes, data: st.DataObject, sealed: bool) -> None:
    """A spoiled batch, also one with a checksum that fits, is read, left out as cut, or a LabError."""
    wrong = bytearray(data.draw(spoiled(good)))
    if sealed and len(wrong) > 61:
        seal(wrong)
    try:
        decode_batches(bytes(wrong))
    except LabError:
        pass


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=30), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1), st.integers(0, 2**40), st.booleans(), st.sampled_from(["none", "gzip"]),
)  # fmt: skip
def test_batches_come_back_as_they_were_made(
    values: list[bytes], producer_id: int, epoch: int, sequence: int, timestamp_ms: int, transactional: bool, compression: str
) -> None:
    """Every number and every value of a batch is read back; the last of several that is cut is left out."""
    made = bytes(encode_batch(WireBatch(0, values, producer_id, epoch, sequence, timestamp_ms, transactional, compression)))
    first, second = decode_batches(made + made + made[:-1])
    assert first == second and first.values == tuple(values)
    assert (first.producer_id, first.epoch, first.base_sequence, first.is_transactional) == (producer_id, epoch, sequence, transactional)
    assert [record[:2] for record in first.records] == [(number, timestamp_ms) for number in range(len(values))]


def test_batches_a_wrong_checksum_is_told() -> None:
    """A batch of which one bit is another is not read."""
    for at in (25, 60, len(BATCH) - 1):
        wrong = bytearray(BATCH)
        wrong[at] ^= 1
        with pytest.raises(LabError, match="a wrong checksum"):
            decode_batches(bytes(wrong))


@pytest.mark.parametrize(
    ("at", "new", "said"),
    [
        pytest.param(8, b"\xff\xff\xff\xff", "a length of -1 bytes", id="a length below zero"),
        pytest.param(8, b"\x00\x00\x00\x00", "a length of 0 bytes", id="a length shorter than a header"),
        pytest.param(16, b"\x01", "format 1, expected 2", id="an old format"),
        pytest.param(22, b"\x04", "compression 4", id="a compression that the wire cannot undo"),
        pytest.param(22, b"\x01", "incorrect header check", id="gzip that is none"),
        pytest.param(57, b"\x00\x00\x00\x09", "invalid record structure", id="more records than there are"),
        pytest.param(57, b"\xff\xff\xff\xff", "unconsumed bytes", id="fewer than no records"),
    ],
)
def test_batches_that_lie_are_refused(at: int, new: bytes, said: str) -> None:
    """A header that does not fit the rest is a LabError that says what was found, although the checksum fits."""
    wrong = bytearray(BATCH)
    wrong[at : at + len(new)] = new
    seal(wrong)
    with pytest.raises(LabError, match=said):
        decode_batches(bytes(wrong))


def test_batches_that_grow_without_end_are_refused() -> None:
    """A packed batch that would be larger than the bound is refused before it is unpacked as a whole."""
    made = encode_batch(WireBatch(0, [bytes(LONGEST_UNPACKED_BYTES)], compression="gzip"))
    assert len(made) < LONGEST_UNPACKED_BYTES // 100
    with pytest.raises(LabError, match="more than 67,108,864 bytes when it is unpacked"):
        decode_batches(bytes(made))


@pytest.mark.parametrize("damage", DAMAGES[1:])
def test_batches_damage_is_seen(damage: str) -> None:
    """Each damage makes other bytes, of the same number; all but "control" and "magic" cannot be read here."""
    made = bytes(encode_batch(WireBatch(0, [b"one"], 5, 0, 7, 1_000)))
    spoilt = bytes(encode_batch(WireBatch(0, [b"one"], 5, 0, 7, 1_000, damage=damage)))
    assert made != spoilt and len(made) == len(spoilt)
    if damage != "control":
        with pytest.raises(LabError):
            decode_batches(spoilt)


# Servers that are no brokers

NO_BROKERS = [
    pytest.param(says(HTTP), "does not speak Kafka", id="a web server"),
    pytest.param(says(TLS_ALERT), "does not speak Kafka", id="a server that wants TLS"),
    pytest.param(says(b"\xff\xff\xff\xff"), "claims -1", id="a length of -1"),
    pytest.param(says(b"\x7f\xff\xff\xff"), "claims 2,147,483,647", id="a length of 2 GiB"),
    pytest.param(says(b"\x00\x00\x00\x00"), "a frame of 0 bytes", id="a length of 0"),
    pytest.param(says(framed(b"\x00\x00\x00\x63rest")), "correlation id 99", id="an answer to something else"),
    pytest.param(says(framed(b"\x00\x00\x00\x01\x00")), "something else", id="half an answer in a whole frame"),
    pytest.param(says(b"\x00\x00\x00\x20\x00\x00", closes=True), "6 bytes of it came", id="half a frame, then the end"),
    pytest.param(says(b"", closes=True), "closed", id="no word, then the end"),
    pytest.param(says(b"\x00\x00\x00\x20\x00\x00"), "gave no answer", id="half a frame, then silence"),
    pytest.param(is_silent, "gave no answer", id="silence"),
]


@pytest.mark.parametrize(("handler", "said"), NO_BROKERS)
def test_wire_server_that_is_no_broker_is_told_within_the_deadline(handler: Handler, said: str) -> None:
    """Whatever answers there, or does not: a LabError that says so, soon after the deadline at the latest."""
    begin = time.monotonic()
    with Stub(handler) as stub:
        with pytest.raises(LabError, match=said):
            Wire.open("127.0.0.1", stub.port, timeout_s=DEADLINE_S)
        assert time.monotonic() - begin < DEADLINE_S + 5


def test_wire_broker_that_stops_reading_holds_nobody_for_ever() -> None:
    """Requests beyond what the network takes wait here up to the frame cap; beyond it the next one is a LabError in time."""
    hold: list[Any] = []
    with Stub(hold.append) as stub, Wire.open("127.0.0.1", stub.port, "test", DEADLINE_S, 8 << 20, ask_versions=False) as wire:
        wire.versions = VERSIONS
        big = (0, bytes(4 << 20))
        begin = time.monotonic()
        with pytest.raises(LabError, match="has stopped reading"):
            for _ in range(10):
                wire.send_produce("t", [big])
        assert wire.connection.unsent_bytes <= 2 * (8 << 20) and time.monotonic() - begin < DEADLINE_S + 5
        with pytest.raises(LabError, match="has stopped reading"):
            wire.send_raw(b"more")


def test_wire_answer_then_the_end_is_still_an_answer() -> None:
    """What arrived before the connection ended is given out, then comes WireClosed."""
    with Stub(says(framed(GOOD[ApiKey.ApiVersions]), closes=True)) as stub, Wire.open("127.0.0.1", stub.port) as wire:
        assert wire.versions == VERSIONS
        with pytest.raises(WireClosed):
            wire.metadata(["t"])
