"""The later retry manager: delays, limits, order, and what it does when failed offsets are gone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.log import LATEST_TIME, PartitionLog
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.mechanisms.partition_manager import EmitState, SpoutConfig
from kitlib.mechanisms.spout_errors import TooManyTupleFailuresError
from kitlib.more.spout.retry import BackoffPartitionManager, RetryRecord
from tests.mechanisms.test_partition_manager import emitted


def spout(records: int = 10, batch: int = 5, bound: int = MAX_LONG, forced: bool = True, **retry: Any) -> BackoffPartitionManager:
    log = PartitionLog(max_fetch_records=batch)
    log.append([b"v"] * records)
    config = SpoutConfig("events", "spout", max_offset_behind=bound, force_from_start=True)
    manager = BackoffPartitionManager(config, log, MemoryOffsetStore(), **retry)
    config.force_from_start = forced
    return manager


# (initial, multiplier, longest) -> the delay of the retries 1, 2, 3, ... in ms.
DELAYS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "the defaults do not wait": ({}, [0, 0, 0]),
    "a multiplier of 1 waits the same": ({"retry_initial_delay_ms": 100}, [100, 100, 100]),
    "a multiplier of 2 doubles": ({"retry_initial_delay_ms": 100, "retry_delay_multiplier": 2.0}, [100, 200, 400, 800]),
    "a fraction of a ms is cut off": ({"retry_initial_delay_ms": 5, "retry_delay_multiplier": 1.5}, [5, 7, 11, 16]),
    "never longer than the longest": (
        {"retry_initial_delay_ms": 100, "retry_delay_multiplier": 10.0, "retry_delay_max_ms": 2_500}, [100, 1_000, 2_500, 2_500]),
    "the longest bounds the first one too": ({"retry_initial_delay_ms": 500, "retry_delay_max_ms": 200}, [200, 200]),
}  # fmt: skip


@pytest.mark.parametrize("case", DELAYS)
def test_delay_grows_with_each_retry_up_to_the_longest(case: str) -> None:
    """The n-th retry waits initial * multiplier^(n-1) ms, cut to whole ms, at most retry_delay_max_ms."""
    retry, delays = DELAYS[case]
    manager = spout(**retry)
    assert [manager.delay_ms(number) for number in range(1, len(delays) + 1)] == delays


@pytest.mark.parametrize("number", [64, 1_000, 1_100, 10**6])
def test_delay_beyond_all_numbers_is_the_longest(number: int) -> None:
    """A delay that no 64 bits, or no float, can hold is the longest one."""
    manager = spout(retry_initial_delay_ms=1, retry_delay_multiplier=2.0, retry_delay_max_ms=MAX_LONG)
    assert manager.delay_ms(number) == MAX_LONG


def test_fail_retry_waits_and_new_records_flow() -> None:
    """While a failed record waits, new ones are fetched; when its time has come, it comes before them."""
    manager = spout(20, retry_initial_delay_ms=100)
    assert emitted(manager, 5) == [0, 1, 2, 3, 4]
    manager.now_ms = 10
    assert manager.fail(2) is True and manager.records[2] == RetryRecord(2, 1, 110)
    manager.now_ms = 109
    assert emitted(manager, 5) == [5, 6, 7, 8, 9]
    manager.now_ms = 110
    assert emitted(manager, 3) == [2, 10, 11]
    assert list(manager.pending)[:3] == [0, 1, 2] and manager.failed_offsets() == []


def test_fail_again_waits_longer() -> None:
    """Each failure of the same record counts on; an ack ends the count."""
    manager = spout(1, retry_initial_delay_ms=10, retry_delay_multiplier=3.0)
    waited = []
    for _ in range(3):
        assert emitted(manager) == [0]
        manager.fail(0)
        waited.append(manager.records[0].retry_at_ms - manager.now_ms)
        manager.now_ms = manager.records[0].retry_at_ms
    manager.ack(0)
    manager.fail(0)
    assert waited == [10, 30, 90] and manager.records[0].retry_num == 1


@pytest.mark.parametrize(("limit", "retries"), [(1, 1), (3, 3), (0, 20), (-1, 20)])
def test_fail_more_often_than_the_limit_gives_the_record_up(limit: int, retries: int) -> None:
    """After `retry_limit` retries the next failure is the last: the record is no longer pending; 0 or less is no limit."""
    manager = spout(2, retry_limit=limit)
    assert emitted(manager) == [0, 1]
    manager.ack(1)
    for _ in range(retries):
        assert manager.fail(0) is True and emitted(manager) == [0]
    if limit > 0:
        assert manager.fail(0) is False
        assert manager.given_up == {0} and not manager.pending and manager.records == {} and emitted(manager) == []
        assert manager.last_completed_offset() == 2
    else:
        assert manager.fail(0) is True and manager.given_up == set()


def test_fail_more_often_than_the_bound_before_an_ack_raises_and_plans_nothing() -> None:
    """Unlike 0.9.3, the failure that is one too many is not kept for a retry."""
    manager = spout(10, bound=1)
    emitted(manager, 5)
    manager.fail(4)
    with pytest.raises(TooManyTupleFailuresError):
        manager.fail(4)
    assert manager.records[4].retry_num == 1 and manager.number_failed == 2


def test_out_of_range_retry_drops_what_is_gone_and_goes_on() -> None:
    """Failed offsets below the log's start are dropped and counted as lost; the others are retried; the position stays."""
    manager = spout(20, batch=10)
    emitted(manager, 10)
    for offset in (2, 4, 8):
        manager.fail(offset)
    manager.log.delete_before(5)  # type: ignore[attr-defined]
    assert manager.next().state is EmitState.NO_EMITTED
    assert (manager.failed_offsets(), manager.lost_message_count, manager.emitted_to_offset) == ([8], 2, 10)
    assert emitted(manager) == [8, *range(10, 20)]


def test_out_of_range_retry_leaves_what_is_gone_pending() -> None:
    """What is dropped from the retries stays pending, and the commit stays at it."""
    manager = spout(10, batch=10)
    emitted(manager, 10)
    manager.fail(2)
    manager.log.delete_before(5)  # type: ignore[attr-defined]
    for offset in range(10):
        if offset != 2:
            manager.ack(offset)
    emitted(manager)
    assert manager.last_completed_offset() == 2


@pytest.mark.parametrize("forced", [True, False])
def test_out_of_range_new_records_go_on_at_the_earliest_that_is_left(forced: bool) -> None:
    """The position goes to the log's start, whatever force_from_start says, and what lies between counts as lost."""
    manager = spout(20, forced=forced)
    emitted(manager, 5)
    manager.log.delete_before(12)  # type: ignore[attr-defined]
    assert manager.next().state is EmitState.NO_EMITTED
    assert (manager.emitted_to_offset, manager.lost_message_count) == (12, 7)
    assert emitted(manager) == list(range(12, 20))


def test_out_of_range_beyond_the_end_never_moves_back() -> None:
    """After an unclean election the position lies beyond the end: it stays there, and failed offsets beyond it are dropped."""
    manager = spout(20, batch=20)
    emitted(manager)
    manager.fail(15)
    manager.log.truncate_to(10)  # type: ignore[attr-defined]
    assert manager.next().state is EmitState.NO_EMITTED
    assert manager.emitted_to_offset == 20 and manager.offset_at(LATEST_TIME) == 10
    assert manager.failed_offsets() == [15]


def test_failed_offset_that_was_compacted_is_asked_for_for_ever() -> None:
    """A failed record that compaction took never comes, and new records do not come either."""
    manager = spout(10)
    emitted(manager, 5)
    manager.fail(2)
    manager.log.compact([2])  # type: ignore[attr-defined]
    assert emitted(manager) == [] and manager.failed_offsets() == [2] and manager.emitted_to_offset == 5


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["ack", "fail"]), st.integers(0, 30)), max_size=60))
def test_retries_any_order_every_record_that_is_not_acked_comes_again(calls: list[tuple[int, str, int]]) -> None:
    """Whatever fails in whatever order, what is left is handed out again, and all acks bring the commit to the end."""
    manager = spout(10, batch=10, retry_initial_delay_ms=10, retry_delay_multiplier=2.0)
    on_their_way = set(emitted(manager))
    for offset, what, later in calls:
        manager.now_ms += later
        on_their_way.update(emitted(manager))
        if offset in on_their_way:
            getattr(manager, what)(offset)
            on_their_way.discard(offset)
    manager.now_ms += 10**9
    on_their_way.update(emitted(manager))
    for offset in sorted(on_their_way):
        manager.ack(offset)
    assert manager.last_completed_offset() == 10 and not manager.records and not manager.waiting
    assert set(manager.next().acked) == set() and not manager.due
