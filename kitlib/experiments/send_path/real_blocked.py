"""Java's producer, and what keeps its `send()` waiting: no metadata, or no room in its memory.

The faults are real ones. A dead bootstrap address is a port at which nobody listens; a missing topic is one
that was never made (the kit's broker makes none by itself); a wrong advertised address is what a proxy makes of
the right one, a port at which nobody listens; and a broker that does not answer is one behind a proxy that has
stopped reading.

`send()` throws nothing in these cases: it returns, late, a Future that has failed already.
Source: kafka-clients 4.3.1, KafkaProducer.doSend, waitOnMetadata; BufferPool.allocate.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kitlib.errors import LabError
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.experiments.topic_reader import PARTITION
from kitlib.lab.clients import java_config
from kitlib.lab.java_client import JavaClient
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule

BLOCKED = 0.9  # of max.block.ms: after such a wait one looks whether the send has failed already
HELD_BACK_MS = 150  # the first answer, where the first send shall come before it
WAIT_S = 20.0
REASONS = {"BufferExhaustedException": "memory"}


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
            _send_all(run, java, producer, topic)
        finally:
            java.close_at_once(producer)
    run.create_topic()  # it may be the missing one
    run.read()


def _send_all(run: RealSend, java: JavaClient, producer: Any, topic: str) -> None:
    count, futures = run.settings.records, []
    for record in range(count):
        value = (b"%d" % record).ljust(run.settings.record_bytes)
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
    deadline = time.monotonic() + run.settings.delivery_timeout_ms / 1000 + WAIT_S
    for record in range(count):
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
                lambda: any((event.what, event.api) == ("answer", "Metadata") for event in proxy.events), WAIT_S, "metadata was answered"
            )
