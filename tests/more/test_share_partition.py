"""A share partition: what a record's answers, its lock and its deliveries make of it."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kitlib.more.share_partition import (
    Acknowledge,
    Change,
    Delivery,
    InvalidRecordStateError,
    RecordState,
    SharePartition,
)

ACCEPT, RELEASE, REJECT, RENEW = Acknowledge
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState


def handed(share: SharePartition, member: str = "A", most: int = 3, log_end: int = 10, now_ms: int = 0) -> list[tuple[int, int]]:
    return [(each.offset, each.delivery_count) for each in share.acquire(member, most, log_end, now_ms)]


def test_acknowledge_accept_out_of_order_moves_the_start_offset_over_what_is_done() -> None:
    """The start offset passes a record only when all records below it are done as well."""
    share = SharePartition()
    handed(share)
    share.acknowledge("A", {1: ACCEPT, 2: REJECT}, 0)
    assert share.start_offset == 0
    assert share.acknowledge("A", {0: ACCEPT}, 0) == [Change(0, ACKNOWLEDGED, 1)]
    assert (share.start_offset, share.records) == (3, {})


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_acknowledge_release_of_the_last_delivery_archives(limit: int) -> None:
    """After so many deliveries as the limit says, a record that is released is archived, and the start offset passes it."""
    share = SharePartition(delivery_limit=limit)
    for count in range(1, limit + 1):
        assert handed(share, most=1, log_end=1) == [(0, count)]
        [change] = share.acknowledge("A", {0: RELEASE}, 0)
        assert change == Change(0, ARCHIVED if count == limit else AVAILABLE, count)
    assert (handed(share, log_end=1), share.start_offset) == ([], 1)


def test_expire_after_the_lock_makes_the_record_available_and_the_late_answer_is_refused() -> None:
    """A lock that runs out is no failure of the record alone: the answer that comes too late is refused, and changes nothing."""
    share = SharePartition(lock_ms=100)
    handed(share, most=2)
    assert share.next_lock_ends_ms() == 100 and share.expire(99) == []
    assert share.expire(100) == [Change(0, AVAILABLE, 1), Change(1, AVAILABLE, 1)]
    assert handed(share, "B", most=1, now_ms=100) == [(0, 2)]
    before = {offset: astuple(row) for offset, row in share.records.items()}
    with pytest.raises(InvalidRecordStateError, match=r"A: offset 0 .* B has its lock now\. Answer within lock_ms=100"):
        share.acknowledge("A", {0: ACCEPT, 1: ACCEPT}, 110)
    assert {offset: astuple(row) for offset, row in share.records.items()} == before


def test_acquire_with_all_locks_taken_hands_out_only_what_came_back() -> None:
    """One record that is not done holds up new ones once the window is full, although all others are done."""
    share = SharePartition(max_record_locks=4)
    assert len(handed(share, most=9)) == 4
    share.acknowledge("A", {1: ACCEPT, 2: ACCEPT, 3: ACCEPT}, 0)
    assert handed(share) == []
    share.acknowledge("A", {0: RELEASE}, 0)
    assert handed(share) == [(0, 2)]
    share.acknowledge("A", {0: ACCEPT}, 0)
    assert handed(share, most=9) == [(4, 1), (5, 1), (6, 1), (7, 1)]


def test_acquire_of_records_that_come_back_often_separates_them() -> None:
    """A batch that fails as a whole comes back in halves, and each record's last delivery is made alone."""
    share, sizes = SharePartition(delivery_limit=5), []
    while share.start_offset < 8:
        found = share.acquire("A", 8, 8, 0)
        sizes.append((len(found), found[0].delivery_count))
        share.acknowledge("A", {each.offset: RELEASE for each in found}, 0)
    assert sizes[:4] == [(8, 1), (8, 2), (8, 3), (4, 4)]
    assert {count for count, deliveries in sizes if deliveries == 5} == {1}


def test_acquire_halves_the_whole_batch_also_when_some_of_it_is_done() -> None:
    """Half of four, though two are done by now: Kafka counts the batch as it was acquired first."""
    share = SharePartition(delivery_limit=4)
    handed(share, most=4, log_end=4)
    share.close_session("A")
    assert handed(share, most=4, log_end=4) == [(0, 2), (1, 2), (2, 2), (3, 2)]
    share.acknowledge("A", {0: ACCEPT, 1: RELEASE, 2: RELEASE, 3: RELEASE}, 0)
    assert handed(share, most=3, log_end=4) == [(1, 3), (2, 3)]


def test_acquire_takes_the_size_from_the_first_record_that_comes_back_often() -> None:
    """And one that is passed before it is known limits nothing."""
    share = SharePartition(delivery_limit=4)
    handed(share, log_end=3)
    share.acknowledge("A", {1: RELEASE}, 0)
    assert handed(share, most=1, log_end=3) == [(1, 2)]
    share.close_session("A")
    assert handed(share, log_end=3) == [(0, 2), (1, 3), (2, 2)]


def test_acknowledge_that_is_refused_has_renewed_the_locks_before() -> None:
    """Kafka begins a renewed lock where it meets it, and goes back over the other answers alone."""
    share = SharePartition(lock_ms=100)
    handed(share, most=1)
    handed(share, "B", most=1)
    with pytest.raises(InvalidRecordStateError):
        share.acknowledge("A", {0: RENEW, 1: RENEW}, 10)
    assert [share.records[offset].lock_until_ms for offset in (0, 1)] == [110, 100]


def test_acquire_of_a_record_that_comes_back_often_brings_no_new_ones_along() -> None:
    """A record with many deliveries comes without new records, so that these are not archived with it."""
    share = SharePartition(delivery_limit=5)
    for _ in range(3):
        found = handed(share, most=4, log_end=4)
        share.acknowledge("A", {offset: ACCEPT if offset else RELEASE for offset, _ in found}, 0)
    assert handed(share, most=8, log_end=20) == [(0, 4)]
    assert handed(share, most=2, log_end=20) == [(4, 1), (5, 1)]


def test_acquire_does_not_add_a_batch_that_comes_back_often_to_another_one() -> None:
    """What another batch has to offer comes first and without it; then it comes by itself."""
    share = SharePartition(delivery_limit=5)
    handed(share, most=1)
    handed(share, "B", most=2)
    for _ in range(2):
        share.acknowledge("B", {1: RELEASE}, 0)
        assert handed(share, "B", most=1, log_end=3)[0][0] == 1
    share.acknowledge("B", {1: RELEASE}, 0)
    share.acknowledge("A", {0: RELEASE}, 0)
    assert handed(share, most=8, log_end=9) == [(0, 2)]
    assert handed(share, most=8, log_end=9) == [(1, 4)]


MEMBERS = st.sampled_from("ABC")
ANSWERS = st.sampled_from(Acknowledge)


class AnyOrder(RuleBasedStateMachine):
    """Consumers, locks and answers in any order, beside a list of what became of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.share = SharePartition(delivery_limit=3, lock_ms=50, max_record_locks=6)
        self.now_ms = self.log_end = 0
        self.fate: dict[int, str] = {}  # of each record that is done, why
        self.held: dict[int, str] = {}
        self.delivered: dict[int, int] = {}  # how often each record was handed out

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.log_end += count

    @rule(member=MEMBERS, most=st.integers(1, 8))
    def acquire(self, member: str, most: int) -> None:
        share = self.share
        has_room = share.next_fetch_offset < share.end_offset or share.end_offset - share.start_offset < share.max_record_locks
        could = has_room and share.next_fetch_offset < self.log_end
        found = share.acquire(member, most, self.log_end, self.now_ms)
        assert bool(found) == could and len(found) <= most
        for each in found:
            assert each.offset not in self.held and each.offset not in self.fate
            self.delivered[each.offset] = self.delivered.get(each.offset, 0) + 1
            assert each == Delivery(each.offset, self.delivered[each.offset])
            self.held[each.offset] = member

    @precondition(lambda self: self.held)
    @rule(answer=ANSWERS, data=st.data())
    def acknowledge(self, answer: Acknowledge, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        changed = self.share.acknowledge(self.held[offset], {offset: answer}, self.now_ms)
        assert [each.offset for each in changed] == ([] if answer is RENEW else [offset])
        self.take(changed, answer.value)

    @rule(member=MEMBERS, offset=st.integers(0, 30))
    def acknowledge_what_is_not_ours(self, member: str, offset: int) -> None:
        if offset >= self.share.start_offset and self.held.get(offset) != member:
            with pytest.raises(InvalidRecordStateError):
                self.share.acknowledge(member, {offset: ACCEPT}, self.now_ms)

    @rule(ms=st.integers(1, 60))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.take(self.share.expire(self.now_ms), "lock")

    @rule(member=MEMBERS)
    def close(self, member: str) -> None:
        self.take(self.share.close_session(member), "closed")

    def take(self, changed: list[Change], why: str) -> None:
        for each in changed:
            del self.held[each.offset]
            assert each.delivery_count == self.delivered[each.offset]
            if each.state is ARCHIVED and why != "reject":
                assert each.delivery_count == self.share.delivery_limit
                self.fate[each.offset] = "limit"
            elif each.state.is_terminal:
                self.fate[each.offset] = why

    @invariant()
    def nothing_is_lost_without_a_reason(self) -> None:
        assert all(offset in self.fate for offset in range(self.share.start_offset))

    @invariant()
    def the_rows_are_those_of_the_window(self) -> None:
        share = self.share
        assert sorted(share.records) == list(range(share.start_offset, share.end_offset))
        assert share.end_offset - share.start_offset <= share.max_record_locks
        assert share.end_offset <= self.log_end

    @invariant()
    def each_row_is_whole(self) -> None:
        for offset, row in self.share.records.items():
            assert 1 <= row.delivery_count <= self.share.delivery_limit
            assert (row.state is ACQUIRED) == (row.member is not None) == (row.lock_until_ms is not None) == (offset in self.held)
            assert row.state.is_terminal == (offset in self.fate)

    @invariant()
    def the_first_row_is_not_done(self) -> None:
        share = self.share
        assert share.start_offset not in share.records or not share.records[share.start_offset].state.is_terminal


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
