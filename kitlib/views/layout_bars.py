"""Rows of bars over time: who ran a piece of work, and when nobody did. Connect's and Streams' scenes are made of them.

A bar says by its fill what state the work is in, and by the name in it who has it; fills keep the meanings
of all pictures, and each has a texture or an outline of its own beside the colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kitlib.views.lanes_look import CHAR
from kitlib.views.look import BLACK, GREEN, LEFT, ORANGE, RED, SKY
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT
from kitlib.views.svg import HATCH, Svg, el, group

ROW_TALL, BAR_TALL = 22, 16


@dataclass(frozen=True, slots=True)
class Fill:
    """What a bar, or a box in a panel, looks like."""

    meaning: str
    fill: str
    text: str  # a colour, or "ink"
    edge: str = BLACK
    dash: str = ""


FILLS = {
    "runs": Fill("runs at the worker named in it", GREEN, BLACK),
    "running": Fill("processed by the instance named in it", GREEN, BLACK),
    "restoring": Fill("restores its store, processes nothing", ORANGE, BLACK, BLACK, "4 2"),
    "standby": Fill("standby: a copy that follows the changelog", SKY, BLACK),
    "nobody": Fill("nobody runs it", HATCH, "ink", RED),
    "connector": Fill("a connector", "none", "ink", "ink"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of one state; `kind` is a key of FILLS."""

    x0: float
    x1: float
    kind: str
    who: str


def bars(states: Sequence[tuple[str, str] | None], xs: Sequence[float], right: float = AXIS_RIGHT) -> list[Bar]:
    """(kind, who) after each step as stretches; a state holds until the next step, the last one to `right`. None: no bar."""
    found: list[Bar] = []
    for number, state in enumerate(states):
        x0, x1 = xs[number], xs[number + 1] if number + 1 < len(xs) else right
        if state is None:
            continue
        if found and (found[-1].kind, found[-1].who) == state and found[-1].x1 == x0:
            found[-1] = Bar(found[-1].x0, x1, *state)
        else:
            found.append(Bar(x0, x1, *state))
    return found


def draw_rows(rows: Mapping[str, Iterable[Bar]], top: float) -> tuple[Svg, float]:
    """A row for each name; and where the next thing may begin."""
    parts = []
    for number, (name, found) in enumerate(rows.items()):
        y = top + number * ROW_TALL
        parts.append(el("text", name, cls="ink", x=LEFT, y=y + 12, font_size=11))
        parts.append(el("path", d=f"M{AXIS_LEFT} {y + 8:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5))
        parts += [draw_box(bar.kind, bar.x0, y, bar.x1 - bar.x0, BAR_TALL, bar.who) for bar in found if bar.x1 > bar.x0]
    return group(*parts), top + len(rows) * ROW_TALL


def draw_box(kind: str, x: float, y: float, width: float, height: float, words: str) -> Svg:
    """A box of this kind, with the words in it if they fit."""
    look = FILLS[kind]
    paint: dict[str, Any] = {"cls": "ink-line"} if look.edge == "ink" else {"stroke": look.edge}
    box = el(
        "rect", el("title", f"{words}: {look.meaning}"), x=x, y=y, width=width, height=height, rx=8 if kind == "connector" else None,
        fill=look.fill, stroke_width=1, stroke_dasharray=look.dash or None, **paint,
    )  # fmt: skip
    if not words or len(words) * CHAR + 6 > width:
        return group(box)
    letters: dict[str, Any] = {"fill": look.text} if look.text != "ink" else {"cls": "ink"}
    if look.fill == HATCH:
        letters = {"cls": "ink paper-line", "stroke_width": 4, "paint_order": "stroke", "stroke_linejoin": "round"}
    label = el("text", words, x=x + width / 2, y=y + height / 2 + 4, text_anchor="middle", font_size=11, **letters)
    return group(box, label)


def swatch(kind: str) -> Svg:
    """For the legend."""
    return draw_box(kind, 2, 3, 22, 13, "")


def wide_enough(words: str, least: float = 34) -> float:
    """A box's width for these words."""
    return max(least, len(words) * CHAR + 10)
