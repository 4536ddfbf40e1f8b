"""The audit: what was really delivered, computed by Spark from the broker's own topics.

A run leaves two witnesses on the broker: the topic whose records it had to deliver, and the topic
`kit.trace.<run>` with every step it took. The audit reads both with Spark's Kafka connector, follows
each record, and counts for each partition what was lost, duplicated, reordered, skipped, stalled and
rewound, and how late it came. It reaches the counts of `kitlib.monitor.delivery.judge`, but as queries
that also work when the trace has more steps than a notebook can hold.

What cannot be read is counted and passed over. Records that the trace does not mention count as written;
records that retention took are known from the trace.

Left out: whether a setting allows what was found (see `kitlib.pipelines.audit_result`). Runs about transactions, and cut ones.
And a run that still goes on: the desk's query (`kitlib.desk.audit`) counts while its topics grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import LabError
from kitlib.monitor.transactions import TRANSACTION_LANES
from kitlib.monitor.verdict import cut_sentence
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines import production
from kitlib.pipelines.audit_result import AuditResult, LaneAudit, lane_audits
from kitlib.pipelines.delivery_frames import Rows, to_rows
from kitlib.pipelines.topics import Topics, check_topics_exist, check_trace_exists, one_sentence
from kitlib.spark import sessions as kit_spark
from kitlib.trace import HALT, RUN

__all__ = ["AuditResult", "LaneAudit", "audit", "audits", "steps_of"]


@dataclass(frozen=True, slots=True)
class TraceRead:
    """What was read of a trace topic, line by line."""

    steps: int = 0
    repeated: int = 0
    unreadable: int = 0
    last_n: int = -1  # the highest step number
    backend: str | None = None  # from the header; None before it was read
    sends: int = 0  # steps that hand records to a producer: with none, no lane is one of a producer's
    of_transactions: int = 0  # steps that begin what transactions are about
    cuts: int = 0  # steps by which a log lost its end, and gave its offsets out again
    cut_at: int | None = None  # the run was cut at this max_steps

    @classmethod
    def of_runs(cls, steps: DataFrame) -> dict[str, TraceRead]:
        """Count the lines that `read_steps` has told apart, by their runs' names; a run without a line is not in it."""
        kind, is_about = F.col("kind"), (F.col("kind") == "step") & F.col("topic").isNotNull()
        rows = to_rows(steps.groupBy("run").agg(
            F.count_if(kind == "step").alias("steps"), F.count_if(kind == "repeated").alias("repeated"),
            F.count_if(kind == "unreadable").alias("unreadable"),
            F.coalesce(F.max(F.when(kind == "step", F.col("n"))), F.lit(-1)).alias("last_n"), F.max("backend").alias("backend"),
            F.count_if(is_about & (F.col("what") == "send")).alias("sends"),
            F.count_if(is_about & F.col("what").isin(*TRANSACTION_LANES)).alias("of_transactions"),
            F.count_if(is_about & (F.col("what") == "cut") & F.col("to").isNotNull()).alias("cuts"),
            F.max(F.when((kind == "step") & (F.col("actor") == RUN) & (F.col("what") == HALT), F.col("max_steps"))).alias("cut_at"),
        ))  # fmt: skip
        return {row.pop("run"): cls(**row) for row in rows}


def steps_of(run: str, *, bootstrap: str | None = None, spark: SparkSession | None = None) -> DataFrame:
    """The steps of a run as the audit reads them from its trace topic, one row each: for queries of one's own.

    The columns are the step's number `n`, `at_ms`, `actor`, `what`, and the fields of its data that delivery is judged by
    (`topic`, `partition`, `offset`, `first`, `last`, ...), null where a step has no such field. LabError and KnobError as `audit`.
    """
    topics = Topics.find(bootstrap)
    check_trace_exists(topics, run)
    with one_sentence(f"steps of run {run}"):
        steps = frames.read_steps(topics.read_trace(spark or kit_spark.session(), run))
        return steps.where("kind = 'step'").drop("run", "line", "kind")


def audit(
    run: str, *, bootstrap: str | None = None, spark: SparkSession | None = None, source: bool = True
) -> AuditResult:
    """Audit a run from its trace topic and, unless `source` is False, the topics that the trace names.

    The trace of a model run names topics that no broker has, so it is audited alone. LabError when a
    topic is not there or no broker answers; KnobError for a name that no run has.
    """
    return audits([run], bootstrap=bootstrap, spark=spark, source=source)[run]


def audits(
    runs: Sequence[str], *, bootstrap: str | None = None, spark: SparkSession | None = None, source: bool = True
) -> dict[str, AuditResult]:
    """Audit many runs at once, in the same few Spark jobs as one; by the run's name, in the order of `runs`. Errors as `audit`."""
    topics = Topics.find(bootstrap)
    check_trace_exists(topics, *runs)
    spark = spark or kit_spark.session()
    with one_sentence(f"audit of run {', '.join(runs[:3])}"):
        return counted(spark, runs, frames.read_steps(topics.read_trace(spark, *runs)), topics if source else None)


def counted(spark: SparkSession, runs: Sequence[str], read_steps: DataFrame, topics: Topics | None) -> dict[str, AuditResult]:
    """The audits of runs by their steps, as `read_steps` has them, and by the topics that these name; None: by the steps alone."""
    lanes: Rows = []
    rows: Rows = []
    steps = read_steps.persist()
    kept = [steps]  # by Spark, until all is counted
    try:
        read = TraceRead.of_runs(steps)
        for run in read:
            _check_judged(run, read[run])

        def on_broker(row: dict[str, Any]) -> bool:
            """Is its topic to be read?"""
            return read[row["run"]].backend != "model"

        sends = any(each.sends for each in read.values())
        produced, others = production.split_lanes(steps) if sends else ([], None)
        if others != []:
            of_others = production.without(spark, steps, produced)
            followed = frames.follow_lanes(of_others).persist()
            kept.append(followed)
            lanes = to_rows(followed)
            all_facts = frames.facts(of_others)
            if topics and (real := list(filter(on_broker, lanes))):
                named = {(row["run"], row["topic"]) for row in real}
                check_topics_exist(topics, named)
                found = frames.found_facts(topics.read_source(spark, named))
                all_facts = all_facts.unionByName(production.without(spark, found, produced))
            rows = to_rows(frames.count_anomalies(frames.follow_records(frames.condense(all_facts), followed)))
        if produced:
            records: DataFrame | None = None
            of_producers = produced
            if topics and (real := list(filter(on_broker, produced))):
                found, known = production.read_topics(topics, spark, real)
                of_producers = known + [row for row in produced if not on_broker(row)]
                records = production.without(spark, found, others or [])
            rows += production.count(spark, steps, of_producers, records)
    finally:
        for frame in kept:
            frame.unpersist()
    read_topics = list(filter(on_broker, [*lanes, *produced])) if topics else []
    return {
        run: result_of(
            run, read.get(run, TraceRead()), [row for row in lanes if row["run"] == run],
            [row for row in rows if row["run"] == run], {row["topic"] for row in read_topics if row["run"] == run},
        )
        for run in runs
    }  # fmt: skip


def _check_judged(run: str, read: TraceRead) -> None:
    """Raise LabError for transactions, where an offset stands for two records, and where not all has been told."""
    if read.cut_at is not None:
        raise LabError(
            f"audit of run {run}: {cut_sentence(read.cut_at)}, and what was in flight then would be counted as lost. "
            "Run it with a larger max_steps."
        )
    if read.of_transactions:
        raise LabError(
            f"audit of run {run}: it is about transactions, which this audit does not judge. `kitlib.monitor.delivery.judge` does; "
            "and Spark's own source reads a topic as either reader, by the option kafka.isolation.level."
        )
    if read.cuts:
        raise LabError(
            f"audit of run {run}: an unclean election cut off the end of a log, and its offsets were reused for other "
            "records. Spark tells records apart by their offsets; `kitlib.monitor.delivery.judge` walks such a trace step by step."
        )


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
