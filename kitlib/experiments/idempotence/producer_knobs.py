"""The knobs that every producer has, the idempotent ones' and the send path's alike, and the settings that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from kitlib.experiments.knobs import Knob
from kitlib.mechanisms.producer.config import MAX_INT, ProducerConfig

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
