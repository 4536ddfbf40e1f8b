"""The wire to the real broker: every question, batches with numbers of one's own choosing, bad batches, endings."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.producer import ProduceRequest

from kitlib.errors import LabError
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.lab.wire.connection import EARLIEST, LATEST, Wire
from kitlib.lab.wire.records import WireBatch
from tests.lab.wires import Handler, Stub, address, is_silent, new_topic, new_topics, open_wire, says

pytestmark = pytest.mark.kafka

OK, UNKNOWN, BAD_ACKS, GAP, OLD_EPOCH = 0, 3, 21, 45, 47


@pytest.fixture
def wire(broker: Cluster) -> Iterator[Wire]:
    with open_wire(broker) as opened:
        yield opened


@pytest.fixture(scope="module")
def topic(broker: Cluster) -> str:
    """A topic that several tests share; each takes a partition of its own."""
    return new_topic(broker, 12)


def batch(partition: int, sequence: int, count: int = 1, producer_id: int = 77, **more: Any) -> WireBatch:
    values = [b"%d" % number for number in range(sequence, sequence + count)]
    return WireBatch(partition, values, producer_id, more.pop("epoch", 0), sequence, **more)


def test_wire_metadata_is_the_brokers(broker: Cluster, wire: Wire, topic: str) -> None:
    """The broker names itself and the leaders; a topic that is not there is an error and is not made."""
    for _ in range(2):
        found = wire.metadata([topic, "nobody-made-this"])
        assert found.brokers == {1: address(broker)} and found.controller == 1
        assert found.topics == {topic: (0, dict.fromkeys(range(12), (0, 1))), "nobody-made-this": (UNKNOWN, {})}
    assert topic in wire.metadata().topics


@pytest.mark.parametrize("version", [3, 12])
def test_wire_produce_every_version_knows_duplicates_gaps_and_epochs(broker: Cluster, version: int) -> None:
    """New, the same again, a gap, the next epoch, an old epoch: the same answers in the first and the last version of Produce."""
    name = new_topic(broker)
    with open_wire(broker) as wire:
        sent = [batch(0, 0, 2), batch(0, 0, 2), batch(0, 5), batch(0, 0, epoch=1), batch(0, 2, epoch=0)]
        answers = [wire.produce(name, [each], version=version)[0][:2] for each in sent]
    assert answers == [(OK, 0), (OK, 0), (GAP, -1), (OK, 2), (OLD_EPOCH, -1)]


def test_wire_fetch_gives_the_batches_as_the_broker_keeps_them(wire: Wire, topic: str) -> None:
    """Offsets, the producer's numbers, timestamps and values come back; a fetch in the middle of a batch gives all of it."""
    wire.produce(topic, [batch(0, 0, 3, timestamp_ms=1_000_000)])
    wire.produce(topic, [WireBatch(0, [b"", b"x" * 300, bytes(range(256))], timestamp_ms=2_000_000)])
    first, second = wire.read_all(topic, 0)
    assert (first.base_offset, first.producer_id, first.epoch, first.base_sequence, first.last_offset) == (0, 77, 0, 0, 2)
    assert first.records == [(number, 1_000_000, None, b"%d" % number) for number in range(3)]
    assert (second.base_offset, second.producer_id, second.epoch, second.base_sequence) == (3, -1, -1, -1)
    assert second.values == (b"", b"x" * 300, bytes(range(256)))
    assert not first.is_control and not first.is_transactional
    assert wire.fetch(topic, 0, 1) == [first, second] and wire.fetch(topic, 0, 6) == []


def test_wire_read_all_needs_many_fetches_for_a_long_log(wire: Wire, topic: str) -> None:
    """A log that is longer than one answer is read to its end, each batch once."""
    for sequence in range(4):
        wire.produce(topic, [WireBatch(1, [b"%d" % sequence * 900_000], 77, 0, sequence)])
    assert [found.base_sequence for found in wire.read_all(topic, 1)] == [0, 1, 2, 3]
    assert len(wire.fetch(topic, 1, 0)) < 4


def test_wire_offsets_and_deleted_records(wire: Wire, topic: str) -> None:
    """The log's ends, the first record of a time, and a start that moves when records are deleted."""
    wire.produce(topic, [batch(2, 0, 4, timestamp_ms=1_000)])
    wire.produce(topic, [batch(2, 4, 4, timestamp_ms=2_000)])
    assert [wire.list_offsets(topic, 2, time_ms) for time_ms in (EARLIEST, LATEST, 1_500, 9_000)] == [0, 8, 4, -1]
    assert wire.delete_records(topic, 2, 4) == 4
    assert wire.list_offsets(topic, 2, EARLIEST) == 4
    assert wire.produce(topic, [batch(2, 8)]) == {2: (OK, 8, 4)}
    assert wire.delete_records(topic, 2, 6) == 6
    assert [record[0] for batch in wire.read_all(topic, 2) for record in batch.records] == [6, 7, 8]
    assert wire.delete_records(topic, 2, -1) == 9 and wire.read_all(topic, 2) == []


def test_wire_describe_producers_tells_what_the_leader_remembers(wire: Wire, topic: str) -> None:
    """Each producer id with its epoch, last sequence and the timestamp of its last batch."""
    now_ms = int(time.time() * 1000)  # the broker forgets a producer whose last record is a day old
    wire.produce(topic, [batch(3, 0, 5, timestamp_ms=now_ms - 5)])
    wire.produce(topic, [batch(3, 7, 2, producer_id=78, epoch=4, timestamp_ms=now_ms)])
    found = sorted(wire.describe_producers(topic, 3), key=lambda each: each.producer_id)
    told = [(each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp, each.current_txn_start_offset)
            for each in found]  # fmt: skip
    assert told == [(77, 0, 4, now_ms - 5, -1), (78, 4, 8, now_ms, -1)]


def test_wire_transaction_marker_is_a_control_batch(wire: Wire, topic: str) -> None:
    """A marker, as a coordinator would write it, is accepted and is a batch of its own that raises the coordinator's epoch."""
    wire.produce(topic, [batch(4, 0)])
    assert wire.write_txn_markers(topic, 4, 77, 0, commit=True, coordinator_epoch=3) == OK
    assert wire.write_txn_markers(topic, 4, 77, 0, commit=False, coordinator_epoch=2) != OK
    kept, marker = wire.read_all(topic, 4)
    assert (kept.is_control, marker.is_control, marker.is_transactional, len(marker.records)) == (False, True, True, 1)
    assert [each.coordinator_epoch for each in wire.describe_producers(topic, 4)] == [3]


def test_wire_pipelined_requests_are_answered_in_order(wire: Wire, topic: str) -> None:
    """Ten requests on their way at once: ten answers, in order; other questions may come between; then there is nothing more."""
    for number in range(10):
        wire.send_produce(topic, [batch(5, number)])
    assert wire.list_offsets(topic, 5) == 10
    assert [wire.receive() for _ in range(10)] == [{5: (OK, offset, 0)} for offset in range(10)]
    assert wire.receive(0) is None and wire.receive(0.01) is None


def test_wire_acks(wire: Wire, topic: str) -> None:
    """No answer comes for acks 0, and the batch is there; acks 1 is answered; acks 2 is refused."""
    wire.send_produce(topic, [batch(8, 0)], acks=0)
    wire.drain()
    assert wire.produce(topic, [batch(8, 1)], acks=1) == {8: (OK, 1, 0)}
    assert wire.produce(topic, [batch(8, 2)], acks=2)[8][0] == BAD_ACKS
    assert wire.list_offsets(topic, 8) == 2


def test_wire_topic_that_is_not_there_is_refused(wire: Wire) -> None:
    """Produce answers with an error; whatever needs a partition is a LabError that names it."""
    assert wire.produce("nobody-made-this", [batch(0, 0)])[0][0] == UNKNOWN
    for ask in (
        lambda: wire.fetch("nobody-made-this", 0, 0), lambda: wire.list_offsets("nobody-made-this", 0, timeout_s=0.2),
        lambda: wire.describe_producers("nobody-made-this", 0), lambda: wire.delete_records("nobody-made-this", 0, 1),
    ):  # fmt: skip
        with pytest.raises(LabError, match=r"error 3 \(UnknownTopicOrPartitionError\)"):
            ask()
    assert wire.write_txn_markers("nobody-made-this", 0, 1, 0, commit=True) == UNKNOWN


def test_wire_that_has_ended_answers_nothing_any_more(broker: Cluster, wire: Wire, topic: str) -> None:
    """Produce version 2 is gone since 4.0: the broker closes, which is a LabError, and so is every later question; as one's own end."""
    for ask in (lambda: wire.produce(topic, [batch(0, 0)], version=2), lambda: wire.list_offsets(topic, 0)):
        with pytest.raises(LabError, match=r"has ended: .*Open a new one"):
            ask()
    assert not wire.is_open
    with open_wire(broker) as other:
        other.close()
        other.close()
        with pytest.raises(LabError, match="this side closed it"):
            other.produce(topic, [batch(0, 0)])


def test_wire_batch_that_cannot_be_made_is_told_and_nothing_is_sent(wire: Wire, topic: str) -> None:
    """No records, numbers that do not fit, values that are no bytes: LabError."""
    for wrong in (
        WireBatch(0, []), WireBatch(0, [b"x"], 2**63), WireBatch(0, [b"x"], 1, 2**15), WireBatch(0, [b"x"], 1, 0, 2**31),
        WireBatch(0, ["text"]),  # type: ignore[list-item]
        WireBatch(2**31, [b"x"]),
    ):  # fmt: skip
        with pytest.raises(LabError):
            wire.send_produce(topic, [wrong])
    assert wire.receive(0) is None and wire.metadata([topic]).controller == 1


def test_wire_produce_takes_its_own_answer(broker: Cluster) -> None:
    """An answer that nobody has received yet stays to be received."""
    one, two = new_topics(broker, 2)
    with open_wire(broker) as wire:
        wire.send_produce(one, [batch(0, 0)])
        assert wire.produce(two, [batch(0, 0), batch(1, 0)]) == {0: (OK, 0, 0), 1: (UNKNOWN, -1, -1)}
        assert wire.receive() == {0: (OK, 0, 0)} and wire.receive(0) is None


def test_wire_nobody_there_is_told_within_the_deadline() -> None:
    """An address where nobody listens is a LabError at once."""
    begin = time.monotonic()
    with pytest.raises(LabError, match=r"No Kafka broker answers at 127\.0\.0\.1:1 "):
        Wire.open("127.0.0.1", 1, timeout_s=5)
    assert time.monotonic() - begin < 5


NO_BROKERS = [
    pytest.param(says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "Invalid frame length", id="a web server"),
    pytest.param(says(b"\x00\x00\x00\x08\x00\x00\x00\x63rest"), "Correlation IDs do not match", id="an answer to something else"),
    pytest.param(says(b"\x00\x00\x00\x20\x00\x00", closes=True), "disconnected", id="half a frame, then the end"),
    pytest.param(is_silent, "timed out|no answer", id="silence"),
]


@pytest.mark.parametrize(("handler", "said"), NO_BROKERS)
def test_wire_server_that_is_no_broker_is_told_within_the_deadline(handler: Handler, said: str) -> None:
    """Whatever answers there, or does not: a LabError that says so, soon after the deadline at the latest."""
    begin = time.monotonic()
    with Stub(handler) as stub:
        with pytest.raises(LabError, match=f"No Kafka broker answers at 127.0.0.1:{stub.port} .*({said})"):
            Wire.open("127.0.0.1", stub.port, timeout_s=0.5)
        assert time.monotonic() - begin < 5.5


def test_wire_answer_that_comes_too_late_is_ignored(broker: Cluster, topic: str) -> None:
    """Who gave up waiting is not disturbed by the answer to the question before; the connection goes on."""
    with ChaosProxy.before(broker, [Rule("delay_answer", api="ListOffsets", ms=300, count=1)]) as proxy:
        with open_wire(proxy.cluster) as wire:
            with pytest.raises(LabError, match="gave no answer to ListOffsets in time"):
                wire.list_offsets(topic, 11, timeout_s=0.05)
            assert wire.metadata([topic]).controller == 1


def test_wire_broker_that_is_not_ready_is_asked_again(broker: Cluster) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS for a producer id is asked again until the deadline, and is the answer if it passes."""
    rule = Rule("answer_error", api="InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS", count=2)
    with ChaosProxy.before(broker, [rule]) as proxy:
        with open_wire(proxy.cluster) as wire:
            assert wire.init_producer_id()[0] == OK
            proxy.add(Rule("answer_error", api="InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS"))
            assert wire.init_producer_id(0.2) == (14, -1, -1)


# As a broker of 4.3.1 answered the second request of a connection, a Produce.
STORED = bytes.fromhex(
    "00000030" "0000000200" "0202740200000000" "0000" "0000000000000000" "ffffffffffffffff" "0000000000000000"
    "010000" "00" "000000" "0000"
)  # fmt: skip


def test_wire_answer_then_the_end_is_still_an_answer() -> None:
    """What has arrived before the connection ended is given out, then comes the end."""
    is_over = threading.Event()
    api = ApiVersionsResponse(version=4, error_code=0, api_keys=[(ProduceRequest.API_KEY, 0, 12)], throttle_time_ms=0)
    api.with_header(correlation_id=1)

    def answer_twice_and_go(connection: socket.socket) -> None:
        for answer in (api.encode(header=True, framed=True), STORED):
            connection.recv(1 << 16)
            connection.sendall(answer)
        connection.shutdown(socket.SHUT_RDWR)
        is_over.set()

    with Stub(answer_twice_and_go) as stub, Wire.open("127.0.0.1", stub.port) as wire:
        wire.send_produce("t", [batch(0, 0)])
        assert is_over.wait(10)
        assert wire.receive() == {0: (OK, 0, 0)}
        with pytest.raises(LabError, match="has ended"):
            wire.receive()
