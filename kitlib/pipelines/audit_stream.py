"""The audit of a run that is still going on: a stream whose answer is always that of the batch.

Spark hands each batch of the trace's lines to `_fold`, which condenses it together with the facts of
all batches before and keeps the result under the batch's number. A batch that is handed over again
after a crash finds its own state, or starts once more from the state before: either way each step
counts once. What is kept grows with the records and their parts, not with the steps.

Left out: a state store. Facts are rewritten with each batch, which is right for a lab's topics and
too slow for millions of records; there `audit` is the better tool.
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import made, workspace
from kitlib.lab import spark as kit_spark
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines.audit_result import AuditResult
from kitlib.pipelines.audit_rows import TraceRead, count, follow, follow_records, found_in, names_of, result_of
from kitlib.pipelines.checkpoint import Checkpoint, Owner
from kitlib.pipelines.topics import Topics, check_trace_exists, first_line, one_sentence, trace_topic


class AuditStream:
    """A streaming audit that runs: `result()` is the audit so far, `finish()` that of all steps there are."""

    def __init__(self, run: str, topics: Topics, spark: SparkSession, checkpoint: Checkpoint, source: bool) -> None:
        self.run = run
        self.topics = topics
        self.spark = spark
        self.checkpoint = checkpoint
        self.source = source
        self.query: StreamingQuery | None = None  # None before the start
        self.lock = FileLock(checkpoint.lock, thread_local=False)
        self.folding = threading.RLock()  # a state is not read while a batch replaces it
        self.trouble: KitError | None = None  # what ended a batch

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
        stream._lock_folder()
        try:
            stream.checkpoint.check(owner)
            if not (folder / "audit.json").exists():
                made.remember("checkpoint", folder)
                stream.checkpoint.claim(owner)
            with one_sentence(f"streaming audit of run {run}"):
                lines = topics.stream_trace(spark, run, lines_per_batch)
                writer = lines.writeStream.foreachBatch(stream._fold).trigger(processingTime=f"{every_ms} milliseconds")
                stream.query = writer.option("checkpointLocation", str(stream.checkpoint.query)).start()
            stream.checkpoint.claim(owner, str(stream.query.id))
        except BaseException:
            stream.stop()
            raise
        return stream

    def finish(self) -> AuditResult:
        """Wait until every step that is in the topic by now is audited, stop, and give the result."""
        try:
            self.catch_up()
            return self.result()
        finally:
            self.stop()

    def catch_up(self) -> None:
        """Wait until every step that is in the topic by now is audited. LabError when the query has ended with an error."""
        if self.query is None:
            raise LabError(f"streaming audit of run {self.run}: it was stopped. Call audit_stream() again to go on.")
        try:
            with one_sentence(f"streaming audit of run {self.run}"):
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
            with one_sentence(f"streaming audit of run {self.run}"):
                known = self.spark.read.schema(frames.FACTS).parquet(str(self.checkpoint.facts(batch)))
                if names:
                    known = known.unionByName(found_in(self.topics, self.spark, self.run, names))
                counted = count(self.spark, known, lanes)
        return result_of(self.run, read, lanes, counted, names)

    def stop(self) -> None:
        """End the query and let the checkpoint go; a later `audit_stream` goes on from it."""
        query, self.query = self.query, None
        try:
            if query is not None and kit_spark.is_alive():
                with one_sentence(f"streaming audit of run {self.run}"):
                    query.stop()
        finally:
            with self.folding:  # a batch that was cut off has noticed by then
                self.lock.release()

    def __enter__(self) -> AuditStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        kept = self.checkpoint.latest()
        told = f"{kept[1]['read']['steps']} steps read" if kept else "nothing read yet"
        return f"<AuditStream of run {self.run}: {told}, {'running' if self.query else 'stopped'}>"

    def _fold(self, lines: DataFrame, batch: int) -> None:
        """Batch `batch` of the trace's lines joins what the batches before it left."""
        with self.folding:
            try:
                self._fold_batch(lines, batch)
            except KitError as error:
                self.trouble = error
                raise

    def _fold_batch(self, lines: DataFrame, batch: int) -> None:
        kept = self.checkpoint.latest()
        if kept is not None and kept[0] >= batch:
            return  # done already; only Spark's note of it was lost
        spark = lines.sparkSession
        state: dict[str, Any] = kept[1] if kept is not None else {"read": asdict(TraceRead()), "lanes": []}
        before = TraceRead(**state["read"])
        steps = frames.read_steps(lines, before.last_n).persist()
        try:
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
            read = before + TraceRead.of(steps)
        finally:
            steps.unpersist()
        without_moves = [{name: value for name, value in lane.items() if name != "moves"} for lane in lanes]
        self.checkpoint.keep(batch, {"read": asdict(read), "lanes": without_moves})

    def _failure(self, error: BaseException) -> KitError:
        """Why the query ended, and what is safe to do."""
        kit_spark.check_alive()
        return self.trouble or LabError(
            f"the audit of run {self.run} ended, {first_line(error)}. Start it again with another checkpoint folder to audit "
            f"from the beginning, or call audit(); checkpoint {self.checkpoint.folder} was left as it is."
        )

    def _lock_folder(self) -> None:
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            raise LabError(
                f"checkpoint {self.checkpoint.folder}: another audit uses it now. Stop that one, or choose another folder."
            ) from None


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"checkpoint {folder}: the folder could not be made ({error.strerror}). Choose another one.") from error
    return folder
