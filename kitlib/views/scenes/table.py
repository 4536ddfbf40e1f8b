"""The state after a step as a table: a row for each thing, with boxes for what lies in each of its columns; and gauges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from kitlib.text import plain_text
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.scene import AXIS_LEFT
from kitlib.views.scenes.timeline import Item, draw_box, fill_legend
from kitlib.views.svg import Svg, el, group

HEAD, ROW, BOX_TALL, GAP = 24, 25, 20, 4


class Line(NamedTuple):
    """A row of a table."""

    name: str
    cells: Sequence[Sequence[Cell]]  # of each column
    ref: str | None = None  # of the thing that it stands for
    empty: str = ""  # what stands in a column without a box


class Cell(NamedTuple):
    """A box in a table."""

    kind: str  # a key of FILLS
    words: str
    title: str = ""
    ref: str | None = None  # of the thing that it stands for


@dataclass(slots=True)
class Table:
    """Columns with their names, and how many boxes each has room for."""

    heads: Sequence[str]
    room: Sequence[int]
    most: int  # rows; others are counted
    seen: set[str] = field(default_factory=set)  # kinds that occurred

    @property
    def wide(self) -> float:
        """Of a box."""
        return (WIDTH - LEFT - AXIS_LEFT - 34 * len(self.heads)) / sum(self.room)

    @property
    def tall(self) -> int:
        """Of a table with all its rows."""
        return HEAD + ROW * self.most

    def draw(self, rows: Sequence[Line]) -> list[Svg]:
        """The table, a piece for its head and one for each row."""
        pieces = [_head(tuple(zip(self.heads, self._lefts(), strict=True)))]
        for number, (name, cells, ref, empty) in enumerate(rows[: self.most]):
            self.seen |= {cell.kind for each in cells for cell in each}
            shown = tuple(tuple(each[: most + 1]) for each, most in zip(cells, self.room, strict=True))
            more = tuple(len(each) - most for each, most in zip(cells, self.room, strict=True))
            drawn = _row(name, shown, more, tuple(self.room), tuple(self._lefts()), self.wide, HEAD + ROW * number, empty)
            pieces.append(group(drawn, data_ref=ref) if ref else drawn)
        if len(rows) > self.most:
            told = f"and {len(rows) - self.most} more"
            pieces.append(el("text", told, cls="grey", x=LEFT, y=HEAD + ROW * self.most + 10, font_size=11))
        return pieces

    def _lefts(self) -> list[float]:
        """Where the columns begin."""
        return [AXIS_LEFT + sum(self.room[:place]) * self.wide + 34 * place for place in range(len(self.heads))]

    def note(self, words: str) -> Svg:
        """A line below it."""
        return el("text", plain_text(words, 110), cls="ink", x=AXIS_LEFT, y=self.tall + 12, font_size=11)

    def legend(self) -> list[Item]:
        """The kinds of boxes that the table knows."""
        return fill_legend(self.seen)


@lru_cache(64)
def _head(heads: tuple[tuple[str, float], ...]) -> Svg:
    return group(*(el("text", told, cls="grey", x=x, y=14, font_size=11) for told, x in heads))


@lru_cache(4_000)
def _row(
    name: str, cells: tuple[tuple[Cell, ...], ...], more: tuple[int, ...], room: tuple[int, ...], lefts: tuple[float, ...], wide: float,
    y: int, empty: str,
) -> Svg:  # fmt: skip
    parts = [el("text", name, cls="ink", x=LEFT, y=y + 14, font_size=11)]
    for boxes, left, most, beyond in zip(cells, lefts, room, more, strict=True):
        for place, cell in enumerate(boxes[:most]):
            box = draw_box(cell.kind, left + place * wide, y, wide - GAP, BOX_TALL, cell.words, cell.title)
            parts.append(group(box, data_ref=cell.ref) if cell.ref else box)
        if not boxes and empty:
            parts.append(el("text", empty, cls="grey", x=left, y=y + 14, font_size=11))
        elif not boxes:
            parts.append(el("path", d=f"M{left:.1f} {y + BOX_TALL / 2:g}h{wide - GAP:.1f}", cls="grey-line", stroke_dasharray="1 4"))
        if beyond > 0:
            parts.append(el("text", f"+{beyond:,}", cls="ink", x=left + most * wide, y=y + 14, font_size=11))
    return group(*parts)


@lru_cache(4_000)
def draw_gauge(name: str, share: float, words: str, colour: str, y: float) -> Svg:
    """How much of something there is, as a bar, and in words below it."""
    wide = WIDTH - LEFT - AXIS_LEFT
    return group(
        el("text", name, cls="grey", x=LEFT, y=y + 10, font_size=11),
        el("rect", x=AXIS_LEFT, y=y, width=wide, height=10, fill="none", cls="grey-line", stroke_width=0.8),
        el("rect", x=AXIS_LEFT, y=y, width=round(wide * min(1.0, max(0.0, share)), 1), height=10, fill=colour),
        el("text", words, cls="ink", x=AXIS_LEFT, y=y + 22, font_size=11),
    )
