"""The audit of transactions' runs, as queries: what a reader was given of what was promised, by the trace and by the topic.

`kitlib.monitor.transactions` follows a run step by step; here its definitions are DataFrames. A lane is judged so when
its first step is `open` or `effect`.

    steps ─┬─> batches ──────────────┬─> fates ───────┐
           ├─> given ──> first copies ┼───────────────┼─> count_transactions
           ├─> promises ──────────────┘               │
    topic ─┴─> found, where it is a real run's ───────┘

What the reader was given is told by its `read` steps. For a run on a broker the topic is read as well, at the
isolation level that the verdict is about, and what lies there and no step tells of is given too. What a database
outside holds no topic tells, so those lanes are judged by the trace alone.

Left out: which setting allows what was found; the trace's own verdict says that.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kitlib.monitor.transactions import TRANSACTION_LANES
from kitlib.pipelines import delivery_frames, production
from kitlib.pipelines.audit_rows import Rows, check_topics_exist
from kitlib.pipelines.delivery_frames import LANE
from kitlib.pipelines.topics import Topics

READER = "read_committed"  # whom the verdict is about when no setting says so

# A lane, its first and last step, whom the verdict is about, whether effects are counted instead of records, and the last step
# by which a promise or a wait is judged: the last one of all, and of a run that was cut the one at which the reader was at the end.
LANES = "run STRING, topic STRING, partition INT, first_n BIGINT, last_n BIGINT, reader STRING, is_outside BOOLEAN, until_n BIGINT"


def numbers(steps: DataFrame) -> DataFrame:
    """One row for each record that a `send` or a `write` names: LANE, what, n, at_ms, actor, tx, pid, record, place."""
    words = steps.where(F.col("what").isin("send", "write"))
    each = F.posexplode(F.sequence("first", "last")).alias("index", "record")
    return words.select(*LANE, "what", "n", "at_ms", "actor", "tx", "pid", F.col("offset").alias("begin"), each).withColumn(
        "place", F.col("begin") + F.col("index")
    )


def fates(steps: DataFrame, records: DataFrame) -> DataFrame:
    """Each record of a transaction in the log with its fate: LANE, record, place, kind: COMMIT, ABORT, or null while it is open.

    A marker ends all that its producer wrote since its marker before.
    """
    marks = steps.where(F.col("what") == "marker").select(
        *LANE, "pid", "n", F.col("kind_of_marker").alias("kind"), F.lit(None).cast("long").alias("record"),
        F.lit(None).cast("long").alias("place"),
    )  # fmt: skip
    writes = records.where((F.col("what") == "write") & (F.col("pid") >= 0)).select(
        *LANE, "pid", "n", F.lit(None).cast("string").alias("kind"), "record", "place"
    )
    later = Window.partitionBy(*LANE, "pid").orderBy("n").rowsBetween(Window.currentRow, Window.unboundedFollowing)
    both = writes.unionByName(marks).withColumn("fate", F.first("kind", ignorenulls=True).over(later))
    return both.where(F.col("record").isNotNull()).select(*LANE, "record", "place", F.col("fate").alias("kind"))


def given(steps: DataFrame, lanes: DataFrame, found: DataFrame | None) -> DataFrame:
    """What the reader was given, one row each time: LANE, record, place, n, at_ms. `found` (LANE, record, place) is the topic's."""
    told = steps.where((F.col("what") == "read") & (F.col("actor") == F.col("reader"))).select(
        *LANE, "record", F.col("offset").alias("place"), "n", "at_ms"
    )
    if found is not None:
        unseen = found.join(told.select(*LANE, "place"), [*LANE, "place"], "left_anti")
        last = unseen.join(F.broadcast(lanes.select(*LANE, F.col("last_n").alias("n"))), LANE)
        told = told.unionByName(last.withColumn("at_ms", F.lit(None).cast("long")), allowMissingColumns=True)
    charged = steps.where((F.col("what") == "effect") & F.col("charged")).select(
        *LANE, "record", F.lit(-1).cast("long").alias("place"), "n", "at_ms"
    )
    return told.unionByName(charged)


def promises(steps: DataFrame, records: DataFrame, lanes: DataFrame) -> DataFrame:
    """What was promised, and in which step: LANE, record, n.

    Outside of transactions the write promises; else the commit of which the user was told; else the group's position at the end.
    """
    commits = steps.where(F.col("what") == "commit_tx").select(*LANE, "tx", F.col("n").alias("n"))
    sends = records.where((F.col("what") == "send") & F.col("tx").isNotNull()).select(*LANE, "tx", "record").distinct()
    committed = sends.join(commits, [*LANE, "tx"]).select(*LANE, "record", "n", F.lit(1).alias("rank"))
    plain = records.where((F.col("what") == "write") & (F.col("pid") < 0)).select(*LANE, "record", "n", F.lit(2).alias("rank"))
    passed = inputs(steps).where(F.least("inputs", "position") > 0).join(F.broadcast(lanes.select(*LANE, "last_n")), LANE)
    of_input = passed.select(
        *LANE, F.explode(F.sequence(F.lit(0).cast("long"), F.least("inputs", "position") - 1)).alias("record"),
        F.col("last_n").alias("n"), F.lit(0).alias("rank"),
    )  # fmt: skip
    together = reduce(DataFrame.unionByName, (committed, plain, of_input))
    return together.groupBy(*LANE, "record").agg(F.max_by("n", F.struct("rank", "n")).alias("n"))


def inputs(steps: DataFrame) -> DataFrame:
    """LANE, how many input records there are, and the group's committed offset at the end."""
    return steps.groupBy(*LANE).agg(
        F.coalesce(F.max_by("inputs", F.when(F.col("what") == "open", F.col("n"))), F.lit(0)).cast("long").alias("inputs"),
        F.coalesce(F.max("committed_input"), F.lit(0)).alias("position"),
    )


def stalls(steps: DataFrame) -> DataFrame:
    """Where the reader waited for a transaction that its own user did not end after the write there: LANE, n, offset."""
    waits = steps.where((F.col("what") == "waits") & (F.col("actor") == F.col("reader")))
    first = waits.groupBy(*LANE, F.col("at").alias("offset")).agg(F.min("n").alias("n"))
    writes = steps.where(F.col("what") == "write").groupBy(*LANE, "offset").agg(
        F.max("n").alias("written"), F.max_by("tx", "n").alias("tx")
    )  # fmt: skip
    ends = steps.where(F.col("what").isin("commit_tx", "abort_tx")).groupBy(*LANE, "tx").agg(F.max("n").alias("ended"))
    joined = first.join(writes, [*LANE, "offset"], "left").join(ends, [*LANE, "tx"], "left")
    is_left = F.col("tx").isNull() | (F.coalesce("ended", F.lit(-1)) < F.col("written"))
    return joined.where(is_left).select(*LANE, "n", "offset")


def count_transactions(steps: DataFrame, lanes: DataFrame, found: DataFrame | None) -> tuple[DataFrame, list[DataFrame]]:
    """LANE, kind, count, first: for each lane how many records were `written` (asked for) and `processed` (given), `late_ms`, each anomaly.

    `steps` are those of these lanes, each with its lane's `reader`; `lanes` has LANES. `first` is a struct of the step's number and
    the record's. What is 0 has no row. With a topic (`found`) also how much was `found` there, and how much of it is `unmentioned`.
    The frames that it is made of are kept by Spark until the caller lets go of them: the second answer.
    """
    records = numbers(steps).persist()
    fate = fates(steps, records).persist()
    sent = records.where(F.col("what") == "send").select(*LANE, "record", "n", "at_ms", "actor").unionByName(
        steps.where(F.col("what") == "effect").select(*LANE, "record", "n", "at_ms", F.lit(None).cast("string").alias("actor"))
    )  # fmt: skip
    by_sends = F.when(F.col("actor").isNotNull(), F.col("n"))  # an effect has no sender
    sent = sent.groupBy(*LANE, "record").agg(F.min_by("at_ms", "n").alias("sent_ms"), F.min_by("actor", by_sends).alias("sender"))
    copies = Window.partitionBy(*LANE, "record").orderBy("n", "place")
    before = Window.partitionBy(*LANE, "copy", "by").orderBy("n", "place").rowsBetween(Window.unboundedPreceding, -1)
    aborted = fate.where(F.col("kind") == "ABORT").select(*LANE, "place", F.lit(True).alias("is_aborted")).distinct()
    reads = (
        given(steps, lanes, found)
        .withColumn("copy", F.row_number().over(copies))
        .join(sent, [*LANE, "record"], "left")
        .join(aborted, [*LANE, "place"], "left")
        .withColumn("by", F.coalesce("sender", F.lit("")))
        .withColumn("highest", F.max("record").over(before))
        .persist()
    )
    first = F.col("copy") == 1
    firsts = reads.where(first).select(*LANE, "record")
    promised = promises(steps, records, lanes).persist()
    undecided = fate.where(F.col("kind").isNull()).select(*LANE, "record")
    asked = _asked(sent, promised, undecided, inputs(steps), lanes).join(
        firsts.withColumn("is_given", F.lit(True)), [*LANE, "record"], "left"
    )  # fmt: skip

    def tally(kind: str, rows: DataFrame, of: Column | None = None, offset: str = "record") -> DataFrame:
        witness = F.min(F.struct(F.col("n").cast("long").alias("n"), F.col(offset).alias("offset")))
        count = F.count(F.lit(1)) if of is None else of
        return rows.groupBy(*LANE).agg(F.lit(kind).alias("kind"), count.cast("long").alias("count"), witness.alias("first"))

    def in_time(rows: DataFrame) -> DataFrame:
        return rows.join(F.broadcast(lanes.select(*LANE, "until_n")), LANE).where(F.col("n") <= F.col("until_n"))

    parts = [
        tally("written", asked.withColumn("n", F.lit(None))),
        tally("processed", asked.where("is_given").withColumn("n", F.lit(None))),
        tally("late_ms", reads.where(first), F.greatest(F.lit(0), F.max(F.col("at_ms") - F.col("sent_ms")))),
        tally("lost", in_time(promised.join(firsts, [*LANE, "record"], "left_anti"))),
        tally("duplicated", reads.where(~first)),
        tally("reordered", reads.where(first & (F.col("record") < F.col("highest")))),
        tally("aborted_read", reads.where("is_aborted")),
        tally("stalled", in_time(stalls(steps)), offset="offset"),
    ]
    if found is not None:
        writes = records.where(F.col("what") == "write").select(*LANE, "place", F.lit(1).alias("mentioned")).distinct()
        whole = found.join(writes, [*LANE, "place"], "left").withColumn("n", F.lit(None))
        parts += [tally("found", whole), tally("unmentioned", whole, F.count_if(F.col("mentioned").isNull()))]
    return reduce(DataFrame.unionByName, parts), [records, fate, reads, promised]


def _asked(sent: DataFrame, promised: DataFrame, undecided: DataFrame, of_input: DataFrame, lanes: DataFrame) -> DataFrame:
    """The records that ought to be given, or may still be: LANE, record."""
    outside = F.broadcast(lanes.where("is_outside").select(*LANE))
    inside = F.broadcast(lanes.where(~F.col("is_outside")).select(*LANE))
    some: Column = F.col("inputs") > 0
    named = of_input.join(inside, LANE, "left_semi")
    whole = named.where(some).select(*LANE, F.explode(F.sequence(F.lit(0).cast("long"), F.col("inputs") - 1)).alias("record"))
    without_input = promised.select(*LANE, "record").unionByName(undecided).join(
        named.where(~some).select(*LANE), LANE, "left_semi"
    )  # fmt: skip
    charged = sent.select(*LANE, "record").join(outside, LANE, "left_semi")
    return reduce(DataFrame.unionByName, (whole, without_input, charged)).distinct()


def find_lanes(steps: DataFrame) -> Rows:
    """The lanes of transactions; rows of LANES. Which reader they are about, the run's header says."""
    header = steps.where(F.col("kind") == "header").select("run", "isolation").dropDuplicates(["run"])
    lanes = production.lanes(steps).where(F.col("first_word").isin(*TRANSACTION_LANES)).join(header, "run", "left")
    outside = delivery_frames.lane_steps(steps).groupBy(*LANE).agg((F.count_if(F.col("what") == "effect") > 0).alias("is_outside"))
    readers = lanes.join(outside, LANE).withColumn("reader", F.coalesce("isolation", F.lit(READER)))
    cut = steps.where(delivery_frames.is_cut()).select("run", F.lit(True).alias("is_cut")).distinct()
    ends = delivery_frames.lane_steps(steps).where(F.col("what") == "end").groupBy(*LANE, F.col("actor").alias("reader")).agg(
        F.max("n").alias("end_n")
    )  # fmt: skip
    until = F.when(F.col("is_cut"), F.coalesce("end_n", F.lit(-1))).otherwise(F.col("last_n"))
    rows = readers.join(cut, "run", "left").join(ends, [*LANE, "reader"], "left").select(
        *LANE, "first_n", "last_n", "reader", "is_outside", until.alias("until_n")
    )  # fmt: skip
    return [row.asDict() for row in rows.collect()]


def read_topics(topics: Topics, spark: SparkSession, lanes: Rows) -> DataFrame:
    """What each lane's reader is given now: LANE, record, place. LabError when a topic is not there."""
    named = {(lane["run"], lane["topic"], lane["reader"]) for lane in lanes}
    check_topics_exist(topics, {(run, topic) for run, topic, _ in named})
    found: DataFrame | None = None
    for reader in sorted({reader for *_, reader in named}):
        pairs = {(run, topic) for run, topic, of in named if of == reader}
        part = topics.read_source(spark, pairs, isolation=reader)
        found = part if found is None else found.unionByName(part)
    assert found is not None
    text = F.try_validate_utf8(F.col("value").cast("string"))
    number = F.when(text.rlike(production.NUMBER), text).try_cast("long")
    return found.select(*LANE, number.alias("record"), F.col("offset").alias("place"))


def count(spark: SparkSession, steps: DataFrame, lanes: Rows, found: DataFrame | None) -> Rows:
    """The rows of `count_transactions`, brought here."""
    if not lanes:
        return []
    frame = spark.createDataFrame(lanes, LANES)
    readers = F.broadcast(frame.select(*LANE, "reader"))
    of_lanes = delivery_frames.lane_steps(steps).join(readers, LANE).persist()
    rows = {tuple(lane[name] for name in LANE): _row(lane) for lane in lanes}
    counted_rows, kept = count_transactions(of_lanes, frame, found)
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
