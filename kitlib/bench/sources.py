"""How fast the PartitionManager's source reads for Spark, beside Spark's own Kafka source.

Both read the same topic in one batch and one session, in turn, and their sums must agree. Two figures: of the batch, which is what
a stream that runs for hours sees, and of the whole query with its start, for which the Python source needs processes of its own.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from statistics import median
from time import monotonic

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.bench.figures import Figure
from kitlib.errors import KitError
from kitlib.experiments.kafka_backend import hand_over
from kitlib.lab import kafka_server, workspace
from kitlib.lab import spark as kit_spark
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines.partition_manager_source import partition_manager_stream
from kitlib.pipelines.topics import Topics

RECORDS = 1_000_000
PARTITIONS = 2
VALUE = b"order %09d" + b"x" * 84  # 100 bytes
WARM_UP = 1  # rounds, in which Java compiles
WAIT_S = 60.0


def fill(cluster: Cluster, topic: str) -> None:
    """RECORDS records, shared between the partitions. KitError when some get lost."""
    producer = Producer(client_config(cluster, **{"linger.ms": 20, "queue.buffering.max.messages": 1_000_000}))
    for number in range(RECORDS):
        hand_over(producer, topic, VALUE % number, b"%d" % number, number % PARTITIONS)
    if left := producer.flush(WAIT_S):
        raise KitError(f"bench: {left} records were not written within {WAIT_S:g} s. Look at `kit status`.")


def seconds(stream: Callable[[], DataFrame]) -> tuple[float, float]:
    """How long the batch took, and the whole query. KitError when it has not read every record once."""
    found = []

    def sink(batch: DataFrame, number: int) -> None:
        found.append(batch.agg(F.count("*"), F.sum(F.length("value")), F.sum("offset")).collect()[0])

    folder, begun_s = workspace.spark_dir() / f"bench-{uuid.uuid4().hex[:8]}", monotonic()
    try:
        query = stream().writeStream.foreachBatch(sink).option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
        query.awaitTermination()
        whole_s, each = monotonic() - begun_s, RECORDS // PARTITIONS
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if [tuple(row) for row in found] != [(RECORDS, RECORDS * len(VALUE % 0), PARTITIONS * (each * (each - 1) // 2))]:
        raise KitError(f"bench: the source read {found}, expected {RECORDS:,} records once. Run its tests: pytest tests/pipelines.")
    return sum(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress if progress["numInputRows"]) / 1000, whole_s


def streams(spark: SparkSession, topic: str) -> dict[str, Callable[[], DataFrame]]:
    """Each source's stream over the whole topic."""
    return {
        "Spark": lambda: Topics.find().stream_records(spark, topic, "earliest", None),
        "kit": lambda: partition_manager_stream(spark, topic=topic, id=f"bench-{uuid.uuid4().hex[:8]}", forceFromStart=True),
    }


def measure(rounds: int = 5, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The figures; about two minutes. It needs the kit's own broker."""
    was_running = kafka_server.status().is_running
    cluster = kafka_server.ensure()
    topic = f"kit.bench.sources-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client_config(cluster))
    taken: dict[str, list[tuple[float, float]]] = {"Spark": [], "kit": []}
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)
        say(f"writing {RECORDS:,} records")
        fill(cluster, topic)
        with kit_spark.session("kit bench") as spark:
            for number in range(WARM_UP + rounds):
                say(f"round {number + 1 - WARM_UP}" if number >= WARM_UP else "Java and Python are slow at first")
                for name, stream in streams(spark, topic).items():
                    found = seconds(stream)
                    if number >= WARM_UP:
                        taken[name].append(found)
    finally:
        admin.delete_topics([topic])[topic].result(WAIT_S)
        if not was_running:
            kafka_server.down()
    pairs = list(zip(taken["Spark"], taken["kit"], strict=True))
    rates = {name: RECORDS / median(batch for batch, _ in found) for name, found in taken.items()}
    return [
        Figure(f"PartitionManager's source, {RECORDS:,} records in a batch", rates["kit"], "records/s"),
        Figure("Spark's own Kafka source, the same", rates["Spark"], "records/s"),
        Figure("the first against the second, pair by pair", 100 * median(theirs[0] / ours[0] for theirs, ours in pairs), "%", 80),
        Figure("the same with the start of the query", 100 * median(theirs[1] / ours[1] for theirs, ours in pairs), "%"),
    ]
