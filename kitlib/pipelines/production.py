"""The audit of producers' runs, as queries: what they were given to send, and what lies in their topics.

A lane (one partition of one topic in one run) is a producer's when its first step is `send`; record n of it has the
value n, in decimal. `kitlib.monitor.producing` follows such a run step by step. Here its definitions are DataFrames,
which also work when there are more records than a notebook can hold. `audit` of `kitlib.pipelines.audit` finds such
lanes by itself.

    steps ─┬─> told ──────────────────────────────┐
           ├─> lanes ─────────┐                   │
           └─> stored_in ─┬───┴─> follow_log ─────┴─> follow_records ─> count_production
    topic ───> found_in ──┘

What lies in the log is told three times: by the broker's `write` steps, by a `read` step at the end
of a real run, and by the topic itself, which is read last and has the last word. Each of them says
where in the log a record lies (its *place*), and a later one replaces all that earlier ones said of
the places that it covers. A place that two of them tell alike is witnessed by the first.

Left out: which setting allows what was found; the trace's own verdict says that.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kitlib.errors import LabError
from kitlib.lab.log_ends import LogEnds
from kitlib.pipelines import delivery_frames
from kitlib.pipelines.delivery_frames import LANE, MAX_OFFSET, RANGES, Rows, lane_steps, to_rows
from kitlib.pipelines.topics import Topics, check_topics_exist

# The number of the step that the topic itself would be: it is read after all others, and shown as none.
TOPIC_N: Final = 2**62

# A lane, its first and last step, the one at which its producer's process ended (null for none), and the steps after which
# nothing counts that was said before of places from `first` on.
LANES: Final = (
    "run STRING, topic STRING, partition INT, first_n BIGINT, last_n BIGINT, exit_n BIGINT, "
    "readings ARRAY<STRUCT<n: BIGINT, first: BIGINT>>"
)

# A record's value is its number, in decimal; 2^53 has 16 digits.
NUMBER: Final = r"^(0|[1-9][0-9]{0,15})$"


def lanes(steps: DataFrame) -> DataFrame:
    """One row for each lane of any kind: LANES, and the word of its first step."""
    reading = F.when(F.col("what") == "read", F.struct("n", F.coalesce("first_offset", F.lit(0)).alias("first")))
    return lane_steps(steps).groupBy(*LANE).agg(
        F.min("n").alias("first_n"), F.max("n").alias("last_n"), F.min(F.when(F.col("what") == "exit", F.col("n"))).alias("exit_n"),
        F.collect_list(reading).alias("readings"),
        F.min_by("what", "n").alias("first_word"),
    )  # fmt: skip


def stored_in(steps: DataFrame) -> DataFrame:
    """What `write` and `read` steps say lies in the log: LANE, place, record, n, at_ms, is_write, index within the step."""
    is_write = F.col("what") == "write"
    ranges = F.when(is_write, F.array(F.array("first", "last"))).otherwise(F.from_json("records", RANGES))
    numbers = F.flatten(F.transform(ranges, lambda pair: F.sequence(pair[0], pair[1])))
    begin = F.when(is_write, F.col("offset")).otherwise(F.coalesce("first_offset", F.lit(0)))
    return steps.where(F.col("what").isin("write", "read")).select(
        *LANE, "n", "at_ms", is_write.alias("is_write"), begin.alias("begin"), F.posexplode(numbers).alias("index", "record")
    ).withColumn("place", F.col("begin") + F.col("index")).drop("begin")  # fmt: skip


def found_in(source: DataFrame) -> DataFrame:
    """The records of the topics in the columns of `stored_in`; `record` is null where the value is no record's number.

    `source` has run, topic, partition, offset and value (bytes).
    """
    text = F.try_validate_utf8(F.col("value").cast("string"))
    number = F.when(text.rlike(NUMBER), text).try_cast("long")
    return source.select(
        *LANE, F.lit(TOPIC_N).alias("n"), F.lit(None).cast("long").alias("at_ms"), F.lit(False).alias("is_write"),
        F.col("offset").alias("index"), F.when(number < MAX_OFFSET, number).alias("record"), F.col("offset").alias("place"),
    )  # fmt: skip


def follow_log(stored: DataFrame, produced: DataFrame) -> DataFrame:
    """The log of each lane at the end, in order: LANE, n, index, record, `told` (step and ms), `copy` from 1, if it `is_late`.

    `stored` are the rows of `stored_in` and `found_in` together, `produced` the producers' rows of `lanes`,
    whose `readings` include that of the topic. A first copy is late when a higher record lies before it.
    """
    place = Window.partitionBy(*LANE, "place", "record").orderBy("n")
    before = Window.partitionBy(*LANE).orderBy("n", "index").rowsBetween(Window.unboundedPreceding, -1)
    by_record = Window.partitionBy(*LANE, "record").orderBy("n", "index")

    def is_replaced(after: Column, until: Column) -> Column:
        covers = F.exists(
            "readings", lambda step: (step["n"] > after) & (step["n"] < until) & (step["first"] <= F.col("place"))
        )
        return F.coalesce(covers, F.lit(False))

    previous = F.lag("n").over(place)
    is_news = F.col("is_write") | previous.isNull() | is_replaced(previous, F.col("n"))
    news = F.struct("n", F.when(F.col("is_write"), F.col("at_ms")).alias("at_ms"))
    return (
        stored.join(F.broadcast(produced.select(*LANE, "readings")), LANE, "left")
        .where(F.col("readings").isNotNull() | (F.col("n") == TOPIC_N))  # a partition that the trace does not name is told of
        .repartition(*LANE)  # one exchange serves all windows
        .withColumn("is_news", is_news)
        .withColumn("told", F.last(F.when(F.col("is_news"), news), ignorenulls=True).over(place))
        .where(~is_replaced(F.col("n"), F.lit(TOPIC_N + 1)))
        .withColumns({"copy": F.row_number().over(by_record), "highest": F.max("record").over(before)})
        .withColumn("is_late", (F.col("copy") == 1) & F.coalesce(F.col("record") < F.col("highest"), F.lit(False)))
        .select(*LANE, "n", "index", "record", "told", "copy", "is_late")
    )


def told(steps: DataFrame) -> DataFrame:
    """What the user handed over and was told, one row for each record: LANE, record, word, n, at_ms."""
    words = steps.where(F.col("what").isin("send", "delivered", "undelivered"))
    return words.select(*LANE, F.explode(F.sequence("first", "last")).alias("record"), F.col("what").alias("word"), "n", "at_ms")


def follow_records(user: DataFrame, log: DataFrame) -> DataFrame:
    """One row for each record: when it was sent, what the user was told, its copies in the log, the first ones' witnesses.

    `user` are the rows of `told`, `log` those of `follow_log`. What lies in the log and is no record's
    number is in a row without a record. A witness is a struct whose first field is a step's number, in
    the order in which witnesses are compared.
    """
    seen = F.struct("told.n", F.col("n").alias("in_n"), "index")
    of_log = log.select(
        *LANE, "record", F.lit("stored").alias("word"), "n", "told.at_ms", "copy",
        F.when(F.col("copy") > 1, seen).alias("again"), F.when(F.col("is_late"), seen).alias("late"),
    )  # fmt: skip
    n, word = F.col("n"), F.col("word")
    return user.unionByName(of_log, allowMissingColumns=True).groupBy(*LANE, "record").agg(
        F.min(F.when(word == "send", n)).alias("sent"), F.min_by("at_ms", F.when(word == "send", n)).alias("sent_ms"),
        (F.count_if(word == "delivered") > 0).alias("delivered"), F.max(F.when(word == "undelivered", n)).alias("undelivered"),
        F.count_if(word == "stored").alias("copies"), F.count_if((word == "stored") & (n == TOPIC_N)).alias("found"),
        F.max(F.when(F.col("copy") == 1, F.col("at_ms"))).alias("stored_ms"),
        F.min("again").alias("again"), F.min("late").alias("late"),
    )  # fmt: skip


def count_production(records: DataFrame, produced: DataFrame) -> DataFrame:
    """One row for each lane: how many records were sent and stored, each anomaly's count and first witness, how late.

    `records` are the rows of `follow_records`, `produced` the producers' rows of `lanes`. A witness is a
    struct of the step's number and the record's.
    """
    is_number, was_sent, is_stored = F.col("record").isNotNull(), F.col("sent").isNotNull(), F.col("copies") > 0
    delivered, undelivered = F.col("delivered"), F.col("undelivered")
    given_up = F.coalesce(F.when(delivered, F.col("last_n")), undelivered, F.col("exit_n"))
    lost = was_sent & ~is_stored & given_up.isNotNull()
    indefinite = undelivered.isNotNull() & is_stored & ~delivered

    def witness(of: Column) -> Column:
        return F.min(F.when(of.isNotNull(), F.struct(of.alias("n"), F.col("record").alias("offset"))))

    return records.join(F.broadcast(produced.drop("readings")), LANE, "left").groupBy(*LANE).agg(
        F.min("first_n").alias("first_n"),
        F.count_if(was_sent).alias("written"),
        F.count_if(was_sent & is_stored).alias("processed"),
        F.sum("found").alias("found"),
        F.sum(F.when(is_number & ~was_sent, F.col("found"))).alias("unmentioned"),
        F.sum(F.when(~is_number, F.col("found"))).alias("unreadable"),
        F.count_if(lost).alias("lost"),
        witness(F.when(lost, given_up)).alias("lost_first"),
        F.sum(F.when(is_number & is_stored, F.col("copies") - 1)).alias("duplicated"),
        _first("again").alias("duplicated_first"),
        F.count_if(is_number & F.col("late").isNotNull()).alias("reordered"),
        _first("late").alias("reordered_first"),
        F.count_if(indefinite).alias("indefinite"),
        witness(F.when(indefinite, undelivered)).alias("indefinite_first"),
        F.max(F.when(was_sent, F.col("stored_ms") - F.col("sent_ms"))).alias("late_ms"),
    )  # fmt: skip


def _first(name: str) -> Column:
    """The smallest of the witnesses of `follow_records` as a struct of the step's number and the record's."""
    of = F.when(F.col("record").isNotNull(), F.col(name))
    return F.min_by(F.struct(F.col(f"{name}.n").alias("n"), F.col("record").alias("offset")), of)


FIRST_WORD = "send"  # of a producer's lane


def split_lanes(steps: DataFrame) -> tuple[Rows, Rows]:
    """The lanes of producers, and the others; rows of `lanes`."""
    rows = to_rows(lanes(steps))
    return (
        [row for row in rows if row["first_word"] == FIRST_WORD],
        [row for row in rows if row["first_word"] != FIRST_WORD],
    )


def without(spark: SparkSession, lines: DataFrame, lanes: Rows) -> DataFrame:
    """Those of `lines` (steps or records) that belong to none of these lanes."""
    if not lanes:
        return lines
    named = spark.createDataFrame([tuple(row[name] for name in LANE) for row in lanes], "run STRING, topic STRING, partition INT")
    return lines.join(named, LANE, "left_anti")


def read_topics(topics: Topics, spark: SparkSession, produced: Rows) -> tuple[DataFrame, Rows]:
    """The records of the producers' topics; and the lanes, which now know where the topics begin.

    LabError when a topic is not there.
    """
    named = {(row["run"], row["topic"]) for row in produced}
    check_topics_exist(topics, named)
    asked = LogEnds(topics.admin()).starts({(row["topic"], row["partition"]) for row in produced})
    for (topic, partition), why in asked.skipped.items():
        raise LabError(f"{topic}-{partition} at {topics.bootstrap}: the log start is unknown ({why}). Look at `kit status`.")

    def read_last(row: dict[str, Any]) -> list[dict[str, int]]:
        return [*row["readings"], {"n": TOPIC_N, "first": asked.offsets[row["topic"], row["partition"]]}]

    return topics.read_source(spark, named), [row | {"readings": read_last(row)} for row in produced]


def count(spark: SparkSession, steps: DataFrame, produced: Rows, source: DataFrame | None) -> Rows:
    """The rows of `count_production`, brought here: one for each of the producers' partitions.

    Without a `source` (run, topic, partition, offset, value) the steps alone count.
    """
    if not produced:
        return []
    lanes = _frame(spark, produced)
    of_lanes = delivery_frames.lane_steps(steps)
    stored = stored_in(of_lanes)
    if source is not None:
        stored = stored.unionByName(found_in(source))
    user = told(of_lanes).join(F.broadcast(lanes.select(*LANE)), LANE, "left_semi")
    records = follow_records(user, follow_log(stored, lanes))
    return [_shown(row) for row in to_rows(count_production(records, lanes))]


def _frame(spark: SparkSession, lanes: Rows) -> DataFrame:
    names = (*LANE, "first_n", "last_n", "exit_n", "readings")
    return spark.createDataFrame([{name: row[name] for name in names} for row in lanes], LANES)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A counted row as a result needs it: what only the topic shows was seen at no step."""
    for value in row.values():
        if isinstance(value, dict) and value.get("n") == TOPIC_N:
            value["n"] = None
    return row | {"verb": "stored"}
