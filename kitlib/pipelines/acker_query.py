"""What both ways of the acker on Spark share: a streaming query, its folder, and what becomes of each tree.

    acker.json    the way, the time-out and whose messages they are
    query/        Spark's own checkpoint, the state store in it
    batches/N     what batch N had to say, as Parquet

A batch that is done again after a crash writes its folder again, so each batch counts once. Whatever was
asked of the query is answered from the folder alone, also after the process that ran it is gone.

Time is event time. Spark drops as late what is not above its watermark, which begins at 0; but a message may
come at 0 ms, and a batch may begin in the very millisecond in which the one before ended. So event time is
at_ms + 1, and the watermark follows it one millisecond behind: it is the highest at_ms of all batches before,
and the clock by which trees are still open or have timed out.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kitlib.errors import LabError
from kitlib.lab import made, workspace
from kitlib.pipelines.acker_messages import checked_timeout, stream_messages, timeout_ms_of
from kitlib.pipelines.acker_result import AckerResult, result_of
from kitlib.pipelines.topics import Topics, one_sentence, trace_topic

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


@dataclass(frozen=True, slots=True)
class Way:
    """One way to follow trees: a frame that a query runs, and how to read what the query has left."""

    name: str
    frame: Callable[[DataFrame, int], DataFrame]  # messages, time-out in ms -> what each batch has to say
    read: Callable[[SparkSession, Folder, int], DataFrame]  # ... -> OUTCOMES, one row a tree; orphans too

    def follow(
        self,
        session: SparkSession,
        run: str,
        *,
        timeout_ms: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        bootstrap: str | None = None,
        lines_per_batch: int | None = None,
    ) -> AckerResult:
        """Follow every tree of a finished run by its trace topic.

        `timeout_ms` is that of the run unless given. With a `checkpoint` folder a later call goes on where this one
        stopped; without, everything is read and nothing is kept. LabError when a topic is not there, no broker
        answers, or the folder is another's; KnobError for a name that no run has.
        """
        topics = Topics.find(bootstrap)
        with one_sentence(f"acker on Spark of run {run}"):
            timeout = timeout_ms_of(topics, session, run) if timeout_ms is None else checked_timeout(timeout_ms)
        own = workspace.spark_dir() / "ackers" / f"{run}-{uuid.uuid4().hex[:8]}"
        folder = Path(checkpoint) if checkpoint is not None else own
        try:
            begin = time.monotonic()
            messages = stream_messages(topics, session, run, lines_per_batch)
            query = self.start(messages, folder, timeout, source=f"{run} {topics.identity(trace_topic(run))}")
            finish(query)
            with one_sentence(f"acker on Spark of run {run}"):
                found = self.outcomes(session, folder).toPandas()
            return result_of(run, self.name, found, time.monotonic() - begin)
        finally:
            shutil.rmtree(own, ignore_errors=True)

    def start(
        self,
        messages: DataFrame,
        folder: str | PathLike[str],
        timeout_ms: int,
        *,
        source: str = "messages",
        every_ms: int | None = None,
    ) -> StreamingQuery:
        """Start to follow the trees of a stream of messages; go on where the query of this folder stopped.

        `source` says whose messages they are: a folder is gone on with for the same ones only. The query ends when
        it has read what is there now, or, with `every_ms`, looks again so often. LabError for another's folder.
        """
        place = Folder(Path(folder))
        place.claim(self.name, checked_timeout(timeout_ms), source)

        def keep(said: DataFrame, batch: int) -> None:
            said.withColumn("batch", F.lit(batch).cast("long")).write.mode("overwrite").parquet(str(place.batch(batch)))

        trigger = {"availableNow": True} if every_ms is None else {"processingTime": f"{every_ms} milliseconds"}
        with one_sentence(f"acker on Spark ({self.name})"), settings(messages.sparkSession, STATE_STORE):
            writer = self.frame(messages, timeout_ms).writeStream.outputMode("update").foreachBatch(keep)
            return writer.trigger(**trigger).option("checkpointLocation", str(place.query)).start()

    def outcomes(self, spark: SparkSession, folder: str | PathLike[str]) -> DataFrame:
        """What became of each tree by now, from the folder of a query that has stopped: OUTCOMES.

        An outcome is `acked`, `failed`, `timed out` or `open`; `orphan` stands for an entry that no init has claimed.
        """
        place = Folder(Path(folder))
        if not place.batches():
            return spark.createDataFrame([], OUTCOMES)
        told = json.loads((place.path / "acker.json").read_text(encoding="utf-8"))
        return self.read(spark, place, told["timeout_ms"])


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a query keeps everything; see the module for the files."""

    path: Path

    @property
    def query(self) -> Path:
        """Spark's part."""
        return self.path / "query"

    def batch(self, number: int) -> Path:
        """What one batch had to say."""
        return self.path / "batches" / str(number)

    def batches(self) -> list[str]:
        """The batches that were written to their end."""
        return sorted(str(path.parent) for path in (self.path / "batches").glob("*/_SUCCESS"))

    def clock_ms(self) -> int:
        """The watermark of the last batch that was begun, as at_ms; 0 before there is one."""
        log = self.query / "offsets"
        numbers = [int(entry.name) for entry in log.iterdir() if entry.name.isdecimal()] if log.is_dir() else []
        if not numbers:
            return 0
        name = log / str(max(numbers))
        try:
            return int(json.loads(name.read_text(encoding="utf-8").splitlines()[1])["batchWatermarkMs"])
        except (OSError, ValueError, LookupError) as error:
            raise LabError(f"checkpoint {self.path}: query/offsets/{name.name} cannot be read ({error}). Choose another folder.") from error

    def claim(self, way: str, timeout_ms: int, source: str) -> None:
        """Make the folder, or check that it is this query's. LabError when it is another's."""
        told = {"way": way, "timeout_ms": timeout_ms, "source": source}
        file = self.path / "acker.json"
        try:
            if file.exists():
                found = json.loads(file.read_text(encoding="utf-8"))
                if found != told:
                    raise LabError(f"checkpoint {self.path}: acker.json says {found}, expected {told}. Choose another folder.")
                return
            if self.path.is_dir() and any(entry.name != made.MARKER for entry in self.path.iterdir()):
                raise LabError(f"checkpoint {self.path}: it is not empty and has no acker.json. Choose another folder.")
            self.path.mkdir(parents=True, exist_ok=True)
            workspace.write_atomic(file, json.dumps(told))
        except (OSError, ValueError) as error:
            raise LabError(f"checkpoint {self.path}: it cannot be used ({error}). Choose another folder.") from error


def finish(query: StreamingQuery) -> None:
    """Wait until a query that reads what is there has ended. LabError with its first line when it failed."""
    with one_sentence("acker on Spark"):
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            raise LabError(f"acker on Spark: the query ended, {str(error).splitlines()[0][:300].rstrip('.')}.") from error


@contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Settings of the session for as long as the block lasts; a query takes those of its start along."""
    before: dict[str, Any] = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
