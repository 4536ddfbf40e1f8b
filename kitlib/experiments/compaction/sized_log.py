"""A partition of the offsets topic as one who measures it sees it, in memory or as a real topic of the same layout.

The records are commits as a broker writes them. The real one is a topic of its own: in __consumer_offsets nothing is
cleaned before a segment of 100 MB is full.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kitlib.experiments.backend import Backend
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
        from kitlib.experiments.compaction.kafka_sized_log import KafkaSizedLog

        return KafkaSizedLog.open(backend, f"kit.{run}.offsets")
    return ModelSizedLog(load_records_per_s)
