"""The acker as one streaming aggregate: Spark XORs what an acker would XOR, and its watermark is the timeout.

XOR does not care for order or grouping. So no code of ours has to see the messages of a tree one by one:
`bit_xor(val)` over each root is the acker's whole arithmetic, and Spark spreads it over executors and keeps
it in its state store. What is left is to forget. The state is kept for each root *and* each stretch of one
timeout, which Spark drops when the watermark has passed it. The parts of a tree are XORed together when
somebody asks: parts in neighbouring stretches belong to one entry, a stretch without a message between them
means that the acker had forgotten the tree. That is the age of RotatingMap's two buckets, to the tick.

Source: `kitlib.mechanisms.acker.Acker`, and with it Storm 0.9.3.
Differs: an aggregate knows the sum and not the way to it, nor when it was reached. Therefore
- a zero in the middle is not seen: a tree that was acked, and was told of again after its end, is not acked
  here (its sum is no longer zero); the plain acker takes the later message for an orphan;
- a fail and a zero have no order: a tree that failed first and became zero later is acked here;
- a root that is used again within the timeout is one tree, whose last spout task by number hears of it;
- a group cannot end: a finished tree stays in the state until the watermark has passed its stretch;
- orphans that a finished tree left behind are not told apart from it.
Where each tree has its own root, ends once and nothing is doubled, the outcomes are the plain acker's.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from os import PathLike
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kitlib.lab import workspace
from kitlib.pipelines.acker_query import (
    AHEAD_MS,
    ORPHAN,
    OUTCOMES,
    STATE_STORE,
    WATERMARK,
    AckerResult,
    Folder,
    checked_timeout,
    finish,
    legal,
    messages_of,
    result_of,
    settings,
    timeout_ms_of,
)
from kitlib.pipelines.topics import Topics, one_sentence, trace_topic
from kitlib.spark import sessions as kit_spark


def parts(messages: DataFrame, timeout_ms: int) -> DataFrame:
    """The aggregate: for each root and stretch of one timeout what its messages come to."""
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


def follow(
    session: SparkSession,
    run: str,
    *,
    timeout_ms: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    bootstrap: str | None = None,
    lines_per_batch: int | None = None,
) -> AckerResult:
    """Follow every tree of a finished run by its trace topic.

    `timeout_ms` is that of the run unless given. With a `checkpoint` folder a later call goes on where this one
    stopped; without, everything is read and nothing is kept. LabError when a topic is not there, no broker
    answers, or the folder is another's; KnobError for a name that no run has.
    """
    topics = Topics.find(bootstrap)
    with one_sentence(f"acker on Spark of run {run}"):
        timeout = timeout_ms_of(topics, session, run) if timeout_ms is None else checked_timeout(timeout_ms)
    own = workspace.spark_dir() / "ackers" / f"{run}-{uuid.uuid4().hex[:8]}"
    folder = Path(checkpoint) if checkpoint is not None else own
    try:
        begin = time.monotonic()
        messages = messages_of(topics.stream_trace(session, run, lines_per_batch))
        finish(start(messages, folder, timeout, source=f"{run} {topics.identity(trace_topic(run))}"))
        with one_sentence(f"acker on Spark of run {run}"):
            found = outcomes(session, folder).toPandas()
        return result_of(run, found, time.monotonic() - begin)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def start(messages: DataFrame, folder: str | PathLike[str], timeout_ms: int, *, source: str = "messages") -> StreamingQuery:
    """Start to follow the trees of a stream of messages; go on where the query of this folder stopped.

    `source` says whose messages they are: a folder is gone on with for the same ones only. The query ends when
    it has read what is there now. LabError for another's folder.
    """
    place = Folder(Path(folder))
    place.claim(checked_timeout(timeout_ms), source)

    def keep(said: DataFrame, batch: int) -> None:
        said.withColumn("batch", F.lit(batch).cast("long")).write.mode("overwrite").parquet(str(place.batch(batch)))

    with one_sentence("acker on Spark"), settings(messages.sparkSession, STATE_STORE):
        writer = parts(messages, timeout_ms).writeStream.outputMode("update").trigger(availableNow=True)
        return kit_spark.start(writer.option("checkpointLocation", str(place.query)), keep)


def outcomes(spark: SparkSession, folder: str | PathLike[str]) -> DataFrame:
    """What became of each tree by now, from the folder of a query that has stopped: OUTCOMES.

    An outcome is `acked`, `failed`, `timed out` or `open`; `orphan` stands for an entry that no init has claimed.
    """
    place = Folder(Path(folder))
    if not place.batches():
        return spark.createDataFrame([], OUTCOMES)
    told = json.loads((place.path / "acker.json").read_text(encoding="utf-8"))
    return whole(spark, place, told["timeout_ms"])
