"""Partitions are added while orders are under way: what each partition's worker does, and which order it breaks.

A row for each partition. A create is a circle, a cancel a cross, in the order in which the worker of that
partition comes to them; a cancel that comes before its create, and a record that the sink refuses, stand
out. The panel says what came of all of them.
"""

from __future__ import annotations

from kitlib.trace import Trace
from kitlib.views.scene import AXIS_LEFT, Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.timeline import compose, places
from kitlib.views.stage.score import State
from kitlib.views.svg import el
from kitlib.words.glyphs import BLUE, CROSSED_SQUARE, GREEN, RED, Glyph

PARTS = {"all": "Which cancels come before their create, and which does the sink refuse?"}
MOST_ROWS, ROW = 24, 17
EFFECTS = {
    "created": Glyph("an order is created", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", GREEN, 1.4),
    "changed": Glyph("an order is changed", "M-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0Z", "ink", 1),
    "cancelled": Glyph("an order is cancelled", "M-3 -3L3 3M3 -3L-3 3", BLUE, 1.6),
    "cancel before create": Glyph("cancelled before it was created", "M0 -7L6 4.5H-6ZM-2 -1L2 3M2 -1L-2 3", RED, 1.8, "paper"),
    "refused": Glyph("refused: the sink has a higher version", CROSSED_SQUARE, RED, 1.6, "paper"),
}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace: each partition's line begins where it is added."""
    xs = places(trace)
    added = [(float(step.number), step.data["count"]) for step in trace if step.what == "partitions"]
    most = max([count for _, count in added], default=0)
    born = [next(at for at, count in added if count > number) for number in range(min(most, MOST_ROWS))]
    states: dict[str, list[tuple[float, State]]] = {lane(number): [(0.0, "away"), (at, "up")] for number, at in enumerate(born)}
    lanes = Lanes(
        trace, xs, EFFECTS, lambda step: lane(step.data.get("partition", -1)), word_of=lambda step: step.data.get("effect", step.what),
        names=[*states], states=states, is_staged=False, pitch=ROW,
    )  # fmt: skip
    told = [", ".join(f"{count} {effect}" for effect, count in step.state.get("orders", {}).items()) for step in trace]
    words = [each or "nothing read yet" for each in told]
    panels = [(el("text", f"So far: {each}", cls="ink", x=AXIS_LEFT, y=16, font_size=12), each) for each in words]
    return compose(trace, xs, "Partitions are added", PARTS[part], [lanes], panels, 30, lanes.legend(), top=6)


def lane(number: int) -> str:
    """A partition's name."""
    return f"partition {number}"
