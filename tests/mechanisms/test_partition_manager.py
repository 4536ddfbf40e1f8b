"""The PartitionManager's promise, held against a log that grows, is shortened and compacted, and a bolt that fails."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kitlib.java.numbers import MAX_LONG, to_long
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME, Fetch, FetchError, PartitionLog
from kitlib.mechanisms.offset_store import MemoryOffsetStore, read_stored_offset
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.mechanisms.spout_errors import (
    FailedFetchError,
    FetchCrashedError,
    TooManyTupleFailuresError,
)

CONFIG = SpoutConfig("events", "spout", force_from_start=True)
PATH = CONFIG.committed_path()


def new_log(records: int = 10, batch: int = 5, start: int = 0) -> PartitionLog:
    log = PartitionLog("events", start=start, end=start, max_fetch_records=batch)
    log.append([b"v"] * records)
    return log


def spout(log: PartitionLog, store: MemoryOffsetStore | None = None, **settings: Any) -> PartitionManager:
    return PartitionManager(replace(CONFIG, **settings), log, store or MemoryOffsetStore())


def ledgers(manager: PartitionManager) -> dict[str, Any]:
    return {
        "emitted_to_offset": manager.emitted_to_offset, "committed_to": manager.committed_to,
        "pending": list(manager.pending), "failed": list(manager.failed), "waiting": list(manager.waiting_to_emit),
        "acked": manager.number_acked, "number_failed": manager.number_failed,
    }  # fmt: skip


def emitted(manager: PartitionManager, calls: int = 1_000) -> list[int]:
    """The offsets that `next` emits until there is nothing to emit, at most `calls` of them."""
    offsets = []
    for _ in range(calls):
        emission = manager.next()
        if emission.record is None:
            break
        offsets.append(emission.record.offset)
    return offsets


class SpoutOnAChangingLog(RuleBasedStateMachine):
    """Any order of fetches, acks, failures, commits, restarts, deletions and compactions.

    What holds: every offset below the smallest pending one, from where the spout began, was acked
    (null payloads by the spout itself), or cleared by an ack of an offset more than
    max_offset_behind above it, or jumped over by a start or an out-of-range move, or taken out of
    the log by compaction. Failures are of offsets that were emitted.
    """

    @initialize(
        bound=st.sampled_from([MAX_LONG, 10, MAX_LONG, 3, 1, 0]),
        batch=st.integers(1, 6),
        forced=st.sampled_from([True, True, False]),
        time=st.sampled_from([EARLIEST_TIME, EARLIEST_TIME, LATEST_TIME]),
        follows=st.sampled_from([True, True, False]),
        first=st.sampled_from([0, 1, 100]),
    )
    def begin(self, bound: int, batch: int, forced: bool, time: int, follows: bool, first: int) -> None:
        self.log = PartitionLog("events", start=first, end=first, max_fetch_records=batch)
        self.log.append([b"v"] * 15)
        self.store = MemoryOffsetStore()
        self.config = SpoutConfig(
            "events", "spout", max_offset_behind=bound, force_from_start=forced, start_offset_time=time,
            use_start_offset_time_if_offset_out_of_range=follows,
        )  # fmt: skip
        self.acked: set[int] = set()
        self.excused: set[int] = set()  # cleared, jumped over, compacted away
        self.emitted: list[int] = []  # and neither acked nor failed since
        self.manager = PartitionManager(self.config, self.log, self.store)
        self.began_at = self.manager.committed_to

    @rule(
        values=st.lists(st.sampled_from([b"v", b"v", b"v", None]), max_size=8),
        gap=st.sampled_from([0, 0, 0, 2]),
        compressed=st.booleans(),
    )
    def append(self, values: list[bytes | None], gap: int, compressed: bool) -> None:
        self.excused.update(range(self.log.end, self.log.end + gap))
        self.log.append(values, gap=gap, compressed=compressed)

    @rule(part=st.sampled_from([0.0, 0.05, 0.1, 0.3, 1.0]))
    def delete_before(self, part: float) -> None:
        self.log.delete_before(self.log.start + round(part * (self.log.end - self.log.start)))

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        offsets = [record.offset for record in self.log.records()]
        if offsets:
            gone = data.draw(st.lists(st.sampled_from(offsets), max_size=4))
            self.log.compact(gone)
            self.excused.update(gone)

    @rule(times=st.integers(1, 4))
    def next(self, times: int) -> None:
        for _ in range(times):
            self.next_once()

    def next_once(self) -> None:
        manager, before = self.manager, ledgers(self.manager)
        try:
            emission = manager.next()
        except FailedFetchError as error:
            assert error.error is FetchError.OFFSET_OUT_OF_RANGE
            assert not self.config.use_start_offset_time_if_offset_out_of_range
            assert ledgers(manager) == before
            return
        self.acked.update(emission.acked)
        for null_payload in emission.acked:  # the spout's own ack clears as any other
            bound = to_long(null_payload - self.config.max_offset_behind)
            fetched = {*before["pending"], *range(before["emitted_to_offset"], manager.emitted_to_offset)}
            self.excused.update(offset for offset in fetched if offset < bound)
        if emission.record is not None:
            self.emitted.append(emission.record.offset)
        elif not emission.acked:  # out of range: the position goes to the start or to the end, as the settings say
            self.excused.update(range(before["emitted_to_offset"], manager.emitted_to_offset))

    @precondition(lambda self: self.emitted)
    @rule(data=st.data(), again=st.booleans())
    def ack(self, data: st.DataObject, again: bool) -> None:
        offset = data.draw(st.sampled_from(self.emitted))
        for _ in range(1 + again):
            self.excused.update(self.manager.ack(offset))
        self.acked.add(offset)
        self.emitted.remove(offset)

    @precondition(lambda self: self.emitted)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.emitted))
        with suppress(TooManyTupleFailuresError):
            self.manager.fail(offset)
        self.emitted.remove(offset)

    @rule(data=st.data(), failures=st.integers(1, 4), count=st.integers(1, 12))
    def emit_fail_and_fetch_again(self, data: st.DataObject, failures: int, count: int) -> None:
        for _ in range(count):
            self.next_once()
        for _ in range(min(failures, len(self.emitted))):
            self.fail(data)
        for _ in range(len(self.manager.waiting_to_emit) + 2):
            self.next_once()

    @rule()
    def commit(self) -> None:
        text = self.manager.commit()
        assert text is None or self.store.read(PATH) == text

    @rule(broken=st.sampled_from([OSError("no route"), ValueError("a bug"), *FetchError]))
    def fetch_that_fails(self, broken: Exception | FetchError) -> None:
        """Whatever a fetch fails with, the ledgers stay as they were."""
        follows = self.config.use_start_offset_time_if_offset_out_of_range
        if broken is FetchError.NO_ERROR or (broken is FetchError.OFFSET_OUT_OF_RANGE and follows):
            return
        before, log = ledgers(self.manager), self.manager.log
        self.manager.log = FailingLog(broken)
        raised = FetchCrashedError if isinstance(broken, ValueError) else FailedFetchError
        with pytest.raises(raised):
            self.manager.fill()
        self.manager.log = log
        assert ledgers(self.manager) == before

    @rule(forget=st.booleans(), luck=st.integers(0, 3))
    def restart(self, forget: bool, luck: int) -> None:
        if luck:  # a restart now and then, not at every tenth step
            return
        if forget:
            self.store.texts.clear()
        stored = read_stored_offset(self.store, PATH)
        self.manager = PartitionManager(self.config, self.log, self.store)
        begin = self.manager.committed_to
        if stored is None or begin != stored.offset:  # it jumped
            self.excused.update(range(self.began_at, begin))
        self.began_at = min(self.began_at, begin)
        self.emitted.clear()

    @invariant()
    def everything_below_the_smallest_pending_is_accounted_for(self) -> None:
        unfinished = set(range(self.began_at, self.manager.last_completed_offset())) - self.acked - self.excused
        assert not unfinished

    @invariant()
    def waiting_records_are_pending_unless_cleared_or_acked(self) -> None:
        waiting = {record.offset for record in self.manager.waiting_to_emit}
        assert waiting <= set(self.manager.pending) | self.excused | self.acked

    @invariant()
    def pending_and_failed_were_fetched(self) -> None:
        assert all(offset < self.log.end for offset in (*self.manager.pending, *self.manager.failed))


SpoutOnAChangingLog.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestSpoutOnAChangingLog = SpoutOnAChangingLog.TestCase


class FailingLog:
    """A reader whose fetch always ends the same way."""

    def __init__(self, trouble: Exception | FetchError) -> None:
        self.trouble = trouble

    def fetch(self, offset: int) -> Fetch:
        if isinstance(self.trouble, FetchError):
            return Fetch(error=self.trouble)
        raise self.trouble

    def offset_before(self, time: int) -> int | None:
        return 0


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 40), st.integers(1, 12))
def test_spout_unlimited_bound_and_finite_failures_finishes_every_record(
    data: st.DataObject, records: int, batch: int
) -> None:
    """Without a bound, on a log that keeps its records, failures that end leave every record acked and the commit at the end."""
    manager = spout(new_log(records, batch))
    acked: set[int] = set()
    on_their_way: list[int] = []
    failures = 0
    while len(acked) < records or on_their_way:
        on_their_way += emitted(manager, data.draw(st.integers(1, 5), "calls of next"))
        if not on_their_way:
            continue
        offset = on_their_way.pop(data.draw(st.integers(0, len(on_their_way) - 1), "which"))
        if failures < 3 * records and data.draw(st.booleans(), "fails"):
            failures += 1
            assert manager.fail(offset)
        else:
            manager.ack(offset)
            acked.add(offset)
    manager.commit()
    assert manager.committed_to == records and not manager.pending and not manager.failed


def stored(offset: Any, topology_id: str = "topology-1") -> str:
    return json.dumps({"topology": {"id": topology_id, "name": "t"}, "offset": offset})


# A log [100, 200): (the stored text, settings) -> where the start begins. What was recorded of Storm is in its scenarios.
STARTS: dict[str, tuple[str | None, dict[str, Any], int]] = {
    "a distance beyond 64 bits wraps and is too far": (stored(2**63 - 1), {"start_offset_time": 1, "max_offset_behind": 50}, -5),
    "an offset of more than 64 bits counts as none": (stored(2**63), {"force_from_start": False}, 200),
    "NaN beside the offset makes it count as none": (
        stored(150)[:-1] + ', "port": NaN}', {"force_from_start": False}, 200),
    "a line break in a name does not": (stored(150).replace('"t"', '"a\nb"'), {"force_from_start": False}, 150),
    "an empty text counts as none": ("", {"force_from_start": False}, 200),
    "true counts as none": (stored(True), {"force_from_start": False}, 200),
    "a list counts as none": ("[150]", {"force_from_start": False}, 200),
    "a million brackets count as none": ("[" * 1_000_000, {"force_from_start": False}, 200),
}  # fmt: skip


@pytest.mark.parametrize("case", STARTS)
def test_start_chooses_the_offset_as_storm(case: str) -> None:
    """The start's offset follows from the stored text, the topology's id, the settings and the log, and nothing is written."""
    text, given_settings, begin = STARTS[case]
    store = MemoryOffsetStore({} if text is None else {PATH: text})
    manager = spout(new_log(100, start=100), store, **given_settings)
    assert manager.committed_to == manager.emitted_to_offset == begin
    assert store.texts == ({} if text is None else {PATH: text})


def test_commit_writes_storms_text() -> None:
    """The text has Storm's keys in Storm's order; of what is not ASCII json-simple escapes the general punctuation only."""
    manager = spout(new_log(1), topology_name="a/b é—\x7f")
    emitted(manager)
    manager.ack(0)
    assert manager.commit() == (
        '{"topology":{"id":"topology-1","name":"a\\/b é\\u2014\\u007F"},"offset":1,"partition":0,'
        '"broker":{"host":"127.0.0.1","port":9092},"topic":"events"}'
    )
    assert manager.commit() is None


def test_fetch_answers_that_are_errors_name_partition_offset_and_error() -> None:
    """A refused fetch is told with topic, partition, broker, offset, the error's name and what to do."""
    manager = spout(new_log())
    manager.log = FailingLog(FetchError.NOT_LEADER_FOR_PARTITION)
    with pytest.raises(FailedFetchError) as raised:
        manager.next()
    assert raised.value.error is FetchError.NOT_LEADER_FOR_PARTITION
    told = str(raised.value)
    assert told.startswith("events-0 at 127.0.0.1:9092: the fetch from offset 0 was answered with NOT_LEADER_FOR_PARTITION.")
    assert "Find the partition's leader" in told
