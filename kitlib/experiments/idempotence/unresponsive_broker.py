"""A topic that never appears, a broker that accepts and never answers: what three finished clients really do.

Each client sends one record, with the same timeouts, and is watched from outside: how long it takes to be
made, how long the call of send takes, when the user is told and in which words.
"""

from __future__ import annotations

import gc
import logging
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import PARTITION
from kitlib.experiments.real_producers import LIBRDKAFKA
from kitlib.lab.clients import SILENT, Cluster, java_config, kafka_python_config, librdkafka_config
from kitlib.lab.java_client import JavaClient

CLIENTS = ("java", "librdkafka", "kafka-python")
TROUBLES = ("missing topic", "silent broker")
MAX_BLOCK_MS, DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS, BOOTSTRAP_TIMEOUT_MS = 1_000, 2_000, 500, 1_500
DEADLINE_S = 20.0
NEARLY = 0.95  # clients round, and look for what has waited too long only now and then


@dataclass(frozen=True, slots=True)
class Watched:
    """What one client did. Times are milliseconds; None where it did not come so far."""

    client: str
    trouble: str
    made_ms: int
    returned_ms: int | None  # from the call of send to its return
    told_ms: int | None  # from the call of send to the user's being told
    error: str

    @property
    def told_by(self) -> str:
        """Which of the timeouts had passed when the user was told: of the call's, where the word came with its return."""
        if self.told_ms is None or self.returned_ms is None:
            return "bootstrap_timeout_ms" if self.made_ms >= NEARLY * BOOTSTRAP_TIMEOUT_MS else "none"
        if self.returned_ms >= NEARLY * MAX_BLOCK_MS and self.told_ms - self.returned_ms < DELIVERY_TIMEOUT_MS // 2:
            return "max.block.ms"
        return "delivery.timeout.ms" if self.told_ms >= NEARLY * DELIVERY_TIMEOUT_MS else "none"

    @property
    def blocks(self) -> bool:
        """Whether the call of send kept its user waiting."""
        return self.returned_ms is not None and self.returned_ms > MAX_BLOCK_MS // 2


def watch(client: str, trouble: str, cluster: Cluster) -> Watched:
    """Let one client send one record into this trouble. KnobError for an unknown one; LabError when it says nothing."""
    if client not in CLIENTS or trouble not in TROUBLES:
        raise KnobError(
            f"watch: client is {client!r} and trouble {trouble!r}, expected one of {', '.join(CLIENTS)} and one of {', '.join(TROUBLES)}."
        )
    topic = f"kit.no-such-topic-{uuid.uuid4().hex[:8]}.events"
    with _silent_broker() as address:
        place = cluster if trouble == "missing topic" else Cluster(address, None, 1, "kit")
        with _nothing_logged("kafka"):
            return {"java": _java, "librdkafka": _librdkafka, "kafka-python": _kafka_python}[client](trouble, place, topic)


@contextmanager
def _nothing_logged(name: str) -> Iterator[None]:
    """A logger says nothing meanwhile: what its client has to say is told here."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _silent_broker() -> Iterator[str]:
    """An address at which connections are accepted and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:  # the system accepts them, nobody reads
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def _took(action: Callable[[], Any]) -> tuple[int, Any]:
    began = time.monotonic()
    found = action()
    return int((time.monotonic() - began) * 1000), found


def _java(trouble: str, place: Cluster, topic: str) -> Watched:
    with JavaClient.open() as java:
        settings = {"bootstrap.servers": place.bootstrap, "max.block.ms": MAX_BLOCK_MS, "linger.ms": 0,
                    "delivery.timeout.ms": DELIVERY_TIMEOUT_MS, "request.timeout.ms": REQUEST_TIMEOUT_MS, **java_config(place)}  # fmt: skip
        made_ms, producer = _took(lambda: java.producer(settings))
        try:
            began = time.monotonic()
            returned_ms, future = _took(lambda: java.send(producer, topic, PARTITION, b"0"))
            _, error = java.outcome(future, DEADLINE_S)
            told_ms = int((time.monotonic() - began) * 1000)
        finally:
            java.close_at_once(producer)
        if not error:
            raise LabError(f"Java's client has reported nothing about its record for {topic}. Look at `kit status`.")
        return Watched(f"kafka-clients {java.version}", trouble, made_ms, returned_ms, told_ms, error)


def _librdkafka(trouble: str, place: Cluster, topic: str) -> Watched:
    told: list[str] = []

    def note(error: KafkaError | None, _: Message) -> None:
        told.append(str(error.name()) if error else "")

    settings = {"bootstrap.servers": place.bootstrap, "linger.ms": 0, "delivery.timeout.ms": DELIVERY_TIMEOUT_MS, "log_level": 0,
                "request.timeout.ms": REQUEST_TIMEOUT_MS, "socket.timeout.ms": MAX_BLOCK_MS, **librdkafka_config(place)}  # fmt: skip
    made_ms, producer = _took(lambda: Producer(settings, logger=SILENT))
    began = time.monotonic()
    returned_ms, _ = _took(lambda: producer.produce(topic, value=b"0", on_delivery=note))
    while not told:
        producer.poll(0.02)
        if time.monotonic() - began > DEADLINE_S:
            raise LabError(f"librdkafka has reported nothing about its record for {topic} within {DEADLINE_S:g} s. Look at `kit status`.")
    told_ms = int((time.monotonic() - began) * 1000)
    return Watched(LIBRDKAFKA, trouble, made_ms, returned_ms, told_ms, told[0])


def _kafka_python(trouble: str, place: Cluster, topic: str) -> Watched:
    import kafka
    from kafka.errors import KafkaError as Failure

    name = f"kafka-python {kafka.__version__}"
    began = time.monotonic()
    try:
        producer = kafka.KafkaProducer(
            bootstrap_servers=place.bootstrap, max_block_ms=MAX_BLOCK_MS, delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS, linger_ms=0, **kafka_python_config(place),
            # A broker that does answer is given time for it: at a busy moment it may be late, and that is not what is watched.
            bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS if trouble == "silent broker" else int(DEADLINE_S * 1000),
        )  # fmt: skip
    except Failure as error:
        made_ms, failure = int((time.monotonic() - began) * 1000), type(error).__name__
    else:
        failure = ""
    if failure:
        with warnings.catch_warnings():  # what a constructor that failed leaves open is closed here, where it is known whose it is
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        return Watched(name, trouble, made_ms, None, None, failure)
    made_ms, began = int((time.monotonic() - began) * 1000), time.monotonic()
    try:
        returned_ms = None
        future = producer.send(topic, b"0")
        returned_ms = int((time.monotonic() - began) * 1000)
        future.get(DEADLINE_S)
    except Failure as error:
        told_ms = int((time.monotonic() - began) * 1000)
        return Watched(name, trouble, made_ms, told_ms if returned_ms is None else returned_ms, told_ms, type(error).__name__)
    finally:
        producer.close(timeout=1)
    raise LabError(f"kafka-python has stored a record in {topic}, which does not exist. Look at `kit status`.")


def watch_all(cluster: Cluster) -> list[Watched]:
    """Every client in every trouble, all at once. Errors as `watch`."""
    pairs = [(client, trouble) for trouble in TROUBLES for client in CLIENTS]
    with ThreadPoolExecutor(len(pairs)) as pool, _nothing_logged("kafka"):
        return list(pool.map(lambda pair: watch(pair[0], pair[1], cluster), pairs))
