"""The release before and the spout after: where their rules part from the PartitionManager's."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.java.numbers import MAX_LONG
from kitlib.mechanisms.log import PartitionLog
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.mechanisms.spout_errors import FailedFetchError
from kitlib.more.spout.earlier import EarlierPartitionManager
from kitlib.more.spout.uncommitted_cap import UncommittedCapManager


def spout(kind: Any = PartitionManager, records: int = 40, batch: int = 40, bound: int = 10, **more: Any) -> Any:
    log = PartitionLog(max_fetch_records=batch)
    log.append([b"v"] * records)
    config = SpoutConfig("events", "spout", max_offset_behind=bound, force_from_start=True)
    return kind(config, log, MemoryOffsetStore(), **more)


def emitted(manager: Any, calls: int = 200) -> list[int]:
    """The offsets that `next` emits until there is nothing to emit, at most `calls` of them."""
    found = []
    while len(found) < calls and (emission := manager.next()).record is not None:
        found.append(emission.record.offset)
    return found


def test_ack_clearing_0_9_2_forgets_all_below_and_keeps_the_acked_one() -> None:
    """One too old pending offset: 0.9.2 forgets 30 young ones and leaves the acked one pending; 0.9.3 forgets 20."""
    earlier, later = spout(EarlierPartitionManager), spout()
    for manager in (earlier, later):
        emitted(manager)
        manager.ack(30)
    assert list(earlier.pending) == list(range(30, 40)) and earlier.last_completed_offset() == 30
    assert list(later.pending) == [*range(20, 30), *range(31, 40)] and later.last_completed_offset() == 20


def test_out_of_range_0_9_2_fetches_again_at_once() -> None:
    """0.9.2 goes on from start_offset_time in the same call, whether forced or not."""
    manager = spout(EarlierPartitionManager, batch=5)
    emitted(manager, 5)
    manager.config.force_from_start = False
    manager.log.delete_before(20)
    assert emitted(manager, 2) == [20, 21]


def test_out_of_range_0_9_2_not_followed_raises() -> None:
    """Without the setting it is a failed fetch as in 0.9.3, and the setting is as before."""
    manager = spout(EarlierPartitionManager, batch=5)
    emitted(manager, 5)
    manager.config.use_start_offset_time_if_offset_out_of_range = False
    manager.log.delete_before(20)
    with pytest.raises(FailedFetchError):
        manager.next()
    assert manager.emitted_to_offset == 5


def with_a_late_failure(retries_may_poll: bool) -> Any:
    """Twenty records on their way under a cap of twenty; all are acked but 5, which fails."""
    manager = spout(UncommittedCapManager, batch=10, bound=MAX_LONG, max_uncommitted_offsets=20, retries_may_poll=retries_may_poll)
    found = emitted(manager)
    assert found == list(range(20)) and emitted(manager) == []
    for offset in found:
        if offset != 5:
            manager.ack(offset)
    manager.fail(5)
    manager.commit()
    return manager


def test_cap_not_full_1_1_0_retries() -> None:
    """After the commit fifteen are open and the cap of twenty lets a fetch through: the failed one comes again."""
    manager = with_a_late_failure(retries_may_poll=False)
    assert manager.committed_to == 5 and 5 in emitted(manager)


def test_cap_filled_before_the_failure_1_1_0_stands_still() -> None:
    """A record that fails once the cap is full is never retried by 1.1.0, and at once by 1.2.2."""
    for may_poll, comes in ((False, []), (True, [0])):
        manager = spout(UncommittedCapManager, batch=10, bound=MAX_LONG, max_uncommitted_offsets=20, retries_may_poll=may_poll)
        for offset in emitted(manager)[1:]:
            manager.ack(offset)
        manager.fail(0)
        manager.commit()
        assert emitted(manager, 1) == comes


def test_cap_failed_offset_that_is_gone_counts_as_done_in_1_2_2() -> None:
    """A failed offset that compaction took stops blocking the commit once a later record is fetched."""
    manager = with_a_late_failure(retries_may_poll=True)
    manager.log.compact([5])
    emitted(manager, 1)
    assert 5 not in manager.pending and not manager.failed
