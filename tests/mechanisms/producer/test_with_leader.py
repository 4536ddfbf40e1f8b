"""The client and the kit's own broker, whatever may happen between them and to them."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kitlib.mechanisms.broker.leader import BrokerConfig, Leader
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Completion, Sender
from kitlib.mechanisms.protocol import (
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceRequest,
)
from tests.mechanisms.producer.rig import unfinished

PARTITIONS = st.sampled_from([0, 1])


class Pair(RuleBasedStateMachine):
    """One client and one broker; the user is told of each record once, and what is told as stored has been written."""

    sender: Sender
    leader: Leader
    first_epoch = 0

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.sent: dict[int, list[bytes]] = {0: [], 1: []}  # by partition
        self.sends: dict[int, list[bytes]] = {}
        self.told: dict[int, dict[int, Completion]] = {}  # send -> first -> what its user heard
        self.requests: dict[int, ProduceRequest] = {}
        self.written: set[bytes] = set()

    @rule(partition=PARTITIONS, count=st.integers(1, 6))
    def send(self, partition: int, count: int) -> None:
        """The user hands over a batch."""
        values = [b"%d.%d" % (len(self.sent[partition]) + index, partition) for index in range(count)]
        self.sent[partition] += values
        self.sends[self.sender.send(partition, self.now_ms, values)] = values

    @rule(partition=PARTITIONS, length=st.sampled_from([1, 60, 300]))
    def append(self, partition: int, length: int) -> None:
        """The user hands over a record."""
        value = b"%d.%d" % (len(self.sent[partition]), partition) + b"x" * length
        self.sent[partition].append(value)
        self.sends.setdefault(self.sender.append(partition, value, self.now_ms), []).append(value)

    @rule()
    def poll(self) -> None:
        """One run of the loop; a request for an id is answered at once."""
        for request in self.sender.poll(self.now_ms):
            if isinstance(request, InitProducerIdRequest):
                given = self.leader.init_producer_id(self.now_ms)
                self.sender.receive_id(InitProducerIdAnswer(given.error, given.producer_id, self.first_epoch))
                self.first_epoch = 0
            else:
                self.requests[request.number] = request
        for told in self.sender.completed():
            parts = self.told.setdefault(told.send, {})
            assert told.first not in parts
            parts[told.first] = told
            assert told.error or self.written.issuperset(self.sends[told.send][told.first : told.first + told.count])

    def produce(self, number: int) -> dict[int, PartitionAnswer]:
        """A request reaches the broker."""
        answers = self.leader.produce(self.requests[number], self.now_ms)
        for partition in answers:
            self.written.update(self.log(partition))
        return answers

    @rule(arrives=st.integers(0, 5))
    def cut(self, arrives: int) -> None:
        """The connection breaks; some requests had arrived, and nobody will hear of it."""
        for number in list(self.sender.in_flight_requests)[:arrives]:
            self.produce(number)
        self.sender.disconnect()

    @rule(ms=st.sampled_from([1, 30, 400, 1_000]))
    def wait(self, ms: int) -> None:
        """Time passes, at times beyond the request timeout."""
        self.now_ms += ms

    def log(self, partition: int) -> list[bytes]:
        """What the broker has written, in order."""
        return [value for stored in self.leader.logs[partition].batches for value in stored.batch.values]


class AnyNetwork(Pair):
    """One connection, which may break at any moment; requests and answers keep their order.

    Whatever is lost, with at most five in flight each record is written once and in order: the promise of the idempotent
    producer, as long as the broker lives and no batch expires.
    """

    settings_of_client: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        chosen = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 2**31 - 1, "retry_backoff_ms": 10}
        self.sender, self.leader = Sender(ProducerConfig(**chosen | self.settings_of_client), (1, 0)), Leader(partitions=2)
        self.arrived: dict[int, dict[int, PartitionAnswer]] = {}

    @precondition(lambda self: self.sender.in_flight_requests.keys() - self.arrived.keys())
    @rule()
    def arrive(self) -> None:
        """The broker takes the next request."""
        number = next(each for each in self.sender.in_flight_requests if each not in self.arrived)
        self.arrived[number] = self.produce(number)

    @precondition(lambda self: self.sender.in_flight_requests.keys() & self.arrived.keys())
    @rule()
    def answer(self) -> None:
        """The next answer reaches the client."""
        number = next(iter(self.sender.in_flight_requests))
        self.sender.receive(number, self.arrived[number])

    @invariant()
    def each_record_is_written_once_and_in_order(self) -> None:
        for partition, sent in self.sent.items():
            log = self.log(partition)
            assert log == sent[: len(log)]

    def teardown(self) -> None:
        """Let everything through: all is written, once, and acknowledged."""
        for _ in range(400):
            self.poll()
            for number in list(self.sender.in_flight_requests):
                self.sender.receive(number, self.arrived.get(number) or self.produce(number))
            self.now_ms += 10
            if not unfinished(self.sender):
                break
        assert {partition: self.log(partition) for partition in self.sent} == self.sent
        assert self.told.keys() == self.sends.keys() and not any(told.error for parts in self.told.values() for told in parts.values())


class AnyNetworkOneInFlight(AnyNetwork):
    """The same with one request in flight."""

    settings_of_client: ClassVar[dict[str, Any]] = {"max_in_flight_requests_per_connection": 1}


class AnyNetworkEarlier(AnyNetwork):
    """The same with the rules of 2.0 and time to wait, so that nothing expires."""

    settings_of_client: ClassVar[dict[str, Any]] = {"release": "2.0", "request_timeout_ms": 10**8}


ERRORS = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
]  # fmt: skip
RELEASES = st.sampled_from(["4.3", "2.0"])


class AnyFault(Pair):
    """Any settings, any broker, anything that may happen to it: duplicates, gaps and failures are possible then."""

    @initialize(
        client=st.fixed_dictionaries({
            "enable_idempotence": st.booleans(), "max_in_flight_requests_per_connection": st.integers(1, 8),
            "retries": st.sampled_from([0, 1, 3, 2**31 - 1]), "delivery_timeout_ms": st.sampled_from([500, 5_000, 10**9]),
            "release": RELEASES, "acks": st.sampled_from([-1, -1, 1]), "linger_ms": st.sampled_from([0, 20]),
        }),
        broker=RELEASES, remembered=st.integers(1, 6), epoch=st.sampled_from([0, 32_766]),
    )  # fmt: skip
    def begin(self, client: dict[str, Any], broker: str, remembered: int, epoch: int) -> None:
        self.sender = Sender(ProducerConfig(request_timeout_ms=400, retry_backoff_ms=10, batch_size=150, **client), (1, 0))
        self.leader = Leader(BrokerConfig(remembered_batches=remembered, release=broker, producer_id_expiration_ms=300), 2)
        self.first_epoch = epoch

    @precondition(lambda self: self.sender.in_flight_requests)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """The broker takes any of the requests that are out, and answers."""
        number = data.draw(st.sampled_from(sorted(self.sender.in_flight_requests)))
        self.sender.receive(number, self.produce(number))

    @precondition(lambda self: self.sender.in_flight_requests)
    @rule(error=st.sampled_from(ERRORS), written=st.booleans(), log_start=st.sampled_from([-1, 0, 9]))
    def refuse(self, error: ErrorCode, written: bool, log_start: int) -> None:
        """The oldest request is answered with an error, written or not."""
        number = next(iter(self.sender.in_flight_requests))
        if written:
            self.produce(number)
        partitions = [batch.partition for batch in self.requests[number].batches]
        self.sender.receive(number, {partition: PartitionAnswer(error, -1, log_start) for partition in partitions})

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

    @invariant()
    def a_wait_has_an_end(self) -> None:
        if not hasattr(self, "sender"):
            return
        event_ms = self.sender.next_event_ms(self.now_ms)
        assert event_ms is None or event_ms >= self.now_ms
        assert event_ms is not None or not unfinished(self.sender)

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
        told = {send: sum(part.count for part in parts.values()) for send, parts in self.told.items()}
        expected = {send: len(values) for send, values in self.sends.items()}
        assert told == expected or (self.sender.config.release == "2.0" and told.items() <= expected.items())


for machine in (AnyNetwork, AnyNetworkOneInFlight, AnyNetworkEarlier, AnyFault):
    machine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestAnyNetwork = AnyNetwork.TestCase
TestAnyNetworkOneInFlight = AnyNetworkOneInFlight.TestCase
TestAnyNetworkEarlier = AnyNetworkEarlier.TestCase
TestAnyFault = AnyFault.TestCase
