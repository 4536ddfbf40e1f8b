"""A Connect cluster's run: who runs each task, when nobody does, and the layout after each step."""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace
from kitlib.views.scene import Scene
from kitlib.views.scenes.layout import layout_scene, nowhere
from kitlib.views.scenes.table import Cell, Line

PARTS = {
    "all": "Who runs each task, and when does nobody?",
    "layout": "Which worker runs what after this step?",
}
MEANS = {"runs": "a task, run by the worker named", "nobody": "nobody runs it", "connector": "a connector"}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "layout" is the panel alone."""
    lines = [lines_of(step.state["connect"]) for step in trace]
    return layout_scene(trace, "Connect", PARTS[part], ("connectors", "tasks"), lines, MEANS, has_rows=part == "all")


def lines_of(state: dict[str, Any]) -> list[Line]:
    """Each worker with what it has, and what runs nowhere."""
    found = []
    for name, held in state["workers"].items():
        state_of = ": dead" if not held["up"] else " leads" if state["leader"] == name else ""
        connectors = [Cell("connector", each) for each in held["connectors"]]
        found.append(Line(f"{name}{state_of}", [connectors, _tasks(held["tasks"])], f"member:{name}"))
    return [*found, nowhere(_tasks(state["unassigned"]["tasks"]), 2)]


def _tasks(tasks: list[list[Any]]) -> list[Cell]:
    return [Cell("runs", f"{name}-{number}", f"{name}-{number}", f"task:{name}/{number}") for name, number in tasks]
