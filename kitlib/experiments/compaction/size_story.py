"""The experiment with the length of the offsets topic: what the cleaner saves, and what a coordinator pays without it.

The records are commits as a broker writes them. The real log is a topic of its own: in __consumer_offsets nothing is
cleaned before a segment of 100 MB is full.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol

from kitlib.experiments.backend import Backend
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Run
from kitlib.kafka.offsets.compaction import CleanerConfig, LogCleaner
from kitlib.kafka.offsets.messages import RECORD_TYPES
from kitlib.kafka.offsets.offset_manager import OffsetManager
from kitlib.kafka.offsets.offset_rules import KAFKA_4_3_1, OffsetConfig
from kitlib.kafka.offsets.records import OFFSET_COMMITS, OffsetsRecord, encode
from kitlib.kafka.offsets.segments import SegmentedLog

Commit = tuple[int, int]  # partition of the group's topic, committed offset
COMMIT_TYPE, VERSION = OFFSET_COMMITS[1], 4


@dataclass(frozen=True, slots=True)
class Size:
    """How large a log is."""

    records: int
    size_bytes: int
    segments: int
    dirty_ratio: float


class SizedLog(Protocol):
    """The log of one partition."""

    @property
    def now_ms(self) -> int:
        """Time since the run began."""
        ...

    def append(self, commits: list[Commit], every_ms: float) -> None:
        """Write the commits, one record each; so much time lies between two of them."""
        ...

    def roll(self) -> None:
        """The active segment is full: the next record begins a new one."""
        ...

    def clean(self) -> int:
        """Let the cleaner pass over all that is not in the active segment; how many records it took out."""
        ...

    def kill_cleaner(self) -> None:
        """From now on nothing is cleaned."""
        ...

    def look(self) -> Size:
        """How large it is."""
        ...

    def load(self) -> tuple[int, int, int]:
        """Fill a coordinator's cache from it: (records read, ms, offsets in the cache)."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def commit_bytes(commit: Commit, at_ms: int) -> tuple[bytes, bytes | None]:
    """A commit as a broker of today writes it."""
    key = {"group": "billing", "topic": "orders", "partition": commit[0]}
    value = {"offset": commit[1], "leaderEpoch": 0, "metadata": "", "commitTimestamp": at_ms}
    return encode(OffsetsRecord(RECORD_TYPES[COMMIT_TYPE], key, VERSION, value))


@dataclass(slots=True)
class ModelSizedLog:
    """The log in memory, with the cleaner of `kitlib.kafka.offsets.compaction`."""

    load_records_per_s: int
    clock_ms: float = 0.0
    is_full: bool = False  # the next record begins a new segment
    log: SegmentedLog = field(default_factory=lambda: SegmentedLog("__consumer_offsets-0"))
    cleaner: LogCleaner = field(init=False)

    def __post_init__(self) -> None:
        self.cleaner = LogCleaner(self.log, CleanerConfig(min_cleanable_dirty_ratio=0.0, map_keys=100_000))

    @property
    def now_ms(self) -> int:
        return int(self.clock_ms)

    def append(self, commits: list[Commit], every_ms: float) -> None:
        if self.is_full:
            self.log.roll()
            self.is_full = False
        for commit in commits:
            self.clock_ms += every_ms
            self.log.append([(*commit_bytes(commit, self.now_ms), self.now_ms)])

    def roll(self) -> None:
        self.is_full = True

    def clean(self) -> int:
        done = self.cleaner.clean(self.now_ms)
        return 0 if done is None else len(done.removed)

    def kill_cleaner(self) -> None:
        """Nothing: in memory nobody cleans but who is told to."""

    def look(self) -> Size:
        records = sum(len(batch.records) for batch in self.log.batches())
        return Size(records, self.log.size_bytes, len(self.log.segments), self.cleaner.look(self.now_ms).dirty_ratio)

    def load(self) -> tuple[int, int, int]:
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

    def close(self) -> None:
        """Nothing to let go of."""


def sized_log(backend: Backend, run: str, load_records_per_s: int) -> SizedLog:
    """A new, empty log on this backend."""
    if backend.name == "kafka":
        from kitlib.experiments.compaction.kafka_compacted_log import KafkaSizedLog

        return KafkaSizedLog.open(backend, f"kit.{run}.offsets")
    return ModelSizedLog(load_records_per_s)


LOG, CLEANER, COORDINATOR = "offsets log", "cleaner", "coordinator 2"


@dataclass(slots=True)
class SizeRun(Run):
    """One run: the log, what is counted, and the trace."""

    domain: ClassVar[str] = "offsets"

    log: SizedLog = field(init=False)
    size: Size = field(default_factory=lambda: Size(0, 0, 1, 0.0))
    commits: int = 0
    is_clean: bool = True  # the cleaner runs

    def __post_init__(self) -> None:
        self.log = sized_log(self.backend, self.trace.run, self.knobs["load_records_per_s"])

    def commit(self, count: int) -> None:
        """The groups commit so often, each of their partitions in turn, and the segment is full."""
        keys = self.knobs["keys"]
        commits = [(number % keys, number // keys + 1) for number in range(self.commits, self.commits + count)]
        self.log.append(commits, 1000 / self.knobs["commits_per_s"])
        self.log.roll()
        self.commits += count
        self.note(LOG, "write_many", records=count, keys=keys)

    def kill_cleaner(self) -> None:
        """The cleaner's thread ends."""
        self.is_clean = False
        self.log.kill_cleaner()
        self.note(CLEANER, "dies", why="an exception in its thread")

    def clean(self) -> None:
        """The cleaner passes, if it runs."""
        if self.is_clean:
            removed = self.log.clean()
            self.note(LOG, "clean_many", removed=removed)

    def look(self) -> None:
        """Measure the log."""
        self.size = self.log.look()
        size = self.size
        self.note(
            LOG, "size", records=size.records, bytes=size.size_bytes, segments=size.segments,
            dirty_ratio=round(size.dirty_ratio, 3),
        )  # fmt: skip

    def load(self) -> None:
        """Another broker becomes the coordinator, and reads the log."""
        self.note(COORDINATOR, "load_begin", records=self.size.records)
        records, ms, offsets = self.log.load()
        self.note(COORDINATOR, "load_end", records=records, ms=ms, offsets=offsets)
        self.note(LOG, "result", commits=self.commits, keys=offsets, records=records, load_ms=ms)

    def note(self, actor: str, what: str, /, **data: Any) -> None:
        """Write a step."""
        now_ms = self.log.now_ms
        size = {"records": self.size.records, "bytes": self.size.size_bytes, "commits": self.commits}
        state = {"size": size, "cleaner": "runs" if self.is_clean else "dead", "now_ms": now_ms}
        self.write(now_ms, actor, what, data, state)


@experiment("How long the offsets topic is", SizeRun)
def size_of_offsets_topic(
    run: SizeRun,
    cleaner: Annotated[
        Literal["runs", "dies half-way", "is off"], Knob("Whether the log cleaner runs, ends half-way, or never ran.")
    ] = "runs",
    keys: Annotated[int, Knob("How many group-partitions commit.", "keys", 1, 100)] = 10,
    segment_records: Annotated[int, Knob("After so many commits a segment is full.", "records", 1, 1_000)] = 500,
    segments: Annotated[int, Knob("How many segments are written.", "segments", 1, 20)] = 6,
    commits_per_s: Annotated[
        int, Knob("How many commits a second there are on the model.", "commits/s", 1, 100_000, scale="log")
    ] = 1_000,
    load_records_per_s: Annotated[
        int, Knob("How fast the model's new coordinator reads the log.", "records/s", 1, 10_000_000, scale="log")
    ] = 10_000,
) -> None:
    """A few groups commit all the time. How many of their records does a new coordinator have to read, and how long does
    it take?
    """
    # Commits come segment by segment; between them the cleaner passes, or does not; at the end a coordinator has to
    # load it all.
    dies_at = {"runs": segments + 1, "dies half-way": segments // 2, "is off": 0}[cleaner]
    try:
        for number in range(segments):
            if number == dies_at:
                run.kill_cleaner()
            run.commit(segment_records)
            run.clean()
            run.look()
        run.load()
    finally:
        run.log.close()
