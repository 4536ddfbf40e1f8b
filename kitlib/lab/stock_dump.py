"""The records of the offsets topic as Kafka's own command prints them: decoded by the broker's own classes, in a JVM.

A full installation has the command:

    kafka-console-consumer.sh --bootstrap-server HOST:PORT --topic __consumer_offsets --from-beginning
        --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter

Its formatter is a loop around two classes of the coordinator, and those are among the kit's jars. Here the loop is the kit's,
and the decoding is theirs. Unlike the formatter it also shows the records of the group itself (`kind` "GROUP_METADATA").

Source: Apache Kafka 4.3.1, `CoordinatorRecordMessageFormatter`, `GroupCoordinatorRecordSerde`, `CoordinatorRecordJsonConverters`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError

from kitlib.errors import LabError
from kitlib.lab.clients import Cluster
from kitlib.lab.java_client import JavaClient, message_of
from kitlib.lab.offsets_topic import OffsetsTopic


@dataclass(frozen=True, slots=True)
class StockRecord:
    """One record, as Kafka's classes read it."""

    partition: int
    kind: str  # "OFFSET_COMMIT", "GROUP_METADATA", ...
    key: dict[str, Any]
    value: dict[str, Any] | None  # None: a tombstone


def dump_offsets(cluster: Cluster, group: str) -> list[StockRecord]:
    """All records of one group that lie in the topic now, in the order of the log. LabError when Kafka's classes refuse one."""
    found = []
    with JavaClient.open() as java, OffsetsTopic.open(cluster) as topic:
        coordinator, wrap = java.jvm.org.apache.kafka.coordinator.group, java.jvm.java.nio.ByteBuffer.wrap
        serde, to_json = coordinator.GroupCoordinatorRecordSerde(), coordinator.generated.CoordinatorRecordJsonConverters
        kinds = coordinator.generated.CoordinatorRecordType
        for partition in range(topic.partitions()):
            for raw in topic.read(partition):
                if raw.key is None or group.encode() not in raw.key:
                    continue
                try:
                    record = serde.deserialize(wrap(raw.key), None if raw.value is None else wrap(raw.value))
                    key, value = record.key(), record.value()
                    kind = str(kinds.fromId(key.apiKey()).name())
                    told = json.loads(str(to_json.writeRecordKeyAsJson(key).toString()))
                    held = None
                    if value is not None:
                        held = json.loads(str(to_json.writeRecordValueAsJson(value.message(), value.version()).toString()))
                except Py4JJavaError as error:
                    raise LabError(f"__consumer_offsets-{partition}: Kafka's classes refuse a record: {message_of(error)}.") from None
                if told.get("group") == group:
                    found.append(StockRecord(partition, kind, told, held))
    return found
