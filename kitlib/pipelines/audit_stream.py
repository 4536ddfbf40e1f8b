"""The audit of a run that is still going on: a stream whose answer is always that of the batch.

Spark hands each batch of the trace's lines to `_fold`, which condenses it together with the facts of
all batches before and keeps the result under the batch's number. A batch that is handed over again
after a crash finds its own state, or starts once more from the state before: either way each step
counts once. What is kept grows with the records and their parts, not with the steps.

Left out: a state store. Facts are rewritten with each batch, which is right for a lab's topics and
too slow for millions of records; there `audit` is the better tool.
"""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import spark as kit_spark
from kitlib.lab import workspace
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines.audit_result import AuditResult
from kitlib.pipelines.audit_rows import Rows, TraceRead, count, follow, follow_records, found_in, names_of, result_of
from kitlib.pipelines.checkpoint import Checkpoint, Kept, Owner
from kitlib.pipelines.folded_stream import FoldedStream
from kitlib.pipelines.production import split_lanes
from kitlib.pipelines.topics import Topics, check_trace_exists, first_line, one_sentence, trace_topic
from kitlib.pipelines.transaction_audit import find_lanes


class AuditStream(FoldedStream[AuditResult]):
    """A streaming audit that runs: `result()` is the audit so far, `finish()` that of all steps there are."""

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
        """See `kitlib.pipelines.audit.audit_stream`."""
        check_trace_exists(topics, run)
        owner = Owner(run, trace_topic(run), topics.identity(trace_topic(run)))
        folder = Path(checkpoint) if checkpoint is not None else workspace.spark_dir() / "audits" / run
        stream = cls(run, topics, spark, Checkpoint(_made(folder)), source)
        stream._begin(owner, lambda: topics.stream_trace(spark, run, lines_per_batch), every_ms)
        return stream

    def catch_up(self) -> None:
        """Wait until every step that is in the topic by now is audited. LabError when the query has ended with an error."""
        if self.query is None:
            raise LabError(f"{self.what}: it was stopped. Call audit_stream() again to go on.")
        try:
            with one_sentence(self.what):
                self.query.processAllAvailable()
                ended = self.query.exception()
            if ended is not None:
                raise ended
        except StreamingQueryException as error:
            raise self._failure(error) from error
        except LabError as error:
            if isinstance(error.__cause__, StreamingQueryException):
                raise self._failure(error.__cause__) from error
            raise

    def result(self) -> AuditResult:
        """The audit of the steps that were read so far."""
        with self.folding:
            kept = self.checkpoint.latest()
            if kept is None:
                return result_of(self.run, TraceRead(), [], [], set())
            batch, state = kept
            read, lanes = TraceRead(**state["read"]), state["lanes"]
            names = names_of(lanes, read) if self.source else set()
            with one_sentence(self.what):
                known = self.spark.read.schema(frames.FACTS).parquet(str(self.checkpoint.facts(batch)))
                if names:
                    known = known.unionByName(found_in(self.topics, self.spark, self.run, names))
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

    def _failure(self, error: BaseException) -> KitError:
        """Why the query ended, and what is safe to do."""
        kit_spark.check_alive()
        return self.trouble or LabError(
            f"the audit of run {self.run} ended, {first_line(error)}. Start it again with another checkpoint folder to audit "
            f"from the beginning, or call audit(); checkpoint {self.checkpoint.folder} was left as it is."
        )


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"checkpoint {folder}: the folder could not be made ({error.strerror}). Choose another one.") from error
    return folder
