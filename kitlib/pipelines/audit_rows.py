"""What the audit brings here from its queries: few rows.

A lane's row and a lane's counts are as many as there are partitions, so they may leave Spark; records
and steps stay there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import LabError
from kitlib.monitor.transactions import TRANSACTION_LANES
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines.audit_result import AuditResult, lane_audits
from kitlib.pipelines.topics import Topics

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TraceRead:
    """What was read of a trace topic, line by line."""

    steps: int = 0
    repeated: int = 0
    unreadable: int = 0
    last_n: int = -1  # the highest step number
    backend: str | None = None  # from the header; None before it was read
    sends: int = 0  # steps that hand records to a producer, or open a topic of transactions: with none, no lane is one of theirs
    cuts: int = 0  # steps by which a log lost its end, and gave its offsets out again
    cut_at: int | None = None  # the run was cut at this max_steps

    @classmethod
    def of_runs(cls, steps: DataFrame) -> dict[str, TraceRead]:
        """Count the lines that `read_steps` has told apart, by their runs' names; a run without a line is not in it."""
        kinds: dict[str, dict[str, Any]] = {}
        for row in steps.groupBy("run", "kind").agg(
            F.count("*").alias("lines"), F.max("n").alias("last_n"), F.max("backend").alias("backend"),
            F.count_if(F.col("what").isin("send", *TRANSACTION_LANES) & F.col("topic").isNotNull()).alias("sends"),
            F.count_if((F.col("what") == "cut") & F.col("topic").isNotNull() & F.col("to").isNotNull()).alias("cuts"),
            F.max(F.when(frames.is_cut(), F.col("max_steps"))).alias("cut_at"),
        ).collect():  # fmt: skip
            kinds.setdefault(row["run"], {})[row["kind"]] = row

        def of_run(rows: dict[str, Any]) -> TraceRead:
            lines = {kind: int(row["lines"]) for kind, row in rows.items()}
            return cls(
                lines.get("step", 0), lines.get("repeated", 0), lines.get("unreadable", 0),
                int(rows["step"]["last_n"]) if "step" in rows else -1,
                rows["header"]["backend"] if "header" in rows else None,
                *((rows["step"][name] for name in ("sends", "cuts", "cut_at")) if "step" in rows else ()),
            )  # fmt: skip

        return {run: of_run(rows) for run, rows in kinds.items()}


def count(condensed: DataFrame, lanes: DataFrame, cut: DataFrame | None) -> Rows:
    """The rows of `count_anomalies`, brought here: one for each partition. `cut` are the steps of runs that may have been cut."""
    records = frames.follow_records(condensed, lanes)
    if cut is None:
        records = records.withColumn("is_open", F.lit(None).cast("boolean"))
    else:
        records = records.join(frames.in_flight(cut), [*frames.LANE, "offset"], "left")
    return to_rows(frames.count_anomalies(records))


def to_rows(frame: DataFrame) -> Rows:
    """All rows of a small frame."""
    return [row.asDict(recursive=True) for row in frame.collect()]


def check_topics_exist(topics: Topics, named: set[tuple[str, str]]) -> None:
    """Raise LabError when one of the topics, each with a run that names it, is not there."""
    present = topics.names()
    if missing := sorted((run, name) for run, name in named if name not in present):
        gone = ", ".join(name for run, name in missing if run == missing[0][0])
        raise LabError(
            f"audit of run {missing[0][0]}: its trace names {gone}, which no longer exists at {topics.bootstrap}. "
            "Run the experiment again, or pass source=False (--trace-only) to judge by the trace alone."
        )


def found_in(topics: Topics, spark: SparkSession, named: set[tuple[str, str]]) -> DataFrame:
    """The records that lie in these topics, each named with a run, as facts. LabError when one of them is not there."""
    check_topics_exist(topics, named)
    return frames.found_facts(topics.read_source(spark, named))


def result_of(run: str, read: TraceRead, lanes: Rows, counted: Rows, names: set[str]) -> AuditResult:
    """Rows and counts as an AuditResult. LabError where an offset stands for two records, as records are told apart by it."""
    if read.cuts:
        raise LabError(
            f"audit of run {run}: an unclean election cut off the end of a log, and its offsets were reused for other "
            "records. Spark tells records apart by their offsets; `kitlib.monitor.delivery.judge` walks such a trace step by step."
        )
    return AuditResult(
        run,
        lane_audits(lanes, counted),
        steps=read.steps,
        missing_steps=read.last_n + 1 - read.steps,
        repeated_steps=read.repeated,
        unreadable_lines=read.unreadable,
        topics_read=tuple(sorted(names)),
        cut_at=read.cut_at,
    )
