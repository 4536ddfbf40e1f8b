"""Topics of the real broker as DataFrames, through Spark's Kafka connector.

The connector waits for minutes when a topic or a broker is not there, and then fails with a page of
Java. So the broker is asked first, by a client that answers at once; what Spark still has to say
becomes one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import KnobError, LabError
from kitlib.lab import clients, kafka_server
from kitlib.lab.security import java_settings
from kitlib.pipelines.delivery_frames import TOPIC_NAME
from kitlib.spark import sessions as kit_spark

TRACE_PREFIX = "kit.trace."
SECONDS_TO_ANSWER = 10.0

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}
LOGGED = ("offset", "unix_millis(timestamp) AS log_ms", "key", "value")  # of a record, as a stream gives it


@dataclass(frozen=True, slots=True)
class Topics:
    """A cluster whose topics Spark reads."""

    bootstrap: str
    settings: Mapping[str, str]  # of a company's cluster, in librdkafka's names; empty for the kit's own

    @classmethod
    def find(cls, bootstrap: str | None = None) -> Topics:
        """The cluster at `bootstrap`, or the kit's own, started if need be."""
        if bootstrap is None:
            cluster = kafka_server.ensure()
            return cls(cluster.bootstrap, clients.file_config() if cluster.source == "external" else {})
        return cls(bootstrap, clients.file_config() if bootstrap == kafka_server.external_bootstrap() else {})

    def names(self) -> set[str]:
        """All topics of the cluster. LabError when no broker answers in time."""
        try:
            return set(self.admin().list_topics(timeout=SECONDS_TO_ANSWER).topics)
        except (KafkaException, ValueError, TypeError) as error:
            raise LabError(
                f"no Kafka answers at {self.bootstrap} within {SECONDS_TO_ANSWER:g} s ({error}). "
                "Look at `kit status`; start a broker with `kit up`."
            ) from error

    def read_trace(self, spark: SparkSession, *runs: str) -> DataFrame:
        """The lines of the runs' trace topics: run, line (its offset), value."""
        return _lines(self._read(spark, assign=_first_partitions(*runs)))

    def stream_trace(self, spark: SparkSession, run: str) -> DataFrame:
        """The same as a stream; it fails when lines that were not read yet are gone."""
        return _lines(self._stream(spark, None, assign=_first_partitions(run)))

    def read_records(self, spark: SparkSession, topics: Collection[str]) -> DataFrame:
        """The committed records that lie in the topics now: topic, partition, offset, key, value."""
        records = self._read(spark, **READ_COMMITTED, subscribe=",".join(sorted(topics)))
        return records.select("topic", "partition", "offset", "key", "value")

    def stream_records(self, spark: SparkSession, topic: str, starting: str, per_batch: int | None) -> DataFrame:
        """One topic's committed records as a stream from "earliest" or "latest" on; it fails when unread records are gone."""
        records = self._stream(spark, per_batch, **READ_COMMITTED, startingOffsets=starting, subscribe=topic)
        return records.select("topic", "partition", "offset", "key", "value")

    def read_partitions(self, spark: SparkSession, topic: str, partitions: Collection[int], fetch: Mapping[str, str]) -> DataFrame:
        """The records that lie in some partitions of a topic now: partition, offset, log_ms, key, value."""
        records = self._read(spark, **READ_COMMITTED, **fetch, assign=json.dumps({topic: sorted(partitions)}))
        return records.selectExpr("partition", *LOGGED)

    def stream_topics(self, spark: SparkSession, names: Collection[str]) -> DataFrame:
        """Several topics' committed records from the first one on, as a stream: topic, offset, log_ms, key, value."""
        records = self._stream(spark, None, **READ_COMMITTED, subscribe=",".join(sorted(names)))
        return records.selectExpr("topic", *LOGGED)

    def sink_options(self, topic: str) -> dict[str, str]:
        """What a writer with the format "kafka" needs to write to a topic."""
        return {**self.source_options(), "topic": topic}

    def client_settings(self, **more: Any) -> dict[str, Any]:
        """The configuration of a confluent_kafka client of the cluster; `more` has the last word."""
        return {"bootstrap.servers": self.bootstrap, "client.id": "kit", "log_level": 2, **self.settings, **more}

    def read_source(self, spark: SparkSession, named: Collection[tuple[str, str]]) -> DataFrame:
        """What lies in topics now, uncommitted records too, each topic named with a run: run, topic, partition, offset, value."""
        subscribed = ",".join(sorted({topic for _, topic in named}))
        records = self._read(spark, **{"kafka.isolation.level": "read_uncommitted"}, subscribe=subscribed)
        runs = spark.createDataFrame(sorted(named), "run STRING, topic STRING")
        return records.join(F.broadcast(runs), "topic").select("run", "topic", "partition", "offset", "value")

    def admin(self) -> AdminClient:
        """An admin client. Keep it as long as its answers: one that is let go of answers nothing more."""
        return AdminClient(self.client_settings())

    def _read(self, spark: SparkSession, **options: Any) -> DataFrame:
        """What lies in topics now, from the first record on unless `options` say otherwise; what is gone is passed over."""
        bounds = {"endingOffsets": "latest", "failOnDataLoss": "false"}
        return spark.read.format("kafka").options(**self.source_options(), **bounds, **options).load()

    def _stream(self, spark: SparkSession, per_batch: int | None, **options: Any) -> DataFrame:
        """A stream from the first record on unless `options` say otherwise; it fails when unread records are gone."""
        batches = {} if per_batch is None else {"maxOffsetsPerTrigger": per_batch}
        defaults: dict[str, Any] = {"startingOffsets": "earliest", "failOnDataLoss": "true", **batches}
        return spark.readStream.format("kafka").options(**self.source_options(), **(defaults | options)).load()

    def source_options(self) -> dict[str, str]:
        """What a reader with the format "kafka" needs to reach the cluster: the Java client's settings, each after `kafka.`."""
        options = {"bootstrap.servers": self.bootstrap} | java_settings(self.settings)
        return {f"kafka.{name}": value for name, value in options.items()}


def trace_topic(run: str) -> str:
    """The topic of a run's trace. KnobError when `run` is no name that a run has."""
    topic = TRACE_PREFIX + run
    if not run or not re.match(TOPIC_NAME, topic):
        raise KnobError(
            f"audit: {run[:60]!r} is not the name of a run. Expected letters, digits, '.', '_' and '-', at most "
            f"{249 - len(TRACE_PREFIX)}; a trace's name is in its `run`."
        )
    return topic


def check_trace_exists(topics: Topics, *runs: str) -> None:
    """Raise LabError when there is no trace topic of one of these runs, naming some that are there."""
    wanted_of = {run: trace_topic(run) for run in runs}
    present = topics.names()
    run, wanted = next(((run, topic) for run, topic in wanted_of.items() if topic not in present), (None, None))
    if run is None:
        return
    others = sorted(name.removeprefix(TRACE_PREFIX) for name in present if name.startswith(TRACE_PREFIX))
    told = f"There are traces of {', '.join(others[-5:])}" if others else "There is no trace at all"
    raise LabError(
        f"audit of run {run}: there is no topic {wanted} at {topics.bootstrap}. {told}; "
        "run an experiment with the backend kafka and audit its trace's run."
    )


def check_topics_exist(topics: Topics, named: set[tuple[str, str]]) -> None:
    """Raise LabError when one of the topics, each with a run that names it, is not there."""
    present = topics.names()
    if missing := sorted((run, name) for run, name in named if name not in present):
        gone = ", ".join(name for run, name in missing if run == missing[0][0])
        raise LabError(
            f"audit of run {missing[0][0]}: its trace names {gone}, which no longer exists at {topics.bootstrap}. "
            "Run the experiment again, or pass source=False (--trace-only) to judge by the trace alone."
        )


@contextmanager
def one_sentence(doing: str) -> Iterator[None]:
    """Turn what Spark or its Java throws inside into a LabError of one sentence."""
    try:
        yield
    except PySparkException as error:
        raise LabError(f"{doing}: {first_line(error)}. Spark's log is {kit_spark.log_file()}.") from error


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


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without a full stop; of a Python worker's traceback the last one, which names the error."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return lines[-1 if isinstance(error, PythonException) else 0][:300].rstrip(".")


def _lines(records: DataFrame) -> DataFrame:
    run = F.substring("topic", len(TRACE_PREFIX) + 1, 249)
    return records.select(run.alias("run"), F.col("offset").alias("line"), "value")


def _first_partitions(*runs: str) -> str:
    return json.dumps({trace_topic(run): [0] for run in runs})  # a trace has one partition
