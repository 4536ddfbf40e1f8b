"""A manager that leads one partition, with a clock and a load slow enough to be looked at."""

from __future__ import annotations

from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.offsets.offset_cache import TopicPartition
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import RULES, OffsetConfig

DAY_MS = 86_400_000
T: TopicPartition = ("orders", 0)
U: TopicPartition = ("orders", 1)
CONFIG = OffsetConfig(
    offsets_retention_ms=DAY_MS, retention_check_interval_ms=10_000, load_records_per_s=10,
    load_chunk_records=5,
)  # fmt: skip


def led(rules: str, log: SegmentedLog | None = None, config: OffsetConfig = CONFIG, now_ms: int = 0) -> OffsetManager:
    """A manager that leads the partition with this log, its load begun."""
    manager = OffsetManager(1, RULES[rules], config, now_ms, now_ms)
    manager.lead(SegmentedLog() if log is None else log, now_ms)
    return manager


def offset_of(manager: OffsetManager, where: TopicPartition = T) -> tuple[ErrorCode, int]:
    """The answer to a fetch for group g."""
    error, found = manager.fetch("g", [where])
    return error, found[where]
