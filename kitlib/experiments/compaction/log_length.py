"""How long the offsets topic gets: what the cleaner saves a new coordinator, and what groups cost that come once and never again.

A console consumer makes up a group's name at each start, commits, and is gone. Its offsets and its group stay in the cache and in
the log until the purge takes them, one retention after the group became empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.errors import KnobError
from kitlib.experiments.compaction.compaction_stories import DAY_MS
from kitlib.mechanisms.offsets_topic.compaction import CleanerConfig, LogCleaner
from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import OffsetConfig

MOST_A_DAY = 2_000  # transient groups
SEGMENT_COMMITS = 500


def records_to_load(segments: int, passes: int, keys: int = 10) -> int:
    """How many records a new coordinator must read after so many segments of 500 commits by so many group-partitions.

    The cleaner passes after each of the first `passes` segments. KnobError for a number below 0, and without a key.
    """
    if segments < 0 or passes < 0 or keys < 1:
        raise KnobError(f"segments is {segments}, passes {passes} and keys {keys}, expected 0 or more, 0 or more and 1 or more.")
    log = SegmentedLog("__consumer_offsets-0")
    cleaner = LogCleaner(log, CleanerConfig(min_cleanable_dirty_ratio=0.0))
    manager = OffsetManager()
    manager.lead(log, 0)
    for segment in range(segments):
        if segment:
            log.roll()
        end = (segment + 1) * SEGMENT_COMMITS
        for number in range(segment * SEGMENT_COMMITS, end):
            manager.commit("billing", {("orders", number % keys): number}, number)
        if segment < passes:
            cleaner.clean(end)
    return len(log.records())


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
    manager = OffsetManager(config=OffsetConfig(offsets_retention_ms=retention_days * DAY_MS))
    manager.lead(log, 0)
    sizes = []
    for day in range(days):
        for number in range(a_day):
            now_ms, group = day * DAY_MS + number * DAY_MS // a_day, f"console-consumer-{day}-{number}"
            manager.write_group(group, now_ms, members={group: b""})
            manager.commit(group, {("events", partition): number for partition in (0, 1)}, now_ms)
            manager.write_group(group, now_ms)
        manager.purge((day + 1) * DAY_MS - 1)
        sizes.append(CacheSize(day + 1, manager.num_groups, manager.num_offsets, log.end_offset))
    return sizes
