"""Programs as teams have them, right ones and wrong ones, for `kit trial`: python -m tests.trial.trial_programs NAME."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

NAMES = ("BOOTSTRAP", "TOPIC", "GROUP", "OUT", "OUT_TOPIC")
BOOTSTRAP, TOPIC, GROUP, OUT, OUT_TOPIC = (os.environ.get(f"KIT_{name}", "") for name in NAMES)
ENDS: list[int] = []
WORK_S = 0.002  # of a consumer at one record


def librdkafka_producer(flushes: bool = True, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "log_level": 0, "batch.num.messages": 20, **settings})
    for line in sys.stdin:
        producer.produce(TOPIC, line.rstrip("\n"), on_delivery=lambda error, sent: print("fail" if error else "ack", sent.value().decode()))
        producer.poll(0)
    if flushes:
        producer.flush()
    else:
        os._exit(0)


def kafka_python_producer() -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True, batch_size=200)
    futures = [(line.rstrip("\n"), producer.send(TOPIC, line.rstrip("\n").encode())) for line in sys.stdin]
    producer.flush()
    for value, future in futures:
        print("ack" if future.succeeded() else "fail", value)


def java_producer() -> None:
    from kitlib.lab.java_client import JavaClient

    with JavaClient.open() as java:
        producer = java.producer({"bootstrap.servers": BOOTSTRAP, "batch.size": 200})
        futures = [(line.rstrip("\n"), java.send(producer, TOPIC, 0, line.rstrip("\n").encode())) for line in sys.stdin]
        for value, future in futures:
            print("ack" if java.outcome(future, 150)[0] is not None else "fail", value)
        producer.close()


async def aiokafka_producer() -> None:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True, max_batch_size=2000) as producer:
        values = [line.rstrip("\n") for line in sys.stdin]
        futures = [await producer.send(TOPIC, value.encode()) for value in values]
        for value, told in zip(values, await asyncio.gather(*futures, return_exceptions=True), strict=True):
            print("fail" if isinstance(told, BaseException) else "ack", value)


def librdkafka_records(**settings: Any) -> Iterator[tuple[Any, Any]]:
    consumer = Consumer({
        "bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "enable.auto.commit": False, "session.timeout.ms": 6000, "log_level": 0,
        **settings,
    })  # fmt: skip
    consumer.subscribe([TOPIC])
    while not ENDS:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            time.sleep(WORK_S)
            yield consumer, message
    consumer.close()


def finish(value: bytes) -> None:
    with open(OUT, "a") as out:
        out.write(f"{value.decode()}\n")


def commits(consumer: Any, message: Any) -> None:
    try:
        consumer.commit(message, asynchronous=False)
    except KafkaException as error:  # of a rebalance, or lost on its way: the next commit covers it
        print(error.args[0].str())


def commits_after() -> None:
    for consumer, message in librdkafka_records():
        finish(message.value())
        commits(consumer, message)


def commits_before() -> None:
    waiting = []
    for consumer, message in librdkafka_records():
        waiting.append(message.value())
        if len(waiting) == 10:
            commits(consumer, message)
            for value in waiting:
                time.sleep(0.02)
                finish(value)
            waiting.clear()


def auto_commits() -> None:
    for _, message in librdkafka_records(**{"enable.auto.commit": True, "auto.commit.interval.ms": 200}):
        finish(message.value())


def skips_what_fails() -> None:
    for consumer, message in librdkafka_records():
        if message.value() != b"77":
            finish(message.value())
        commits(consumer, message)


def reads_again() -> None:
    is_first = True
    for consumer, message in librdkafka_records():
        finish(message.value())
        commits(consumer, message)
        if message.offset() == 150 and is_first:
            is_first = False
            time.sleep(0.5)
            consumer.seek(TopicPartition(TOPIC, message.partition(), 120))


def kafka_python_consumer() -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, enable_auto_commit=False, max_poll_records=20, session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )  # fmt: skip
    while not ENDS:
        for records in consumer.poll(2_000).values():  # 3.0.12 forgets a second join that outlasts the poll in which it began
            for record in records:
                time.sleep(WORK_S)
                finish(record.value)
        try:
            consumer.commit()
        except KafkaError as error:
            print(error)
    consumer.close()


async def aiokafka_consumer() -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    options = {"bootstrap_servers": BOOTSTRAP, "group_id": GROUP, "session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    async with AIOKafkaConsumer(TOPIC, enable_auto_commit=False, **options) as consumer:
        while not ENDS:
            for records in (await consumer.getmany(timeout_ms=200, max_records=20)).values():
                for record in records:
                    await asyncio.sleep(WORK_S)
                    finish(record.value)
            try:
                await consumer.commit()
            except KafkaError as error:
                print(repr(error))


def transactional() -> None:
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": GROUP, "log_level": 0})
    producer.init_transactions()
    for consumer, message in librdkafka_records():
        producer.begin_transaction()
        producer.produce(OUT_TOPIC, message.value())
        try:
            producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
            producer.commit_transaction()
        except KafkaException as error:  # of a session that ran out: a heartbeat lost is half of it
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction()
            with suppress(KafkaException):  # the partition is lost, and will be read from what is committed
                consumer.seek(TopicPartition(TOPIC, message.partition(), message.offset()))


def spark_query() -> None:
    from kitlib.spark.sessions import session

    with tempfile.TemporaryDirectory() as checkpoint:
        options = {"kafka.bootstrap.servers": BOOTSTRAP, "subscribe": TOPIC, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
        stream = session().readStream.format("kafka").options(**options).load()

        def write(batch: Any, number: int) -> None:
            for row in batch.select("value").collect():
                finish(bytes(row.value))

        query = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
        while not ENDS and query.isActive:
            query.awaitTermination(0.5)
        query.stop()


PROGRAMS = {
    "idempotent": lambda: librdkafka_producer(**{"enable.idempotence": True}),
    "retries": lambda: librdkafka_producer(**{"enable.idempotence": False}),
    "no_flush": lambda: librdkafka_producer(flushes=False, **{"linger.ms": 500}),
    "gives_up": lambda: librdkafka_producer(**{"enable.idempotence": False, "retries": 0, "message.timeout.ms": 5000}),
    "aiokafka_producer": lambda: asyncio.run(aiokafka_producer()), "aiokafka_consumer": lambda: asyncio.run(aiokafka_consumer()),
    "kafka_python_producer": kafka_python_producer, "java_producer": java_producer,
    "commits_after": commits_after, "commits_before": commits_before, "auto_commits": auto_commits, "skips_what_fails": skips_what_fails,
    "reads_again": reads_again, "kafka_python_consumer": kafka_python_consumer, "transactional": transactional, "spark_query": spark_query,
}  # fmt: skip

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: ENDS.append(1))
    PROGRAMS[sys.argv[1]]()
