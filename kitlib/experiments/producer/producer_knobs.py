"""The knobs that every producer has, whichever of its experiments turns them: the idempotent ones' and the send path's."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.knobs import Knob
from kitlib.kafka.producer.config import MAX_INT

Retries = Annotated[int, Knob("How often a batch is sent again.", "retries", 0, MAX_INT, scale="log")]
Acks = Annotated[Literal["all", "1", "0"], Knob("Whose acknowledgement the producer waits for.")]
Records = Annotated[int, Knob("How many records the application sends, one after another.", "records", 1, 2_000)]
LingerMs = Annotated[int, Knob("How long a batch waits for more records.", "ms", 0, 1_000)]
DeliveryTimeoutMs = Annotated[
    int, Knob("How long until a record is reported as failed.", "ms", 100, 600_000, scale="log")
]
RequestTimeoutMs = Annotated[
    int, Knob("How long to wait for an answer before closing the connection.", "ms", 50, 600_000, scale="log")
]
MaxInFlight = Annotated[int, Knob("How many requests may be in flight at once.", "requests", 1, 10)]
