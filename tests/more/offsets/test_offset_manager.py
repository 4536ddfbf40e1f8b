"""The offset manager: what is committed is fetched, wherever the coordinator is, and a wrong answer needs the old rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.more.offsets.messages import SUBSCRIPTION
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import RULES, OffsetEvent
from kitlib.more.offsets.records import decode
from kitlib.more.offsets.wire import write_message
from tests.more.offsets.led_partition import CONFIG, DAY_MS, T, U, led, offset_of


def words(notes: list[OffsetEvent]) -> list[str]:
    """What the notes tell of."""
    return [each.what for each in notes]


def subscription(*topics: str) -> bytes:
    """A member's subscription, version 0."""
    return b"\x00\x00" + write_message(SUBSCRIPTION, 0, {"topics": list(topics), "userData": None})


@pytest.mark.parametrize("rules", RULES)
def test_fetch_answers_the_last_commit_and_minus_one_for_none(rules: str) -> None:
    """The last commit counts, lower or not; what was never committed is -1 without an error."""
    manager = led(rules)
    for offset in (7, 3):
        error, notes = manager.commit("g", {T: offset}, 10)
        assert error is ErrorCode.NONE and words(notes) == ["write", "cache"]
    assert offset_of(manager) == (ErrorCode.NONE, 3) and offset_of(manager, U) == (ErrorCode.NONE, -1)
    assert (manager.num_offsets, manager.num_groups) == (1, 1)


FORMATS = {"0.8.2": (0, 0, None), "2015-04": (1, 1, 10 + DAY_MS), "0.9.0": (1, 1, 10 + DAY_MS), "4.3.1": (1, 4, None)}


@pytest.mark.parametrize("rules", FORMATS)
def test_commit_writes_the_format_of_its_release(rules: str) -> None:
    """The key's type, the value's version, and the expiry that only the middle ones write down."""
    manager, (kind, version, expires_ms) = led(rules), FORMATS[rules]
    manager.commit("g", {T: 5}, 10)
    (record,) = manager.log.records()
    found = decode(record.key, record.value)
    assert found.value is not None and (found.type.number, found.version) == (kind, version)
    assert found.value.get("expireTimestamp") == expires_ms and found.value["commitTimestamp"] == 10


def test_answers_elsewhere_are_not_coordinator() -> None:
    """A broker that does not lead the partition says so, to commits and fetches; so does one that has resigned."""
    manager = OffsetManager(config=CONFIG)
    assert manager.commit("g", {T: 1}, 0)[0] is ErrorCode.NOT_COORDINATOR and manager.next_due() is None
    manager.lead(SegmentedLog(), 0)
    manager.commit("g", {T: 1}, 0)
    assert manager.resign() == [OffsetEvent("evict", {"key": "g orders-0", "why": "moved"})] and manager.resign() == []
    assert manager.fetch("g", [T]) == (ErrorCode.NOT_COORDINATOR, {T: -1})
    assert manager.write_group("g", 0) == []


def test_purge_by_the_new_clock_keeps_what_is_read_and_then_forgets_the_group() -> None:
    """A live group's offsets stay; those of an empty one go when it has been empty for the retention, and the group with them."""
    manager = led("4.3.1", config=replace(CONFIG, retention_check_interval_ms=DAY_MS // 10))
    manager.write_group("g", 0, members={"A": subscription("orders")})
    manager.commit("g", {T: 1}, 0)
    manager.advance(3 * DAY_MS)
    assert offset_of(manager) == (ErrorCode.NONE, 1)
    manager.write_group("g", 3 * DAY_MS)
    notes = manager.advance(4 * DAY_MS - 1)
    assert not notes and offset_of(manager)[1] == 1
    notes = manager.advance(4 * DAY_MS)
    assert [(each.what, each.data["key"]) for each in notes] == [
        ("write", "g orders-0"), ("evict", "g orders-0"), ("write", "group g"),
    ]  # fmt: skip
    assert offset_of(manager)[1] == -1 and not manager.cache.groups
