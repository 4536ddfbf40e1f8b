"""The load of a coordinator's cache: how long it takes, what it reads, and what the rules of 2015 made of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kitlib.mechanisms.offsets_topic.compaction import CleanerConfig, LogCleaner
from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.offsets.offset_cache import TopicPartition
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import RULES, OffsetConfig, OffsetEvent
from kitlib.more.offsets.records import decode
from tests.more.offsets.led_partition import CONFIG, DAY_MS, T, U, led, offset_of


def written(commits: int, rules: str = "4.3.1", now_ms: int = 0) -> SegmentedLog:
    """A log with so many commits of g for one partition: 1, 2, 3..."""
    manager = led(rules, now_ms=now_ms)
    for offset in range(1, commits + 1):
        manager.commit("g", {T: offset}, now_ms)
    return manager.log


@pytest.mark.parametrize("rules", ["0.8.2", "0.9.0", "4.3.1"])
def test_load_takes_its_time_and_a_reader_is_told_to_ask_again(rules: str) -> None:
    """12 records at 10 a second are loaded after 1,200 ms in chunks of 5, 5 and 2; before that there is no offset to be had."""
    manager = led(rules, written(12, rules))
    assert manager.next_due() == 500
    notes = manager.advance(1_199)
    assert [each.data for each in notes] == [{"from": 0, "to": 4}, {"from": 5, "to": 9}]
    assert offset_of(manager) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
    load = manager.load
    assert load is not None and load.progress() == (10, 12) and manager.cache.offsets[("g", *T)].committed_offset == 10
    assert manager.advance(1_200)[-1] == OffsetEvent("load_end", {"records": 12, "ms": 1_200})
    assert offset_of(manager) == (ErrorCode.NONE, 12)


@pytest.mark.parametrize(("rules", "first_ms"), [("0.8.2", 10_000), ("0.9.0", 10_000), ("4.3.1", 14_200)])
def test_purge_after_a_load_comes_with_the_broker_s_timer_or_an_interval_later(rules: str, first_ms: int) -> None:
    """The old timer is the broker's and runs from its start; today each partition's begins when its load has ended."""
    manager = OffsetManager(1, RULES[rules], CONFIG)
    manager.lead(written(12, rules), 3_000)
    manager.advance(4_200)
    assert manager.next_due() == first_ms
    manager.advance(first_ms)
    assert manager.next_due() == first_ms + 10_000


@pytest.mark.parametrize(
    ("rules", "error", "offset"), [("0.8.2", 0, 99), ("2015-04", 0, 12), ("0.9.0", 14, 12), ("4.3.1", 14, 12)]
)
def test_commit_during_a_load_was_taken_before_0_9(rules: str, error: int, offset: int) -> None:
    """It joins the log, and the load reads it at the end; what cannot read it is left with the last one before it."""
    manager = led(rules, written(12, "0.8.2"))
    manager.advance(600)
    assert manager.commit("g", {T: 99}, 600)[0] == ErrorCode(error)
    manager.advance(5_000)
    assert offset_of(manager) == (ErrorCode.NONE, offset)


def test_load_of_april_2015_ends_at_the_first_record_that_it_wrote_itself() -> None:
    """The stale offset: one of the old format lies below, is read, and is told, though the log holds newer ones."""
    log = written(3, "0.8.2")
    writer = led("2015-04", log)
    writer.advance(1_000)
    writer.commit("g", {T: 500}, 1_000)
    assert offset_of(writer) == (ErrorCode.NONE, 500)
    reader = led("2015-04", log)
    reader.advance(1_000)
    assert offset_of(reader) == (ErrorCode.NONE, 3)


def test_stale_offset_of_the_old_format_outlives_the_cleaner() -> None:
    """Its key has another first number, so it is another key: no later commit replaces it."""
    log = written(3, "0.8.2")
    writer = led("2015-04", log)
    writer.advance(1_000)
    for offset in range(500, 510):
        writer.commit("g", {T: offset}, 1_000)
    log.roll()
    LogCleaner(log, CleanerConfig()).clean(2_000)
    left = [decode(each.key, each.value) for each in log.records()]
    assert [(each.type.number, each.value and each.value["offset"]) for each in left] == [(0, 3), (1, 509)]


@pytest.mark.parametrize(
    ("rules", "offset"), [("0.8.2", -1), ("2015-04", -1), ("0.9.0", 12), ("4.3.1", 12)], ids=str
)
def test_purge_during_a_load_loses_the_fresh_offset_before_0_9(rules: str, offset: int) -> None:
    """The dead cleaner: the purge meets an old value in the half-filled cache, and its tombstone lies behind the fresh one."""
    written_by = "0.8.2"
    old = written(150, written_by)  # 15 s of reading, all of it older than the retention
    writer = led(written_by, old, replace(CONFIG, load_records_per_s=10**6), now_ms=2 * DAY_MS - 5_000)
    writer.advance(2 * DAY_MS - 4_000)
    for value in range(1, 13):
        writer.commit("g", {T: value}, 2 * DAY_MS)
    manager = led(rules, old, now_ms=2 * DAY_MS)
    notes = manager.advance(2 * DAY_MS + 60_000)
    assert offset_of(manager) == (ErrorCode.NONE, offset)
    assert [each.data["why"] for each in notes if each.what == "evict"] == (["expired", "tombstone"] if offset < 0 else [])


PLACES: list[TopicPartition] = [T, U, ("payments", 0)]
GROUPS, WHERE = st.sampled_from("gh"), st.sampled_from(PLACES)


class Moving(RuleBasedStateMachine):
    """Commits, tombstones, cleaning and moves in any order, beside a dictionary."""

    release = "4.3.1"

    def __init__(self) -> None:
        super().__init__()
        self.log, self.now_ms = SegmentedLog(), 0
        config = OffsetConfig(load_chunk_records=3, offsets_retention_ms=10_000)
        self.brokers = [OffsetManager(number, RULES[self.release], config) for number in (1, 2)]
        self.leader = 0
        self.brokers[0].lead(self.log, 0)
        self.cleaner = LogCleaner(self.log, CleanerConfig(delete_retention_ms=100))
        self.known: dict[tuple[str, TopicPartition], int] = {}

    @rule(group=GROUPS, where=WHERE, offset=st.integers(0, 9))
    def commit(self, group: str, where: TopicPartition, offset: int) -> None:
        error, _ = self.brokers[self.leader].commit(group, {where: offset}, self.now_ms)
        assert error is ErrorCode.NONE
        self.known[group, where] = offset

    @rule()
    def expire(self) -> None:
        """A tombstone for each offset."""
        self.wait(20_000)
        self.brokers[self.leader].purge(self.now_ms)
        self.known.clear()

    @rule()
    def clean(self) -> None:
        self.log.roll()
        self.cleaner.clean(self.now_ms)

    @rule(ms=st.sampled_from([1, 99, 200]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        for broker in self.brokers:
            broker.advance(self.now_ms)

    @rule()
    def move(self) -> None:
        self.brokers[self.leader].resign()
        self.leader = 1 - self.leader
        manager = self.brokers[self.leader]
        manager.lead(self.log, self.now_ms)
        while manager.load is not None:
            assert manager.fetch("g", [T])[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self.now_ms = max(self.now_ms, manager.next_due() or 0)
            manager.advance(self.now_ms)

    @invariant()
    def every_commit_is_fetched_and_nothing_else(self) -> None:
        for group in "gh":
            told = self.brokers[self.leader].fetch(group, PLACES)[1]
            assert told == {where: self.known.get((group, where), -1) for where in PLACES}


class MovingIn2015(Moving):
    """The same under the rules of 0.8.2, whose faults need records of others or old ones."""

    release = "0.8.2"


TestMoving = Moving.TestCase
TestMovingIn2015 = MovingIn2015.TestCase
TestMoving.settings = TestMovingIn2015.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
