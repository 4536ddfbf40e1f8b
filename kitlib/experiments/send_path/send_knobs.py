"""The knobs of the send path's experiments, and the settings that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from kitlib.experiments.idempotence.producer_knobs import ACKS
from kitlib.experiments.knobs import Knob
from kitlib.kafka.producer.config import ConfigError, ProducerConfig
from kitlib.kafka.producer.send_path import SendConfig

Records = Annotated[int, Knob("How many records the application sends, one call after another.", "records", 1, 5_000)]
Release = Annotated[
    Literal["4.3", "0.10"], Knob("Which rules the client follows: today's, or those of the time of the source.")
]
MaxBlockMs = Annotated[
    int, Knob("How long a call to send may block, for metadata and memory together.", "ms", 0, 600_000, scale="log")
]
BatchSize = Annotated[
    int, Knob("A batch is closed when the next record would not fit.", "bytes", 100, 1_000_000, scale="log")
]
BufferMemory = Annotated[
    int, Knob("Memory for all batches together.", "bytes", 100, 100_000_000, scale="log")
]
RecordBytes = Annotated[int, Knob("Size of a record.", "bytes", 1, 10_000)]
RetryBackoffMs = Annotated[int, Knob("How long to wait before a retry, including metadata requests.", "ms", 10, 10_000)]
MetadataMaxAgeMs = Annotated[
    int, Knob("Age at which metadata is refreshed even if no one needs it.", "ms", 100, 3_600_000, scale="log")
]
MetadataMaxIdleMs = Annotated[
    int, Knob("A topic that has received nothing for this long is forgotten.", "ms", 100, 3_600_000, scale="log")
]
MaxInFlight = Annotated[int, Knob("How many requests may be in flight at once.", "requests", 1, 5)]
RoundTripMs = Annotated[int, Knob("How long a request and its answer take.", "ms", 0, 5_000)]
Jitter = Annotated[
    bool, Knob("Whether each backoff's jitter is random (from the seed), as in real clients, or fixed at its mean. Model only.")
]

_OF_PRODUCER = ("linger_ms", "batch_size", "request_timeout_ms", "delivery_timeout_ms", "retry_backoff_ms", "retries")
_OF_PATH = ("max_block_ms", "buffer_memory", "metadata_max_age_ms", "metadata_max_idle_ms", "release")


def send_config(knobs: Mapping[str, Any], **fixed: Any) -> SendConfig:
    """The settings of a producer from an experiment's knobs; Kafka's own where there is no knob.

    ConfigError where Java's client throws a ConfigException: delivery_timeout_ms < linger_ms + request_timeout_ms
    (not in 0.10, which has no delivery time-out).
    """
    told = {**knobs, **fixed}
    producer = ProducerConfig(
        acks=ACKS[told.get("acks", "all")],
        max_in_flight_requests_per_connection=told.get("max_in_flight", 5),
        **{name: told[name] for name in _OF_PRODUCER if name in told},
    )
    config = SendConfig(producer, **{name: told[name] for name in _OF_PATH if name in told})
    least_ms = producer.linger_ms + producer.request_timeout_ms
    if config.release != "0.10" and "delivery_timeout_ms" in told and producer.delivery_timeout_ms < least_ms:
        raise ConfigError(
            f"delivery_timeout_ms is {producer.delivery_timeout_ms}, less than linger_ms + request_timeout_ms = {least_ms}. "
            "Java's client does not start with that: raise the one or lower the others."
        )
    return config
