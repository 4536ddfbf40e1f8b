"""Speaks the Kafka protocol to one broker, one connection, every number of one's own choosing.

An ordinary client hides what this one is for: the producer id, epoch and sequence numbers of a batch,
several requests on their way at once, and an answer for each. Records and messages are written and
read by the protocol library (kafka-python); sending, matching answers to requests and the deadlines
are here. Nothing is retried except where it says so. Errors of the broker are the numbers of the wire.

Left out: encryption and passwords (the kit's broker has neither), topics by id, and a leader that moves:
`Wire.open_leader` finds a partition's leader once, and from then on one talks to that broker.

Source: Apache Kafka 4.3.1, clients/src/main/resources/common/message.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from kitlib.errors import LabError
from kitlib.lab.wire_frames import WireClosed
from kitlib.lab.wire_library import (
    DeleteRecordsRequest,
    DescribeProducersRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
    WriteTxnMarkersRequest,
)
from kitlib.lab.wire_records import FetchedBatch, WireBatch, decode_batches, encode_batch
from kitlib.lab.wire_session import LONGEST_ANSWER_BYTES, Answers, WireSession

__all__ = ["EARLIEST", "LATEST", "ActiveProducer", "FetchedBatch", "Metadata", "Wire", "WireBatch", "WireClosed"]

EARLIEST, LATEST = -2, -1  # for list_offsets
# A broker that has just started, or that is looking for a coordinator, says so with these; one asks again.
NOT_YET = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
ASK_AGAIN_S = 0.05
FETCH_BYTES = 1 << 20


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


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """What a partition's leader remembers of one producer id."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    # First offset of its open transaction; -1 without one.
    transaction_start_offset: int


class Wire(WireSession):
    """One connection to one broker, with a method for each question. Use `Wire.open`, as a context manager.

    LabError when the broker answers something that is no answer; WireClosed (a LabError too) when the
    connection ends; LabError when nothing comes in time, after which a late answer is ignored.
    """

    @classmethod
    def open_leader(
        cls, bootstrap: str, topic: str, partition: int = 0, client_id: str = "kit-wire", timeout_s: float = 10.0
    ) -> Self:
        """A connection to the broker that leads a partition, by the first address ("host:port") of `bootstrap`.

        Where there is one broker, that is the connection, whatever address the broker tells its clients: it may
        be behind a proxy. Else it is the address that Metadata has for the leader, so a proxy's must be told there.
        LabError when no broker answers, or none leads the partition within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        wire = cls.open(host, int(port), client_id, timeout_s)
        try:
            found = wire.metadata([topic], deadline - time.monotonic())
            while len(found.brokers) > 1 and found.leader_address(topic, partition) is None:
                if time.monotonic() + ASK_AGAIN_S >= deadline:
                    raise LabError(f"No broker leads {topic}-{partition}, says that at {host}:{port}. Look at `kit status`.")
                time.sleep(ASK_AGAIN_S)
                found = wire.metadata([topic], deadline - time.monotonic())
        except BaseException:
            wire.close()
            raise
        leader = found.leader_address(topic, partition)
        if len(found.brokers) <= 1 or leader is None or leader == (host, int(port)):
            return wire
        wire.close()
        return cls.open(*leader, client_id, timeout_s)

    # What a producer says

    def init_producer_id(self, timeout_s: float | None = None) -> tuple[int, int, int]:
        """(error, producer id, epoch); while the broker says that it is not ready (14, 15, 16), asks again.

        LabError when it gives no answer in time; one that is still not ready then is its error.
        """
        deadline = self._deadline(timeout_s)
        while True:
            request = self._request(InitProducerIdRequest, transactional_id=None, transaction_timeout_ms=60_000,
                                    producer_id=-1, producer_epoch=-1)  # fmt: skip
            found = self._ask(
                request, deadline, lambda answer: (answer.error_code, answer.producer_id, answer.producer_epoch)
            )
            if found[0] not in NOT_YET or time.monotonic() + ASK_AGAIN_S >= deadline:
                return found
            time.sleep(ASK_AGAIN_S)

    def send_produce(
        self,
        topic: str,
        batches: Sequence[WireBatch | tuple[int, bytes | bytearray]],
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
        version: int | None = None,
    ) -> int:
        """Send one Produce request and do not wait; its correlation id, by which `receive` names the answer.

        A batch is a WireBatch or (partition, bytes made elsewhere); those of one partition go one after the other.
        Acks 0: there will be no answer. `version`: the highest common one if None. LabError when the request
        exceeds the frame cap, or when the broker has not read for so long that as much as the cap is unsent.
        """
        by_partition: dict[int, bytes | bytearray] = {}
        for batch in batches:
            partition, data = (batch.partition, encode_batch(batch)) if isinstance(batch, WireBatch) else batch
            by_partition[partition] = by_partition[partition] + data if partition in by_partition else data
        request = self._request(
            ProduceRequest, version, transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms,
            topic_data=[(topic, list(by_partition.items()))],
        )  # fmt: skip
        if self.connection.unsent_bytes > self.connection.frames.longest_bytes:
            self._drain(time.monotonic() + self.timeout_s)
        return self._send(request, LONGEST_ANSWER_BYTES if acks else 0)

    def receive(self, timeout_s: float | None = None) -> tuple[int, Answers] | None:
        """The next answer to a Produce request: (correlation id, {partition: (error, base offset, log start offset)}).

        None when none comes in time; with `timeout_s` 0 it only looks. Answers come in the broker's order,
        which is the order of the requests.
        """
        deadline = self._deadline(timeout_s)
        while not self._produced:
            frame = self.connection.receive(deadline)
            if frame is None:
                return None
            self._take(frame)
        return self._produced.popleft()

    def produce(
        self,
        topic: str,
        batches: Sequence[WireBatch | tuple[int, bytes | bytearray]],
        acks: int = -1,
        timeout_s: float | None = None,
        **more: Any,
    ) -> Answers:
        """Send one Produce request and wait for its answer; nothing else may be unanswered. Acks 0: {} once it is sent."""
        deadline = self._deadline(timeout_s)
        if self.is_open and (self._waiting or self._produced):
            raise LabError(f"{len(self._waiting) + len(self._produced)} answers are still to be received. Receive them first.")
        sent = self.send_produce(topic, batches, acks, **more)
        if not acks:
            self._drain(deadline)
            return {}
        received = self.receive(deadline - time.monotonic())
        if received is None:
            raise self._silent(sent, "Produce")
        return received[1]

    # What everybody asks

    def metadata(self, topics: Sequence[str] | None = None, timeout_s: float | None = None) -> Metadata:
        """The brokers and the leaders of the topics, of all topics if None; topics that are not there are not made."""
        request = self._request(
            MetadataRequest, topics=None if topics is None else [(name,) for name in topics], allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
        )  # fmt: skip

        def leaders(topic: Any) -> dict[int, tuple[int, int]]:
            return {each.partition_index: (each.error_code, each.leader_id) for each in topic.partitions}

        def read(answer: Any) -> Metadata:
            brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
            found = {topic.name: (topic.error_code, leaders(topic)) for topic in answer.topics}
            return Metadata(brokers, answer.controller_id, found)

        return self._ask(request, self._deadline(timeout_s), read)

    def list_offsets(self, topic: str, partition: int, time_ms: int = LATEST, timeout_s: float | None = None) -> int:
        """The offset of the first record at or after `time_ms`, -1 if there is none; LATEST: the end, EARLIEST: the start of the log.

        LabError when the broker refuses.
        """
        request = self._request(
            ListOffsetsRequest, replica_id=-1, isolation_level=0, topics=[(topic, [(partition, -1, time_ms)])]
        )
        return self._ask(
            request, self._deadline(timeout_s), lambda answer: int(self._one_partition("ListOffsets", answer.topics).offset)
        )

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int = FETCH_BYTES, timeout_s: float | None = None
    ) -> list[FetchedBatch]:
        """The batches from the one that holds `offset` on, at most about `max_bytes` of them; [] at the log's end.

        LabError when the broker refuses (an offset outside of the log: error 1) or sends what is no batch.
        """
        request = self._request(
            FetchRequest, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, isolation_level=0,
            session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
            topics=[(topic, [(partition, -1, offset, -1, max_bytes)])],
        )  # fmt: skip

        def read(answer: Any) -> bytes:
            if answer.error_code:
                raise self._refused("Fetch", answer.error_code)
            return bytes(self._one_partition("Fetch", answer.responses).records or b"")

        # A first batch that is longer than max_bytes comes as a whole, so the cap of frames is that of answers too.
        return decode_batches(self._ask(request, self._deadline(timeout_s), read, self.connection.frames.longest_bytes))

    def read_all(self, topic: str, partition: int, timeout_s: float | None = None) -> list[FetchedBatch]:
        """All records from the log's start to the end that it has when one asks, in their batches.

        A batch is kept as a whole as long as one of its records is left, so the deleted ones are taken out here.
        LabError when it takes too long.
        """
        deadline = self._deadline(timeout_s)
        end = self.list_offsets(topic, partition, LATEST, deadline - time.monotonic())
        start = at = self.list_offsets(topic, partition, EARLIEST, deadline - time.monotonic())
        found: list[FetchedBatch] = []
        while at < end:
            more = self.fetch(topic, partition, at, timeout_s=deadline - time.monotonic())
            if not more or more[-1].last_offset < at:
                raise LabError(f"{topic}-{partition} ends at {end}, and the broker gives nothing from {at} on. Ask again.")
            found += more
            at = more[-1].last_offset + 1
        if found and found[0].base_offset < start:
            found[0] = replace(found[0], records=[record for record in found[0].records if record[0] >= start])
        return found

    def describe_producers(self, topic: str, partition: int, timeout_s: float | None = None) -> list[ActiveProducer]:
        """What the leader remembers of each producer id; LabError when it refuses."""
        request = self._request(DescribeProducersRequest, topics=[(topic, [partition])])

        def read(answer: Any) -> list[ActiveProducer]:
            return [
                ActiveProducer(each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp,
                               each.coordinator_epoch, each.current_txn_start_offset)
                for each in self._one_partition("DescribeProducers", answer.topics).active_producers
            ]  # fmt: skip

        return self._ask(request, self._deadline(timeout_s), read)

    # What administrators and coordinators say

    def delete_records(self, topic: str, partition: int, before: int, timeout_s: float | None = None) -> int:
        """Delete the records below an offset (-1: all there are); the log's new start. LabError when the broker refuses."""
        deadline = self._deadline(timeout_s)
        timeout_ms = max(1, int((deadline - time.monotonic()) * 1000))
        request = self._request(DeleteRecordsRequest, topics=[(topic, [(partition, before)])], timeout_ms=timeout_ms)
        return self._ask(
            request, deadline, lambda answer: int(self._one_partition("DeleteRecords", answer.topics).low_watermark)
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
        timeout_s: float | None = None,
    ) -> int:
        """End a producer's transaction in one partition, as its coordinator would; the broker's error, 0 for none."""
        marker = (producer_id, epoch, commit, [(topic, [partition])], coordinator_epoch, transaction_version)

        def read(answer: Any) -> int:
            found = [each for marker in answer.markers for topic in marker.topics for each in topic.partitions]
            if len(found) != 1:
                raise self._no_answer("WriteTxnMarkers", f"{len(found)} partitions, expected 1")
            return int(found[0].error_code)

        return self._ask(self._request(WriteTxnMarkersRequest, markers=[marker]), self._deadline(timeout_s), read)
