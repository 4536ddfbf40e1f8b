"""A Connect cluster's run: who runs each task, when nobody does, and the layout after each step.

On top is a row for each connector and task. The panel shows the workers as boxes, with what they run in
them, and beside them what runs nowhere.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.scene import Scene
from kitlib.views.scenes.timeline import Row, Signs, Spans, bars, compose, draw_box, glyphs_of, places, swatch
from kitlib.views.svg import Svg, el, group

PARTS = {
    "all": "Who runs each task, and when does nobody?",
    "layout": "Which worker runs what after this step?",
}
HAS_RECORDS = False
MOST_ROWS = 20
HEAD, ITEM_TALL, GAP = 26, 22, 8
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
    tall = HEAD + ITEM_TALL * max([len(_items(each)) for each in held], default=1) + 24
    legend = [(swatch("runs"), "a task, run by the worker named"), (swatch("nobody"), "nobody runs it")]
    legend += [(swatch("connector"), "in the boxes: a connector"), *(signs.legend() if part == "all" else [])]
    panels = ((draw_layout(state, tall), words_of(state)) for state in states)
    return compose(trace, xs, "Connect", PARTS[part], rows if part == "all" else [], panels, tall, legend)


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


def draw_layout(state: State, tall: int) -> list[Svg]:
    """The workers as boxes, and what runs nowhere; a piece for each box."""
    holders = _holders(state)
    wide = (WIDTH - 2 * LEFT - GAP * (len(holders) - 1)) / len(holders)
    pieces = []
    for number, (name, held) in enumerate(holders.items()):
        x, is_up = LEFT + number * (wide + GAP), held.get("up", True)
        leads = bool(name) and state.get("leader") == name and is_up
        title = (name or "nowhere") + (" leads" if leads else "") + ("" if is_up else ": dead")
        parts = [
            el(
                "rect", x=x, y=2, width=wide, height=tall - 12, rx=5, fill="none", stroke_width=2 if leads else 1,
                stroke_dasharray=None if name and is_up else "4 3", cls="ink-line" if is_up and name else "grey-line",
            ),
            el("text", title, x=x + 8, y=18, cls="ink" if is_up else "grey", font_weight="bold", font_size=12),
        ]  # fmt: skip
        for row, (kind, words) in enumerate(_items(held)):
            shown = kind if name or kind == "connector" else "nobody"
            parts.append(draw_box(shown, x + 8, HEAD + row * ITEM_TALL, wide - 16, ITEM_TALL - 4, words))
        pieces.append(group(*parts, data_ref=f"member:{name}" if name else None))
    return pieces


def words_of(state: State) -> str:
    """The layout in words."""
    told = {name: ", ".join(words for _, words in _items(held)) for name, held in _holders(state).items()}
    idle = told.pop("")
    workers = state.get("workers", {})
    said = [f"{name}: {words or ('nothing' if workers[name].get('up') else 'dead')}" for name, words in told.items()]
    return "; ".join([*said, *([f"nowhere: {idle}"] if idle else [])])
