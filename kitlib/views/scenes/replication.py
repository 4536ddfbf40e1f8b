"""A partition with copies: who leads, who is in sync, and which acknowledged records nobody has any more.

Time runs to the right. A row for each broker: a thick line while it leads, a thin one while it is in sync, dashed
while it is not, none while it is dead. Below is where the log ended for its readers, and where they had committed.
The panel has each broker's log with its epochs; what the leader's log does not have is hatched.

A broker's line is drawn by hand: its weight and its dash say what the broker is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.look import CHAR, LEFT
from kitlib.views.pictures.clock import figure
from kitlib.views.pictures.history import stair
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes.offset_rows import CHART_TALL, Strip
from kitlib.views.scenes.timeline import (
    Item,
    box_swatch,
    glyph_legend,
    glyphs_of,
    line_swatch,
    occurred,
    places,
    tick_legend,
)
from kitlib.views.svg import HATCH, Svg, el, group
from kitlib.words.glyphs import (
    ALARM,
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    RED,
    SKY,
    WHITE,
    Glyph,
)
from kitlib.words.template import count

PARTS = {
    "all": "Who may lead, and what is gone when it does?",
    "logs": "What lies on each broker?",
}
HAS_RECORDS = True
BAR_LEFT, BAR_RIGHT = 150, 660
PANEL_HEAD, PANEL_ROW = 40, 40
LINE = 13  # from one line of small words to the next
UNCLEAN = {"unclean": Glyph("one is elected that was not in sync", ALARM, RED, 2.2, "paper")}
BROKER_WORDS = ("kill", "restart", "pause", "wake", "flip", "recover", "truncate")
SIGN_WORDS = (*BROKER_WORDS, "elect", "unclean", "none", "refused", "differs", "diverged")  # in the legend's order
HALO = {"stroke_width": 3, "paint_order": "stroke"}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; "logs" leaves the readers and their chart away."""
    xs = places(trace)
    states = _states(trace)
    strip = Strip(trace, xs, variants=UNCLEAN)
    for broker in sorted({name for state in states for name in state.get("replicas", {})}):
        _add_broker(strip, str(broker), states)
    _add_controller(strip)
    if part == "all":
        strip.add_consumers()
        _add_ends(strip)
    brokers = max((len(state.get("replicas", {})) for state in states), default=0)
    tall = PANEL_HEAD + PANEL_ROW * brokers + 24
    return strip.compose("A partition with copies", PARTS[part], _panels(trace, states), tall, _legend(strip))


def _panels(trace: Trace, states: list[Mapping[str, Any]]) -> Iterator[tuple[list[Svg], str]]:
    """The panel after each step, and what it shows in words."""
    logs = [log for state in states for log in state.get("replicas", {}).values()]
    high = max((_end(log) for log in logs), default=0)
    epochs = sorted({each[2] for log in logs for each in log.get("log") or ()})
    gone: list[tuple[int, int]] = []
    for step, state in zip(trace.steps, states, strict=True):
        if step.what == "cut":
            gone.append((int(step.data["to"]), int(step.data["from"])))
        yield _draw_panel(state, max(1, high), epochs, gone), _words(state, gone)


def _states(trace: Trace) -> list[Mapping[str, Any]]:
    """The partition after each step; what a step does not tell is as before."""
    found: list[Mapping[str, Any]] = []
    for step in trace:
        found.append(step.state if isinstance(step.state.get("replicas"), dict) else found[-1] if found else {})
    return found


def _end(replica: Mapping[str, Any]) -> int:
    return int(replica.get("end", 0))


def _add_broker(strip: Strip, broker: str, states: list[Mapping[str, Any]]) -> None:
    """A broker's line by what it is at each step, its writes, and what befalls it."""
    lines: dict[str, str] = {"leader": "", "in sync": "", "out": ""}
    names, kind, since = [], "", AXIS_LEFT * 1.0
    for x, state in [*zip(strip.xs, states, strict=True), (AXIS_RIGHT * 1.0, {})]:
        now = _kind(broker, state) if state else "end"
        if now == kind:
            continue
        if kind in lines:
            lines[kind] += f"M{since:.1f} 0H{x:.1f}"
            strip.seen.add(kind)
        if now == "leader":
            names.append(el("text", f"epoch {plain_text(state.get('epoch', ''), 8)}", cls="ink", x=x + 4, y=-5, font_size=11))
        kind, since = now, x
    writes = "".join(f"M{x:.1f} -4v8" for _, x in strip.steps(lambda step: step.actor == f"broker {broker}" and step.what == "append"))
    copies = "".join(f"M{x:.1f} 0v6" for _, x in strip.steps(lambda step: step.actor == f"broker {broker}" and step.what == "copy"))
    parts = [
        el("path", d=lines["leader"] or "M0 0", stroke=BLUE, stroke_width=5),
        el("path", d=lines["in sync"] or "M0 0", stroke=BLUE, stroke_width=1.6),
        el("path", d=lines["out"] or "M0 0", stroke=ORANGE, stroke_width=1.6, stroke_dasharray="2 4"),
        el("path", d=writes or "M0 0", stroke=GREEN, stroke_width=2.4),
        el("path", d=copies or "M0 0", stroke=GREEN, stroke_width=1.6),
        *names,
        *strip.signs(strip.happened(BROKER_WORDS, f"broker {broker}"), 12),
    ]
    strip.row(f"broker {plain_text(broker, 6)}", parts, 32)


def _kind(broker: str, state: Mapping[str, Any]) -> str:
    replica = state.get("replicas", {}).get(broker)
    if replica is None or not replica.get("alive"):
        return "dead"
    if str(state.get("leader")) == broker:
        return "leader"
    return "in sync" if broker in {str(each) for each in state.get("in_sync") or ()} else "out"


def _add_controller(strip: Strip) -> None:
    """Elections, and who is in sync from when on: each change in words, on a line of its own where it would cover another."""
    ticks, words = [], []
    ends: list[float] = []  # where the words of each line end
    for step, x in strip.steps(lambda step: step.what == "isr"):
        told = f"in sync: {plain_text(', '.join(str(each) for each in step.data['in_sync']) or 'nobody', 12)}"
        wide, is_right = len(told) * CHAR, x > AXIS_RIGHT - 90
        begin = x - wide if is_right else x
        line = next((number for number, end in enumerate(ends) if begin > end + 8), len(ends))
        ends[line:] = [begin + wide, *ends[line + 1 :]]
        anchor = "end" if is_right else None
        words.append(el("text", told, x=x, y=16 + LINE * line, font_size=11, text_anchor=anchor, **HALO, cls="grey paper-line"))
        ticks.append(el("path", d=f"M{x:.1f} 4v{4 + LINE * line}", cls="grey-line"))
    found = strip.steps(lambda step: step.actor == "controller" and step.what in ("elect", "none", "differs"))
    signs = [("unclean" if step.what == "elect" and step.data.get("unclean") else step.what, x) for step, x in found]
    strip.row("controller", [group(*ticks, *words), *strip.signs(signs, 12)], 40)
    strip.y += LINE * max(0, len(ends) - 1)
    if refused := strip.happened(("refused",), "producer"):
        strip.row("producer", strip.signs(refused, 12))


def _add_ends(strip: Strip) -> None:
    """Where the log ended for its readers, where they had committed, and where it was cut."""
    ends: list[tuple[float, int | None]] = []
    committed: list[tuple[float, int | None]] = []
    for step, x in strip.steps(lambda step: "log_end" in step.state):
        ends.append((x, int(step.state["log_end"])))
        committed.append((x, int(step.state.get("committed_to") or 0)))
    if not ends:
        return
    strip.y += 6
    high = max(1, *(value or 0 for _, value in ends + committed))
    foot = strip.y + CHART_TALL

    def y(value: int) -> float:
        return round(foot - (CHART_TALL - 14) * value / high, 1)

    parts = [
        el("text", "offsets", cls="ink", x=LEFT, y=strip.y + 24, font_weight="bold"),
        el("text", figure(high), cls="grey", x=AXIS_LEFT - 6, y=y(high) + 4, font_size=11, text_anchor="end"),
        el("path", d=stair(_corners(ends), y), fill="none", cls="ink-line", stroke_width=1.6),
        el("path", d=stair(_corners(committed), y), fill="none", stroke=BLUE, stroke_width=2),
    ]
    for step, x in strip.steps(lambda step: step.what == "cut"):
        strip.seen.add("cut")
        top, low = y(int(step.data["from"])), y(int(step.data["to"]))
        parts.append(el("path", d=f"M{x:.1f} {top:g}V{low:g}m-4 -6l4 6l4 -6", fill="none", stroke=RED, stroke_width=2.8))
        label = f"−{figure(int(step.data['from']) - int(step.data['to']))}"
        parts.append(el("text", label, x=x - 8, y=(top + low) / 2 + 4, font_size=11, text_anchor="end", **HALO, cls="ink paper-line"))
    strip.drawn.append(group(*parts))
    strip.y = foot


def _corners(points: list[tuple[float, int | None]]) -> list[tuple[float, int | None]]:
    """The points where the value changes, and the last one."""
    kept = [point for place, point in enumerate(points) if not place or point[1] != points[place - 1][1]]
    return kept if kept[-1] is points[-1] else [*kept, points[-1]]


def _draw_panel(state: Mapping[str, Any], high: int, epochs: list[Any], gone: list[tuple[int, int]]) -> list[Svg]:
    """Each broker's log on one scale of offsets, with the high watermark and the commit through all of them."""

    def x(offset: int) -> float:
        return round(BAR_LEFT + (BAR_RIGHT - BAR_LEFT) * offset / high, 1)

    replicas = state.get("replicas", {})
    leader = replicas.get(str(state.get("leader")))
    rows = []
    for place, broker in enumerate(sorted(replicas)):
        row = _draw_replica(str(broker), replicas[broker], _kind(str(broker), state), leader, epochs, x)
        ref = f"process:broker {plain_text(broker, 6)}"
        rows.append(group(row, transform=f"translate(0 {PANEL_HEAD + PANEL_ROW * place})", data_ref=ref))
    foot = PANEL_HEAD + PANEL_ROW * len(replicas)
    marks = []
    if isinstance(mark := state.get("high_watermark"), int):
        marks.append(el("path", d=f"M{x(mark):g} {PANEL_HEAD - 8}V{foot - 4}", cls="ink-line", stroke_width=1.5, stroke_dasharray="4 3"))
        marks.append(_label(f"high watermark {figure(mark)}", x(mark), 14))
    committed = int(state.get("committed_to") or 0)
    marks.append(el("path", d=f"M{x(committed):g} {PANEL_HEAD - 4}l-5 -8h10Z", fill=BLUE, cls="ink-line", stroke_width=0.7))
    marks.append(_label(f"committed {figure(committed)}", x(committed), 29))
    told = "no acknowledged record is gone"
    if gone:
        number = sum(since - to for to, since in gone)
        told = f"{count(number, 'record')} gone for the readers: " + ", ".join(f"{to:,} to {since - 1:,}" for to, since in gone[:3])
    rows.append(el("text", told, cls="ink", x=BAR_LEFT, y=foot + 14, font_weight="bold" if gone else None))
    return [*rows, group(*marks)]


def _label(told: str, x: float, y: float) -> Svg:
    is_left = x > (BAR_LEFT + BAR_RIGHT) / 2
    anchor = "end" if is_left else None
    return el("text", told, x=x + (-7 if is_left else 7), y=y, font_size=11, text_anchor=anchor, **HALO, cls="ink paper-line")


def _draw_replica(broker: str, replica: Mapping[str, Any], kind: str, leader: Mapping[str, Any] | None, epochs: list[Any], x: Any) -> Svg:
    role = {"leader": "leads", "in sync": "in sync", "out": "not in sync", "dead": "dead"}[kind]
    parts = [
        el("text", f"broker {plain_text(broker, 6)}", cls="ink", x=LEFT, y=16, font_weight="bold"),
        el("text", role, cls="ink", x=88, y=16),
        el("text", f"end {figure(_end(replica))}", cls="ink", x=BAR_RIGHT + 8, y=16),
        el("path", d=f"M{BAR_LEFT} 24H{BAR_RIGHT}", cls="grey-line", stroke_width=0.5),
    ]
    for first, last, epoch in replica.get("log") or ():
        box = {"x": x(first), "y": 1, "width": max(1.0, x(last + 1) - x(first)), "height": 22}
        fill = BLUE if epochs.index(epoch) % 2 == 0 else SKY
        opacity = "0.45" if kind == "dead" else None
        parts.append(el("rect", fill=fill, cls="ink-line", stroke_width=0.8, opacity=opacity, **box))
        name = next((each for each in (f"epoch {plain_text(epoch, 6)}", plain_text(epoch, 6)) if box["width"] >= 8 + 6.4 * len(each)), "")
        if name:
            dark = kind != "dead"
            paint: dict[str, object] = {"fill": WHITE if fill == BLUE else BLACK} if dark else {"cls": "ink"}
            parts.append(el("text", name, x=box["x"] + 5, y=16, font_size=11, **paint))
    for first, last in _not_in(replica, leader):
        parts.append(el("rect", x=x(first), y=1, width=max(1.0, x(last + 1) - x(first)), height=22, fill=HATCH, cls="ink-line"))
    return group(*parts)


def _not_in(replica: Mapping[str, Any], leader: Mapping[str, Any] | None) -> list[tuple[int, int]]:
    """The stretches of a broker's log that the leader's does not have: [first, last] offsets."""
    if leader is None:
        return []
    found = []
    for first, last, epoch in replica.get("log") or ():
        at = int(first)
        for begin, end, other in leader.get("log") or ():
            if other == epoch and begin <= at <= end:
                at = end + 1
        if at <= last:
            found.append((at, int(last)))
    return found


def _words(state: Mapping[str, Any], gone: list[tuple[int, int]]) -> str:
    told = []
    for broker, replica in sorted(state.get("replicas", {}).items()):
        kind = _kind(str(broker), state)
        role = {"leader": "leads", "in sync": "is in sync", "out": "is not in sync", "dead": "is dead"}[kind]
        told.append(f"broker {broker} {role} and ends at {_end(replica):,}")
    if state.get("leader") is None and told:
        told.append("there is no leader")
    number = sum(since - to for to, since in gone)
    return "; ".join(told) + (f"; {count(number, 'record')} gone for the readers" if gone else "")


def _legend(strip: Strip) -> list[Item]:
    seen, cut = strip.seen, el("path", d="M13 2V16m-4 -6l4 6l4 -6", fill="none", stroke=RED, stroke_width=2.8)
    lines = [
        ("leader" in seen, line_swatch(stroke=BLUE, stroke_width=5), "leads"),
        ("in sync" in seen, line_swatch(stroke=BLUE, stroke_width=1.6), "follows, and is in sync"),
        ("out" in seen, line_swatch(stroke=ORANGE, stroke_width=1.6, stroke_dasharray="2 4"), "lives, and is not in sync"),
    ]
    gone = [
        (True, box_swatch(fill=HATCH, cls="ink-line"), "is not in the leader's log: will be cut off"),
        ("cut" in seen, cut, "acknowledged records are gone"),
    ]
    signs = glyph_legend(glyphs_of(strip.trace, SIGN_WORDS, UNCLEAN), seen - {"wake"})
    return [*occurred(lines), *signs, *occurred(gone), *tick_legend(seen)]
