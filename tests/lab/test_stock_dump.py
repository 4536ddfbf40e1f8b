"""Kafka's own classes and the kit's decoder read the same from the offsets topic of a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.stock_dump import dump_offsets
from kitlib.more.hashes import group_partition

pytestmark = pytest.mark.kafka


def test_dump_shows_every_commit_of_the_group_and_none_of_another(broker: Cluster) -> None:
    """Two commits and a deletion are three records in the group's partition, the last one a tombstone."""
    backend = KafkaBackend.open("stock-dump")
    try:
        topic = backend.create_topic("seen", 10)
        topic.append([b"a", b"b"])
        for group in ("kit.stock-dump", "kit.stock-dump-2"):
            member = Consumer(client_config(broker, **{"group.id": group, "enable.auto.commit": False}))
            for offset in (1, 2):
                member.commit(offsets=[TopicPartition(topic.name, 0, offset)], asynchronous=False)
            member.close()
        backend.admin.delete_consumer_groups(["kit.stock-dump"])["kit.stock-dump"].result(10)
        records = dump_offsets(broker, "kit.stock-dump")
    finally:
        backend.close()
    offsets = [record.value and record.value["offset"] for record in records if record.kind == "OFFSET_COMMIT"]
    assert offsets == [1, 2, None]
    assert {record.partition for record in records} == {group_partition("kit.stock-dump", 4)}
    assert records[0].key == {"group": "kit.stock-dump", "topic": "kit.stock-dump.seen", "partition": 0}
