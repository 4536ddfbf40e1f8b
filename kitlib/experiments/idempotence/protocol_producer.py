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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from kitlib.errors import KnobError, LabError
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster, addresses, kafka_python_config
from kitlib.lab.wire.connection import LONGEST_FRAME_BYTES, Answers, Metadata, Wire
from kitlib.lab.wire.records import WireBatch
from kitlib.mechanisms import protocol
from kitlib.mechanisms.broker.leader import Leader
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.sender import Completion, Sender

MAX_IN_FLIGHT = range(1, 11)
CONNECT_TIMEOUT_S = 2.0
# From a lost connection to the next attempt, twice as long each time, as in Java's client.
RECONNECT_BACKOFF_S, RECONNECT_BACKOFF_MAX_S = 0.05, 1.0
# An InitProducerId that is not answered within this is asked again on another connection.
ID_TIMEOUT_S = 2.0
RECORD_OVERHEAD_BYTES = 32  # more than a record of these has besides its value, its share of the headers included


def cluster_at(bootstrap: str | None) -> Cluster:
    """The cluster at `host:port`; without an address the one of KIT_KAFKA_BOOTSTRAP, or the kit's own broker, started if need be."""
    return kafka_server.ensure() if bootstrap is None else Cluster(bootstrap, None, 1, "external")


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
        if in_flight not in MAX_IN_FLIGHT:
            raise KnobError(f"max_in_flight_requests_per_connection is {in_flight}; the kit's producer takes 1 to {MAX_IN_FLIGHT[-1]}.")
        self.topic, self.client_id = topic, client_id
        self.leader = kafka if isinstance(kafka, Leader) else None
        self.host, self.port, self.security = "model", 0, dict[str, Any]()
        if not isinstance(kafka, Leader):
            cluster = kafka if isinstance(kafka, Cluster) else cluster_at(kafka)
            (self.host, self.port), self.security = addresses(cluster.bootstrap)[0], kafka_python_config(cluster)
        self.deliveries: list[Completion] = []
        self.on_delivery = on_delivery or self.deliveries.append
        # Records handed over of which nothing has been told yet.
        self.unfinished = 0
        # How often the connection was lost, and why the last time.
        self.connections_lost = 0
        self.trouble = ""
        self.is_closed = False
        self._began, self._began_ms = time.monotonic(), int(time.time() * 1000)
        self._last_send = -1
        self._requests: deque[protocol.ProduceRequest] = deque()  # those whose answers have not come, the oldest first
        self._completions: deque[Completion] = deque()  # not yet told
        self._drops = 0
        self._backoff_s = RECONNECT_BACKOFF_S
        self._connect_at = 0.0
        self._id_is_wanted = False
        self.wire: Wire | None = self._open_wire(timeout_s)
        try:
            self.sender = Sender(self.config, self._partitions(timeout_s), self._now_ms())
        except LabError:
            self.wire.close()
            raise

    def _partitions(self, timeout_s: float) -> list[int]:
        """The topic's partitions, with a connection to their leader; LabError when there is no such topic, or no such one broker."""
        assert self.wire is not None
        metadata = self.wire.metadata([self.topic], timeout_s)
        error, found = metadata.topics.get(self.topic, (int(protocol.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), {}))
        if error or not found:
            raise LabError(f"Topic '{self.topic}' at {self.host}:{self.port}: {protocol.ErrorCode.of(error).name}. Create it first.")
        leaders = {leader for _, leader in found.values()}
        if len(leaders) > 1:
            raise LabError(
                f"The partitions of '{self.topic}' are led by brokers {', '.join(map(str, sorted(leaders)))}; the kit's producer "
                "talks to one. Give the topic one partition, or run one broker."
            )
        address = metadata.leader_address(self.topic, min(found))
        if len(metadata.brokers) > 1 and address != (self.host, self.port):
            if address is None:
                raise LabError(f"The partitions of '{self.topic}' have no leader. Look at `kit status`.")
            self.wire.close()
            self.host, self.port = address
            self.wire = self._open_wire(timeout_s)
        return sorted(found)

    def _open_wire(self, timeout_s: float) -> Wire:
        if self.leader is not None:
            return ModelWire(self.leader)  # type: ignore[return-value]
        return Wire.open(self.host, self.port, self.client_id, timeout_s, **self.security)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic} at {self.host}:{self.port}, {self.unfinished} records unfinished)"

    # The user's side

    def send(self, values: Sequence[bytes], partition: int = 0) -> int:
        """Hand over one batch as it is; returns the send's number, from 0. It leaves as soon as it may.

        KnobError for no values, an unknown partition, a value that is no bytes or above max_request_size, or a batch that no
        broker takes: then nothing is handed over.
        """
        self._check(values, partition)
        number = self._last_send = self.sender.send(partition, self._now_ms(), values)
        self.unfinished += len(values)
        self._turn()
        return number

    def append(self, value: bytes, partition: int = 0) -> int:
        """Hand over one record; it joins the partition's open batch. Returns the number of that batch's send."""
        self._check((value,), partition)
        number = self.sender.append(partition, value, self._now_ms())
        self.unfinished += 1
        if number > self._last_send:
            self._last_send = number
            self._turn()  # a batch begins, so the one before may leave
        return number

    def poll(self, timeout_s: float = 0.0) -> int:
        """Work until something was told or the time is over; how many deliveries were told."""
        deadline = time.monotonic() + timeout_s
        while True:
            told = self._turn()
            now_ms = self._now_ms()
            wake_ms = self.sender.next_event_ms(now_ms)
            is_busy = self.wire is not None and wake_ms is not None and wake_ms <= now_ms
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
        if self.wire is not None:
            with suppress(LabError):  # with acks=0 it may be that nobody has waited for the network yet
                self.wire.drain(timeout_s)
            self.wire.close()
        self.sender.abort_batches()
        self._tell()

    def _check(self, values: Sequence[bytes], partition: int) -> None:
        if self.is_closed:
            raise LabError("This producer is closed. Open another one.")
        if partition not in self.sender.accumulator.queues:
            raise KnobError(f"'{self.topic}' has no partition {partition}; it has {', '.join(map(str, self.sender.partitions))}.")
        if not values:
            raise KnobError("A batch needs at least one value.")
        if not all(isinstance(value, bytes) for value in values):
            raise KnobError("A value is not bytes. Encode it first.")
        lengths = [*map(len, values)]
        if max(lengths) > self.config.max_request_size:
            raise KnobError(
                f"A value of {max(lengths):,} bytes: max_request_size is {self.config.max_request_size:,}. "
                "Send a shorter one or raise it."
            )
        if sum(lengths) + RECORD_OVERHEAD_BYTES * len(values) > LONGEST_FRAME_BYTES:
            raise KnobError(f"A batch of {sum(lengths):,} bytes: a broker takes at most {LONGEST_FRAME_BYTES:,}. Send it in parts.")

    # The clock and the connection

    def _now_ms(self) -> int:
        """Milliseconds of the wall clock when it began, and steady since: a stepped clock expires nothing."""
        return self._began_ms + int((time.monotonic() - self._began) * 1000)

    def _turn(self) -> int:
        """One run of the sender's loop, with what has come in and what it wants to send; how many deliveries were told."""
        if self.wire is None:
            self._connect()
        else:
            self._listen(0.0)
        for request in self.sender.poll(self._now_ms(), connected=self.wire is not None):
            if isinstance(request, protocol.InitProducerIdRequest):
                self._id_is_wanted = True
            else:
                self._produce(request)
        if self.sender.connection_drops > self._drops:
            self._drops = self.sender.connection_drops
            self._hang_up("a request was not answered in time")
        if self._id_is_wanted and self.wire is not None:
            self._ask_for_id(self.wire)
        return self._tell()

    def _produce(self, request: protocol.ProduceRequest) -> None:
        if self.wire is None:
            self.sender.receive(request.number, None)
            return
        try:
            self.wire.send_produce(
                self.topic, [self._on_wire(batch) for batch in request.batches], request.acks, request.timeout_ms
            )
        except LabError as error:
            self._lose(str(error))
            return
        if request.acks != 0:
            self._requests.append(request)

    def _on_wire(self, batch: protocol.Batch) -> WireBatch:
        return WireBatch(
            batch.partition, batch.values, batch.producer_id, batch.producer_epoch, batch.base_sequence,
            batch.timestamp_ms, batch.is_transactional,
        )  # fmt: skip

    def _ask_for_id(self, wire: Wire) -> None:
        try:
            error, producer_id, epoch = wire.init_producer_id(ID_TIMEOUT_S)
        except LabError as trouble:
            self._lose(str(trouble))
            return
        self._id_is_wanted = False
        self.sender.receive_id(protocol.InitProducerIdAnswer(protocol.ErrorCode.of(error), producer_id, epoch))

    def _listen(self, until: float) -> None:
        """Take the answers that are there; wait for the first until the deadline (of time.monotonic)."""
        wire = self.wire
        if wire is None:
            time.sleep(max(0.0, min(until, self._connect_at) - time.monotonic()))
            return
        try:
            received = wire.receive(until - time.monotonic())
            while received is not None:
                self._receive(received)
                received = wire.receive(0.0)
        except LabError as error:
            self._lose(str(error))

    def _receive(self, answers: dict[int, tuple[int, int, int]]) -> None:
        request = self._requests.popleft()
        if answers.keys() != {batch.partition for batch in request.batches}:
            raise LabError(f"{self.host}:{self.port} answers for partitions {sorted(answers)}, which were not those asked for.")
        self.sender.receive(
            request.number,
            {number: protocol.PartitionAnswer(protocol.ErrorCode.of(error), *offsets) for number, (error, *offsets) in answers.items()},
        )
        self.sender.take_answers(self._now_ms())

    def _connect(self) -> None:
        """Try to connect again, if the back-off is over."""
        if time.monotonic() < self._connect_at:
            return
        try:
            self.wire = self._open_wire(CONNECT_TIMEOUT_S)
            self._backoff_s = RECONNECT_BACKOFF_S
        except LabError as error:
            self.trouble = str(error)
            self._back_off()

    def _lose(self, why: str) -> None:
        """The connection is gone: the sender hears that all requests on it are lost."""
        self._hang_up(why)
        self._id_is_wanted = False
        self.sender.disconnect()

    def _hang_up(self, why: str) -> None:
        """End the connection; the sender knows."""
        if self.wire is not None:
            self.wire.close()
            self.wire = None
            self.connections_lost += 1
            self.trouble = why
            self._back_off()
        self._requests.clear()

    def _back_off(self) -> None:
        self._connect_at = time.monotonic() + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, RECONNECT_BACKOFF_MAX_S)

    # What the user is told

    def _tell(self) -> int:
        self._completions += self.sender.completed()
        told = 0
        while self._completions:
            done = self._completions.popleft()
            self.unfinished -= done.count
            told += 1
            self.on_delivery(done)
        return told


@dataclass(slots=True)
class ModelWire:
    """What a producer asks of a `Wire`, answered by a model's leader at once."""

    leader: Leader
    answers: deque[Answers] = field(default_factory=deque)
    requests: int = 0

    def metadata(self, topics: Sequence[str], timeout_s: float | None = None) -> Metadata:
        """Every topic is the leader's."""
        partitions = dict.fromkeys(self.leader.logs, (0, self.leader.broker))
        return Metadata({self.leader.broker: ("model", 0)}, self.leader.broker, dict.fromkeys(topics, (0, partitions)))

    def init_producer_id(self, timeout_s: float | None = None) -> tuple[int, int, int]:
        """Its error, id and epoch."""
        answer = self.leader.init_producer_id(_now_ms())
        return int(answer.error), answer.producer_id, answer.producer_epoch

    def send_produce(self, topic: str, batches: Sequence[WireBatch], acks: int = -1, timeout_ms: int = 30_000) -> None:
        """Written, or refused, before anybody asks."""
        told = tuple(
            protocol.Batch(
                each.partition, len(each.values), each.producer_id, each.epoch, each.base_sequence, each.is_transactional,
                each.timestamp_ms or _now_ms(), tuple(each.values),
            )
            for each in batches
        )  # fmt: skip
        found = self.leader.produce(protocol.ProduceRequest(self.requests, told, acks, timeout_ms), _now_ms())
        self.requests += 1
        if acks:
            self.answers.append({at: (int(each.error), each.base_offset, each.log_start_offset) for at, each in found.items()})

    def receive(self, timeout_s: float | None = None) -> Answers | None:
        """The oldest answer that was not taken yet; None when there is none, after `timeout_s`."""
        if self.answers:
            return self.answers.popleft()
        time.sleep(max(0.0, timeout_s or 0.0))
        return None

    def drain(self, timeout_s: float | None = None) -> None:
        """Nothing is ever under way."""

    def close(self) -> None:
        """Answers that were not taken are gone."""
        self.answers.clear()


def _now_ms() -> int:
    return int(time.time() * 1000)
