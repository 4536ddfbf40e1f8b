"""The word count as a Spark Structured Streaming job: lines from one topic, counts to another.

Spark promises that each line changes its state once. That promise ends at the sink. A batch is written
first and noted in the checkpoint's `commits` afterwards, so a job that dies between the two writes the
batch again when it comes back. What that does to a reader depends on what is written:

* *totals*: a word's count so far, whenever it changed. The second time is the same record again, and
  the last record of a word is right.
* *increments*: a record `1` for each word. Whoever adds them up adds the batch twice.

With the sink "once" a batch goes out in one Kafka transaction together with its number, and a batch
whose number is there already is passed over. The number means nothing without the checkpoint that
gave it, so the checkpoint's id is kept beside it.

A planted `Death` ends the job in a batch before, in the middle of, or after its writes. It then has
the checkpoint that a killed job would have. Without a checkpoint a job starts over, wherever
`starting` says.

Left out: several partitions of the output; words are written by the driver when the sink is "once".
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import consume_to_end, create_topic
from kitlib.lab import created_resources, workspace
from kitlib.lab.log_ends import LogEnds
from kitlib.lab.processes import wait_until
from kitlib.pipelines.topics import Topics, first_line, one_sentence
from kitlib.spark import sessions as kit_spark

Emit = Literal["totals", "increments"]
Sink = Literal["kafka", "once"]
Starting = Literal["earliest", "latest"]

WHITE_SPACE = "[ \\t\\n\\u000B\\f\\r]+"  # what bytes.split() splits at
DEADLINE_S = 30.0  # for the broker to answer, or a transaction to end
BATCHES_SUFFIX = ".batches"  # of the topic that holds the numbers of the batches written "once"


@dataclass(frozen=True, slots=True)
class Death:
    """The job dies in a batch: before its writes, after half of them, or after the last one."""

    in_batch: int  # 0, 1, 2, ... since the checkpoint was new
    when: Literal["before", "middle", "after"] = "after"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of the job did; of more than a hundred batches Spark tells of the last hundred."""

    lines: int  # read in batches that were finished
    batches: int  # finished
    passed_over: int  # of them, those that had been written before
    died_in_batch: int | None  # None: it came to the end of the topic

    def __repr__(self) -> str:
        end = "to the end" if self.died_in_batch is None else f"died in batch {self.died_in_batch}"
        again = f", {self.passed_over} of them written before" if self.passed_over else ""
        return f"<word count: {self.lines} lines in {self.batches} batches{again}, {end}>"


@dataclass(frozen=True, slots=True)
class WordCount:
    """A word count from one topic to another; `run` brings it up to date with the lines."""

    lines: str  # the topic of the lines
    counts: str  # the topic of the counts, made if it is not there: key word, value decimal
    checkpoint: Path | None = None  # None: a new one at each run
    emit: Emit = "totals"
    sink: Sink = "kafka"
    starting: Starting = "earliest"  # matters only where there is no checkpoint
    lines_per_batch: int | None = None  # None: all that is there
    bootstrap: str | None = None  # None: the kit's own broker

    def run(self, dies: Death | None = None, spark: SparkSession | None = None) -> Outcome:
        """Count every line that is there now, batch by batch, and end; or die as told.

        LabError when the lines' topic is not there, or Spark or the broker fail; KnobError for a
        setting that there is not.
        """
        self._check()
        topics = Topics.find(self.bootstrap)
        present = topics.names()
        if self.lines not in present:
            raise LabError(
                f"word count: there is no topic {self.lines} at {topics.bootstrap}. "
                "Append lines to it first, or name the topic of a run (its trace's first step names it)."
            )
        self._make_topics(topics, present)
        folder = self._folder()
        try:
            return _Job(self, topics, spark or kit_spark.session(), folder, dies).run()
        finally:
            if self.checkpoint is None:
                shutil.rmtree(folder, ignore_errors=True)

    def _check(self) -> None:
        for name, choices in {"emit": get_args(Emit), "sink": get_args(Sink), "starting": get_args(Starting)}.items():
            if (value := getattr(self, name)) not in choices:
                raise KnobError(f"word count: {name} is {str(value)[:40]!r}, expected one of {', '.join(choices)}.")
        if self.lines_per_batch is not None and self.lines_per_batch < 1:
            raise KnobError(
                f"word count: lines_per_batch is {self.lines_per_batch}, expected 1 or more, or None for no bound."
            )

    def _make_topics(self, topics: Topics, present: set[str]) -> None:
        policy = {"cleanup.policy": "compact"} if self.emit == "totals" else {"retention.ms": "-1"}
        wanted = {self.counts: policy}
        if self.sink == "once":
            wanted[self.counts + BATCHES_SUFFIX] = {"retention.ms": "-1"}
        admin = topics.admin()
        for name, config in wanted.items():
            if name not in present:
                create_topic(admin, name, 1, config)

    def _folder(self) -> Path:
        if self.checkpoint is None:
            workspace.spark_dir().mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix="word-count-", dir=workspace.spark_dir()))
        if not self.checkpoint.exists():
            created_resources.remember("checkpoint", self.checkpoint)
        return self.checkpoint


class _Job:
    """One run of a WordCount: a query that ends with the topic, or dies."""

    def __init__(self, job: WordCount, topics: Topics, spark: SparkSession, folder: Path, dies: Death | None) -> None:
        self.job, self.topics, self.spark, self.folder, self.dies = job, topics, spark, folder, dies
        self.passed_over = 0
        self.died_in: int | None = None
        self.trouble: LabError | None = None
        self.once: _OnceWriter | None = None  # opened by the first batch

    def run(self) -> Outcome:
        what = f"word count from {self.job.lines} to {self.job.counts}"
        writer = self._counts().writeStream.outputMode("update" if self.job.emit == "totals" else "append")
        writer = writer.option("checkpointLocation", str(self.folder / "query")).trigger(availableNow=True)
        with one_sentence(what):
            if self.job.sink == "once" or self.dies is not None:
                query = kit_spark.start(writer, self._told(self._write_once if self.job.sink == "once" else self._write))
            else:
                query = writer.format("kafka").options(**self.topics.sink_options(self.job.counts)).start()
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                if self.died_in is None:
                    raise self.trouble or LabError(f"{what}: {first_line(error)}. Spark's log is {kit_spark.log_file()}.") from None
            progress = [batch for batch in query.recentProgress if batch.numInputRows]
        finished = [batch for batch in progress if batch["batchId"] != self.died_in]
        lines = sum(int(batch.numInputRows) for batch in finished)
        return Outcome(lines, len(finished), self.passed_over, self.died_in)

    def _counts(self) -> DataFrame:
        """The records to be written, a key and a value each."""
        lines = self.topics.stream_records(self.spark, self.job.lines, self.job.starting, self.job.lines_per_batch)
        words = words_of(lines)
        if self.job.emit == "increments":
            return words.select(F.col("word").alias("key"), F.lit("1").alias("value"))
        totals = words.groupBy("word").agg(F.count("*").alias("count"))
        return totals.select(F.col("word").alias("key"), F.col("count").cast("string").alias("value"))

    def _told(self, write: Callable[[DataFrame, int, Death | None], None]) -> Callable[[DataFrame, int], None]:
        """`write`, with the death in the batch where it is planted, and errors in the kit's own words."""

        def write_batch(batch: DataFrame, number: int) -> None:
            dies = self.dies if self.dies is not None and self.dies.in_batch == number else None
            try:
                write(batch, number, dies)
            except LabError as error:
                self.trouble = error
                raise
            except KafkaException as error:
                self.trouble = LabError(
                    f"word count, batch {number}: the counts could not be written ({error.args[0]}). Look at `kit status`."
                )
                raise
            if dies is not None:
                self.died_in = number
                raise RuntimeError(f"planted: dies {dies.when} the writes of batch {number}")

        return write_batch

    def _write(self, batch: DataFrame, number: int, dies: Death | None) -> None:
        """Write a batch as Spark's own Kafka sink does; half of it or nothing at all when the job dies so."""
        if dies is not None and dies.when == "before":
            return
        if dies is not None and dies.when == "middle":
            rows = sorted(batch.collect())
            batch = self.spark.createDataFrame(rows[: (len(rows) + 1) // 2], "key STRING, value STRING")
        batch.write.format("kafka").options(**self.topics.sink_options(self.job.counts)).save()

    def _write_once(self, batch: DataFrame, number: int, dies: Death | None) -> None:
        """Write a batch and its number in one transaction, unless that number has been written."""
        rows = sorted(batch.collect())  # also of a batch that is passed over: Spark needs the state that comes of it
        if self.once is None:
            self.once = _OnceWriter.open(self.topics, self.job.counts, self.folder)
        if number in self.once.written:
            self.passed_over += 1
        elif dies is None or dies.when != "before":
            self.once.write(
                number, [(row["key"], row["value"]) for row in rows], is_half=dies is not None and dies.when == "middle"
            )


@dataclass(slots=True)
class _OnceWriter:
    """Writes each batch with its number in one transaction."""

    producer: Producer
    ends: LogEnds
    counts: str
    checkpoint_id: str
    written: set[int]  # the numbers of this checkpoint's batches that are in the topic

    @classmethod
    def open(cls, topics: Topics, counts: str, folder: Path) -> _OnceWriter:
        """Abort what an earlier job of this name left open, lock it out, and see what it has written."""
        producer = Producer(topics.client_settings(**{"transactional.id": counts}))
        producer.init_transactions(DEADLINE_S)
        checkpoint_id = json.loads((folder / "query" / "metadata").read_text(encoding="utf-8"))["id"]
        ends = LogEnds(topics.admin())
        return cls(producer, ends, counts, checkpoint_id, _batches_written(topics, counts, checkpoint_id))

    def write(self, number: int, records: list[tuple[str, str]], is_half: bool) -> None:
        """Write a batch; half of one is never committed, so no reader of committed records sees it."""
        self.producer.begin_transaction()
        for key, value in records[: (len(records) + 1) // 2] if is_half else records:
            self.producer.produce(self.counts, key=key, value=value, partition=0)
            self.producer.poll(0)
        if is_half:
            self.producer.flush(DEADLINE_S)
            return
        self.producer.produce(self.counts + BATCHES_SUFFIX, key=self.checkpoint_id, value=str(number), partition=0)
        self.producer.commit_transaction(DEADLINE_S)
        # The markers are written after the commit has been answered, and until then no reader is given the batch.
        where = [(topic, 0) for topic in (self.counts, self.counts + BATCHES_SUFFIX)]
        wait_until(lambda: self.ends.stable(where) == self.ends.ends(where), DEADLINE_S, f"batch {number} can be read")


def words_of(lines: DataFrame) -> DataFrame:
    """The words of records: topic and word, one row each time a word stands there; a value that is null or no UTF-8 has none."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    return lines.select("topic", F.explode(F.split(text, WHITE_SPACE)).alias("word")).where(F.col("word") != "")


def _batches_written(topics: Topics, counts: str, checkpoint_id: str) -> set[int]:
    """The numbers of the batches that this checkpoint's job has written."""
    settings = {
        "group.id": f"{counts}.reader",  # never joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    with closing(Consumer(topics.client_settings(**settings))) as consumer:
        found, _ = consume_to_end(consumer, [TopicPartition(counts + BATCHES_SUFFIX, 0, 0)], "the word count")
    values = [each.value() or b"" for each in found if each.key() == checkpoint_id.encode()]
    return {int(value) for value in values if value.isdigit()}
