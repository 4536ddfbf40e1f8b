"""A topic of committed offsets as one Spark job, batch or stream: every partition of every group, judged by the rules of lag.

All commits of a group lie in one partition of __consumer_offsets, in order. So a task reads one partition from its first
record to its last and needs nothing of the others: no shuffle, and no more memory than the windows of the groups that live there.

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
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kitlib.errors import KnobError, LabError
from kitlib.experiments.cluster_audit.commit_log import check_times
from kitlib.experiments.cluster_audit.group_reader import retention_of
from kitlib.lab import workspace
from kitlib.lab.clients import Cluster
from kitlib.lab.log_ends import DEADLINE_S, LogEnds, topics_now
from kitlib.lab.offsets_topic import OFFSETS_TOPIC, refused
from kitlib.mechanisms.lag import Status, Window, evaluate
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.rewinds import Rewind, Vanished
from kitlib.more.hashes import group_partition
from kitlib.more.offsets.records import TOLD_BROKEN, Reading
from kitlib.pipelines.acker_query import settings
from kitlib.pipelines.folded_stream import Checkpoint, FoldedStream, Kept, Owner
from kitlib.pipelines.offsets_ledger import Asked, LagRules, OffsetsLedger, Place, SeenEnds, load, save
from kitlib.pipelines.topics import Topics, first_line, one_sentence
from kitlib.spark import sessions as kit_spark
from kitlib.text import html_table, plain_text, text_table

__all__ = ["Asked", "LagRules", "OffsetsReport", "OffsetsStream", "offsets", "offsets_stream"]

Ends = Mapping[tuple[str, int], int]

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


def report_of(
    ledgers: Iterable[OffsetsLedger], ends: SeenEnds, now_ms: int, topics: Mapping[str, str], seconds: float = 0.0
) -> OffsetsReport:
    """What ledgers tell at a time. `topics` are the ids of topics now, by name: they excuse what went with its topic."""
    reading, outside, went_back, found = Reading(), 0, 0, list[PartitionReport]()
    for ledger in ledgers:
        reading.decoded += ledger.reading.decoded
        reading.broken += ledger.reading.broken
        reading.told += ledger.reading.told
        outside, went_back = outside + ledger.outside, went_back + ledger.clock_went_back
        found += [partition_report(ledger, place, ends, now_ms, topics) for place in ledger.places.values() if place.last is not None]
    del reading.told[TOLD_BROKEN:]
    return OffsetsReport(tuple(sorted(found, key=badness)), reading, outside, went_back, seconds)


def partition_report(ledger: OffsetsLedger, place: Place, ends: SeenEnds, now_ms: int, topics: Mapping[str, str]) -> PartitionReport:
    """One partition of one group."""
    (_, at_ms, committed, _), signs = place.last or (0, 0, None, b""), ledger.signs(place, topics.get(place.where.topic))
    faults = [each for each in signs if each.is_fault]
    back = sum(isinstance(each, Rewind) for each in faults)
    judged = judgement(ledger, place.where, ends.get(place.where[1:], ()), now_ms)
    told = tuple(str(each) for each in faults[-SIGNS_TOLD:])
    counts = place.commits, back, len(faults) - back, len(signs) - len(faults)
    return PartitionReport(place.where, *judged, committed, at_ms, *counts, told)


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
    topics, begun_s = Topics.find(bootstrap), time.monotonic()
    if not partitions_of(topics, topic):
        return OffsetsReport(())
    workspace.spark_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="offsets-", dir=workspace.spark_dir(), ignore_cleanup_errors=True) as folder:
        asked = Asked(group, since_ms, until_ms)
        stream = OffsetsStream(topics, topic, rules or rules_of(topics), asked, log_ends, Checkpoint(Path(folder), KIND))
        stream.start(spark or kit_spark.session(), 1, None, is_kept=False)
        return replace(stream.finish(), seconds=time.monotonic() - begun_s)


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
    stream = OffsetsStream(topics, topic, rules or rules_of(topics), Asked(group), log_ends, Checkpoint(folder, KIND))
    stream.start(spark or kit_spark.session(), every_ms, records_per_batch)
    return stream


class OffsetsStream(FoldedStream[OffsetsReport]):
    """A streaming job that runs: `result()` is the report so far, `finish()` that of all records there are."""

    def __init__(
        self, topics: Topics, topic: str, rules: LagRules, asked: Asked, log_ends: Ends | None, checkpoint: Checkpoint
    ) -> None:
        super().__init__(f"stream of {topic}", checkpoint)
        self.topics, self.topic, self.rules, self.asked = topics, topic, rules, asked
        self.log_ends = log_ends  # None: the broker is asked
        self.topic_id = ""  # what tells the topic from a later one of its name

    def start(self, spark: SparkSession, every_ms: int, per_batch: int | None, is_kept: bool = True) -> None:
        """Begin, or go on, with this folder; one that is not kept is nobody's to reset. LabError as `offsets_stream`."""
        partitions = partitions_of(self.topics, self.topic, self.asked.group)
        if not partitions:
            raise LabError(f"{self.what}: there is no such topic at {self.topics.bootstrap}. It is created when a group first commits.")
        told = " ".join(f"{name}={value}" for name, value in asdict(self.rules).items())
        self.topic_id = self.topics.identity(self.topic)
        owner = Owner(f"{self.asked.group or 'all groups'}, {told}", self.topic, self.topic_id)
        if not is_kept:
            self.checkpoint.claim(owner)
        with one_sentence(self.what), settings(spark, SESSION):
            self._begin(owner, lambda: self.topics.stream_partitions(spark, self.topic, partitions, per_batch, FETCH), every_ms)

    def catch_up(self) -> None:
        """Wait until every record that is in the topic by now is read. LabError when the query has ended with an error."""
        if self.query is None:
            raise LabError(f"{self.what}: it was stopped. Call offsets_stream() again to go on.")
        try:
            with one_sentence(self.what):
                self.query.processAllAvailable()
                ended = self.query.exception()
        except LabError as error:
            raise self.trouble or error from error
        if ended is not None:
            raise self.trouble or self._ended(ended)

    def result(self, now_ms: int | None = None) -> OffsetsReport:
        """The report by the records that were read so far, as it looks now, or at `now_ms`."""
        begun_s = time.monotonic()
        ends = self._ends()
        with self.folding:
            kept = self.checkpoint.latest()
            if kept is None:
                return OffsetsReport(())
            batch, state = kept
            rings = moved_on(rings_of(state), ends, self.rules.intervals)
            when_ms = round(time.time() * 1000) if now_ms is None else now_ms
            ledgers = [load(path, self.rules, self.asked) for path in ledgers_in(self.checkpoint.facts(batch)).values()]
        gone = {
            place.where.topic for ledger in ledgers for place in ledger.places.values()
            if place.steps and any(isinstance(each, Vanished) for each in ledger.signs(place)[-1:])
        }  # fmt: skip
        ids = {name: found for name, (found, _) in topics_now(self.topics.admin(), gone).items()}
        return report_of(ledgers, rings, when_ms, ids, time.monotonic() - begun_s)

    def __repr__(self) -> str:
        kept = self.checkpoint.latest()
        told = f"{kept[0] + 1} batches read" if kept else "nothing read yet"
        return f"<OffsetsStream of {self.topic}: {told}, {'running' if self.query else 'stopped'}>"

    # -- inside ------------------------------------------------------------------------------------

    def _fold_batch(self, records: DataFrame, batch: int, kept: Kept | None) -> None:
        if self.topics.identity(self.topic) != self.topic_id:
            trouble = "it was deleted and recreated while it was read. Stop, and start again with another checkpoint folder."
            raise LabError(f"{self.what}: {trouble}")
        ends, now_ms = self._ends(), round(time.time() * 1000)
        rings = moved_on({} if kept is None else rings_of(kept[1]), ends, self.rules.intervals)
        before = None if kept is None else self.checkpoint.facts(kept[0])
        after = self.checkpoint.facts(batch)
        after.mkdir(parents=True, exist_ok=True)
        task = fold_task(before, after, self.rules, self.asked, rings, now_ms)
        with one_sentence(f"{self.what}, batch {batch}"):
            written = {row["source"] for row in records.mapInArrow(task, "source INT").collect()}
        for source, path in ({} if before is None else ledgers_in(before)).items():
            if source not in written:
                (after / path.name).unlink(missing_ok=True)
                os.link(path, after / path.name)
        (after / "_SUCCESS").touch()
        told = [[topic, partition, *ring] for (topic, partition), ring in rings.items()]
        self.checkpoint.keep(batch, {"log_ends": told, "now_ms": now_ms})

    def _ends(self) -> Ends:
        return ends_now(self.topics) if self.log_ends is None else self.log_ends

    def _ended(self, error: StreamingQueryException) -> LabError:
        return LabError(f"{self.what}: it ended, {first_line(error)}. Spark's log is {kit_spark.log_file()}.")

    def _lock_folder(self) -> None:
        try:
            self.checkpoint.folder.mkdir(parents=True, exist_ok=True)
            super()._lock_folder()
        except OSError as error:
            trouble = f"it cannot be used ({error.strerror}). Choose another folder."
            raise LabError(f"checkpoint {self.checkpoint.folder}: {trouble}") from error


def fold_task(before: Path | None, after: Path, rules: LagRules, asked: Asked, ends: SeenEnds, now_ms: int) -> Any:
    """What a task does with its records: the ledgers of `before` go on, and are left in `after`."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ledgers: dict[int, OffsetsLedger] = {}
        for batch in batches:
            for source in batch.column(0).unique().to_pylist():
                if source not in ledgers:
                    old = None if before is None else before / f"{source}{ENDING}"
                    ledgers[source] = OffsetsLedger(rules, asked) if old is None else load(old, rules, asked)
                its = batch.filter(pa.compute.equal(batch.column(0), source))
                ledgers[source].fold(zip(*(column.to_pylist() for column in its.columns[1:]), strict=True), ends, now_ms)
        for source, ledger in ledgers.items():
            save(ledger, after / f"{source}{ENDING}")
        yield pa.RecordBatch.from_pydict({"source": pa.array(ledgers, pa.int32())})

    return fold


def ledgers_in(folder: Path) -> dict[int, Path]:
    """The ledgers in a folder by their partitions."""
    return {int(path.stem): path for path in sorted(folder.glob(f"*{ENDING}")) if path.stem.isdecimal()}


def rings_of(state: dict[str, Any]) -> dict[tuple[str, int], list[int]]:
    """The log ends that a batch has left, oldest first."""
    return {(topic, partition): ring for topic, partition, *ring in state["log_ends"]}


def moved_on(rings: dict[tuple[str, int], list[int]], ends: Ends, intervals: int) -> dict[tuple[str, int], list[int]]:
    """The rings after another look at the ends of the logs."""
    return rings | {where: [*rings.get(where, ()), end][-intervals:] for where, end in ends.items()}


def rules_of(topics: Topics) -> LagRules:
    """The rules when nobody has set any: the cluster's own retention of offsets, as far as it tells."""
    return LagRules(retention_ms=retention_of(Cluster(topics.bootstrap, None, 0, "external" if topics.settings else "kit")))


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
