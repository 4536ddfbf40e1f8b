"""Health figures and their bounds: which disease rings which alarm, and when."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.offsets.health import DAY_MS, THRESHOLDS, Health, Threshold, alarms, first_ring

WELL: dict[str, Any] = {
    "dirty_ratio": 0.4, "records": 300, "keys": 100, "cached_offsets": 100, "groups": 20, "commits_a_minute": 60.0, "load_ms": 2_000,
}  # fmt: skip


def days(*changes: dict[str, Any]) -> list[Health]:
    """A look a day; each changes what the looks before it showed."""
    shown, looks = dict(WELL), []
    for day, change in enumerate(changes):
        shown |= change
        looks.append(Health(day * DAY_MS, **shown))
    return looks


# What happens day by day -> the alarms that ring, each with its day.
CASES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, int]]]] = {
    "all is well": ([{}] * 5, []),
    "the cleaner has died: the ratio stays above its bound for two days": (
        [{}, *({"dirty_ratio": ratio} for ratio in (0.76, 0.8, 0.9, 0.95))], [("dirty ratio", 3)]),
    "a ratio that touches the bound is not above it": ([{"dirty_ratio": 0.75}] * 9, []),
    "a cleaner that comes in time begins the count anew": (
        [{"dirty_ratio": ratio} for ratio in (0.8, 0.8, 0.1, 0.8, 0.8)], []),
    "no pass comes to a dirty log: one look tells": (
        [{}, {"dirty_ratio": 0.8, "since_cleaned_ms": 8 * DAY_MS}, {"since_cleaned_ms": 8 * DAY_MS + 1}], [("days without a pass", 2)]),
    "no pass comes to a log that needs none": ([{"dirty_ratio": 0.75, "since_cleaned_ms": 9 * DAY_MS}] * 3, []),
    "records pile up": ([{}, {"records": 1_200}, {"records": 1_201}], [("records a key", 2)]),
    "a load takes minutes": ([{}, {"load_ms": 61_000}], [("load time", 1)]),
    "a load has ended early": ([{}, {"cached_offsets": 79}], [("offsets missing in the cache", 1)]),
    "a purge has taken everything": (
        [{}, {"cached_offsets": 0, "groups": 0, "keys": 0}], [("offset cache size", 1), ("group count", 1)]),
    "consumers cannot begin": ([{}, {"commits_a_minute": 6.0}], [("commit rate", 1)]),
    "a figure that is not known rings nothing": (
        [{}, dict.fromkeys(WELL)], []),
    "and does not end a count": (
        [{"dirty_ratio": 0.9}, {"dirty_ratio": None}, {"dirty_ratio": 0.9}], [("dirty ratio", 2)]),
    "more of everything is not fewer": ([{}, {"cached_offsets": 200, "groups": 40, "commits_a_minute": 120.0}], []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_alarm_rings_for_its_disease_alone(case: str) -> None:
    """Each figure above its bound, for as long as it must be, at the first look at which it is."""
    changes, rung = CASES[case]
    assert [(alarm.threshold.name, alarm.at_ms // DAY_MS) for alarm in alarms(days(*changes))] == rung


def test_alarms_come_in_the_order_of_time_and_say_why() -> None:
    """The first that rings is the one that could have helped."""
    found = alarms(days({}, {"load_ms": 90_000}, {"records": 5_000}))
    assert [alarm.threshold.name for alarm in found] == ["load time", "records a key"]
    assert str(found[0]) == (
        f"at {DAY_MS} load time is 90000, above 60000: a compacted partition is read in seconds; until then, its groups "
        "cannot start"
    )


def test_first_ring_asks_one_threshold() -> None:
    """Without looks nothing rings; a threshold of one's own is asked like the kit's."""
    mine = Threshold("groups", lambda now, before: now.groups, 19, "few groups only")
    ring = first_ring(days({}), mine)
    assert ring is not None and ring.value == 20 and first_ring([], mine) is None
    with pytest.raises(KnobError, match="groups: for_ms is -1, give 0 ms or more"):
        Threshold("groups", lambda now, before: None, 1, "", for_ms=-1)


def test_records_a_key_needs_both_figures() -> None:
    """No keys, no share."""
    assert [Health(0, records=10, keys=keys).records_a_key for keys in (4, 0, None)] == [2.5, None, None]
    assert len({each.name for each in THRESHOLDS}) == len(THRESHOLDS) and all(each.why for each in THRESHOLDS)
