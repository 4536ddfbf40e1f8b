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

from collections.abc import Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kitlib.errors import LabError
from kitlib.lab import workspace
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines import production, transaction_audit
from kitlib.pipelines.audit_result import AuditResult, Finding, LaneAudit
from kitlib.pipelines.audit_rows import Rows, TraceRead, count, follow, follow_records, found_in, result_of
from kitlib.pipelines.folded_stream import Checkpoint, FoldedStream, Kept, Owner
from kitlib.pipelines.production import split_lanes
from kitlib.pipelines.topics import Topics, check_trace_exists, one_sentence, trace_topic
from kitlib.pipelines.transaction_audit import find_lanes
from kitlib.spark import sessions as kit_spark


class AuditStream(FoldedStream[AuditResult]):
    """A streaming audit that runs: `result()` is the audit so far, `finish()` that of all steps there are.

    Each batch of the trace's lines is condensed together with the facts of all batches before, and the result kept under
    the batch's number. A batch that is handed over again after a crash finds its own state, or starts once more from the
    state before: either way each step counts once. What is kept grows with the records and their parts, not with the steps.

    Left out: a state store. Facts are rewritten with each batch, which is right for a lab's topics and too slow for
    millions of records; there `audit` is the better tool.
    """

    user = "audit"

    def __init__(self, run: str, topics: Topics, spark: SparkSession, checkpoint: Checkpoint, source: bool) -> None:
        super().__init__(f"streaming audit of run {run}", checkpoint)
        self.run = run
        self.topics = topics
        self.spark = spark
        self.source = source

    @classmethod
    def start(
        cls,
        run: str,
        topics: Topics,
        spark: SparkSession,
        checkpoint: str | PathLike[str] | None,
        source: bool,
        every_ms: int,
        lines_per_batch: int | None,
    ) -> AuditStream:
        """See `audit_stream`."""
        check_trace_exists(topics, run)
        owner = Owner(run, trace_topic(run), topics.identity(trace_topic(run)))
        folder = Path(checkpoint) if checkpoint is not None else workspace.spark_dir() / "audits" / run
        stream = cls(run, topics, spark, Checkpoint(folder), source)
        stream._begin(owner, lambda: topics.stream_trace(spark, run, lines_per_batch), every_ms)
        return stream

    def result(self) -> AuditResult:
        """The audit of the steps that were read so far."""
        with self.folding:
            kept = self.checkpoint.latest()
            if kept is None:
                return result_of(self.run, TraceRead(), [], [], set())
            batch, state = kept
            read, lanes = TraceRead(**state["read"]), state["lanes"]
            names = {lane["topic"] for lane in lanes} if self.source and read.backend != "model" else set()
            with one_sentence(self.what):
                known = self.spark.read.schema(frames.FACTS).parquet(str(self.checkpoint.facts(batch)))
                if names:
                    known = known.unionByName(found_in(self.topics, self.spark, {(self.run, name) for name in names}))
                cut = None  # what was in flight is not among the facts that are kept
                if read.cut_at is not None:
                    cut = frames.read_steps(self.topics.read_trace(self.spark, self.run))
                counted = count(self.spark, known, lanes, cut)
        return result_of(self.run, read, lanes, counted, names)

    def __repr__(self) -> str:
        kept = self.checkpoint.latest()
        told = f"{kept[1]['read']['steps']} steps read" if kept else "nothing read yet"
        return f"<AuditStream of run {self.run}: {told}, {'running' if self.query else 'stopped'}>"

    def _fold_batch(self, lines: DataFrame, batch: int, kept: Kept | None) -> None:
        spark = lines.sparkSession
        state: dict[str, Any] = kept[1] if kept is not None else {"read": asdict(TraceRead()), "lanes": []}
        before = TraceRead(**state["read"])
        steps = frames.read_steps(lines, before.last_n).persist()
        try:
            read = TraceRead.of(steps)
            self._check_no_producer(steps, read, state["lanes"])
            lanes = follow(spark, steps, state["lanes"])
            all_facts = frames.facts(steps)
            if kept is not None:
                earlier = spark.read.schema(frames.FACTS).parquet(str(self.checkpoint.facts(kept[0])))
                all_facts = all_facts.unionByName(earlier)
            condensed = frames.condense(all_facts).persist()
            try:
                left = frames.remembered(condensed, follow_records(spark, condensed, lanes))
                left.write.mode("overwrite").parquet(str(self.checkpoint.facts(batch)))
            finally:
                condensed.unpersist()
        finally:
            steps.unpersist()
        without_moves = [{name: value for name, value in lane.items() if name != "moves"} for lane in lanes]
        self.checkpoint.keep(batch, {"read": asdict(before + read), "lanes": without_moves})

    def _check_no_producer(self, steps: DataFrame, read: TraceRead, known: Rows) -> None:
        """Raise LabError when a lane begins in these steps that is a producer's."""
        lanes = {(row["topic"], row["partition"]) for row in known}
        begun = [*split_lanes(steps)[0], *find_lanes(steps)] if read.sends else []
        produced = [row for row in begun if (row["topic"], row["partition"]) not in lanes]
        if produced:
            raise LabError(
                f"{self.what}: a producer writes to {produced[0]['topic']}, and what it has lost is known "
                "only at its end. Call audit() when the run has ended, or `kit audit`."
            )


__all__ = ["AuditResult", "AuditStream", "Finding", "LaneAudit", "audit", "audit_stream", "audits", "steps_of"]


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
    lanes: Rows = []
    counted: Rows = []
    with one_sentence(f"audit of run {', '.join(runs[:3])}"):
        steps = frames.read_steps(topics.read_trace(spark, *runs)).persist()
        try:
            read = TraceRead.of_runs(steps)

            def on_broker(row: dict[str, Any]) -> bool:
                """Is its topic to be read?"""
                return source and read[row["run"]].backend != "model" and not row.get("is_outside")

            sends = any(each.sends for each in read.values())
            transacted = transaction_audit.find_lanes(steps) if sends else []
            left = production.without(spark, steps, transacted)
            produced, others = production.split_lanes(left) if sends else ([], None)
            if others != []:
                of_others = production.without(spark, left, produced)
                lanes = follow(spark, of_others, [])
                all_facts = frames.facts(of_others)
                if real := list(filter(on_broker, lanes)):
                    found = found_in(topics, spark, {(row["run"], row["topic"]) for row in real})
                    all_facts = all_facts.unionByName(production.without(spark, found, produced))
                is_cut = any(each.cut_at is not None for each in read.values())
                counted = count(spark, frames.condense(all_facts), lanes, of_others if is_cut else None)
            if produced:
                records: DataFrame | None = None
                rows = produced
                if real := list(filter(on_broker, produced)):
                    found, known = production.read_topics(topics, spark, real)
                    rows = known + [row for row in produced if not on_broker(row)]
                    records = production.without(spark, found, others or [])
                counted += production.count(spark, left, rows, records)
            if transacted:
                real = list(filter(on_broker, transacted))
                given = transaction_audit.read_topics(topics, spark, real) if real else None
                counted += transaction_audit.count(spark, steps, transacted, given)
        finally:
            steps.unpersist()
    named = list(filter(on_broker, [*lanes, *produced, *transacted]))
    return {
        run: result_of(
            run, read.get(run, TraceRead()), [row for row in lanes if row["run"] == run],
            [row for row in counted if row["run"] == run], {row["topic"] for row in named if row["run"] == run},
        )
        for run in runs
    }  # fmt: skip


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
