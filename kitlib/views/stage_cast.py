"""Who is on the stage of a run, and where: the actors of each part in a column of their own, or in a row at the foot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.stage import (
    AWAY,
    UP,
    Actor,
    Part,
    Stage,
)

WIDE, TOP, BOTTOM = 760.0, 30.0, 40.0  # of the stage; room for bubbles above the actors, and for what fell below them
BROAD, NARROW, EDGE, BETWEEN = 146.0, 84.0, 10.0, 70.0  # of an actor, and what lies between two columns at least
TALL, LEAST_TALL, PITCH = 50.0, 24.0, 64.0
MOST_TALL = 200.0  # of a column, unless its actors become too flat
MOST_IN_A_COLUMN = 12


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
