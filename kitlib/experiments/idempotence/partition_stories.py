"""Several partitions under one producer: what a trouble in one of them does to the others.

Sequence numbers are counted for each partition, so the broker's answers to one say nothing about another. What the
partitions share is the producer: its id and epoch, its requests, and the rules by which batches leave its queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.idempotence.producer_knobs import (
    DeliveryTimeoutMs,
    MaxInFlight,
    RequestTimeoutMs,
    producer_config,
)
from kitlib.experiments.idempotence.producer_run import Client, Flight, ProducerRun
from kitlib.experiments.idempotence.producer_stories import (
    BatchRecords,
    ClientKnobs,
    DelayMs,
    IdempotentClientKnobs,
    Release,
)
from kitlib.experiments.knobs import Knob
from kitlib.mechanisms.producer.accumulator import RecordAccumulator
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.sender import Sender
from kitlib.mechanisms.producer.transaction_manager import TransactionManager
from kitlib.monitor.figures import HELD_UP, UNSERVED, WRONGLY_FAILED

Partitions = Annotated[int, Knob("How many partitions the topic has; one broker leads them all.", "partitions", 1, 12)]
Rounds = Annotated[int, Knob("How often the application sends a batch to each partition.", "rounds", 1, 50)]
RoundEveryMs = Annotated[int, Knob("Time from one round to the next.", "ms", 0, 1_000)]


@dataclass(slots=True)
class OneSequence(TransactionManager):
    """Numbers all partitions' batches from one count; no client does."""

    next_of_all: int = 0

    def assign(self, batch: ProducerBatch) -> None:
        entry = self.entry(batch.partition)
        entry.next_sequence = self.next_of_all
        TransactionManager.assign(self, batch)
        self.next_of_all = entry.next_sequence


@dataclass(slots=True)
class FromTheFirst(RecordAccumulator):
    """Begins each drain at the first partition; no client does."""

    def drain(self, now_ms: int) -> list[ProducerBatch]:
        self.drain_index = 0
        return RecordAccumulator.drain(self, now_ms)


class PartitionsRun(ProducerRun):
    """A producer to several partitions, with rules of its own where a knob asks for them."""

    def make_sender(self) -> Sender:
        settings = self.settings
        config = producer_config(settings, "release", "max_request_size")
        return Sender(
            config, self.partitions, self.now_ms,
            manager_type=OneSequence if settings.numbered == "by producer" else None,
            accumulator_type=FromTheFirst if settings.drained_from == "the first" else None,
        )  # fmt: skip


@experiment(
    "Only this partition waits", PartitionsRun, shared=(IdempotentClientKnobs,),
    figure=HELD_UP, front=("partitions", "rounds", "numbered", "idempotence", "max_in_flight"),
)
def one_partition_waits(
    run: PartitionsRun,
    partitions: Partitions = 3,
    rounds: Rounds = 6,
    batch_records: BatchRecords = 5,
    round_every_ms: RoundEveryMs = 4,
    failing_partition: Annotated[int, Knob("The partition in which a batch fails at first.", "", 0, 11)] = 1,
    numbered: Annotated[
        Literal["by partition", "by producer"],
        Knob("Whether each partition counts its own sequence numbers, as in Kafka, or all share one count, as no client does."),
    ] = "by partition",
    delivery_timeout_ms: DeliveryTimeoutMs = 2_000,
    request_timeout_ms: RequestTimeoutMs = 1_000,
) -> None:
    """One of three partitions refuses a batch for the moment. Do the other two wait?"""
    failing = (partitions + min(failing_partition, partitions - 1)) * batch_records  # the first record of its second batch

    def fate(flight: Flight) -> str:
        return "" if flight.data["first"] != failing or flight.attempt else "refuse:NOT_LEADER_OR_FOLLOWER"

    producer = run.begin()
    run.fate = fate
    _send_rounds(run, producer, rounds, batch_records, round_every_ms)
    run.finish()


def _send_rounds(run: ProducerRun, producer: Client, rounds: int, batch_records: int, every_ms: int) -> None:
    """In each round the application sends one batch to every partition."""
    for _ in range(rounds):
        for partition in run.partitions:
            run.send(producer, batch_records, partition)
        run.run_for(every_ms)


@experiment(
    "A new id for all", PartitionsRun, shared=(ClientKnobs,),
    figure=WRONGLY_FAILED, front=("release", "partitions", "outage_ms", "delivery_timeout_ms", "round_every_ms"),
)
def new_id_for_all(
    run: PartitionsRun,
    partitions: Annotated[int, Knob("How many partitions the topic has; one broker leads them all.", "partitions", 2, 12)] = 3,
    batch_records: BatchRecords = 5,
    round_every_ms: RoundEveryMs = 25,
    outage_ms: Annotated[int, Knob("How long the broker refuses all batches of partition 1.", "ms", 0, 10_000)] = 700,
    delivery_timeout_ms: DeliveryTimeoutMs = 600,
    request_timeout_ms: RequestTimeoutMs = 200,
    delay_ms: DelayMs = 20,
    release: Release = "4.3",
) -> None:
    """Partition 1 refuses its batches until one expires and the producer starts its numbers anew. Then the connection
    breaks. What becomes of the batches that the other partitions have in flight?
    """

    def fate(flight: Flight) -> str:
        return "refuse:NOT_ENOUGH_REPLICAS" if flight.partition == 1 and run.now_ms < outage_ends_ms else ""

    producer = run.begin()
    _send_rounds(run, producer, 1, batch_records, 2 * run.settings.delay_ms)
    before, outage_ends_ms = producer.identity, run.now_ms + outage_ms
    run.fate = fate
    _send_rounds(run, producer, 2, batch_records, round_every_ms)
    while producer.identity == before and run.now_ms < outage_ends_ms + delivery_timeout_ms:
        for partition in run.partitions:
            if partition != 1:
                run.send(producer, batch_records, partition)
        run.run_for(max(1, round_every_ms), until=lambda: producer.identity != before)
    run.run_for(run.settings.delay_ms // 2)  # what was in flight is written by then, and no answer has come
    run.cut()
    _send_rounds(run, producer, 1, batch_records, round_every_ms)
    run.finish()


@experiment(
    "Whose turn is it?", PartitionsRun, shared=(IdempotentClientKnobs,),
    figure=UNSERVED, front=("drained_from", "max_request_size", "partitions", "rounds", "max_in_flight"),
)
def whose_turn(
    run: PartitionsRun,
    partitions: Partitions = 4,
    rounds: Rounds = 5,
    batch_records: BatchRecords = 5,
    max_request_size: Annotated[
        int, Knob("How many bytes a request may carry (max.request.size).", "bytes", 120, 5_000, scale="log")
    ] = 250,
    drained_from: Annotated[
        Literal["where the last ended", "the first"],
        Knob("Where the sender begins to look for batches: where it ended the last time, as Kafka's does, or always at partition 0."),
    ] = "where the last ended",
    max_in_flight: MaxInFlight = 1,
) -> None:
    """Four partitions have five batches each, and a request has room for two. In which order do they leave?"""
    producer = run.begin()
    _send_rounds(run, producer, rounds, batch_records, 0)
    run.finish()
