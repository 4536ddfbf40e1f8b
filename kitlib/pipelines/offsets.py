"""A topic of committed offsets as one Spark job: every partition of every group, judged by the rules of lag.

All commits of a group lie in one partition of __consumer_offsets, in order. So a task reads one partition from its first
record to its last and needs nothing of the others: no shuffle, and no more memory than the windows of the groups that live there.
What it knows is an `OffsetsLedger`: windows as `LagStorage` keeps them, signs by `rewinds` and `vanished`, group records as
`CommitHistory` reads them. It grows with the groups' partitions and members, not with the number of records, and is all that
a task sends back.

Of commits that are read long after they were made, only today's end of the users' logs is known: their lag is then too large,
as Burrow's is when it reads the topic anew.

Left out: transactional commits that were aborted (they never took effect), and those that are still open; commits that are still to
come (`kit watch` follows a group).
"""

from __future__ import annotations

import html
import pickle
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import SparkSession

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit.commit_log import own_keys
from kitlib.experiments.cluster_audit.group_reader import retention_of
from kitlib.lab.clients import Cluster
from kitlib.lab.log_ends import DEADLINE_S, LogEnds, topics_now
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, refused
from kitlib.mechanisms.lag import Commit, PartitionStatus
from kitlib.monitor.commit_history import CommitHistory, Committed, GroupPartition, GroupSeen
from kitlib.monitor.lag_window import LagStorage
from kitlib.monitor.rewinds import MADE_GOOD_WITHIN, WEEK_MS, Rewind, Vanished, rewinds, vanished
from kitlib.more.hashes import group_partition
from kitlib.more.offsets.records import TOLD_BROKEN, BrokenRecord, Reading, decode
from kitlib.more.offsets.wire import BrokenRecordError
from kitlib.pipelines.topics import Topics, one_sentence, settings
from kitlib.spark import sessions as kit_spark
from kitlib.text import html_table, plain_text, text_table

Ends = Mapping[tuple[str, int], int]
Rings = Mapping[tuple[str, int], Sequence[int]]  # of each topic's partition the log ends that were seen, newest last
Record = tuple[int, int, bytes | None, bytes | None]  # offset, ms in the log, key, value

STEPS_KEPT = 300  # commits around steps back and tombstones, of a place
ENDS_KEPT = 8  # of a group; they excuse what vanished in the same batch
SIGNS_TOLD = 5  # of a partition, that nothing excuses
SHOWN = 40  # lines of a table
NOT_JUDGED = "NONE"  # the status of a partition that has no window
# A reader of millions of small records asks for many at once, and hands many at once to Python. Spark's connector asks an
# admin client for a topic's ends and passes over Kafka's own topics then, without a word; by a consumer it finds them.
FETCH = {"kafka.max.poll.records": "20000", "kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "100"}
SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}


@dataclass(slots=True)
class Place:
    """One partition of one group."""

    where: GroupPartition
    commits: int = 0  # how many there were, tombstones not among them
    last: Committed | None = None
    steps: list[Committed] = field(default_factory=list)  # steps back, tombstones, and what comes before and after them
    open: list[int] = field(default_factory=list)  # offsets that a commit has to reach before a finding can change no more
    later: int = 0  # commits since that finding


@dataclass(slots=True)
class OffsetsLedger:
    """What is known after the records of one partition that were read so far.

    For the signs, only the commits around a step back or a tombstone are kept, the last `STEPS_KEPT` of them.
    """

    retention_ms: int = WEEK_MS  # how long the broker keeps the offsets of a silent group
    group: str | None = None  # the one that is asked for; None: all
    places: dict[GroupPartition, Place] = field(default_factory=dict)
    storage: LagStorage = field(default_factory=LagStorage)
    ends_ms: dict[str, list[int]] = field(default_factory=dict)  # by group: when it ended, the last few times
    history: CommitHistory = field(default_factory=CommitHistory)  # only what it knows of the groups now
    reading: Reading = field(default_factory=Reading)
    clock_went_back: int = 0  # records that are older than one before them
    newest_ms: int = -1  # the latest time of any record

    def fold(self, records: Iterable[Record], log_ends: Rings, now_ms: int) -> None:
        """The next records of the partition, in the order of the log.

        `log_ends` are those known when the records were read, at `now_ms`: a commit's lag is counted against them.
        """
        self.storage.log_ends = {where: deque(ends, self.storage.intervals) for where, ends in log_ends.items()}
        is_own = own_keys(self.group)
        for order, log_ms, key, value in records:
            if not is_own(key):
                continue
            self.clock_went_back += log_ms < self.newest_ms
            self.newest_ms = max(self.newest_ms, log_ms)
            try:
                record = decode(key, value)
            except BrokenRecordError as error:
                self.reading.broken += 1
                if len(self.reading.told) < TOLD_BROKEN:
                    self.reading.told.append(BrokenRecord(order, str(error)))
                continue
            self.reading.decoded += 1
            self.history.add(order, log_ms, record)
            self._take(now_ms)

    def _take(self, now_ms: int) -> None:
        """What the history has heard of one record: a commit or a tombstone, or that a group has ended."""
        for where, commits in self.history.commits.items():
            for commit in commits:
                self._follow(self.places.setdefault(where, Place(where)), commit)
                if commit.offset is not None:
                    self.storage.add_commit(*where, Commit(commit.offset, commit.at_ms, order=commit.order), now_ms)
        for group, seen in self.history.groups.items():
            if ended := [each.at_ms for each in seen if each.is_gone]:
                self.ends_ms[group] = [*self.ends_ms.get(group, ()), *ended][-ENDS_KEPT:]
        self.history.commits.clear()
        self.history.groups.clear()

    def _follow(self, place: Place, commit: Committed) -> None:
        """The next commit, or tombstone, which is kept where it is a sign or may still change one."""
        before, place.last, offset = place.last, commit, commit.offset
        told = None if before is None else before.offset
        place.commits += offset is not None
        is_step = offset is None or (told is not None and offset < told)
        if not is_step and not place.open:
            return
        is_reached = offset is not None and any(offset >= each for each in place.open)
        place.later = 0 if is_step else place.later + 1
        if not is_step and not is_reached and place.later > MADE_GOOD_WITHIN:
            return  # between a finding and the commit that ends it, only the first few tell anything
        if before is not None and (not place.steps or place.steps[-1].order != before.order):
            place.steps.append(before)
        place.steps = [*place.steps, commit][-STEPS_KEPT:]
        if offset is None:
            place.open = [0]
        else:
            place.open = [each for each in place.open if each > offset][-STEPS_KEPT:]
            place.open += [told] if is_step and told is not None else []

    def signs(self, place: Place, topic_now: str | None = None) -> list[Rewind | Vanished]:
        """The findings of one place, in the order of the log; `topic_now` as in `vanished`."""
        ends = [GroupSeen(0, at_ms, 0, is_gone=True) for at_ms in self.ends_ms.get(place.where.group, ())]
        gone = vanished(place.steps, ends, self.retention_ms, topic_now=topic_now)
        found: list[Rewind | Vanished] = [*rewinds(place.steps), *gone]
        return sorted(found, key=lambda each: each.after.order if isinstance(each, Rewind) else each.tombstone.order)

    def judgements(self, ends: Rings, now_ms: int) -> dict[GroupPartition, PartitionStatus]:
        """What Burrow's rules say of each place now; a group that has been silent for longer than they look back is forgotten."""
        self.storage.log_ends = {where: deque(seen) for where, seen in ends.items()}
        found = {group: self.storage.status(group, now_ms).partitions for group in list(self.storage.groups)}
        return {GroupPartition(group, *where): judged for group, some in found.items() for where, judged in some.items()}


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition of one group."""

    where: GroupPartition
    judged: PartitionStatus | None  # by Burrow's rules; None: there is no recent commit, or no end of its topic's log was seen with one
    committed: int | None  # None: the last record took the commit away
    commits: int  # how many there were
    rewinds: int = 0  # that nothing excuses
    vanished: int = 0  # the same
    excused: int = 0  # of both kinds, what has an innocent reason
    signs: tuple[str, ...] = ()  # the last findings that nothing excuses, a sentence each

    @property
    def status(self) -> str:
        """A name of Status, or NOT_JUDGED."""
        return self.judged.judgement.status.name if self.judged else NOT_JUDGED

    @property
    def lag(self) -> int:
        """Now; 0 where it is not judged."""
        return self.judged.current_lag if self.judged else 0

    @property
    def is_trouble(self) -> bool:
        """True when its status is worse than OK, or something went back or vanished without an excuse."""
        return self.status not in ("OK", NOT_JUDGED) or bool(self.rewinds or self.vanished)

    def row(self) -> tuple[str, ...]:
        """The line of the table, all as text fit for a screen."""
        group, where = plain_text(self.where.group, 60), plain_text(f"{self.where.topic}-{self.where.partition}", 60)
        lag, why = (self.lag, self.judged.judgement.why) if self.judged else ("-", "no recent commit to judge by")
        counts = map(str, (lag, "-" if self.committed is None else self.committed, self.commits, self.rewinds, self.vanished, self.excused))
        return (group, where, self.status, *counts, plain_text("; ".join((why, *self.signs)), 300))


@dataclass(frozen=True, slots=True)
class OffsetsReport:
    """All partitions of all groups, worst first, and what was skipped."""

    partitions: tuple[PartitionReport, ...]
    reading: Reading = field(default_factory=Reading)
    clock_went_back: int = 0

    COLUMNS = ("group", "partition", "status", "lag", "committed", "commits", "went back", "vanished", "excused", "why")

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
        if self.faults:
            back, gone = (sum(getattr(each, name) for each in self.partitions) for name in ("rewinds", "vanished"))
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
        """The table's lines, worst first."""
        return [each.row() for each in self.partitions]

    def __repr__(self) -> str:
        lines = text_table([self.COLUMNS, *self.rows()[:SHOWN]], left=len(self.COLUMNS)) if self.partitions else []
        left = len(self.partitions) - SHOWN
        more = [f"... and {left} more"] if left > 0 else []
        return "\n".join([self.sentence, *lines, *more, *self.notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        table = html_table(self.COLUMNS, self.rows()[:SHOWN]) if self.partitions else ""
        return f"<div><p><b>{html.escape(self.sentence)}</b></p>{table}{notes}</div>"


def report_of(ledgers: Iterable[OffsetsLedger], ends: Rings, now_ms: int, topics: Mapping[str, str]) -> OffsetsReport:
    """What ledgers tell at a time. `topics` are the ids of topics now, by name: they excuse what went with its topic."""
    reading, went_back, found = Reading(), 0, list[PartitionReport]()
    for ledger in ledgers:
        reading.decoded += ledger.reading.decoded
        reading.broken += ledger.reading.broken
        reading.told = [*reading.told, *ledger.reading.told][:TOLD_BROKEN]
        went_back += ledger.clock_went_back
        judgements = ledger.judgements(ends, now_ms)
        for place in ledger.places.values():
            if place.last is not None:
                signs = ledger.signs(place, topics.get(place.where.topic))
                faults = [each for each in signs if each.is_fault]
                back = sum(isinstance(each, Rewind) for each in faults)
                counts = place.commits, back, len(faults) - back, len(signs) - len(faults)
                told = tuple(str(each) for each in faults[-SIGNS_TOLD:])
                found.append(PartitionReport(place.where, judgements.get(place.where), place.last.offset, *counts, told))
    return OffsetsReport(tuple(sorted(found, key=badness)), reading, went_back)


def badness(report: PartitionReport) -> tuple[Any, ...]:
    """Worst status first, then most findings, then by name."""
    rank = -report.judged.judgement.status if report.judged else 1
    return rank, -report.rewinds - report.vanished, report.where


def offsets(
    group: str | None = None,
    *,
    topic: str = OFFSETS_TOPIC,
    log_ends: Ends | None = None,
    bootstrap: str | None = None,
    spark: SparkSession | None = None,
) -> OffsetsReport:
    """Judge every partition of every group, or of one group, by the records that lie in the topic now.

    Lag is counted against `log_ends`, by topic and partition; where none are given, the broker is asked for them.
    A topic that is not there is an empty report. LabError when no broker answers or it may not be read.
    """
    topics = Topics.find(bootstrap)
    partitions = partitions_of(topics, topic, group)
    if not partitions:
        return OffsetsReport(())
    spark = spark or kit_spark.session()
    retention_ms = retention_of(Cluster(topics.bootstrap, None, 0, "external" if topics.settings else "kit"))
    before = ends_now(topics) if log_ends is None else log_ends
    rings = {where: [end] for where, end in before.items()}
    task = partial(fold_partitions, OffsetsLedger(retention_ms, group), rings, round(time.time() * 1000))
    with one_sentence(f"offsets in {topic}"), settings(spark, SESSION):
        rows = topics.read_partitions(spark, topic, partitions, FETCH).mapInArrow(task, "ledger BINARY").collect()
    ledgers: list[OffsetsLedger] = [pickle.loads(row["ledger"]) for row in rows]  # noqa: S301 - the tasks made them
    after = ends_now(topics) if log_ends is None else log_ends
    seen_twice = {where: [*rings.get(where, ()), end] for where, end in after.items()}
    last = [(place.where.topic, place.last) for ledger in ledgers for place in ledger.places.values()]
    gone = {name for name, commit in last if commit is not None and commit.offset is None}
    ids = {name: found for name, (found, _) in topics_now(topics.admin(), gone).items()}
    return report_of(ledgers, rings | seen_twice, round(time.time() * 1000), ids)


def fold_partitions(empty: OffsetsLedger, ends: Rings, now_ms: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does with its records (partition, offset, log_ms, key, value): a ledger for each partition, like the empty one."""
    ledgers: dict[int, OffsetsLedger] = {}
    for batch in batches:
        for partition in batch.column(0).unique().to_pylist():
            its = batch.filter(pa.compute.equal(batch.column(0), partition))
            ledger = ledgers.setdefault(partition, OffsetsLedger(empty.retention_ms, empty.group))
            ledger.fold(zip(*(column.to_pylist() for column in its.columns[1:]), strict=True), ends, now_ms)
    yield pa.RecordBatch.from_pydict({"ledger": pa.array(map(pickle.dumps, ledgers.values()), pa.binary())})


def partitions_of(topics: Topics, topic: str, group: str | None = None) -> list[int]:
    """The topic's partitions, or the one in which a group's commits lie; none when there is no such topic.

    LabError when the topic may not be seen, or no broker answers.
    """
    found = topics_now(topics.admin(), [topic])
    if topic not in found:
        raise refused(topic, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    count = found[topic][1]
    return list(range(count)) if group is None or not count else [group_partition(group, count)]


def ends_now(topics: Topics) -> dict[tuple[str, int], int]:
    """Where the log of each partition ends now; one that may not be asked for is left out. LabError when no broker answers."""
    admin = topics.admin()
    try:
        known = admin.list_topics(timeout=DEADLINE_S).topics
    except KafkaException as error:
        raise LabError(f"no Kafka answers at {topics.bootstrap} ({error.args[0].str()}). Look at `kit status`.") from error
    everywhere = [(name, partition) for name, topic in known.items() for partition in topic.partitions]
    return dict(LogEnds(admin, topics.bootstrap).ends(everywhere).offsets)
