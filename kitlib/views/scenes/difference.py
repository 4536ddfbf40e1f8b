"""A shortest history: its calls from left to right, and below them what the original and the learner's code have after each.

The panel is a table with a row for each ledger; what is not the same on both sides has a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.scene import Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.timeline import Drawn, Row, compose, glyphs_of, places
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import RED

PARTS = {"all": "Where do the two part?"}
NAME_WIDE, PER_CHAR = 160, 6.4  # of the names' column, and of a letter of 11 px
MOST_LINES, MOST_ROWS, LINE = 3, 12, 15  # of a cell, of a table, and from one line to the next

Line = tuple[str, list[str], list[str]]  # a ledger's name, and its lines on both sides


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace)
    lanes = Lanes(trace, xs, glyphs_of(trace), lambda step: "calls", names=["calls"], pitch=24)
    tables = [(step.state.get("sides", ["", ""]), rows_of(step.state)) for step in trace]
    tall = max((_tall(rows) for _, rows in tables), default=0)
    panels = ((draw(sides, rows), words(sides, rows)) for sides, rows in tables)
    rows: list[Row] = [lanes, Drawn(16, lambda y: names(trace, xs, y))]
    return compose(trace, xs, "A shortest history", PARTS["all"], rows, panels, tall, lanes.legend(), has_axis=False)


def names(trace: Trace, xs: Sequence[float], y: float) -> list[Svg]:
    """Which call each sign is, where there is room for its name."""
    wide = min((b - a for a, b in pairwise(xs)), default=WIDTH)
    called = [plain_text(step.data["call"], 40).partition("(") for step in trace]
    told = [(name, x) for (name, bracket, _), x in zip(called, xs, strict=True) if bracket and PER_CHAR * len(name) < wide]
    return [el("text", name, cls="grey", x=x, y=y + 12, font_size=11, text_anchor="middle") for name, x in told]


def rows_of(state: dict[str, Any]) -> list[Line]:
    """The table of a step, each cell in lines."""
    most = int((WIDTH - 2 * LEFT - NAME_WIDE) / 2 / PER_CHAR) - 2

    def lines(text: Any) -> list[str]:
        found = wrap(plain_text(text, most * MOST_LINES), most)
        return found[:MOST_LINES] or ["–"]

    return [(plain_text(name, 24), lines(wanted), lines(got)) for name, wanted, got in state.get("rows", [])[:MOST_ROWS]]


def words(sides: Sequence[str], rows: Sequence[Line]) -> str:
    """The rows that differ, in words."""
    told = [f"{name}: {' '.join(wanted)} ({sides[0]}), {' '.join(got)} ({sides[1]})" for name, wanted, got in rows if wanted != got]
    return "; ".join(told) or "Both sides have the same."


def draw(sides: Sequence[str], rows: Sequence[Line]) -> Svg:
    """The table after a step."""
    wide = (WIDTH - 2 * LEFT - NAME_WIDE) / 2
    columns = [LEFT + NAME_WIDE, LEFT + NAME_WIDE + wide]
    drawn = [el("text", side, cls="ink", x=x, y=16, font_size=12, font_weight="bold") for side, x in zip(sides, columns, strict=False)]
    y = 36
    for name, *cells in rows:
        drawn.append(el("text", name, cls="grey", x=LEFT, y=y, font_size=11))
        tall = LINE * max(map(len, cells))
        for x, lines in zip(columns, cells, strict=True):
            drawn += [el("text", line, cls="ink", x=x, y=y + LINE * number, font_size=11) for number, line in enumerate(lines)]
        if cells[0] != cells[1]:
            box = {"fill": "none", "stroke": RED, "stroke_width": 1.5}
            drawn.append(el("rect", x=columns[0] - 6, y=y - 13, width=2 * wide, height=tall + 4, rx=3, **box))
        y += tall + 7
    return group(*drawn)


def _tall(rows: Sequence[Line]) -> int:
    return 36 + sum(LINE * max(len(wanted), len(got)) + 7 for _, wanted, got in rows)
