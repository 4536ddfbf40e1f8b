"""Java's producer, and what keeps its `send()` waiting, or its batches without an answer.

The faults are real ones. A dead bootstrap address is a port at which nobody listens; a missing topic is one
that was never made (the kit's broker makes none by itself); a wrong advertised address is what a proxy makes of
the right one, a port at which nobody listens; and a broker that does not answer is one behind a proxy that has
stopped reading, or withholds the answers.

`send()` throws nothing in these cases: it returns, late, a Future that has failed already. After `request.timeout.ms`
without an answer the client gives the connection up and sends again; after `delivery.timeout.ms` it gives the batch up
and tells the user. What was told and what is in the topic are two questions.
Source: kafka-clients 4.3.1, KafkaProducer.doSend, waitOnMetadata; BufferPool.allocate.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import PARTITION
from kitlib.experiments.real_producers import Java, finish
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.lab.clients import java_config
from kitlib.lab.java_client import JavaClient
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule

BLOCKED = 0.9  # of max.block.ms: after such a wait one looks whether the send has failed already
HELD_BACK_MS = 150  # the first answer, where the first send shall come before it
DEADLINE_S = 20.0
REASONS = {"BufferExhaustedException": "memory"}
WARM_UP = 1  # record 0 goes all the way
RULES = {"accepts and never answers": Rule("stop_reading", "any"), "writes and never answers": Rule("withhold", "Produce")}


def blocked_send(run: RealSend) -> None:
    """A few sends one after the other; each tells how long it took to return, then what became of the record."""
    settings = run.settings
    with JavaClient.open() as java, _fault(run, settings.fault) as (access, topic, wait):
        run.note("client", "version", name=f"kafka-clients {java.version}")
        config = {
            **access, "max.block.ms": settings.max_block_ms, "linger.ms": settings.linger_ms,
            "delivery.timeout.ms": settings.delivery_timeout_ms, "request.timeout.ms": settings.request_timeout_ms,
            "buffer.memory": settings.buffer_memory, "batch.size": settings.batch_size, "retry.backoff.ms": settings.retry_backoff_ms,
        }  # fmt: skip
        producer = java.producer(config)
        try:
            if settings.first_send_after_ms or settings.fault == "buffer full":  # where metadata is not what is waited for
                wait()
            time.sleep(settings.first_send_after_ms / 1000)
            _send_all(run, java, producer, topic, settings.records, settings.record_bytes)
        finally:
            java.close_at_once(producer)
    run.create_topic()  # it may be the missing one
    run.read()


def _send_all(run: RealSend, java: JavaClient, producer: Any, topic: str, records: int, record_bytes: int) -> None:
    futures = []
    for record in range(records):
        value = (b"%d" % record).ljust(record_bytes)
        began_ms = run.now_ms
        futures.append(java.send(producer, topic, PARTITION, value))
        waited_ms = run.now_ms - began_ms
        _, error = java.outcome(futures[-1], 0.001) if waited_ms >= BLOCKED * run.settings.max_block_ms else (None, "")
        if error:
            run.note("user", "blocked", at_ms=began_ms, record=record, on=REASONS.get(error, "metadata"))
        run.sent(record, waited_ms=waited_ms)
        if error:
            run.told(record, error, -1, waited_ms=waited_ms)
    told = {data["first"] for _, _, what, data in run.happened if what == "undelivered"}
    deadline = time.monotonic() + run.settings.delivery_timeout_ms / 1000 + DEADLINE_S
    for record in range(records):
        if record not in told:
            offset, error = java.outcome(futures[record], max(0.01, deadline - time.monotonic()))
            if offset is None and not error:
                raise LabError(f"run {run.trace.run}: Java's client reports nothing about record {record}. Look at `kit status`.")
            run.told(record, error, -1 if offset is None else offset)


@contextmanager
def _fault(run: RealSend, cause: str) -> Iterator[tuple[dict[str, str], str, Callable[[], None]]]:
    """While it lasts: how the client is to connect, the topic, and a call that waits until it has had its first metadata."""
    if cause != "none":
        run.note("network", "fault", cause=cause)
    topic = run.topic if cause == "missing topic" else run.create_topic()
    with socket.socket() as nobodys:
        nobodys.bind(("127.0.0.1", 0))  # taken, and nobody listens
        nowhere = nobodys.getsockname()[1]
        if cause == "dead bootstrap":
            yield {"bootstrap.servers": f"127.0.0.1:{nowhere}"}, topic, lambda: None
            return
        leads_to = nowhere if cause == "wrong advertised address" else 0
        with ChaosProxy.before(run.cluster, watch=("Metadata",), leads_to=leads_to) as proxy:
            if cause == "buffer full":
                proxy.add(Rule("stop_reading", "Produce"))
            if leads_to and not run.settings.first_send_after_ms:
                proxy.add(Rule("delay_answer", "ApiVersions", count=1, ms=HELD_BACK_MS))
            yield {"bootstrap.servers": proxy.bootstrap, **java_config(proxy.cluster)}, topic, lambda: proxy.wait_for(
                lambda: any((each.what, each.api) == ("answer", "Metadata") for each in proxy.events), DEADLINE_S, "metadata was answered"
            )


def expired_batch(run: RealSend) -> None:
    """One record gets through; then the broker is gone, and the others are sent. Each is told, and the topic is read."""
    settings, topic = run.settings, run.create_topic()
    config = {
        "linger.ms": settings.linger_ms, "request.timeout.ms": settings.request_timeout_ms, "retries": settings.retries,
        "delivery.timeout.ms": settings.delivery_timeout_ms, "retry.backoff.ms": settings.retry_backoff_ms,
        # Batches are what is watched: a client that has lost its only broker and forgets its metadata would, now and
        # then, keep a call waiting for max.block.ms instead.
        "metadata.recovery.strategy": "none",
    }  # fmt: skip
    with JavaClient.open() as java, ExitStack() as stack:
        proxy = stack.enter_context(ChaosProxy.before(run.cluster, watch=("Produce",)))
        run.note("client", "version", name=f"kafka-clients {java.version}")
        client = Java(java, proxy.cluster, topic, run.told, config)
        stack.callback(client.close)
        run.sent(0)
        client.send(0)
        finish(client, DEADLINE_S)
        run.note("network", "fault", cause=settings.stall)
        began_s = time.monotonic()
        if settings.stall in RULES:
            proxy.add(RULES[settings.stall])
        else:
            proxy.stop()  # its port refuses from now on
        for record in range(WARM_UP, WARM_UP + settings.records):
            run.sent(record)
            client.send(record)
        if settings.stall_ms < settings.delivery_timeout_ms:
            time.sleep(max(0.0, began_s + settings.stall_ms / 1000 - time.monotonic()))
            run.note("network", "fault", cause="none")
            if settings.stall in RULES:
                proxy.clear()
                proxy.release()
            else:
                stack.enter_context(ChaosProxy.before(run.cluster, port=proxy.port))
        finish(client, settings.delivery_timeout_ms / 1000 + DEADLINE_S)
    run.read()
