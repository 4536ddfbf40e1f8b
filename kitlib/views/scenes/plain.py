"""Any domain that has no picture of its own: who does what and when, and below it the state after the step."""

from __future__ import annotations

from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.scene import AXIS_LEFT, Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.timeline import compose, glyphs_of, places
from kitlib.views.svg import el

PARTS = {"all": "Who does what, and when?"}
MOST_CHARS = 110


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace: a lane for each actor."""
    xs = places(trace)
    lanes = Lanes(trace, xs, glyphs_of(trace), names=[*dict.fromkeys(step.actor for step in trace)], pitch=20)
    told = [plain_text(", ".join(f"{name}: {value}" for name, value in step.state.items()), MOST_CHARS) for step in trace]
    panels = [(el("text", words, cls="ink", x=AXIS_LEFT, y=16, font_size=12), words) for words in told]
    return compose(trace, xs, plain_text(trace.experiment.replace("_", " "), 60), PARTS["all"], [lanes], panels, 30, lanes.legend())
