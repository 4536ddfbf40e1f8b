"""A source task's run: how far it has produced, how far its stored offset reaches, and what a crash makes of the gap.

One chart over real time: the position as a line, the stored source offset as a stair below it. Between
them lies what would be produced again. After a crash the line falls back to the stair, and what comes a
second time is drawn in the colour of duplicates.
"""

from __future__ import annotations

from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.look import LEFT
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes.timeline import Drawn, compose
from kitlib.views.svg import Svg, el
from kitlib.words.glyphs import BLUE, CROSS, ORANGE, PINK, RED

PARTS = {"all": "How much lies between what was produced and what is remembered?"}
HAS_RECORDS = False
TOP, TALL = 14, 190


LEGEND = [
    (el("path", d="M2 9H24", cls="ink-line", stroke_width=2), "records produced"),
    (el("path", d="M2 12H12V6H24", stroke=BLUE, fill="none", stroke_width=2.5), "the stored source offset"),
    (el("rect", x=2, y=3, width=22, height=13, fill=ORANGE, opacity="0.5"), "produced and not remembered"),
    (el("path", d="M2 13L24 5", stroke=PINK, stroke_width=5, stroke_dasharray="5 2"), "produced a second time"),
    (el("path", d=CROSS, stroke=RED, stroke_width=2.6, transform="translate(13 9)"), "the worker dies"),
]


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace. Time is in proportion here, so the places and the axis are the chart's own."""
    end_ms = max(1, trace.steps[-1].at_ms) if trace.steps else 1
    xs = [AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * step.at_ms / end_ms for step in trace.steps]
    sources = [step.state.get("source", {}) for step in trace]
    told = [
        f"position {each.get('position', 0):,}, stored {each.get('stored', 0):,}: {each.get('at_risk', 0):,} records would come twice"
        for each in sources
    ]
    panels = ((el("text", words, cls="ink", x=AXIS_LEFT, y=14, font_size=12), words) for words in told)
    rows = [Drawn(TALL, lambda y: _chart(trace, xs, end_ms))]
    return compose(
        trace, xs, "A source task", PARTS[part], rows, panels, 24, LEGEND, begin=TOP, top=TOP - 6, gap=0, below=30, has_axis=False
    )  # fmt: skip


def _chart(trace: Trace, xs: list[float], end_ms: int) -> list[Svg]:
    high = max([step.state["source"]["position"] for step in trace.steps if "source" in step.state], default=1) or 1

    def y(value: float) -> float:
        return TOP + TALL - value / high * (TALL - 10)

    gap: list[str] = []
    line: list[str] = []
    again: list[str] = []
    stair: list[str] = []
    marks: list[Svg] = []
    before = stored_before = written = 0  # written: what a reader has seen of the source
    last_x: float = AXIS_LEFT
    for step, x in zip(trace.steps, xs, strict=True):
        source = step.state.get("source")
        if source is None:
            continue
        position, stored = source["position"], source["stored"]
        if position > before:
            (again if position <= written else line).append(f"M{last_x:.1f} {y(before):.1f}L{x:.1f} {y(position):.1f}")
            if source["at_risk"]:
                way = f"M{last_x:.1f} {y(before):.1f}L{x:.1f} {y(position):.1f}"
                gap.append(f"{way}V{y(stored_before):.1f}H{last_x:.1f}Z")
        elif position < before:
            fall = f"M{x:.1f} {y(before):.1f}V{y(position):.1f}"
            marks.append(el("path", d=fall, stroke=RED, stroke_width=1.5, stroke_dasharray="3 3"))
        stair.append(f"M{last_x:.1f} {y(stored_before):.1f}H{x:.1f}V{y(stored):.1f}")
        if step.what == "crash":
            marks.append(el("path", d=CROSS, stroke=RED, stroke_width=2.6, transform=f"translate({x:.1f} {y(position):.1f})"))
        if step.what == "write":
            written = max(written, step.data["last"] + 1)
        before, stored_before, last_x = position, stored, x
    ticks = [
        el("text", f"{share * end_ms // 4_000:,} s", cls="grey", x=AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * share / 4, y=TOP + TALL + 18,
           font_size=11, text_anchor="middle" if 0 < share < 4 else "start" if not share else "end")
        for share in range(5)
    ]  # fmt: skip
    return [
        el("path", d="".join(gap) or "M0 0", fill=ORANGE, opacity="0.35"),
        el("path", d="".join(stair) or "M0 0", stroke=BLUE, fill="none", stroke_width=2.5),
        el("path", d="".join(line) or "M0 0", cls="ink-line", fill="none", stroke_width=2),
        el("path", d="".join(again) or "M0 0", stroke=PINK, fill="none", stroke_width=5, stroke_dasharray="5 2"),
        *marks,
        el("path", d=f"M{AXIS_LEFT} {TOP + TALL}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7),
        *ticks,
        el("text", "records", cls="ink", x=LEFT, y=TOP + 4, font_size=11),
        el("text", plain_text(f"{high:,}", 20), cls="grey", x=LEFT, y=TOP + 18, font_size=11),
    ]
