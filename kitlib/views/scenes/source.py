"""A source task's run: how far it has produced, how far its stored offset reaches, and what a crash makes of the gap.

One chart: the position as a line, the stored source offset below it. Between them lies what would be produced again. After a crash
the line falls back to what is stored, and what comes a second time is drawn in the colour of duplicates.
"""

from __future__ import annotations

from kitlib.trace import Trace
from kitlib.views.scene import AXIS_LEFT, Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.offset_rows import Curve, Strip
from kitlib.views.scenes.timeline import box_swatch, glyphs_of, line_swatch, places
from kitlib.views.svg import el
from kitlib.words.glyphs import BLUE, CROSS, ORANGE, PINK, RED, Glyph

PARTS = {"all": "How much lies between what was produced and what is remembered?"}
CHART_TALL = 170
DIES = {"crash": Glyph("the worker dies", CROSS, RED, 2.6)}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace)
    strip = Strip(trace, xs)
    lanes = Lanes(trace, xs, glyphs_of(trace, None, DIES), names=["task"], pitch=26)
    known = strip.steps(lambda step: "source" in step.state)
    position = [(x, int(step.state["source"]["position"])) for step, x in known]
    stored = [(x, int(step.state["source"]["stored"])) for step, x in known]
    written = before = seen = 0  # written: what a reader has seen of the source; seen: the same when the task last fell back
    again: list[tuple[float, int | None]] = []
    for step, x in known:
        at = step.state["source"]["position"]
        seen, before = written if at < before else seen, at
        again.append((x, at if 0 < at <= seen else None))
        written = max(written, step.data["last"] + 1 if step.what == "write" else 0)
    curves = [Curve(position, ORANGE, 0.35, thick=0), Curve(stored, "paper", thick=0), Curve(position)]
    strip.add(lanes)
    strip.add_chart("records", [*curves, Curve(again, PINK, thick=5, dash="5 2"), Curve(stored, BLUE, thick=2.5)], tall=CHART_TALL)
    sources = [step.state.get("source", {}) for step in trace]
    told = [
        f"position {each.get('position', 0):,}, stored {each.get('stored', 0):,}: {each.get('at_risk', 0):,} records would come twice"
        for each in sources
    ]
    panels = ((el("text", words, cls="ink", x=AXIS_LEFT, y=14, font_size=12), words) for words in told)
    legend = [
        (line_swatch(cls="ink-line", stroke_width=2), "records produced"),
        (line_swatch(stroke=BLUE, stroke_width=2.5), "the stored source offset"),
        (box_swatch(fill=ORANGE, opacity="0.5"), "produced and not remembered"),
        (line_swatch(stroke=PINK, stroke_width=5, stroke_dasharray="5 2"), "produced a second time"),
    ]
    return strip.compose("A source task", PARTS[part], panels, 24, legend)
