"""What the batch audit and the streaming one share: queries whose few rows are brought here.

A lane's row and a lane's counts are as many as there are partitions, so they may leave Spark; records
and steps stay there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import LabError
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines.audit_result import AuditResult, lane_audits
from kitlib.pipelines.topics import Topics

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TraceRead:
    """What was read of a trace topic, line by line; a stream adds batch to batch."""

    steps: int = 0
    repeated: int = 0
    unreadable: int = 0
    last_n: int = -1  # the highest step number
    backend: str | None = None  # from the header; None before it was read

    @classmethod
    def of(cls, steps: DataFrame) -> TraceRead:
        """Count the lines that `read_steps` has told apart."""
        kinds = {row["kind"]: row for row in steps.groupBy("kind").agg(
            F.count("*").alias("lines"), F.max("n").alias("last_n"), F.max("backend").alias("backend")
        ).collect()}  # fmt: skip

        def lines(kind: str) -> int:
            return int(kinds[kind]["lines"]) if kind in kinds else 0

        return cls(
            lines("step"), lines("repeated"), lines("unreadable"),
            int(kinds["step"]["last_n"]) if "step" in kinds else -1,
            kinds["header"]["backend"] if "header" in kinds else None,
        )  # fmt: skip

    def __add__(self, later: TraceRead) -> TraceRead:
        return TraceRead(
            self.steps + later.steps, self.repeated + later.repeated, self.unreadable + later.unreadable,
            max(self.last_n, later.last_n), self.backend or later.backend,
        )  # fmt: skip


def follow(spark: SparkSession, steps: DataFrame, carried: Rows) -> Rows:
    """The rows of `follow_lanes`, brought here: there are as many as partitions."""
    before = spark.createDataFrame(carried, frames.LANES)
    return [row.asDict(recursive=True) for row in frames.follow_lanes(steps, before).collect()]


def follow_records(spark: SparkSession, condensed: DataFrame, lanes: Rows) -> DataFrame:
    """`delivery_frames.follow_records` with lanes that were brought here by `follow`."""
    columns = f"{frames.LANES}, {frames.MOVES}"
    return frames.follow_records(condensed, spark.createDataFrame([{"moves": None} | lane for lane in lanes], columns))


def count(spark: SparkSession, condensed: DataFrame, lanes: Rows) -> Rows:
    """The rows of `count_anomalies`, brought here: one for each partition."""
    counted = frames.count_anomalies(follow_records(spark, condensed, lanes))
    return [row.asDict(recursive=True) for row in counted.collect()]


def names_of(lanes: Rows, read: TraceRead) -> set[str]:
    """The topics to compare with the trace: those it names; none for a run on the model."""
    return set() if read.backend == "model" else {lane["topic"] for lane in lanes}


def found_in(topics: Topics, spark: SparkSession, run: str, names: set[str]) -> DataFrame:
    """The records that lie in the named topics, as facts. LabError when one of them is not there."""
    if missing := sorted(names - topics.names()):
        raise LabError(
            f"audit of run {run}: its trace speaks of {', '.join(missing)}, which is not at {topics.bootstrap} any more. "
            "Run the experiment again, or pass source=False (--trace-only) to judge by the trace alone."
        )
    return frames.found_facts(topics.read_source(spark, run, names))


def result_of(run: str, read: TraceRead, lanes: Rows, counted: Rows, names: set[str]) -> AuditResult:
    """Rows and counts as an AuditResult."""
    return AuditResult(
        run,
        lane_audits(lanes, counted),
        steps=read.steps,
        missing_steps=read.last_n + 1 - read.steps,
        repeated_steps=read.repeated,
        unreadable_lines=read.unreadable,
        topics_read=tuple(sorted(names)),
    )
