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
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLUE, CROSS, ORANGE, PINK, RED

PARTS = {"all": "How much lies between what was produced and what is remembered?"}
HAS_RECORDS = False
TOP, TALL = 14, 190


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    end_ms = max(1, trace.steps[-1].at_ms) if trace.steps else 1
    xs = [AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * step.at_ms / end_ms for step in trace.steps]
    high = max([step.state["source"]["position"] for step in trace.steps if "source" in step.state], default=1) or 1
    scene = Scene("A source task", PARTS["all"], height=TOP + TALL + 30, panel_height=24)
    scene.top, scene.bottom = TOP - 6, TOP + TALL
    scene.body = _chart(trace, xs, high, end_ms)
    for step, x in zip(trace.steps, xs, strict=True):
        source = step.state.get("source", {})
        told = (
            f"position {source.get('position', 0):,}, stored {source.get('stored', 0):,}: "
            f"{source.get('at_risk', 0):,} records would come twice"
        )
        words = el("text", told, cls="ink", x=AXIS_LEFT, y=14, font_size=12)
        scene.add_step(x, trace.sentence(step), words, told)
    scene.legend = [
        (el("path", d="M2 9H24", cls="ink-line", stroke_width=2), "records produced"),
        (el("path", d="M2 12H12V6H24", stroke=BLUE, fill="none", stroke_width=2.5), "the stored source offset"),
        (el("rect", x=2, y=3, width=22, height=13, fill=ORANGE, opacity="0.5"), "produced and not remembered"),
        (el("path", d="M2 13L24 5", stroke=PINK, stroke_width=5, stroke_dasharray="5 2"), "produced a second time"),
        (el("path", d=CROSS, stroke=RED, stroke_width=2.6, transform="translate(13 9)"), "the worker dies"),
    ]
    return scene


def _chart(trace: Trace, xs: list[float], high: int, end_ms: int) -> Svg:
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
                corners = (
                    f"M{last_x:.1f} {y(before):.1f}L{x:.1f} {y(position):.1f}V{y(stored_before):.1f}H{last_x:.1f}Z"
                )
                gap.append(corners)
        elif position < before:
            marks.append(
                el("path", d=f"M{x:.1f} {y(before):.1f}V{y(position):.1f}", stroke=RED, stroke_width=1.5, stroke_dasharray="3 3")
            )
        stair.append(f"M{last_x:.1f} {y(stored_before):.1f}H{x:.1f}V{y(stored):.1f}")
        if step.what == "crash":
            marks.append(
                el("path", d=CROSS, stroke=RED, stroke_width=2.6, transform=f"translate({x:.1f} {y(position):.1f})")
            )
        if step.what == "write":
            written = max(written, step.data["last"] + 1)
        before, stored_before, last_x = position, stored, x
    ticks = [
        el("text", f"{share * end_ms // 4_000:,} s", cls="grey", x=AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * share / 4, y=TOP + TALL + 18,
           font_size=11, text_anchor="middle" if 0 < share < 4 else "start" if not share else "end")
        for share in range(5)
    ]  # fmt: skip
    return group(
        el("path", d="".join(gap) or "M0 0", fill=ORANGE, opacity="0.35"),
        el("path", d="".join(stair) or "M0 0", stroke=BLUE, fill="none", stroke_width=2.5),
        el("path", d="".join(line) or "M0 0", cls="ink-line", fill="none", stroke_width=2),
        el("path", d="".join(again) or "M0 0", stroke=PINK, fill="none", stroke_width=5, stroke_dasharray="5 2"),
        *marks,
        el("path", d=f"M{AXIS_LEFT} {TOP + TALL}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7),
        *ticks,
        el("text", "records", cls="ink", x=LEFT, y=TOP + 4, font_size=11),
        el("text", plain_text(f"{high:,}", 20), cls="grey", x=LEFT, y=TOP + 18, font_size=11),
    )
