"""Two sources beside each other: what a query that is killed in its second batch has lost, and done twice, when it has come back.

The same records go through Spark's own Kafka source and through `kit.partition_manager`, each into a sink that keeps no
keys, so what is done again is seen. The query is killed by an exception in its sink, which leaves the checkpoint
that a killed process leaves; the next query goes on from it. In two cases the checkpoint is deleted in between. In the last
case nobody kills anything: one record's work fails once, and a sink of Spark's own source can only let the batch fail.

Left out: sinks with a key or a transaction, for which what is done again does not count (`kitlib.pipelines.kafka_sink`,
`kitlib.pipelines.word_count`).
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab import spark as kit_spark
from kitlib.lab import workspace
from kitlib.pipelines.partition_manager_failures import Failures
from kitlib.pipelines.partition_manager_source import FORMAT, partition_manager_stream
from kitlib.pipelines.topics import Topics, first_line, one_sentence

SPARKS_OWN = "kafka"
SOURCES = (SPARKS_OWN, FORMAT)
BEFORE, IN, AFTER = "killed before the sink", "killed in the sink", "killed after the sink"
DELETED, DELETED_LATEST = "killed after the sink, checkpoint deleted", "the same, and the next query starts at latest"
FAILS = "one record's work fails once"
CASES = (BEFORE, IN, AFTER, DELETED, DELETED_LATEST, FAILS)
PLANTED = "planted: the query is killed here"
MOST_RECORDS = 1_000


class _KilledError(Exception):
    """The planted end of a query."""


def after_a_kill(
    cases: Sequence[str] = CASES, records: int = 60, per_batch: int = 20, spark: SparkSession | None = None
) -> pd.DataFrame:
    """A row for each case, for each source two columns: records lost, and records whose work was done twice.

    About ten seconds a case. KnobError for a case that there is not, and unless 2 <= per_batch, 3 * per_batch <= records
    <= 1,000; LabError when Spark or the broker fail for another reason than the planted one.
    """
    for case in cases:
        if case not in CASES:
            raise KnobError(f"after_a_kill: there is no case {str(case)[:60]!r}. The cases are {', '.join(map(repr, CASES))}.")
    if not (per_batch >= 2 and 3 * per_batch <= records <= MOST_RECORDS):
        raise KnobError(
            f"after_a_kill: records is {records} and per_batch {per_batch}, expected 2 <= per_batch and "
            f"3 * per_batch <= records <= {MOST_RECORDS}."
        )
    spark = spark or kit_spark.session()
    workspace.spark_dir().mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        backend = KafkaBackend.open(f"kills-{uuid.uuid4().hex[:8]}")
        opened.callback(backend.close)
        topic = backend.create_topic("orders", MOST_RECORDS)
        topic.append([b"order %d" % number for number in range(records)])
        rows: dict[str, dict[tuple[str, str], int]] = {}
        for case in cases:
            rows[case] = {}
            for source in SOURCES:
                folder = Path(tempfile.mkdtemp(prefix="kills-", dir=workspace.spark_dir()))
                opened.callback(shutil.rmtree, folder, ignore_errors=True)
                worked = _Job(spark, source, case, topic.name, per_batch, folder).run()
                rows[case][source, "lost"] = records - len(worked)
                rows[case][source, "twice"] = sum(times > 1 for times in worked.values())
    return pd.DataFrame.from_dict(rows, orient="index", columns=pd.MultiIndex.from_product([SOURCES, ("lost", "twice")]))


@dataclass(slots=True)
class _Job:
    """One source in one case: a query that is killed in batch 1, and the next one."""

    spark: SparkSession
    source: str
    case: str
    topic: str
    per_batch: int
    folder: Path
    worked: Counter[int] = field(default_factory=Counter)  # offset -> how often its work was done
    is_first: bool = True

    def run(self) -> Counter[int]:
        died = self._query("first")
        if died == (self.case == FAILS and self.source == FORMAT):
            how = "died" if died else "came to its end"
            raise LabError(f"{self.source}, {self.case}: the first query {how}. Look at {kit_spark.log_file()}.")
        self.is_first = False
        if died and self._query("second" if self.case in (DELETED, DELETED_LATEST) else "first"):
            raise LabError(f"{self.source}, {self.case}: the second query died too. Look at {kit_spark.log_file()}.")
        return self.worked

    def _query(self, checkpoint: str) -> bool:
        """Run a query to the end of the topic; whether it died as planted."""
        with one_sentence(f"{self.source}, {self.case}"), ExitStack() as opened:
            told = {"topic": self.topic, "id": self.folder.name}
            failures = opened.enter_context(Failures.open(**told)) if self.source == FORMAT else None

            def sink(batch: DataFrame, number: int) -> None:
                self._work(sorted(batch.collect(), key=lambda row: int(row["offset"])), number, failures)

            query = self._stream(told).writeStream.foreachBatch(sink).trigger(availableNow=True) \
                .option("checkpointLocation", str(self.folder / checkpoint)).start()
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                if PLANTED in str(error):
                    return True
                raise LabError(f"{self.source}, {self.case}: {first_line(error)}. Spark's log is {kit_spark.log_file()}.") from None
        return False

    def _stream(self, told: dict[str, str]) -> DataFrame:
        if self.source == FORMAT:
            return partition_manager_stream(self.spark, **told, forceFromStart=True, maxOffsetsPerTrigger=self.per_batch)
        start = "latest" if self.case == DELETED_LATEST and not self.is_first else "earliest"
        return Topics.find().stream_records(self.spark, self.topic, start, self.per_batch)

    def _work(self, rows: list[Any], number: int, failures: Failures | None) -> None:
        """The sink: it keeps each record that it is given, and is killed in batch 1 of the first query."""
        dies = self.is_first and number == 1
        if dies and self.case == BEFORE:
            raise _KilledError(PLANTED)
        for place, row in enumerate(rows):
            if dies and place == len(rows) // 2:
                if self.case == FAILS and failures is not None:
                    failures.fail([(row["partition"], row["offset"], row["retry"])])
                    continue
                if self.case in (IN, FAILS):
                    raise _KilledError(PLANTED)
            self.worked[int(row["offset"])] += 1
        if dies and self.case in (AFTER, DELETED, DELETED_LATEST):
            raise _KilledError(PLANTED)
