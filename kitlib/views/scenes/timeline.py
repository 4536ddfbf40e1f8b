"""The grammar of a scene: rows over time, a panel for each step, a legend of what occurred.

A picture of a run is a list of rows, the topmost first. A row has its height and draws itself from a height on:
`Lanes` (`lanes.py`) of who did what, `Spans` of what held from when to when, or `Drawn`, what fits neither of them. `compose` puts
rows, time axis and panels together:

    xs = places(trace)
    lanes = Lanes(trace, xs, glyphs_of(trace))
    spans = Spans({name: bars([owner(state, name) for state in states], xs) for name in names})
    scene = compose(trace, xs, "Connect", PARTS[part], [lanes, spans], panels, panel_height, lanes.legend())

How much of the time axis a step takes, and the glyph that stands for it, belong to its word (`kitlib.words`).

Left out: the scene itself with its cursor (`kitlib.views.scene`), and what stands in the panels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log2
from typing import Any, Protocol, TypeVar

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import CHAR, LEFT
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.svg import HATCH, Svg, el, group, letter_paint, line_paint
from kitlib.words.glyphs import BLACK, BLUE, CHECK, GREEN, ORANGE, PINK, RED, SKY, SMALL_CROSS, WHITE, Glyph

TICK_APART = 92  # from one time on the axis to the next, at least
DAY_MS = 86_400_000
LONG_MS = 2 * DAY_MS  # the times of longer runs are told in days
MOST_WAIT = 8.0  # how many steps' room a wait, however long, takes besides its own
ROW_TALL, BAR_TALL = 22, 16
MOST_WORDS = 2_000  # characters of what a panel shows in words
SPARE = 6  # of a box, beside its words

Item = tuple[Svg, str]  # of a legend: a swatch of 26 x 18 and its meaning
Panel = Svg | Sequence[Svg] | None  # None: as before
Mark = Callable[[float], list[Svg]]  # drawn at a height
Told = TypeVar("Told")


def compose(
    trace: Trace, xs: Sequence[float], title: str, question: str, rows: Iterable[Row], panels: Iterable[tuple[Panel, str]],
    panel_height: int, legend: list[Item], *, begin: float = 8, top: int = 4, gap: float = 4, below: int = 26, has_axis: bool = True,
) -> Scene:  # fmt: skip
    """The scene of a run: rows from `begin` on, `gap` above the axis, `below` under it; for each step its panel, and that in words."""
    drawn: list[Svg] = []
    y = begin
    for row in rows:
        drawn += row.draw(y)
        y += row.tall
    foot = round(y + gap)
    scene = Scene(title, question, height=foot + below, panel_height=panel_height, top=top, bottom=foot, legend=legend)
    scene.body = group(*drawn, *([draw_axis(trace, xs, foot)] if has_axis else []))
    drawn_after, words_after = list[Svg](), list[str]()
    for panel, words in panels:
        is_new = panel is not None or not drawn_after
        drawn_after.append((panel if isinstance(panel, Svg) else Svg("", panel or ())) if is_new else drawn_after[-1])
        words_after.append(plain_text(words, MOST_WORDS) if is_new else words_after[-1])
    scene.x_of_step, scene.panel_after, scene.words_after = [*xs], drawn_after.__getitem__, words_after.__getitem__
    return scene


def places(trace: Trace, room: Callable[[Step], float] | None = None) -> list[float]:
    """Where each step lies on the time axis: in order, and a wait before it as longer room, but not in proportion.

    `room` > 0 is how much of the axis a step takes by itself, compared with the others; None: what its word says.
    """
    if not trace.steps:
        return []
    room = room or (lambda step: trace.vocabulary.room(step.what))
    last = trace.steps[0].at_ms
    at = 0.0
    found = []
    for step in trace.steps:
        at += room(step) + min(MOST_WAIT, log2(1 + max(0, step.at_ms - last)) * 0.8)
        last = step.at_ms
        found.append(at)
    scale = (AXIS_RIGHT - AXIS_LEFT) / (found[-1] + 1)
    return [round(AXIS_LEFT + place * scale, 1) for place in found]


def draw_axis(trace: Trace, xs: Sequence[float], y: float) -> Svg:
    """A line at height `y` with the times below it: as many as fit, and only where the clock moved."""
    line = el("path", d=f"M{AXIS_LEFT} {y:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.7)
    return group(line, *(tick for x, tick in draw_ticks(trace, xs, y) if x + 40 <= AXIS_RIGHT))


def draw_ticks(trace: Trace, xs: Sequence[float], y: float) -> list[tuple[float, Svg]]:
    """The times below an axis, each with its place: as many as fit side by side, and only where the clock moved."""
    found = []
    last_x, last_ms = -TICK_APART * 1.0, -1
    for step, x in zip(trace.steps, xs, strict=True):
        if step.at_ms != last_ms and x - last_x >= TICK_APART:
            told = f"{step.at_ms:,} ms" if trace.steps[-1].at_ms < LONG_MS else f"{step.at_ms / DAY_MS:.1f} d"
            mark = el("path", d=f"M{x:.1f} {y:g}v4", cls="grey-line", stroke_width=1)
            found.append((x, group(mark, el("text", told, cls="grey", x=x, y=y + 15, font_size=11))))
            last_x, last_ms = x, step.at_ms
    return found


def apart(xs: Iterable[float], gap: float = 12, most: float = inf) -> list[float]:
    """Places in order, each moved right until it is `gap` from the one before, but never by more than `most`."""
    found: list[float] = []
    for x in xs:
        found.append(max(x, min(found[-1] + gap, x + most)) if found else x)
    return found


def fitting(words: Iterable[str], wide: float) -> str:
    """The first of some words, the longest first, that fits into a width; "" when none does."""
    return next((told for told in words if len(told) * CHAR + SPARE <= wide), "")


def centred(words: Iterable[str], x0: float, x1: float, y: float, paint: Mapping[str, Any]) -> list[Svg]:
    """The longest of some words that fits between two places, in the middle; nothing when none does."""
    told = fitting(words, x1 - x0)
    return [el("text", told, x=(x0 + x1) / 2, y=y, text_anchor="middle", font_size=11, **paint)] if told else []


def glyphs_of(trace: Trace, words: Iterable[str] | None = None, variants: Mapping[str, Glyph] | None = None) -> dict[str, Glyph]:
    """The glyphs of a trace's words and of some variants of them, in the order of `words` (None: of their table)."""
    known = {what: word.glyph for what, word in trace.vocabulary.words.items() if word.glyph is not None} | dict(variants or {})
    return known if words is None else {what: known[what] for what in words if what in known}


def draw_glyph(glyph: Glyph, x: float, y: float) -> Svg:
    """A glyph at its place."""
    names = [*(["ink-line"] if glyph.edge == "ink" else []), *(["paper"] if glyph.fill == "paper" else [])]
    return el(
        "path", el("title", glyph.meaning), d=glyph.path, transform=f"translate({x:.1f} {y:g})", cls=" ".join(names) or None,
        fill=None if glyph.fill == "paper" else glyph.fill, stroke=None if glyph.edge == "ink" else glyph.edge,
        stroke_width=glyph.thick, stroke_linejoin="round",
    )  # fmt: skip


def occurred(rows: Iterable[tuple[object, Svg, str]]) -> list[Item]:
    """A legend of what occurred: of (whether it did, swatch, meaning) those that did."""
    return [(swatch, meaning) for has, swatch, meaning in rows if has]


def box_swatch(**paint: Any) -> Svg:
    """A box for the legend."""
    return el("rect", x=3, y=2, width=20, height=14, **paint)


def line_swatch(**paint: Any) -> Svg:
    """A line for the legend."""
    return el("path", d="M2 9H24", **paint)


class Row(Protocol):
    """Something over time with a height of its own."""

    @property
    def tall(self) -> float:
        """How much room it takes."""

    def draw(self, y: float) -> list[Svg]:
        """What it shows, from `y` on downwards."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A row that is drawn by hand."""

    tall: float
    draw: Callable[[float], list[Svg]]


TICKS = {  # what is done with a log's records: colour, meaning
    "write": (BLUE, "a record is written"),
    "tombstone": (RED, "a tombstone is written"),
    "process": (GREEN, "a record is processed"),
    "again": (PINK, "a record is processed again"),
    "commit": (BLUE, "a commit"),
    "operator": (RED, "an operator sets or deletes the commit"),
}


def draw_tick(what: str, xs: list[float], y: float) -> Svg:
    """The ticks of one kind below a line at height `y`, as one path."""
    colour, _ = TICKS[what]
    if what == "commit":
        path = "".join(f"M{x:.1f} {y + 3:g}l-3.5 7h7Z" for x in xs)
        return el("path", d=path, fill=colour, cls="ink-line", stroke_width=0.7)
    if what == "operator":
        return el("path", d="".join(f"M{x:.1f} {y + 2:g}l-4.5 8h9Z" for x in xs), cls="paper", stroke=colour, stroke_width=2)
    long, thick = (8, 2.6) if what in ("again", "tombstone") else (6, 1.6)
    path = "".join(f"M{x:.1f} {y:g}v{long}" for x in xs)
    return el("path", d=path, stroke=colour, stroke_width=thick)


def tick_legend(seen: Collection[str]) -> list[Item]:
    """The ticks that occurred."""
    line = el("path", d="M2 6H24", cls="grey-line")
    return occurred((what in seen, group(line, draw_tick(what, [9.0, 17.0], 6)), meaning) for what, (_, meaning) in TICKS.items())


@dataclass(frozen=True, slots=True)
class Fill:
    """What a bar, or a box in a panel, looks like."""

    meaning: str  # "": its words say it all
    fill: str
    text: str  # a colour, or "ink"
    edge: str = BLACK
    dash: str = ""
    wash: float | None = None  # opacity of the fill, where what lies below or is done is pale
    rx: int | None = None  # of round corners
    texture: str = ""  # "|" lines down, "=" across, ":" dots
    sign: str = ""  # a path in the middle, around 0, 0


TEXTURED = "held", "held |", "held =", "held :"  # by the first member to the fourth; then they begin anew
FILLS = {
    "runs": Fill("runs at the worker named in it", GREEN, BLACK),
    "running": Fill("processed by the instance named in it", GREEN, BLACK),
    "restoring": Fill("restores its store, processes nothing", ORANGE, BLACK, BLACK, "4 2"),
    "standby": Fill("standby: a copy that follows the changelog", SKY, BLACK),
    "nobody": Fill("nobody runs it", HATCH, "ink", RED),
    "missed": Fill("nobody holds it: it stands still", HATCH, "ink", RED),
    "frozen": Fill("held by one who is frozen", "none", "ink", RED, "4 3"),
    "two": Fill("two believe that they hold it", PINK, BLACK),
    "held": Fill("", "grey", "ink", "ink", wash=0.3),
    **{name: Fill("", "none", "ink", "ink", texture=name[-1]) for name in TEXTURED[1:]},
    "connector": Fill("a connector", "none", "ink", "ink", rx=8),
    "generation": Fill("a generation: all members have their share", "paper", "ink", "grey"),
    "ready": Fill("who answers for the group", "paper", "ink", "ink"),
    "loading": Fill("its cache is being loaded", ORANGE, BLACK),
    "failed": Fill("its cache is not all of the log", HATCH, "ink"),
    "leads": Fill("leads", BLUE, WHITE),
    "in sync": Fill("follows, and is in sync", SKY, BLACK),
    "out": Fill("lives, and is not in sync", "paper", "ink", ORANGE, "2 4"),
    "synced": Fill("who is in sync", "paper", "ink", "ink"),
    "batch": Fill("a batch", "none", "ink", "none"),
    "offsets": Fill("offsets/N: which records the batch takes", ORANGE, BLACK),
    "state": Fill("state: version N + 1, of batch N", SKY, BLACK),
    "sink": Fill("the sink: rows that can be read", GREEN, BLACK),
    "twice": Fill("4 +3: three rows lie in the sink twice", PINK, BLACK),
    "commits": Fill("commits/N: the batch is done", BLUE, WHITE),
    "batch again": Fill("the next start runs this batch again", "none", "ink", RED, "4 2"),
    "missing": Fill("not written", "none", "grey", "grey", "2 3"),
    "NOTFOUND": Fill("nobody knows the group", "none", "ink", "ink"),
    "OK": Fill("nothing is wrong that commits can tell", GREEN, BLACK),
    "WARN": Fill("it moves, and never gets nearer to the end", ORANGE, BLACK),
    "ERR": Fill("some partition is worse than WARN", RED, BLACK),
    "STOP": Fill("commits have ceased", RED, BLACK),
    "STALL": Fill("the same offset is committed again and again", RED, BLACK),
    "REWIND": Fill("the commits have gone back", RED, BLACK),
    "rebalance": Fill("a rebalance goes on", ORANGE, BLACK),
    "transaction": Fill("a producer's transaction", ORANGE, BLACK),
    "Empty": Fill("coordinator: no transaction", "none", "ink", "ink"),
    "Ongoing": Fill("coordinator: transaction open", ORANGE, BLACK),
    "Prepare": Fill("coordinator: decided, no marker", SKY, BLACK),
    "CompleteCommit": Fill("coordinator: committed", BLUE, WHITE),
    "CompleteAbort": Fill("coordinator: aborted", HATCH, "ink", RED),
    "Dead": Fill("coordinator: forgotten", "none", "grey", "grey", "4 2"),
    "blocked": Fill("a call that blocks", SKY, BLACK),
    "waits": Fill("waits to be sent", SKY, BLACK),
    "again": Fill("waits to be sent again", SKY, BLACK, RED, "5 2"),
    "unnumbered": Fill("waits, without a sequence number yet", "none", "ink", SKY, "4 2"),
    "in flight": Fill("in flight", ORANGE, BLACK),
    "sent again": Fill("in flight, sent again", ORANGE, BLACK, RED, "5 2"),
    "remembered": Fill("remembered by the broker", GREEN, BLACK),
    "forgotten": Fill("just forgotten", "none", "ink", RED, "3 3"),
    "free": Fill("a free place", "none", "grey", "grey", "2 4"),
    "stored": Fill("records in the log", BLUE, WHITE),
    "open": Fill("in an open transaction", ORANGE, BLACK),
    "committed": Fill("committed", BLUE, "ink", "ink", wash=0.2),
    "copy": Fill("committed again: a second copy", PINK, BLACK, "ink"),
    "aborted": Fill("aborted: stays in the log", HATCH, "ink", RED),
    "plain": Fill("outside of any transaction", GREEN, BLACK),
    "COMMIT": Fill("a commit marker", "none", "ink", "ink", rx=8, sign=CHECK),
    "ABORT": Fill("an abort marker", "none", "ink", "ink", rx=8, sign=SMALL_CROSS),
    "unread": Fill("not read yet", "none", "grey", "grey"),
    "live": Fill("live: the last of its key", BLUE, WHITE, "ink"),
    "replaced": Fill("replaced by a later record", "none", "grey", "grey", "3 2"),
    "tombstone": Fill("a tombstone", "none", "ink", "ink"),
    "taken out": Fill("taken out by the pass", HATCH, "ink", "grey"),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of one state; `kind` is a key of FILLS."""

    x0: float
    x1: float
    kind: str
    who: str


def bars(states: Sequence[tuple[str, str] | None], xs: Sequence[float], right: float = AXIS_RIGHT) -> list[Bar]:
    """(kind, who) after each step as stretches; a state holds until the next step, the last one to `right`. None: no bar."""
    found: list[Bar] = []
    for number, state in enumerate(states):
        x0, x1 = xs[number], xs[number + 1] if number + 1 < len(xs) else right
        if state is None:
            continue
        if found and (found[-1].kind, found[-1].who) == state and found[-1].x1 == x0:
            found[-1] = Bar(found[-1].x0, x1, *state)
        else:
            found.append(Bar(x0, x1, *state))
    return found


def as_before(told: Iterable[Told | None]) -> list[Told | None]:
    """What holds after each step, where None tells nothing: what a step does not tell is as before."""
    found: list[Told | None] = []
    for each in told:
        found.append(found[-1] if each is None and found else each)
    return found


@dataclass(frozen=True, slots=True)
class Spans:
    """A row for each name: what it was from when to when, and by whom."""

    rows: Mapping[str, Sequence[Bar]]
    refs: Mapping[str, str] = field(default_factory=dict)  # name -> the ref of what the row stands for

    @property
    def tall(self) -> float:
        """A row each."""
        return len(self.rows) * ROW_TALL

    def draw(self, y: float) -> list[Svg]:
        """Names, lines and boxes."""
        parts = []
        for number, (name, found) in enumerate(self.rows.items()):
            top = y + number * ROW_TALL
            boxes = [draw_box(bar.kind, bar.x0, top, bar.x1 - bar.x0, BAR_TALL, bar.who) for bar in found if bar.x1 > bar.x0]
            line = el("path", d=f"M{AXIS_LEFT} {top + 8:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5)
            told = el("text", name, cls="ink", x=LEFT, y=top + 12, font_size=11)
            parts.append(group(told, line, *boxes, data_ref=self.refs.get(name)))
        return [group(*parts)]

    def legend(self) -> list[Item]:
        """The kinds of bars that occurred."""
        return fill_legend({bar.kind for found in self.rows.values() for bar in found})


def draw_box(kind: str, x: float, y: float, width: float, height: float, words: str, title: str = "") -> Svg:
    """A box of this kind, with the first of its words, which a bar parts, that fit into it."""
    look, told = FILLS[kind], words.split("|")
    box = draw_fill(look, x, y, width, height, f"{title or told[0]}: {look.meaning}" if look.meaning else told[0])
    letters = letter_paint(look.text, 4 * (look.fill == HATCH or not look.meaning))
    texture = [draw_texture(look.texture, x, y, width, height)] if look.texture else []
    middle = f"translate({x + width / 2:g} {y + height / 2:g})"
    sign = [el("path", d=look.sign, transform=middle, fill="none", stroke_width=2.2, **line_paint(look.edge))] if look.sign else []
    return group(*texture, box, *sign, *centred(told, x, x + width, y + height / 2 + 4, letters))


def draw_texture(kind: str, x: float, y: float, wide: float, tall: float) -> Svg:
    """What tells the boxes of one member from those of another one."""
    down, across = range(4, int(tall), 4), range(4, int(wide) + 1, 5)
    if kind == "|":
        path = "".join(f"M{x + step:.1f} {y:g}v{tall:g}" for step in across)
    elif kind == "=":
        path = "".join(f"M{x:.1f} {y + step:g}h{wide:.1f}" for step in down)
    else:
        path = "".join(f"M{x + step:.1f} {y + row:g}h2" for row in down for step in across if step < wide - 1)
    return el("path", d=path or "M0 0", cls="grey-line", stroke_width=2 if kind == ":" else 1)


def draw_fill(look: Fill, x: float, y: float, width: float, height: float, title: str, rx: int | None = None) -> Svg:
    """An empty box of this look."""
    paint = line_paint(look.edge)
    paint |= {"cls": f"{look.fill} {paint.get('cls', '')}".strip()} if look.fill in ("paper", "grey") else {"fill": look.fill}
    return el(
        "rect", el("title", title), x=x, y=y, width=width, height=height, rx=rx or look.rx, stroke_width=1, fill_opacity=look.wash,
        stroke_dasharray=look.dash or None, **paint,
    )  # fmt: skip


def fill_legend(kinds: Collection[str]) -> list[Item]:
    """The kinds of boxes that occurred, in the order of their table."""
    return [(swatch(kind), look.meaning) for kind, look in FILLS.items() if kind in kinds]


def swatch(kind: str) -> Svg:
    """For the legend."""
    return draw_box(kind, 2, 3, 22, 13, "")
