"""A topic of committed offsets as a Spark job: every partition of every group, judged by the rules of lag.

All commits of a group lie in one partition of __consumer_offsets, in order. So a task of the job reads one
partition from its first record to its last and needs nothing of the others: no shuffle, and no more memory
than the windows of the groups that live there. What comes out is one row for each partition of each group.

How long the logs of the users' topics were when a commit was made, the topic does not tell. Burrow measures
each commit against the end that it knows when the commit arrives; a job that reads old commits knows only
today's end, and so does Burrow when it reads the topic from its beginning. The lag of old commits in a window is
then too large. The stream, which reads commits as they are made, has no such weakness.

Left out: transactional commits that were aborted (they never took effect), and those that are still open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit.commit_log import check_times
from kitlib.experiments.cluster_audit.commit_report import retention_of
from kitlib.kafka.hashes import group_partition
from kitlib.lab import spark as kit_spark
from kitlib.lab.clients import Cluster
from kitlib.lab.log_ends import DEADLINE_S, LogEnds
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, refused
from kitlib.lab.topic_ids import topic_ids
from kitlib.pipelines.acker_query import settings
from kitlib.pipelines.offsets_ledger import Asked, LagRules, OffsetsLedger
from kitlib.pipelines.offsets_report import READ_SCHEMA, SCHEMA, OffsetsReport, partition_rows, read_row, without_lost
from kitlib.pipelines.topics import Topics, one_sentence

__all__ = ["Asked", "LagRules", "OffsetsReport", "offsets"]

Ends = Mapping[tuple[str, int], int]
Batches = Iterator[pa.RecordBatch]

RECORDS = ("partition", "offset", "log_ms", "key", "value")  # what the job reads of a record
OUT = f"{SCHEMA}, {READ_SCHEMA}"  # a row has the one half or the other

# A reader of millions of small records asks for many at once, and hands many at once to Python. Spark's connector asks an
# admin client for a topic's ends and passes over Kafka's own topics then, without a word; by a consumer it finds them.
FETCH = {"kafka.max.poll.records": "20000", "kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "100"}
SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}


def offsets(
    group: str | None = None,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    topic: str = OFFSETS_TOPIC,
    rules: LagRules | None = None,
    log_ends: Ends | None = None,
    bootstrap: str | None = None,
    spark: SparkSession | None = None,
) -> OffsetsReport:
    """Judge every partition of every group, or of one group, by the records that lie in the topic now.

    `since_ms` and `until_ms` are times in the log, both included. Lag is counted against `log_ends`, by topic and
    partition; where none are given, the broker is asked for them, as it is for its retention where no rules are. A topic that is not
    there is an empty report.
    KnobError for times the wrong way round; LabError when no broker answers or the topic may not be read.
    """
    check_times(since_ms, until_ms)
    topics = Topics.find(bootstrap)
    begun_s = time.monotonic()
    chosen = partitions_of(topics, topic, group)
    if not chosen:
        return OffsetsReport(())
    spark = spark or kit_spark.session()
    asked, rules = Asked(group, since_ms, until_ms), rules or rules_of(topics)
    ends = ends_now(topics) if log_ends is None else log_ends
    with one_sentence(f"offsets of {topic}"), settings(spark, SESSION):
        records = topics.read_partitions(spark, topic, chosen, since_ms, FETCH)
        found = judge(records, rules, asked, ends, round(time.time() * 1000)).collect()
    read = [row.asDict(recursive=True) for row in found if row["group"] is None]
    rows = [{name: row[name] for name in columns(SCHEMA).names} for row in found if row["group"] is not None]
    return OffsetsReport.of(without_gone(topics, rows), read, time.monotonic() - begun_s)


def rules_of(topics: Topics) -> LagRules:
    """The rules when nobody has set any: the cluster's own retention of offsets, as far as it tells."""
    return LagRules(retention_ms=retention_of(Cluster(topics.bootstrap, None, 0, "external" if topics.settings else "kit")))


def without_gone(topics: Topics, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of SCHEMA, those commits excused that went with their topics. LabError when no broker answers."""
    rows = list(rows)
    admin = AdminClient({**topics.client_settings(), "client.id": "kit", "log_level": 2})
    found = topic_ids(admin, {row["topic"] for row in rows if row["lost_id"] is not None})
    return [without_lost(row, found) for row in rows]


def judge(records: DataFrame, rules: LagRules, asked: Asked, ends: Ends, now_ms: int) -> DataFrame:
    """The rows of OUT for a frame of RECORDS whose tasks hold a partition each, in the order of the log."""
    schema = arrow_schema(OUT)

    def judge_task(batches: Batches) -> Batches:
        ledgers: dict[int, OffsetsLedger] = {}
        fold_all(batches, lambda source: ledgers.setdefault(source, OffsetsLedger(rules, asked)), ends, now_ms)
        rings = {where: (end,) for where, end in ends.items()}
        for source, ledger in ledgers.items():
            yield arrow(partition_rows(ledger, rings, now_ms), schema)
            yield arrow([read_row(ledger, source)], schema)

    return records.select(*RECORDS).mapInArrow(judge_task, OUT)


def fold_all(batches: Iterable[pa.RecordBatch], ledger_of: Callable[[int], OffsetsLedger], ends: Ends, now_ms: int) -> None:
    """Fold Arrow batches of RECORDS into the ledgers of their partitions."""
    for batch in batches:
        source = np.asarray(batch.column(0))
        for partition in np.unique(source).tolist():
            part = batch if batch.num_rows == (is_its := source == partition).sum() else batch.filter(pa.array(is_its))
            _, order, log_ms, keys, values = part.columns
            ledger_of(partition).fold(np.asarray(order), np.asarray(log_ms), keys, values, ends, now_ms)


def arrow(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as an Arrow batch; a column that a row lacks is null."""
    return pa.RecordBatch.from_pylist(rows, schema)


def arrow_schema(told: str) -> pa.Schema:
    """Spark's schema as Arrow's."""
    return to_arrow_schema(columns(told))


def columns(told: str) -> StructType:
    """A schema that is told in Spark's words."""
    found = StructType.fromDDL(told)
    assert isinstance(found, StructType)
    return found


def partitions_of(topics: Topics, topic: str, group: str | None = None) -> list[int]:
    """The topic's partitions, or the one in which a group's commits lie; none when there is no such topic.

    LabError when the topic may not be seen, or no broker answers.
    """
    admin = AdminClient({**topics.client_settings(), "client.id": "kit", "log_level": 2})
    try:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=DEADLINE_S)[topic]
        count = len(asked.result(DEADLINE_S).partitions)
    except TimeoutError as error:
        raise LabError(f"no Kafka answers at {topics.bootstrap} within {DEADLINE_S:g} s. Look at `kit status`.") from error
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return []
        raise refused(topic, error.args[0]) from error
    return list(range(count)) if group is None else [group_partition(group, count)]


def ends_now(topics: Topics) -> dict[tuple[str, int], int]:
    """Where the log of each partition ends now; one that may not be asked for is left out. LabError when no broker answers."""
    admin = AdminClient({**topics.client_settings(), "client.id": "kit", "log_level": 2})
    try:
        known = admin.list_topics(timeout=DEADLINE_S).topics
    except KafkaException as error:
        raise LabError(f"no Kafka answers at {topics.bootstrap} ({error.args[0].str()}). Look at `kit status`.") from error
    everywhere = [(name, partition) for name, topic in known.items() for partition in topic.partitions]
    return dict(LogEnds(admin, topics.bootstrap).ends(everywhere).offsets)
