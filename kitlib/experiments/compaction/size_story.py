"""The experiment with the length of the offsets topic: what the cleaner saves, and what a coordinator pays without it.

The records are commits as a broker writes them. The real log is a topic of its own: in __consumer_offsets nothing is
cleaned before a segment of 100 MB is full.

`transient_groups` asks the same of groups that come once and never again. A console consumer makes up a group's name at each
start, commits, and is gone. Its offsets and its group stay in the cache and in the log until the purge takes them, one
retention after the group became empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.errors import KnobError
from kitlib.experiments.compaction.compaction_stories import DAY_MS, ModelCompactedLog, Row
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Run
from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.monitor.figures import LOADING
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import KAFKA_4_3_1, OffsetConfig
from kitlib.more.offsets.records import OFFSET_COMMITS, OffsetsRecord, encode

Commit = tuple[int, int]  # partition of the group's topic, committed offset
LOG, CLEANER, COORDINATOR = "offsets log", "cleaner", "coordinator 2"
COMMIT_TYPE, VERSION = OFFSET_COMMITS[1], 4
MOST_A_DAY = 2_000  # transient groups


def commit_row(commit: Commit, at_ms: int) -> Row:
    """A commit as a broker of today writes it."""
    key = {"group": "billing", "topic": "orders", "partition": commit[0]}
    value = {"offset": commit[1], "leaderEpoch": 0, "metadata": "", "commitTimestamp": at_ms}
    return encode(OffsetsRecord(RECORD_TYPES[COMMIT_TYPE], key, VERSION, value))


@dataclass(slots=True)
class ModelOffsetsLog(ModelCompactedLog):
    """The log in memory, and a coordinator that loads it in virtual time."""

    on_kafka: ClassVar[str] = "kitlib.experiments.compaction.kafka_compacted_log:KafkaOffsetsLog"

    pass_ms: int = 0
    load_records_per_s: int = 10_000

    def write_commits(self, commits: Sequence[Commit], apart_ms: float) -> None:
        """Write the commits, one record each; so much time lies between two of them."""
        for commit in commits:
            self.write([commit_row(commit, int(self.clock_ms + apart_ms))], takes_ms=apart_ms)

    def load(self) -> tuple[int, int, int]:
        """Fill a coordinator's cache from it: (records read, ms, offsets in the cache)."""
        config = OffsetConfig(
            partitions=1, load_records_per_s=self.load_records_per_s, load_chunk_records=10_000,
            retention_check_interval_ms=2**62,
        )  # fmt: skip
        manager = OffsetManager(1, KAFKA_4_3_1, config, self.now_ms, self.now_ms)
        notes = manager.lead(0, self.log, self.now_ms)
        while manager.led[0].load is not None:
            notes = manager.advance(manager.next_due() or 0)
        done = notes[-1].data
        self.clock_ms += done["ms"]
        return done["records"], done["ms"], manager.num_offsets


@dataclass(slots=True)
class SizeRun(Run):
    """One run: the log, and what is counted."""

    domain: ClassVar[str] = "offsets"

    log: ModelOffsetsLog = field(init=False)  # or its twin on Kafka
    records: int = 0
    size_bytes: int = 0
    commits: int = 0
    is_clean: bool = True  # the cleaner runs

    def __post_init__(self) -> None:
        self.log = self.backend.provide(ModelOffsetsLog, "offsets", load_records_per_s=self.settings.load_records_per_s)

    @property
    def now_ms(self) -> int:
        return self.log.now_ms

    def state(self) -> dict[str, Any]:
        size = {"records": self.records, "bytes": self.size_bytes, "commits": self.commits}
        return {"size": size, "cleaner": "runs" if self.is_clean else "dead", "now_ms": self.now_ms}

    def commit(self, count: int) -> None:
        """The groups commit so often, each of their partitions in turn, and the segment is full."""
        keys, apart_ms = self.settings.key_count, 1000 / self.settings.commits_per_s
        numbers = range(self.commits, self.commits + count)
        self.log.write_commits([(number % keys, number // keys + 1) for number in numbers], apart_ms)
        self.log.roll()
        self.commits += count
        self.record(LOG, "write_many", records=count, keys=keys)

    def kill_cleaner(self) -> None:
        """The cleaner's thread ends; the log's own cleans only when it is told to."""
        self.is_clean = False
        self.record(CLEANER, "dies", why="an exception in its thread")

    def clean(self) -> None:
        """The cleaner passes, if it runs."""
        if self.is_clean:
            before = len(self.log.snapshot().records)
            self.log.clean()
            self.record(LOG, "clean_many", removed=before - len(self.log.snapshot().records))

    def look(self) -> None:
        seen = self.log.snapshot()
        self.records, self.size_bytes = len(seen.records), seen.size_bytes
        self.record(
            LOG, "size", records=self.records, bytes=self.size_bytes, segments=len(seen.segments),
            dirty_ratio=round(seen.dirty_ratio, 3),
        )  # fmt: skip

    def load(self) -> None:
        """Another broker becomes the coordinator, and reads the log."""
        self.record(COORDINATOR, "load_begin", records=self.records)
        records, ms, offsets = self.log.load()
        self.record(COORDINATOR, "load_end", records=records, ms=ms, offsets=offsets)
        self.record(LOG, "result", commits=self.commits, keys=offsets, records=records, load_ms=ms)


@experiment(
    "How long the offsets topic gets", SizeRun,
    figure=LOADING, front=("cleaner", "key_count", "segments", "commits_per_s", "load_records_per_s"),
)
def size_of_offsets_topic(
    run: SizeRun,
    cleaner: Annotated[
        Literal["runs", "dies half-way", "is off"], Knob("Whether the log cleaner runs, stops half-way, or never ran.")
    ] = "runs",
    key_count: Annotated[int, Knob("How many group-partitions commit.", "keys", 1, 100)] = 10,
    segment_records: Annotated[int, Knob("Commits that fill a segment.", "records", 1, 1_000)] = 500,
    segments: Annotated[int, Knob("How many segments are written.", "segments", 1, 20)] = 6,
    commits_per_s: Annotated[
        int, Knob("Commits per second on the model.", "commits/s", 1, 100_000, scale="log")
    ] = 1_000,
    load_records_per_s: Annotated[
        int, Knob("How fast the model's new coordinator reads the log.", "records/s", 1, 10_000_000, scale="log")
    ] = 10_000,
) -> None:
    """A few groups commit all the time. How many of their records must a new coordinator read, and how long does that
    take?
    """
    # Commits come segment by segment; between them the cleaner passes, or does not; at the end a coordinator has to
    # load it all.
    dies_at = {"runs": segments + 1, "dies half-way": segments // 2, "is off": 0}[cleaner]
    for number in range(segments):
        if number == dies_at:
            run.kill_cleaner()
        run.commit(segment_records)
        run.clean()
        run.look()
    run.load()


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What one coordinator holds at the end of a day."""

    day: int
    groups: int
    offsets: int
    records: int  # in the log, without compaction


def transient_groups(a_day: int, retention_days: int, days: int) -> list[CacheSize]:
    """So many console consumers a day, each of a topic with two partitions; the purge looks at the end of each day.

    KnobError for more than 2,000 a day or 60 days.
    """
    if not (1 <= a_day <= MOST_A_DAY and retention_days >= 1 and 1 <= days <= 60):
        got = f"a_day is {a_day}, retention_days {retention_days} and days {days}"
        raise KnobError(f"{got}, expected 1 to {MOST_A_DAY:,}, 1 or more and 1 to 60.")
    log = SegmentedLog("__consumer_offsets-0")
    manager = OffsetManager(config=OffsetConfig(offsets_retention_ms=retention_days * DAY_MS, partitions=1))
    manager.lead(0, log, 0)
    sizes = []
    for day in range(days):
        for number in range(a_day):
            now_ms, group = day * DAY_MS + number * DAY_MS // a_day, f"console-consumer-{day}-{number}"
            manager.write_group(group, now_ms, members={group: b""})
            manager.commit(group, {("events", partition): number for partition in (0, 1)}, now_ms)
            manager.write_group(group, now_ms)
        manager.purge(0, (day + 1) * DAY_MS - 1)
        sizes.append(CacheSize(day + 1, manager.num_groups, manager.num_offsets, log.end_offset))
    return sizes
