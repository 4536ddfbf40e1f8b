"""A topic of committed offsets as one Spark job: every partition of every group, judged by the rules of lag.

All commits of a group lie in one partition of __consumer_offsets, in order. So a task reads one partition from its first
record to its last and needs nothing of the others: no shuffle, and no more memory than the groups that live there. What it
keeps is an `OffsetsLedger`: the history as `kit offsets` reads it, without the commits that tell nothing more. It grows with the
groups' partitions and members, not with the number of records, and is all that a task sends back.

Of commits that are read long after they were made, only the end that the users' logs have when the job begins is known: their lag
is then too large, as Burrow's is when it reads the topic anew.

Left out: transactional commits that were aborted (they never took effect), and those that are still open; commits that are still to
come (`kit watch` follows a group).
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError
from pyspark.sql import SparkSession

from kitlib.experiments.cluster_audit.commit_log import CommitLog, add_records, watched
from kitlib.experiments.cluster_audit.group_reader import retention_of, snapshots_of
from kitlib.lab.clients import Cluster
from kitlib.lab.log_ends import LogEnds, topics_now
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, RawRecord, refused
from kitlib.mechanisms.lag import Commit, PartitionStatus
from kitlib.monitor.commit_history import Committed, GroupPartition
from kitlib.monitor.diagnosis import signs
from kitlib.monitor.lag_window import LagStorage
from kitlib.monitor.rewinds import WEEK_MS, Rewind, Vanished
from kitlib.more.hashes import group_partition
from kitlib.pipelines.topics import Topics, one_sentence, settings
from kitlib.spark import sessions as kit_spark
from kitlib.text import plain_text, text_table

STEPS_KEPT = 300  # commits around steps back and tombstones, of a partition of a group
ENDS_KEPT = 8  # of a group; they excuse what vanished in the same batch
SHOWN = 40  # lines of a table
NOT_JUDGED = "NONE"  # the status of a partition that has no window
COLUMNS = ("group", "partition", "status", "lag", "committed", "commits", "went back", "vanished", "excused", "why")
# A reader of millions of small records asks for many at once, and hands many at once to Python. Spark's connector asks an
# admin client for a topic's ends and passes over Kafka's own topics then, without a word; by a consumer it finds them.
FETCH = {"kafka.max.poll.records": "20000", "kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "100"}
SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}


@dataclass(slots=True)
class OffsetsLedger:
    """What is known after the records that were read so far."""

    group: str | None = None  # the one that is asked for; None: all
    storage: LagStorage = field(default_factory=LagStorage)  # with the log ends against which lag is counted
    log: CommitLog = field(default_factory=CommitLog)  # of whose history only what is part of a sign, or may still become one, stays
    commits: Counter[GroupPartition] = field(default_factory=Counter)  # how many there were, tombstones not among them

    def fold(self, records: Iterable[RawRecord], now_ms: int) -> None:
        """The next records, those of each partition in the order of the log; they are read at `now_ms`."""
        history = self.log.history
        known = {where: len(commits) for where, commits in history.commits.items()}
        add_records(self.log, watched(records, self.log), self.group)
        for where, commits in history.commits.items():
            if new := commits[known.get(where, 0) :]:
                for each in new:
                    if each.offset is not None:
                        self.commits[where] += 1
                        self.storage.add_commit(*where, Commit(each.offset, each.at_ms, order=each.order), now_ms)
                commits[:] = telling(commits)
        for seen in history.groups.values():
            seen[:] = [each for each in seen if each.is_gone][-ENDS_KEPT:]

    def report(self, now_ms: int, retention_ms: int = WEEK_MS, topics: Mapping[str, str] | None = None) -> OffsetsReport:
        """What it tells at a time. `topics` are the ids of topics now, by name: they excuse what went with its topic."""
        judged = {group: self.storage.status(group, now_ms).partitions for group in self.log.groups()}
        reports = []
        for group in snapshots_of(self.log, None, retention_ms, topics):
            for part in group.partitions:
                place = GroupPartition(group.group, part.topic, part.partition)
                status = judged[place.group].get((place.topic, place.partition))
                reports.append(PartitionReport(place, status, part.committed, self.commits[place], tuple(signs(group, part))))
        return OffsetsReport(tuple(reports), tuple(self.log.notes()))


def telling(history: Sequence[Committed]) -> list[Committed]:
    """The commits of a history without which its signs, or those that later commits will make of it, would not be told as they are.

    These are both sides of each step back and each tombstone, the commit after it, the one that reaches the old offset again,
    and the last one.
    """
    kept, unreached = {len(history) - 1}, list[int]()  # the smallest offset that is to be reached again last
    for at, (before, each) in enumerate(pairwise(history), 1):
        if each.offset is None:
            kept |= {at - 1, at, at + 1}
            unreached.clear()
        elif before.offset is not None and each.offset < before.offset:
            kept |= {at - 1, at, at + 1}
            unreached.append(before.offset)
        while unreached and each.offset is not None and each.offset >= unreached[-1]:
            kept.add(at)
            unreached.pop()
    return [each for at, each in enumerate(history) if at in kept][-STEPS_KEPT:]


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition of one group."""

    where: GroupPartition
    judged: PartitionStatus | None  # by Burrow's rules; None: there is no recent commit, or its topic's log has no end that can be seen
    committed: int | None  # None: the last record took the commit away
    commits: int  # how many there were
    signs: tuple[Rewind | Vanished, ...]  # in the order of the log

    @property
    def faults(self) -> list[Rewind | Vanished]:
        """The signs that nothing excuses."""
        return [each for each in self.signs if each.is_fault]

    @property
    def rewinds(self) -> int:
        return sum(isinstance(each, Rewind) for each in self.faults)

    @property
    def vanished(self) -> int:
        return len(self.faults) - self.rewinds

    @property
    def excused(self) -> int:
        """Of both kinds, what has an innocent reason."""
        return len(self.signs) - len(self.faults)

    @property
    def status(self) -> str:
        """A name of Status, or NOT_JUDGED."""
        return self.judged.status.name if self.judged else NOT_JUDGED

    @property
    def lag(self) -> int:
        """Now; 0 where it is not judged."""
        return self.judged.current_lag if self.judged else 0

    @property
    def badness(self) -> tuple[Any, ...]:
        """Worst status first, then most faults, then by name."""
        return -self.judged.status if self.judged else 1, -len(self.faults), self.where

    def row(self) -> tuple[str, ...]:
        """The line of the table, all as text fit for a screen."""
        group, where = plain_text(self.where.group, 60), plain_text(f"{self.where.topic}-{self.where.partition}", 60)
        why = self.judged.judgement.why if self.judged else "no recent commit to judge by"
        counts = self.lag, self.committed, self.commits, self.rewinds, self.vanished, self.excused
        return group, where, self.status, *map(str, counts), plain_text("; ".join((why, *map(str, self.faults))), 300)


@dataclass(frozen=True, slots=True)
class OffsetsReport:
    """Partitions of groups, and what a reader should know of the reading, a sentence each."""

    partitions: tuple[PartitionReport, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        rows = [each.row() for each in self.partitions[:SHOWN]]
        return "\n".join([*text_table([COLUMNS, *rows], left=len(COLUMNS)), *self.notes])


def offsets(
    group: str | None = None, *, topic: str = OFFSETS_TOPIC, bootstrap: str | None = None, spark: SparkSession | None = None
) -> OffsetsReport:
    """Judge every partition of every group, or of one group, by the records that lie in the topic now, the worst first.

    Lag is counted against the ends that the logs have before. A topic that is not there is an empty report.
    LabError when no broker answers or the topic may not be read.
    """
    topics = Topics.find(bootstrap)
    admin = topics.admin()
    found = topics_now(admin, [topic])
    if topic not in found:
        raise refused(topic, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    count = found[topic][1]
    if not count:
        return OffsetsReport(())
    partitions = range(count) if group is None else [group_partition(group, count)]
    spark = spark or kit_spark.session()
    logs = ((name, number) for name, (_, count) in topics_now(admin, topics.names()).items() for number in range(count))
    empty, now_ms = OffsetsLedger(group), round(time.time() * 1000)
    for where, end in LogEnds(admin).ends(logs).offsets.items():
        empty.storage.add_log_end(*where, end)
    with one_sentence(f"offsets in {topic}"), settings(spark, SESSION):
        records = topics.read_partitions(spark, topic, partitions, FETCH)
        rows = records.mapInArrow(partial(fold_all, empty, now_ms), "ledger BINARY").collect()
    ledgers: list[OffsetsLedger] = [pickle.loads(row["ledger"]) for row in rows]  # noqa: S301 - the tasks made them
    histories = (each for ledger in ledgers for each in ledger.log.history.commits.items())
    ids = topics_now(admin, {where.topic for where, commits in histories if commits[-1].offset is None})
    retention_ms = retention_of(Cluster(topics.bootstrap, None, 0, "external" if topics.settings else "kit"))
    known = {name: topic_id for name, (topic_id, _) in ids.items()}
    reports = [ledger.report(now_ms, retention_ms, known) for ledger in ledgers]
    worst_first = sorted((each for report in reports for each in report.partitions), key=lambda each: each.badness)
    return OffsetsReport(tuple(worst_first), tuple(note for report in reports for note in report.notes))


def fold_all(ledger: OffsetsLedger, now_ms: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does with its records (partition, offset, log_ms, key, value): it folds them into its copy of the empty ledger."""
    for batch in batches:
        ledger.fold(map(RawRecord._make, zip(*(column.to_pylist() for column in batch.columns), strict=True)), now_ms)
    yield pa.RecordBatch.from_pydict({"ledger": pa.array([pickle.dumps(ledger)], pa.binary())})
