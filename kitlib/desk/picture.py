"""The desk's charts: rates, lag, and what Spark has counted so far, over the last two minutes; each in a row with a scale of its own."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kitlib.desk.lamps import DARK, Lamp
from kitlib.text import plain_text
from kitlib.views.look import PLOT_LEFT, PLOT_RIGHT, RISE, ROW, WIDTH
from kitlib.views.plot import curve
from kitlib.views.svg import Svg, document, el, group
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, PINK, RED, SKY

SPAN_S = 120
MOST_TICKS = 6  # of the time axis, besides its first
TOP = 48
QUESTION = "What becomes of the records while the parts run?"
SIGNS = {"agrees": "✓", "differs": "✗", "unknown": "?", "dark": "○"}
LINE = 108  # characters
CHAR = 6  # the width of a letter, more or less

Look = dict[str, Any]  # a snapshot of `DeskRun`


@dataclass(frozen=True, slots=True)
class Row:
    """One curve: its name, colour, meaning, and where its number is."""

    name: str
    colour: str
    meaning: str
    value: Callable[[Look], float]


ROWS = (
    Row("stored", BLUE, "records a second that the producer was told are stored", lambda look: look["rate"]["stored"]),
    Row("processed", GREEN, "records a second that the bolt has written results of", lambda look: look["rate"]["written"]),
    Row("lag", ORANGE, "records between the spout's commit and the topic's end", lambda look: look["lag"]),
    Row("lost", RED, "passed by a commit without a result, or missing in the topic; by Spark", lambda look: look["spark"]["lost"]),
    Row(
        "duplicated", PINK, "second copies in the topic, and records processed again; by Spark",
        lambda look: look["spark"]["duplicated_topic"] + look["spark"]["duplicated_results"],
    ),
    Row(
        "out of order", SKY, "first copies behind a later record, in the topic and in the results; by Spark",
        lambda look: look["spark"]["reordered_topic"] + look["spark"]["reordered_results"],
    ),
)  # fmt: skip


def sentence(look: Look) -> str:
    """A look in one sentence."""
    values = [row.value(look) for row in ROWS]
    stored, processed, lag, lost, doubled, late = (f"{value:,.0f}" for value in values)
    return (
        f"{stored} records a second are stored and {processed} processed; the lag is {lag}. So far Spark has counted {lost} lost, "
        f"{doubled} duplicated and {late} out of order."
    )


def draw(looks: Sequence[Look], marks: Sequence[tuple[float, str]] = (), lamps: Sequence[Lamp] = DARK, said: str = "") -> str:
    """The charts of these looks, with what was done to the desk at which second, the three lamps, and `said` below them."""
    end_s = looks[-1]["at_s"] if looks else 0.0
    shown = [look for look in looks if look["at_s"] >= end_s - SPAN_S]
    begin_s = shown[0]["at_s"] if shown else 0.0
    scale = (PLOT_RIGHT - PLOT_LEFT) / max(1.0, end_s - begin_s)
    xs = [round(PLOT_LEFT + scale * (look["at_s"] - begin_s), 1) for look in shown]
    parts = [_row(row, number, shown, xs) for number, row in enumerate(ROWS)]
    bottom = TOP + ROW * len(ROWS)
    parts += _marks([(PLOT_LEFT + scale * (at_s - begin_s), told) for at_s, told in marks if at_s >= begin_s], bottom)
    apart = next(each for each in (1, 2, 5, 10, 20, 30) if (end_s - begin_s) / each <= MOST_TICKS)
    for at_s in range(math.ceil(begin_s / apart) * apart, math.floor(end_s) + 1, apart):
        x = round(PLOT_LEFT + scale * (at_s - begin_s), 1)
        parts.append(el("text", f"{at_s:,} s", cls="grey", x=x, y=bottom + 8, text_anchor="middle", font_size=11))
    for number, lamp in enumerate(lamps):
        parts.append(el("text", f"{SIGNS[lamp.state]} {lamp.name}", cls="ink", x=20 + 200 * number, y=bottom + 34, font_weight="bold"))
    told = said or (sentence(shown[-1]) if shown else "The desk has just begun.")
    lines = textwrap.wrap(plain_text(told, 600), LINE)
    parts += [el("text", line, cls="ink", x=20, y=bottom + 58 + 17 * number) for number, line in enumerate(lines)]
    title = el("text", QUESTION, cls="ink", x=20, y=22, font_size=14, font_weight="bold")
    return document("The desk", told, group(title, *parts), WIDTH, bottom + 54 + 17 * len(lines))


def _row(row: Row, number: int, looks: Sequence[Look], xs: list[float]) -> Svg:
    values = [round(row.value(look)) for look in looks]
    path = curve(values, xs) if len(values) > 1 else ""
    high = max(values, default=0)
    return group(
        el("path", d=f"M{PLOT_LEFT} {RISE}H{PLOT_RIGHT}", cls="grey-line", stroke_width=0.7),
        el("path", d=f"{path}V{RISE}H{PLOT_LEFT}Z", fill=row.colour, opacity=0.15) if path else Svg(),
        el("path", d=path, fill="none", stroke=row.colour, stroke_width=2) if path else Svg(),
        el("text", row.name, cls="ink", x=20, y=12, font_weight="bold"),
        el("text", f"highest {high:,}", cls="grey", x=20, y=27, font_size=11),
        el("text", f"{values[-1] if values else 0:,}", cls="ink", x=PLOT_LEFT - 10, y=12, text_anchor="end", font_weight="bold"),
        el("title", f"{row.name}: {row.meaning}"),
        transform=f"translate(0 {TOP + number * ROW})",
    )


def _marks(places: Sequence[tuple[float, str]], bottom: int) -> list[Svg]:
    """A dashed line for each thing that was done, with its name where there is room."""
    parts, last = [], 0.0
    for x, told in places:
        name = plain_text(told, 40)
        parts.append(el("path", el("title", name), d=f"M{x:.1f} {TOP - 6}V{bottom - 8}", cls="ink-line", stroke_dasharray="3 3"))
        begin = min(x, PLOT_RIGHT - CHAR * len(name))
        if begin >= last:
            last = begin + CHAR * len(name) + 8
            parts.append(el("text", name, cls="grey", x=round(begin, 1), y=TOP - 9, font_size=11))
    return parts
