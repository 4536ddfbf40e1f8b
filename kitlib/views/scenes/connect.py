"""A Connect cluster's run: who runs each task, when nobody does, and the layout after each step.

On top is a row for each connector and task. The panel is a table: each worker with what it runs, and below
them what runs nowhere.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace
from kitlib.views.scene import Scene
from kitlib.views.scenes.table import Cell, Line, Table
from kitlib.views.scenes.timeline import Row, Signs, Spans, bars, compose, glyphs_of, places, swatch

PARTS = {
    "all": "Who runs each task, and when does nobody?",
    "layout": "Which worker runs what after this step?",
}
HAS_RECORDS = False
MOST_ROWS = 20
State = dict[str, Any]


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "layout" is the panel alone."""
    xs = places(trace)
    states: list[State] = [step.state.get("connect", {}) for step in trace.steps]
    held = [each for state in states for each in _holders(state).values()]
    tasks = sorted({(name, number) for each in held for name, number in each.get("tasks", [])})
    names = [f"{name}-{number}" for name, number in tasks[:MOST_ROWS]]
    refs = {f"{name}-{number}": f"task:{name}/{number}" for name, number in tasks}
    signs = Signs({"workers": [(step.what, x) for step, x in zip(trace, xs, strict=True)]}, glyphs_of(trace), tall=22)
    rows: list[Row] = [signs, Spans({name: bars([_owner(state, name) for state in states], xs) for name in names}, refs)]
    lines = [rows_of(state) for state in states]
    most = max([len(each) for line in lines for _, (_, each), *_ in line], default=1)
    table = Table(("connectors", "tasks"), (2, max(4, most)), max(map(len, lines), default=1))
    legend = [(swatch("runs"), "a task, run by the worker named"), (swatch("nobody"), "nobody runs it")]
    legend += [(swatch("connector"), "a connector"), *(signs.legend() if part == "all" else [])]
    panels = ((table.draw(line), words_of(state)) for line, state in zip(lines, states, strict=True))
    return compose(trace, xs, "Connect", PARTS[part], rows if part == "all" else [], panels, table.tall + 6, legend)


def _holders(state: State) -> dict[str, State]:
    """What each worker has, and under "" what runs nowhere."""
    return {**state.get("workers", {}), "": state.get("unassigned", {})}


def _owner(state: State, task: str) -> tuple[str, str] | None:
    """Who runs a task after a step; None before it exists."""
    worker = next((name for name, held in _holders(state).items() if ("runs", task) in _items(held)), None)
    return None if worker is None else ("runs", worker) if worker else ("nobody", "nobody")


def _items(held: State) -> list[tuple[str, str]]:
    tasks = [("runs", f"{name}-{number}") for name, number in held.get("tasks", [])]
    return [*(("connector", name) for name in held.get("connectors", [])), *tasks]


def rows_of(state: State) -> list[Line]:
    """Each worker with what it has, and what runs nowhere."""
    found = []
    for name, held in _holders(state).items():
        is_up = held.get("up", True)
        title = (name or "nowhere") + (" leads" if name and state.get("leader") == name and is_up else "") + ("" if is_up else ": dead")
        kind = "runs" if name else "nobody"
        tasks = [Cell(kind, f"{task}-{number}", "", f"task:{task}/{number}") for task, number in held.get("tasks", [])]
        connectors = [Cell("connector", connector) for connector in held.get("connectors", [])]
        found.append(Line(title, [connectors, tasks], f"member:{name}" if name else None))
    return found


def words_of(state: State) -> str:
    """The layout in words."""
    told = {name: ", ".join(words for _, words in _items(held)) for name, held in _holders(state).items()}
    idle = told.pop("")
    workers = state.get("workers", {})
    said = [f"{name}: {words or ('nothing' if workers[name].get('up') else 'dead')}" for name, words in told.items()]
    return "; ".join([*said, *([f"nowhere: {idle}"] if idle else [])])
