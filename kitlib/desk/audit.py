"""One streaming query that counts what the desk's two topics hold, while they grow.

Each batch brings the new records of both topics. In Spark's tasks they become runs, stretches in which offset and number both go up
by one; a few rows, whatever the rate. This process folds them into what the batches before have left (`kitlib.desk.fold`).

    Kafka, two topics ──> mapInArrow: runs of (topic, offset, number) ──> LogFold

Left out: a desk that goes on after its process has ended.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kitlib.desk.fold import LogFold
from kitlib.desk.lamps import Witness
from kitlib.desk.runs import RUNS, to_runs
from kitlib.errors import KitError, LabError
from kitlib.lab import created_resources
from kitlib.pipelines.production import NUMBER
from kitlib.pipelines.sweep import send_code
from kitlib.pipelines.topics import Topics, first_line, one_sentence, settings
from kitlib.spark import sessions as kit_spark

EVERY_MS = 500
# Of a query that runs for hours: the files of so many batches are kept.
SESSION = {"spark.sql.streaming.minBatchesToRetain": "10", "spark.sql.streaming.numRecentProgressUpdates": "10"}
SLOWEST = 1_000  # batches whose latencies are remembered


class DeskAudit:
    """The query of one desk; `counted` is what it knows by now, replaced as a whole after each batch."""

    def __init__(self, run: str, topic: str, results: str, folder: Path) -> None:
        self.what, self.topic, self.results, self.folder = f"the desk's query of run {run}", topic, results, folder
        self.of_topic, self.of_results = LogFold(), LogFold()  # of the batches' thread
        self.committed_to = 0  # the highest commit that a result tells of
        self.latencies: list[float] = []  # of the last batches with records: how old their oldest one was when it was counted, in s
        self.counted = count(self.of_topic, self.of_results)
        self.query: StreamingQuery | None = None  # None before the start, and after the end
        self.trouble: KitError | None = None  # what ended a batch

    def start(self, topics: Topics, spark: SparkSession) -> None:
        """Begin. LabError when Spark or the broker refuses."""
        created_resources.remember("checkpoint", self.folder)
        send_code(spark)
        _warm_up(spark)
        with one_sentence(self.what), settings(spark, SESSION):
            runs = runs_in(topics.stream_topics(spark, [self.topic, self.results]))
            writer = runs.writeStream.trigger(processingTime=f"{EVERY_MS} milliseconds")
            self.query = kit_spark.start(writer.option("checkpointLocation", str(self.folder / "query")), self._fold)

    def stop(self) -> None:
        """End the query."""
        query, self.query = self.query, None
        if query is not None and kit_spark.is_alive():
            with one_sentence(self.what):
                query.stop()

    def check(self) -> None:
        """Raise LabError when the query has ended."""
        if self.query is None:
            raise LabError(f"{self.what} was stopped. Start another desk.")
        kit_spark.check_alive()
        if self.trouble is not None:
            raise self.trouble
        with one_sentence(self.what):
            if (ended := self.query.exception()) is not None:
                raise LabError(f"{self.what} ended: {first_line(ended)}. Stop the desk and start another one.") from ended

    def catch_up(self) -> None:
        """Wait until everything that is in the topics by now is counted. LabError when the query has ended."""
        self.check()
        assert self.query is not None
        with one_sentence(self.what), suppress(StreamingQueryException):
            self.query.processAllAvailable()
        self.check()

    def witness(self, handed_over: int) -> Witness:
        """What it says at the end."""
        return Witness("Spark", self.of_topic.tally(handed_over), self.of_results.tally(self.of_topic.next_offset))

    def _fold(self, rows: DataFrame, batch: int) -> None:
        """What Spark calls with each batch."""
        try:
            with one_sentence(f"{self.what}, batch {batch}"):
                found = rows.collect()
        except KitError as error:
            self.trouble = error
            raise
        for row in sorted(found, key=lambda row: row["offset"]):
            log = self.of_topic if row["topic"] == self.topic else self.of_results
            if row["first"] < 0:
                for offset in range(row["offset"], row["offset"] + row["count"]):
                    log.skip(offset)
            else:
                log.take(row["offset"], row["first"], row["count"])
        self.committed_to = max([self.committed_to, *(row["told"] for row in found if row["topic"] == self.results)])
        if oldest := [row["oldest_ms"] for row in found if row["topic"] == self.topic]:
            self.latencies = [*self.latencies[-SLOWEST:], max(0.0, time.time() - min(oldest) / 1000)]
        latency_s = round(self.latencies[-1], 2) if self.latencies else None
        self.counted = count(self.of_topic, self.of_results, self.committed_to) | {"latency_s": latency_s, "batches": batch + 1}


def count(topic: LogFold, results: LogFold, committed_to: int = 0) -> dict[str, Any]:
    """What a look at the desk tells. Lost are the records below the commit without a result, and gaps in the topic."""
    return {
        "topic": topic.lines, "results": results.lines, "lost": results.missing(committed_to) + topic.missing(topic.highest + 1),
        "duplicated_topic": topic.duplicated, "duplicated_results": results.duplicated,
        "reordered_topic": topic.reordered, "reordered_results": results.reordered, "latency_s": None, "batches": 0,
    }  # fmt: skip


def _warm_up(spark: SparkSession) -> None:
    """Start a worker and compile the plan now, so that the first batch does not wait for it."""
    with one_sentence("the desk's query"):
        record = ("", 0, 0, b"", b"0")
        runs_in(spark.createDataFrame([record], "topic STRING, offset LONG, log_ms LONG, key BINARY, value BINARY")).collect()


def runs_in(records: DataFrame) -> DataFrame:
    """The runs of records (topic, offset, log_ms, key, value): RUNS. `first` is -1 for lines without a number."""

    def number(name: str) -> Any:
        text = F.try_validate_utf8(F.col(name).cast("string"))
        return F.coalesce(F.when(text.rlike(NUMBER), text).try_cast("long"), F.lit(-1))

    return records.select("topic", "offset", "log_ms", number("value").alias("number"), number("key").alias("told")).mapInArrow(
        to_runs, RUNS
    )
