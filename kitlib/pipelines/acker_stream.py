"""The acker as one streaming aggregate: Spark XORs what an acker would XOR, and its watermark is the timeout.

XOR does not care for order or grouping. So no code of ours has to see the messages of a tree one by one:
`bit_xor(val)` over each root is the acker's whole arithmetic, and Spark spreads it over executors and keeps
it in its state store. What is left is to forget. The state is kept for each root *and* each stretch of one
timeout, which Spark drops when the watermark has passed it. The parts of a tree are XORed together when
somebody asks: parts in neighbouring stretches belong to one entry, a stretch without a message between them
means that the acker had forgotten the tree. That is the age of RotatingMap's two buckets, to the tick.

A message, wherever it comes from, has

    n           the step's number: the order of arrival
    at_ms       virtual or real milliseconds since the run began; never falls as n rises
    kind        "init", "ack" or "fail"
    root        the tree
    val         the XOR of edges; null for a fail
    spout_task  who is to hear of the end; null unless kind is "init"

A run's trace topic holds them as the words `acker_init`, `acker_ack` and `acker_fail`. The query's folder:

    query/        Spark's own checkpoint, the state store in it
    batches/N     what batch N had to say, as Parquet

A batch that is done again after a crash writes its folder again, so each batch counts once.

Time is event time. Spark drops as late what is not above its watermark, which begins at 0; but a message may
come at 0 ms, and a batch may begin in the very millisecond in which the one before ended. So event time is
at_ms + 1, and the watermark follows it one millisecond behind: it is the highest at_ms of all batches before,
and the clock by which trees are still open or have timed out.

Left out: ticks, which follow from at_ms; a line that was published twice, which counts twice, as a doubled message does in Storm.

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

import html
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kitlib.errors import KnobError, LabError
from kitlib.lab import workspace
from kitlib.pipelines.topics import Topics, check_trace_exists, first_line, one_sentence, settings
from kitlib.spark import sessions as kit_spark
from kitlib.text import html_table
from kitlib.trace_lines import MAX_LINE_CHARS

MESSAGES: Final = "n BIGINT, at_ms BIGINT, kind STRING, root BIGINT, val BIGINT, spout_task INT"
STEP: Final = "n BIGINT, at_ms BIGINT, what STRING, data STRUCT<root: BIGINT, val: BIGINT, spout_task: INT>"

DEFAULT_TIMEOUT_MS: Final = 30_000  # Storm's own topology.message.timeout.secs


def messages_of(lines: DataFrame) -> DataFrame:
    """The acker's messages among the lines of a trace topic (a column `value` of bytes); other lines are passed over."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    step = F.from_json(F.when(F.length(text) <= MAX_LINE_CHARS, text), STEP)
    told = lines.select(step.alias("step")).where(F.col("step.what").isin("acker_init", "acker_ack", "acker_fail"))
    return told.select("step.n", "step.at_ms", F.substring_index("step.what", "_", -1).alias("kind"), "step.data.*")


def legal(messages: DataFrame) -> DataFrame:
    """Those messages that say what their kind needs."""
    kind = F.col("kind")
    whole = F.when(kind == "init", F.col("val").isNotNull() & F.col("spout_task").isNotNull()).when(
        kind == "ack", F.col("val").isNotNull()
    ).otherwise(kind == "fail")  # fmt: skip
    return messages.where(whole & F.col("n").isNotNull() & (F.col("at_ms") >= 0) & F.col("root").isNotNull())


ENDS: Final = ("acked", "failed", "timed out", "open")
ORPHAN: Final = "orphan"  # an entry that no init has claimed: messages after the end of their tree, or without a tree


@dataclass(frozen=True, slots=True)
class AckerResult:
    """The trees of a run as Spark followed them."""

    run: str
    outcomes: Any = field(repr=False)  # pandas: root, outcome, spout_task; a root that was used again has several rows
    counts: Mapping[str, int]  # of each of ENDS
    orphans: int  # entries that no init has claimed
    seconds: float  # from the start of the query to its last row

    @property
    def roots(self) -> dict[int, str]:
        """Each tree's outcome by its root, without orphans."""
        trees = self.outcomes[self.outcomes["outcome"] != ORPHAN]
        return dict(zip(trees["root"].tolist(), trees["outcome"].tolist(), strict=True))

    @property
    def sentence(self) -> str:
        """What a learner should take away."""
        trees = sum(self.counts.values())
        if not trees:
            return f"Run {self.run}: no spout told an acker of a tree."
        told = ", ".join(f"{self.counts[end]} {end}" for end in ENDS)
        left = f"; {self.orphans} entries were never claimed" if self.orphans else ""
        return f"Run {self.run}: of {trees} trees {told}{left}."

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        rows = {**self.counts, "never claimed": self.orphans}
        return f"<div><p><b>{html.escape(self.sentence)}</b></p>{html_table(rows, [map(str, rows.values())])}</div>"


AHEAD_MS: Final = 1  # of event time to at_ms
WATERMARK: Final = f"{AHEAD_MS} millisecond"
STATE_STORE: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Each batch writes what changed, not the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # To count its rows Spark would look for each key before it writes it, which costs as much as the write.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
OUTCOMES: Final = "root BIGINT, outcome STRING, spout_task INT"


def parts(messages: DataFrame, timeout_ms: int) -> DataFrame:
    """The aggregate: for each root and stretch of one timeout what its messages come to."""
    length, begin = (f"{span_ms} milliseconds" for span_ms in (timeout_ms, AHEAD_MS))
    timed = legal(messages).withColumn("at", F.timestamp_millis(F.col("at_ms") + AHEAD_MS)).withWatermark("at", WATERMARK)
    return timed.groupBy("root", F.window("at", length, startTime=begin)).agg(
        F.bit_xor("val").alias("val"),
        F.max("spout_task").alias("spout_task"),
        F.max(F.col("kind") == "fail").alias("failed"),
    ).select("root", (F.unix_millis("window.start") - AHEAD_MS).alias("from_ms"), "val", "spout_task", "failed")  # fmt: skip


def whole(parts_of_batches: DataFrame, timeout_ms: int, clock_ms: int) -> DataFrame:
    """The parts of each tree put together, the newest word on each, and judged by the clock: OUTCOMES.

    An outcome is `acked`, `failed`, `timed out` or `open`; `orphan` stands for an entry that no init has claimed.
    """
    latest = parts_of_batches.groupBy("root", "from_ms").agg(
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
        .when(F.col("from_ms") + 2 * timeout_ms <= clock_ms, "timed out")
        .otherwise("open")
    )
    return judged.select("root", outcome.alias("outcome"), "spout_task")


def follow(
    session: SparkSession, run: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS, bootstrap: str | None = None
) -> AckerResult:
    """Follow every tree of a finished run by its trace topic; `timeout_ms` is Storm's own unless given.

    LabError when a topic is not there or no broker answers; KnobError for a name that no run has, and for a timeout below 1.
    """
    if timeout_ms < 1:
        raise KnobError(f"acker on Spark: timeout_ms is {timeout_ms!r}, expected a whole number of at least 1. Storm's own is 30000.")
    topics = Topics.find(bootstrap)
    check_trace_exists(topics, run)
    workspace.spark_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="acker-", dir=workspace.spark_dir(), ignore_cleanup_errors=True) as folder:
        begin = time.monotonic()
        with one_sentence(f"acker on Spark of run {run}"):
            found: Any = outcomes(messages_of(topics.stream_trace(session, run)), folder, timeout_ms).toPandas()
    told = found["outcome"].value_counts().to_dict()
    return AckerResult(run, found, {end: told.get(end, 0) for end in ENDS}, told.get(ORPHAN, 0), time.monotonic() - begin)


def outcomes(messages: DataFrame, folder: str | PathLike[str], timeout_ms: int) -> DataFrame:
    """What became of each tree by what a stream of messages holds now: OUTCOMES. It goes on where the query of this folder stopped.

    LabError with its first line when the query failed.
    """
    place, spark = Path(folder), messages.sparkSession
    aggregate = parts(messages, timeout_ms)

    def keep(said: DataFrame, batch: int) -> None:
        said.withColumn("batch", F.lit(batch).cast("long")).write.mode("overwrite").parquet(str(place / "batches" / str(batch)))

    with one_sentence("acker on Spark"), settings(spark, STATE_STORE):
        writer = aggregate.writeStream.outputMode("update").trigger(availableNow=True)
        query = kit_spark.start(writer.option("checkpointLocation", str(place / "query")), keep)
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            raise LabError(f"acker on Spark: the query ended, {first_line(error)}.") from error
    batches = sorted(str(path.parent) for path in (place / "batches").glob("*/_SUCCESS"))
    if not batches:
        return spark.createDataFrame([], OUTCOMES)
    last = max((place / "query" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    clock_ms = json.loads(last.read_text(encoding="utf-8").splitlines()[1])["batchWatermarkMs"]
    return whole(spark.read.parquet(*batches), timeout_ms, clock_ms)
