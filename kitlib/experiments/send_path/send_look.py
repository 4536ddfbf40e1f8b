"""What the steps of a send's experiment hold for pictures: the path with its batches, and the metadata's clock.

    path   {"calls": [[record, "metadata" | "memory"]], "queues": {partition: [[batch, records, bytes, attempts]]},
            "in_flight": [[request, batch, partition, records, node]], "stored": {partition: log end},
            "memory": [available, total, waiting]}
    clock  {"version", "need_update", "partial", "in_progress", "last_refresh_ms", "last_successful_refresh_ms",
            "expire_ms", "next_ms", "allow_ms", "attempts", "leader"}; the three last but one as times from now
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kitlib.kafka.client.backoff import MIDDLE

if TYPE_CHECKING:
    from kitlib.experiments.send_path.send_run import SendRun


@dataclass(slots=True)
class Numbers:
    """Records are numbered for each partition, in the order in which they got there."""

    records: int = 0  # handed over so far, over all partitions
    next_in_lane: dict[int, int] = field(default_factory=dict)  # partition -> the number of its next record
    in_lane: dict[int, tuple[int, int]] = field(default_factory=dict)  # record -> (partition, its number there)
    of_batch: dict[int, list[int]] = field(default_factory=dict)  # batch -> its records' numbers
    partition_of_batch: dict[int, int] = field(default_factory=dict)
    open_batches: dict[int, int] = field(default_factory=dict)  # batch -> records of whose end the user has not heard
    last_partition: int = 0  # of the last one that was numbered

    def take(self, record: int, partition: int) -> int:
        """The record's number in its partition."""
        number = self.next_in_lane.get(partition, 0)
        self.next_in_lane[partition] = number + 1
        self.in_lane[record] = partition, number
        self.last_partition = partition
        return number

    @property
    def open_records(self) -> int:
        """Records of whose end the user has not heard."""
        return sum(self.open_batches.values())

    def put(self, batch: int, number: int) -> None:
        """The record that was numbered last lies in this batch."""
        self.of_batch.setdefault(batch, []).append(number)
        self.partition_of_batch[batch] = self.last_partition
        self.open_batches[batch] = self.open_batches.get(batch, 0) + 1

    def end(self, batch: int, count: int) -> None:
        """The user heard of so many of its records."""
        left = self.open_batches.get(batch, 0) - count
        self.open_batches.pop(batch, None)
        if left > 0:
            self.open_batches[batch] = left


def path_shown(run: SendRun) -> dict[str, Any]:
    """Where everything is that was sent."""
    producer, cluster = run.producer, run.cluster
    queues = {
        str(partition): [[batch.send, batch.count, batch.size_bytes, batch.attempts] for batch in queue]
        for partition, queue in sorted(producer.sender.accumulator.queues.items())
    }
    in_flight = [
        [leaving.request.number, data["batch"], data["partition"], data["last"] - data["first"] + 1, leaving.node.id]
        for leaving in run.network.flights.values()
        for data in leaving.data
    ]
    return {
        "calls": [[int(sending.value), sending.state] for sending in producer.sendings],
        "queues": queues,
        "in_flight": in_flight,
        "stored": {str(partition): log.end for partition, log in cluster.leader.logs.items()},
        "memory": [producer.pool.available, producer.pool.total_memory, producer.pool.queued],
    }


def clock_shown(run: SendRun) -> dict[str, Any]:
    """How old the metadata is, and when it may and will be asked for."""
    metadata, leader = run.producer.metadata, run.producer.leader
    forgotten, luck = metadata.equivalent_response_count, metadata.luck  # looking must change nothing: no chance is drawn
    metadata.luck = lambda: MIDDLE
    shown = {
        "version": metadata.version,
        "need_update": metadata.need_update,
        "partial": metadata.need_partial_update and not metadata.need_full_update,
        "in_progress": run.producer.client.metadata_in_progress is not None,
        "last_refresh_ms": metadata.last_refresh_ms,
        "last_successful_refresh_ms": metadata.last_successful_refresh_ms,
        "expire_ms": metadata.time_to_expire(run.now_ms),
        "allow_ms": max(metadata.time_to_allow_update(run.now_ms), 0),
        "next_ms": metadata.time_to_next_update(run.now_ms),
        "attempts": metadata.attempts,
        "leader": None if leader is None else leader.id,
    }
    metadata.equivalent_response_count, metadata.luck = forgotten, luck
    return shown
