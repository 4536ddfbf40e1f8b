"""A topic of committed offsets as one Spark job, batch or stream: every partition of every group, judged by the rules of lag.

All commits of a group lie in one partition of __consumer_offsets, in order. So a task reads one partition from its first
record to its last and needs nothing of the others: no shuffle, and no more memory than the windows of the groups that live there.
What it knows is an `OffsetsLedger`: windows as `LagStorage` keeps them, signs by `rewinds` and `vanished`, group records as
`CommitHistory` reads them. It grows with the groups' partitions and members, not with the number of records.

Spark hands over each batch of records with its number. A task reads the ledger of its partition that the batch before has left,
folds its records into it, and writes it under the number of this batch; when all tasks are done, the batch is noted. A batch that is
handed over again after a crash finds its note and is passed over, or starts once more from the ledgers of the batch before, so each
commit counts once. `offsets` is this stream in a folder of its own, up to what is in the topic now.

The ends of the users' logs are read when a batch begins, so the stream measures a commit's lag at its time. Of commits that are read
long after they were made, only today's end is known: their lag is then too large, as Burrow's is when it reads the topic anew.

Left out: transactional commits that were aborted (they never took effect), and those that are still open; executors that do not
share a file system with the driver, which Spark's own checkpoint needs too.
"""

from __future__ import annotations

import html
import json
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import DataFrame, SparkSession

from kitlib.errors import KnobError, LabError
from kitlib.experiments.cluster_audit.group_reader import retention_of
from kitlib.lab import workspace
from kitlib.lab.clients import Cluster
from kitlib.lab.log_ends import DEADLINE_S, LogEnds, topics_now
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, refused
from kitlib.mechanisms.lag import Commit, Status, Window, evaluate
from kitlib.monitor.commit_history import CommitHistory, Committed, GroupNow, GroupPartition, GroupSeen
from kitlib.monitor.lag_window import CommitRing, GroupOffsets, LagStorage
from kitlib.monitor.rewinds import WEEK_MS, Rewind, Vanished, rewinds, vanished
from kitlib.more.hashes import group_partition
from kitlib.more.offsets.records import TOLD_BROKEN, BrokenRecord, Reading, decode
from kitlib.more.offsets.wire import BrokenRecordError
from kitlib.pipelines.folded_stream import Checkpoint, FoldedStream, Kept, Owner
from kitlib.pipelines.topics import Topics, one_sentence, settings
from kitlib.spark import sessions as kit_spark
from kitlib.text import html_table, plain_text, text_table

Ends = Mapping[tuple[str, int], int]
Rings = Mapping[tuple[str, int], Sequence[int]]  # of each topic's partition the log ends that were seen last, newest last
Record = tuple[int, int, bytes | None, bytes | None]  # offset, ms in the log, key, value

STEPS_KEPT = 300  # commits around steps back and tombstones, of a place
ENDS_KEPT = 8  # of a group; they excuse what vanished in the same batch
SIGNS_TOLD = 5  # of a partition, that nothing excuses
SHOWN = 40  # lines of a table
NOT_JUDGED = "NONE"  # the status of a partition that has no window
KIND = "offsets"  # of the checkpoint
ENDING = ".json"  # of a ledger
# A reader of millions of small records asks for many at once, and hands many at once to Python. Spark's connector asks an
# admin client for a topic's ends and passes over Kafka's own topics then, without a word; by a consumer it finds them.
FETCH = {"kafka.max.poll.records": "20000", "kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": "100"}
SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
}


@dataclass(frozen=True, slots=True)
class LagRules:
    """Burrow's settings, and those of the signs. KnobError for one out of its range."""

    intervals: int = 10  # slots of a window
    min_distance_s: int = 0  # a commit that follows sooner takes the slot before it
    expire_group_s: int = 604_800  # older commits are not looked at
    allowed_lag: int = 0
    minimum_complete: float = 0.0  # share of filled slots below which nothing is judged
    made_good_within: int = 1  # commits after which a step back counts as a late commit
    retention_ms: int = WEEK_MS  # how long the broker keeps the offsets of a silent group

    def __post_init__(self) -> None:
        self.storage()
        for name in ("allowed_lag", "made_good_within", "retention_ms"):
            if getattr(self, name) < 0:
                raise KnobError(f"{name} is {getattr(self, name)}: give 0 or more.")
        if not 0 <= self.minimum_complete <= 1:
            raise KnobError(f"minimum_complete is {self.minimum_complete}: give a share from 0 to 1.")

    def storage(self) -> LagStorage:
        """Windows without a commit."""
        return LagStorage(self.intervals, self.min_distance_s, self.expire_group_s)


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

    rules: LagRules = field(default_factory=LagRules)
    group: str | None = None  # the one that is asked for; None: all
    places: dict[GroupPartition, Place] = field(default_factory=dict)
    storage: LagStorage = field(init=False)
    ends_ms: dict[str, list[int]] = field(default_factory=dict)  # by group: when it ended, the last few times
    history: CommitHistory = field(default_factory=CommitHistory)  # only what it knows of the groups now
    reading: Reading = field(default_factory=Reading)
    clock_went_back: int = 0  # records that are older than one before them
    newest_ms: int = -1  # the latest time of any record
    next_order: int = 0  # records below it have been read: one that comes again is passed over

    def __post_init__(self) -> None:
        self.storage = self.rules.storage()

    def fold(self, records: Iterable[Record], log_ends: Rings, now_ms: int) -> None:
        """The next records of the partition, in the order of the log.

        `log_ends` are those known when the records were read, at `now_ms`: a commit's lag is counted against them.
        """
        self.storage.log_ends = {where: deque(ends, self.rules.intervals) for where, ends in log_ends.items()}
        for order, log_ms, key, value in records:
            if order < self.next_order:
                continue
            self.next_order = order + 1
            self.clock_went_back += log_ms < self.newest_ms
            self.newest_ms = max(self.newest_ms, log_ms)
            try:
                record = decode(key, value)
            except BrokenRecordError as error:
                self.reading.broken += 1
                if len(self.reading.told) < TOLD_BROKEN:
                    self.reading.told.append(BrokenRecord(order, str(error)))
                continue
            if self.group in (None, record.group):
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
        if not is_step and not is_reached and place.later > self.rules.made_good_within:
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
        gone = vanished(place.steps, ends, self.rules.retention_ms, topic_now=topic_now)
        found: list[Rewind | Vanished] = [*rewinds(place.steps, self.rules.made_good_within), *gone]
        return sorted(found, key=lambda each: each.after.order if isinstance(each, Rewind) else each.tombstone.order)

    def window(self, where: GroupPartition) -> tuple[Commit | None, ...]:
        """The slots of a place's window, oldest first; () before the first commit that was recent enough."""
        known = self.storage.groups.get(where.group)
        ring = None if known is None else known.windows.get(where[1:])
        return () if ring is None else tuple(ring.slots)

    # Kept as JSON: nothing in a file is executed

    def save(self, path: Path) -> None:
        """Write it, whole or not at all. DiskError when the disk is full."""
        told: dict[str, Any] = {name: getattr(self, name) for name in PLAIN} | {
            "places": [
                [each.where, each.commits, each.last and VALUES[Committed](each.last), list(map(VALUES[Committed], each.steps)),
                 each.open, each.later, [slot and VALUES[Commit](slot) for slot in self.window(each.where)]]
                for each in self.places.values()
            ],
            "seen_ms": {group: known.last_commit_ms for group, known in self.storage.groups.items()},
            "groups": [
                [group, None if now.members is None else sorted(now.members), [[*where, by] for where, by in now.owners.items()]]
                for group, now in self.history.now.items()
            ],
            "reading": [self.reading.decoded, self.reading.broken, list(map(VALUES[BrokenRecord], self.reading.told))],
        }  # fmt: skip
        workspace.write_atomic(path, json.dumps(told))

    @classmethod
    def load(cls, path: Path, rules: LagRules, group: str | None = None) -> OffsetsLedger:
        """The ledger that was saved under the same rules; an empty one where there is no file. LabError for a damaged one."""
        ledger = cls(rules, group)
        if not path.exists():
            return ledger
        try:
            ledger._fill(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise LabError(
                f"{path} is damaged ({type(error).__name__}). Put it back from a copy, or choose another checkpoint folder to "
                "read the topic from the beginning; nothing was changed or deleted."
            ) from error
        return ledger

    def _fill(self, told: dict[str, Any]) -> None:
        """What was saved, into a new ledger. ValueError when it does not fit."""
        self.storage.groups = {group: GroupOffsets({}, seen_ms) for group, seen_ms in told["seen_ms"].items()}
        for where, commits, last, steps, opened, later, slots in told["places"]:
            place = Place(GroupPartition(*where), commits, last and Committed(*last), [Committed(*each) for each in steps], opened, later)
            self.places[place.where] = place
            if slots:
                ring = self.storage.groups[place.where.group].windows[place.where[1:]] = CommitRing(self.rules.intervals)
                if len(slots) != len(ring.slots):
                    raise ValueError(f"a window has {len(slots)} slots")
                ring.slots = [slot and Commit(*slot) for slot in slots]
        for group, members, owners in told["groups"]:
            seats = {(topic, partition): by for topic, partition, by in owners}
            self.history.now[group] = GroupNow(None if members is None else set(members), seats)
        decoded, broken, reasons = told["reading"]
        self.reading = Reading(decoded, broken, [BrokenRecord(*each) for each in reasons])
        for name in PLAIN:
            setattr(self, name, told[name])


PLAIN = ("clock_went_back", "newest_ms", "next_order", "ends_ms")  # of the ledger, as they are
VALUES = {kind: attrgetter(*kind.__slots__) for kind in (Commit, Committed, BrokenRecord)}


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
    commits: int  # how many there were
    rewinds: int = 0  # that nothing excuses
    vanished: int = 0  # the same
    excused: int = 0  # of both kinds, what has an innocent reason
    signs: tuple[str, ...] = ()  # the last findings that nothing excuses, a sentence each

    @property
    def is_trouble(self) -> bool:
        """True when its status is worse than OK, or something went back or vanished without an excuse."""
        return self.status not in (Status.OK.name, Status.NOTFOUND.name, NOT_JUDGED) or bool(self.rewinds or self.vanished)

    def row(self) -> tuple[str, ...]:
        """The line of the table, all as text fit for a screen."""
        group, where = plain_text(self.where.group, 60), plain_text(f"{self.where.topic}-{self.where.partition}", 60)
        lag, committed = "-" if self.status == NOT_JUDGED else self.lag, "-" if self.committed is None else self.committed
        counts = map(str, (lag, committed, self.commits, self.rewinds, self.vanished, self.excused))
        return (group, where, self.status, *counts, plain_text("; ".join((self.why, *self.signs)), 300))


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
        for place in ledger.places.values():
            if place.last is not None:
                signs = ledger.signs(place, topics.get(place.where.topic))
                faults = [each for each in signs if each.is_fault]
                back = sum(isinstance(each, Rewind) for each in faults)
                counts = place.commits, back, len(faults) - back, len(signs) - len(faults)
                told = tuple(str(each) for each in faults[-SIGNS_TOLD:])
                judged = judgement(ledger, place.where, ends.get(place.where[1:], ()), now_ms)
                found.append(PartitionReport(place.where, *judged, place.last.offset, *counts, told))
    return OffsetsReport(tuple(sorted(found, key=badness)), reading, went_back)


def badness(report: PartitionReport) -> tuple[Any, ...]:
    """Worst status first, then most findings, then by name."""
    rank = -Status[report.status] if report.status in Status.__members__ else 1
    return rank, -report.rewinds - report.vanished, report.where


def judgement(ledger: OffsetsLedger, where: GroupPartition, ends: Sequence[int], now_ms: int) -> tuple[str, str, str, float, int]:
    """Of one window, as `LagStorage.status` gives it: status, rule, why, how complete it is, and the lag now."""
    rules, slots, now_s = ledger.rules, ledger.window(where), now_ms // 1000
    if not slots or not ends:
        why = "no end of the topic's log is known" if not ends else "no commit is recent enough to be judged by"
        return NOT_JUDGED, "none", why, 0.0, 0
    if (now_s - rules.expire_group_s) * 1000 > ledger.storage.groups[where.group].last_commit_ms:
        return Status.NOTFOUND.name, "none", f"the group has been silent for more than {rules.expire_group_s} s", 0.0, 0
    newest = slots[-1]
    lag = 0 if newest is None else max(0, ends[-1] - newest.offset)
    found = evaluate(Window(slots, tuple(ends), lag, now_s, rules.allowed_lag), rules.minimum_complete)
    return found.judgement.status.name, found.judgement.rule, found.judgement.why, found.complete, lag


def offsets(
    group: str | None = None,
    *,
    topic: str = OFFSETS_TOPIC,
    rules: LagRules | None = None,
    log_ends: Ends | None = None,
    bootstrap: str | None = None,
    spark: SparkSession | None = None,
) -> OffsetsReport:
    """Judge every partition of every group, or of one group, by the records that lie in the topic now.

    Lag is counted against `log_ends`, by topic and partition; where none are given, the broker is asked for them, as it is for its
    retention where no rules are. A topic that is not there is an empty report. LabError when no broker answers or it may not be read.
    """
    topics = Topics.find(bootstrap)
    if not partitions_of(topics, topic):
        return OffsetsReport(())
    workspace.spark_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="offsets-", dir=workspace.spark_dir(), ignore_cleanup_errors=True) as folder:
        stream = OffsetsStream(topics, topic, rules or rules_of(topics), group, log_ends, Checkpoint(Path(folder), KIND))
        stream.start(spark or kit_spark.session(), 1, None, is_kept=False)
        return stream.finish()


def offsets_stream(
    group: str | None = None,
    *,
    checkpoint: str | PathLike[str] | None = None,
    topic: str = OFFSETS_TOPIC,
    rules: LagRules | None = None,
    log_ends: Ends | None = None,
    bootstrap: str | None = None,
    spark: SparkSession | None = None,
    every_ms: int = 500,
    records_per_batch: int | None = 1_000_000,
) -> OffsetsStream:
    """Judge the groups while they go on: a streaming query over the topic, already started.

    `checkpoint` is a folder (by default one in the workspace, by the topic's name) from which a later call goes on
    where this one stopped. `log_ends` as in `offsets`. Use it in a `with` block, or call its `stop()`. LabError
    when the topic is not there, or the folder is damaged or another's, which may differ in its rules only.
    """
    for name, value in (("every_ms", every_ms), ("records_per_batch", records_per_batch)):
        if value is not None and value < 1:
            raise KnobError(f"{name} is {value}: give 1 or more.")
    folder = Path(checkpoint) if checkpoint is not None else workspace.spark_dir() / KIND / (topic + (f".{group}" if group else ""))
    topics = Topics.find(bootstrap)
    stream = OffsetsStream(topics, topic, rules or rules_of(topics), group, log_ends, Checkpoint(folder, KIND))
    stream.start(spark or kit_spark.session(), every_ms, records_per_batch)
    return stream


class OffsetsStream(FoldedStream[OffsetsReport]):
    """A streaming job that runs: `result()` is the report so far, `finish()` that of all records there are."""

    def __init__(
        self, topics: Topics, topic: str, rules: LagRules, group: str | None, log_ends: Ends | None, checkpoint: Checkpoint
    ) -> None:
        super().__init__(f"stream of {topic}", checkpoint)
        self.topics, self.topic, self.rules, self.group = topics, topic, rules, group
        self.log_ends = log_ends  # None: the broker is asked
        self.topic_id = ""  # what tells the topic from a later one of its name

    def start(self, spark: SparkSession, every_ms: int, per_batch: int | None, is_kept: bool = True) -> None:
        """Begin, or go on, with this folder; one that is not kept is nobody's to reset. LabError as `offsets_stream`."""
        partitions = partitions_of(self.topics, self.topic, self.group)
        if not partitions:
            raise LabError(f"{self.what}: there is no such topic at {self.topics.bootstrap}. It is created when a group first commits.")
        told = " ".join(f"{name}={value}" for name, value in asdict(self.rules).items())
        self.topic_id = self.topics.identity(self.topic)
        owner = Owner(f"{self.group or 'all groups'}, {told}", self.topic, self.topic_id)
        if not is_kept:
            self.checkpoint.claim(owner)
        with one_sentence(self.what), settings(spark, SESSION):
            self._begin(owner, lambda: self.topics.stream_partitions(spark, self.topic, partitions, per_batch, FETCH), every_ms)

    def result(self, now_ms: int | None = None) -> OffsetsReport:
        """The report by the records that were read so far, as it looks now, or at `now_ms`."""
        ends = self._ends()
        with self.folding:
            kept = self.checkpoint.latest()
            if kept is None:
                return OffsetsReport(())
            rings = self._rings(kept, ends)
            when_ms = round(time.time() * 1000) if now_ms is None else now_ms
            ledgers = [OffsetsLedger.load(path, self.rules, self.group) for path in ledgers_in(self.checkpoint.facts(kept[0]))]
        last = [(place.where.topic, place.last) for ledger in ledgers for place in ledger.places.values()]
        gone = {topic for topic, commit in last if commit is not None and commit.offset is None}
        ids = {name: found for name, (found, _) in topics_now(self.topics.admin(), gone).items()}
        return report_of(ledgers, rings, when_ms, ids)

    def __repr__(self) -> str:
        kept = self.checkpoint.latest()
        told = f"{kept[0] + 1} batches read" if kept else "nothing read yet"
        return f"<OffsetsStream of {self.topic}: {told}, {'running' if self.query else 'stopped'}>"

    def _fold_batch(self, records: DataFrame, batch: int, kept: Kept | None) -> None:
        if self.topics.identity(self.topic) != self.topic_id:
            trouble = "it was deleted and recreated while it was read. Stop, and start again with another checkpoint folder."
            raise LabError(f"{self.what}: {trouble}")
        rings, now_ms = self._rings(kept, self._ends()), round(time.time() * 1000)
        before = None if kept is None else self.checkpoint.facts(kept[0])
        after = self.checkpoint.facts(batch)
        after.mkdir(parents=True, exist_ok=True)
        task = fold_task(before, after, self.rules, self.group, rings, now_ms)
        with one_sentence(f"{self.what}, batch {batch}"):
            written = {f"{row['source']}{ENDING}" for row in records.mapInArrow(task, "source INT").collect()}
        for path in [] if before is None else ledgers_in(before):
            if path.name not in written:
                (after / path.name).unlink(missing_ok=True)
                os.link(path, after / path.name)
        (after / "_SUCCESS").touch()
        told = [[topic, partition, *ring] for (topic, partition), ring in rings.items()]
        self.checkpoint.keep(batch, {"log_ends": told, "now_ms": now_ms})

    def _ends(self) -> Ends:
        return ends_now(self.topics) if self.log_ends is None else self.log_ends

    def _rings(self, kept: Kept | None, ends: Ends) -> dict[tuple[str, int], list[int]]:
        """The log ends that a batch has left, after another look at them."""
        rings = {} if kept is None else {(topic, partition): ring for topic, partition, *ring in kept[1]["log_ends"]}
        return rings | {where: [*rings.get(where, ()), end][-self.rules.intervals :] for where, end in ends.items()}


def fold_task(before: Path | None, after: Path, rules: LagRules, group: str | None, ends: Rings, now_ms: int) -> Any:
    """What a task does with its records: the ledgers of `before` go on, and are left in `after`."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ledgers: dict[int, OffsetsLedger] = {}
        for batch in batches:
            for source in batch.column(0).unique().to_pylist():
                if source not in ledgers:
                    old = None if before is None else before / f"{source}{ENDING}"
                    ledgers[source] = OffsetsLedger(rules, group) if old is None else OffsetsLedger.load(old, rules, group)
                its = batch.filter(pa.compute.equal(batch.column(0), source))
                ledgers[source].fold(zip(*(column.to_pylist() for column in its.columns[1:]), strict=True), ends, now_ms)
        for source, ledger in ledgers.items():
            ledger.save(after / f"{source}{ENDING}")
        yield pa.RecordBatch.from_pydict({"source": pa.array(ledgers, pa.int32())})

    return fold


def ledgers_in(folder: Path) -> list[Path]:
    """The ledgers in a folder, one for each partition."""
    return sorted(path for path in folder.glob(f"*{ENDING}") if path.stem.isdecimal())


def rules_of(topics: Topics) -> LagRules:
    """The rules when nobody has set any: the cluster's own retention of offsets, as far as it tells."""
    return LagRules(retention_ms=retention_of(Cluster(topics.bootstrap, None, 0, "external" if topics.settings else "kit")))


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
