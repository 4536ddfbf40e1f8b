"""Where a real broker's answer to a fetch begins: with the whole batch that holds the record asked for."""

from __future__ import annotations

import uuid
from typing import Literal

from confluent_kafka import Producer

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import KafkaBackend, TopicReader, write
from kitlib.lab.clients import client_config

LINGER_MS = 500  # long enough for ten records to be one batch


def first_fetched(backend: KafkaBackend, ask: int, codec: Literal["none", "gzip"] = "none", one_batch: bool = True) -> int:
    """Write ten records, as one batch or each by itself, and fetch from `ask` (0 to 9); the first offset of the answer.

    LabError when the broker refuses, or when `ask` is no such offset.
    """
    if not 0 <= ask < 10:
        raise LabError(f"first_fetched: ask is {ask}, expected 0 to 9, an offset of ten records.")
    topic = backend.create_topic(f"batches-{uuid.uuid4().hex[:8]}", 10)
    settings = {"compression.type": codec, "linger.ms": LINGER_MS if one_batch else 0, "batch.num.messages": 10 if one_batch else 1}
    write(Producer(client_config(backend.cluster, **settings)), topic.name, [(None, b"%d" % number) for number in range(10)])
    with TopicReader.open(backend.cluster, topic.name) as reader:
        return reader.wire.fetch(topic.name, 0, ask)[0].base_offset
