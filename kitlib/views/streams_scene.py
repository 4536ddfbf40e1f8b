"""A Streams application's run: who processes each task, what restores, what stands by; and the layout after each step.

On top is a row for each task, and one for queries. The panel shows the instances as boxes, their threads
as boxes in them, and the tasks in those.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace
from kitlib.views.group_look import Sign, draw_sign
from kitlib.views.lanes_look import CHECK, CROSS, CROSSED_DISC, CROSSED_SQUARE, DIAMOND, DISC
from kitlib.views.layout_bars import bars, draw_box, draw_rows, swatch
from kitlib.views.look import BLUE, LEFT, PINK, RED, SKY, WIDTH
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene, draw_axis, places
from kitlib.views.svg import Svg, el, group

PARTS = {
    "all": "Who processes each task, and what does a query get?",
    "layout": "Which instance and thread has which task after this step?",
}
HAS_RECORDS = False
MOST_ROWS = 24
HEAD, ITEM_TALL, GAP, THREAD_HEAD = 24, 20, 8, 16
SIGNS = {
    "start": Sign("an instance starts", "M-5 0H5M0 -5V5", "ink", 2.2),
    "kill": Sign("an instance dies", CROSS, RED, 2.6),
    "evict": Sign("the coordinator gives it up", CROSSED_DISC, RED, 1.8, "paper"),
    "assigned": Sign("a rebalance ends", "M0 -6V6", "ink", 1.2),
}
ANSWERS = {
    "right": Sign("a query: the right value", CHECK, BLUE, 2.6),
    "old": Sign("a query: an old value", f"{DISC}M0 -2.8V0H2.4", SKY, 2, "paper"),
    "null": Sign("a query: null, as for an unknown key", DIAMOND, PINK, 1.8, "paper"),
    "InvalidStateStoreException": Sign("a query: InvalidStateStoreException", CROSSED_SQUARE, RED, 1.6, "paper"),
    "no answer": Sign("a query: nobody answers", "M-4 -4L4 4M4 -4L-4 4", "ink", 2),
}



def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "layout" is the panel alone."""
    xs = places(trace)
    states: list[dict[str, Any]] = [step.state.get("streams", {}) for step in trace.steps]
    drawn: list[Svg] = []
    seen: set[str] = set()
    y = 8.0
    if part == "all":
        drawn.append(_draw_signs(trace, xs, y + 8, seen))
        names = list(states[-1].get("waiting", {}))[:MOST_ROWS] if states else []
        rows, y = draw_rows({name: bars([_owner(state, name) for state in states], xs) for name in names}, y + 42)
        drawn.append(rows)
    drawn.append(draw_axis(trace, xs, y + 4))
    tall = max([_panel_tall(state) for state in states], default=40)
    scene = Scene("Streams", PARTS[part], height=int(y) + 30, panel_height=tall + 10)
    scene.top, scene.bottom, scene.body = 4, int(y) + 4, group(*drawn)
    for step, x, state in zip(trace.steps, xs, states, strict=True):
        scene.add_step(x, trace.sentence(step), draw_layout(state, tall), words_of(state))
    kinds = {kind for state in states for _, tasks in _threads(state) for _, kind, _ in tasks} | (
        {"nobody"} if part == "all" else set()
    )
    scene.legend = [(swatch(kind), _MEANS[kind]) for kind in _MEANS if kind in kinds]
    scene.legend += [
        (group(draw_sign(sign, 13, 9)), sign.meaning) for what, sign in (SIGNS | ANSWERS).items() if what in seen
    ]
    return scene


_MEANS = {
    "running": "processed by the instance named",
    "restoring": "restoring: nothing is processed",
    "standby": "standby: a copy follows the changelog",
    "nobody": "nobody has it",
}


def _threads(state: dict[str, Any]) -> list[tuple[str, list[list[Any]]]]:
    return [
        (name, tasks)
        for name, one in state.get("instances", {}).items()
        if one["up"]
        for tasks in one["threads"].values()
    ]


def _owner(state: dict[str, Any], task: str) -> tuple[str, str] | None:
    for name, tasks in _threads(state):
        for each, kind, _ in tasks:
            if each == task and kind != "standby":
                return kind, name
    return ("nobody", "nobody") if state.get("generation") else None


def _draw_signs(trace: Trace, xs: list[float], y: float, seen: set[str]) -> Svg:
    """Two rows: what happened to the instances, and what queries got."""
    parts: list[Svg] = []
    last = {"instances": -99.0, "queries": -99.0}
    has_queries = any(step.what == "ask" for step in trace.steps)
    for number, row in enumerate(("instances", "queries") if has_queries else ("instances",)):
        middle = y + 18 * number
        parts.append(el("text", row, cls="ink", x=LEFT, y=middle + 4, font_size=11, font_weight="bold"))
        parts.append(el("path", d=f"M{AXIS_LEFT} {middle:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5))
    for step, x in zip(trace.steps, xs, strict=True):
        row, what = "instances", step.what
        if what == "ask":
            outcome = step.data["outcome"]
            row, what = "queries", ("old" if step.data["behind"] else "right") if outcome == "value" else outcome
        if what in SIGNS or what in ANSWERS:
            seen.add(what)
            last[row] = max(x, last[row] + 11)
            parts.append(draw_sign((SIGNS | ANSWERS)[what], last[row], y + (18 if row == "queries" else 0)))
    return group(*parts)


def _rows(one: dict[str, Any], columns: int) -> int:
    """How many rows of boxes an instance needs, its threads one below the other."""
    return sum(max(1, -(-len(tasks) // columns)) for tasks in one["threads"].values())


def _columns(state: dict[str, Any]) -> tuple[int, float]:
    """Boxes beside each other in an instance, and the instance's width."""
    count = max(1, len(state.get("instances", {})))
    wide = (WIDTH - 2 * LEFT - GAP * (count - 1)) / count
    return max(1, int((wide - 16) // 62)), wide


def _panel_tall(state: dict[str, Any]) -> int:
    columns, _ = _columns(state)
    found = [
        HEAD + len(one["threads"]) * (THREAD_HEAD + 6) + _rows(one, columns) * ITEM_TALL + 6
        for one in state.get("instances", {}).values()
    ]
    return max(found, default=40)


def draw_layout(state: dict[str, Any], tall: int) -> list[Svg]:
    """The instances as boxes with their threads and tasks; a piece for each instance."""
    columns, wide = _columns(state)
    pieces = []
    for number, (name, one) in enumerate(state.get("instances", {}).items()):
        x, is_up = LEFT + number * (wide + GAP), one["up"]
        parts = [
            el(
                "rect", x=x, y=2, width=wide, height=tall - 4, rx=5, fill="none", stroke_width=1.2,
                stroke_dasharray=None if is_up else "4 3", cls="ink-line" if is_up else "grey-line",
            ),
            el("text", name if is_up else f"{name}: dead", x=x + 8, y=18, cls="ink" if is_up else "grey", font_weight="bold"),
        ]  # fmt: skip
        y = float(HEAD)
        for thread, tasks in one["threads"].items() if is_up else ():
            rows = max(1, -(-len(tasks) // columns))
            parts.append(
                el(
                    "rect",
                    x=x + 5,
                    y=y,
                    width=wide - 10,
                    height=THREAD_HEAD + rows * ITEM_TALL + 2,
                    rx=3,
                    fill="none",
                    cls="grey-line",
                )
            )
            state_of = (
                "restoring" if any(kind == "restoring" for _, kind, _ in tasks) else "" if tasks else "nothing to do"
            )
            parts.append(el("text", f"thread {thread}  {state_of}", x=x + 10, y=y + 12, cls="grey", font_size=11))
            for place, (task, kind, _) in enumerate(tasks):
                row, column = divmod(place, columns)
                mark = {"running": task, "restoring": f"{task} …", "standby": f"({task})"}[kind]
                parts.append(
                    draw_box(kind, x + 10 + column * 62, y + THREAD_HEAD + row * ITEM_TALL, 56, ITEM_TALL - 4, mark)
                )
            y += THREAD_HEAD + rows * ITEM_TALL + 6
        pieces.append(group(*parts))
    return pieces


def words_of(state: dict[str, Any]) -> str:
    """The layout in words."""
    told = []
    for name, one in state.get("instances", {}).items():
        tasks = [f"{task} {kind}" for held in one["threads"].values() for task, kind, _ in held]
        told.append(f"{name}: {', '.join(tasks) or 'nothing'}" if one["up"] else f"{name}: dead")
    return "; ".join(told)
