"""The kit's own idempotent producer on a real topic: the model of the client decides, the wire carries.

`Sender` knows when which batch leaves with which numbers, and what an answer means; it has no clock and
no socket. Here it gets both: a clock, one connection to one broker, and deadlines for every wait. What
the stock clients forbid can be tried, such as ten requests in flight. Nothing runs in the background:
the producer works while one is in `send`, `poll`, `flush` or `close`, and nowhere else.

A record is reported as stored only when the broker has answered so (with acks=0, which asks for no
answer: when it was handed to the network). Whatever else happens, its delivery says that nobody knows.

Source: Apache Kafka 4.3.1, `KafkaProducer` and `NetworkClient`. Differs: one broker has to lead all
partitions of the topic; the user picks the partition; flush waits for what lingers; no memory limit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from kitlib.errors import KnobError, LabError
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster, kafka_python_config
from kitlib.lab.wire.connection import LONGEST_FRAME_BYTES, Wire
from kitlib.lab.wire.records import WireBatch
from kitlib.mechanisms.broker.leader import Leader
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Completion, Sender
from kitlib.mechanisms.protocol import (
    Batch,
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceAnswer,
    ProduceRequest,
)

MAX_IN_FLIGHT = 10
CONNECT_TIMEOUT_S = 2.0
# From a lost connection to the next attempt, twice as long each time, as in Java's client.
RECONNECT_BACKOFF_S, RECONNECT_BACKOFF_MAX_S = 0.05, 1.0
# An InitProducerId that is not answered within this is asked again on another connection.
ID_TIMEOUT_S = 2.0
RECORD_OVERHEAD_BYTES = 32  # more than a record of these has besides its value, its share of the headers included


def cluster_at(bootstrap: str | None) -> Cluster:
    """The cluster at `host:port`; without an address the one of KIT_KAFKA_BOOTSTRAP, or the kit's own broker, started if need be."""
    return kafka_server.ensure() if bootstrap is None else Cluster(bootstrap, None, 1, "external")


def on_wire(batch: Batch, began_ms: int = 0) -> WireBatch:
    """The model's batch as it is sent, where the model's time 0 is `began_ms`."""
    return WireBatch(
        batch.partition, batch.values, batch.producer_id, batch.producer_epoch, batch.base_sequence,
        began_ms + batch.timestamp_ms, batch.is_transactional,
    )  # fmt: skip


@dataclass(slots=True)
class BrokerLink:
    """A connection to the broker that leads a topic's partitions, in the model's words. LabError once it has ended."""

    wire: Wire
    topic: str

    @classmethod
    def open(cls, cluster: Cluster, topic: str, client_id: str, timeout_s: float) -> Self:
        return cls(Wire.open_leader(cluster.bootstrap, topic, 0, client_id, timeout_s, **kafka_python_config(cluster)), topic)

    def partitions(self, timeout_s: float) -> list[int]:
        """The topic's partitions. LabError when there is no such topic, or one broker does not lead them all."""
        error, found = self.wire.metadata([self.topic], timeout_s).topics.get(self.topic, (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), {}))
        if error or not found:
            raise LabError(f"Topic '{self.topic}' at {self.wire.where}: {ErrorCode.of(error).name}. Create it first.")
        if len(leaders := {leader for _, leader in found.values()}) > 1:
            raise LabError(
                f"The partitions of '{self.topic}' are led by brokers {', '.join(map(str, sorted(leaders)))}; the kit's producer "
                "talks to one. Give the topic one partition, or run one broker."
            )
        return sorted(found)

    def init_producer_id(self) -> InitProducerIdAnswer:
        error, producer_id, epoch = self.wire.init_producer_id(ID_TIMEOUT_S)
        return InitProducerIdAnswer(ErrorCode.of(error), producer_id, epoch)

    def send(self, request: ProduceRequest) -> None:
        self.wire.send_produce(self.topic, [*map(on_wire, request.batches)], request.acks, request.timeout_ms)

    def receive(self, timeout_s: float) -> ProduceAnswer | None:
        """The answer to the oldest request that has none; None when none comes in time."""
        found = self.wire.receive(timeout_s)
        if found is None:
            return None
        return {at: PartitionAnswer(ErrorCode.of(error), *offsets) for at, (error, *offsets) in found.items()}

    def close(self, timeout_s: float = 0.0) -> None:
        """End it; with `timeout_s` once the broker has dealt with all that was sent."""
        with suppress(LabError):  # with acks=0 it may be that nobody has waited for the network yet
            if timeout_s:
                self.wire.drain(timeout_s)
        self.wire.close()


@dataclass(slots=True)
class ModelLink:
    """The same to a model's leader, which answers at once."""

    leader: Leader
    answers: deque[ProduceAnswer] = field(default_factory=deque)

    def partitions(self, timeout_s: float) -> list[int]:
        return sorted(self.leader.logs)

    def init_producer_id(self) -> InitProducerIdAnswer:
        return self.leader.init_producer_id(int(time.time() * 1000))

    def send(self, request: ProduceRequest) -> None:
        answer = self.leader.produce(request, int(time.time() * 1000))
        if request.acks:
            self.answers.append(answer)

    def receive(self, timeout_s: float) -> ProduceAnswer | None:
        if self.answers:
            return self.answers.popleft()
        time.sleep(max(0.0, timeout_s))
        return None

    def close(self, timeout_s: float = 0.0) -> None:
        """Nothing is ever under way."""


Link = BrokerLink | ModelLink


class IdempotentProducer:
    """The kit's own idempotent producer for a topic of any Kafka, or of a model's `Leader` where there is none.

    `limits` are those of `ProducerConfig`, in flight 1 to 10, more than the stock clients allow; or a `config` has all of them:

    with IdempotentProducer("orders", "127.0.0.1:9092", max_in_flight_requests_per_connection=5) as producer:
        producer.send([b"tea", b"milk"])
    producer.deliveries  # what became of each batch

    Where there are more brokers than one, the first is asked for the topic's leader, and the address that it tells is where the
    producer sends. KnobError for settings that it cannot run with; LabError when there is no broker at the address, or
    no such topic. `on_delivery` is called with each Completion; without it they are in `deliveries`. With an error nobody
    knows whether the records are stored; the offset is -1 then, and with acks=0.
    """

    def __init__(
        self,
        topic: str,
        kafka: str | Cluster | Leader | None = None,
        config: ProducerConfig | None = None,
        on_delivery: Callable[[Completion], None] | None = None,
        client_id: str = "kit-producer",
        timeout_s: float = 10.0,
        **limits: Any,
    ) -> None:
        self.config = config or ProducerConfig(**limits)
        in_flight = self.config.max_in_flight_requests_per_connection
        if in_flight > MAX_IN_FLIGHT:
            raise KnobError(f"max_in_flight_requests_per_connection is {in_flight}; the kit's producer takes 1 to {MAX_IN_FLIGHT}.")
        self.topic = topic
        self._open: Callable[[float], Link]
        if isinstance(kafka, Leader):
            self._open = lambda timeout_s: ModelLink(kafka)
        else:
            self._open = partial(BrokerLink.open, kafka if isinstance(kafka, Cluster) else cluster_at(kafka), topic, client_id)
        self.deliveries: list[Completion] = []
        self.on_delivery = on_delivery or self.deliveries.append
        self.unfinished = 0  # records handed over of which nothing has been told yet
        self.is_closed = False
        self._began, self._began_ms = time.monotonic(), int(time.time() * 1000)
        self._completions: deque[Completion] = deque()  # not yet told
        self._drops, self._last_send = 0, -1
        self._backoff_s, self._connect_at = RECONNECT_BACKOFF_S, 0.0
        self._id_is_wanted = False
        self.link: Link | None = (link := self._open(timeout_s))
        try:
            self.sender = Sender(self.config, link.partitions(timeout_s), self._now_ms())
        except LabError:
            link.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic}, {self.unfinished} records unfinished)"

    # The user's side

    def send(self, values: Sequence[bytes], partition: int = 0) -> int:
        """Hand over one batch as it is; returns the send's number, from 0. It leaves as soon as it may.

        KnobError for no values, an unknown partition, a value that is no bytes or above max_request_size, or a batch that no
        broker takes: then nothing is handed over.
        """
        return self._hand_over(values, lambda: self.sender.send(partition, self._now_ms(), values))

    def append(self, value: bytes, partition: int = 0) -> int:
        """Hand over one record; it joins the partition's open batch. Returns the number of that batch's send."""
        return self._hand_over((value,), lambda: self.sender.append(partition, value, self._now_ms()))

    def _hand_over(self, values: Sequence[bytes], send: Callable[[], int]) -> int:
        if self.is_closed:
            raise LabError("This producer is closed. Open another one.")
        if not all(isinstance(value, bytes) for value in values):
            raise KnobError("A value is not bytes. Encode it first.")
        if (size := sum(map(len, values))) + RECORD_OVERHEAD_BYTES * len(values) > LONGEST_FRAME_BYTES:
            raise KnobError(f"A batch of {size:,} bytes: a broker takes at most {LONGEST_FRAME_BYTES:,}. Send it in parts.")
        number = send()
        self.unfinished += len(values)
        if number > self._last_send:  # a batch begins, so the one before may leave
            self._last_send = number
            self._turn()
        return number

    def poll(self, timeout_s: float = 0.0) -> int:
        """Work until something was told or the time is over; how many deliveries were told."""
        deadline = time.monotonic() + timeout_s
        while True:
            told = self._turn()
            now_ms = self._now_ms()
            wake_ms = self.sender.next_event_ms(now_ms)
            is_busy = self.link is not None and wake_ms is not None and wake_ms <= now_ms
            if told or (time.monotonic() >= deadline and not is_busy):
                return told
            until = deadline if wake_ms is None else min(deadline, time.monotonic() + (wake_ms - now_ms) / 1000)
            self._listen(until)

    def flush(self, timeout_s: float) -> int:
        """Work until every record was told of, or the time is over; the number of records that are left."""
        deadline = time.monotonic() + timeout_s
        while self.unfinished and time.monotonic() < deadline:
            self.poll(deadline - time.monotonic())
        return self.unfinished

    def close(self, timeout_s: float = 10.0) -> None:
        """Flush, then end the connection; what is left after `timeout_s` is told as failed. Safe to call twice."""
        if self.is_closed:
            return
        self.flush(timeout_s)
        self.is_closed = True
        if self.link is not None:
            self.link.close(timeout_s)
        self.sender.abort_batches()
        self._tell()

    # The clock and the connection

    def _now_ms(self) -> int:
        """Milliseconds of the wall clock when it began, and steady since: a stepped clock expires nothing."""
        return self._began_ms + int((time.monotonic() - self._began) * 1000)

    def _turn(self) -> int:
        """One run of the sender's loop, with what has come in and what it wants to send; how many deliveries were told."""
        if self.link is None:
            self._connect()
        else:
            self._listen(0.0)
        for request in self.sender.poll(self._now_ms(), connected=self.link is not None):
            if isinstance(request, InitProducerIdRequest):
                self._id_is_wanted = True
            elif self.link is not None:
                with self._noticing_its_end():
                    self.link.send(request)
        if self.sender.connection_drops > self._drops:
            self._drops = self.sender.connection_drops
            self._hang_up()
        if self._id_is_wanted and self.link is not None:
            with self._noticing_its_end():
                self.sender.receive_id(self.link.init_producer_id())
            self._id_is_wanted = False
        return self._tell()

    @contextmanager
    def _noticing_its_end(self) -> Iterator[None]:
        """When the connection ends with what is asked of it, the sender hears that all requests on it are lost."""
        try:
            yield
        except LabError:
            self._hang_up()
            self._id_is_wanted = False
            self.sender.disconnect()

    def _listen(self, until: float) -> None:
        """Take the answers that are there; wait for the first until the deadline (of time.monotonic)."""
        if self.link is None:
            time.sleep(max(0.0, min(until, self._connect_at) - time.monotonic()))
            return
        with self._noticing_its_end():
            answer = self.link.receive(until - time.monotonic())
            while answer is not None:
                self.sender.receive(next(iter(self.sender.in_flight_requests)), answer)  # answers come in the order of the requests
                self.sender.take_answers(self._now_ms())
                answer = self.link.receive(0.0)

    def _connect(self) -> None:
        """Try to connect again, if the back-off is over."""
        if time.monotonic() < self._connect_at:
            return
        try:
            self.link = self._open(CONNECT_TIMEOUT_S)
            self._backoff_s = RECONNECT_BACKOFF_S
        except LabError:
            self._back_off()

    def _hang_up(self) -> None:
        """End the connection; the sender knows."""
        if self.link is not None:
            self.link.close()
            self.link = None
            self._back_off()

    def _back_off(self) -> None:
        self._connect_at = time.monotonic() + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, RECONNECT_BACKOFF_MAX_S)

    def _tell(self) -> int:
        """Tell the user what is known; how many deliveries. One that the callback fails at does not keep the others."""
        self._completions += self.sender.completed()
        told = 0
        while self._completions:
            done = self._completions.popleft()
            self.unfinished -= done.count
            told += 1
            self.on_delivery(done)
        return told
