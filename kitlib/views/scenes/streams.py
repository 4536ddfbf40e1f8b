"""A Streams application's run: who processes each task, what restores, what stands by, what queries get; and the layout after each step."""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step, Trace
from kitlib.views.scene import Scene
from kitlib.views.scenes.layout import layout_scene, nowhere
from kitlib.views.scenes.table import Cell, Line
from kitlib.words.glyphs import BLUE, CHECK, CLOCK, CROSSED_SQUARE, DIAMOND, PINK, RED, SKY, SMALL_CROSS, Glyph

PARTS = {
    "all": "Who processes each task, and what does a query get?",
    "layout": "Which instance and thread has which task after this step?",
}
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


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "layout" is the panel alone."""
    lines = [lines_of(step.state["streams"]) for step in trace]
    has_rows = part == "all"
    return layout_scene(trace, "Streams", PARTS[part], ("tasks",), lines, MEANS, has_rows=has_rows, variants=ANSWERS, word_of=_word_of)


def _word_of(step: Step) -> str:
    """Of a query its outcome."""
    outcome = str(step.data.get("outcome"))
    return step.what if step.what != "ask" else outcome if outcome != "value" else "old" if step.data["behind"] else "right"


def lines_of(state: dict[str, Any]) -> list[Line]:
    """Each thread with its tasks, and what nobody has; an instance that is dead has none."""
    found = []
    for name, one in state["instances"].items():
        for thread, tasks in (one["threads"] if one["up"] else {f"{name}: dead": []}).items():
            cells = [Cell(kind, MARKS[kind].format(task), task, f"task:{task}") for task, kind, _ in tasks]
            found.append(Line(f"thread {thread}" if one["up"] else thread, [cells], f"member:{name}", "nothing to do" if one["up"] else ""))
    return [*found, nowhere([Cell("nobody", task, task, f"task:{task}") for task in state["nobody"]])]
