"""The stock clients, unchanged, through the chaos proxy: what Java's and librdkafka's producers really do.

The other experiments drive the kit's own client, request by request. Here three finished clients send
to the real broker in real time, each record in a batch of its own, while the proxy holds their answers
back; then the broker is restarted, or only the connection is cut. The trace has the words of
`kitlib.monitor.producing`, so the same verdict is reached.

    trace = restart_with_answers_withheld("java", how="kill")
    judge(trace).sentence

Left out: what goes on inside of a client that is not ours; only what it is given, what it tells, what
the proxy saw and what the topic holds.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import create_topic, publish
from kitlib.experiments.kafka_group import DEADLINE_S
from kitlib.experiments.topic_reader import PARTITION, TopicReader
from kitlib.lab import kafka_server
from kitlib.lab.clients import SILENT, Cluster, client_config, java_config, librdkafka_config, must_be_own
from kitlib.lab.java_client import JavaClient
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.settings import Settings
from kitlib.trace import Trace, in_log_order

CLIENTS = ("java", "librdkafka")
RESTARTS = ("no", "clean", "kill")
COUNTS = range(1, 101)  # of records, each of which is a request that is waited for, and of requests in flight

Outcome = tuple[int, int | None, str]  # (record, offset or None, error or "")


class LibrdkafkaProducer:
    """confluent-kafka, which is librdkafka."""

    def __init__(self, bootstrap: str, settings: dict[str, Any]) -> None:
        import confluent_kafka

        self.version = f"librdkafka {confluent_kafka.libversion()[0]}"
        self.told: dict[int, Outcome] = {}
        self.sent = 0
        own = {"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 1, "log_level": 0,
               "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}  # fmt: skip
        self.producer = Producer(own | settings, logger=SILENT)

    def send(self, topic: str, record: int) -> None:
        """Hand over one record, to leave at once in a batch of its own."""
        def note(error: KafkaError | None, message: Message) -> None:
            offset = None if error else int(message.offset() or 0)
            self.told[record] = record, offset, error.name() if error else ""

        self.producer.produce(topic, value=b"%d" % record, partition=PARTITION, on_delivery=note)
        self.producer.poll(0)
        self.sent += 1

    def outcomes(self, timeout_s: float) -> list[Outcome]:
        """What the user was told of each record, once it was told of all of them or the time is over."""
        deadline = time.monotonic() + timeout_s
        while len(self.told) < self.sent and time.monotonic() < deadline:
            with suppress(KafkaException):  # a fatal one is raised here, once; what it means for each record follows
                self.producer.poll(0.1)
        return [self.told[record] for record in sorted(self.told)]


class JavaProducer:
    """Kafka's own client, in a JVM of its own."""

    def __init__(self, java: JavaClient, bootstrap: str, settings: dict[str, Any]) -> None:
        self.version = f"kafka-clients {java.version}"
        self.java = java
        self.producer = java.producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.size": 1} | settings)
        self.futures: list[Any] = []

    def send(self, topic: str, record: int) -> None:
        self.futures.append(self.java.send(self.producer, topic, PARTITION, b"%d" % record))

    def outcomes(self, timeout_s: float) -> list[Outcome]:
        deadline = time.monotonic() + timeout_s
        told: list[Outcome] = []
        for record, future in enumerate(self.futures):
            offset, error = self.java.outcome(future, max(0.01, deadline - time.monotonic()))
            if offset is not None or error:
                told.append((record, offset, error))
        return told


def restart_with_answers_withheld(
    client: str, how: str = "kill", *, max_in_flight: int = 5, records: int = 5, idempotence: bool = True
) -> Trace:
    """So many records are written and their answers held back; the broker is restarted, and the answers are lost.

    `client` is "java" or "librdkafka"; `how` is "kill", "clean", or "no" (the connection is only cut).
    KnobError for anything else, and for `records` (1 to 100) or `max_in_flight` (1 to 100) outside their
    ranges; LabError when the client refuses its settings, as with six in flight and idempotence, or when a
    part of the lab does not answer in time. The last step, `batches`, lists what the topic holds, batch by batch.
    """
    if client not in CLIENTS or how not in RESTARTS:
        raise KnobError(
            f"restart_with_answers_withheld: client is {client!r} and how is {how!r}, expected client one of "
            f"{', '.join(CLIENTS)} and how one of {', '.join(RESTARTS)}."
        )
    for name, number in (("records", records), ("max_in_flight", max_in_flight)):
        if number not in COUNTS:
            raise KnobError(f"restart_with_answers_withheld: {name} is {number!r}, expected {COUNTS[0]} to {COUNTS[-1]}.")
    cluster = kafka_server.ensure()
    if how != "no":
        must_be_own(cluster, "a restart")
    run = f"stock-{client}-{uuid.uuid4().hex[:8]}"
    topic = f"kit.{run}.events"
    create_topic(AdminClient(client_config(cluster)), topic, 1, {"retention.ms": "-1"})
    told = Settings(client=client, restart=how, max_in_flight=max_in_flight, records=records, idempotence=idempotence)
    trace = Trace(run, "stock_client_restart", "kafka", settings=told, domain="idempotence")
    settings = {
        "enable.idempotence": str(idempotence).lower(), "max.in.flight.requests.per.connection": max_in_flight,
        "acks": "all", "retry.backoff.ms": 100,
    }  # fmt: skip
    where = {"topic": topic, "partition": PARTITION}
    began = time.monotonic()

    def note(actor: str, what: str, **data: Any) -> None:
        trace.record(int((time.monotonic() - began) * 1000), actor, what, **data)

    with ChaosProxy.before(cluster, watch=("Produce",)) as proxy, _producer(client, proxy, settings) as producer:
        note(client, "client", version=producer.version)
        def seen(what: str) -> int:
            return sum(event.what == what and event.api == "Produce" for event in proxy.events)

        proxy.add(Rule("withhold", "Produce"))
        out = min(max_in_flight, records)
        for record in range(records):
            producer.send(topic, record)
            note("producer", "send", **where, batch=record, first=record, last=record)
            left = min(out, record + 1)  # so that the next record does not join this batch
            proxy.wait_for(partial(lambda wanted: seen("request") >= wanted, left), DEADLINE_S, f"{left} batches have left")
        proxy.wait_for(lambda: seen("answer") >= out, DEADLINE_S, f"{out} batches are written")
        note("network", "withhold", **where, answers=out)
        proxy.clear()
        if how != "no":
            kafka_server.restart(how)
            note("broker", "restart", **where, how=how)
        proxy.cut()
        note("network", "cut")
        for record, offset, error in producer.outcomes(DEADLINE_S):
            if error:
                note("producer", "undelivered", **where, batch=record, first=record, last=record, error=error)
            else:
                note("producer", "delivered", **where, batch=record, first=record, last=record, offset=offset)
    _read(cluster, topic, note, where)
    publish(trace, cluster)
    return trace


def _read(cluster: Cluster, topic: str, note: Callable[..., None], where: dict[str, Any]) -> None:
    """What the topic holds: its records in log order, and its batches with their producers' numbers."""
    with TopicReader.open(cluster, topic) as reader:
        first, _ = reader.bounds()
        batches = reader.batches()
    ids = list(dict.fromkeys(batch.producer_id for batch in batches))  # the broker's choice: told as 0, 1, ... here
    found = [[batch.base_offset, ids.index(batch.producer_id), batch.epoch, batch.base_sequence] for batch in batches]
    records = (int(value) for batch in batches for value in batch.values)
    note("broker", "read", **where, first_offset=first, records=in_log_order(records))
    note("broker", "batches", **where, columns=["offset", "producer", "epoch", "sequence"], batches=found)


@contextmanager
def _producer(client: str, proxy: ChaosProxy, settings: dict[str, Any]) -> Iterator[LibrdkafkaProducer | JavaProducer]:
    """The client, connected through the proxy; let go of in the end, whatever it still has in hand."""
    if client == "java":
        with JavaClient.open() as java:
            producer = JavaProducer(java, proxy.bootstrap, settings | java_config(proxy.cluster))
            try:
                yield producer
            finally:
                java.close_at_once(producer.producer)
        return
    try:
        librdkafka = LibrdkafkaProducer(proxy.bootstrap, settings | librdkafka_config(proxy.cluster))
    except (KafkaException, ValueError, TypeError) as error:
        raise LabError(f"librdkafka does not start with {settings}: {error}. Change them.") from error
    try:
        yield librdkafka
    finally:
        librdkafka.producer.purge()  # no flush: it would call Python back with a fatal error pending
