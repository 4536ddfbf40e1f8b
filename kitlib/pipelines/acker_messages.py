"""The messages that an acker lives on, as a DataFrame, wherever they come from.

A run's trace topic holds every step that its tasks took. Of these, three words are what the acker tasks
were told: `acker_init`, `acker_ack` and `acker_fail`. Whoever reads them in the order of their numbers can
do the acker's work a second time, on Spark, and must come to the same ends.

    n           the step's number: the order of arrival
    at_ms       virtual or real milliseconds since the run began; never falls as n rises
    kind        "init", "ack" or "fail"
    root        the tree
    val         the XOR of edges; null for a fail
    spout_task  who is to hear of the end; null unless kind is "init"

Left out: ticks, which the ways to follow the messages take from at_ms; a line that was published twice,
which counts twice, as a doubled message does in Storm.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import KitError, KnobError
from kitlib.pipelines.topics import Topics, check_trace_exists
from kitlib.trace_lines import MAX_LINE_CHARS

MESSAGES: Final = "n BIGINT, at_ms BIGINT, kind STRING, root BIGINT, val BIGINT, spout_task INT"
COLUMNS: Final = ("n", "at_ms", "kind", "root", "val", "spout_task")
STEP: Final = "n BIGINT, at_ms BIGINT, what STRING, data STRUCT<root: BIGINT, val: BIGINT, spout_task: INT>"
HEADER: Final = "kit_trace INT, knobs STRUCT<topology_message_timeout_secs: DOUBLE>"

DEFAULT_TIMEOUT_MS: Final = 30_000  # Storm's own topology.message.timeout.secs


def messages_of(lines: DataFrame) -> DataFrame:
    """The acker's messages among the lines of a trace topic (a column `value` of bytes); other lines are passed over."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    step = F.from_json(F.when(F.length(text) <= MAX_LINE_CHARS, text), STEP)
    told = lines.select(step.alias("step")).where(F.col("step.what").isin("acker_init", "acker_ack", "acker_fail"))
    return legal(told.select(
        "step.n", "step.at_ms", F.substring_index("step.what", "_", -1).alias("kind"), "step.data.*"
    ))  # fmt: skip


def legal(messages: DataFrame) -> DataFrame:
    """Those messages that say what their kind needs. KitError when a column is missing."""
    if missing := [name for name in COLUMNS if name not in messages.columns]:
        raise KitError(
            f"acker on Spark: the messages have no column {', '.join(missing)}. Give a DataFrame with {', '.join(COLUMNS)}."
        )
    kind = F.col("kind")
    whole = F.when(kind == "init", F.col("val").isNotNull() & F.col("spout_task").isNotNull()).when(
        kind == "ack", F.col("val").isNotNull()
    ).otherwise(kind == "fail")  # fmt: skip
    return messages.select(*COLUMNS).where(whole & F.col("n").isNotNull() & (F.col("at_ms") >= 0) & F.col("root").isNotNull())


def stream_messages(topics: Topics, spark: SparkSession, run: str, lines_per_batch: int | None) -> DataFrame:
    """The acker's messages of a run as a stream over its trace topic."""
    return messages_of(topics.stream_trace(spark, run, lines_per_batch))


def timeout_ms_of(topics: Topics, spark: SparkSession, run: str) -> int:
    """The message time-out that a run had, from its trace's header; Storm's own when the header does not say."""
    check_trace_exists(topics, run)
    text = F.try_validate_utf8(F.col("value").cast("string"))
    found = topics.read_trace(spark, run).orderBy("line").limit(1).select(F.from_json(text, HEADER).alias("header")).collect()
    told = found[0]["header"]["knobs"] if found and found[0]["header"] else None
    seconds = told["topology_message_timeout_secs"] if told else None
    return DEFAULT_TIMEOUT_MS if seconds is None else checked_timeout(round(seconds * 1000))


def checked_timeout(timeout_ms: int) -> int:
    """The time-out itself. KnobError unless timeout_ms >= 1."""
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or timeout_ms < 1:
        raise KnobError(f"acker on Spark: timeout_ms is {timeout_ms!r}, expected a whole number of at least 1. Storm's own is 30000.")
    return timeout_ms
