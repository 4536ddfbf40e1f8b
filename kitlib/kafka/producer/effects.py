"""What comes out of the client besides its requests: what the user is told, and what happened inside.

Frozen, and compared by their fields: two different ends of a batch are never equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.kafka.producer.batch import ProducerBatch
from kitlib.kafka.protocol import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProduceRequest


@dataclass(frozen=True, slots=True)
class Completion:
    """What the user is told of one batch: `count` records of a send, from the `first` one of that send on."""

    send: int
    first: int  # above 0 only for the later parts of a batch that was split
    count: int
    error: str | None  # an exception class of Java's client; None: stored
    offset: int  # of the record `first`; INVALID_OFFSET when it failed or nobody knows


@dataclass(frozen=True, slots=True)
class Happening:
    """Something in the client that no request, answer or completion shows.

    `what`: "requeue" (a batch waits for another attempt), "split" (the parts took its place), "expire"
    (its time was over), "drop" (a late answer for a batch whose end was told before), "init" (an id came),
    "bump" (the epoch was raised), "reset" (the id was given up).
    """

    what: str
    batch: ProducerBatch | None = None
    producer_id: int = NO_PRODUCER_ID  # the producer's new ones
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(slots=True)
class InFlightRequest:
    """A request that left and was not answered."""

    request: ProduceRequest  # with the numbers on the wire
    batches: tuple[ProducerBatch, ...]  # in the same order; their numbers may have been rewritten since
    sent_ms: int
