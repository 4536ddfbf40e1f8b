"""The client and the kit's own broker, whatever may happen between them and to them."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kitlib.mechanisms.broker.leader import BrokerConfig, Leader, Outcome
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Sender
from kitlib.mechanisms.protocol import (
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceRequest,
)


class AnyNetwork(RuleBasedStateMachine):
    """One client, one broker, one connection that may break at any moment; requests and answers keep their order.

    Whatever is lost, with at most five in flight each record is written once and in order, and what
    the user is told is true: the promise of the idempotent producer, as long as the broker lives and
    no batch expires.
    """

    settings_of_client: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        chosen = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 2**31 - 1, "retry_backoff_ms": 10}
        self.sender = Sender(ProducerConfig(**chosen | self.settings_of_client), (1, 0))
        self.leader = Leader(BrokerConfig(), 2)
        self.now_ms = 0
        self.on_the_way: list[ProduceRequest] = []  # left, not yet at the broker
        self.coming_back: list[tuple[int, dict[int, PartitionAnswer]]] = []  # answered, not yet at the client
        self.sent: dict[int, list[bytes]] = {0: [], 1: []}
        self.acknowledged: list[tuple[int, int]] = []  # (send, its partition)
        self.partition_of: dict[int, int] = {}

    @rule(partition=st.sampled_from([0, 1]), count=st.integers(1, 3))
    def send(self, partition: int, count: int) -> None:
        """The user hands over a batch."""
        values = [str(len(self.sent[partition]) + index).encode() for index in range(count)]
        self.sent[partition] += values
        self.partition_of[self.sender.send(partition, self.now_ms, values)] = partition

    @rule(partition=st.sampled_from([0, 1]))
    def append(self, partition: int) -> None:
        """The user hands over a record."""
        value = str(len(self.sent[partition])).encode()
        self.sent[partition].append(value)
        self.partition_of[self.sender.append(partition, value, self.now_ms)] = partition

    @rule()
    def poll(self) -> None:
        """One run of the loop."""
        drops = self.sender.connection_drops
        for request in self.sender.poll(self.now_ms):
            if isinstance(request, InitProducerIdRequest):
                self.sender.receive_id(self.leader.init_producer_id(self.now_ms))
            else:
                self.on_the_way.append(request)
        if self.sender.connection_drops > drops:
            self.on_the_way, self.coming_back = [], []
        for completion in self.sender.completed():
            assert completion.error is None
            self.acknowledged.append((completion.send, self.partition_of[completion.send]))

    @precondition(lambda self: self.on_the_way)
    @rule()
    def arrive(self) -> None:
        """The broker takes the next request."""
        request = self.on_the_way.pop(0)
        self.coming_back.append((request.number, self.leader.produce(request, self.now_ms)))

    @precondition(lambda self: self.coming_back)
    @rule()
    def answer(self) -> None:
        """The next answer reaches the client."""
        self.sender.receive(*self.coming_back.pop(0))

    @rule(arrives=st.integers(0, 5))
    def cut(self, arrives: int) -> None:
        """The connection breaks; some of what was on the way had arrived, and nobody will hear of it."""
        for request in self.on_the_way[:arrives]:
            self.leader.produce(request, self.now_ms)
        self.on_the_way, self.coming_back = [], []
        self.sender.disconnect()

    @rule(ms=st.sampled_from([1, 10, 1_000]))
    def wait(self, ms: int) -> None:
        """Time passes, at times beyond the request timeout."""
        self.now_ms += ms

    def log(self, partition: int) -> list[bytes]:
        """What the broker has written, in order."""
        return [value for stored in self.leader.logs[partition].batches for value in stored.batch.values]

    @invariant()
    def each_record_is_written_once_and_in_order(self) -> None:
        for partition, sent in self.sent.items():
            log = self.log(partition)
            assert log == sent[: len(log)]

    def teardown(self) -> None:
        """Let everything through: all is written, once, and acknowledged."""
        for _ in range(400):
            self.poll()
            while self.on_the_way:
                self.arrive()
            while self.coming_back:
                self.answer()
            self.now_ms += 10
            if not self.sender.has_unfinished:
                break
        assert {partition: self.log(partition) for partition in self.sent} == self.sent
        assert len(self.acknowledged) == len(set(self.acknowledged)) == len(self.partition_of)


class AnyNetworkOneInFlight(AnyNetwork):
    """The same with one request in flight."""

    settings_of_client: ClassVar[dict[str, Any]] = {"max_in_flight_requests_per_connection": 1}


class AnyNetworkEarlier(AnyNetwork):
    """The same with the rules of 2.0 and time to wait, so that nothing expires."""

    settings_of_client: ClassVar[dict[str, Any]] = {"release": "2.0", "request_timeout_ms": 10**8}


class AnyFault(RuleBasedStateMachine):
    """Any settings, any broker, anything that may happen to it: what holds then.

    Duplicates, gaps and failures are possible, but the user is told of each send exactly once, and what
    is told as stored has been written.
    """

    @initialize(
        idempotent=st.booleans(), in_flight=st.integers(1, 8), retries=st.sampled_from([0, 1, 3, 2**31 - 1]),
        delivery_ms=st.sampled_from([500, 5_000, 10**9]), release=st.sampled_from(["4.3", "2.0"]), acks=st.sampled_from([-1, -1, 1]),
        broker=st.sampled_from(["4.3", "2.0"]), remembered=st.integers(1, 6), epoch=st.sampled_from([0, 32_766]),
        linger=st.sampled_from([0, 20]),
    )  # fmt: skip
    def begin(
        self, idempotent: bool, in_flight: int, retries: int, delivery_ms: int, release: str, acks: int, broker: str,
        remembered: int, epoch: int, linger: int,
    ) -> None:  # fmt: skip
        self.sender = Sender(
            ProducerConfig(
                acks, idempotent, in_flight, retries, 400, delivery_ms, linger, retry_backoff_ms=10, batch_size=150, release=release
            ),
            (1, 0),
        )
        self.leader = Leader(BrokerConfig(remembered_batches=remembered, release=broker, producer_id_expiration_ms=300), 2)
        self.epoch = epoch
        self.now_ms = 0
        self.requests: dict[int, ProduceRequest] = {}
        self.written: set[bytes] = set()
        self.sends: dict[int, list[bytes]] = {}
        self.ends: dict[int, dict[int, int]] = {}  # send -> first -> count, of what was told

    @rule(partition=st.sampled_from([0, 1]), count=st.integers(1, 6))
    def send(self, partition: int, count: int) -> None:
        """The user hands over a batch."""
        values = [f"{len(self.sends)}:{index}".encode() for index in range(count)]
        self.sends[self.sender.send(partition, self.now_ms, values)] = values

    @rule(partition=st.sampled_from([0, 1]), length=st.sampled_from([1, 60, 300]))
    def append(self, partition: int, length: int) -> None:
        """The user hands over a record."""
        value = f"{sum(map(len, self.sends.values()))}.".encode().ljust(length, b"x") + b"%d" % partition
        self.sends.setdefault(self.sender.append(partition, value, self.now_ms), []).append(value)

    @rule()
    def poll(self) -> None:
        """One run of the loop; a request for an id is answered at once."""
        for request in self.sender.poll(self.now_ms):
            if isinstance(request, InitProducerIdRequest):
                given = self.leader.init_producer_id(self.now_ms)
                self.sender.receive_id(InitProducerIdAnswer(given.error, given.producer_id, self.epoch))
                self.epoch = 0
            else:
                self.requests[request.number] = request
        for told in self.sender.completed():
            parts = self.ends.setdefault(told.send, {})
            assert told.first not in parts
            parts[told.first] = told.count
            if told.error is None:
                assert self.written.issuperset(self.sends[told.send][told.first : told.first + told.count])

    def produce(self, number: int) -> dict[int, PartitionAnswer]:
        request = self.requests[number]
        answers = self.leader.produce(request, self.now_ms)
        for batch in request.batches:
            if self.leader.last_outcomes[batch.partition] is Outcome.APPENDED:
                self.written |= set(batch.values)
        return answers

    @precondition(lambda self: self.sender.in_flight_requests)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """The broker takes any of the requests that are out, and answers."""
        number = data.draw(st.sampled_from(sorted(self.sender.in_flight_requests)))
        self.sender.receive(number, self.produce(number))

    @precondition(lambda self: self.sender.in_flight_requests)
    @rule(
        error=st.sampled_from(
            [
                ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP,
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH,
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            ]
        ),
        written=st.booleans(), log_start=st.sampled_from([-1, 0, 9]),
    )  # fmt: skip
    def refuse(self, error: ErrorCode, written: bool, log_start: int) -> None:
        """The oldest request is answered with an error, written or not."""
        number = next(iter(self.sender.in_flight_requests))
        if written:
            self.produce(number)
        partitions = [batch.partition for batch in self.requests[number].batches]
        self.sender.receive(number, {partition: PartitionAnswer(error, -1, log_start) for partition in partitions})

    @rule(arrives=st.integers(0, 5))
    def cut(self, arrives: int) -> None:
        """The connection breaks; some requests had arrived."""
        for number in list(self.sender.in_flight_requests)[:arrives]:
            self.produce(number)
        self.sender.disconnect()

    @rule(what=st.sampled_from(["clean", "kill", "fail over", "expire", "delete"]))
    def broker_trouble(self, what: str) -> None:
        """The broker forgets some of what it knew, or some of its log."""
        if what == "fail over":
            self.leader.fail_over(self.now_ms)
        elif what == "expire":
            self.leader.expire(self.now_ms)
        elif what == "delete":
            for partition, log in self.leader.logs.items():
                self.leader.delete_before(partition, log.end)
        else:
            self.leader.restart(what, self.now_ms)

    @rule(ms=st.sampled_from([1, 30, 400, 1_000]))
    def wait(self, ms: int) -> None:
        """Time passes."""
        self.now_ms += ms

    @invariant()
    def a_wait_has_an_end(self) -> None:
        if not hasattr(self, "sender"):
            return
        event_ms = self.sender.next_event_ms(self.now_ms)
        assert event_ms is None or event_ms >= self.now_ms
        assert event_ms is not None or not self.sender.has_unfinished

    def teardown(self) -> None:
        """With a broker that answers and time that passes every send ends, with each of its records told once.

        Not in 2.0: without a delivery timeout a batch may be refused and retried for ever.
        """
        if not hasattr(self, "sender"):
            return
        for turn in range(1_000):
            self.poll()
            for number in list(self.sender.in_flight_requests):
                self.sender.receive(number, self.produce(number))
            event_ms = self.sender.next_event_ms(self.now_ms)
            if event_ms is None:
                break
            self.now_ms = max(event_ms, self.now_ms + (1 if turn < 500 else 10**9))
        told = {send: sum(parts.values()) for send, parts in self.ends.items()}
        expected = {send: len(values) for send, values in self.sends.items()}
        assert told == expected or (self.sender.config.release == "2.0" and told.items() <= expected.items())


for machine in (AnyNetwork, AnyNetworkOneInFlight, AnyNetworkEarlier, AnyFault):
    machine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestAnyNetwork = AnyNetwork.TestCase
TestAnyNetworkOneInFlight = AnyNetworkOneInFlight.TestCase
TestAnyNetworkEarlier = AnyNetworkEarlier.TestCase
TestAnyFault = AnyFault.TestCase
