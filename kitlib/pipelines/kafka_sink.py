"""Spark's Kafka sink beside a sink that may be written to twice: what a batch that is done again leaves behind.

A streaming query writes a batch first and notes it in the checkpoint's `commits` afterwards. A job that
dies in the middle of a batch has written a part of it, and the next job does that batch again: the
checkpoint's `offsets` hold what belongs to it, so it is the same records under the same batch number.
Three sinks are given such a batch:

* "kafka": Spark's own. It writes at least once: what was written before the death lies there twice.
* "append": a table to which the rows are added (`foreachBatch`). The same.
* "upsert": a table whose primary key is (batch number, key of the record). A row that is there already
  is not written again, so nothing lies there twice.

The death is an exception that Spark itself raises in the task that writes (`raise_error` at one
record), or for the tables one that is thrown between two rows. What the sink holds afterwards is read
back record by record and becomes a trace, which the kit's verdict judges like any other.

Left out: sinks that write a whole batch in one transaction (`kitlib.pipelines.word_count`, "once").

Source: Apache Spark 4.2.0, `KafkaSourceProvider.createSink`, `KafkaStreamDataWriter`, and the guide's
section on output sinks: the Kafka sink gives at least once.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import KafkaBackend, KafkaTopic
from kitlib.lab import workspace
from kitlib.monitor.delivery import Verdict, judge
from kitlib.pipelines.topics import Topics, first_line, one_sentence
from kitlib.settings import Settings
from kitlib.spark import sessions as kit_spark
from kitlib.trace import Trace

Sink = Literal["kafka", "append", "upsert"]
NAMES: dict[str, str] = {
    "kafka": "Spark's Kafka sink",
    "append": "a table that is appended to",
    "upsert": "a table with the key (batch, order)",
}
PLANTED = "planted: the job dies here"
MOST_RECORDS = 1_000


@dataclass(frozen=True, slots=True)
class SinkRun:
    """What two jobs in a row, the first of which died, left in a sink."""

    sink: Sink
    records: int  # in the source
    copies: dict[int, int]  # source offset -> how often it lies in the sink
    trace: Trace

    @property
    def verdict(self) -> Verdict:
        """The kit's verdict: a record is processed once for each copy of it that lies in the sink."""
        return judge(self.trace)

    @property
    def twice(self) -> int:
        """How many records lie in the sink more than once."""
        return sum(copies > 1 for copies in self.copies.values())

    @property
    def missing(self) -> int:
        """How many records of the source do not lie in the sink."""
        return self.records - len(self.copies)

    def __repr__(self) -> str:
        told = f"{NAMES[self.sink]}: {self.records} records in, {sum(self.copies.values())} out"
        return f"<{told}; {self.twice} twice, {self.missing} missing>"


def run_sink(
    sink: Sink = "kafka",
    *,
    records: int = 30,
    per_batch: int = 10,
    dies_at: int | None = 15,
    spark: SparkSession | None = None,
) -> SinkRun:
    """Copy orders from a new topic to a sink by two jobs; the first dies when it comes to the record at offset `dies_at`.

    With `dies_at` None the first job comes to the end, and the second finds nothing to do. KnobError for a
    sink that there is not, and for numbers outside of 1 <= per_batch <= records <= 1,000 and
    0 <= dies_at < records; LabError when Spark or the broker fail for another reason than the planted one.
    """
    if sink not in get_args(Sink):
        raise KnobError(f"sink: {str(sink)[:40]!r} is not known, expected one of {', '.join(get_args(Sink))}.")
    if not 1 <= per_batch <= records <= MOST_RECORDS:
        raise KnobError(
            f"sink: records is {records} and per_batch {per_batch}, expected 1 <= per_batch <= records <= {MOST_RECORDS}."
        )
    if dies_at is not None and not 0 <= dies_at < records:
        raise KnobError(f"sink: dies_at is {dies_at}, expected 0 <= dies_at < {records}, or None.")
    run = f"sink-{sink}-{uuid.uuid4().hex[:8]}"
    backend = KafkaBackend.open(run)
    workspace.spark_dir().mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="sink-", dir=workspace.spark_dir()))
    try:
        source = backend.create_topic("orders", MOST_RECORDS)
        source.append([b"order %d" % number for number in range(records)])
        is_topic = sink == "kafka"
        target = _Topic(backend.create_topic("copies", MOST_RECORDS)) if is_topic else _Table(folder / "orders.db", sink == "upsert")
        job = _Job(spark or kit_spark.session(), Topics.find(), source.name, target, folder, per_batch)
        trace = Trace(run, "kafka_sink", "kafka", settings=Settings(sink=sink, per_batch=per_batch))
        where: dict[str, Any] = {"topic": source.name, "partition": 0}
        trace.record(0, "log", "append", **where, first=0, last=records - 1)
        teller = _Teller(trace, where, per_batch, records)
        teller.tell(job.run(dies_at), dies_at)
        if dies_at is not None:
            teller.tell(job.run(None), None)
        return SinkRun(sink, records, dict(Counter(teller.held)), trace)
    finally:
        backend.close()
        shutil.rmtree(folder, ignore_errors=True)


class _PlannedDeathError(Exception):
    """The planted death of a job that writes to a table."""


@dataclass(slots=True)
class _Topic:
    """A topic as Spark's own sink writes it."""

    topic: KafkaTopic

    def held(self) -> list[int]:
        """The source offsets of the records that it holds, in log order."""
        found: list[int] = []
        at, end = 0, self.topic.end
        while at < end:
            fetched = self.topic.fetch(at).records
            if not fetched:
                raise LabError(f"topic {self.topic.name}: nothing came from offset {at}, its end is {end}. Look at `kit status`.")
            found += [int((record.key or b"").decode()) for record in fetched]
            at = fetched[-1].offset + 1
        return found


@dataclass(slots=True)
class _Table:
    """A table of rows; with a primary key, or without."""

    path: Path
    has_key: bool

    def __post_init__(self) -> None:
        key = ", PRIMARY KEY (batch, key)" if self.has_key else ""
        with closing(self._open()) as database:
            database.execute(f"CREATE TABLE orders (batch INTEGER, key INTEGER, value TEXT{key})")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None)  # each row is there as soon as it is written

    def write(self, batch: int, rows: list[tuple[int, str]], dies_at: int | None) -> None:
        """Write a batch row by row; _PlannedDeathError when it comes to the row with the key `dies_at`."""
        with closing(self._open()) as database:
            for key, value in rows:
                if key == dies_at:
                    raise _PlannedDeathError(PLANTED)
                database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?, ?)", (batch, key, value))

    def held(self) -> list[int]:
        """The source offsets of the rows that it holds, in the order in which they were written."""
        with closing(self._open()) as database:
            return [int(key) for (key,) in database.execute("SELECT key FROM orders ORDER BY rowid")]


@dataclass(slots=True)
class _Job:
    """A streaming query from a topic to a sink, with one checkpoint for all its runs."""

    spark: SparkSession
    topics: Topics
    source: str
    target: _Topic | _Table
    folder: Path
    per_batch: int

    def run(self, dies_at: int | None) -> list[int]:
        """Run the job to the end of the topic or to its death; what the sink holds then."""
        read = self.topics.stream_records(self.spark, self.source, "earliest", self.per_batch)
        key, value = F.col("offset").cast("string"), F.col("value").cast("string")
        rows: DataFrame
        if isinstance(self.target, _Topic):
            rows = read.select(key.alias("key"), _value_or_death(value, dies_at).alias("value"))
            writer = rows.writeStream.format("kafka").options(**self.topics.sink_options(self.target.topic.name))
        else:
            rows = read.select(F.col("offset").alias("key"), value.alias("value"))
            writer = rows.writeStream
        writer = writer.option("checkpointLocation", str(self.folder / "query")).trigger(availableNow=True)
        with one_sentence(f"sink from {self.source}"):
            query = writer.start() if isinstance(self.target, _Topic) else kit_spark.start(writer, self._into(self.target, dies_at))
            try:
                query.awaitTermination()
                died = False
            except StreamingQueryException as error:
                died = True
                if PLANTED not in str(error):
                    raise LabError(
                        f"sink from {self.source}: {first_line(error)}. Spark's log is {kit_spark.log_file()}."
                    ) from None
        if died != (dies_at is not None):
            raise LabError(
                f"sink from {self.source}: the job came to the end and should have died at offset {dies_at}."
            )
        return self.target.held()

    @staticmethod
    def _into(table: _Table, dies_at: int | None) -> Callable[[DataFrame, int], None]:
        def write(batch: DataFrame, number: int) -> None:
            table.write(number, sorted((int(row["key"]), str(row["value"])) for row in batch.collect()), dies_at)

        return write


def _value_or_death(value: Column, dies_at: int | None) -> Column:
    """The value; at one record the exception that ends the task which writes."""
    if dies_at is None:
        return value
    return F.when(F.col("offset") == dies_at, F.raise_error(F.lit(PLANTED)).cast("string")).otherwise(value)


@dataclass(slots=True)
class _Teller:
    """Writes the trace: which records each job was given, and what was found in the sink after it."""

    trace: Trace
    where: dict[str, Any]
    per_batch: int
    records: int
    begun: int = 0  # the first offset of the next batch
    held: list[int] = field(default_factory=list)

    def tell(self, held: list[int], dies_at: int | None) -> None:
        """One job ended; the sink holds these."""
        why = "the checkpoint's last batch that was noted" if self.begun else "earliest"
        now_ms = len(self.trace)
        self.trace.record(now_ms, "spark", "start", **self.where, offset=self.begun, why=why)
        new = held[len(self.held) :]
        after = self.records if dies_at is None else (dies_at // self.per_batch + 1) * self.per_batch
        given = range(self.begun, min(after, self.records))
        for offset in given:
            self.trace.record(now_ms, "spark", "emit", **self.where, offset=offset)
        for offset in new:
            self.trace.record(now_ms, "sink", "process", **self.where, offset=offset, part=0)
        self.held = held
        self.begun = self.records if dies_at is None else dies_at // self.per_batch * self.per_batch
        self.trace.record(now_ms, "spark", "commit", **self.where, offset=self.begun, written=True)
