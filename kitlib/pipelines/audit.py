"""The audit: what was really delivered, computed by Spark from the broker's own topics.

A run leaves two witnesses on the broker: the topic whose records it had to deliver, and the topic
`kit.trace.<run>` with every step it took. The audit reads both with Spark's Kafka connector, follows
each record, and counts for each partition what was lost, duplicated, reordered, skipped, stalled and
rewound, and how late it came. It reaches the counts of `kitlib.monitor.delivery.judge`, but as queries
that also work when the trace has more steps than a notebook can hold.

`audit` reads what is there and ends; `audit_stream` follows a run that is still going on. What cannot
be read is counted and passed over. Records that the trace does not mention count as written; records
that retention took are known from the trace.

Left out: whether a setting allows what was found (see `kitlib.pipelines.audit_result`).
"""

from __future__ import annotations

from os import PathLike

from pyspark.sql import DataFrame, SparkSession

from kitlib.lab import spark as kit_spark
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines import production, transaction_audit
from kitlib.pipelines.audit_result import AuditResult, Finding, LaneAudit
from kitlib.pipelines.audit_rows import Rows, TraceRead, count, follow, found_in, names_of, result_of
from kitlib.pipelines.audit_stream import AuditStream
from kitlib.pipelines.topics import Topics, check_trace_exists, one_sentence

__all__ = ["AuditResult", "AuditStream", "Finding", "LaneAudit", "audit", "audit_stream"]


def audit(
    run: str, *, bootstrap: str | None = None, spark: SparkSession | None = None, source: bool = True
) -> AuditResult:
    """Audit a run from its trace topic and, unless `source` is False, the topics that the trace names.

    The trace of a model run names topics that no broker has, so it is audited alone. LabError when a
    topic is not there or no broker answers; KnobError for a name that no run has.
    """
    topics = Topics.find(bootstrap)
    check_trace_exists(topics, run)
    spark = spark or kit_spark.session()
    with one_sentence(f"audit of run {run}"):
        steps = frames.read_steps(topics.read_trace(spark, run)).persist()
        try:
            read = TraceRead.of(steps)
            transacted = transaction_audit.find_lanes(steps) if read.sends else []
            left = production.without(spark, steps, transacted)
            produced, others = production.split_lanes(left) if read.sends else ([], None)
            lanes: Rows = []
            counted: Rows = []
            names: set[str] = set()
            if others != []:
                of_others = production.without(spark, left, produced)
                lanes = follow(spark, of_others, [])
                all_facts = frames.facts(of_others)
                names = names_of(lanes, read) if source else set()
                if names:
                    found = found_in(topics, spark, run, names)
                    all_facts = all_facts.unionByName(production.without(spark, found, produced))
                counted = count(spark, frames.condense(all_facts), lanes, None if read.cut_at is None else of_others)
            if produced:
                records: DataFrame | None = None
                if source and (written_to := names_of(produced, read)):
                    found, produced = production.read_topics(topics, spark, produced)
                    records = production.without(spark, found, others or [])
                    names |= written_to
                counted += production.count(spark, left, produced, records)
            if transacted:
                is_real = source and bool(names_of(transacted, read))
                given = transaction_audit.read_topics(topics, spark, transacted) if is_real else None
                names |= transaction_audit.topics_of(transacted) if is_real else set()
                counted += transaction_audit.count(spark, steps, transacted, given)
        finally:
            steps.unpersist()
    return result_of(run, read, lanes, counted, names)


def audit_stream(
    run: str,
    *,
    checkpoint: str | PathLike[str] | None = None,
    bootstrap: str | None = None,
    spark: SparkSession | None = None,
    source: bool = True,
    every_ms: int = 500,
    lines_per_batch: int | None = None,
) -> AuditStream:
    """Audit a run while it goes on: a streaming query over its trace topic, already started.

    `checkpoint` is a folder (by default one in the workspace, by the run's name) from which a later
    call goes on where this one stopped: no step is lost or counted twice. Use it in a `with` block, or
    call its `stop()`. LabError when a topic is not there, or the checkpoint is not this run's or is
    damaged; a checkpoint is never deleted or mended by the kit.
    """
    return AuditStream.start(
        run, Topics.find(bootstrap), spark or kit_spark.session(), checkpoint, source, every_ms, lines_per_batch
    )
