"""What clients refuse to start with: the model's rules are those of the real Java client and of librdkafka."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.more.client.refusals import start

GRID: dict[str, tuple[int | bool | None, ...]] = {
    "enable_idempotence": (None, True), "acks": (None, -1, 1), "retries": (None, 0), "max_in_flight_requests_per_connection": (None, 5, 6),
}  # fmt: skip
EVERY = [
    {name: value for name, value in zip(GRID, values, strict=True) if value is not None} for values in itertools.product(*GRID.values())
]


def test_every_combination_starts_in_the_model_as_in_the_real_clients() -> None:
    """All 36 with Java's client: refused, idempotent, or quietly not; with librdkafka, which never says, refused or not."""
    with JavaClient.open() as java:
        for given in EVERY:
            settings: dict[str, Any] = {name.replace("_", "."): value for name, value in given.items()}
            begun = start("java-4.3", given)
            try:
                java.close_at_once(java.producer(settings))
                assert (begun.refusal, begun.idempotence) == (None, java.producer_settings(settings)["enable.idempotence"] == "true"), given
            except RefusedSettings:
                assert begun.refusal, given
            if start("librdkafka", given).refusal is None:
                Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0} | settings)
            else:
                with pytest.raises((KafkaException, ValueError, TypeError)):
                    Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0} | settings)
    assert start("java-4.3", {}).idempotence and not start("java-4.3", {"acks": 1}).idempotence
    assert start("java-4.3", {"acks": 1, "enable_idempotence": True}).refusal and not start("librdkafka", {}).idempotence
