"""The knobs of the send path's experiments, and the settings that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kitlib.experiments.knobs import Knob
from kitlib.experiments.producer import producer_knobs
from kitlib.experiments.producer.producer_client import ACKS as WORDS_OF_ACKS
from kitlib.kafka.producer.config import ConfigError, ProducerConfig
from kitlib.kafka.producer.send_config import SendConfig

RECORDS = replace(producer_knobs.RECORDS, default=5, help="How many records the user sends, one call after the other.", high=5_000)
RELEASE = Knob(
    "release", "choice", "4.3", "Whose rules the client follows: today's, or those of the source's time.", choices=("4.3", "0.10"),
    live=False,
)  # fmt: skip
MAX_BLOCK_MS = Knob(
    "max_block_ms", "int", 2_000, "How long a call of send may block, for metadata and memory together.", "ms", 0, 600_000,
    scale="log", live=False,
)  # fmt: skip
DELIVERY_TIMEOUT_MS = replace(producer_knobs.DELIVERY_TIMEOUT_MS, default=4_000)
REQUEST_TIMEOUT_MS = replace(producer_knobs.REQUEST_TIMEOUT_MS, default=1_500)
LINGER_MS = replace(producer_knobs.LINGER_MS, default=0)
BATCH_SIZE = Knob(
    "batch_size", "int", 16_384, "A batch is closed when the next record would not fit.", "bytes", 100, 1_000_000, scale="log",
    live=False,
)  # fmt: skip
BUFFER_MEMORY = Knob(
    "buffer_memory", "int", 33_554_432, "How much memory all batches have together.", "bytes", 100, 100_000_000, scale="log",
    live=False,
)  # fmt: skip
RECORD_BYTES = Knob("record_bytes", "int", 100, "How large a record is.", "bytes", 1, 10_000, live=False)
RETRY_BACKOFF_MS = Knob(
    "retry_backoff_ms", "int", 100, "How long to wait before trying again, also for metadata.", "ms", 10, 10_000, live=False
)
METADATA_MAX_AGE_MS = Knob(
    "metadata_max_age_ms", "int", 300_000, "What is older is asked for again without being asked to.", "ms", 100, 3_600_000,
    scale="log", live=False,
)  # fmt: skip
METADATA_MAX_IDLE_MS = Knob(
    "metadata_max_idle_ms", "int", 300_000, "A topic that nothing was sent to for so long is forgotten.", "ms", 100, 3_600_000,
    scale="log", live=False,
)  # fmt: skip
MAX_IN_FLIGHT = replace(producer_knobs.MAX_IN_FLIGHT, high=5)
ROUND_TRIP_MS = Knob("round_trip_ms", "int", 10, "How long a request and its answer take.", "ms", 0, 5_000, live=False)
JITTER = Knob(
    "jitter", "bool", False, "Draws each backoff's random part by the seed, as real clients do; else it is its middle. Model only.",
    live=False,
)  # fmt: skip

_OF_PRODUCER = ("linger_ms", "batch_size", "request_timeout_ms", "delivery_timeout_ms", "retry_backoff_ms", "retries")
_OF_PATH = ("max_block_ms", "buffer_memory", "metadata_max_age_ms", "metadata_max_idle_ms", "release")


def send_config(knobs: Mapping[str, Any], **fixed: Any) -> SendConfig:
    """The settings of a producer from an experiment's knobs; Kafka's own where there is no knob.

    ConfigError where Java's client throws a ConfigException: delivery_timeout_ms < linger_ms + request_timeout_ms
    (not in 0.10, which has no delivery time-out).
    """
    told = {**knobs, **fixed}
    producer = ProducerConfig(
        acks=WORDS_OF_ACKS[told.get("acks", "all")],
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
