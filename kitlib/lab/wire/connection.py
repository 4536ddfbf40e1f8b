"""Speaks the Kafka protocol to one broker, one connection, every number of one's own choosing.

An ordinary client hides what this one is for: the producer id, epoch and sequence numbers of a batch,
several requests in flight at once, and an answer for each. Connection and messages are those of the
protocol library (kafka-python), and with them TLS and passwords. It works only while one asks: no thread
runs. What is here are the questions, and deadlines after which one gives up an answer but not the
connection. Nothing is retried except where it says so. Errors of the broker are the numbers of the wire.

Left out: topics by id, and a leader that moves: `Wire.open_leader` finds a partition's leader once, and
from then on one talks to that broker.

Source: Apache Kafka 4.3.1, clients/src/main/resources/common/message.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from kafka.errors import KafkaConnectionError, for_code
from kafka.net import KafkaConnection, KafkaSSLTransport, KafkaTCPTransport, NetworkSelector
from kafka.protocol.admin import DeleteRecordsRequest, DescribeProducersRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest, WriteTxnMarkersRequest

from kitlib.errors import LabError
from kitlib.lab.clients import addresses
from kitlib.lab.wire.records import FetchedBatch, WireBatch, decode_batches, encode_batch

logging.getLogger("kafka.net").setLevel(logging.CRITICAL)  # a connection that is lost is told by a LabError, once

EARLIEST, LATEST = -2, -1  # for list_offsets
# A broker that has just started, or that is looking for a coordinator, says so with these; one asks again.
NOT_YET = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
NOT_LEADING = (3, 5, 6)  # the same of a leader: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER
ASK_AGAIN_S = 0.05
FETCH_BYTES = 1 << 20
LONGEST_FRAME_BYTES = 104_857_600  # socket.request.max.bytes of a broker that was not told otherwise
NEVER = 2**31 - 1  # for the library's own limits in ms, and for how many requests may be in flight

Answer = TypeVar("Answer")
Answers = dict[int, tuple[int, int, int]]  # partition -> (error, base offset, log start offset)


def until_ready(
    ask: Callable[[], Answer], error_of: Callable[[Answer], int], deadline: float, not_yet: Sequence[int] = NOT_YET
) -> Answer:
    """Ask, and ask again while the answer's error is one of `not_yet`; the last answer, by the deadline (of time.monotonic)."""
    while error_of(found := ask()) in not_yet and time.monotonic() + ASK_AGAIN_S < deadline:
        time.sleep(ASK_AGAIN_S)
    return found


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a broker says of its cluster."""

    brokers: dict[int, tuple[str, int]]  # node -> (host, port) that it tells its clients
    controller: int
    # topic -> (error, {partition: (error, leader)})
    topics: dict[str, tuple[int, dict[int, tuple[int, int]]]]

    def leader_address(self, topic: str, partition: int) -> tuple[str, int] | None:
        """The (host, port) that clients are told of a partition's leader; None when there is none, or no such partition."""
        _, partitions = self.topics.get(topic, (0, {}))
        _, leader = partitions.get(partition, (0, -1))
        return self.brokers.get(leader)


class _ToTheEnd:
    """Hands on what came together with the end of a connection, which the library throws away: the end is met again at once."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        data, error = super()._sock_recv()  # type: ignore[misc]
        return data, None if data else error


class _Plain(_ToTheEnd, KafkaTCPTransport):  # type: ignore[misc]  # the library has no type hints
    """A connection as it is."""


class _Encrypted(_ToTheEnd, KafkaSSLTransport):  # type: ignore[misc]
    """A connection over TLS."""


class Wire:
    """One connection to one broker, with a method for each question. Use `Wire.open`, as a context manager.

    A question raises LabError when the connection has ended, and when no answer comes in time; a late answer is
    ignored. Answers come in the order of the requests: one that is left out ends the connection, as with Java's client.
    """

    def __init__(
        self, where: str, transport: KafkaTCPTransport, net: NetworkSelector, client_id: str, timeout_s: float, **security: Any
    ) -> None:
        self.where = where
        self.timeout_s = timeout_s
        self._net, self._transport = net, transport
        self._connection = KafkaConnection(
            net, client_id=client_id, receive_message_max_bytes=LONGEST_FRAME_BYTES, request_timeout_ms=NEVER,
            max_in_flight_requests_per_connection=NEVER, **security,
        )  # fmt: skip
        # Produce requests whose answers nobody has received, the oldest first; futures of the library.
        self._produced: deque[Any] = deque()

    @classmethod
    def open(cls, host: str, port: int, client_id: str = "kit-wire", timeout_s: float = 10.0, **security: Any) -> Self:
        """Connect and ask which versions the broker speaks, all within `timeout_s`; LabError when that does not come about.

        `timeout_s` is also how long later questions wait unless they say otherwise. `security` are settings of
        kafka-python, such as security_protocol="SASL_SSL", ssl_cafile="..." and sasl_mechanism="SCRAM-SHA-512".
        """
        deadline = time.monotonic() + timeout_s
        is_encrypted = security.get("security_protocol") in ("SSL", "SASL_SSL")
        with ExitStack() as undo:
            try:
                connected = undo.enter_context(socket.create_connection((host, port), timeout=max(timeout_s, 0.001)))
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connected.setblocking(False)
                net = undo.enter_context(closing(NetworkSelector(slow_task_threshold_secs=0)))
                transport = _Encrypted(net, connected, host, **security) if is_encrypted else _Plain(net, connected, host)
                wire = cls(f"{host}:{port}", transport, net, client_id, timeout_s, **security)
                undo.callback(wire.close)
                wire._wait(net.call_soon_with_future(wire._begin, deadline), deadline, "ApiVersions")
            except (OSError, LabError) as error:
                raise LabError(
                    f"No Kafka broker answers at {host}:{port} within {timeout_s:g} s ({error.__cause__ or error}). "
                    "Check the address; `kit status` shows whether the broker is running."
                ) from error
            undo.pop_all()
        return wire

    async def _begin(self, deadline: float) -> None:
        await self._transport.handshake()
        self._connection.connection_made(self._transport)
        await self._connection.initialize(deadline)
        await self._connection

    @classmethod
    def open_any(cls, bootstrap: str, client_id: str = "kit-wire", timeout_s: float = 10.0, **security: Any) -> Self:
        """A connection to the first broker of `bootstrap` ("host:port", with commas between) that answers.

        Each gets its share of `timeout_s`. LabError of the last one when none does.
        """
        *others, last = addresses(bootstrap)
        share_s = timeout_s / (len(others) + 1)
        for where in others:
            with suppress(LabError):
                return cls.open(*where, client_id, share_s, **security)
        return cls.open(*last, client_id, share_s, **security)

    @classmethod
    def open_leader(
        cls, bootstrap: str, topic: str, partition: int = 0, client_id: str = "kit-wire", timeout_s: float = 10.0, **security: Any
    ) -> Self:
        """A connection to the broker that leads a partition, asked of the first of `bootstrap` that answers.

        Where there is one broker, that is the connection, whatever address the broker tells its clients. Else it is the
        address that Metadata has for the leader.
        LabError when no broker answers, or none leads the partition within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        wire = cls.open_any(bootstrap, client_id, timeout_s, **security)
        try:
            found = wire.metadata([topic], deadline - time.monotonic())
            while len(found.brokers) > 1 and found.leader_address(topic, partition) is None:
                if time.monotonic() + ASK_AGAIN_S >= deadline:
                    raise LabError(f"No broker leads {topic}-{partition}, says that at {wire.where}. Look at `kit status`.")
                time.sleep(ASK_AGAIN_S)
                found = wire.metadata([topic], deadline - time.monotonic())
        except BaseException:
            wire.close()
            raise
        leader = found.leader_address(topic, partition)
        if len(found.brokers) <= 1 or leader is None or "{}:{}".format(*leader) == wire.where:
            return wire
        wire.close()
        return cls.open(*leader, client_id, timeout_s, **security)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Wire({self.where}, {'open' if self.is_open else 'closed'})"

    @property
    def is_open(self) -> bool:
        return bool(self._connection.connected)

    def close(self) -> None:
        """End the connection at once; safe to call twice."""
        self._transport.abort(KafkaConnectionError("this side closed it"))
        self._net.close()

    # Requests and answers

    def _send(self, request: Any) -> Any:
        """Send a request; the library's future of its answer. What the network does not take now waits here."""
        if not self.is_open:
            raise self._ended(self._connection.close_future.exception)
        try:
            future = self._connection.send_request(request)
        except (struct.error, TypeError, ValueError) as error:
            raise LabError(f"{request.name} cannot be written: {error}. Correct its arguments.") from error
        for _ in range(2):  # the library's loop waits for the socket in its first turn, and writes in its second
            self._net.poll(timeout_ms=0)
        return future

    def _ask(self, request: Any, read: Callable[[Any], Answer], timeout_s: float | None = None) -> Answer:
        """Send a request, wait for its answer and `read` it."""
        deadline = self._deadline(timeout_s)
        return read(self._wait(self._send(request), deadline, request.name.removesuffix("Request")))

    def _comes(self, future: Any, deadline: float) -> bool:
        """Whether the future is there by the deadline (of time.monotonic); sends and receives until then."""
        if not future.is_done:
            self._net.poll(timeout_ms=max(0.0, deadline - time.monotonic()) * 1000, future=future)
        return bool(future.is_done)

    def _wait(self, future: Any, deadline: float, api: str) -> Any:
        """The answer that the future brings; LabError when it does not by the deadline, or the connection ends."""
        if not self._comes(future, deadline):
            raise LabError(f"The broker at {self.where} gave no answer to {api} in time. `kit status` shows whether it is paused.")
        if future.exception is not None:
            raise self._ended(future.exception) from future.exception
        return future.value

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)

    def _ended(self, error: BaseException | None) -> LabError:
        return LabError(f"The connection to {self.where} has ended: {error}. Open a new one.")

    def _one_partition(self, api: str, topics: Any) -> Any:
        """The answer for the one partition that was asked for; LabError when it is an error."""
        [partition] = [each for topic in topics for each in topic.partitions]
        if partition.error_code:
            raise self._refused(api, partition.error_code)
        return partition

    def _refused(self, api: str, error: int) -> LabError:
        return LabError(
            f"{api} at {self.where}: the broker answers error {error} ({for_code(error).__name__}). "
            "Check the topic, the partition and the numbers asked for."
        )

    # What a producer says

    def init_producer_id(self, timeout_s: float | None = None) -> tuple[int, int, int]:
        """(error, producer id, epoch) without a transactional id; while the broker says that it is not ready, asks again.

        LabError when it gives no answer in time; one that is still not ready then is its error.
        """
        deadline = self._deadline(timeout_s)

        def ask() -> tuple[int, int, int]:
            return self.init_transactional_id(None, 60_000, timeout_s=deadline - time.monotonic())

        return until_ready(ask, lambda found: found[0], deadline)

    def init_transactional_id(
        self, transactional_id: str | None, timeout_ms: int, producer_id: int = -1, epoch: int = -1, timeout_s: float | None = None
    ) -> tuple[int, int, int]:
        """(error, producer id, epoch); asked once."""
        request = InitProducerIdRequest(
            max_version=5, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms,
            producer_id=producer_id, producer_epoch=epoch,
        )  # fmt: skip
        return self._ask(request, lambda answer: (answer.error_code, answer.producer_id, answer.producer_epoch), timeout_s)

    def send_produce(self, topic: str, batches: Sequence[WireBatch], acks: int = -1, timeout_ms: int = 30_000) -> None:
        """Send one Produce request and do not wait; `receive` gives the answer, in the order of the requests.

        Those batches of one partition go one after the other. Acks 0: there will be no answer.
        """
        future = self._send_produce(topic, batches, acks, timeout_ms, None, None)
        if acks:
            self._produced.append(future)

    def receive(self, timeout_s: float | None = None) -> Answers | None:
        """The next answer to `send_produce`: {partition: (error, base offset, log start offset)}.

        None when none comes in time; with `timeout_s` 0 it only looks. LabError when the connection has ended.
        """
        deadline = self._deadline(timeout_s)
        if not self._comes(self._produced[0] if self._produced else self._connection.close_future, deadline):
            return None
        if not self._produced:
            raise self._ended(self._connection.close_future.exception)
        return _partitions_of(self._wait(self._produced.popleft(), deadline, "Produce"))

    def produce(
        self,
        topic: str,
        batches: Sequence[WireBatch],
        acks: int = -1,
        timeout_s: float | None = None,
        transactional_id: str | None = None,
        version: int | None = None,
    ) -> Answers:
        """Send one Produce request and wait for its answer, which with acks 0 there is not.

        `version`: the highest common one that names topics if None.
        """
        deadline = self._deadline(timeout_s)
        future = self._send_produce(topic, batches, acks, 30_000, transactional_id, version)
        return _partitions_of(self._wait(future, deadline, "Produce"))

    def drain(self, timeout_s: float | None = None) -> None:
        """Wait until the broker has dealt with all that was sent; LabError when it does not in time."""
        self._ask(ApiVersionsRequest(version=2), lambda answer: None, timeout_s)

    def _send_produce(
        self, topic: str, batches: Sequence[WireBatch], acks: int, timeout_ms: int, transactional_id: str | None, version: int | None
    ) -> Any:
        by_partition: dict[int, bytearray] = {}
        for batch in batches:
            data = encode_batch(batch)
            by_partition[batch.partition] = by_partition.get(batch.partition, bytearray()) + data
        return self._send(ProduceRequest(
            version=version, max_version=12, transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms,
            topic_data=[(topic, list(by_partition.items()))],
        ))  # fmt: skip

    # What everybody asks

    def metadata(self, topics: Sequence[str] | None = None, timeout_s: float | None = None) -> Metadata:
        """The brokers and the leaders of the topics, of all topics if None; topics that are not there are not made."""
        request = MetadataRequest(
            max_version=8, topics=None if topics is None else [(name,) for name in topics], allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
        )  # fmt: skip

        def leaders(topic: Any) -> dict[int, tuple[int, int]]:
            return {each.partition_index: (each.error_code, each.leader_id) for each in topic.partitions}

        def read(answer: Any) -> Metadata:
            brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
            found = {topic.name: (topic.error_code, leaders(topic)) for topic in answer.topics}
            return Metadata(brokers, answer.controller_id, found)

        return self._ask(request, read, timeout_s)

    def list_offsets(
        self, topic: str, partition: int, time_ms: int = LATEST, timeout_s: float | None = None, committed: bool = False
    ) -> int:
        """The offset of the first record at or after `time_ms`, -1 if there is none; LATEST: the end, EARLIEST: the start of the log.

        To a reader of `committed` records the last stable offset is the end.
        A broker serves a moment before it knows that it leads: it is asked again while it says so. LabError when it refuses.
        """
        deadline = self._deadline(timeout_s)

        def ask() -> Any:
            request = ListOffsetsRequest(
                max_version=5, replica_id=-1, isolation_level=int(committed), topics=[(topic, [(partition, -1, time_ms)])]
            )
            return self._ask(request, lambda answer: answer.topics, deadline - time.monotonic())

        found = until_ready(ask, lambda topics: int(topics[0].partitions[0].error_code), deadline, NOT_LEADING)
        return int(self._one_partition("ListOffsets", found).offset)

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int = FETCH_BYTES, timeout_s: float | None = None
    ) -> list[FetchedBatch]:
        """The batches from the one that holds `offset` on, at most about `max_bytes` of them; [] at the log's end.

        LabError when the broker refuses (an offset outside of the log: error 1).
        """
        request = FetchRequest(
            max_version=11, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, isolation_level=0,
            session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
            topics=[(topic, [(partition, -1, offset, -1, max_bytes)])],
        )  # fmt: skip
        found = self._ask(request, lambda answer: self._one_partition("Fetch", answer.responses), timeout_s)
        return decode_batches(found.records or b"")

    def read_on(self, topic: str, partition: int, offset: int, timeout_s: float | None = None) -> list[FetchedBatch]:
        """The batches from the one that holds `offset` on, up to the end that the log has now; fewer if the broker gives no more."""
        deadline = self._deadline(timeout_s)
        end = self.list_offsets(topic, partition, LATEST, deadline - time.monotonic())
        found: list[FetchedBatch] = []
        while offset < end:
            more = self.fetch(topic, partition, offset, timeout_s=deadline - time.monotonic())
            if not more or more[-1].last_offset < offset:
                break
            found += more
            offset = more[-1].last_offset + 1
        return found

    def read_all(self, topic: str, partition: int, timeout_s: float | None = None) -> list[FetchedBatch]:
        """All records from the log's start to the end that it has when one asks, in their batches.

        A batch is kept as a whole as long as one of its records is left, so the deleted ones are taken out here.
        LabError when it takes too long.
        """
        deadline = self._deadline(timeout_s)
        end = self.list_offsets(topic, partition, LATEST, deadline - time.monotonic())
        start = self.list_offsets(topic, partition, EARLIEST, deadline - time.monotonic())
        found = self.read_on(topic, partition, start, deadline - time.monotonic())
        read_to = found[-1].last_offset + 1 if found else start
        if read_to < end:
            raise LabError(f"{topic}-{partition} ends at {end}, and the broker gives nothing from {read_to} on. Ask again.")
        if found and found[0].base_offset < start:
            found[0] = replace(found[0], records=[record for record in found[0].records if record[0] >= start])
        return found

    def describe_producers(self, topic: str, partition: int, timeout_s: float | None = None) -> list[Any]:
        """What the leader remembers of each producer id, as rows of DescribeProducers; LabError when it refuses."""
        request = DescribeProducersRequest(max_version=0, topics=[(topic, [partition])])
        return self._ask(request, lambda answer: list(self._one_partition("DescribeProducers", answer.topics).active_producers), timeout_s)

    # What administrators and coordinators say

    def delete_records(self, topic: str, partition: int, before: int, timeout_s: float | None = None) -> int:
        """Delete the records below an offset (-1: all there are); the log's new start. LabError when the broker refuses."""
        timeout_ms = max(1, int((self.timeout_s if timeout_s is None else timeout_s) * 1000))
        request = DeleteRecordsRequest(max_version=1, topics=[(topic, [(partition, before)])], timeout_ms=timeout_ms)
        return self._ask(
            request, lambda answer: int(self._one_partition("DeleteRecords", answer.topics).low_watermark), timeout_s
        )

    def write_txn_markers(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        epoch: int,
        commit: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 1,
    ) -> int:
        """End a producer's transaction in one partition, as its coordinator would; the broker's error, 0 for none."""
        marker = (producer_id, epoch, commit, [(topic, [partition])], coordinator_epoch, transaction_version)
        return self._ask(
            WriteTxnMarkersRequest(max_version=2, markers=[marker]),
            lambda answer: int(answer.markers[0].topics[0].partitions[0].error_code),
        )


def _partitions_of(answer: Any) -> Answers:
    return {
        each.index: (each.error_code, each.base_offset, each.log_start_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    }
