"""A Streams application's run: who processes each task, what restores, what stands by; and the layout after each step.

On top is a row for each task, and one for queries. The panel shows the instances as boxes, their threads
as boxes in them, and the tasks in those.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step, Trace
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.scene import Scene
from kitlib.views.scenes.timeline import Row, Signs, Spans, bars, compose, draw_box, glyphs_of, places, swatch
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLUE, CHECK, CLOCK, CROSSED_SQUARE, DIAMOND, PINK, RED, SKY, SMALL_CROSS, Glyph

PARTS = {
    "all": "Who processes each task, and what does a query get?",
    "layout": "Which instance and thread has which task after this step?",
}
HAS_RECORDS = False
MOST_ROWS = 24
HEAD, ITEM_TALL, ITEM_WIDE, GAP, THREAD_HEAD = 24, 20, 62, 8, 16
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
    tall = max([_panel_tall(state) for state in states], default=40)
    panels = ((draw_layout(state, tall), words_of(state)) for state in states)
    if part == "layout":
        return compose(trace, xs, "Streams", PARTS[part], [], panels, tall + 10, legend)
    return compose(trace, xs, "Streams", PARTS[part], rows, panels, tall + 10, [*legend, *signs.legend()])


def _answer(step: Step) -> str:
    outcome = str(step.data["outcome"])
    return outcome if outcome != "value" else "old" if step.data["behind"] else "right"


def _threads(state: State) -> list[tuple[str, list[list[Any]]]]:
    up = {name: one for name, one in state.get("instances", {}).items() if one["up"]}
    return [(name, tasks) for name, one in up.items() for tasks in one["threads"].values()]


def _owner(state: State, task: str) -> tuple[str, str] | None:
    owners = ((kind, name) for name, tasks in _threads(state) for each, kind, _ in tasks if each == task and kind != "standby")
    return next(owners, ("nobody", "nobody") if state.get("generation") else None)


def _rows_of(tasks: list[Any], columns: int) -> int:
    return max(1, -(-len(tasks) // columns))


def _columns(state: State) -> tuple[int, float]:
    """Boxes beside each other in an instance, and the instance's width."""
    count = max(1, len(state.get("instances", {})))
    wide = (WIDTH - 2 * LEFT - GAP * (count - 1)) / count
    return max(1, int((wide - 16) // ITEM_WIDE)), wide


def _panel_tall(state: State) -> int:
    columns, _ = _columns(state)
    threads = [one["threads"].values() for one in state.get("instances", {}).values()]
    rows = [sum(THREAD_HEAD + 6 + _rows_of(tasks, columns) * ITEM_TALL for tasks in each) for each in threads]
    return max((HEAD + each + 6 for each in rows), default=40)


def draw_layout(state: State, tall: int) -> list[Svg]:
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
            box_tall = THREAD_HEAD + _rows_of(tasks, columns) * ITEM_TALL
            parts.append(el("rect", x=x + 5, y=y, width=wide - 10, height=box_tall + 2, rx=3, fill="none", cls="grey-line"))
            does = "restoring" if any(kind == "restoring" for _, kind, _ in tasks) else "" if tasks else "nothing to do"
            parts.append(el("text", f"thread {thread}  {does}", x=x + 10, y=y + 12, cls="grey", font_size=11))
            for place, (task, kind, _) in enumerate(tasks):
                row, column = divmod(place, columns)
                box = x + 10 + column * ITEM_WIDE, y + THREAD_HEAD + row * ITEM_TALL
                drawn = draw_box(kind, *box, ITEM_WIDE - 6, ITEM_TALL - 4, MARKS[kind].format(task))
                parts.append(group(drawn, data_ref=f"task:{task}"))
            y += box_tall + 6
        pieces.append(group(*parts, data_ref=f"member:{name}"))
    return pieces


def words_of(state: State) -> str:
    """The layout in words."""
    told = []
    for name, one in state.get("instances", {}).items():
        tasks = [f"{task} {kind}" for held in one["threads"].values() for task, kind, _ in held]
        told.append(f"{name}: {', '.join(tasks) or 'nothing'}" if one["up"] else f"{name}: dead")
    return "; ".join(told)
