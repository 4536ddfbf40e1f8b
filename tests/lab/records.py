"""Writes and reads records of a real broker and keeps the books: acknowledged, failed, unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kitlib.lab.kafka_server import Cluster, client_config
from kitlib.lab.processes import wait_until

TOPIC = "orders"


@dataclass
class Books:
    """What the broker said about each record; a record that timed out may or may not be there."""

    acknowledged: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)


def create_topic(cluster: Cluster, partitions: int = 1, copies: int = 1, **config: str) -> None:
    """Create the topic and wait until every partition has a leader."""
    admin = AdminClient(client_config(cluster))
    admin.create_topics([NewTopic(TOPIC, partitions, copies, config=config)])[TOPIC].result(10)

    def has_leaders() -> bool:
        found = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions.values()
        return len(found) == partitions and all(partition.leader > 0 for partition in found)

    wait_until(has_leaders, 15, "the topic has leaders")


def start_producer(cluster: Cluster, **more: Any) -> Producer:
    return Producer(client_config(cluster, **{"enable.idempotence": True, "linger.ms": 5, **more}))


def send(producer: Producer, books: Books, numbers: range, padding: int = 0, key: bytes | None = None) -> None:
    """Hand the numbers to the producer; their fate is booked when `producer.poll` or `flush` hears of it."""
    for number in numbers:

        def book(error: KafkaError | None, _message: Any, number: int = number) -> None:
            (books.unknown if error else books.acknowledged).add(number)

        while True:
            try:
                producer.produce(TOPIC, f"{number}:".encode() + b"." * padding, key, on_delivery=book)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)


def produce(cluster: Cluster, numbers: range, padding: int = 0, key: bytes | None = None, **more: Any) -> Books:
    """Send the numbers with an idempotent producer and wait for the fate of each."""
    books = Books()
    producer = start_producer(cluster, **more)
    send(producer, books, numbers, padding, key)
    assert producer.flush(60) == 0
    return books


def bounds(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Where a partition begins and ends; asked again while a broker that has just started does not lead it yet."""

    def told() -> tuple[int, int] | None:
        try:
            return consumer.get_watermark_offsets(place, timeout=20)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                raise
            return None

    return wait_until(told, 30, f"{place.topic}-{place.partition} has its leader")


def read_all(cluster: Cluster, reset: str = "error") -> Counter[int]:
    """How often each number is in the topic."""
    return Counter(read(cluster, TOPIC, reset))


def read(cluster: Cluster, topic: str, reset: str = "error") -> list[int]:
    """All numbers in a topic, those of a partition in their order, read with no group; `reset` for a topic whose start may move."""
    consumer = Consumer(client_config(cluster, **{
        "group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": reset, "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
    }))  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        places = []
        for number in partitions:
            low, _ = bounds(consumer, TopicPartition(topic, number))
            places.append(TopicPartition(topic, number, low))
        consumer.assign(places)
        found: list[int] = []
        open_partitions = set(partitions)
        while open_partitions:
            message = consumer.poll(20)
            assert message is not None, "the broker went silent in the middle of a read"
            if message.error() is None:
                found.append(int(message.value().split(b":")[0]))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise AssertionError(str(message.error()))
        return found
    finally:
        consumer.close()


def check_nothing_lost(cluster: Cluster, books: Books) -> None:
    """Acknowledged is sacred: each acknowledged number is there, once; only numbers of unknown fate may differ."""
    found = read_all(cluster)
    assert books.acknowledged <= found.keys(), f"lost: {sorted(books.acknowledged - found.keys())[:10]}"
    assert found.keys() <= books.acknowledged | books.unknown, "records nobody sent"
    assert not [number for number, times in found.items() if times > 1], "duplicates from an idempotent producer"
