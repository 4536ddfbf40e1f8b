"""A transaction's run: what the producers have open, what the coordinator has decided, how the log grows, who sees what.

Time runs to the right. On top are the producers with their transactions, then each transactional id's
state at the coordinator, and then the log's end with the last stable offset below it: between the two
lies what is written and not decided. The panel is the log after the step, box by box, with the markers,
the last stable offset as a line, and below it what each of two readers has been given.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace
from kitlib.views.lanes_look import CHAR
from kitlib.views.look import LEFT
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.svg import HATCH, Svg, el, group
from kitlib.views.timeline import draw_axis, draw_glyph, places
from kitlib.views.transaction_panel import BOX_LOOKS, PANEL_TALL, Panel, box_swatch
from kitlib.views.transaction_reader import Span, TransactionStory, read_transactions
from kitlib.words.glyphs import BLACK, BLUE, CHECK, CROSS, CROSSED_SQUARE, DISC, GREEN, ORANGE, PINK, RED, SKY, Glyph

PARTS = {
    "all": "What is written, what is decided, and who may see it?",
    "log": "What does the log hold, and where does read_committed stop?",
}
HAS_RECORDS = False
ROW_TALL, CHART_TALL = 26, 76
SIGNS = {
    "commit_tx": Glyph("the producer is told: committed", CHECK, BLUE, 2.6),
    "abort_tx": Glyph("the producer is told: aborted", "M-4 -4L4 4M4 -4L-4 4", "ink", 2.2),
    "kill": Glyph("is killed", CROSS, RED, 2.6),
    "freeze": Glyph("stands still", "M-3 -5.5V5.5M3 -5.5V5.5", "ink", 2.6),
    "thaw": Glyph("goes on", "M-3.5 -5.5L5 0L-3.5 5.5Z", "ink", 1.6, "paper"),
    "fenced": Glyph("is fenced", CROSSED_SQUARE, RED, 1.8, "paper"),
    "unknown": Glyph("hears an error", "M0 -6.5L6.5 0L0 6.5L-6.5 0ZM0 -3.2V0.6M0 2.4V3.2", RED, 1.8, "paper"),
    "held": Glyph("held back on its way", f"{DISC}M0 -2.8V0H2.4", ORANGE, 1.8, "paper"),
    "release": Glyph("arrives after all", "M-6 0H4M0.5 -3.5L4.5 0L0.5 3.5", "ink", 1.8),
    "late_marker": Glyph("a late marker", "M0 -6.5L6.5 0L0 6.5L-6.5 0Z", "ink", 1.6, "paper"),
    "refuse": Glyph("refused by the broker", CROSSED_SQUARE, RED, 1.6, "paper"),
    "charge": Glyph("charged", "M-5 -5H5V5H-5Z", GREEN, 2, "paper"),
    "again": Glyph("charged once more", "M-5 -5H5V5H-5ZM-2.5 -2.5H2.5V2.5H-2.5Z", PINK, 2.4, "paper"),
    "known": Glyph("not charged: the key is known", "M0 -6.5L6.5 0L0 6.5L-6.5 0Z", PINK, 2, "paper"),
}
STATES: dict[str, tuple[str, str, str]] = {  # of the coordinator: fill, colour of the words, meaning
    "Empty": ("none", "ink", "no transaction"),
    "Ongoing": (ORANGE, BLACK, "a transaction is open"),
    "PrepareCommit": (SKY, BLACK, "decided, not all markers written"),
    "PrepareAbort": (SKY, BLACK, "decided, not all markers written"),
    "PrepareEpochFence": (SKY, BLACK, "decided, not all markers written"),
    "CompleteCommit": (BLUE, "#FFFFFF", "committed, all markers written"),
    "CompleteAbort": (HATCH, "ink", "aborted, all markers written"),
    "Dead": ("none", "ink", "forgotten"),
}
SHORT = {"CompleteCommit": "Commit", "CompleteAbort": "Abort", "PrepareCommit": "Prepare", "PrepareAbort": "Prepare"}



def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "log" leaves the producers and the coordinator out."""
    xs = places(trace)
    story = read_transactions(trace, xs)
    drawn: list[Svg] = []
    seen: set[str] = set()
    y = 8
    if part == "all":
        y = _draw_producers(drawn, story, seen, y)
        y = _draw_coordinator(drawn, story, seen, y)
    drawn.append(_draw_growth(story, xs, y))
    foot = y + CHART_TALL + 6
    drawn.append(draw_axis(trace, xs, foot))
    panel = Panel(story, trace)
    scene = Scene("Transactions", PARTS[part], height=foot + 26, panel_height=PANEL_TALL + 16 * panel.ids)
    scene.top, scene.bottom, scene.body = 4, foot, group(*drawn)
    for step, x in zip(trace.steps, xs, strict=True):
        scene.add_step(x, trace.sentence(step), *panel.take(step))
    scene.legend = _legend(trace, seen, part == "all")
    return scene


# -- the body ------------------------------------------------------------------------------------------


def _name(name: str, y: float, *, bold: bool = True) -> Svg:
    return el("text", name, cls="ink", x=LEFT, y=y + 4, font_weight="bold" if bold else None)


def _box(span: Span, y: float, fill: str, words: tuple[str, ...], colour: str, title: str) -> list[Svg]:
    """A box from one place to another, with the longest of some words that fits into it."""
    wide = max(1.0, span.x1 - span.x0)
    box = {"x": span.x0, "y": y, "width": wide, "height": 18}
    parts = [el("rect", el("title", title), fill=fill, cls="ink-line", stroke_width=0.8, **box)]
    for told in words:
        if len(told) * CHAR + 4 <= wide:
            paint: dict[str, Any] = {"fill": colour} if colour != "ink" else {"cls": "ink"}
            if fill == HATCH:
                paint = {
                    "cls": "ink paper-line",
                    "stroke_width": 4,
                    "paint_order": "stroke",
                    "stroke_linejoin": "round",
                }
            middle = (span.x0 + span.x1) / 2
            parts.append(el("text", told, x=middle, y=y + 13, text_anchor="middle", font_size=11, **paint))
            break
    return parts


def _signs(found: list[tuple[str, float]], y: float, seen: set[str]) -> list[Svg]:
    """The signs of a row; one too near to another is moved on a little."""
    parts = []
    last = -99.0
    for what, x in found:
        last = max(x, min(last + 12, x + 24))
        seen.add(what)
        parts.append(draw_glyph(SIGNS[what], last, y))
    return parts


def _draw_producers(drawn: list[Svg], story: TransactionStory, seen: set[str], y: int) -> int:
    """A row for each producer, for the network and for the database; where the next row begins."""
    for name, row in story.producers.items():
        middle = y + ROW_TALL / 2
        drawn.append(_name(name, middle))
        drawn.append(el("path", d=f"M{AXIS_LEFT} {middle:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7))
        for span in row.spans:
            words = (f"transaction {span.name}", f"tx {span.name}", span.name)
            drawn.extend(_box(span, middle - 9, ORANGE, words, BLACK, f"transaction {span.name}"))
        if row.sent:
            path = "".join(f"M{x:.1f} {middle - 9:g}v18" for x in row.sent)
            drawn.append(el("path", el("title", "records are sent"), d=path, cls="ink-line", stroke_width=1.6))
        ends = [(span.end, span.x1) for span in row.spans if span.end in SIGNS]
        drawn.extend(_signs(sorted([*row.signs, *ends], key=lambda sign: sign[1]), middle, seen))
        y += ROW_TALL
    for name, found in (("network", story.network), ("database", story.effects)):
        if found:
            drawn.append(_name(name, y + ROW_TALL / 2))
            line = f"M{AXIS_LEFT} {y + ROW_TALL / 2:g}H{AXIS_RIGHT}"
            drawn.append(el("path", d=line, cls="grey-line", stroke_width=0.7))
            known = [(what, x) for x, what in found if what in SIGNS]
            drawn.extend(_signs(known, y + ROW_TALL / 2, seen))
            y += ROW_TALL
    return y + 4


def _draw_coordinator(drawn: list[Svg], story: TransactionStory, seen: set[str], y: int) -> int:
    """A row for each transactional id: its states."""
    if story.ids:
        drawn.append(
            el(
                "text",
                "The coordinator holds, for each transactional id:",
                cls="grey",
                x=AXIS_LEFT,
                y=y + 10,
                font_size=11,
            )
        )
        y += 14
    for name, spans in story.ids.items():
        drawn.append(_name(name, y + 11, bold=False))
        for span in spans:
            fill, colour, _ = STATES.get(span.name, ("none", "ink", ""))
            seen.add(span.name)
            short = SHORT.get(span.name, span.name)
            title = f"{span.name}, producer id / epoch {span.end}"
            words = (f"{span.name} {span.end}", span.name, short, short[:1])
            drawn.extend(_box(span, y + 2, fill, words, colour, title))
        y += ROW_TALL
    return y + 8


def _draw_growth(story: TransactionStory, xs: list[float], y: int) -> Svg:
    """The log's end and the last stable offset over the run, and between them what is not decided."""
    high = max(1, *story.ends, 1) if story.ends else 1
    scale = (CHART_TALL - 8) / high
    foot = y + CHART_TALL

    def steps_of(values: list[int]) -> list[tuple[float, float]]:
        corners: list[tuple[float, float]] = []
        last = None
        for x, value in zip(xs, values, strict=True):
            if value != last:
                corners += [(x, foot - (last or 0) * scale)] if last is not None else []
                corners.append((x, foot - value * scale))
                last = value
        return [*corners, (xs[-1], foot - (last or 0) * scale)] if xs else []

    upper, lower = steps_of(story.ends), steps_of(story.stable)
    parts = [
        _name("the log", y + 12),
        el("text", f"{high} offsets", cls="grey", x=LEFT, y=y + 30, font_size=11),
        el("path", d=f"M{AXIS_LEFT} {foot}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7),
    ]
    if upper:
        area = "M" + "L".join(f"{x:.1f} {v:.1f}" for x, v in (*upper, *reversed(lower)))
        parts.append(el("path", d=f"{area}Z", fill=ORANGE, opacity=0.55))
        for corners, colour, thick in ((upper, "ink", 1.4), (lower, BLUE, 2.4)):
            path = "M" + "L".join(f"{x:.1f} {v:.1f}" for x, v in corners)
            paint = {"cls": "ink-line"} if colour == "ink" else {"stroke": colour}
            parts.append(el("path", d=path, fill="none", stroke_width=thick, **paint))
    return group(*parts)


def _legend(trace: Trace, seen: set[str], has_producers: bool) -> list[tuple[Svg, str]]:
    found: list[tuple[Svg, str]] = [
        (el("path", d="M1 9H25", cls="ink-line", stroke_width=1.4), "the log's end"),
        (el("path", d="M1 9H25", stroke=BLUE, stroke_width=2.4), "the last stable offset: read_committed stops here"),
        (el("rect", x=1, y=3, width=24, height=12, fill=ORANGE, opacity=0.55), "written, and not decided"),
    ]
    changes = [step for step in trace.steps if step.what in ("write", "marker")]
    worth = {name for step in [*changes, *trace.steps[-1:]] for name in Panel.fates_of(step)}
    found += [(box_swatch(name), meaning) for name, (_, _, meaning) in BOX_LOOKS.items() if name in worth]
    if has_producers and any(step.what == "send" for step in trace.steps):
        found.append((el("path", d="M13 0V18", cls="ink-line", stroke_width=1.6), "records are sent"))
    told: dict[str, str] = {STATES[name][2]: name for name in reversed(STATES) if name in seen}
    for meaning, name in reversed(told.items()):
        box = Span(0, 26, name)
        fill, colour, _ = STATES[name]
        found.append(
            (group(*_box(box, 0, fill, (SHORT.get(name, name)[:1],), colour, meaning)), f"coordinator: {meaning}")
        )
    return found + [(draw_glyph(sign, 13, 9), sign.meaning) for what, sign in SIGNS.items() if what in seen]
