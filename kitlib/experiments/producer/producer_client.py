"""A producer in an experiment: the kit's sender, its connection, and what the user has heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kitlib.experiments.leader_stage import PARTITION, Handled
from kitlib.kafka.producer.batch import ProducerBatch
from kitlib.kafka.producer.config import ProducerConfig
from kitlib.kafka.producer.sender import Sender
from kitlib.kafka.protocol import InitProducerIdAnswer, ProduceRequest
from kitlib.words.word import Range

ACKS = {"all": -1, "1": 1, "0": 0}


@dataclass(slots=True)
class Flight:
    """One produce request on its way, with its one batch."""

    client: Client
    request: ProduceRequest
    data: dict[str, Any]  # what its steps say of it: topic, partition, request, batch, first, last
    attempt: int  # 0 for the first one
    handled: Handled | None = None  # once the broker has dealt with it
    is_over: bool = False  # its answer came, or will never come

    @property
    def where(self) -> dict[str, Any]:
        """What its steps say of it, without its records."""
        return {name: self.data[name] for name in ("topic", "partition", "request", "batch")}


# What becomes of a request: "", "lose_request", "lose_answer" (and the connection), "swallow_answer" (the answer
# alone), "duplicate_request", "refuse:NAME" (an error instead of the broker's answer), "delay:MS".
Fate = Callable[[Flight], str]


@dataclass(slots=True)
class Client:
    """One producer and its connection."""

    actor: str
    sender: Sender
    given: InitProducerIdAnswer | None = None  # the id that it gets instead of one from the broker
    first_records: dict[int, int] = field(default_factory=dict)  # send -> its first record
    flights: dict[int, Flight] = field(default_factory=dict)  # by request number: those that are waited for
    connection: int = 0  # counts; what was sent on an older one is lost
    ready_at_ms: int = 0  # when the present connection can be used
    last_arrival_ms: int = 0  # requests arrive in the order in which they left
    last_answer_ms: int = 0  # and so do answers
    drops: int = 0  # connections that the sender itself gave up
    told_identity: tuple[int, int] = (-1, -1)  # the last id and epoch that a step told of
    last_sent: range = range(0)  # the records of its last closed batch
    delivered: int = 0  # batches of which the user was told that they are stored
    failed: set[int] = field(default_factory=set)  # records of which the user was told that they are not

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch; (-1, -1) without."""
        manager = self.sender.transaction_manager
        return (manager.producer_id, manager.producer_epoch) if manager else (-1, -1)

    @property
    def queued(self) -> list[ProducerBatch]:
        """The batches that wait in the accumulator, the next one first."""
        return list(self.sender.accumulator.queues[PARTITION])

    @property
    def is_settled(self) -> bool:
        """Whether the user was told of everything, and no answer is waited for."""
        return not (self.flights or self.queued or any(self.sender.in_flight_batches.values()))

    def shown(self) -> dict[str, Any]:
        """What a picture shows of it."""
        sender, (producer_id, epoch) = self.sender, self.identity
        manager = sender.transaction_manager
        entry = manager.entries.get(PARTITION) if manager else None
        in_flight = []
        for number, flight in self.flights.items():
            (batch,) = flight.request.batches
            in_flight.append([number, flight.data["batch"], batch.base_sequence, batch.count])
        return {
            "pid": producer_id,
            "epoch": epoch,
            "next_seq": entry.next_sequence if entry else 0 if manager else -1,
            "queue": [
                [batch.number, batch.base_sequence if batch.has_sequence else None, batch.count, batch.attempts]
                for batch in self.queued
            ],
            "in_flight": in_flight,
        }


def producer_config(knobs: Mapping[str, Any]) -> ProducerConfig:
    """The producer's settings from an experiment's knobs; Kafka's own defaults where there is no knob."""
    given = {
        "enable_idempotence": knobs.get("idempotence"),
        "max_in_flight_requests_per_connection": knobs.get("max_in_flight"),
        **{
            name: knobs.get(name)
            for name in (
                "retries",
                "request_timeout_ms",
                "delivery_timeout_ms",
                "linger_ms",
                "retry_backoff_ms",
                "release",
            )
        },
    }
    told = {name: value for name, value in given.items() if value is not None}
    return ProducerConfig(acks=ACKS[knobs.get("acks", "all")], **told)


def in_log_order(records: Iterable[int]) -> list[Range]:
    """Record numbers in the order in which they lie in a log, as ranges; one that comes again begins another range."""
    ranges: list[Range] = []
    for record in records:
        if ranges and ranges[-1][1] + 1 == record:
            ranges[-1][1] = record
        else:
            ranges.append([record, record])
    return ranges
