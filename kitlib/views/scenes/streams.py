"""A Streams application's run: who processes each task, what restores, what stands by; and the layout after each step.

On top is a row for each task, and one for queries. The panel is a table: each instance's threads with their tasks.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step, Trace
from kitlib.views.scene import Scene
from kitlib.views.scenes.table import Cell, Line, Table
from kitlib.views.scenes.timeline import Row, Signs, Spans, bars, compose, glyphs_of, places, swatch
from kitlib.words.glyphs import BLUE, CHECK, CLOCK, CROSSED_SQUARE, DIAMOND, PINK, RED, SKY, SMALL_CROSS, Glyph

PARTS = {
    "all": "Who processes each task, and what does a query get?",
    "layout": "Which instance and thread has which task after this step?",
}
HAS_RECORDS = False
MOST_ROWS = 24
MOST_BOXES = 12
ANSWERS = {  # by the outcome of a query
    "right": Glyph("a query: the right value", CHECK, BLUE, 2.6),
    "old": Glyph("a query: an old value", CLOCK, SKY, 2, "paper"),
    "null": Glyph("a query: null, as for an unknown key", DIAMOND, PINK, 1.8, "paper"),
    "InvalidStateStoreException": Glyph("a query: InvalidStateStoreException", CROSSED_SQUARE, RED, 1.6, "paper"),
    "no answer": Glyph("a query: nobody answers", SMALL_CROSS, "ink", 2),
}
MEANS = {
    "running": "processed by the instance named",
    "restoring": "restoring: nothing is processed",
    "standby": "standby: a copy follows the changelog",
    "nobody": "nobody has it",
}
MARKS = {"running": "{}", "restoring": "{} …", "standby": "({})"}
State = dict[str, Any]


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "layout" is the panel alone."""
    xs = places(trace)
    states: list[State] = [step.state.get("streams", {}) for step in trace.steps]
    names = list(states[-1].get("waiting", {}))[:MOST_ROWS] if states else []
    happened = {"instances": [(step.what, x) for step, x in zip(trace, xs, strict=True)]}
    if asked := [(_answer(step), x) for step, x in zip(trace, xs, strict=True) if step.what == "ask"]:
        happened["queries"] = asked
    signs = Signs(happened, glyphs_of(trace) | ANSWERS, tall=42)
    refs = {name: f"task:{name}" for name in names}
    rows: list[Row] = [signs, Spans({name: bars([_owner(state, name) for state in states], xs) for name in names}, refs)]
    kinds = {kind for state in states for _, tasks in _threads(state) for _, kind, _ in tasks}
    kinds |= {"nobody"} if part == "all" else set()
    legend = [(swatch(kind), meaning) for kind, meaning in MEANS.items() if kind in kinds]
    lines = [rows_of(state) for state in states]
    most = max([len(each) for line in lines for _, (each,), *_ in line], default=1)
    table = Table(("tasks",), (max(6, min(most, MOST_BOXES)),), max(map(len, lines), default=1))
    panels = ((table.draw(line), words_of(state)) for line, state in zip(lines, states, strict=True))
    if part == "layout":
        return compose(trace, xs, "Streams", PARTS[part], [], panels, table.tall + 10, legend)
    return compose(trace, xs, "Streams", PARTS[part], rows, panels, table.tall + 10, [*legend, *signs.legend()])


def _answer(step: Step) -> str:
    outcome = str(step.data["outcome"])
    return outcome if outcome != "value" else "old" if step.data["behind"] else "right"


def _threads(state: State) -> list[tuple[str, list[list[Any]]]]:
    up = {name: one for name, one in state.get("instances", {}).items() if one["up"]}
    return [(name, tasks) for name, one in up.items() for tasks in one["threads"].values()]


def _owner(state: State, task: str) -> tuple[str, str] | None:
    owners = ((kind, name) for name, tasks in _threads(state) for each, kind, _ in tasks if each == task and kind != "standby")
    return next(owners, ("nobody", "nobody") if state.get("generation") else None)


def rows_of(state: State) -> list[Line]:
    """Each thread with its tasks; an instance that is dead has none."""
    found = []
    for name, one in state.get("instances", {}).items():
        for thread, tasks in (one["threads"] if one["up"] else {f"{name}: dead": []}).items():
            cells = [Cell(kind, MARKS[kind].format(task), "", f"task:{task}") for task, kind, _ in tasks]
            found.append(Line(f"thread {thread}" if one["up"] else thread, [cells], f"member:{name}", "nothing to do" if one["up"] else ""))
    return found


def words_of(state: State) -> str:
    """The layout in words."""
    told = []
    for name, one in state.get("instances", {}).items():
        tasks = [f"{task} {kind}" for held in one["threads"].values() for task, kind, _ in held]
        told.append(f"{name}: {', '.join(tasks) or 'nothing'}" if one["up"] else f"{name}: dead")
    return "; ".join(told)
