"""Compaction's experiments: a gap is no loss, and a tombstone is not there for ever.

A run has a compacted topic and one reader, who goes away and comes back. `rest`: the cleaner does not come, as nothing
is dirty. `compact` names the records that are gone and have a later record of their key,
`purge` the tombstones whose time was up. `view` compares what a reader holds for each key with what was last written:
`stale` keys are deleted or changed and it does not know, `missing` ones it should have. `state["offsets"]` is what lies
in the log, and in which segments.

Time is the story's: a story says how long it waits, and when a pass of the cleaner is to be over. In memory both are
exact; `kitlib.experiments.compaction.kafka_compacted_log` waits for a real broker's cleaner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.mechanisms.log import Fetch, FetchError, Record
from kitlib.mechanisms.offsets_topic.compaction import CleanerConfig, LogCleaner
from kitlib.mechanisms.offsets_topic.segments import RecordBatch, Segment, SegmentedLog
from kitlib.monitor.figures import LOST

Row = tuple[bytes, bytes | None]  # key, value; None is a tombstone
DAY_MS = 86_400_000  # the default of delete.retention.ms
PASS_MS = 500  # virtual time until the cleaner has come round
APPEND_MS = 10


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """What lies in a log now."""

    segments: list[list[int | bool]]  # as `segments_between`
    records: list[tuple[int, bytes, bytes | None]]  # offset, key, value; markers are none
    dirty_ratio: float  # of what may be cleaned and what has been, the share in bytes that has not

    def state(self) -> dict[str, Any]:
        """As a step's state holds it: `state["offsets"]`."""
        keys = sorted({key for _, key, _ in self.records})
        return {
            "segments": self.segments,
            "records": [
                [offset, keys.index(key), None if value is None else value.decode(errors="replace")]
                for offset, key, value in self.records
            ],
            "keys": [key.decode(errors="replace") for key in keys],
            "dirty_ratio": round(self.dirty_ratio, 3),
            "cleaner": "runs",
        }


@dataclass(slots=True)
class ModelCompactedLog:
    """Partition 0 of a topic with cleanup.policy=compact,delete, and one reader's view of it; in memory.

    Its cleaner is that of `kitlib.mechanisms.offsets_topic.compaction`.

    Differs: a transaction's marker is an offset without a record, so a log with markers cannot be cleaned here; a
    segment below the log's start goes at once, and not at the broker's next look.
    """

    on_kafka: ClassVar[str] = "kitlib.experiments.compaction.kafka_compacted_log:KafkaCompactedLog"

    name: str
    delete_retention_ms: int = DAY_MS
    now_ms: int = 0
    is_full: bool = False  # the next record begins a new segment
    kept: int | None = None  # the committed offset
    log: SegmentedLog = field(init=False)
    cleaner: LogCleaner = field(init=False)

    def __post_init__(self) -> None:
        self.log = SegmentedLog(self.name)
        self.cleaner = LogCleaner(self.log, CleanerConfig(self.delete_retention_ms, min_cleanable_dirty_ratio=0.0))

    @property
    def start(self) -> int:
        """The first offset that is still there."""
        return self.log.start_offset

    @property
    def end(self) -> int:
        return self.log.end_offset

    def roll(self) -> None:
        """The active segment is full: the next record begins a new one."""
        self.is_full = True

    def write(self, rows: Sequence[Row], *, transactional: bool = False) -> list[int]:
        """Write the rows; their offsets. `transactional` makes each a transaction."""
        if self.is_full:
            self.log.roll()
            self.is_full = False
        offsets: list[int] = []
        for some in [[row] for row in rows] if transactional else [rows]:
            self.now_ms += APPEND_MS
            batch = self.log.append([(key, value, self.now_ms) for key, value in some])
            offsets += range(batch.base_offset, batch.next_offset)
            if transactional:
                self._add_marker()
        return offsets

    def _add_marker(self) -> None:
        marker = RecordBatch(self.log.end_offset, self.log.end_offset, (), self.now_ms)
        self.log.active.batches.append(marker)
        self.log.end_offset = self.log.high_watermark = marker.next_offset

    def clean(self) -> int:
        """Let the cleaner go over all that is not in the active segment; the first offset that is dirty after it."""
        self.now_ms += PASS_MS
        self.cleaner.clean(self.now_ms)
        return self.cleaner.checkpoint or 0

    def delete_before(self, offset: int) -> int:
        """DeleteRecords: the log's new start."""
        log = self.log
        log.start_offset = max(log.start_offset, min(offset, log.end_offset))
        kept = [each for each in log.segments[1:] if each.base_offset > log.start_offset]
        begin = next(each for each in reversed(log.segments) if each.base_offset <= log.start_offset)
        whole = [each for each in begin.batches if each.next_offset > log.start_offset]
        log.segments = [Segment(begin.base_offset, whole), *kept]
        return log.start_offset

    def fetch(self, offset: int) -> Fetch:
        """What a reader is handed at this offset: all records at or above it, or OFFSET_OUT_OF_RANGE."""
        if not self.start <= offset <= self.end:
            return Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
        found = (each for each in self.log.records() if each.offset >= offset)
        return Fetch([Record(each.offset, each.value, each.key, each.timestamp_ms) for each in found])

    def commit(self, offset: int) -> None:
        self.kept = offset

    def committed(self) -> int | None:
        """What the reader has committed; None before that."""
        return self.kept

    def snapshot(self) -> LogSnapshot:
        records = [(each.offset, each.key or b"", each.value) for each in self.log.records() if each.offset >= self.start]
        dirty_ratio = self.cleaner.look(self.now_ms).dirty_ratio
        return LogSnapshot(segments_of(self.log), records, dirty_ratio)

    def wait(self, ms: int) -> None:
        self.now_ms += ms


def segments_of(log: SegmentedLog) -> list[list[int | bool]]:
    """The segments of a log in memory, as `segments_between`."""
    return segments_between([*(each.base_offset for each in log.segments), log.end_offset])


def segments_between(bases: Sequence[int]) -> list[list[int | bool]]:
    """[base, the next one's base, whether it is the active one] of segments; the last of these offsets is the log's end."""
    return [[base, bases[at + 1], at + 2 == len(bases)] for at, base in enumerate(bases[:-1])]


Table = dict[bytes, bytes]  # key, last value

NOTHING_COMMITTED = "auto.offset.reset=earliest, and nothing is committed"


@dataclass(slots=True)
class CompactionRun(Run):
    """One run: the log, and what its reader knows."""

    domain: ClassVar[str] = "compaction"

    log: ModelCompactedLog = field(init=False)  # or its twin on Kafka
    ledger: PartitionLedger = field(init=False)
    seen: LogSnapshot = field(init=False)
    shown: dict[str, Any] = field(init=False)  # the same as the steps hold it
    cleaned_to: int = 0  # the first dirty offset
    table: Table = field(default_factory=dict)  # what the reader holds for each key
    truth: Table = field(default_factory=dict)  # what was last written

    def __post_init__(self) -> None:
        self.log = self.backend.provide(ModelCompactedLog, "customers", self.settings.delete_retention_ms)
        self.ledger = PartitionLedger(self.log.name)
        self._look()

    @property
    def now_ms(self) -> int:
        return self.log.now_ms

    def state(self) -> dict[str, Any]:
        return {"offsets": self.shown}

    def append(self, rows: Sequence[tuple[str, str | None]], *, rolls: bool = False, transactional: bool = False) -> None:
        """Write records; with `rolls` they begin a new segment, `transactional` makes each of them a transaction."""
        if rolls:
            self.log.roll()
        coded = [(key.encode(), None if value is None else value.encode()) for key, value in rows]
        offsets = self.log.write(coded, transactional=transactional)
        for row in coded:
            hold(self.truth, *row)
        self._look()
        if rolls:
            self._record("log", "roll", base=offsets[0])
        for some in [[at] for at in range(len(rows))] if transactional else [range(len(rows))]:
            first, last = offsets[some[0]], offsets[some[-1]]
            self._record(
                "log", "append", first=first, last=last, keys=[rows[at][0] for at in some], values=[rows[at][1] for at in some],
            )  # fmt: skip
            if transactional:
                self._record("log", "control", offset=last + 1)

    def clean(self) -> None:
        """Let the cleaner go over all that is not in the active segment; what it took out is told."""
        before = {offset: key for offset, key, _ in self.seen.records}
        to = self.log.clean()
        self._look()
        if to == self.cleaned_to:
            return self._record("log", "rest", to=to)
        self.cleaned_to = to
        kept = {offset for offset, _, _ in self.seen.records}
        newest = {key: offset for offset, key in before.items()}
        gone = [offset for offset in before if offset not in kept]
        purged = [offset for offset in gone if newest[before[offset]] == offset]
        replaced = [offset for offset in gone if newest[before[offset]] != offset]
        self._record("log", "pass", to=to, removed=gone, kept=len(kept))
        for what, offsets in (("compact", replaced), ("purge", purged)):
            if offsets:
                self._record("log", what, offsets=offsets)

    def delete_before(self, offset: int) -> None:
        """DeleteRecords: the log begins at this offset."""
        start = self.log.delete_before(offset)
        self._look()
        self._record("log", "delete", to=start)

    def wait(self, ms: int) -> None:
        """The reader is away for so long, in real time on a real broker."""
        if ms > 0:
            self.log.wait(ms)
            self._record("reader", "away", ms=ms)

    def _look(self) -> None:
        self.seen = self.log.snapshot()
        self.shown = self.seen.state()
        self.ledger.log_start, self.ledger.log_end = self.log.start, self.log.end

    def start_reader(self) -> None:
        """Begin at the committed offset, or at the start when there is none."""
        found = self.log.committed()
        self._begin(*(self.log.start, NOTHING_COMMITTED) if found is None else (found, "committed offset"))

    def _begin(self, offset: int, why: str) -> None:
        self.ledger.emitted_to_offset = offset
        self._record("reader", "start", offset=offset, why=why)

    def read(self, most: int | None = None) -> None:
        """Fetch from the position on, process what comes (`most` records), and commit; under the policy none it may stop."""
        ledger, policy = self.ledger, self.settings.auto_offset_reset
        fetched = self.log.fetch(position := ledger.emitted_to_offset)
        if fetched.error is FetchError.OFFSET_OUT_OF_RANGE:
            self._record("reader", "error", error="OFFSET_OUT_OF_RANGE", offset=position)
            if policy == "none":
                return
            to = ledger.log_start if policy == "earliest" else ledger.log_end
            self._begin(to, f"auto.offset.reset={policy}: offset {position} is out of range")
            fetched = self.log.fetch(to)
        for record in list(fetched.records)[:most]:
            self._process(record)
        ledger.committed_to = ledger.emitted_to_offset
        self.log.commit(ledger.committed_to)
        self._record("reader", "commit", offset=ledger.committed_to, written=True)

    def _process(self, record: Record) -> None:
        offset, before = record.offset, self.ledger.emitted_to_offset
        if offset != before:
            self._record("reader", "gap", after=before - 1, next=offset, missing=offset - before)
        self.ledger.emitted_to_offset = offset + 1
        self._record("reader", "emit", offset=offset)
        self.ledger.process(offset)
        hold(self.table, record.key or b"", record.value)
        self._record("reader", "process", offset=offset)

    def tell_views(self) -> None:
        """What the reader holds by now, and what one would that reads all that is left."""
        self._tell_view("reader", self.table)
        table: Table = {}
        for record in self.log.fetch(self.ledger.log_start).records:
            hold(table, record.key or b"", record.value)
        self._tell_view("new reader", table)

    def _tell_view(self, who: str, table: Table) -> None:
        stale = (key for key, value in table.items() if self.truth.get(key) != value)
        self._record(who, "view", keys=named(table), stale=named(stale), missing=named(self.truth.keys() - table.keys()))

    def _record(self, actor: str, what: str, /, **data: Any) -> None:
        self.record_in(self.ledger, actor, what, **data)


def hold(table: Table, key: bytes, value: bytes | None) -> None:
    """A table after one more record: its key's last value, or no such key after a tombstone."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def named(keys: Iterable[bytes]) -> list[str]:
    """Keys as a step tells them."""
    return sorted(key.decode(errors="replace") for key in keys)


CUSTOMERS = ("alice", "bob", "carol")


@experiment("A gap is no loss", CompactionRun, figure=LOST, front=("what", "key_count", "read_first", "records"))
def compacted_topic(
    run: CompactionRun,
    what: Annotated[Literal["compaction", "delete records", "transactions", "nothing"], Knob("What makes the gap.")] = "compaction",
    records: Annotated[int, Knob("Records in the first segment.", "records", 1, 100)] = 10,
    key_count: Annotated[int, Knob("Distinct keys among them; all remaining records have the last key.", "keys", 1, 100)] = 3,
    read_first: Annotated[int, Knob("How many of them the reader processes before it leaves.", "records", 0, 100)] = 3,
    auto_offset_reset: Annotated[
        Literal["earliest", "latest", "none"], Knob("Where the reader continues when its offset is out of range.")
    ] = "earliest",
) -> None:
    """A reader comes back at offset 3, and the records from there to 8 are gone. What does it receive, and has anything
    been lost?
    """
    by_transaction = what == "transactions"
    run.append([(f"key-{min(at, key_count - 1)}", f"value {at}") for at in range(records)], transactional=by_transaction)
    run.start_reader()
    run.read(read_first)
    run.append([("last", "value")], rolls=True, transactional=by_transaction)
    if what == "compaction":
        run.clean()
    elif what == "delete records":
        run.delete_before(records)
    run.start_reader()
    run.read()
    run.tell_views()


def _come_back(run: CompactionRun, after_ms: int) -> None:
    run.wait(after_ms)
    run.start_reader()
    run.read()


def _clean_again(run: CompactionRun) -> None:
    """Only new records bring the cleaner back to a log."""
    if run.settings.new_records:
        run.append([("dave", "order 2")], rolls=True)
    run.clean()


@experiment("A tombstone has its time", CompactionRun, figure=LOST, front=("delete_retention_ms", "away_ms", "new_records"))
def tombstones(
    run: CompactionRun,
    delete_retention_ms: Annotated[
        int, Knob("How long after its first cleaning a tombstone stays (the topic's delete.retention.ms).", "ms", 0, 10_000)
    ] = 1_500,
    away_ms: Annotated[int, Knob("How long the reader stays away after that cleaning.", "ms", 0, 20_000)] = 2_500,
    new_records: Annotated[bool, Knob("Whether new records arrive in the meantime, so that the cleaner runs again.")] = True,
) -> None:
    """Bob is deleted while a reader is away. When the reader comes back, does it find out?"""
    run.append([(customer, "order 1") for customer in CUSTOMERS])
    run.start_reader()
    run.read()
    run.append([("bob", None), ("alice", "order 2")])
    run.append([("dave", "order 1")], rolls=True)
    run.clean()
    if away_ms < delete_retention_ms:
        _come_back(run, away_ms)
        run.wait(delete_retention_ms - away_ms)
        _clean_again(run)
        run.read()
    else:
        run.wait(away_ms)
        _clean_again(run)
        _come_back(run, 0)
    run.tell_views()
