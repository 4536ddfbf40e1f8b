"""The job of `offsets` on a topic that goes on growing: a stream whose answer is that of a reader who was there all the time.

Spark hands over each batch of records together with its number. A task reads the ledger of its partition that the
batch before has left, folds its records into it, and writes it under the number of this batch; when all tasks are
done, the batch is noted. A batch that is handed over again after a crash finds its note and is passed over, or
starts once more from the ledgers of the batch before, so each commit counts once.

The ends of the users' logs are read when a batch begins and are kept, so a commit's lag is that of its time. State:
two sets of ledgers, whatever the history.

Left out: executors that do not share a file system with the driver; Spark's own checkpoint needs one too.
"""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kitlib.errors import KnobError, LabError
from kitlib.kafka.offsets.records import BrokenRecord, Reading
from kitlib.lab import spark as kit_spark
from kitlib.lab import workspace
from kitlib.lab.offsets_topic import OFFSETS_TOPIC
from kitlib.monitor.commit_history import Committed, GroupNow, GroupPartition
from kitlib.monitor.rewinds import Excuse, Rewind, Vanished
from kitlib.monitor.running_signs import OpenRewind, RunningSigns
from kitlib.pipelines.acker_query import settings
from kitlib.pipelines.folded_stream import Checkpoint, FoldedStream, Kept, Owner
from kitlib.pipelines.offsets import (
    FETCH,
    RECORDS,
    SESSION,
    Ends,
    OffsetsReport,
    arrow,
    arrow_schema,
    ends_now,
    fold_all,
    partition_rows,
    partitions_of,
    read_row,
    rules_of,
    without_gone,
)
from kitlib.pipelines.offsets_ledger import Asked, LagRules, OffsetsLedger
from kitlib.pipelines.topics import Topics, first_line, one_sentence

NUMBERS = ("kind", "order", "at_ms", "offset", "commits")  # of LastCommit
PLAIN = ("outside", "clock_went_back", "newest_ms", "next_order", "last_commit_ms", "ends_ms")  # of the ledger, as they are


def save(ledger: OffsetsLedger, path: Path) -> None:
    """Write a ledger: numbers as NumPy writes them, the rest as JSON; whole or not at all. OSError when the disk is full."""
    rows = len(ledger.places)
    told = {name: getattr(ledger, name) for name in PLAIN} | {
        "places": [list(place) for place in ledger.places],
        "topic_ids": [raw.hex() for raw in ledger.last.topic_id[:rows]],
        "signs": [[row, told_signs(signs)] for row, signs in ledger.signs.items()],
        "groups": [
            [group, None if now.members is None else sorted(now.members), [[*where, by] for where, by in now.owners.items()]]
            for group, now in ledger.history.now.items()
        ],
        "reading": [ledger.reading.decoded, ledger.reading.broken, [[each.offset, each.reason] for each in ledger.reading.told]],
    }
    ledger.rings.grow(rows)
    ledger.last.grow(rows)
    out = io.BytesIO()
    np.savez(
        out,
        slots=ledger.rings.slots[:rows],
        filled=ledger.rings.filled[:rows],
        told=np.frombuffer(json.dumps(told).encode(), np.uint8),
        **{name: getattr(ledger.last, name)[:rows] for name in NUMBERS},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(out.getvalue())
    os.replace(beside, path)


def load(path: Path, rules: LagRules, asked: Asked) -> OffsetsLedger:
    """The ledger that was saved under the same rules; an empty one where there is no file. LabError for a damaged one.

    Nothing in the file is executed.
    """
    ledger = OffsetsLedger(rules, asked)
    if not path.exists():
        return ledger
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        told = json.loads(found["told"].tobytes())
        fill(ledger, found, told)
    except (OSError, ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
        raise LabError(
            f"{path} is damaged ({type(error).__name__}). Put it back from a copy, or choose another checkpoint folder to "
            "read the topic from the beginning; nothing was changed or deleted."
        ) from error
    return ledger


def fill(ledger: OffsetsLedger, found: dict[str, Any], told: dict[str, Any]) -> None:
    """What was saved, into a new ledger. ValueError when it does not fit."""
    ledger.places = [GroupPartition(*place) for place in told["places"]]
    ledger.rows = {place: row for row, place in enumerate(ledger.places)}
    rows, intervals = len(ledger.places), ledger.rules.intervals
    if found["slots"].shape[::2] != (rows, intervals) or any(len(found[name]) != rows for name in ("filled", *NUMBERS)):
        raise ValueError("its arrays have other sizes than its names and its rules")
    ledger.rings.slots, ledger.rings.filled = found["slots"], found["filled"]
    for name in NUMBERS:
        setattr(ledger.last, name, found[name])
    ledger.last.topic_id = [bytes.fromhex(told_id) for told_id in told["topic_ids"]]
    ledger.signs = {row: signs_of(ledger.rules, signs) for row, signs in told["signs"]}
    for group, members, owners in told["groups"]:
        seats = {(topic, partition): by for topic, partition, by in owners}
        ledger.history.now[group] = GroupNow(None if members is None else set(members), seats)
    decoded, broken, reasons = told["reading"]
    ledger.reading = Reading(decoded, broken, [BrokenRecord(*each) for each in reasons])
    for name in PLAIN:
        setattr(ledger, name, told[name])


def told_signs(signs: RunningSigns) -> dict[str, Any]:
    """The findings of one partition as JSON values; its last commit is kept elsewhere."""
    return {
        "rewound": [
            [told_commit(each.found.before), told_commit(each.found.after), each.found.excuse.name,
             told_commit(each.found.made_good_at), each.later, each.is_closed]
            for each in signs.rewound
        ],
        "gone": [
            [told_commit(each.last), told_commit(each.tombstone), each.excuse.name, told_commit(each.begun_again)] for each in signs.gone
        ],
        "rewinds": {excuse.name: count for excuse, count in signs.rewinds.items()},
        "vanished": {excuse.name: count for excuse, count in signs.vanished.items()},
    }  # fmt: skip


def signs_of(rules: LagRules, told: dict[str, Any]) -> RunningSigns:
    """The findings again. ValueError or LookupError for what no ledger has written."""
    signs = RunningSigns(rules.made_good_within, rules.retention_ms)
    for before, after, excuse, good, later, is_closed in told["rewound"]:
        found = Rewind(Committed(*before), Committed(*after), Excuse[excuse], commit_or_none(good))
        signs.rewound.append(OpenRewind(found, later, is_closed))
    for last, tombstone, excuse, again in told["gone"]:
        signs.gone.append(Vanished(Committed(*last), Committed(*tombstone), Excuse[excuse], commit_or_none(again)))
    signs.rewinds = {Excuse[name]: count for name, count in told["rewinds"].items()}
    signs.vanished = {Excuse[name]: count for name, count in told["vanished"].items()}
    return signs


def told_commit(commit: Committed | None) -> list[Any] | None:
    """A commit as JSON values."""
    return None if commit is None else [commit.order, commit.at_ms, commit.offset, commit.topic_id, commit.by, commit.members]


def commit_or_none(told: list[Any] | None) -> Committed | None:
    """A commit again."""
    return None if told is None else Committed(*told)


KIND = "offsets"  # of the checkpoint
SOURCE = "source INT"  # what a task tells: the partition whose ledger it has written
ENDING = ".npz"


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

    def start(self, spark: SparkSession, every_ms: int, per_batch: int | None) -> None:
        """Begin, or go on, with this folder. LabError as `offsets_stream`."""
        partitions = partitions_of(self.topics, self.topic)
        if not partitions:
            raise LabError(f"{self.what}: there is no such topic at {self.topics.bootstrap}. It is created when a group first commits.")
        told = " ".join(f"{name}={value}" for name, value in asdict(self.rules).items())
        self.topic_id = self.topics.identity(self.topic)
        owner = Owner(f"{self.asked.group or 'all groups'}, {told}", self.topic, self.topic_id)
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
            rows, read = [], []
            for source, path in ledgers_in(self.checkpoint.facts(batch)).items():
                ledger = load(path, self.rules, self.asked)
                rows += partition_rows(ledger, rings, when_ms)
                read.append(read_row(ledger, source))
        return OffsetsReport.of(without_gone(self.topics, rows), read, time.monotonic() - begun_s)

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
        newest = {where: ring[-1] for where, ring in rings.items()}
        before = None if kept is None else self.checkpoint.facts(kept[0])
        after = self.checkpoint.facts(batch)
        after.mkdir(parents=True, exist_ok=True)
        task = fold_task(before, after, self.rules, self.asked, newest, now_ms)
        with one_sentence(f"{self.what}, batch {batch}"):
            written = {row["source"] for row in records.select(*RECORDS).mapInArrow(task, SOURCE).collect()}
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


def fold_task(before: Path | None, after: Path, rules: LagRules, asked: Asked, ends: Ends, now_ms: int) -> Any:
    """What a task does with its records: the ledgers of `before` go on, and are left in `after`."""
    schema = arrow_schema(SOURCE)

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ledgers: dict[int, OffsetsLedger] = {}

        def ledger_of(source: int) -> OffsetsLedger:
            if source not in ledgers:
                old = None if before is None else before / f"{source}{ENDING}"
                ledgers[source] = OffsetsLedger(rules, asked) if old is None else load(old, rules, asked)
            return ledgers[source]

        fold_all(batches, ledger_of, ends, now_ms)
        for source, ledger in ledgers.items():
            save(ledger, after / f"{source}{ENDING}")
        yield arrow([{"source": source} for source in ledgers], schema)

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
