"""The delivery verdict as queries: from the lines of a trace topic to counts for each partition.

`kitlib.monitor.delivery` walks through a trace step by step, which is the way to understand a verdict
but not the way to reach one over millions of records. Here the same definitions are DataFrames. The
idea is to keep only the steps that can still matter: for each record its first append, its first
emit, its first process and its repetitions.

    lines ─> read_steps ─┬─> facts ─> condense ─┬─> follow_records ─> count_anomalies
                         └─> follow_lanes ──────┘

A *lane* is one partition of one topic in one run. What happens to a lane in order (the committed
position, the log's end, commits without progress) needs windows over its steps.

Left out: which setting allows an anomaly; the trace's own verdict says that.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kitlib.monitor.delivery import STALL_COMMITS
from kitlib.trace_lines import MAX_LINE_CHARS

Rows = list[dict[str, Any]]  # brought here from a query: as many as there are lanes

LANE: Final = ["run", "topic", "partition"]

# The words of a share group, as a spout would say them.
SHARED: Final = {"acquire": "emit", "move": "commit", "archive": "give_up", "reject": "give_up"}
MAX_OFFSET: Final = 2**53  # beyond it JSON numbers are not exact everywhere

# What Kafka accepts as the name of a topic; nothing else comes from a broker, or reaches a screen.
TOPIC_NAME: Final = r"^[a-zA-Z0-9._-]{1,249}$"

LINE: Final = (
    "kit_trace INT, experiment STRING, backend STRING, n BIGINT, at_ms BIGINT, actor STRING, what STRING, "
    "data STRUCT<topic: STRING, partition: INT, offset: BIGINT, part: INT, first: BIGINT, last: BIGINT, "
    "offsets: ARRAY<BIGINT>, parts: STRING, ranges: ARRAY<ARRAY<BIGINT>>, `from`: BIGINT, `to`: BIGINT, written: BOOLEAN, "
    "first_offset: BIGINT, records: STRING, max_steps: BIGINT>"  # the last of a run that was cut
)

RANGES: Final = "ARRAY<ARRAY<BIGINT>>"


def to_rows(frame: DataFrame) -> Rows:
    """All rows of a small frame."""
    return [row.asDict(recursive=True) for row in frame.collect()]


def read_steps(lines: DataFrame) -> DataFrame:
    """Each line of a trace topic with what it is: `header`, `step`, `repeated` or `unreadable`.

    `lines` has run, line (its offset in the trace topic) and value (bytes). What a step's data hold is believed: the kit itself has
    written them. A step whose number is not above those of all lower lines is a repetition: whoever published the trace twice has not
    delivered twice.
    """
    text = F.try_validate_utf8(F.col("value").cast("string"))
    parsed = lines.select(
        "run", "line", F.from_json(F.when(F.length(text) <= MAX_LINE_CHARS, text), LINE).alias("row")
    ).select("run", "line", "row.*")
    data = F.col("data")
    is_step = F.col("n").between(0, MAX_OFFSET) & F.col("at_ms").isNotNull() & F.col("what").isNotNull() & data.isNotNull()
    kind = F.when(F.col("kit_trace").isNotNull(), "header").when(is_step, "step").otherwise("unreadable")
    judged = parsed.withColumn("kind", kind)
    step_n = F.when(F.col("kind") == "step", F.col("n"))
    earlier = Window.partitionBy("run").orderBy("line").rowsBetween(Window.unboundedPreceding, -1)
    highest = F.greatest(F.max(step_n).over(earlier), F.lit(-1))
    return judged.withColumn("highest", highest).select(
        "run", "line", "experiment", "backend", "n", "at_ms", "actor", "what", "data.*",
        F.when((F.col("kind") == "step") & (F.col("n") <= F.col("highest")), "repeated").otherwise(F.col("kind")).alias("kind"),
    ).withColumns({"partition": F.coalesce("partition", F.lit(0)), "part": F.coalesce("part", F.lit(0))})  # fmt: skip


def facts(steps: DataFrame) -> DataFrame:
    """One row for each record that a step touched: LANE, offset, part, word, n, at_ms, parts.

    The word is `append`, `emit`, `process`, `compact` or `given`: given up, by a clearing ack, a retry limit, a share group, or as
    a tombstone that has had its time. `parts` is how many the record should have: only with `append`, and only where that says so.
    """
    what = F.col("what")
    named = F.when(F.size("offsets") > 0, F.col("offsets")).otherwise(F.sequence("first", "last"))
    touched = (
        F.when(what == "append", named)
        .when(what == "offsets", F.sequence("first", "last"))
        .when(what.isin("compact", "purge"), F.col("offsets"))
        .when(what == "clear", F.flatten(F.transform("ranges", lambda pair: F.sequence(pair[0], pair[1]))))
        .otherwise(F.array("offset"))
    )
    parts = F.when(what == "append", F.col("parts"))
    of_each = F.coalesce(F.from_json(parts, "ARRAY<BIGINT>"), F.array_repeat(parts.try_cast("long"), F.size("touched")))
    word = F.when(what.isin("clear", "give_up", "purge"), "given").when(what == "offsets", "emit").otherwise(what)
    delivery = lane_steps(steps).where(
        what.isin("append", "emit", "offsets", "process", "clear", "give_up", "compact", "purge")
    )
    records = F.explode(F.arrays_zip("touched", of_each.alias("parts")))
    return delivery.withColumn("touched", touched).withColumn("record", records).select(
        *LANE, F.col("record.touched").alias("offset"), F.when(what == "process", F.col("part")).otherwise(0).alias("part"),
        word.alias("word"), "n", "at_ms", "record.parts",
    )  # fmt: skip


def found_facts(source: DataFrame) -> DataFrame:
    """Facts for records that lie in the topic itself: word `found`, or `unreadable` for those that are not text.

    `source` has run, topic, partition, offset and value (bytes).
    """
    readable = F.try_validate_utf8(F.col("value").cast("string")).isNotNull()
    none = F.lit(None).cast("long")
    return source.select(
        *LANE, "offset", F.lit(0).alias("part"), F.when(readable, "found").otherwise("unreadable").alias("word"),
        none.alias("n"), none.alias("at_ms"), none.alias("parts"),
    )  # fmt: skip


def condense(all_facts: DataFrame) -> DataFrame:
    """The fewest facts with the same verdict: the first of each word for each record and part, and how many `times` there are.

    Processing the same part of a record again is kept as one more row, word `again`.
    """
    together = all_facts.repartition(*LANE, "offset")  # one exchange serves this and `follow_records`
    in_order = Window.partitionBy(*LANE, "offset", "part", "word").orderBy("n")
    is_again = (F.col("word") == "process") & (F.row_number().over(in_order) > 1)
    return (
        together.withColumn("word", F.when(is_again, "again").otherwise(F.col("word")))
        .groupBy(*LANE, "offset", "part", "word")
        .agg(
            F.min("n").alias("n"),
            F.min_by("at_ms", "n").alias("at_ms"),
            F.count("*").alias("times"),
            F.min_by("parts", "n").alias("parts"),
        )
    )


def lane_steps(steps: DataFrame) -> DataFrame:
    """The steps that name a topic: each belongs to a lane. A share group's are told in the words of a spout."""
    word = F.create_map(*(F.lit(each) for pair in SHARED.items() for each in pair))[F.col("what")]
    told = F.when(F.col("offset").isNotNull(), word)
    return steps.where((F.col("kind") == "step") & F.col("topic").isNotNull()).withColumn("what", F.coalesce(told, "what"))


def follow_lanes(steps: DataFrame) -> DataFrame:
    """One row for each lane after these steps.

    LANE, first_n, last_n, position, log_end, log_start; stalled, stalled_first, rewound, rewound_first (each first one a struct of
    the step's number and an offset); and `moves`, the jumps over records: structs of n, to, word.
    A *stretch* is a maximal run of commits without progress; a start or a commit with progress ends it.
    """
    what, before = F.col("what"), F.col("position_before")
    idle = F.coalesce((what == "commit") & (F.col("position") == before) & (F.col("log_end") > before), F.lit(False))
    breaks = (what == "start") | ((what == "commit") & ~F.col("idle"))
    back = F.when(what == "reset", F.col("to") < F.col("from")).otherwise(F.col("moved_to") < before)
    so_far = Window.partitionBy(*LANE).orderBy("n").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    stretches = _lane_events(steps).withColumns({"idle": idle, "back": F.coalesce(back, F.lit(False))}).withColumn(
        "stretch", F.sum(breaks.cast("int")).over(so_far)
    ).groupBy(*LANE, "stretch").agg(
        F.count_if("idle").alias("commits"), F.min(F.when(F.col("idle"), F.struct("n", "offset"))).alias("idle_first"),
        F.count_if("back").alias("rewound"),
        F.min(F.when(F.col("back"), F.struct(F.col("n"), F.coalesce("to", "offset").alias("offset")))).alias("rewound_first"),
        F.min("n").alias("first_n"), F.max("n").alias("last_n"), F.max_by("position", "n").alias("position"),
        F.max("log_end").alias("log_end"), F.max("log_start").alias("log_start"),
        F.collect_list(_move()).alias("moves"),
    )  # fmt: skip
    is_stall = F.col("commits") >= STALL_COMMITS
    return stretches.groupBy(*LANE).agg(
        F.min("first_n").alias("first_n"), F.max("last_n").alias("last_n"), F.max_by("position", "last_n").alias("position"),
        F.max("log_end").alias("log_end"), F.max("log_start").alias("log_start"),
        F.count_if(is_stall).alias("stalled"), F.min(F.when(is_stall, F.col("idle_first"))).alias("stalled_first"),
        F.sum("rewound").alias("rewound"), F.min("rewound_first").alias("rewound_first"),
        F.flatten(F.collect_list("moves")).alias("moves"),
    )  # fmt: skip


def _lane_events(steps: DataFrame) -> DataFrame:
    """Each step of a lane with the committed position and the log's bounds as they are after it."""
    what = F.col("what")
    written = (what == "commit") & F.coalesce("written", F.lit(True))
    so_far = Window.partitionBy(*LANE).orderBy("n").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = Window.partitionBy(*LANE).orderBy("n").rowsBetween(Window.unboundedPreceding, -1)
    return lane_steps(steps).select(
        *LANE, "n", "what", "offset", "from", "to",
        F.when((what == "start") | written, F.col("offset")).alias("moved_to"),
        F.when(what == "append", F.col("last") + 1).otherwise(0).alias("ends"),
        F.when(what == "delete", F.col("to")).otherwise(0).alias("starts"),
    ).withColumns({
        "position_before": F.last("moved_to", ignorenulls=True).over(before),
        "position": F.last("moved_to", ignorenulls=True).over(so_far),
        "log_end": F.max("ends").over(so_far),
        "log_start": F.max("starts").over(so_far),
    })  # fmt: skip


def _move() -> Column:
    """A jump over records at a step: a start or a reset (`skip`), a deletion (`given`); null at other steps."""
    what = F.col("what")
    to = F.when(what == "start", F.col("offset")).when(what == "delete", F.col("log_start")).otherwise(F.col("to"))
    word = F.when(what == "delete", "given").otherwise("skip")
    return F.when(what.isin("start", "reset", "delete"), F.struct(F.col("n"), to.alias("to"), word.alias("word")))


def follow_records(condensed: DataFrame, lanes: DataFrame) -> DataFrame:
    """One row for each record: when it was first appended, emitted, processed, skipped, given up, and if it is done.

    It is done when each of the parts that it should have was processed, or any when nobody said how many.
    `lanes` are the rows of `follow_lanes`; their position, log_start and last_n go along. A record
    is skipped by the first move over it that comes after its append and before its first emit, and is
    then given up, as it is by a deletion after its append.
    """
    word, n = F.col("word"), F.col("n")

    def first(name: str) -> Column:
        return F.min(F.when(word == name, n))

    wanted = F.max("parts").over(Window.partitionBy(*LANE, "offset"))
    is_wanted = (word == "process") & F.col("wanted").isNotNull() & F.col("part").between(0, F.col("wanted") - 1)
    records = condensed.withColumn("wanted", wanted).groupBy(*LANE, "offset").agg(
        first("append").alias("appended"), F.min(F.when(word == "append", F.col("at_ms"))).alias("appended_ms"),
        first("emit").alias("emitted"),
        first("process").alias("processed"), F.min_by("at_ms", F.when(word == "process", n)).alias("processed_ms"),
        F.coalesce(F.count_if(is_wanted) == F.max("wanted"), F.count_if(word == "process") > 0).alias("done"),
        first("again").alias("again"), F.sum(F.when(word == "again", F.col("times"))).alias("times_again"),
        first("given").alias("given"), first("compact").alias("replaced"),
        F.count_if(word.isin("found", "unreadable")).alias("found"), F.count_if(word == "unreadable").alias("unreadable"),
    )  # fmt: skip

    def passed_by(kind: str) -> Column:
        moves = F.filter(
            "moves",
            lambda move: (move["word"] == kind) & (F.col("appended") < move["n"]) & (F.col("offset") < move["to"])
            & ((move["word"] == "given") | F.col("emitted").isNull() | (F.col("emitted") > move["n"])),
        )  # fmt: skip
        return F.array_min(F.transform(moves, lambda move: move["n"]))

    return (
        records.join(F.broadcast(lanes.select(*LANE, "position", "log_start", "last_n", "moves")), LANE, "left")
        .withColumn("skipped", passed_by("skip"))
        .withColumn("given", F.least("given", "skipped", passed_by("given")))
        .drop("moves")
    )


def count_anomalies(records: DataFrame) -> DataFrame:
    """One row for each lane with records: how many, each anomaly's count and first witness, how late.

    `records` are the rows of `follow_records`. A witness is a struct of the step's number (`n`) and the record's offset.
    """
    gone_below = F.greatest(F.coalesce("position", F.lit(0)), F.coalesce("log_start", F.lit(0)))
    higher = Window.partitionBy(*LANE).orderBy(F.desc("offset")).rowsBetween(Window.unboundedPreceding, -1)
    written = F.col("appended").isNotNull() | (F.col("found") > 0)
    judged = records.withColumns({
        "written": written,
        "lost": written & ~F.col("done") & F.col("replaced").isNull() & (F.col("offset") < gone_below),
        "reordered": F.coalesce(F.min("processed").over(higher) < F.col("processed"), F.lit(False)),
        "late": F.when(F.col("appended").isNotNull(), F.col("processed_ms") - F.col("appended_ms")),
    })  # fmt: skip

    def witness(when: Column, n: Column, *then: str) -> Column:
        return F.min(F.when(when, F.struct(n.alias("n"), *then, "offset")))

    return judged.groupBy(*LANE).agg(
        F.count_if("written").alias("written"),
        F.sum("found").alias("found"),
        F.count_if((F.col("found") > 0) & F.col("appended").isNull()).alias("unmentioned"),
        F.sum("unreadable").alias("unreadable"),
        F.count_if("done").alias("processed"),
        F.count_if("lost").alias("lost"),
        witness(F.col("lost"), F.coalesce("given", "last_n")).alias("lost_first"),
        F.coalesce(F.sum("times_again"), F.lit(0)).alias("duplicated"),
        witness(F.col("again").isNotNull(), F.col("again")).alias("duplicated_first"),
        F.count_if("reordered").alias("reordered"),
        witness(F.col("reordered"), F.col("processed")).alias("reordered_first"),
        F.count("skipped").alias("skipped"),
        witness(F.col("skipped").isNotNull(), F.col("skipped"), "appended").alias("skipped_first"),
        F.max("late").alias("late_ms"),
        F.median("late").alias("median_late_ms"),
    )
