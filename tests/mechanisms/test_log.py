"""The model of a partition's log: fetches, retention, unclean elections and compaction, beside a plain dict."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME, Fetch, FetchError, PartitionLog, Record


def offsets(fetched: Fetch) -> list[int]:
    assert fetched.error is FetchError.NO_ERROR
    return [record.offset for record in fetched.records]


def batches(*sizes: int, start: int = 0, most: int = 5) -> PartitionLog:
    """A log with one compressed batch for each size."""
    log = PartitionLog("events", start=start, end=start, max_fetch_records=most)
    for size in sizes:
        log.append([b"v"] * size, compressed=True)
    return log


class LogBesideADict(RuleBasedStateMachine):
    """The same operations on a PartitionLog and on a dict from offsets to (batch, value)."""

    @initialize(most=st.integers(1, 7), first=st.sampled_from([0, 100]))
    def begin(self, most: int, first: int) -> None:
        self.log = PartitionLog("events", start=first, end=first, max_fetch_records=most)
        self.plain: dict[int, tuple[int, bytes | None]] = {}
        self.start = self.end = first
        self.most = most
        self.batch = 0

    @rule(values=st.lists(st.sampled_from([b"a", b"b", None]), max_size=7), gap=st.sampled_from([0, 0, 3]), whole=st.booleans())
    def append(self, values: list[bytes | None], gap: int, whole: bool) -> None:
        given_offsets = self.log.append(values, gap=gap, compressed=whole, at_ms=7)
        assert given_offsets == [self.end + gap + index for index in range(len(values))]
        self.batch += 1
        for offset, value in zip(given_offsets, values, strict=True):
            self.batch += not whole
            self.plain[offset] = self.batch, value
        self.end += gap + len(values)

    def members(self, batch: int) -> list[int]:
        return [offset for offset, (own, _) in self.plain.items() if own == batch]

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        to = data.draw(st.integers(self.start, self.end))
        self.plain = {at: kept for at, kept in self.plain.items() if max(self.members(kept[0])) >= to}
        self.start = max(self.start, min([to, *self.plain]))
        assert self.log.delete_before(to) == self.start

    @rule(data=st.data())
    def truncate_to(self, data: st.DataObject) -> None:
        to = data.draw(st.integers(self.start, self.end))
        dropped = [at for at, (batch, _) in self.plain.items() if max(self.members(batch)) >= to]
        self.plain = {at: kept for at, kept in self.plain.items() if at not in dropped}
        self.end = min([to, *dropped])
        self.start = min(self.start, self.end)
        assert self.log.truncate_to(to) == self.end

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        gone = data.draw(st.sets(st.integers(self.start - 2, self.end + 2), max_size=8))
        self.log.compact(gone)
        self.plain = {at: kept for at, kept in self.plain.items() if at not in gone}

    @rule(data=st.data())
    def fetch(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.start - 2, self.end + 2))
        fetched = self.log.fetch(at)
        if at < self.start or at > self.end:
            assert fetched == Fetch(error=FetchError.OFFSET_OUT_OF_RANGE)
            return
        wanted: list[int] = []
        for batch in dict.fromkeys(own for own, _ in self.plain.values()):
            more = self.members(batch)
            if max(more) < at:
                continue
            if wanted and len(wanted) + len(more) > self.most:
                break
            wanted += more
        assert offsets(fetched) == wanted
        assert [record.value for record in fetched.records] == [self.plain[offset][1] for offset in wanted]

    @invariant()
    def holds_the_same(self) -> None:
        log = self.log
        assert [(r.offset, r.value) for r in log.records()] == [(at, value) for at, (_, value) in sorted(self.plain.items())]
        assert (log.start, log.end) == (self.start, self.end) == (log.offset_before(EARLIEST_TIME), log.offset_before(LATEST_TIME))
        assert all(batch for batch in log.batches)


LogBesideADict.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestLogBesideADict = LogBesideADict.TestCase


def test_delete_before_never_moves_the_start_back() -> None:
    """A smaller offset than the start deletes nothing."""
    log = batches(3, start=10)
    assert log.delete_before(2) == 10 and len(log.records()) == 3


def test_truncate_to_beyond_the_end_changes_nothing() -> None:
    """There is nothing to cut off beyond the end."""
    log = batches(3)
    assert log.truncate_to(99) == 3 and len(log.records()) == 3


def test_offset_before_a_time_is_the_tables_or_none() -> None:
    """A time stamp is looked up; one that is not there has no offset."""
    log = PartitionLog(offsets_by_time={1_000: 2})
    log.append([b"v"] * 3)
    assert (log.offset_before(1_000), log.offset_before(1_001)) == (2, None)


@pytest.mark.parametrize("code", [*range(13)])
def test_error_code_of_the_wire_has_its_name(code: int) -> None:
    """The codes 0 to 12 of Kafka 0.8 are told apart."""
    assert FetchError.of(code).value == code


@pytest.mark.parametrize("code", [-1, 13, 14, 42, 10**30])
def test_error_code_unknown_is_unknown(code: int) -> None:
    """Every other code is UNKNOWN."""
    assert FetchError.of(code) is FetchError.UNKNOWN


def test_record_and_log_show_themselves() -> None:
    """A log tells how many records lie where; a record carries its time."""
    log = PartitionLog()
    log.append([None], at_ms=5)
    assert repr(log) == "<PartitionLog events: 1 records in [0, 1)>"
    assert log.records() == [Record(0, None, None, 5)]
