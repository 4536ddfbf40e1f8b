"""A query with a checkpoint: each write in the order of time, where it is killed, and below it what lies in the folder and in the sink.

Time runs to the right, one row for each place that is written. The panel is the checkpoint after the step: a column for each batch, a
row for each place, in the order in which a batch writes them. Boxes that are missing are what a query that died has not written.
"""

from __future__ import annotations

from collections.abc import Iterator

from kitlib.trace import Trace
from kitlib.views.look import CHAR
from kitlib.views.scene import Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.table import Cell, Line, Table
from kitlib.views.scenes.timeline import compose, fill_legend, glyphs_of, places
from kitlib.words.template import count

PARTS = {"all": "What is written when, and what does the next start do again?"}
ROWS = ("offsets", "state", "sink", "commits")  # in the order in which a batch writes them
ROW_OF = {"offsets": "offsets", "state": "state", "sink": "sink", "commit": "commits"}  # a word -> where it writes
MOST_COLUMNS = 11  # batches drawn: the last ones
TABLE = Table(("",), (MOST_COLUMNS,), len(ROWS) + 1)
LONGEST = int(TABLE.wide / CHAR) - 1  # text of a box
Boxes = dict[int, dict[str, Cell]]  # batch -> row -> its box; of the row "batch" too


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace)
    lanes = Lanes(trace, xs, glyphs_of(trace), lambda step: ROW_OF.get(step.what, "query"), names=["query", *ROWS], pitch=20)
    boxes = list(boxes_of(trace))
    kinds = {cell.kind for found in boxes for cells in found.values() for cell in cells.values()}
    panels = ((TABLE.draw(_lines(found)), _words(found)) for found in boxes)
    legend = [*lanes.legend(), *fill_legend(kinds - {"batch"})]
    return compose(trace, xs, "A checkpoint", PARTS[part], [lanes], panels, TABLE.tall + 6, legend)


def boxes_of(trace: Trace) -> Iterator[Boxes]:
    """What each batch has written after each step. Rows of a batch are those of its records, whoever wrote them."""
    ranges: dict[int, tuple[int, int]] = {}
    for step in trace:
        if step.what == "offsets":
            ranges[step.data["batch"]] = (step.data["first"], step.data["last"])
        view, rows, found = step.state.get("checkpoint", {}), dict(step.state.get("sink", [])), Boxes()

        def put(number: int, row: str, text: str, kind: str = "", found: Boxes = found) -> None:
            shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
            found.setdefault(number, {})[row] = Cell(kind or row, shown, text)

        planned = view.get("offsets", [])
        for number, first, last in planned:
            put(number, "offsets", f"{first}" if first == last else f"{first}–{last}")
        for version in view.get("state", []):
            put(version - 1, "state", f"v{version}")
        for number, (first, last) in ranges.items():
            times = [rows.get(offset, 0) for offset in range(first, last + 1)]
            there = sum(map(bool, times))
            if sum(times) > there:
                put(number, "sink", f"{there} +{sum(times) - there}", "twice")
            elif there:
                put(number, "sink", count(there, "row"))
        for number in view.get("commits", []):
            put(number, "commits", "done")
        is_down = step.what in ("kill", "append", "start")
        again = planned[-1][0] if planned and is_down and planned[-1][0] not in view["commits"] else None  # the next start runs it again
        for number in found:
            put(number, "batch", f"{number}", "batch again" if number == again else "batch")
        yield found


def _lines(found: Boxes) -> list[Line]:
    """The table's rows: the batches, and for each place that is written what they wrote there."""
    drawn = sorted(found)[-MOST_COLUMNS:]
    return [Line(row, [[found[number].get(row, Cell("missing", "")) for number in drawn]]) for row in ("batch", *ROWS)]


def _words(found: Boxes) -> str:
    """The table as a sentence for each batch."""
    drawn = sorted(found)[-MOST_COLUMNS:]
    told = [count(len(found) - len(drawn), "earlier batch", "earlier batches")] if len(found) > len(drawn) else []
    for number in drawn:
        told.append(f"batch {number}: {', '.join(f'{row} {found[number][row].title}' for row in ROWS if row in found[number])}")
        told += [f"batch {number} is not in commits"] if found[number]["batch"].kind == "batch again" else []
    return "; ".join(told) or "nothing is written yet"
