"""Partitions are added while orders are under way: what each partition's worker does, and which order it breaks.

A row for each partition. A create is a circle, a cancel a cross, in the order in which the worker of that
partition comes to them; a cancel that comes before its create, and a record that the sink refuses, stand
out. The panel says what came of all of them.
"""

from __future__ import annotations

from kitlib.trace import Trace
from kitlib.views.group_look import Sign, draw_sign
from kitlib.views.lanes_look import CROSSED_SQUARE
from kitlib.views.look import BLUE, GREEN, LEFT, RED
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene, draw_axis, places
from kitlib.views.svg import Svg, el, group

PARTS = {"all": "Which cancels come before their create, and which does the sink refuse?"}
HAS_RECORDS = True
TOP, MOST_ROWS, ROW = 12, 24, 17
SIGNS = {
    "created": Sign("an order is created", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", GREEN, 1.4),
    "changed": Sign("an order is changed", "M-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0Z", "ink", 1),
    "cancelled": Sign("an order is cancelled", "M-3 -3L3 3M3 -3L-3 3", BLUE, 1.6),
    "cancel before create": Sign(
        "cancelled before it was created", "M0 -7L6 4.5H-6ZM-2 -1L2 3M2 -1L-2 3", RED, 1.8, "paper"
    ),
    "refused": Sign("refused: the sink has a higher version", CROSSED_SQUARE, RED, 1.6, "paper"),
}





def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace, room=lambda step: 0.2 if step.what in ("append", "commit") else 1)
    born: dict[int, float] = {}
    drawn: list[Svg] = []
    seen: set[str] = set()
    for step, x in zip(trace.steps, xs, strict=True):
        if step.what == "partitions":
            for partition in range(step.data["count"]):
                born.setdefault(partition, x)
    rows = min(len(born), MOST_ROWS)
    foot = TOP + rows * ROW + 4
    for partition in range(rows):
        y = TOP + partition * ROW + 8
        drawn.append(el("text", f"partition {partition}", cls="ink", x=LEFT, y=y + 4, font_size=11))
        drawn.append(el("path", d=f"M{born[partition]:.1f} {y:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.6))
    for step, x in zip(trace.steps, xs, strict=True):
        if step.what == "process" and step.data["partition"] < rows and step.data["effect"] in SIGNS:
            seen.add(step.data["effect"])
            drawn.append(draw_sign(SIGNS[step.data["effect"]], x, TOP + step.data["partition"] * ROW + 8))
        elif step.what == "partitions" and x > xs[0]:
            drawn.append(
                el("path", d=f"M{x:.1f} {TOP - 6}V{foot}", cls="ink-line", stroke_width=1, stroke_dasharray="2 3")
            )
    drawn.append(draw_axis(trace, xs, foot))
    scene = Scene("Partitions are added", PARTS["all"], height=foot + 26, panel_height=30)
    scene.top, scene.bottom, scene.body = TOP - 6, foot, group(*drawn)
    for step, x in zip(trace.steps, xs, strict=True):
        told = (
            ", ".join(f"{count} {effect}" for effect, count in step.state.get("orders", {}).items())
            or "nothing read yet"
        )
        line = el("text", f"So far: {told}", cls="ink", x=AXIS_LEFT, y=16, font_size=12)
        scene.add_step(x, trace.sentence(step), line, told)
    scene.legend = [(group(draw_sign(sign, 13, 9)), sign.meaning) for what, sign in SIGNS.items() if what in seen]
    return scene
