"""What a transaction's real run is made of: the coordinator's own records, and a producer's child process."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from kitlib.errors import LabError
from kitlib.lab.client_processes import producer as producer_process
from kitlib.lab.client_processes.driver import Refused
from kitlib.lab.client_processes.producer import ProducerProcess
from kitlib.lab.clients import addresses
from kitlib.lab.wire.coordinator import state_records
from kitlib.lab.wire.records import FetchedBatch
from tests.conftest import wait_for

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x", "log_level": 0}


def kept(key: bytes | None, value: bytes | None, is_control: bool = False) -> FetchedBatch:
    """One record of the coordinator's topic."""
    return FetchedBatch(7, -1, -1, -1, False, is_control, [(7, 0, key, value)], 7)


def test_state_record_is_read_up_to_its_state() -> None:
    """Key: version and id. Value: version, producer id, epoch, timeout, state. A tombstone and a marker say nothing."""
    key = struct.pack(">hh", 0, 4) + b"kit1"
    value = struct.pack(">hqhib", 1, 5, 3, 60_000, 4) + b"rest"
    assert [*state_records([kept(key, value)])] == [(7, "kit1", "CompleteCommit", 5, 3)]
    assert [*state_records([kept(key, None), kept(None, value), kept(key, value, is_control=True)])] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"\x00", b"\x00" * 20), (b"\x00\x00\x00\x04kit1", b"\x00"), (b"\x00\x00\x00\x01\xff", b"\x00" * 20),
     (b"\x00\x00\x00\x01x", struct.pack(">hqhib", 0, 5, 3, 60_000, 99)),
     (b"\x00\x00\x00\x01x", struct.pack(">hqhib", 0, 5, 3, 60_000, -1))],
    ids=["no key", "cut", "no text", "a state of tomorrow", "a state below all"],
)  # fmt: skip
def test_state_record_of_another_kind_is_told_in_a_sentence(key: bytes, value: bytes) -> None:
    """LabError with the record's offset; nothing is guessed."""
    with pytest.raises(LabError, match=r"Record 7 of __transaction_state is not one of Kafka 4\.3\.1"):
        next(state_records([kept(key, value)]))


def test_child_ends_with_its_pipe_and_says_what_librdkafka_refuses() -> None:
    """An owner that dies leaves no producer behind; a setting that is none is refused with librdkafka's words."""
    producer = ProducerProcess.start("p", {"producer": NOWHERE, "consumer": {}, "input": "t"})
    try:
        assert producer.do("begin")["error"] == "_STATE"
        assert producer.process.stdin is not None
        producer.process.stdin.close()
        assert producer.process.wait(30) == 0
    finally:
        producer.kill()
    with pytest.raises(LabError, match="it has ended"):
        producer.do("begin")
    with pytest.raises(Refused, match=r"transaction\.timeout\.ms"):
        ProducerProcess.start("p", {"producer": {**NOWHERE, "transaction.timeout.ms": 1}, "consumer": {}, "input": "t"})


@pytest.fixture
def child(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[producer_process._Child]:
    """A producer of these settings, in this process, whose broker is nowhere; its calls may take 0.3 s."""
    monkeypatch.setattr(producer_process, "CALL_S", 0.3)
    settings = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "linger.ms": 0} | request.param
    child = producer_process._Child({"producer": settings, "consumer": {}, "input": "t"})
    yield child
    child.producer.purge()
    child.producer.flush(1.0)


@pytest.mark.parametrize("child", [{}, {"queue.buffering.max.messages": 1}], ids=["no answer", "no room"], indirect=True)
def test_records_of_which_nothing_was_told_are_not_told_as_stored(child: producer_process._Child) -> None:
    """Neither those that wait for a broker, nor those for which the client's queue had no room."""
    with pytest.raises(LabError, match=r"of 3 of 3 records nothing was reported within 0\.3 s"):
        child.send("t", [1, 2, 3])


@pytest.mark.parametrize("child", [{"queue.buffering.max.messages": 1, "message.timeout.ms": 50}], indirect=True)
def test_full_queue_is_waited_for(child: producer_process._Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record has room when the one before has expired; the first error is told once all are."""
    monkeypatch.setattr(producer_process, "CALL_S", 20.0)
    assert child.send("t", [1, 2])["error"] == "_MSG_TIMED_OUT"
    assert wait_for(lambda: child.producer.poll(0) == 0 and len(child.producer) == 0, 5)  # it counts news of brokers too


def test_addresses_are_those_that_a_user_writes() -> None:
    """Host and port of each, with a scheme, in brackets; without a port, a sentence."""
    assert addresses("127.0.0.1:9092") == [("127.0.0.1", 9092)]
    assert addresses("PLAINTEXT://127.0.0.1:9092, other:1,[::1]:2") == [("127.0.0.1", 9092), ("other", 1), ("::1", 2)]
    for bootstrap in ("localhost", "localhost:", "[::1]", ":9092", "a:1,"):
        with pytest.raises(LabError, match=r"expected host:port\. Correct KIT_KAFKA_BOOTSTRAP"):
            addresses(bootstrap)
