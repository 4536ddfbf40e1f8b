"""Who runs which task, and when nobody does: what the pictures of a Connect cluster and of a Streams application share.

On top are the lanes of the coordinator and the members, then a row for each task. The panel is a table: each worker or thread with
what it runs, and below them what runs nowhere. A domain says it as the table's lines after each step; all else is read from these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kitlib.trace import Step, Trace
from kitlib.views.scene import Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.table import Cell, Line, Table
from kitlib.views.scenes.timeline import Drawn, Row, Spans, bars, compose, glyphs_of, places, swatch
from kitlib.views.stage.score import in_order
from kitlib.words.glyphs import Glyph

MOST_ROWS = 24  # tasks that have a row
MOST_BOXES = 12  # of a column of the table
IDLE = ("restoring", "standby")  # kinds of what does not process anything


def layout_scene(
    trace: Trace, title: str, question: str, heads: Sequence[str], lines: Sequence[Sequence[Line]], meanings: Mapping[str, str], *,
    has_rows: bool, variants: Mapping[str, Glyph] | None = None, word_of: Callable[[Step], str] = lambda step: step.what,
) -> Scene:  # fmt: skip
    """The scene of a run with these lines after each step, the tasks in their last column.

    `meanings` are those of the table's boxes; without `has_rows` there is the table alone.
    """
    xs, every = places(trace), [line for told in lines for line in told]
    tasks = {cell.title: cell.ref or "" for line in every for cell in line.cells[-1]}
    refs = {name: tasks[name] for name in sorted(tasks, key=in_order)[:MOST_ROWS]}
    owners = [
        {cell.title: (cell.kind, _member(line)) for line in told for cell in line.cells[-1] if cell.kind != "standby"} for told in lines
    ]
    spans = Spans({name: bars([each.get(name) for each in owners], xs) for name in refs}, refs)
    names = ["group", *dict.fromkeys(_member(line) for line in every if line.ref)]
    lanes = Lanes(trace, xs, glyphs_of(trace, None, variants), word_of=word_of, names=names, pitch=26)
    rows: list[Row] = [lanes, Drawn(6, lambda y: []), spans] if has_rows else []
    room = [max([2, *(min(MOST_BOXES, len(line.cells[at])) for line in every)]) for at in range(len(heads))]
    table = Table(heads, room, max(map(len, lines), default=1))
    panels = [(table.draw(told), "; ".join(map(_words, told))) for told in lines]
    legend = [(swatch(kind), meaning) for kind, meaning in meanings.items() if kind in table.seen]
    return compose(trace, xs, title, question, rows, panels, table.tall + 8, [*legend, *(lanes.legend() if has_rows else [])])


def _member(line: Line) -> str:
    return line.ref.partition(":")[2] if line.ref else "nobody"


def _words(line: Line) -> str:
    told = [f"{cell.title} {cell.kind}" if cell.kind in IDLE else cell.title or cell.words for cells in line.cells for cell in cells]
    return f"{line.name}: {', '.join(told) or 'nothing'}" if told or ":" not in line.name else line.name


def nowhere(cells: Sequence[Cell], columns: int = 1) -> Line:
    """The line of what nobody runs."""
    return Line("nowhere", [*[[]] * (columns - 1), [cell._replace(kind="nobody") for cell in cells]])
