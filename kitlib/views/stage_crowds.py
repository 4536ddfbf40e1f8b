"""Many equal travellers become one, with their number, until those that are left can be seen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from kitlib.views.stage import (
    Traveller,
)

MOST_TRAVELLERS = 1_200  # of a score; more are grouped
MOST_AT_ONCE, MOST_ON_A_WAY = 200, 32  # at the same time on the stage, and between the same two; more are grouped
LONGEST_GRAIN_S = 60.0  # what is farther apart is never grouped


def gathered(travellers: Sequence[Traveller]) -> list[Traveller]:
    """The travellers, few enough to be shown: those that are alike and cross at about the same time are one, with their number."""
    ways: dict[tuple[str, str], list[Traveller]] = {}
    for each in travellers:
        ways.setdefault((each.source, each.target), []).append(each)
    found = [each for way in ways.values() for each in _thinned(way, lambda kept: _most_at_once(kept) > MOST_ON_A_WAY)]
    found = _thinned(found, lambda kept: len(kept) > MOST_TRAVELLERS or _most_at_once(kept) > MOST_AT_ONCE)
    return sorted(found, key=lambda each: each.t0)


def _thinned(travellers: list[Traveller], are_too_many: Callable[[list[Traveller]], bool]) -> list[Traveller]:
    """The same, grouped ever more coarsely until they are few enough."""
    grain, found = 0.0, travellers
    while are_too_many(found) and grain < LONGEST_GRAIN_S:
        grain = grain * 1.7 or 0.05
        found = _grouped(travellers, grain)
    return found


def _most_at_once(travellers: Iterable[Traveller]) -> int:
    most = now = 0
    for _, change in sorted(each for t in travellers for each in ((t.t0, 1), (t.t2, -1))):
        now += change
        most = max(most, now)
    return most


def _grouped(travellers: Iterable[Traveller], grain: float) -> list[Traveller]:
    groups: dict[Hashable, list[Traveller]] = {}
    for each in travellers:
        bubble = each.label if each.look.shape == "bubble" else ""
        key = (each.source, each.target, each.look, each.fate, bubble, round(each.t0 / grain), round(each.t1 / grain))
        groups.setdefault(key, []).append(each)
    return [_one(group) for group in groups.values()]


def _one(group: list[Traveller]) -> Traveller:
    if len(group) == 1:
        return group[0]
    first = group[0]
    if first.look.shape == "bubble":
        return replace(first, t2=max(each.t2 for each in group))
    count = sum(each.count for each in group)
    middle = group[len(group) // 2]
    return replace(middle, t0=min(e.t0 for e in group), t2=max(e.t2 for e in group), count=count)
