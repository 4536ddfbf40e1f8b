"""The audit: what was really delivered, computed by Spark from the broker's own topics.

A run leaves two witnesses on the broker: the topic whose records it had to deliver, and the topic
`kit.trace.<run>` with every step it took. The audit reads both with Spark's Kafka connector, follows
each record, and counts for each partition what was lost, duplicated, reordered, skipped, stalled and
rewound, and how late it came. It reaches the counts of `kitlib.monitor.delivery.judge`, but as queries
that also work when the trace has more steps than a notebook can hold.

What cannot be read is counted and passed over. Records that the trace does not mention count as written;
records that retention took are known from the trace.

Left out: whether a setting allows what was found (see `kitlib.pipelines.audit_result`). And a run that still
goes on: the desk's query (`kitlib.desk.audit`) counts while its topics grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines import production, transaction_audit
from kitlib.pipelines.audit_result import AuditResult, LaneAudit
from kitlib.pipelines.audit_rows import Rows, TraceRead, count, found_in, result_of, to_rows
from kitlib.pipelines.topics import Topics, check_trace_exists, one_sentence
from kitlib.spark import sessions as kit_spark

__all__ = ["AuditResult", "LaneAudit", "audit", "audits", "steps_of"]


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

        def on_broker(row: dict[str, Any]) -> bool:
            """Is its topic to be read?"""
            return read[row["run"]].backend != "model" and not row.get("is_outside")

        sends = any(each.sends for each in read.values())
        transacted = transaction_audit.find_lanes(steps) if sends else []
        left = production.without(spark, steps, transacted)
        produced, others = production.split_lanes(left) if sends else ([], None)
        if others != []:
            of_others = production.without(spark, left, produced)
            followed = frames.follow_lanes(of_others).persist()
            kept.append(followed)
            lanes = to_rows(followed)
            all_facts = frames.facts(of_others)
            if topics and (real := list(filter(on_broker, lanes))):
                found = found_in(topics, spark, {(row["run"], row["topic"]) for row in real})
                all_facts = all_facts.unionByName(production.without(spark, found, produced))
            is_cut = any(each.cut_at is not None for each in read.values())
            rows = count(frames.condense(all_facts), followed, of_others if is_cut else None)
        if produced:
            records: DataFrame | None = None
            of_producers = produced
            if topics and (real := list(filter(on_broker, produced))):
                found, known = production.read_topics(topics, spark, real)
                of_producers = known + [row for row in produced if not on_broker(row)]
                records = production.without(spark, found, others or [])
            rows += production.count(spark, left, of_producers, records)
        if transacted:
            real = list(filter(on_broker, transacted))
            given = transaction_audit.read_topics(topics, spark, real) if topics and real else None
            rows += transaction_audit.count(spark, steps, transacted, given)
    finally:
        for frame in kept:
            frame.unpersist()
    named = list(filter(on_broker, [*lanes, *produced, *transacted])) if topics else []
    return {
        run: result_of(
            run, read.get(run, TraceRead()), [row for row in lanes if row["run"] == run],
            [row for row in rows if row["run"] == run], {row["topic"] for row in named if row["run"] == run},
        )
        for run in runs
    }  # fmt: skip
