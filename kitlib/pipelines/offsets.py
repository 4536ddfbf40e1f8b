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

import html
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit.commit_log import check_times
from kitlib.experiments.cluster_audit.commit_report import retention_of
from kitlib.kafka.hashes import group_partition
from kitlib.kafka.offsets.records import TOLD_BROKEN, BrokenRecord, Reading
from kitlib.lab import spark as kit_spark
from kitlib.lab.clients import Cluster
from kitlib.lab.log_ends import DEADLINE_S, LogEnds, topic_ids
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, refused
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.lag import Status, Window, evaluate
from kitlib.monitor.rewinds import is_topic_gone
from kitlib.pipelines.acker_query import settings
from kitlib.pipelines.offsets_ledger import COMMITTED, Asked, LagRules, OffsetsLedger
from kitlib.pipelines.topics import Topics, one_sentence
from kitlib.text import html_table, plain_text, text_table

SeenEnds = Mapping[tuple[str, int], Sequence[int]]  # of each topic's partition the log ends that were seen last, newest last

# What a partition of a group is told in, as Spark's schema; `rewinds` and `vanished` count what nothing excuses. `lost_id` is
# the topic's id of a commit that has vanished for good without an excuse, UNTOLD when it had none; null when there is no such.
SCHEMA = (
    "group STRING, topic STRING, partition INT, status STRING, rule STRING, why STRING, complete DOUBLE, lag BIGINT, "
    "committed BIGINT, at_ms BIGINT, commits BIGINT, rewinds INT, vanished INT, excused INT, signs ARRAY<STRING>, lost_id STRING"
)
# What was read of one partition of __consumer_offsets.
READ_SCHEMA = (
    "source INT, decoded BIGINT, broken BIGINT, outside BIGINT, clock_went_back BIGINT, newest_ms BIGINT, "
    "told ARRAY<STRUCT<offset: BIGINT, reason: STRING>>"
)
SHOWN = 40  # lines of a table
UNTOLD = "not told"
NOT_JUDGED = "NONE"  # the status of a partition that has no window


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition of one group."""

    where: GroupPartition
    status: str  # a name of Status, or NOT_JUDGED
    rule: str
    why: str
    complete: float  # share of filled slots
    lag: int  # now; 0 where it is not judged
    committed: int | None  # None: the last record took the commit away
    at_ms: int  # of the last record
    commits: int  # how many there were
    rewinds: int = 0  # that nothing excuses
    vanished: int = 0  # the same
    excused: int = 0  # of both kinds, what has an innocent reason
    signs: tuple[str, ...] = ()  # the last findings that nothing excuses, a sentence each

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> PartitionReport:
        """From a row of SCHEMA."""
        told = {name: value for name, value in row.items() if name != "lost_id"}
        where = GroupPartition(told.pop("group"), told.pop("topic"), told.pop("partition"))
        return cls(where, **told | {"signs": tuple(told["signs"])})

    @property
    def is_trouble(self) -> bool:
        """True when its status is worse than OK, or something went back or vanished without an excuse."""
        return self.status not in (Status.OK.name, Status.NOTFOUND.name, NOT_JUDGED) or bool(self.rewinds or self.vanished)


@dataclass(frozen=True, slots=True)
class OffsetsReport:
    """All partitions of all groups, worst first, and what was skipped."""

    partitions: tuple[PartitionReport, ...]
    reading: Reading = field(default_factory=Reading)
    outside: int = 0  # records that were not asked for
    clock_went_back: int = 0
    seconds: float = 0.0

    COLUMNS = ("group", "partition", "status", "lag", "committed", "commits", "went back", "vanished", "excused", "why")

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], read: Iterable[Mapping[str, Any]], seconds: float) -> OffsetsReport:
        """From the rows of SCHEMA and of READ_SCHEMA."""
        reading = Reading()
        outside = went_back = 0
        for each in read:
            reading.decoded += each["decoded"]
            reading.broken += each["broken"]
            reading.told += [BrokenRecord(told["offset"], told["reason"]) for told in each["told"]]
            outside, went_back = outside + each["outside"], went_back + each["clock_went_back"]
        del reading.told[TOLD_BROKEN:]
        found = sorted((PartitionReport.of(row) for row in rows), key=badness)
        return cls(tuple(found), reading, outside, went_back, seconds)

    def group(self, name: str) -> tuple[PartitionReport, ...]:
        """The partitions of one group, in order."""
        return tuple(sorted((each for each in self.partitions if each.where.group == name), key=lambda each: each.where))

    @property
    def troubles(self) -> tuple[PartitionReport, ...]:
        """Those that are not well."""
        return tuple(each for each in self.partitions if each.is_trouble)

    @property
    def faults(self) -> int:
        """How often an offset went back or vanished, and nothing excuses it."""
        return sum(each.rewinds + each.vanished for each in self.partitions)

    @property
    def sentence(self) -> str:
        """What a learner should take away."""
        groups = {each.where.group for each in self.partitions}
        commits = sum(each.commits for each in self.partitions)
        told = f"{len(self.troubles)} of {len(self.partitions)} partitions of {len(groups)} groups are in trouble, by {commits} commits."
        back, gone = (sum(getattr(each, name) for each in self.partitions) for name in ("rewinds", "vanished"))
        if back or gone:
            told += f" Offsets that went back: {back}, that vanished: {gone}; nothing excuses these."
        return told

    def notes(self) -> list[str]:
        """What a reader should know of this reading, a sentence each."""
        told = []
        if self.reading.broken:
            first = f"; the first one is at {self.reading.told[0]}" if self.reading.told else ""
            told.append(plain_text(f"{self.reading.broken} records could not be read and were skipped{first}.", 300))
        if self.clock_went_back:
            told.append(f"{self.clock_went_back} records are older than one before them: somebody's clock went back.")
        if not self.partitions:
            told.append("none of the records is a commit that was asked for.")
        return told

    def rows(self) -> list[tuple[str, ...]]:
        """The table's lines, worst first, all as text fit for a screen."""
        return [
            (
                plain_text(each.where.group, 60),
                plain_text(f"{each.where.topic}-{each.where.partition}", 60),
                each.status,
                str(each.lag) if each.status != NOT_JUDGED else "-",
                "-" if each.committed is None else str(each.committed),
                str(each.commits),
                str(each.rewinds),
                str(each.vanished),
                str(each.excused),
                plain_text("; ".join((each.why, *each.signs)), 300),
            )
            for each in self.partitions
        ]

    def __repr__(self) -> str:
        rows = [self.COLUMNS, *self.rows()[:SHOWN]]
        lines = text_table(rows, left=len(self.COLUMNS))
        left = len(self.partitions) - SHOWN
        more = [f"... and {left} more"] if left > 0 else []
        return "\n".join([self.sentence, *(lines if self.partitions else []), *more, *self.notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        table = html_table(self.COLUMNS, self.rows()[:SHOWN]) if self.partitions else ""
        return f"<div><p><b>{html.escape(self.sentence)}</b></p>{table}{notes}</div>"


def badness(report: PartitionReport) -> tuple[Any, ...]:
    """Worst status first, then most findings, then by name."""
    rank = -Status[report.status] if report.status in Status.__members__ else 1
    return rank, -report.rewinds - report.vanished, report.where


def partition_rows(ledger: OffsetsLedger, log_ends: SeenEnds, now_ms: int) -> list[dict[str, Any]]:
    """The rows of SCHEMA that a ledger gives at a time."""
    return [row_of(ledger, row, log_ends, now_ms) for row in range(len(ledger.places)) if ledger.last.of(row) is not None]


def row_of(ledger: OffsetsLedger, row: int, log_ends: SeenEnds, now_ms: int) -> dict[str, Any]:
    """One partition of one group."""
    place, signs = ledger.places[row], ledger.signs.get(row)
    rewinds, vanished = signs.faults if signs else (0, 0)
    excused = sum(signs.rewinds.values()) + sum(signs.vanished.values()) - rewinds - vanished if signs else 0
    is_there = ledger.last.kind[row] == COMMITTED
    return {
        **place._asdict(),
        **judged(ledger, row, log_ends, now_ms),
        "committed": int(ledger.last.offset[row]) if is_there else None,
        "at_ms": int(ledger.last.at_ms[row]),
        "commits": int(ledger.last.commits[row]),
        "rewinds": rewinds,
        "vanished": vanished,
        "excused": excused,
        "signs": signs.told() if signs else [],
        "lost_id": None if signs is None or (lost := signs.lost()) is None else lost.last.topic_id or UNTOLD,
    }


def judged(ledger: OffsetsLedger, row: int, log_ends: SeenEnds, now_ms: int) -> dict[str, Any]:
    """The judgement of one window, as `LagStorage.status` gives it."""
    place, rules = ledger.places[row], ledger.rules
    now_s = now_ms // 1000
    ends = log_ends.get((place.topic, place.partition), ())
    nothing = {"status": NOT_JUDGED, "rule": "none", "complete": 0.0, "lag": 0}
    if not ledger.rings.filled[row] or not ends:
        why = "no end of the topic's log is known" if not ends else "no commit is recent enough to be judged by"
        return nothing | {"why": why}
    if (now_s - rules.expire_group_s) * 1000 > ledger.last_commit_ms.get(place.group, 0):
        return nothing | {"status": Status.NOTFOUND.name, "why": f"the group has been silent for more than {rules.expire_group_s} s"}
    commits = ledger.rings.commits(row)
    newest = commits[-1]
    lag = 0 if newest is None else max(0, ends[-1] - newest.offset)
    found = evaluate(Window(commits, tuple(ends), lag, now_s, rules.allowed_lag), rules.minimum_complete)
    told = found.judgement
    return {"status": told.status.name, "rule": told.rule, "why": told.why, "complete": found.complete, "lag": lag}


def without_lost(row: Mapping[str, Any], topics: Mapping[str, str]) -> dict[str, Any]:
    """A row of SCHEMA, its lost commit excused when its topic has been deleted; `topics` are the ids of topics now, as `topic_ids`."""
    lost_id = row["lost_id"]
    if lost_id is None or not is_topic_gone(None if lost_id == UNTOLD else lost_id, topics.get(row["topic"])):
        return dict(row)
    changed = {"vanished": row["vanished"] - 1, "excused": row["excused"] + 1, "signs": row["signs"][:-1], "lost_id": None}
    return {**row, **changed}


def read_row(ledger: OffsetsLedger, source: int) -> dict[str, Any]:
    """The row of READ_SCHEMA that a ledger gives."""
    return {
        "source": source,
        "decoded": ledger.reading.decoded,
        "broken": ledger.reading.broken,
        "outside": ledger.outside,
        "clock_went_back": ledger.clock_went_back,
        "newest_ms": ledger.newest_ms,
        "told": [{"offset": each.offset, "reason": each.reason} for each in ledger.reading.told],
    }


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
    admin = topics.admin()
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
    admin = topics.admin()
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
    admin = topics.admin()
    try:
        known = admin.list_topics(timeout=DEADLINE_S).topics
    except KafkaException as error:
        raise LabError(f"no Kafka answers at {topics.bootstrap} ({error.args[0].str()}). Look at `kit status`.") from error
    everywhere = [(name, partition) for name, topic in known.items() for partition in topic.partitions]
    return dict(LogEnds(admin, topics.bootstrap).ends(everywhere).offsets)
