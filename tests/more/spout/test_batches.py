"""A PartitionManager by the batch beside one by the record: the same ledgers, and a restart from any batch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.errors import LabError
from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.log import PartitionLog
from kitlib.mechanisms.offset_set import OffsetSet
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.mechanisms.partition_manager import SpoutConfig
from kitlib.mechanisms.spout_errors import FailedFetchError, TooManyTupleFailuresError
from kitlib.more.spout.batches import Batch, BatchPartitionManager, read_retries, retries_text
from kitlib.more.spout.offset_ranges import OffsetRanges
from kitlib.more.spout.retry import BackoffPartitionManager
from kitlib.trace import from_ranges

OFFSETS = st.integers(0, 30)
RANGES = st.tuples(OFFSETS, OFFSETS)


def config(bound: int = MAX_LONG, **more: Any) -> SpoutConfig:
    return SpoutConfig("events", "spout", max_offset_behind=bound, force_from_start=True, **more)


def log_of(records: int) -> PartitionLog:
    log = PartitionLog(max_fetch_records=10_000)
    log.append([b"v"] * records)
    return log


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "add_range", "discard_range", "clear_below"]), RANGES), max_size=40))
def test_ranges_of_offsets_answer_as_a_set_of_offsets(calls: list[tuple[str, tuple[int, int]]]) -> None:
    """Whatever is added and taken out, by offset or by range, the members, the smallest one and what is cleared are a set's."""
    ranges, plain = OffsetRanges(), OffsetSet()
    for name, (first, last) in calls:
        if name.endswith("_range"):
            getattr(ranges, name)(first, last)
            for offset in range(first, last + 1):
                getattr(plain, name.removesuffix("_range"))(offset)
        else:
            assert getattr(ranges, name)(first) == getattr(plain, name)(first)
        assert list(ranges) == list(plain) == from_ranges(ranges.ranges) and len(ranges) == len(plain)
        assert bool(ranges) == bool(len(plain)) and all((offset in ranges) == (offset in plain) for offset in range(32))
        assert all(one[1] + 1 < two[0] for one, two in zip(ranges.ranges, ranges.ranges[1:], strict=False))
        assert ranges.count(first, last) == sum(first <= offset <= last for offset in plain)
        if ranges:
            assert ranges.first() == plain.first()


def ledgers(manager: BackoffPartitionManager) -> dict[str, Any]:
    return {
        "emitted": manager.emitted_to_offset, "pending": sorted(manager.pending), "waiting": manager.failed_offsets(),
        "acked": manager.number_acked, "failed": manager.number_failed, "done": manager.last_completed_offset(),
        "retries": {offset: record.retry_num for offset, record in manager.records.items() if offset in manager.waiting},
        "given_up": manager.given_up,
    }  # fmt: skip


class ByTheRecord:
    """The PartitionManager itself: every record is emitted, acked and failed alone."""

    def __init__(self, settings: SpoutConfig, log: PartitionLog, limit: int) -> None:
        self.manager = BackoffPartitionManager(settings, log, MemoryOffsetStore(), retry_limit=limit)

    def next_batch(self) -> list[int]:
        while self.manager.next_failed_offset() is not None:
            self.manager.fill()
        self.manager.fill()
        emitted = [record.offset for record in self.manager.waiting_to_emit]
        self.manager.waiting_to_emit.clear()
        return sorted(emitted)

    def finish(self, batch: list[int], failed: set[int]) -> None:
        for offset in batch:
            if offset not in failed:
                self.manager.ack(offset)
        for offset in batch:
            if offset in failed:
                self.manager.fail(offset)


@given(
    rounds=st.lists(st.tuples(st.integers(0, 9), st.sets(OFFSETS, max_size=6), st.booleans()), max_size=8),
    bound=st.sampled_from([0, 3, 10, MAX_LONG]),
    limit=st.sampled_from([-1, 1, 2]),
)
def test_a_batch_leaves_the_ledgers_that_its_records_leave_one_by_one(
    rounds: list[tuple[int, set[int], bool]], bound: int, limit: int
) -> None:
    """Whatever fails in whichever batch: same emissions, same pending, retries, counts and commits; so too after a restart."""
    log = log_of(3)
    ours = BatchPartitionManager(config(bound), log, MemoryOffsetStore(), retry_limit=limit)
    theirs = ByTheRecord(config(bound), log, limit)
    for appended, failing, restarts in rounds:
        log.append([b"v"] * appended)
        batch, emitted = ours.next_batch(), theirs.next_batch()
        assert [offset for first, last, _ in batch.pieces() for offset in range(first, last + 1)] == emitted
        failed = failing & set(emitted)
        told = {offset: batch.retry_of(offset) or 0 for offset in failed} | dict.fromkeys(failing - failed, 99)
        if restarts:
            batch = Batch.from_json(json.loads(json.dumps(batch.to_json())))
            again = BatchPartitionManager(config(bound), log, MemoryOffsetStore(), retry_limit=limit)
            again.resume(batch)
            assert set(again.pending) <= set(ours.pending)  # what was dropped or given up is pending no more
            again.pending = ours.pending
            again.number_acked, again.number_failed, again.given_up = ours.number_acked, ours.number_failed, ours.given_up
            ours = again
        try:
            theirs.finish(emitted, failed)
        except TooManyTupleFailuresError as error:
            with pytest.raises(TooManyTupleFailuresError, match=str(error.args[0])[:40]):
                ours.finish(batch, told)
            return
        ours.finish(batch, told)
        assert ledgers(ours) == ledgers(theirs.manager)
        counted = ours.next_batch(limit=0)
        assert counted.given_up == len(ours.given_up) and not counted.pieces()


def test_a_failed_record_is_emitted_again_before_new_ones_until_it_succeeds_or_its_retries_are_used_up() -> None:
    """retry_limit=2: the record that always fails is emitted three times, and then counted as given up."""
    log, store = log_of(20), MemoryOffsetStore()
    manager = BatchPartitionManager(config(), log, store, retry_limit=2)
    seen = []
    for _ in range(4):
        batch = manager.next_batch(limit=5)
        seen.append(batch.pieces())
        manager.finish(batch, {3: batch.retry_of(3) or 0})
        manager.commit()
        seen.append(manager.committed_to)
    assert seen == [[(0, 4, 0)], 3, [(3, 3, 1), (5, 8, 0)], 3, [(3, 3, 2), (9, 12, 0)], 13, [(13, 17, 0)], 18]
    assert manager.next_batch().given_up == 1


def test_failed_records_that_found_no_room_are_in_the_batch_after_a_restart() -> None:
    """A batch of one takes one of two failed records; a manager that resumes from it has the other one, and may not commit past it."""
    log, store = log_of(4), MemoryOffsetStore()
    manager = BatchPartitionManager(config(), log, store)
    manager.finish(manager.next_batch(), {1: 0, 2: 0})
    batch = manager.next_batch(limit=1)
    assert (batch.retries, batch.waiting) == ({1: 1}, {2: 1})
    again = BatchPartitionManager(config(), log, store)
    again.resume(Batch.from_json(batch.to_json()))
    again.finish(batch, {})
    assert again.last_completed_offset() == 2 and again.next_batch().retries == {2: 1}


def test_records_that_left_the_log_are_counted_and_commits_go_on() -> None:
    """Retention took 0 to 7 while 3 waited for a retry: 3 and the unread 5 to 7 count as lost, and 8 is next."""
    log = log_of(12)
    manager = BatchPartitionManager(config(), log, MemoryOffsetStore())
    manager.finish(manager.next_batch(limit=5), {3: 0})
    log.delete_before(8)
    batch = manager.next_batch()
    assert (batch.pieces(), batch.lost, batch.waiting) == ([(8, 11, 0)], 4, {})
    manager.finish(batch, {})
    assert manager.last_completed_offset() == 12


def test_position_beyond_the_logs_end_is_an_error_and_not_a_wait() -> None:
    """A topic made anew has fewer records than the checkpoint has seen: what comes below its position would be skipped in silence."""
    manager = BatchPartitionManager(config(), log_of(9), MemoryOffsetStore())
    manager.resume(Batch(20, 20))
    with pytest.raises(LabError, match=r"events.*the next record is 20, but the log ends at 9: the topic was made anew"):
        manager.next_batch()
    assert manager.emitted_to_offset == 20
    manager.resume(Batch(9, 9))
    assert manager.next_batch().pieces() == []


def test_records_that_left_the_log_end_the_stream_if_the_settings_say_so() -> None:
    """Without use_start_offset_time_if_offset_out_of_range the position does not move by itself."""
    log = log_of(12)
    manager = BatchPartitionManager(config(use_start_offset_time_if_offset_out_of_range=False), log, MemoryOffsetStore())
    log.delete_before(8)
    with pytest.raises(FailedFetchError, match="OFFSET_OUT_OF_RANGE"):
        manager.next_batch()


@given(st.dictionaries(OFFSETS, st.integers(0, 3)))
def test_retries_as_a_text_are_read_back(retries: dict[int, int]) -> None:
    """The text names every offset with its retry."""
    assert read_retries(retries_text(retries)) == retries
