"""Consumers of the tests: settings for a topic of their own, and polls until something has come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.kafka_server import Cluster

SECONDS = 30.0  # generous: what is waited for comes within one on a machine with nothing else to do


def topic_with_records(broker: Cluster, name: str, partitions: int, records: int) -> str:
    """A new topic with so many records in each partition; its name."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(SECONDS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(partitions * records):
        producer.produce(name, b"%d" % number, partition=number % partitions)
    assert producer.flush(SECONDS) == 0
    return name


def settings_for(broker: Cluster, topic: str, library: str = "librdkafka", **more: Any) -> dict[str, Any]:
    """All that a consumer of this topic is told, a session that a busy machine does not end included; `more` has the last word."""
    return {
        "library": library, "bootstrap": broker.bootstrap, "topic": topic, "group": topic, "client_id": "A", "more": {},
        "protocol": "classic", "strategies": ["range"], "auto_commit": False, "auto_commit_interval_ms": 200, "auto_store": True,
        "max_poll_records": 500, "session_timeout_ms": 10_000, "heartbeat_interval_ms": 300, "max_poll_interval_ms": 60_000,
        "instance_id": None, "auto_offset_reset": "earliest", "metadata_max_age_ms": 300_000, "commit_on_revoke": False,
    } | more  # fmt: skip


def poll_until(consumer: ConsumerProcess, is_enough: Callable[[list[Any], list[Any]], bool]) -> tuple[list[Any], list[Any]]:
    """Poll until the records and events so far are enough; both."""
    records: list[Any] = []
    events: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while not is_enough(records, events):
        assert time.monotonic() < deadline, (records, events)
        more_records, more_events = consumer.poll(500, 100)
        records += more_records
        events += more_events
    return records, events
