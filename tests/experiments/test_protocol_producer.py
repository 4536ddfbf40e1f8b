"""The kit's own producer on a real topic: what it says was stored is stored, once and in order; and no wait is for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.experiments.idempotence.protocol_producer import IdempotentProducer
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Completion
from tests.conftest import wait_for, within
from tests.lab.wires import Relay, Stub, is_silent, new_topic, open_wire, says

pytestmark = pytest.mark.kafka

# As short as the loaded machine allows: a request that gets no answer is given up after half a second.
QUICK = {"request_timeout_ms": 500, "delivery_timeout_ms": 20_000, "retry_backoff_ms": 20}


@pytest.fixture
def relay(broker: Cluster) -> Iterator[Relay]:
    with Relay(broker) as opened:
        yield opened


def start(where: Cluster | Stub, topic: str, **settings: Any) -> IdempotentProducer:
    kafka = f"127.0.0.1:{where.port}" if isinstance(where, Stub) else where
    names = {"max_in_flight": "max_in_flight_requests_per_connection"}
    config = ProducerConfig(**QUICK | {names.get(name, name): value for name, value in settings.items()})
    return IdempotentProducer(topic, kafka, config, timeout_s=5)


def stored(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    """All values of a partition, in the order of the log."""
    with open_wire(cluster) as wire:
        return [value for batch in wire.read_all(topic, partition) for value in batch.values]


def values(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def check_deliveries(cluster: Cluster, topic: str, producer: IdempotentProducer, sent: dict[int, tuple[int, list[bytes]]]) -> None:
    """Each record was told of once, as stored, and is in the log where its delivery says."""
    log = {partition: stored(cluster, topic, partition) for partition in producer.sender.partitions}
    told: dict[int, list[bytes]] = {}
    for delivery in sorted(producer.deliveries, key=lambda delivery: (delivery.send, delivery.first)):
        assert delivery.error is None and delivery.partition == sent[delivery.send][0]
        told.setdefault(delivery.send, []).extend(log[delivery.partition][delivery.offset : delivery.offset + delivery.count])
    assert told == {send: expected for send, (_, expected) in sent.items()}


@pytest.mark.parametrize("in_flight", [1, 5, 10])
def test_producer_writes_every_record_once_and_in_order(broker: Cluster, in_flight: int) -> None:
    """Two partitions, batches of several sizes, with so many requests on their way: the logs hold what was sent."""
    topic = new_topic(broker, 2)
    sent: dict[int, tuple[int, list[bytes]]] = {}
    most = 0
    with start(broker, topic, max_in_flight=in_flight, request_timeout_ms=15_000) as producer:
        for number in range(40):
            batch = values(100 * number, 1 + number % 7)
            sent[producer.send(batch, number % 2)] = (number % 2, batch)
            most = max(most, len(producer.sender.in_flight_requests))
        assert producer.flush(20) == 0 and producer.unfinished == 0
    assert 1 <= most <= in_flight
    check_deliveries(broker, topic, producer, sent)
    for partition in (0, 1):
        expected = [value for where, batch in sent.values() if where == partition for value in batch]
        assert stored(broker, topic, partition) == expected


@pytest.mark.parametrize(("in_flight", "copies"), [(1, 1), (5, 1), (10, 2)])
def test_producer_with_lost_answers_needs_a_broker_that_remembers(relay: Relay, broker: Cluster, in_flight: int, copies: int) -> None:
    """All requests that may be on their way are written and their answers lost: up to five are recognised when they
    come again; of ten the broker remembers five, so they are all written twice, and acknowledged."""
    topic = new_topic(broker)
    with start(relay, topic, max_in_flight=in_flight, request_timeout_ms=2_000) as producer:
        producer.send([b"before"])
        assert producer.flush(10) == 0
        relay.mode = "silent"
        for number in range(in_flight):
            producer.send(values(number, 1))
        assert len(producer.sender.in_flight_requests) == in_flight
        assert wait_for(lambda: len(stored(broker, topic)) == 1 + in_flight, 10)
        assert wait_for(lambda: relay.answers_swallowed() == in_flight, 10)  # a record is stored before its answer is there
        relay.mode = "pass"
        assert producer.flush(15) == 0
    assert {delivery.error for delivery in producer.deliveries} == {None}
    assert stored(broker, topic) == [b"before"] + values(0, in_flight) * copies


FAULTS = [
    Rule("cut_after_answer", percent=4),
    Rule("cut", percent=4),
    Rule("duplicate_request", percent=10),
    Rule("answer_error", percent=10, error="NOT_LEADER_OR_FOLLOWER"),  # the broker never sees the request
    Rule("delay_answer", percent=20, ms=20),
]


@pytest.mark.parametrize(("in_flight", "seed"), [(1, 1), (5, 2), (5, 3)])
def test_producer_through_a_proxy_that_does_everything_wrong(broker: Cluster, in_flight: int, seed: int) -> None:
    """Lost, doubled, delayed, refused, cut: with up to five requests in flight each record is stored once and in order."""
    topic = new_topic(broker)
    sent: dict[int, tuple[int, list[bytes]]] = {}
    with ChaosProxy.before(broker, seed=seed) as proxy:
        with start(proxy.cluster, topic, max_in_flight=in_flight) as producer:
            sent[producer.send(values(0, 5))] = (0, values(0, 5))
            assert producer.flush(10) == 0  # from now on the broker knows the producer
            for rule in FAULTS:
                proxy.add(rule)
            for number in range(1, 60):
                batch = values(5 * number, 5)
                sent[producer.send(batch)] = (0, batch)
            assert producer.flush(25) == 0
        counts = proxy.counts()
    assert sum(counts.get(rule.action, 0) for rule in FAULTS) >= 10, counts
    assert stored(broker, topic) == values(0, 300)
    check_deliveries(broker, topic, producer, sent)


@pytest.mark.parametrize("ending", ["cut", "garbage"])
def test_producer_connects_again_and_nothing_is_written_twice(relay: Relay, broker: Cluster, ending: str) -> None:
    """The connection ends, or brings what is no answer, while requests are out: they are sent again and recognised."""
    topic = new_topic(broker)
    sent: dict[int, tuple[int, list[bytes]]] = {}
    with start(relay, topic, request_timeout_ms=60_000) as producer:
        first = len(relay.connections)
        for number in range(30):
            batch = values(10 * number, 10)
            sent[producer.send(batch)] = (0, batch)
            if number in (10, 20):
                if ending == "cut":
                    relay.cut()
                else:
                    relay.mode = "garbage"
        assert producer.flush(20) == 0
        assert len(relay.connections) > first, "it connected again"
    assert stored(broker, topic) == values(0, 300)
    check_deliveries(broker, topic, producer, sent)


def test_producer_batch_that_is_too_large_is_sent_in_parts(broker: Cluster) -> None:
    """A batch above the topic's max.message.bytes comes back and is split; each part is told of, and is in its place."""
    topic = new_topic(broker, max_message_bytes="20000")
    big, small = [b"%04d" % number * 250 for number in range(50)], [b"small"]
    with start(broker, topic, batch_size=10_000) as producer:
        sent = {producer.send(small): (0, small), producer.send(big): (0, big), producer.send(small): (0, small)}
        assert producer.flush(10) == 0
    assert stored(broker, topic) == small + big + small
    assert len(producer.deliveries) > 3 and all(delivery.error is None for delivery in producer.deliveries)
    check_deliveries(broker, topic, producer, sent)


def test_producer_missing_topic_or_partition_is_told_at_once(broker: Cluster) -> None:
    """No such topic: a LabError before anything is sent; no such partition: a KnobError with those there are."""
    with pytest.raises(LabError, match=r"'nobody-made-this' .*UNKNOWN_TOPIC_OR_PARTITION"):
        start(broker, "nobody-made-this")
    with start(broker, new_topic(broker, 2)) as producer:
        for partition in (2, -1):
            with pytest.raises(KnobError, match=f"no partition {partition}"):
                producer.send([b"x"], partition)
        assert producer.unfinished == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "no records"), (["text"], "not bytes"), ([b"x", None], "not bytes"), ([b"x" * 2_000_000], "max_request_size is 1048576"),
        ([b"x" * 1_000_000] * 106, "Send it in parts"),
    ],
    ids=["no values", "a text", "a value that is none", "a record that no request may hold", "a batch that no broker takes"],
)  # fmt: skip
def test_producer_wrong_values_are_refused_and_nothing_is_handed_over(broker: Cluster, wrong: list[Any], said: str) -> None:
    """What cannot be sent is refused before it is numbered, so that the next batch is not disturbed."""
    topic = new_topic(broker)
    with start(broker, topic) as producer:
        with pytest.raises(KnobError, match=said):
            producer.send(wrong)
        producer.send([b"good"])
        assert producer.flush(10) == 0 and [delivery.send for delivery in producer.deliveries] == [0]
    assert stored(broker, topic) == [b"good"]


def test_producer_silent_broker_holds_nobody_beyond_the_deadline(relay: Relay, broker: Cluster) -> None:
    """No answers any more: flush and close end in time, every record is told of, none as stored."""
    topic = new_topic(broker)
    producer = start(relay, topic)
    producer.send([b"heard"])
    assert producer.flush(10) == 0
    relay.mode = "silent"
    begin = time.monotonic()
    for number in range(3):
        producer.send(values(2 * number, 2))
    assert producer.flush(0.3) == 6
    assert time.monotonic() - begin < within(2)
    producer.close(0.3)
    producer.close(0.3)
    assert time.monotonic() - begin < within(8)  # an attempt to connect again takes up to two seconds
    lost = [delivery for delivery in producer.deliveries if delivery.error]
    assert [(each.send, each.first, each.count, each.error, each.offset) for each in lost] == [
        (number, 0, 2, "KafkaException", -1) for number in (1, 2, 3)
    ]
    with pytest.raises(LabError, match="is closed"):
        producer.send([b"more"])


@pytest.mark.parametrize("handler", [is_silent, says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), says(b"", closes=True)])
def test_producer_no_broker_is_told_within_the_deadline(handler: Any) -> None:
    """Whoever answers there, if it is no broker the producer does not start, and says so."""
    begin = time.monotonic()
    with Stub(handler) as stub, pytest.raises(LabError):
        IdempotentProducer("t", f"127.0.0.1:{stub.port}", timeout_s=0.3)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("acks", [0, 1])
def test_producer_without_idempotence(broker: Cluster, acks: int) -> None:
    """With acks 0 records are told of without an offset, and are there; with acks 1 they have one."""
    topic = new_topic(broker)
    with start(broker, topic, acks=acks, enable_idempotence=False) as producer:
        for number in range(5):
            producer.send(values(number, 1))
        assert producer.flush(10) == 0
    assert [delivery.offset for delivery in producer.deliveries] == ([-1] * 5 if acks == 0 else [0, 1, 2, 3, 4])
    assert wait_for(lambda: stored(broker, topic) == values(0, 5), 10)
    with open_wire(broker) as wire:
        assert {batch.producer_id for batch in wire.read_all(topic, 0)} == {-1}


def test_producer_close_tells_of_records_that_never_left(broker: Cluster) -> None:
    """Records that still linger when the time to close is over are told as failed, every one; nothing was stored."""
    topic = new_topic(broker)
    producer = start(broker, topic, linger_ms=15_000)
    for number in range(5):
        producer.append(b"%d" % number)
    producer.close(0.1)
    assert producer.deliveries == [Completion(0, 0, 5, "KafkaException", -1)] and producer.unfinished == 0
    assert stored(broker, topic) == []


def test_producer_callback_that_fails_loses_no_other_delivery(broker: Cluster) -> None:
    """An error in the user's callback reaches the user; the deliveries after it are told by the next call."""
    topic = new_topic(broker)
    heard: list[int] = []

    def on_delivery(delivery: Completion) -> None:
        heard.append(delivery.send)
        if delivery.send == 1:
            raise ZeroDivisionError

    with IdempotentProducer(topic, broker, on_delivery=on_delivery) as producer:
        failed = 0
        for work in [*(lambda number=number: producer.send(values(number, 1)) for number in range(4)), lambda: producer.flush(10)]:
            try:
                work()
            except ZeroDivisionError:
                failed += 1
        assert producer.flush(10) == 0 and failed == 1
    assert heard == [0, 1, 2, 3] and producer.deliveries == []
