"""A partition with copies: who leads, who is in sync, and which acknowledged records nobody has any more.

Time runs to the right. On top is a lane for each broker, with what it is while it lives, and what crosses between them; the controller's
has who is in sync. Below is where the log ended for its readers, and where they had committed.
The panel has each broker's log with its epochs; what the leader's log does not have is hatched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import LEFT
from kitlib.views.pictures.history import figure
from kitlib.views.scene import Scene
from kitlib.views.scenes.lanes import Lanes, Spell
from kitlib.views.scenes.offset_rows import Curve, Scale, Strip, log_lanes
from kitlib.views.scenes.timeline import Item, as_before, bars, box_swatch, glyphs_of, occurred, places
from kitlib.views.svg import HATCH, Svg, el, group
from kitlib.words.glyphs import ALARM, BLACK, BLUE, RED, SKY, WHITE, Glyph
from kitlib.words.template import count

PARTS = {"all": "Who may lead, and what is gone when it does?"}
BAR_LEFT, BAR_RIGHT = 150, 660
PANEL_HEAD, PANEL_ROW = 40, 40
UNCLEAN = {"unclean": Glyph("one is elected that was not in sync", ALARM, RED, 2.2, "paper")}
SIGN_WORDS = (  # in the legend's order
    "kill", "restart", "pause", "wake", "flip", "recover", "truncate", "elect", "unclean", "none", "refused", "differs", "diverged",
)  # fmt: skip
ROLES = {"leads": "leads", "in sync": "is in sync", "out": "is not in sync", "dead": "is dead"}
HALO = {"stroke_width": 3, "paint_order": "stroke"}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace."""
    xs = places(trace)
    states = _states(trace)
    brokers = sorted({str(name) for state in states for name in state.get("replicas", {})})
    strip = Strip(trace, xs)
    spells: list[Spell] = [(f"broker {name}", bar, None) for name in brokers for bar in bars([_spell(name, state) for state in states], xs)]
    spells += [("controller", bar, None) for bar in bars(_in_sync(trace), xs)]
    names = ["producer", *(f"broker {name}" for name in brokers), "controller"]
    strip.add(Lanes(trace, xs, glyphs_of(trace, SIGN_WORDS, UNCLEAN), spells=spells, word_of=_word_of, names=names))
    strip.add(log_lanes(trace, xs, "consumers"))
    _add_ends(strip)
    gone = (True, box_swatch(fill=HATCH, cls="ink-line"), "is not in the leader's log: will be cut off")
    cut = el("path", d="M13 2V16m-4 -6l4 6l4 -6", fill="none", stroke=RED, stroke_width=2.8)
    has_cut = any(step.what == "cut" for step in trace)
    legend: list[Item] = occurred([gone, (has_cut, cut, "acknowledged records are gone")])
    tall = PANEL_HEAD + PANEL_ROW * len(brokers) + 24
    return strip.compose("A partition with copies", PARTS[part], _panels(trace, states), tall, legend)


def _word_of(step: Step) -> str:
    return "unclean" if step.what == "elect" and step.data.get("unclean") else step.what


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
    """The partition after each step; {} before one tells of it."""
    return [state or {} for state in as_before(step.state if isinstance(step.state.get("replicas"), dict) else None for step in trace)]


def _end(replica: Mapping[str, Any]) -> int:
    return int(replica.get("end", 0))


def _kind(broker: str, state: Mapping[str, Any]) -> str:
    replica = state.get("replicas", {}).get(broker)
    if replica is None or not replica.get("alive"):
        return "dead"
    if str(state.get("leader")) == broker:
        return "leads"
    return "in sync" if broker in {str(each) for each in state.get("in_sync") or ()} else "out"


def _spell(broker: str, state: Mapping[str, Any]) -> tuple[str, str] | None:
    """What a broker is after a step; None while it is dead."""
    kind, epoch = _kind(broker, state), plain_text(state.get("epoch", ""), 8)
    told = {"leads": f"leads, epoch {epoch}|epoch {epoch}|{epoch}", "in sync": "in sync", "out": "not in sync"}
    return (kind, told[kind]) if kind in told else None


def _in_sync(trace: Trace) -> list[tuple[str, str] | None]:
    """Who is in sync after each step, as the controller says it."""
    names = (plain_text(", ".join(map(str, step.data["in_sync"])) or "nobody", 12) if step.what == "isr" else None for step in trace)
    return [None if told is None else ("synced", f"in sync: {told}|{told}") for told in as_before(names)]


def _add_ends(strip: Strip) -> None:
    """Where the log ended for its readers, where they had committed, and where it was cut."""
    found = [(x, step.state) for step, x in strip.steps(lambda step: "log_end" in step.state)]
    ends = [(x, int(state["log_end"])) for x, state in found]
    committed = [(x, int(state.get("committed_to") or 0)) for x, state in found]

    def draw_cuts(y: Scale) -> list[Svg]:
        parts = []
        for step, x in strip.steps(lambda step: step.what == "cut"):
            top, low = y(int(step.data["from"])), y(int(step.data["to"]))
            parts.append(el("path", d=f"M{x:.1f} {top:g}V{low:g}m-4 -6l4 6l4 -6", fill="none", stroke=RED, stroke_width=2.8))
            label, at = f"−{figure(int(step.data['from']) - int(step.data['to']))}", (top + low) / 2 + 4
            parts.append(el("text", label, x=x - 8, y=at, font_size=11, text_anchor="end", **HALO, cls="ink paper-line"))
        return parts

    strip.add_chart("offsets", [Curve(ends, thick=1.6), Curve(committed, BLUE)], more=draw_cuts)


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


def _draw_replica(
    broker: str, replica: Mapping[str, Any], kind: str, leader: Mapping[str, Any] | None, epochs: list[Any], x: Any
) -> Svg:  # fmt: skip
    parts = [
        el("text", f"broker {plain_text(broker, 6)}", cls="ink", x=LEFT, y=16, font_weight="bold"),
        el("text", ROLES[kind].removeprefix("is "), cls="ink", x=88, y=16),
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
            paint: dict[str, object] = {"cls": "ink"} if kind == "dead" else {"fill": WHITE if fill == BLUE else BLACK}
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


def _words(state: Mapping[str, Any], gone: Sequence[tuple[int, int]]) -> str:
    replicas = sorted(state.get("replicas", {}).items())
    told = [f"broker {broker} {ROLES[_kind(str(broker), state)]} and ends at {_end(replica):,}" for broker, replica in replicas]
    if state.get("leader") is None and told:
        told.append("there is no leader")
    number = sum(since - to for to, since in gone)
    return "; ".join(told) + (f"; {count(number, 'record')} gone for the readers" if gone else "")
