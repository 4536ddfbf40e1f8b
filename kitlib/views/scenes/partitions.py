"""Partitions are added while orders are under way: what each partition's worker does, and which order it breaks.

A row for each partition. A create is a circle, a cancel a cross, in the order in which the worker of that
partition comes to them; a cancel that comes before its create, and a record that the sink refuses, stand
out. The panel says what came of all of them.
"""

from __future__ import annotations

from kitlib.trace import Trace
from kitlib.views.scene import AXIS_LEFT, Scene
from kitlib.views.scenes.timeline import Drawn, compose, draw_glyph, glyph_legend, named_line, places
from kitlib.views.svg import Svg, el
from kitlib.words.glyphs import BLUE, CROSSED_SQUARE, GREEN, RED, Glyph

PARTS = {"all": "Which cancels come before their create, and which does the sink refuse?"}
HAS_RECORDS = True
MOST_ROWS, ROW = 24, 17
EFFECTS = {
    "created": Glyph("an order is created", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", GREEN, 1.4),
    "changed": Glyph("an order is changed", "M-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0Z", "ink", 1),
    "cancelled": Glyph("an order is cancelled", "M-3 -3L3 3M3 -3L-3 3", BLUE, 1.6),
    "cancel before create": Glyph("cancelled before it was created", "M0 -7L6 4.5H-6ZM-2 -1L2 3M2 -1L-2 3", RED, 1.8, "paper"),
    "refused": Glyph("refused: the sink has a higher version", CROSSED_SQUARE, RED, 1.6, "paper"),
}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace)
    run = list(zip(trace.steps, xs, strict=True))
    added = [(step.data["count"], x) for step, x in run if step.what == "partitions"]
    most = max([count for count, _ in added], default=0)
    born = [next(x for count, x in added if count > number) for number in range(min(most, MOST_ROWS))]
    works = [(step.data, x) for step, x in run if step.what == "process" and step.data["partition"] < len(born)]

    def draw(y: float) -> list[Svg]:
        """Lines that begin where their partition does, and on them what became of each order."""
        drawn = [each for number, x in enumerate(born) for each in named_line(f"partition {number}", y + number * ROW + 8, 0.6, f"{x:.1f}")]
        for step, x in run:
            if step.what == "process" and step.data["partition"] < len(born) and step.data["effect"] in EFFECTS:
                drawn.append(draw_glyph(EFFECTS[step.data["effect"]], x, y + step.data["partition"] * ROW + 8))
            elif step.what == "partitions" and x > xs[0]:
                line = f"M{x:.1f} {y - 6:g}V{y + len(born) * ROW + 4:g}"
                drawn.append(el("path", d=line, cls="ink-line", stroke_width=1, stroke_dasharray="2 3"))
        return drawn

    told = [", ".join(f"{count} {effect}" for effect, count in step.state.get("orders", {}).items()) for step in trace]
    words = [each or "nothing read yet" for each in told]
    panels = [(el("text", f"So far: {each}", cls="ink", x=AXIS_LEFT, y=16, font_size=12), each) for each in words]
    legend = glyph_legend(EFFECTS, (data["effect"] for data, _ in works))
    return compose(trace, xs, "Partitions are added", PARTS[part], [Drawn(len(born) * ROW, draw)], panels, 30, legend, begin=12, top=6)
