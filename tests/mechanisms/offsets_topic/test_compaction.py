"""The cleaner's own promises, whatever is written: last values stay, nothing comes back, and retention takes the front."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import KitError
from kitlib.mechanisms.offsets_topic.compaction import (
    CleanerConfig,
    KeepsLastBatch,
    LogCleaner,
    build_offset_map,
    grouped,
    must_be_cleaned,
)
from kitlib.mechanisms.offsets_topic.segments import (
    KeylessRecordError,
    RecordBatch,
    Segment,
    SegmentedLog,
)
from kitlib.mechanisms.protocol import varint_bytes

Row = tuple[bytes | None, bytes | None, int]


def row(key: str, value: str | None, ts: int = 1) -> Row:
    """One record."""
    return key.encode(), None if value is None else value.encode(), ts


def cleaner(*batches: list[Row], config: CleanerConfig | None = None) -> LogCleaner:
    """A cleaner over a log of these batches, all of it in inactive segments."""
    log = SegmentedLog()
    for batch in batches:
        log.append(batch)
    log.roll()
    return LogCleaner(log, config or CleanerConfig())


OPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(
                st.tuples(st.sampled_from("abcd"), st.none() | st.sampled_from(["", "x", "yy"])), min_size=1, max_size=4
            ),
        ),
        st.tuples(st.just("roll"), st.none()),
        st.tuples(st.just("clean"), st.integers(0, 60)),
    ),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(OPS, st.sampled_from([1, 2, 900]), st.sampled_from([0, 20]), st.sampled_from(KeepsLastBatch))
def test_cleaner_never_loses_a_key_s_last_value(
    ops: list[tuple[str, object]], map_keys: int, retention_ms: int, rule: KeepsLastBatch
) -> None:
    """A reader of the whole log ends with the same values as without a cleaner; offsets only ever disappear."""
    found = LogCleaner(SegmentedLog(), CleanerConfig(retention_ms, map_keys=map_keys, keeps_last_batch=rule))
    log, now_ms, last, seen = found.log, 0, dict[bytes, bytes | None](), set[int]()
    for op, given_ in ops:
        now_ms += 5
        if op == "append":
            assert isinstance(given_, list)
            rows = [row(key, value, now_ms) for key, value in given_]
            log.append(rows)
            last |= {key: value for key, value, _ in rows if key is not None}
        elif op == "roll":
            log.roll()
        else:
            assert isinstance(given_, int)
            now_ms += given_
            before = {each.offset for each in log.records()}
            done = found.clean(now_ms)
            left = {each.offset for each in log.records()}
            assert left <= before and (done is not None or left == before)
            assert done is None or {each.offset for each in done.removed} == before - left
            seen |= before - left
        told = {each.key: each.value for each in log.records()}
        assert {key: value for key, value in last.items() if value is not None} == {
            key: value for key, value in told.items() if value is not None
        }
        offsets = [each.offset for each in log.records()]
        assert offsets == sorted(set(offsets)) and not seen & set(offsets)
        bases = [each.base_offset for each in log.segments]
        assert bases == sorted(set(bases)) and all(
            each.base_offset <= batch.base_offset for each in log.segments for batch in each.batches
        )


def test_log_is_picked_when_it_is_dirty_enough() -> None:
    """A ratio of exactly min_cleanable_dirty_ratio is not enough, and a log without anything new is never picked."""
    found = cleaner([row("a", "1", ts=10)])
    found.clean(10)
    found.log.append([row("b", "1", ts=20)])
    found.log.roll()
    half = found.look(30)
    assert half.dirty_ratio == 0.5 and half.cleanable_bytes == half.clean_bytes
    assert not must_be_cleaned(half, CleanerConfig()) and must_be_cleaned(half, CleanerConfig(min_cleanable_dirty_ratio=0.4))
    found.clean(30)
    assert not must_be_cleaned(found.look(10**9), CleanerConfig(min_cleanable_dirty_ratio=0))


def test_checkpoint_outside_of_the_log_counts_as_none() -> None:
    """After retention or a truncation the whole log is dirty again."""
    found = cleaner([row("a", "1")], [row("a", "2")])
    for checkpoint in (99, -5):
        found.checkpoint = checkpoint
        assert found.look(1).first_dirty == 0


def test_compacted_log_refuses_records_without_a_key() -> None:
    """The batch is refused whole."""
    log = SegmentedLog()
    with pytest.raises(KeylessRecordError, match="t-0: 1 of the batch's records have no key, first at 1"):
        log.append([row("a", "1"), (None, b"1", 1)])
    assert log.end_offset == 0
    with pytest.raises(KitError, match="a batch of no records"):
        log.append([])


def test_segments_become_one_while_they_fit_by_bytes_and_by_offsets() -> None:
    """An empty batch has 61 bytes; a segment's offsets lie within 2^31 - 1 of its base."""

    def segments(*bases: int) -> list[Segment]:
        return [Segment(base, [RecordBatch(base, base, (), 1)]) for base in bases]

    def told(found: list[list[Segment]]) -> list[list[int]]:
        return [[each.base_offset for each in group] for group in found]

    assert told(grouped(segments(0, 1, 2, 3, 4), 122, 5)) == [[0, 1], [2, 3], [4]]
    assert told(grouped(segments(0, 5), 10**6, 2**31)) == [[0, 5]]
    assert told(grouped(segments(0, 5), 10**6, 2**31 + 1)) == [[0], [5]]
    assert told(grouped([*segments(0), Segment(5)], 10**6, 2**40)) == [[0, 5]]


def test_gap_at_the_end_of_the_range_counts_as_read() -> None:
    """Offsets that are gone need no place in the map: the next pass begins after them."""
    found = cleaner([row("a", "1")], [row("b", "1")])
    found.log.segments[0].batches.pop()
    looked = found.look(1)
    assert build_offset_map(found.log, looked, 9).latest == looked.first_uncleanable - 1 == 1


def test_horizon_makes_a_batch_larger() -> None:
    """It takes the place of the base timestamp, so that each record's own is told by its distance from it."""
    found = cleaner([row("a", None, ts=1)], [row("b", "1", ts=1)])
    before = found.log.batches()[0].size_bytes
    found.clean(10)
    assert found.log.batches()[0].size_bytes - before == varint_bytes(1 - (10 + 86_400_000)) - 1 == 3
