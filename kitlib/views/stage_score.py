"""From a trace to the score of its stage: who is on it and where, what travels, and crowds of equal travellers as one with their number.

The actors of each part stand in a column of their own, or in a row at the foot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.play_clock import PlayClock
from kitlib.views.stage import (
    AWAY,
    UP,
    Actor,
    Part,
    Play,
    Setting,
    Stage,
    Traveller,
)

MOST_TRAVELLERS = 1_200  # of a score; more are grouped
MOST_AT_ONCE, MOST_ON_A_WAY = 200, 32  # at the same time on the stage, and between the same two; more are grouped
LONGEST_GRAIN_S = 60.0  # what is farther apart is never grouped
WIDE, TOP, BOTTOM = 760.0, 30.0, 40.0  # of the stage; room for bubbles above the actors, and for what fell below them
BROAD, NARROW, EDGE, BETWEEN = 146.0, 84.0, 10.0, 70.0  # of an actor, and what lies between two columns at least
TALL, LEAST_TALL, PITCH = 50.0, 24.0, 64.0
MOST_TALL = 200.0  # of a column, unless its actors become too flat
MOST_IN_A_COLUMN = 12


def to_stage(trace: Trace, clock: PlayClock, setting: Setting, only: float | None = None) -> Stage:
    """The score of a run, or with `only` what travels at that time.

    KeyError, TypeError or ValueError when a step's data are not what its word promises.
    """
    stage = cast(trace, setting.parts(trace) if callable(setting.parts) else setting.parts)
    stage.frames = setting.frames
    play = Play(trace, clock, stage)
    for step, place in zip(trace.steps, clock.places, strict=True):
        play.now = place
        for deed in setting.rows.get(step.what, ()):
            deed(play, step)
        if setting.lines is not None:
            setting.lines(play, step)
    play.finish()
    travellers = stage.travellers if only is None else [each for each in stage.travellers if each.t0 <= only <= each.t2]
    stage.travellers = gathered(travellers)
    return stage


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
        bubble = each.label if each.style.shape == "bubble" else ""
        key = (each.source, each.target, each.style, each.fate, bubble, round(each.t0 / grain), round(each.t1 / grain))
        groups.setdefault(key, []).append(each)
    return [_one(group) for group in groups.values()]


def _one(group: list[Traveller]) -> Traveller:
    if len(group) == 1:
        return group[0]
    first = group[0]
    if first.style.shape == "bubble":
        return replace(first, t2=max(each.t2 for each in group))
    count = sum(each.count for each in group)
    middle = group[len(group) // 2]
    return replace(middle, t0=min(e.t0 for e in group), t2=max(e.t2 for e in group), count=count)


def cast(trace: Trace, parts: Sequence[Part]) -> Stage:
    """The actors of a run at their places: those of one column one below the other, and a row at the foot."""
    seen = dict.fromkeys(step.actor for step in trace.steps)
    columns: dict[tuple[bool, float], list[tuple[Part, str]]] = {}
    taken: set[str] = set()
    for part in parts:
        found = [part.names] if part.is_always else [*seen, *(part.found(trace) if part.found else ())]
        names = [name for name in dict.fromkeys(found) if name not in taken and re.fullmatch(part.names, name)]
        taken.update(names)
        if names:
            columns.setdefault((part.is_below, part.x), []).extend((part, name) for name in sorted(names, key=_in_order))
    main = {x: actors[:MOST_IN_A_COLUMN] for (is_below, x), actors in columns.items() if not is_below}
    below = {x: actors for (is_below, x), actors in columns.items() if is_below}
    near = min((after - before for before, after in pairwise(sorted(main))), default=1.0)
    wide = min(BROAD, max(NARROW, (near * (WIDE - 2 * EDGE) - BETWEEN) / (1 + near)))
    most = max(map(len, main.values()), default=1)
    pitch = min(PITCH, max(LEAST_TALL + 5, MOST_TALL / most))
    inner = max(2 * PITCH if not below else PITCH + 16, pitch * most)
    stage = Stage({})

    def put(part: Part, name: str, x: float, y: float, high: float) -> None:
        actor = Actor(name, part.kind, plain_text(part.label(name), 18), EDGE + wide / 2 + (WIDE - 2 * EDGE - wide) * x, y, wide, high)
        actor.states.append((0.0, AWAY if part.is_away else UP))
        stage.actors[name] = actor

    for x, actors in main.items():
        tall = min(TALL, inner / len(actors) - 5)
        apart = min(inner / len(actors), tall + 44)
        for number, (part, name) in enumerate(actors):
            put(part, name, x, TOP + inner / 2 + (number - (len(actors) - 1) / 2) * apart, tall)
    foot = TOP + inner
    for x, actors in below.items():
        for number, (part, name) in enumerate(actors):
            put(part, name, min(1.0, max(0.0, x + (number - (len(actors) - 1) / 2) * (wide + 24) / WIDE)), foot + 30 + 21, 42.0)
    stage.height = foot + (30 + 42 if below else 0) + BOTTOM
    return stage


def _in_order(name: str) -> tuple[Any, ...]:
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
