"""The checkpoint of a streaming query: a column for each batch, a row for each place that is written, in the order of the writes.

The same table is the panel of a run's scene and the picture of a real folder (`kitlib.views.pictures.checkpoint`). Boxes
that are missing are what a query that died has not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kitlib.views.look import CHAR, LEFT, WIDTH
from kitlib.views.svg import Svg, el, group, letter_paint
from kitlib.words.glyphs import BLACK, BLUE, GREEN, ORANGE, PINK, SKY, WHITE
from kitlib.words.template import count

ROWS = ("offsets", "state", "sink", "commits")  # in the order in which a batch writes them
FILL = {"offsets": ORANGE, "state": SKY, "sink": GREEN, "commits": BLUE, "twice": PINK}
TEXT = {"offsets": BLACK, "state": BLACK, "sink": WHITE, "commits": WHITE, "twice": BLACK}
MEANING = {
    "offsets": "offsets/N: which records the batch takes",
    "state": "state: version N + 1, of batch N",
    "sink": "the sink: rows that can be read",
    "twice": "4 +3: three rows lie in the sink twice",
    "commits": "commits/N: the batch is done",
    "again": "the next start runs this batch again",
}
MOST_COLUMNS = 12  # batches drawn: the last ones
HEAD, ROW, BOX = 24, 26, 20
FIRST_COLUMN, GAP = 96, 4
PITCH = (WIDTH - LEFT - FIRST_COLUMN) / MOST_COLUMNS
LONGEST = int((PITCH - GAP) / CHAR)


@dataclass(slots=True)
class Table:
    """What each batch has written: the text of its box in each row; a row without a box has not been written."""

    boxes: dict[int, dict[str, str]] = field(default_factory=dict)  # batch -> row -> text
    twice: set[int] = field(default_factory=set)  # batches with rows that lie in the sink more than once
    again: int | None = None  # the batch that the next start runs again
    rows: tuple[str, ...] = ROWS

    def put(self, number: int, row: str, text: str) -> None:
        self.boxes.setdefault(number, {})[row] = text

    @property
    def drawn(self) -> list[int]:
        return sorted(self.boxes)[-MOST_COLUMNS:]

    @property
    def words(self) -> str:
        """The table as a sentence for each batch."""
        if not self.boxes:
            return "nothing is written yet"
        left = len(self.boxes) - len(self.drawn)
        told = [f"{count(left, 'earlier batch', 'earlier batches')}"] if left else []
        for number in self.drawn:
            boxes = self.boxes[number]
            told.append(f"batch {number}: {', '.join(f'{row} {boxes[row]}' for row in self.rows if row in boxes)}")
        again = "" if self.again is None else f"; batch {self.again} is not in commits"
        return "; ".join(told) + again


def draw_table(table: Table, now: tuple[int, str] | None = None) -> list[Svg]:
    """A piece for each row; `now` is the box that has just been written, as (batch, row)."""
    columns = {number: FIRST_COLUMN + place * PITCH for place, number in enumerate(table.drawn)}
    head = [el("text", "batch", cls="grey", x=LEFT, y=15, font_size=11)]
    for number, x in columns.items():
        is_again = number == table.again
        head.append(el("text", f"{number}{' again' if is_again else ''}", cls="ink", x=x + (PITCH - GAP) / 2, y=15, text_anchor="middle",
                       font_weight="bold" if is_again else None))  # fmt: skip
    pieces = [group(*head)]
    for place, row in enumerate(table.rows):
        y = HEAD + place * ROW
        parts = [el("text", row, cls="ink", x=LEFT, y=y + 14)]
        for number, x in columns.items():
            text = table.boxes[number].get(row)
            kind = "twice" if row == "sink" and number in table.twice else row
            parts += _box(x, y, kind, text, now == (number, row))
        pieces.append(group(*parts))
    return pieces


def _box(x: float, y: float, kind: str, text: str | None, is_now: bool) -> list[Svg]:
    where = {"x": round(x, 1), "y": y, "width": round(PITCH - GAP, 1), "height": BOX, "rx": 3}
    if text is None:
        return [el("rect", **where, fill="none", cls="grey-line", stroke_dasharray="2 3", stroke_width=1)]
    shown = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    box = el("rect", el("title", text), **where, fill=FILL[kind], cls="ink-line", stroke_width=2.5 if is_now else 0.8)
    middle = {"x": round(x + (PITCH - GAP) / 2, 1), "y": y + 14, "text_anchor": "middle", "font_size": 11}
    return [box, el("text", shown, **middle, **letter_paint(TEXT[kind]))]


def table_tall(rows: Sequence[str] = ROWS) -> int:
    return HEAD + ROW * len(rows)


def table_legend(kinds: Sequence[str]) -> list[tuple[Svg, str]]:
    """Of these kinds, in the order of the writes."""
    return [(el("rect", x=3, y=2, width=20, height=14, rx=3, fill=FILL[kind], cls="ink-line", stroke_width=0.8), MEANING[kind])
            for kind in (*ROWS[:3], "twice", ROWS[3]) if kind in kinds]  # fmt: skip
