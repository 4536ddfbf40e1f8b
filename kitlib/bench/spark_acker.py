"""How fast Spark follows trees in each of the two ways, with a million of them open, and how large its state is.

All trees are told to the acker before the first one ends: first every init and one ack of each tree, then
the other two acks. In two batches that is a state of a million open trees between them. The same messages in
eight batches are the hardest case for an aggregate: of each tree there is but one message in a batch, so each
message is one look into the state store and one change of it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.bench.figures import Figure
from kitlib.errors import KitError
from kitlib.lab import spark as kit_spark
from kitlib.lab import workspace
from kitlib.pipelines.acker_processor import PROCESSOR, ends, told
from kitlib.pipelines.acker_query import DEFAULT_TIMEOUT_MS, MESSAGES, Way, finish
from kitlib.pipelines.acker_stream import AGGREGATE

TREES = 1_000_000
MESSAGES_PER_TREE = 4  # an init and three acks
FEW_TREES = 10_000
PER_MS = 500  # messages in a millisecond of virtual time: all of them within one time-out
LARGE, SMALL = 2, 8  # batches
MOST_ROUNDS = 3

# More tasks than roots that one can meet: each root is a key of its own.
KEY_PER_ROOT = Way("a key for each root", partial(ends, tasks=2**62), told)


@dataclass(frozen=True, slots=True)
class Run:
    """What one query did."""

    rate: float  # messages a second, from the start of the query to its end
    rows: int  # of state that one batch wrote, at most: in large batches each of them
    state_bytes: int  # RocksDB's memory and files, when there were most


def edge(number: int) -> Column:
    """The id of a tree's edge."""
    return F.xxhash64(F.col("tree"), F.lit(number))


def make_messages(spark: SparkSession, folder: Path, trees: int, batches: int) -> Path:
    """The messages as one Parquet file for each batch, in the order of n."""
    wave = F.col("wave")
    rows = spark.range(0, trees * MESSAGES_PER_TREE, 1, batches).select(
        F.col("id").alias("n"), (F.col("id") % trees).alias("tree"), F.floor(F.col("id") / trees).alias("wave")
    )
    val = F.when(wave == 0, edge(0))
    for number in range(1, MESSAGES_PER_TREE - 1):
        val = val.when(wave == number, edge(number - 1).bitwiseXOR(edge(number)))
    rows.select(
        "n", F.floor(F.col("n") / PER_MS).alias("at_ms"), F.when(wave == 0, "init").otherwise("ack").alias("kind"),
        F.xxhash64("tree").alias("root"), val.otherwise(edge(MESSAGES_PER_TREE - 2)).alias("val"),
        F.when(wave == 0, 1).alias("spout_task"),
    ).write.parquet(str(folder))  # fmt: skip
    return folder


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """The files as a stream, one in each batch."""
    return spark.readStream.schema(MESSAGES).option("maxFilesPerTrigger", 1).parquet(str(folder))


def follow(way: Way, spark: SparkSession, source: Path, trees: int) -> Run:
    """Follow all messages; KitError when a tree is not acked in the end."""
    folder = source.with_name(f"query-{uuid.uuid4().hex[:8]}")
    try:
        begin = perf_counter()
        query = way.start(stream(spark, source), folder, DEFAULT_TIMEOUT_MS)
        finish(query)
        taken = perf_counter() - begin
        acked = way.outcomes(spark, folder).where("outcome = 'acked'").count()
        if acked != trees:
            raise KitError(f"bench: {way.name} acked {acked} of {trees} trees. Run its tests: pytest tests/pipelines.")
        states = [state for progress in query.recentProgress for state in progress["stateOperators"]]
        return Run(
            trees * MESSAGES_PER_TREE / taken,
            max(state["numRowsUpdated"] for state in states),
            max(state["memoryUsedBytes"] + int(state["customMetrics"]["rocksdbSstFileSize"]) for state in states),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(rounds: int = MOST_ROUNDS, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The figures of both ways; some minutes."""
    room = workspace.spark_dir() / f"bench-{uuid.uuid4().hex[:8]}"
    try:
        with kit_spark.session("kit bench", java_flags=kit_spark.LONG_JOB_FLAGS) as spark:
            say("starting Spark, and making four million messages")
            few = make_messages(spark, room / "few", FEW_TREES, LARGE)
            large, small = (make_messages(spark, room / f"in-{batches}", TREES, batches) for batches in (LARGE, SMALL))
            for way in (AGGREGATE, PROCESSOR):
                follow(way, spark, few, FEW_TREES)  # Java and Python are slow at first
            found: dict[str, list[Run]] = {AGGREGATE.name: [], PROCESSOR.name: []}
            for number in range(min(rounds, MOST_ROUNDS)):
                for way in (AGGREGATE, PROCESSOR):
                    say(f"round {number + 1}: {way.name}")
                    found[way.name].append(follow(way, spark, large, TREES))
            say("in small batches")
            hard = {way.name: follow(way, spark, small, TREES) for way in (AGGREGATE, PROCESSOR)}
            say("one key for each root")
            per_root = follow(KEY_PER_ROOT, spark, few, FEW_TREES)
    finally:
        shutil.rmtree(room, ignore_errors=True)

    def rate(way: Way) -> float:
        return median(run.rate for run in found[way.name])

    def state(way: Way) -> tuple[int, int]:
        return max((run.rows, run.state_bytes) for run in found[way.name])

    aggregate, processor = AGGREGATE.name, PROCESSOR.name
    opened = f"{TREES:,} open trees"
    return [
        Figure(f"{aggregate}, {opened}", rate(AGGREGATE), "messages/s", 200_000),
        Figure(f"{processor}, {opened}", rate(PROCESSOR), "messages/s"),
        Figure(f"{aggregate}, in {SMALL} batches", hard[aggregate].rate, "messages/s"),
        Figure(f"{processor}, in {SMALL} batches", hard[processor].rate, "messages/s"),
        Figure(f"{processor}, a key for each root, {FEW_TREES:,} trees", per_root.rate, "messages/s"),
        Figure(f"{aggregate}, state", state(AGGREGATE)[0], "rows"),
        Figure(f"{aggregate}, state", state(AGGREGATE)[1] / 1e6, "MB"),
        Figure(f"{processor}, state", state(PROCESSOR)[0], "rows"),
        Figure(f"{processor}, state", state(PROCESSOR)[1] / 1e6, "MB"),
    ]
