"""One ratio for each promise of speed: this against that, side by side on the machine at hand, so a busy one breaks none.

Each suite (a function from `partition_manager` to `sweep`) yields a `Ratio`; what the clock said is told on the way. All works
of a suite run in turn in every round, because a shared machine's speed drifts, and a ratio is that of the medians.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kitlib.errors import KitError, LabError
from kitlib.experiments.grid import Grid
from kitlib.experiments.kafka_backend import hand_over
from kitlib.lab import kafka_server, workspace
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.proxy.chaos_proxy import ChaosProxy
from kitlib.mechanisms.log import Fetch, Record
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.pipelines.partition_manager_source import partition_manager_stream
from kitlib.pipelines.sweep import sweep as spark_sweep
from kitlib.pipelines.topics import Topics
from kitlib.spark import sessions as kit_spark

Say = Callable[[str], None]
WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measured ratio and its promise: at least `bound`, or at most when `at_most`."""

    name: str
    value: float
    bound: float
    at_most: bool = False

    @property
    def holds(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    begin = perf_counter()
    work()
    return perf_counter() - begin


def paired(rounds: int, *works: Callable[[], float]) -> list[float]:
    """The median of each work's own figure, after a round that warms up; all in turn in every round."""
    found = [[work() for work in works] for _ in range(rounds + 1)]
    return [median(column) for column in zip(*found[1:], strict=True)]


@contextmanager
def topics_on(*partitions: int) -> Iterator[tuple[Cluster, list[str]]]:
    """The kit's own broker with a new topic of so many partitions each; it is left as it was found."""
    was_running, cluster = kafka_server.status().is_running, kafka_server.ensure()
    admin, names = AdminClient(client_config(cluster)), [f"kit.bench-{uuid.uuid4().hex[:8]}.records" for _ in partitions]
    try:
        for future in admin.create_topics([NewTopic(*topic, 1) for topic in zip(names, partitions, strict=True)]).values():
            future.result(WAIT_S)
        yield cluster, names
    finally:
        for future in admin.delete_topics(names).values():
            future.exception(WAIT_S)
        if not was_running:
            kafka_server.down()


def write(cluster: Cluster, topic: str, count: int, partitions: int = 1) -> None:
    """Write `count` small records. KitError when one is not acknowledged."""
    limits = {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True}
    producer = Producer(client_config(cluster, **limits))
    for number in range(count):
        hand_over(producer, topic, b"%d" % (number // partitions), None, number % partitions)
    if left := producer.flush(WAIT_S):
        raise LabError(f"bench: {left} of {count} records were not written within {WAIT_S:g} s. Look at `kit status`.")


PENDING: Final = (100, 1_000_000)
OPERATIONS: Final = 100_000  # one next and one ack each


class EndlessLog:
    """A log of one small record at every offset."""

    def fetch(self, offset: int) -> Fetch:
        return Fetch([Record(at, b"x") for at in range(offset, offset + 1_000)])

    def offset_before(self, time: int) -> int | None:
        return 1


def steady_seconds(pending: int) -> float:
    """A spout that always has `pending` offsets in flight: the next one is emitted, the oldest acked."""
    manager = PartitionManager(SpoutConfig("events", "spout", force_from_start=True), EndlessLog(), MemoryOffsetStore())
    for _ in range(pending):
        manager.next()

    def work() -> None:
        for offset in range(1, OPERATIONS + 1):
            manager.next()
            manager.ack(offset)

    return seconds(work)


def partition_manager(rounds: int, say: Say) -> Iterator[Ratio]:
    """An operation costs as much however many offsets are pending."""
    few, many = paired(rounds, *(partial(steady_seconds, pending) for pending in PENDING))
    say(f"{2 * OPERATIONS / many:,.0f} operations/s with {PENDING[1]:,} offsets pending")
    yield Ratio(f"PartitionManager: an operation with {PENDING[1]:,} pending, to one with {PENDING[0]}", many / few, 1.5, at_most=True)


SENT: Final = 100_000


def proxy(rounds: int, say: Say) -> Iterator[Ratio]:
    """A stock client through the chaos proxy with no rules, to the same client without it."""
    with topics_on(1) as (cluster, [topic]), ChaosProxy.before(cluster) as between:
        works = (lambda where=where: seconds(lambda: write(where, topic, SENT)) for where in (cluster, between.cluster))
        direct, through = paired(rounds, *works)
    say(f"{SENT / direct:,.0f} records/s direct, {SENT / through:,.0f} through the proxy")
    yield Ratio("confluent-kafka through the proxy, to direct", direct / through, 0.7)


READ: Final = 1_000_000


def batch_seconds(stream: Callable[[], DataFrame]) -> float:
    """How long the batch took that read the whole topic. KitError unless each record was read once."""
    found: list[Any] = []

    def sink(batch: DataFrame, number: int) -> None:
        found.append(batch.agg(F.count("*"), F.sum("offset")).collect()[0])

    with TemporaryDirectory(dir=workspace.spark_dir(), ignore_cleanup_errors=True) as folder:
        query = kit_spark.start(stream().writeStream.option("checkpointLocation", folder).trigger(availableNow=True), sink)
        query.awaitTermination()
    if [tuple(row) for row in found] != [(READ, READ // 2 * (READ // 2 - 1))]:
        raise KitError(f"bench: the source read {found}, expected {READ:,} records once. Run its tests: pytest tests/pipelines.")
    return float(sum(each["durationMs"]["triggerExecution"] for each in query.recentProgress if each.numInputRows)) / 1000


def sources(rounds: int, say: Say) -> Iterator[Ratio]:
    """The PartitionManager as a Spark source, to Spark's own Kafka source, within a batch."""
    with topics_on(2) as (cluster, [topic]), kit_spark.session("kit bench") as spark:
        say(f"writing {READ:,} records")
        write(cluster, topic, READ, 2)
        spark_s, kit_s = paired(
            rounds,
            lambda: batch_seconds(lambda: Topics.find().stream_records(spark, topic, "earliest", None)),
            lambda: batch_seconds(lambda: partition_manager_stream(spark, topic=topic, id=uuid.uuid4().hex[:8], forceFromStart=True)),
        )
    say(f"{READ / kit_s:,.0f} records/s, Spark's own source {READ / spark_s:,.0f}")
    yield Ratio("PartitionManager's source to Spark's own", spark_s / kit_s, 0.8)


EXPERIMENT: Final = "small_max_offset_behind"
OVER: Final = {"max_offset_behind": range(1, 21), "fetch_records": (5, 10, 20, 40)}
SETTINGS, RUNS, LOOP, CORES = 80, 16_000, 1_600, 2


def loop_rate(runs: int, seeds: int) -> float:
    """Runs a second of a plain loop over so many runs of the sweep's grid."""
    grid = Grid.of(EXPERIMENT, OVER, seeds)
    grid.row(0)
    step = len(grid) // runs
    return runs / seconds(lambda: [grid.row(place) for place in range(0, step * runs, step)])


def loop_rates() -> float:
    """Runs a second of plain loops, one in a Python of its own for each core, at the same time."""
    loop = [sys.executable, "-c", f"from kitlib import bench; print(bench.loop_rate({LOOP}, {RUNS // SETTINGS}))"]
    running = [subprocess.Popen(loop, stdout=subprocess.PIPE, text=True) for _ in range(CORES)]
    return sum(float(each.communicate()[0]) for each in running)


def spark_rate(runs: int) -> float:
    """Runs a second of a sweep on Spark. KitError when a row is missing or has an error."""
    with kit_spark.session("kit bench") as spark, TemporaryDirectory(dir=workspace.spark_dir(), ignore_cleanup_errors=True) as folder:
        begin = perf_counter()
        rows = spark_sweep(EXPERIMENT, OVER, runs // SETTINGS, spark=spark, most=runs, folder=folder, progress=lambda done, total: None)
        rate = runs / (perf_counter() - begin)
        if (found := rows.where("error IS NULL").count()) != runs:
            raise KitError(f"bench: the sweep has {found:,} rows, expected {runs:,}. Run pytest tests/pipelines/test_sweep.py.")
        return rate


def sweep(rounds: int, say: Say) -> Iterator[Ratio]:
    """Runs on Spark, to a plain loop on each core at the same time."""
    spark, loops = paired(rounds, partial(spark_rate, RUNS), loop_rates)
    say(f"{spark:,.0f} runs/s on Spark, {loops:,.0f} in {CORES} plain loops")
    yield Ratio("Sweep on Spark to a plain loop on each core", spark / loops, 0.8)
