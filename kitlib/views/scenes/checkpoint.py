"""A query with a checkpoint: each write in the order of time, where it is killed, and below it what lies in the folder and in the sink.

Time runs to the right, one row for each place that is written. The panel is the checkpoint after the step, a column for each
batch (`kitlib.views.pictures.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kitlib.trace import Trace
from kitlib.views.pictures.checkpoint_table import ROWS, TABLE, Batches, batches_legend
from kitlib.views.scene import Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.timeline import compose, glyphs_of, places
from kitlib.words.template import count

PARTS = {"all": "What is written when, and what does the next start do again?"}
ROW_OF = {"offsets": "offsets", "state": "state", "sink": "sink", "commit": "commits"}  # a word -> where it writes


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace)
    lanes = Lanes(trace, xs, glyphs_of(trace), lambda step: ROW_OF.get(step.what, "query"), names=["query", *ROWS], pitch=20)
    tables = list(tables_of(trace))
    legend = batches_legend({kind for table in tables for kind in table.kinds})
    panels = ((TABLE.draw(table.lines), table.words) for table in tables)
    return compose(trace, xs, "A checkpoint", PARTS[part], [lanes], panels, TABLE.tall + 6, [*lanes.legend(), *legend])


def tables_of(trace: Trace) -> Iterator[Batches]:
    """What lies in the folder and in the sink after each step. Rows of a batch are those of its records, whoever wrote them."""
    ranges: dict[int, tuple[int, int]] = {}
    for step in trace:
        if step.what == "offsets":
            ranges[step.data["batch"]] = (step.data["first"], step.data["last"])
        view = step.state.get("checkpoint", {})
        table = Batches()
        for number, first, last in view.get("offsets", []):
            table.put(number, "offsets", f"{first}" if first == last else f"{first}–{last}")
        for version in view.get("state", []):
            table.put(version - 1, "state", f"v{version}")
        rows = dict(step.state.get("sink", []))
        for number, (first, last) in ranges.items():
            times = [rows.get(offset, 0) for offset in range(first, last + 1)]
            there = sum(map(bool, times))
            if sum(times) > there:
                table.twice.add(number)
                table.put(number, "sink", f"{there} +{sum(times) - there}")
            elif there:
                table.put(number, "sink", count(there, "row"))
        for number in view.get("commits", []):
            table.put(number, "commits", "done")
        planned = [number for number, _, _ in view.get("offsets", [])]
        table.again = planned[-1] if planned and planned[-1] not in view["commits"] and step.what in ("kill", "append", "start") else None
        yield table
