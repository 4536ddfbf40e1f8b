"""A transaction's run: what the producers have open, what the coordinator has decided, how the log grows, who sees what.

Time runs to the right. On top are the producers with their transactions, then each transactional id's
state at the coordinator, and then the log's end with the last stable offset below it: between the two
lies what is written and not decided. The panel is the log after the step, box by box, with the markers,
the last stable offset as a line, and below it what each of two readers has been given.
"""

from __future__ import annotations

from kitlib.trace import Trace
from kitlib.views.look import LEFT
from kitlib.views.paint import letter_paint, line_paint
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.svg import HATCH, Svg, el, group
from kitlib.views.timeline import (
    Drawn,
    Item,
    Lane,
    Mark,
    Row,
    centred,
    compose,
    draw_glyph,
    glyph_marks,
    glyphs_of,
    places,
)
from kitlib.views.transaction_panel import BOX_LOOKS, WASH, Panel, box_swatch
from kitlib.views.transaction_reader import ActorRow, Span, TransactionStory, read_transactions
from kitlib.words.glyphs import BLACK, BLUE, CLOCK, DIAMOND, GREEN, ORANGE, PINK, SKY, SQUARE, Glyph

PARTS = {
    "all": "What is written, what is decided, and who may see it?",
    "log": "What does the log hold, and where does read_committed stop?",
}
HAS_RECORDS = False
CHART_TALL = 76
VARIANTS = {  # of sends and of what a database does
    "held": Glyph("delayed in flight", CLOCK, ORANGE, 1.8, "paper"),
    "charge": Glyph("charged", SQUARE, GREEN, 2, "paper"),
    "again": Glyph("charged again", f"{SQUARE}M-2.5 -2.5H2.5V2.5H-2.5Z", PINK, 2.4, "paper"),
    "known": Glyph("not charged: the key is known", DIAMOND, PINK, 2, "paper"),
}
SIGN_WORDS = (  # in the legend's order
    "commit_tx", "abort_tx", "kill", "freeze", "thaw", "fenced", "unknown", "held", "release", "late_marker", "refuse",
    "charge", "again", "known",
)  # fmt: skip
STATES: dict[str, tuple[str, str, str]] = {  # of the coordinator: fill, colour of the words, meaning
    "Empty": ("none", "ink", "no transaction"),
    "Ongoing": (ORANGE, BLACK, "transaction open"),
    "PrepareCommit": (SKY, BLACK, "decided, markers missing"),
    "PrepareAbort": (SKY, BLACK, "decided, markers missing"),
    "PrepareEpochFence": (SKY, BLACK, "decided, markers missing"),
    "CompleteCommit": (BLUE, "ink", "committed"),
    "CompleteAbort": (HATCH, "ink", "aborted"),
    "Dead": ("none", "ink", "forgotten"),
}
SHORT = {"CompleteCommit": "Commit", "CompleteAbort": "Abort", "PrepareCommit": "Prepare", "PrepareAbort": "Prepare"}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "log" leaves the producers and the coordinator out."""
    xs = places(trace)
    story = read_transactions(trace, xs)
    glyphs = glyphs_of(trace, SIGN_WORDS, VARIANTS)
    rows = [*_producers(story, glyphs), *_coordinator(story)] if part == "all" else []
    rows.append(Drawn(CHART_TALL + 2, lambda y: [_draw_growth(story, xs, y)]))
    panel = Panel(story, trace)
    legend = _legend(trace, story, glyphs, panel, part == "all")
    return compose(trace, xs, "Transactions", PARTS[part], rows, map(panel.take, trace), panel.tall, legend)


# -- the body ------------------------------------------------------------------------------------------


def _box(span: Span, fill: str, words: tuple[str, ...], colour: str, title: str, ref: str | None = None) -> Mark:
    """A box from one place to another, with the longest of some words that fits into it."""
    x1 = max(span.x1, span.x0 + 1.0)

    def draw(y: float) -> list[Svg]:
        box = {"x": span.x0, "y": y - 9, "width": max(1.0, span.x1 - span.x0), "height": 18}
        rect = el("rect", el("title", title), fill=fill, fill_opacity=WASH.get(fill), cls="ink-line", stroke_width=0.8, **box)
        told = centred(words, span.x0, x1, y + 4, letter_paint(colour, 4 * (fill == HATCH)), 4)
        return [group(rect, *told, data_ref=ref)] if ref else [rect, *told]

    return draw


def _sent(xs: list[float]) -> Mark:
    """Where records are sent."""
    title = el("title", "records are sent")
    return lambda y: [el("path", title, d="".join(f"M{x:.1f} {y - 9:g}v18" for x in xs), cls="ink-line", stroke_width=1.6)] if xs else []


def _signs_of(row: ActorRow) -> list[tuple[str, float]]:
    ends = [(span.end, span.x1) for span in row.spans]
    return sorted([*row.signs, *ends], key=lambda sign: sign[1])


def _producers(story: TransactionStory, glyphs: dict[str, Glyph]) -> list[Row]:
    """A row for each producer, for the network and for the database."""
    rows: list[Row] = []
    for name, row in story.producers.items():
        named = [(span, (f"transaction {span.name}", f"tx {span.name}", span.name)) for span in row.spans]
        boxes = [_box(span, ORANGE, words, BLACK, words[0], f"transaction:{span.name}") for span, words in named]
        signs = [(what, x) for what, x in _signs_of(row) if what in glyphs]
        rows.append(Lane(name, [*boxes, _sent(row.sent), glyph_marks(signs, glyphs)], ref=f"process:{name}"))
    for name, found in (("network", story.network), ("database", story.effects)):
        if found:
            rows.append(Lane(name, [glyph_marks([(what, x) for x, what in found if what in glyphs], glyphs)]))
    return [*rows, Drawn(4, lambda y: [])]


def _coordinator(story: TransactionStory) -> list[Row]:
    """A row for each transactional id: its states."""
    told = "The coordinator holds, for each transactional id:"
    rows: list[Row] = [Drawn(14, lambda y: [el("text", told, cls="grey", x=AXIS_LEFT, y=y + 10, font_size=11)])] if story.ids else []
    for name, spans in story.ids.items():
        boxes = []
        for span in spans:
            fill, colour, _ = STATES.get(span.name, ("none", "ink", ""))
            short = SHORT.get(span.name, span.name)
            words = (f"{span.name} {span.end}", span.name, short, short[:1])
            boxes.append(_box(span, fill, words, colour, f"{span.name}, producer id / epoch {span.end}"))
        rows.append(Lane(name, boxes, middle=11, thick=0, bold=False))
    return [*rows, Drawn(8, lambda y: [])]


def _draw_growth(story: TransactionStory, xs: list[float], y: float) -> Svg:
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
        el("text", "the log", cls="ink", x=LEFT, y=y + 16, font_weight="bold"),
        el("text", f"{high} offsets", cls="grey", x=LEFT, y=y + 30, font_size=11),
        el("path", d=f"M{AXIS_LEFT} {foot:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7),
    ]
    if upper:
        area = "M" + "L".join(f"{x:.1f} {v:.1f}" for x, v in (*upper, *reversed(lower)))
        parts.append(el("path", d=f"{area}Z", fill=ORANGE, opacity=0.55))
        for corners, colour, thick in ((upper, "ink", 1.4), (lower, BLUE, 2.4)):
            path = "M" + "L".join(f"{x:.1f} {v:.1f}" for x, v in corners)
            parts.append(el("path", d=path, fill="none", stroke_width=thick, **line_paint(colour)))
    return group(*parts)


def _legend(trace: Trace, story: TransactionStory, glyphs: dict[str, Glyph], panel: Panel, has_producers: bool) -> list[Item]:
    found: list[Item] = [
        (el("path", d="M1 9H25", cls="ink-line", stroke_width=1.4), "the log's end"),
        (el("path", d="M1 9H25", stroke=BLUE, stroke_width=2.4), "the last stable offset"),
        (el("rect", x=1, y=3, width=24, height=12, fill=ORANGE, opacity=0.55), "written, and not decided"),
    ]
    changes = [step for step in trace.steps if step.what in ("write", "marker")]
    worth = {look for step in [*changes, *trace.steps[-1:]] for look in panel.looks_of(step.state.get("log", [])).values()}
    found += [(box_swatch(name), meaning) for name, (_, _, meaning) in BOX_LOOKS.items() if name in worth]
    if not has_producers:
        return found
    if any(step.what == "send" for step in trace.steps):
        found.append((el("path", d="M13 0V18", cls="ink-line", stroke_width=1.6), "records are sent"))
    states = {span.name for spans in story.ids.values() for span in spans}
    told: dict[str, str] = {STATES[name][2]: name for name in reversed(STATES) if name in states}
    for meaning, name in reversed(told.items()):
        fill, colour, _ = STATES[name]
        box = _box(Span(0, 26, name), fill, (SHORT.get(name, name)[:1],), colour, meaning)
        found.append((group(*box(9)), f"coordinator: {meaning}"))
    signs = [what for row in story.producers.values() for what, _ in _signs_of(row)]
    occurred = {*signs, *(what for _, what in (*story.network, *story.effects))}
    return found + [(draw_glyph(glyph, 13, 9), glyph.meaning) for what, glyph in glyphs.items() if what in occurred]
