"""Java's producer whose batches get no answer: when the user is told, by which of two timeouts, and what is true.

A proxy withholds the answers, or stops reading the requests. After `request.timeout.ms` without an answer the
client gives the connection up and sends again; after `delivery.timeout.ms` it gives the batch up and tells the
user. What was told and what is in the topic are two questions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from kitlib.errors import LabError
from kitlib.experiments.real_producers import Java, finish
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.experiments.topic_reader import PARTITION
from kitlib.lab.clients import Cluster, java_config
from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule

DEADLINE_S = 20.0
WARM_UP = 1  # record 0 goes all the way
RULES = {"accepts and never answers": Rule("stop_reading", "any"), "writes and never answers": Rule("withhold", "Produce")}


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


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a user was told that a record failed, or that a client does not start."""

    request_timeout_ms: int
    delivery_timeout_ms: int
    linger_ms: int
    told_after_ms: int | None  # None: it does not start
    error: str


def expiries(cluster: Cluster, topic: str, settings: Sequence[Mapping[str, int]]) -> list[Expiry]:
    """For each of these settings one producer, all at once, whose requests the broker never sees.

    Each of `settings` has request_timeout_ms, delivery_timeout_ms and linger_ms. LabError when a client tells
    nothing long after its timeouts.
    """
    found: list[Expiry] = []
    settings = sorted(settings, key=lambda given: given["delivery_timeout_ms"])
    with JavaClient.open() as java, ChaosProxy.before(cluster) as proxy:
        proxy.add(Rule("stop_reading", "Produce"))
        waiting, access = [], {"bootstrap.servers": proxy.bootstrap, **java_config(proxy.cluster)}
        for given in settings:
            wanted = {name.replace("_", "."): value for name, value in given.items()}
            try:
                producer = java.producer(wanted | access | {"enable.idempotence": False})
            except RefusedSettings as error:
                found.append(Expiry(**given, told_after_ms=None, error=str(error)))
                continue
            java.partitions(producer, topic)
            began = time.monotonic()  # before the call: the client's clock starts within it
            waiting.append((given, producer, java.send(producer, topic, PARTITION, b"0"), began))
        try:
            for given, _, future, began in waiting:
                _, told = java.outcome(future, given["delivery_timeout_ms"] / 1000 + DEADLINE_S)
                if not told:
                    raise LabError(f"Java's client with {dict(given)} has reported nothing about its record. Look at `kit status`.")
                found.append(Expiry(**given, told_after_ms=int((time.monotonic() - began) * 1000), error=told))
        finally:
            for _, producer, _, _ in waiting:
                java.close_at_once(producer)
    return found
