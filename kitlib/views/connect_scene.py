"""A Connect cluster's run: who runs each task, when nobody does, and the layout after each step.

On top is a row for each connector and task. The panel shows the workers as boxes, with what they run in
them, and beside them what runs nowhere.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace
from kitlib.views.group_look import Sign, draw_sign
from kitlib.views.lanes_look import CROSS, CROSSED_DISC, DISC
from kitlib.views.layout_bars import bars, draw_box, draw_rows, swatch
from kitlib.views.look import LEFT, ORANGE, RED, WIDTH
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene, draw_axis, places
from kitlib.views.svg import Svg, el, group

PARTS = {
    "all": "Who runs each task, and when does nobody?",
    "layout": "Which worker runs what after this step?",
}
HAS_RECORDS = False
MOST_ROWS = 20
HEAD, ITEM_TALL, GAP = 26, 22, 8
SIGNS = {
    "start": Sign("a worker starts", "M-5 0H5M0 -5V5", "ink", 2.2),
    "leave": Sign("a worker leaves", "M-5.5 0H5M1.5 -4L5.5 0L1.5 4", "ink", 2),
    "kill": Sign("a worker dies", CROSS, RED, 2.6),
    "evict": Sign("the coordinator gives it up", CROSSED_DISC, RED, 1.8, "paper"),
    "delay": Sign("the scheduled delay begins", f"{DISC}M0 -2.8V0H2.4", ORANGE, 1.8, "paper"),
    "sync": Sign("a rebalance ends", "M0 -6V6", "ink", 1.2),
}



def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "layout" is the panel alone."""
    xs = places(trace)
    states: list[dict[str, Any]] = [step.state.get("connect", {}) for step in trace.steps]
    names = _pieces(states)
    drawn: list[Svg] = []
    y = 8.0
    if part == "all":
        drawn.append(_draw_signs(trace, xs, y + 8))
        rows, y = draw_rows({name: bars([_owner(state, name) for state in states], xs) for name in names}, y + 22)
        drawn.append(rows)
    drawn.append(draw_axis(trace, xs, y + 4))
    tall = HEAD + ITEM_TALL * max([_most_items(state) for state in states], default=1) + 24
    scene = Scene("Connect", PARTS[part], height=int(y) + 30, panel_height=tall)
    scene.top, scene.bottom, scene.body = 4, int(y) + 4, group(*drawn)
    for step, x, state in zip(trace.steps, xs, states, strict=True):
        scene.add_step(x, trace.sentence(step), draw_layout(state, tall), words_of(state))
    scene.legend = [
        (swatch(kind), text)
        for kind, text in (("runs", "a task, run by the worker named"), ("nobody", "nobody runs it"))
    ]
    scene.legend.append((swatch("connector"), "in the boxes: a connector"))
    found = {step.what for step in trace.steps} if part == "all" else set()
    scene.legend += [(group(draw_sign(sign, 13, 9)), sign.meaning) for what, sign in SIGNS.items() if what in found]
    return scene


def _pieces(states: list[dict[str, Any]]) -> list[str]:
    """The names of all tasks that there ever are, in their order, and of connectors that have none."""
    tasks: set[tuple[str, int]] = set()
    for state in states:
        for held in (*state.get("workers", {}).values(), state.get("unassigned", {})):
            tasks |= {(name, number) for name, number in held.get("tasks", [])}
    return [f"{name}-{number}" for name, number in sorted(tasks)][:MOST_ROWS]


def _owner(state: dict[str, Any], task: str) -> tuple[str, str] | None:
    """Who runs a task after a step; None before it exists."""
    for worker, held in state.get("workers", {}).items():
        if task in _tasks(held):
            return "runs", worker
    return ("nobody", "nobody") if task in _tasks(state.get("unassigned", {})) else None


def _tasks(held: dict[str, Any]) -> list[str]:
    return [f"{name}-{number}" for name, number in held.get("tasks", [])]


def _items(held: dict[str, Any]) -> list[tuple[str, str]]:
    return [("connector", name) for name in held.get("connectors", [])] + [("runs", name) for name in _tasks(held)]


def _most_items(state: dict[str, Any]) -> int:
    held = [*state.get("workers", {}).values(), state.get("unassigned", {})]
    return max((len(_items(each)) for each in held), default=1)


def _draw_signs(trace: Trace, xs: list[float], y: float) -> Svg:
    """The row of what happened to the workers and to the group."""
    parts = [
        el("text", "workers", cls="ink", x=LEFT, y=y + 4, font_size=11, font_weight="bold"),
        el("path", d=f"M{AXIS_LEFT} {y:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5),
    ]
    last = -99.0
    for step, x in zip(trace.steps, xs, strict=True):
        if step.what in SIGNS:
            last = max(x, last + 11)
            parts.append(draw_sign(SIGNS[step.what], last, y))
    return group(*parts)


def draw_layout(state: dict[str, Any], tall: int) -> list[Svg]:
    """The workers as boxes, and what runs nowhere; a piece for each box."""
    workers, idle = state.get("workers", {}), state.get("unassigned", {})
    names = [*workers, ""]
    wide = (WIDTH - 2 * LEFT - GAP * (len(names) - 1)) / len(names)
    pieces = []
    for number, name in enumerate(names):
        x = LEFT + number * (wide + GAP)
        held = workers[name] if name else idle
        is_up = held.get("up", True)
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
        pieces.append(group(*parts))
    return pieces


def words_of(state: dict[str, Any]) -> str:
    """The layout in words."""
    told = [
        f"{name}: {', '.join(words for _, words in _items(held)) or ('nothing' if held.get('up') else 'dead')}"
        for name, held in state.get("workers", {}).items()
    ]
    idle = ", ".join(words for _, words in _items(state.get("unassigned", {})))
    return "; ".join([*told, *([f"nowhere: {idle}"] if idle else [])])
