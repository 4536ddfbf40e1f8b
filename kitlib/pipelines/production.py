"""The audit of producers' runs: what they were given to send, and what lies in their topics.

A lane is a producer's when its first step is `send`; record n of it has the value n, in decimal. The
trace says what the user handed over and was told, and for a run on the model also what was stored.
For a run on a broker the topic itself says what is stored. `audit` of `kitlib.pipelines.audit` finds
such lanes by itself; `audit_producers` takes many runs at once, in the same few Spark jobs as one.

Left out: a stream over producers' runs. What a producer has lost is known only at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kitlib.errors import LabError
from kitlib.lab import spark as kit_spark
from kitlib.pipelines import delivery_frames, production_frames
from kitlib.pipelines.audit_result import AuditResult
from kitlib.pipelines.audit_rows import Rows, TraceRead, check_topics_exist, result_of
from kitlib.pipelines.delivery_frames import LANE
from kitlib.pipelines.topics import Topics, check_trace_exists, one_sentence

FIRST_WORD = "send"  # of a producer's lane


def audit_producers(
    runs: Sequence[str], *, bootstrap: str | None = None, spark: SparkSession | None = None
) -> dict[str, AuditResult]:
    """Audit many producers' runs on a broker at once; by the run's name, in the order of `runs`.

    LabError when a topic is not there, when no broker answers, or when a run is not one of producers alone.
    """
    topics = Topics.find(bootstrap)
    check_trace_exists(topics, *runs)
    spark = spark or kit_spark.session()
    with one_sentence(f"audit of {len(runs)} runs"):
        steps = delivery_frames.read_steps(topics.read_trace(spark, *runs)).persist()
        try:
            read = TraceRead.of_runs(steps)
            produced, others = split_lanes(steps)
            if strange := sorted({row["run"] for row in others}):
                raise LabError(f"run {strange[0]} does not consist of producers alone. Call audit() for such a run.")
            on_broker = [row for row in produced if read[row["run"]].backend != "model"]
            on_model = [row for row in produced if read[row["run"]].backend == "model"]
            records, lanes = read_topics(topics, spark, on_broker) if on_broker else (None, [])
            counted = count(spark, steps, on_model + lanes, records)
        finally:
            steps.unpersist()
    return {
        run: result_of(
            run, read.get(run, TraceRead()), [], [row for row in counted if row["run"] == run],
            {row["topic"] for row in on_broker if row["run"] == run},
        )
        for run in runs
    }  # fmt: skip


def split_lanes(steps: DataFrame) -> tuple[Rows, Rows]:
    """The lanes of producers, and the others; rows of `production_frames.lanes`."""
    rows = [row.asDict(recursive=True) for row in production_frames.lanes(steps).collect()]
    return (
        [row for row in rows if row["first_word"] == FIRST_WORD],
        [row for row in rows if row["first_word"] != FIRST_WORD],
    )


def without(spark: SparkSession, lines: DataFrame, lanes: Rows) -> DataFrame:
    """Those of `lines` (steps or records) that belong to none of these lanes."""
    if not lanes:
        return lines
    named = spark.createDataFrame([tuple(row[name] for name in LANE) for row in lanes], "run STRING, topic STRING, partition INT")
    return lines.join(named, LANE, "left_anti")


def read_topics(topics: Topics, spark: SparkSession, produced: Rows) -> tuple[DataFrame, Rows]:
    """The records of the producers' topics; and the lanes, which now know where the topics begin.

    LabError when a topic is not there.
    """
    named = {(row["run"], row["topic"]) for row in produced}
    check_topics_exist(topics, named)
    starts = topics.starts({(row["topic"], row["partition"]) for row in produced})

    def read_last(row: dict[str, Any]) -> list[dict[str, int]]:
        return [*row["readings"], {"n": production_frames.TOPIC_N, "first": starts[row["topic"], row["partition"]]}]

    return topics.read_source(spark, named), [row | {"readings": read_last(row)} for row in produced]


def count(spark: SparkSession, steps: DataFrame, produced: Rows, source: DataFrame | None) -> Rows:
    """The rows of `production_frames.count_production`, brought here: one for each of the producers' partitions.

    Without a `source` (run, topic, partition, offset, value) the steps alone count.
    """
    if not produced:
        return []
    lanes = _frame(spark, produced)
    of_lanes = delivery_frames.lane_steps(steps)
    stored = production_frames.stored_in(of_lanes)
    if source is not None:
        stored = stored.unionByName(production_frames.found_in(source))
    user = production_frames.told(of_lanes).join(F.broadcast(lanes.select(*LANE)), LANE, "left_semi")
    records = production_frames.follow_records(user, production_frames.follow_log(stored, lanes))
    return [_shown(row.asDict(recursive=True)) for row in production_frames.count_production(records, lanes).collect()]


def _frame(spark: SparkSession, lanes: Rows) -> DataFrame:
    names = (*LANE, "first_n", "last_n", "exit_n", "readings")
    return spark.createDataFrame([{name: row[name] for name in names} for row in lanes], production_frames.LANES)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A counted row as a result needs it: what only the topic shows was seen at no step."""
    for value in row.values():
        if isinstance(value, dict) and value.get("n") == production_frames.TOPIC_N:
            value["n"] = None
    return row | {"verb": "stored"}
