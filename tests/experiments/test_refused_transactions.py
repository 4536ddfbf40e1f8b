"""What a misused transactional producer says: the kit's model at once, librdkafka and Java's client as they are."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as RdTopicPartition
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError

from kitlib.experiments.kafka_backend import create_topic
from kitlib.experiments.transactions.refused_transactions import (
    CASES,
    DEADLINE_S,
    RefusalRow,
    by_the_kit,
    id_of,
    refusal_table,
)
from kitlib.lab.clients import SILENT, Cluster, client_config, java_config
from kitlib.lab.java_client import JavaClient, RefusedSettings

CLIENTS = ("kit", "librdkafka", "java")
Said = dict[tuple[str, str], RefusalRow]  # by case and client


@pytest.fixture(scope="module")
def said(broker: Cluster) -> Said:
    """All three clients in all cases."""
    topic = f"kit.refusals-{uuid.uuid4().hex[:8]}.output"
    create_topic(AdminClient(client_config(broker)), topic, 1, {"retention.ms": "-1"})
    with JavaClient.open() as java:
        rows = [row for case in CASES for row in (by_the_kit(case), by_librdkafka(broker, topic, case), by_java(java, broker, topic, case))]
    return {(row.case, row.client): row for row in rows}


@pytest.mark.kafka
def test_every_client_refuses_a_call_that_does_not_fit_and_can_be_used_afterwards(said: Said) -> None:
    """Begun twice, committed without a begin, sent outside: each has its own word, and none of them is the end of it."""
    for case in (name for name, case in CASES.items() if case.id_chars == 20 and case.timeout_ms == 60_000):
        told = {client: said[case, client] for client in CLIENTS}
        assert {client: row.says for client, row in told.items()} == {
            "kit": "ProducerMisusedError", "librdkafka": "_STATE", "java": "IllegalStateException"
        }, case  # fmt: skip
        assert {row.then for row in told.values()} == {"goes on"}


@pytest.mark.kafka
def test_timeout_above_the_maximum_is_fatal_and_a_long_id_is_not_told(said: Said) -> None:
    """The broker names the timeout and ends the connection over the id; a client that hears nothing waits."""
    above = {client: said["timeout above the broker's maximum", client] for client in CLIENTS}
    assert [row.then for row in above.values()] == ["closed"] * 3 and "timeout is larger" in above["java"].message
    assert above["kit"].says == above["librdkafka"].says == "INVALID_TRANSACTION_TIMEOUT"
    assert [said["id too long", client].says for client in CLIENTS] == ["KnobError", "waits", "waits"]
    assert said["empty id", "java"].at == "start"


def test_table_of_the_kit_needs_no_broker() -> None:
    """One row for each case, as text and as HTML."""
    found = refusal_table()
    assert [row.case for row in found.rows] == list(CASES)
    assert repr(found).count("\n") == len(CASES) and found._repr_html_().count("<tr>") == len(CASES) + 1
    messages = {row.case: row.message for row in found.rows}
    assert "Call begin_transaction first" in messages["commit without begin"]
    assert "at most 32,767" in messages["id too long"]


def by_librdkafka(cluster: Cluster, topic: str, name: str) -> RefusalRow:
    case = CASES[name]
    settings = {"transactional.id": id_of(case), "transaction.timeout.ms": case.timeout_ms, "log_level": 0}
    producer = Producer(client_config(cluster, **settings), logger=SILENT)
    ways: dict[str, Callable[[], object]] = {
        "init": lambda: producer.init_transactions(case.wait_s),
        "begin": producer.begin_transaction,
        "commit": lambda: producer.commit_transaction(case.wait_s),
        "abort": lambda: producer.abort_transaction(case.wait_s),
        "send": lambda: producer.produce(topic, b"0"),
        "send_offsets": lambda: rd_offsets(producer, cluster, topic),
    }
    for call in case.calls:
        began = time.monotonic()
        try:
            ways[call]()
        except KafkaException as error:
            reason = error.args[0]
            waited = reason.name() == "_TIMED_OUT" and time.monotonic() - began >= case.wait_s / 2
            producer.purge()
            then = "closed" if reason.fatal() else "" if waited else "goes on"
            return RefusalRow(name, "librdkafka", call, "waits" if waited else reason.name(), then, reason.str())
    return RefusalRow(name, "librdkafka", case.calls[-1], "nothing", "goes on")


def rd_offsets(producer: Producer, cluster: Cluster, topic: str) -> None:
    with closing(Consumer(client_config(cluster, **{"group.id": f"{topic}.group"}))) as consumer:
        producer.send_offsets_to_transaction([RdTopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), DEADLINE_S)


def by_java(java: JavaClient, cluster: Cluster, topic: str, name: str) -> RefusalRow:
    case = CASES[name]
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": id_of(case),
                "transaction.timeout.ms": case.timeout_ms, "max.block.ms": int(case.wait_s * 1000), **java_config(cluster)}  # fmt: skip
    try:
        producer = java.producer(settings)
    except RefusedSettings as error:
        return RefusalRow(name, "java", "start", str(error).partition(":")[0], "", str(error))
    clients, offset = java.jvm.org.apache.kafka.clients, java.jvm.java.util.HashMap()
    offset.put(java.jvm.org.apache.kafka.common.TopicPartition(topic, 0), clients.consumer.OffsetAndMetadata(1))
    ways: dict[str, Callable[[], Any]] = {
        "init": producer.initTransactions,
        "begin": producer.beginTransaction,
        "commit": producer.commitTransaction,
        "abort": producer.abortTransaction,
        "send": lambda: producer.send(clients.producer.ProducerRecord(topic, 0, None, b"0")),
        "send_offsets": lambda: producer.sendOffsetsToTransaction(offset, clients.consumer.ConsumerGroupMetadata(f"{topic}.group")),
    }
    try:
        for call in case.calls:
            try:
                ways[call]()
            except Py4JJavaError as error:
                thrown = error.java_exception
                kind = str(thrown.getClass().getSimpleName())
                waited = kind == "TimeoutException"
                then = "" if waited else then_of_java(producer)
                return RefusalRow(name, "java", call, "waits" if waited else kind, then, str(thrown.getMessage()))
        return RefusalRow(name, "java", case.calls[-1], "nothing", "goes on")
    finally:
        java.close_at_once(producer)


def then_of_java(producer: Any) -> str:
    """Whether it can begin a transaction after the error, which an abort may have to come before."""
    for call in (producer.abortTransaction, producer.initTransactions, producer.beginTransaction):
        try:
            call()
        except Py4JJavaError:
            continue
        return "goes on"
    return "closed"
