"""The acker as one streaming aggregate: Spark XORs what an acker would XOR, and its watermark is the time-out.

XOR does not care for order or grouping. So no code of ours has to see the messages of a tree one by one:
`bit_xor(val)` over each root is the acker's whole arithmetic, and Spark spreads it over executors and keeps
it in its state store. What is left is to forget. The state is kept for each root *and* each stretch of one
time-out, which Spark drops when the watermark has passed it. The parts of a tree are XORed together when
somebody asks: parts in neighbouring stretches belong to one entry, a stretch without a message between them
means that the acker had forgotten the tree. That is the age of RotatingMap's two buckets, to the tick.

Source: `kitlib.storm.acker.Acker`, and with it Storm 0.9.3.
Differs: an aggregate knows the sum and not the way to it, nor when it was reached. Therefore
- a zero in the middle is not seen: a tree that was acked, and was told of again after its end, is not acked
  here (its sum is no longer zero); the plain acker takes the later message for an orphan;
- a fail and a zero have no order: a tree that failed first and became zero later is acked here;
- a root that is used again within the time-out is one tree, whose last spout task by number hears of it;
- a group cannot end: a finished tree stays in the state until the watermark has passed its stretch;
- orphans that a finished tree left behind are not told apart from it.
Where each tree has its own root, ends once and nothing is doubled, the outcomes are the plain acker's.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kitlib.pipelines.acker_query import AHEAD_MS, ORPHAN, WATERMARK, Folder, Way, legal


def parts(messages: DataFrame, timeout_ms: int) -> DataFrame:
    """The aggregate: for each root and stretch of one time-out what its messages come to."""
    length, begin = (f"{span_ms} milliseconds" for span_ms in (timeout_ms, AHEAD_MS))
    timed = legal(messages).withColumn("at", F.timestamp_millis(F.col("at_ms") + AHEAD_MS)).withWatermark("at", WATERMARK)
    return timed.groupBy("root", F.window("at", length, startTime=begin)).agg(
        F.bit_xor("val").alias("val"),
        F.max("spout_task").alias("spout_task"),
        F.max(F.col("kind") == "fail").alias("failed"),
    ).select("root", (F.unix_millis("window.start") - AHEAD_MS).alias("from_ms"), "val", "spout_task", "failed")  # fmt: skip


def whole(spark: SparkSession, folder: Folder, timeout_ms: int) -> DataFrame:
    """The parts of each tree put together, and judged by the clock."""
    latest = spark.read.parquet(*folder.batches()).groupBy("root", "from_ms").agg(
        F.max_by(F.struct("val", "spout_task", "failed"), "batch").alias("part")
    ).select("root", "from_ms", "part.*")  # fmt: skip
    in_order = Window.partitionBy("root").orderBy("from_ms")
    is_new = F.coalesce(F.col("from_ms") - F.lag("from_ms").over(in_order) > timeout_ms, F.lit(False))
    entries = latest.withColumn("is_new", is_new.cast("int")).withColumn("entry", F.sum("is_new").over(in_order))
    judged = entries.groupBy("root", "entry").agg(
        F.bit_xor("val").alias("val"), F.max("spout_task").alias("spout_task"), F.max("failed").alias("failed"),
        F.max("from_ms").alias("from_ms"),
    )  # fmt: skip
    outcome = (
        F.when(F.col("spout_task").isNull(), ORPHAN)
        .when(F.col("val") == 0, "acked")
        .when(F.col("failed"), "failed")
        .when(F.col("from_ms") + 2 * timeout_ms <= folder.clock_ms(), "timed out")
        .otherwise("open")
    )
    return judged.select("root", outcome.alias("outcome"), "spout_task")


AGGREGATE: Final = Way("streaming aggregate", parts, whole)
follow, start, outcomes = AGGREGATE.follow, AGGREGATE.start, AGGREGATE.outcomes
