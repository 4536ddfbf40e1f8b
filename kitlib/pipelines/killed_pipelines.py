"""Pipelines that are killed with SIGKILL and come back: what each source, with which settings, has lost and done twice.

One program runs a streaming query for each pipeline. All read the same topic, and each writes a result for every record, without a
key, to a topic of its own, so that what is done twice is seen. The work on some records fails the first time. When each query is in
the middle of a batch, the program kills itself: no handler runs, nothing is closed. The next program goes on from the checkpoints.
What there is at the end is counted by another query, from the topics alone.

    topic ──> spark.readStream.format(source).options(...) ──> foreachBatch: the work ──> results

Left out: sinks with a key or a transaction, for which what is done twice does not count (`kitlib.pipelines.word_count`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab import workspace
from kitlib.pipelines.count_audit import GUARANTEES
from kitlib.pipelines.partition_manager_failures import Failures
from kitlib.pipelines.partition_manager_source import FORMAT, partition_manager_stream
from kitlib.pipelines.topics import Topics
from kitlib.spark import sessions as kit_spark

PLANTED = "planted: the work on a record fails"
PROGRAM_S = 500.0
TOGETHER_S = 400.0  # until every pipeline has come to the place where it is killed


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One row of the comparison."""

    name: str
    source: str = FORMAT  # or "kafka", Spark's own
    on_failure: Literal["retry", "fail", "skip"] = "retry"  # one record, which FORMAT alone can; the whole batch; or not at all
    loses_checkpoint: bool = False  # before the second program
    options: dict[str, Any] = field(default_factory=dict)

    def stream(self, spark: SparkSession, topic: str, spout: str) -> DataFrame:
        """Its records."""
        if self.source == FORMAT:
            return partition_manager_stream(spark, topic=topic, id=spout, **self.options)
        reader = spark.readStream.format("kafka").options(**Topics.find().source_options(), subscribe=topic)
        return reader.options(**{name: str(value) for name, value in self.options.items()}).load()


class KilledPipelines:
    """Topics and checkpoints of some pipelines, and the program that runs them; `close` removes the checkpoints."""

    def __init__(self, pipelines: Sequence[Pipeline], records: int = 30, failing: Sequence[int] = (1, 3)) -> None:
        self.pipelines, self.run_name, self.programs = [*pipelines], f"killed-{uuid.uuid4().hex[:8]}", 0
        backend = KafkaBackend.open(self.run_name)
        try:
            source = backend.create_topic("orders", records)
            source.append([b"%d" % number for number in range(records)])
            self.topic = source.name
            self.results = {each.name: backend.create_topic(f"results-{at}", records).name for at, each in enumerate(pipelines)}
        finally:
            backend.close()
        self.folder = workspace.spark_dir() / "pipelines" / self.run_name
        self.folder.mkdir(parents=True)
        self.failing = [*failing]

    def run(self, kill_after: int | None = None) -> str:
        """Run the program, and kill it when each pipeline has written so many results; how it ended. LabError when it ended otherwise."""
        if self.programs:
            for each in self.pipelines:
                if each.loses_checkpoint:
                    shutil.rmtree(self.folder / each.name, ignore_errors=True)
        self.programs += 1
        told = {
            "topic": self.topic, "results": self.results, "folder": str(self.folder), "failing": self.failing, "kill_after": kill_after,
            "pipelines": [asdict(each) for each in self.pipelines],
        }  # fmt: skip
        log = self.folder / f"program-{self.programs}.log"
        with log.open("w") as out:
            code = subprocess.run(
                [sys.executable, "-m", __name__, json.dumps(told)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=PROGRAM_S
            ).returncode
        if code != (0 if kill_after is None else -signal.SIGKILL):
            last = (log.read_text(errors="replace").strip().splitlines() or ["nothing was said"])[-1][:300]
            raise LabError(f"the program of {self.run_name} ended with {code}: {last}. Its output is {log}.")
        return "came to its end" if kill_after is None else f"killed by SIGKILL after {kill_after} results"

    def audit(self, spark: SparkSession | None = None) -> pd.DataFrame:
        """A row for each pipeline: records lost, records done twice, and the guarantee that this is; counted by Spark from the topics."""
        spark = spark or kit_spark.session()
        records = Topics.find().read_records(spark, [self.topic, *self.results.values()])
        times = records.groupBy("topic", "value").count().groupBy("topic")
        counted = times.agg(F.count("*").alias("records"), F.count_if(F.col("count") > 1).alias("twice")).collect()
        found = {row["topic"]: row for row in counted}
        rows = {}
        for each in self.pipelines:
            result = found[self.results[each.name]]
            lost, twice = found[self.topic]["records"] - result["records"], result["twice"]
            guarantee = GUARANTEES[lost > 0, twice > 0] if lost or twice else "exactly once, this time"
            rows[each.name] = {"lost": lost, "twice": twice, "guarantee": guarantee}
        return pd.DataFrame.from_dict(rows, orient="index")

    def close(self) -> None:
        """Remove the checkpoints; `kit reset` removes the topics."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _Program:
    """What runs in a process of its own, until it is killed or everything is done."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told, self.kill_after = told, told["kill_after"]
        self.pipelines = [Pipeline(**each) for each in told["pipelines"]]
        self.together = threading.Barrier(len(self.pipelines), lambda: os.kill(os.getpid(), signal.SIGKILL))
        self.turn = threading.Lock()  # one pipeline after the other, up to the place where it is killed
        self.spark = kit_spark.session()

    def run(self) -> None:
        with ThreadPoolExecutor(len(self.pipelines)) as threads:
            try:
                for done in as_completed([threads.submit(self._run, each) for each in self.pipelines]):
                    done.result()
            except BaseException:
                self.together.abort()  # the others wait for it
                raise

    def _run(self, pipeline: Pipeline) -> None:
        """One pipeline, when it is its turn, to the end of the topic; a query that failed is started again, as an operator would."""
        spout = f"{Path(self.told['folder']).name}-{pipeline.name}"
        with ExitStack() as opened:
            failures = opened.enter_context(Failures.open(topic=self.told["topic"], id=spout)) if pipeline.source == FORMAT else None
            work = self._work_of(pipeline, failures)
            self.turn.acquire()
            while True:
                writer = pipeline.stream(self.spark, self.told["topic"], spout).writeStream.trigger(availableNow=True)
                query = kit_spark.start(writer.option("checkpointLocation", str(Path(self.told["folder"]) / pipeline.name)), work)
                try:
                    query.awaitTermination()
                    self.turn.release()
                    return
                except StreamingQueryException as error:
                    if PLANTED not in str(error):
                        raise

    def _work_of(self, pipeline: Pipeline, failures: Failures | None) -> Any:
        """The sink: a result for each record, in the order of their offsets."""
        producer = Producer(Topics.find().client_settings(**{"enable.idempotence": True, "linger.ms": 2}))
        results, failed, written = self.told["results"][pipeline.name], set[int](), 0

        def work(batch: DataFrame, number: int) -> None:
            nonlocal written
            for row in sorted(batch.collect(), key=lambda row: int(row["offset"])):
                record = int(row["value"])
                if written == self.kill_after:
                    producer.flush()
                    self.turn.release()
                    self.together.wait(TOGETHER_S)
                if record in self.told["failing"] and record not in failed:
                    failed.add(record)
                    if pipeline.on_failure == "fail":
                        producer.flush()
                        raise RuntimeError(PLANTED)
                    if pipeline.on_failure == "retry" and failures is not None:
                        failures.fail([(row["partition"], row["offset"], row["retry"])])
                    continue
                producer.produce(results, row["value"])
                written += 1
            producer.flush()

        return work


if __name__ == "__main__":
    _Program(json.loads(sys.argv[1])).run()
