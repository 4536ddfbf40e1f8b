"""The checkpoint of a streaming query: a column for each batch, a row for each place that is written, in the order of the writes.

It is the panel of a run's scene. Boxes that are missing are what a query that died has not written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.views.look import CHAR
from kitlib.views.scenes.table import Cell, Line, Table
from kitlib.views.scenes.timeline import Item, fill_legend
from kitlib.words.template import count

ROWS = ("offsets", "state", "sink", "commits")  # in the order in which a batch writes them
MOST_COLUMNS = 11  # batches drawn: the last ones
TABLE = Table(("",), (MOST_COLUMNS,), len(ROWS) + 1)
LONGEST = int(TABLE.wide / CHAR) - 1


@dataclass(slots=True)
class Batches:
    """What each batch has written: the text of its box in each row; a row without a box has not been written."""

    boxes: dict[int, dict[str, str]] = field(default_factory=dict)  # batch -> row -> text
    twice: set[int] = field(default_factory=set)  # batches with rows that lie in the sink more than once
    again: int | None = None  # the batch that the next start runs again

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
            told.append(f"batch {number}: {', '.join(f'{row} {boxes[row]}' for row in ROWS if row in boxes)}")
        again = "" if self.again is None else f"; batch {self.again} is not in commits"
        return "; ".join(told) + again

    @property
    def lines(self) -> list[Line]:
        """The table's rows: the batches, and for each place that is written what they wrote there."""
        kinds = {number: "batch again" if number == self.again else "batch" for number in self.drawn}
        found = [Line("batch", [[Cell(kind, f"{number}") for number, kind in kinds.items()]])]
        return [*found, *(Line(row, [[self._cell(number, row) for number in self.drawn]]) for row in ROWS)]

    def _cell(self, number: int, row: str) -> Cell:
        text = self.boxes[number].get(row)
        if text is None:
            return Cell("missing", "")
        cut = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        return Cell("twice" if row == "sink" and number in self.twice else row, cut, text)

    @property
    def kinds(self) -> set[str]:
        """The kinds of boxes in it."""
        return {cell.kind for line in self.lines for cells in line.cells for cell in cells}


def batches_legend(kinds: set[str]) -> list[Item]:
    """What the boxes of these kinds mean, but for those that need no words."""
    return fill_legend(kinds - {"batch", "missing"})
