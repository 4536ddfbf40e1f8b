"""The knobs that every producer has, the idempotent ones' and the send path's alike, and the settings that are made of them."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.knobs import Knob
from kitlib.mechanisms.producer.config import MAX_INT, ProducerConfig
from kitlib.settings import Settings

ACKS = {"all": -1, "1": 1, "0": 0}

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


def producer_config(settings: Settings, *more: str) -> ProducerConfig:
    """The producer's settings, those that every story may give it and `more`; Kafka's own defaults where there is no knob."""
    named = {"enable_idempotence": "idempotence", "max_in_flight_requests_per_connection": "max_in_flight"}
    common = ("retries", "request_timeout_ms", "delivery_timeout_ms", "linger_ms", "retry_backoff_ms")
    return ProducerConfig(acks=ACKS[settings.acks], **settings.given(*common, *more, **named))
