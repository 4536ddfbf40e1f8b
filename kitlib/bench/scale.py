"""How time and memory grow with the work: sweeps up to 200,000 runs, and audits of topics up to 20 million records.

Each size is twice the one before and has a Spark of its own, `local-cluster[2,1,2048]`: a driver and two executors that
share nothing, as on a cluster. Memory is what the operating system counts as resident, at its highest, by a look each half
second. Growth is that of the processors' time, which a busy neighbour changes little.

Not among the suites that `kit bench` measures when none is named: at full size it takes an hour and a few gigabytes of
disk. `--rounds` is how many sizes are measured, the smallest ones first.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from kitlib.bench.figures import Figure
from kitlib.bench.sweep import EXPERIMENT, OVER, SETTINGS
from kitlib.errors import KitError
from kitlib.experiments.kafka_backend import hand_over, publish
from kitlib.lab import kafka_server, workspace
from kitlib.lab import spark as kit_spark
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines.audit import audit
from kitlib.pipelines.sweep import sweep
from kitlib.pipelines.topics import trace_topic
from kitlib.trace import Trace

MASTER = "local-cluster[2,1,2048]"
EXECUTOR_MEMORY = "2g"
SIZES = 4
FEWEST_RUNS, FEWEST_RECORDS = 25_000, 2_500_000
PARTITIONS, PER_STEP = 8, 10_000  # of the audited topic; records that one step of its trace is about
LOOK_S, WAIT_S = 0.5, 120.0
DRIVER, EXECUTORS, WORKERS, PYTHON = "driver's Java", "executors' Java", "executors' Python", "driver's Python"


class Watch:
    """The highest resident memory of each part of this Python's Spark, and the time that all processors gave them."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}  # bytes
        self.spent: dict[int, float] = {}  # seconds, by process
        self.look()
        self.before = self.cpu_s

    @property
    def cpu_s(self) -> float:
        """Seconds of all parts since they were started."""
        return sum(self.spent.values())

    def look(self) -> None:
        now: dict[str, int] = {}
        own = psutil.Process()
        for process in (own, *own.children(recursive=True)):
            try:
                told, resident, times = " ".join(process.cmdline()), process.memory_info().rss, process.cpu_times()
            except psutil.Error:
                continue
            if process.pid == own.pid:
                part = PYTHON
            elif "pyspark.daemon" in told:
                part = WORKERS
            elif "CoarseGrainedExecutorBackend" in told:
                part = EXECUTORS
            elif "SparkSubmit" in told:
                part = DRIVER
            else:
                continue
            now[part] = now.get(part, 0) + resident
            self.spent[process.pid] = times.user + times.system
        for part, resident in now.items():
            self.most[part] = max(resident, self.most.get(part, 0))


@contextmanager
def watched() -> Iterator[Watch]:
    """Look again and again while the block runs, and once more at its end."""
    watch, ended = Watch(), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            watch.look()
        watch.look()

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield watch
    finally:
        ended.set()
        watcher.join()


def shuffled_bytes(spark: SparkSession) -> int:
    """How much this session's tasks have written for one another."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(int(executors.apply(number).totalShuffleWrite()) for number in range(executors.size()))


def grown(what: str, unit: str, sizes: list[int], work: Callable[[SparkSession, int], None], say: Callable[[str], None]) -> list[Figure]:
    """The figures of one kind of work at each size, each in a Spark of its own."""
    figures: list[Figure] = []
    before: float | None = None
    settings: dict[str, Any] = {"spark.executor.memory": EXECUTOR_MEMORY}
    for size in sizes:
        say(f"{what} of {size:,} {unit}")
        with kit_spark.session("kit bench", MASTER, **settings) as spark:
            spark.range(1_000).repartition(2).count()  # the executors are there
            begun = perf_counter()
            with watched() as watch:
                work(spark, size)
            took, spent, moved = perf_counter() - begun, watch.cpu_s - watch.before, shuffled_bytes(spark)
        name = f"{what} of {size:,} {unit}"
        figures += [Figure(name, took, "s"), Figure(f"{name}, of all processors", spent, "s")]
        figures += [Figure(f"{name}, moved between tasks", moved / 1e6, "MB")]
        if before is not None:
            growth = spent / before / 2
            figures.append(Figure(f"{name}, processors' time for each / at half the size", growth, "times", 1.1, at_most=True))
        figures += [Figure(f"{name}, {part}", most / 1e6, "MB") for part, most in sorted(watch.most.items())]
        before = spent
        say(f"{took:,.0f} s, {spent:,.0f} s of all processors")
    return figures


def run_sweep(spark: SparkSession, runs: int) -> None:
    """A sweep of so many runs. KitError when rows are missing or have an error."""
    room = workspace.spark_dir() / f"bench-{uuid.uuid4().hex[:8]}"
    try:
        rows = sweep(EXPERIMENT, OVER, runs // SETTINGS, spark=spark, most=runs, folder=Path(room), progress=lambda done, total: None)
        found = rows.where("error IS NULL").count()
    finally:
        shutil.rmtree(room, ignore_errors=True)
    if found != runs // SETTINGS * SETTINGS:
        raise KitError(f"bench: the sweep has {found:,} rows, expected {runs:,}. Run its tests: pytest tests/pipelines/test_sweep.py.")


def fill(cluster: Cluster, admin: AdminClient, run: str, records: int) -> str:
    """A topic with so many records, and the trace of the producer that was told of all of them; the topic's name."""
    topic, each = f"kit.{run}.records", records // PARTITIONS
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)
    producer = Producer(client_config(cluster, **{"linger.ms": 50, "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True}))
    trace = Trace(run, "guarantees", "kafka", domain="idempotence")
    for partition in range(PARTITIONS):
        for first in range(0, each, PER_STEP):
            last = min(first + PER_STEP, each) - 1
            where: dict[str, Any] = {"topic": topic, "partition": partition, "first": first, "last": last}
            trace.record(0, "user", "send", **where, batch=first // PER_STEP)
            trace.record(0, "producer", "delivered", **where, batch=first // PER_STEP, offset=first)
            for number in range(first, last + 1):
                hand_over(producer, topic, b"%d" % number, None, partition)
            producer.poll(0)
    if left := producer.flush(WAIT_S):
        raise KitError(f"bench: {left} records were not written within {WAIT_S:g} s. Look at `kit status`.")
    publish(trace, cluster, admin)
    return topic


def run_audit(spark: SparkSession, run: str, records: int) -> None:
    """The audit of a run that `fill` has written. KitError when it has not found every record, once."""
    found = audit(run, spark=spark)
    if any(found.counts.values()) or found.processed != records:
        raise KitError(f"bench: the audit tells {found}, expected {records:,} records and no anomaly. Run pytest tests/pipelines.")


def measure(rounds: int = SIZES, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The figures of the first `rounds` sizes, at most four; for the audit it needs the kit's own broker."""
    doublings = range(min(rounds, SIZES))
    figures = grown("sweep", "runs", [FEWEST_RUNS << number for number in doublings], run_sweep, say)
    was_running = kafka_server.status().is_running
    cluster = kafka_server.ensure()
    admin = AdminClient(client_config(cluster))
    runs: dict[int, str] = {}
    topics: list[str] = []

    try:
        for number in doublings:
            records = FEWEST_RECORDS << number
            runs[records] = f"bench-{uuid.uuid4().hex[:8]}"
            say(f"writing {records:,} records")
            topics += [f"kit.{runs[records]}.records", trace_topic(runs[records])]
            fill(cluster, admin, runs[records], records)
        figures += grown("audit", "records", list(runs), lambda spark, records: run_audit(spark, runs[records], records), say)
    finally:
        for future in admin.delete_topics(topics).values() if topics else ():
            if error := future.exception(WAIT_S):
                say(f"a topic was not deleted: {error}")
        if not was_running:
            kafka_server.down()
    return figures
