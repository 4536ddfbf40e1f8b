"""How fast Spark judges the commits of a real topic, in one piece and as a stream with a checkpoint.

The records are what a broker writes for a commit, byte for byte: groups that commit every partition of a topic
in turn. They lie in a topic of the same layout as __consumer_offsets, compacted and in several partitions, and not in
the broker's own, which would keep the groups of a bench for a week. Every commit is judged: each group's partition
gets a window with its lag. What a stream keeps is measured after a tenth of the history and after all of it.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from kitlib.bench.figures import Figure
from kitlib.errors import KitError
from kitlib.experiments.kafka_backend import hand_over
from kitlib.kafka.hashes import group_partition
from kitlib.kafka.offsets.messages import RECORD_TYPES
from kitlib.kafka.offsets.records import OffsetsRecord, encode
from kitlib.lab import kafka_server, workspace
from kitlib.lab import spark as kit_spark
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines.offsets import OffsetsReport, offsets
from kitlib.pipelines.offsets_stream import offsets_stream

COMMITS = 1_500_000
GROUPS, TOPIC, PARTITIONS = 200, "orders", 10
SOURCES = 4  # partitions of the topic of commits
EVERY_MS = 5_000  # between two commits of a partition
STEP = 100  # records between two commits
WARM_UP = 2  # rounds, in which Java compiles
WAIT_S = 60.0
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
EACH = COMMITS // (GROUPS * PARTITIONS)  # commits of a group's partition
ENDS = {(TOPIC, partition): STEP * EACH + 50 for partition in range(PARTITIONS)}


def fill(cluster: Cluster, topic: str, begin: int, end: int, first_ms: int) -> None:
    """Every group commits every partition, from its commit number `begin` to before `end`. KitError when some get lost."""
    producer = Producer(
        client_config(cluster, **{"linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True})
    )
    keys = []
    for number in range(GROUPS):
        group = f"bench-{number}"
        for partition in range(PARTITIONS):
            record = OffsetsRecord(RECORD_TYPES[1], {"group": group, "topic": TOPIC, "partition": partition})
            keys.append((encode(record)[0], group_partition(group, SOURCES)))
    for number in range(begin, end):
        value = encode(
            OffsetsRecord(
                RECORD_TYPES[1],
                {"group": "", "topic": "", "partition": 0},
                4,
                {"offset": STEP * number, "commitTimestamp": first_ms + EVERY_MS * number, "topicId": TOPIC_ID},
            )
        )[1]
        for key, source in keys:
            hand_over(producer, topic, value, key, source)
        producer.poll(0)
    if left := producer.flush(WAIT_S):
        raise KitError(f"bench: {left} commits were not written within {WAIT_S:g} s. Look at `kit status`.")


def checked(report: OffsetsReport, commits: int) -> OffsetsReport:
    """KitError when the job has not judged every commit."""
    found = sum(each.commits for each in report.partitions)
    judged = sum(each.complete == 1.0 for each in report.partitions)
    if (found, judged, report.reading.broken) != (commits, GROUPS * PARTITIONS, 0):
        told = f"bench: {found} of {commits} commits, and {judged} of {GROUPS * PARTITIONS} full windows, were judged"
        raise KitError(f"{told}. Run its tests: pytest tests/pipelines.")
    return report


def stream_seconds(spark: SparkSession, where: dict[str, object], folder: Path) -> float:
    """How long a new stream takes for the whole topic, from its start to its report."""
    begun_s = time.monotonic()
    checked(offsets_stream(checkpoint=folder, spark=spark, every_ms=1, **where).finish(), COMMITS)  # type: ignore[arg-type]
    return time.monotonic() - begun_s


def state_bytes(folder: Path) -> int:
    """The ledgers of the last batch."""
    last = max((folder / "state").glob("facts-*"), key=lambda path: int(path.name.removeprefix("facts-")))
    return sum(path.stat().st_size for path in last.glob("*.npz"))


def measure(rounds: int = 5, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The figures of the job; about two minutes. It needs the kit's own broker."""
    was_running = kafka_server.status().is_running
    cluster = kafka_server.ensure()
    topic, room = f"kit.bench.offsets-{uuid.uuid4().hex[:8]}", workspace.spark_dir() / f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client_config(cluster))
    where: dict[str, object] = {"topic": topic, "log_ends": ENDS, "bootstrap": cluster.bootstrap}
    sizes, batch, stream = [], [], []
    try:
        admin.create_topics([NewTopic(topic, SOURCES, 1, config={"cleanup.policy": "compact"})])[topic].result(WAIT_S)
        first_ms = round(time.time() * 1000) - EVERY_MS * EACH
        with kit_spark.session("kit bench", java_flags=kit_spark.LONG_JOB_FLAGS) as spark:
            growing = room / "growing"
            for begin, end in ((0, EACH // 10), (EACH // 10, EACH)):
                say(f"writing {(end - begin) * GROUPS * PARTITIONS:,} commits")
                fill(cluster, topic, begin, end, first_ms)
                offsets_stream(checkpoint=growing, spark=spark, **where).finish()  # type: ignore[arg-type]
                sizes.append(state_bytes(growing))
            for number in range(WARM_UP + rounds):
                say(f"round {number + 1 - WARM_UP}" if number >= WARM_UP else "Java and Python are slow at first")
                took = checked(offsets(spark=spark, **where), COMMITS).seconds  # type: ignore[arg-type]
                streamed = stream_seconds(spark, where, room / f"stream-{number}")
                if number >= WARM_UP:
                    batch.append(took)
                    stream.append(streamed)
    finally:
        shutil.rmtree(room, ignore_errors=True)
        admin.delete_topics([topic])[topic].result(WAIT_S)
        if not was_running:
            kafka_server.down()
    return [
        Figure(f"Offsets job, {COMMITS:,} commits of {GROUPS * PARTITIONS:,} partitions", COMMITS / median(batch), "commits/s", 200_000),
        Figure("Offsets stream with a checkpoint, the same commits", COMMITS / median(stream), "commits/s", 200_000),
        Figure("Offsets stream, state after a tenth of them", sizes[0] / 1e6, "MB"),
        Figure("Offsets stream, state after ten times as many", 100 * sizes[1] / sizes[0], "%", 110, at_most=True),
    ]
