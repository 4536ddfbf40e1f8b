"""What a transactional producer tells whoever uses it wrongly: the kit's model, librdkafka and Java's client, read from themselves.

Each case is a few calls on a fresh producer, of which the last one is the mistake. What the user is told is
the client's own word; where a client tells nothing and waits, the table says for how long it was waited.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as RdTopicPartition
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError

from kitlib.errors import KnobError
from kitlib.experiments.kafka_backend import create_topic
from kitlib.experiments.transactions.model_transactions import MISUSED, ModelTransactions
from kitlib.lab import kafka_server
from kitlib.lab.clients import SILENT, Cluster, client_config, java_config
from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.mechanisms.transactions.offsets import GroupIdentity
from kitlib.mechanisms.transactions.producer import ProducerMisusedError
from kitlib.text import html_table, text_table

CLIENTS = ("kit", "librdkafka", "java")
COLUMNS = ("case", "client", "told at", "says", "then")
WAIT_S = 1.5  # a client that has told nothing for so long is not waited for, where it is known to tell nothing
DEADLINE_S = 20.0  # elsewhere a client or the broker may be slow
TOO_LONG = 40_000  # characters of an id: a text of the coordinator's log has at most 32,767 bytes
ABOVE_MAXIMUM_MS = 900_001  # transaction.max.timeout.ms of the kit's brokers is Kafka's own


@dataclass(frozen=True, slots=True)
class Case:
    """Calls on a fresh producer, and the settings it is made with."""

    calls: tuple[str, ...]
    id_chars: int = 20
    timeout_ms: int = 60_000
    wait_s: float = DEADLINE_S  # the longest that a call waits


CASES: dict[str, Case] = {
    "begin before init": Case(("begin",)),
    "init twice": Case(("init", "init")),
    "begin twice": Case(("init", "begin", "begin")),
    "commit without begin": Case(("init", "commit")),
    "abort without begin": Case(("init", "abort")),
    "send outside of a transaction": Case(("init", "send")),
    "offsets outside of a transaction": Case(("init", "send_offsets")),
    "timeout above the broker's maximum": Case(("init",), timeout_ms=ABOVE_MAXIMUM_MS),
    "empty id": Case(("init",), id_chars=0),
    "id too long": Case(("init",), id_chars=TOO_LONG, wait_s=WAIT_S),
}


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """What one client said in one case."""

    case: str
    client: str
    at: str  # "start", or the call
    says: str  # the error's name; "nothing" when it did what was asked for; "waits" when it told nothing
    then: str  # "closed": the producer can only be closed; "goes on": it can be used; "" when it never was
    message: str = ""

    def cells(self) -> tuple[str, ...]:
        """In the order of COLUMNS."""
        return self.case, self.client, self.at, self.says, self.then


@dataclass(frozen=True, slots=True)
class RefusalTable:
    """What each client says in each case."""

    rows: tuple[RefusalRow, ...]

    def says(self, case: str, client: str) -> RefusalRow:
        """The row of a case. KnobError when there is none."""
        for row in self.rows:
            if (row.case, row.client) == (case, client):
                return row
        raise KnobError(
            f"the table has no row '{case}' of {client}; its cases are {', '.join(CASES)}, its clients {', '.join(CLIENTS)}."
        )

    def __repr__(self) -> str:
        return "\n".join(text_table([COLUMNS, *(row.cells() for row in self.rows)], left=len(COLUMNS)))

    def _repr_html_(self) -> str:
        return html_table(COLUMNS, (row.cells() for row in self.rows))


def refusal_table(clients: Sequence[str] = ("kit",), cases: Sequence[str] = tuple(CASES)) -> RefusalTable:
    """What `clients` say in `cases`. The kit's needs no broker; "librdkafka" and "java" are asked themselves, with one.

    KnobError for another client or case, LabError when no broker or no Java can be had.
    """
    if not set(clients) <= set(CLIENTS) or not set(cases) <= CASES.keys():
        raise KnobError(
            f"refusal_table: clients are {tuple(clients)} and cases {tuple(cases)}, expected clients of {', '.join(CLIENTS)} "
            f"and cases of {', '.join(CASES)}."
        )
    with ExitStack() as undo:
        ask: dict[str, Callable[[str], RefusalRow]] = {"kit": _by_the_kit}
        if set(clients) != {"kit"}:
            cluster, topic = kafka_server.ensure(), f"kit.refusals-{uuid.uuid4().hex[:8]}.output"
            create_topic(AdminClient(client_config(cluster)), topic, 1, {"retention.ms": "-1"})
            ask["librdkafka"] = partial(_by_librdkafka, cluster, topic)
            if "java" in clients:
                ask["java"] = partial(_by_java, undo.enter_context(JavaClient.open()), cluster, topic)
        return RefusalTable(tuple(ask[client](case) for case in cases for client in clients))


def _id_of(case: Case) -> str:
    return (uuid.uuid4().hex + "x" * case.id_chars)[: case.id_chars]


def _by_the_kit(name: str) -> RefusalRow:
    case = CASES[name]
    broker = ModelTransactions()
    try:
        producer = broker.start("producer", _id_of(case), case.timeout_ms, 2)
    except KnobError as error:
        return RefusalRow(name, "kit", "start", type(error).__name__, "", str(error))
    for call in case.calls:
        told = producer.do(call, [0], offset=1, group=GroupIdentity(broker.group))
        if told.error:
            says = ProducerMisusedError.__name__ if told.error == MISUSED else told.error
            return RefusalRow(name, "kit", call, says, "closed" if told.is_fatal else "goes on", told.said)
    return RefusalRow(name, "kit", case.calls[-1], "nothing", "goes on")


def _by_librdkafka(cluster: Cluster, topic: str, name: str) -> RefusalRow:
    case = CASES[name]
    settings = {"transactional.id": _id_of(case), "transaction.timeout.ms": case.timeout_ms, "log_level": 0}
    producer = Producer(client_config(cluster, **settings), logger=SILENT)
    ways: dict[str, Callable[[], object]] = {
        "init": lambda: producer.init_transactions(case.wait_s),
        "begin": producer.begin_transaction,
        "commit": lambda: producer.commit_transaction(case.wait_s),
        "abort": lambda: producer.abort_transaction(case.wait_s),
        "send": lambda: producer.produce(topic, b"0"),
        "send_offsets": lambda: _rd_offsets(producer, cluster, topic),
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


def _rd_offsets(producer: Producer, cluster: Cluster, topic: str) -> None:
    with closing(Consumer(client_config(cluster, **{"group.id": f"{topic}.group"}))) as consumer:
        producer.send_offsets_to_transaction([RdTopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), DEADLINE_S)


def _by_java(java: JavaClient, cluster: Cluster, topic: str, name: str) -> RefusalRow:
    case = CASES[name]
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": _id_of(case),
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
                then = "" if waited else _then_of_java(producer)
                return RefusalRow(name, "java", call, "waits" if waited else kind, then, str(thrown.getMessage()))
        return RefusalRow(name, "java", case.calls[-1], "nothing", "goes on")
    finally:
        java.close_at_once(producer)


def _then_of_java(producer: Any) -> str:
    """Whether it can begin a transaction after the error, which an abort may have to come before."""
    for call in (producer.abortTransaction, producer.initTransactions, producer.beginTransaction):
        try:
            call()
        except Py4JJavaError:
            continue
        return "goes on"
    return "closed"
