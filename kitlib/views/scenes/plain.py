"""Any domain that has no picture of its own: who does what and when, and below it the state after the step."""

from __future__ import annotations

from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.scene import AXIS_LEFT, Scene
from kitlib.views.scenes.timeline import Signs, compose, glyphs_of, places
from kitlib.views.svg import el

PARTS = {"all": "Who does what, and when?"}
HAS_RECORDS = False
PITCH, MOST_CHARS = 18, 110


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace: a row of signs for each actor."""
    xs = places(trace)
    rows: dict[str, list[tuple[str, float]]] = {}
    for step, x in zip(trace, xs, strict=True):
        rows.setdefault(plain_text(step.actor, 16), []).append((step.what, x))
    signs = Signs(rows, glyphs_of(trace), PITCH * len(rows) + 4, PITCH)
    told = [plain_text(", ".join(f"{name}: {value}" for name, value in step.state.items()), MOST_CHARS) for step in trace]
    panels = [(el("text", words, cls="ink", x=AXIS_LEFT, y=16, font_size=12), words) for words in told]
    return compose(trace, xs, plain_text(trace.experiment.replace("_", " "), 60), PARTS["all"], [signs], panels, 30, signs.legend())
