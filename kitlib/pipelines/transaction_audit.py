"""The audit of transactions' runs: what a reader was given of what was promised, from the trace and from the topic.

A lane is one of these when its first step is `open` or `effect`. For a run on a broker the topic is read anew, at the isolation
level that the verdict is about; what a database outside holds no topic tells, so those lanes are judged by the trace alone.

Left out: a stream over such runs. What was promised and not given is known only at the end.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.monitor.transactions import TRANSACTION_LANES
from kitlib.pipelines import delivery_frames, production_frames, transaction_frames
from kitlib.pipelines.audit_rows import Rows, check_topics_exist
from kitlib.pipelines.delivery_frames import LANE
from kitlib.pipelines.topics import Topics


def find_lanes(steps: DataFrame) -> Rows:
    """The lanes of transactions; rows of LANES. Which reader they are about, the run's header says."""
    header = steps.where(F.col("kind") == "header").select("run", "isolation").dropDuplicates(["run"])
    lanes = production_frames.lanes(steps).where(F.col("first_word").isin(*TRANSACTION_LANES)).join(header, "run", "left")
    outside = delivery_frames.lane_steps(steps).groupBy(*LANE).agg((F.count_if(F.col("what") == "effect") > 0).alias("is_outside"))
    readers = lanes.join(outside, LANE).withColumn("reader", F.coalesce("isolation", F.lit(transaction_frames.READER)))
    cut = steps.where(delivery_frames.is_cut()).select("run", F.lit(True).alias("is_cut")).distinct()
    ends = delivery_frames.lane_steps(steps).where(F.col("what") == "end").groupBy(*LANE, F.col("actor").alias("reader")).agg(
        F.max("n").alias("end_n")
    )  # fmt: skip
    until = F.when(F.col("is_cut"), F.coalesce("end_n", F.lit(-1))).otherwise(F.col("last_n"))
    rows = readers.join(cut, "run", "left").join(ends, [*LANE, "reader"], "left").select(
        *LANE, "first_n", "last_n", "reader", "is_outside", until.alias("until_n")
    )  # fmt: skip
    return [row.asDict() for row in rows.collect()]


def topics_of(lanes: Rows) -> set[str]:
    """The topics that a broker has."""
    return {lane["topic"] for lane in lanes if not lane["is_outside"]}


def read_topics(topics: Topics, spark: SparkSession, lanes: Rows) -> DataFrame:
    """What each lane's reader is given now: LANE, record, place. LabError when a topic is not there."""
    named = {(lane["run"], lane["topic"], lane["reader"]) for lane in lanes if not lane["is_outside"]}
    check_topics_exist(topics, {(run, topic) for run, topic, _ in named})
    found: DataFrame | None = None
    for reader in sorted({reader for *_, reader in named}):
        pairs = {(run, topic) for run, topic, of in named if of == reader}
        part = topics.read_source(spark, pairs, isolation=reader)
        found = part if found is None else found.unionByName(part)
    assert found is not None
    text = F.try_validate_utf8(F.col("value").cast("string"))
    number = F.when(text.rlike(production_frames.NUMBER), text).try_cast("long")
    return found.select(*LANE, number.alias("record"), F.col("offset").alias("place"))


def count(spark: SparkSession, steps: DataFrame, lanes: Rows, found: DataFrame | None) -> Rows:
    """The rows of `transaction_frames.count_transactions`, brought here."""
    if not lanes:
        return []
    frame = spark.createDataFrame(lanes, transaction_frames.LANES)
    readers = F.broadcast(frame.select(*LANE, "reader"))
    of_lanes = delivery_frames.lane_steps(steps).join(readers, LANE).persist()
    rows = {tuple(lane[name] for name in LANE): _row(lane) for lane in lanes}
    counted_rows, kept = transaction_frames.count_transactions(of_lanes, frame, found)
    try:
        for counted in counted_rows.collect():
            row = rows[tuple(counted[name] for name in LANE)]
            row[counted["kind"]] = counted["count"]
            row[f"{counted['kind']}_first"] = counted["first"].asDict()
    finally:
        for each in (*kept, of_lanes):
            each.unpersist()
    return list(rows.values())


def _row(lane: dict[str, Any]) -> dict[str, Any]:
    """A lane's row before anything was counted."""
    names = {name: lane[name] for name in (*LANE, "first_n")}
    return {**names, "verb": "charged" if lane["is_outside"] else "read"}
