"""A producer's run as SVG: the lanes with what crosses between them, the rows of batches, the log.

Time runs to the right and the present stands at a thin line, near the right edge once the run is
longer than the window. A message is a line from lane to lane; a lost one ends half way at a cross.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import atan2, degrees

from kitlib.views.film import (
    NOTHING,
    Film,
    Reel,
    Slot,
    Span,
    Stay,
    Track,
    packed,
    pieces_at,
    seen_at,
    seen_over,
)
from kitlib.views.look import LEFT, STRIP, WIDTH
from kitlib.views.producer.diagram import (
    BOX_OF,
    BOX_PITCH,
    BOX_TALL,
    BOX_WIDE,
    CHAR,
    LINE,
    LOG_BAR,
    LOG_BOXES,
    LOG_TALL,
    LOG_TOP,
    LOG_ZOOM,
    LOST,
    MARK_OF,
    MARKS,
    NEVER,
    NOW_AT,
    ON_ITS_WAY,
    RECORD_TALL,
    ROW_BOXES,
    ROW_TALL,
    ROW_TOP,
    SCENE_LEFT,
    SCENE_WIDE,
    SPEAK_FOR_THEMSELVES,
    WAY_OF,
    WAYS,
    Box,
    BoxLook,
    LogView,
    Mark,
    MarkLook,
    Row,
    SequenceDiagram,
    Way,
    WayLook,
)
from kitlib.views.producer.log import bar_of
from kitlib.views.svg import HATCH, Item, Svg, el, group, legend_of, letter_paint, line_paint
from kitlib.views.trees.forest import History
from kitlib.words.glyphs import BLACK, RED

# The parts of a producer's picture, and the question that each answers.
PRODUCER_PARTS = {
    "all": "What crosses, and what does each side know?",
    "lanes": "What crosses between producer and broker?",
    "remembered": "Which batches would the broker recognise?",
    "log": "What does the log hold?",
}
BOLD = ("batch ", "no. ")  # lines that begin so are
MARK_ROOM = 6  # before a mark an arrow ends
SCENE_RIGHT = SCENE_LEFT + SCENE_WIDE


def draw_diagram(scene: SequenceDiagram, step: int, part: str, top: int) -> tuple[Svg, int]:
    """One part of the picture, or all of it, from `top` on; and its height."""
    layers, tall = layers_of(scene, part)
    drawn = []
    for layer in layers:
        x = layer.x if isinstance(layer.x, int) else layer.x[step] if step >= 0 else SCENE_LEFT
        drawn.append(group(*pieces_at(layer.slots, step), transform=f"translate({x} {layer.y})"))
    seen = {key for layer in layers for key in seen_at(layer.spans, step)}
    drawn_legend, legend_tall = legend_of(scene_legend(), seen, tall + 4)
    return group(*drawn, drawn_legend, transform=f"translate(0 {top})"), tall + 4 + legend_tall


def diagram_reel(film: Film, scene: SequenceDiagram, only: int | None = None) -> Reel:
    """The picture after every step; with `only` that of this step alone."""
    layers, tall = layers_of(scene, only=only)
    reel = Reel(PRODUCER_PARTS["all"], PRODUCER_PARTS["all"], WIDTH, tall)
    for layer in layers:
        moved = () if isinstance(layer.x, int) else layer.x if only is None else [layer.x[only]]
        track = Track(film, moved=moved, transform=f"translate({layer.x} {layer.y})" if isinstance(layer.x, int) else None)
        if only is None:
            track.play(layer.slots)
        else:
            track.show(0, pieces_at(layer.slots, only))
        reel.tracks.append(track)
    if only is None:
        reel.explain(film, scene_legend(), seen_over(span for layer in layers for span in layer.spans))
    return reel


@dataclass(slots=True)
class Layer:
    """Pieces that are moved together, and what the legend has to say of them."""

    slots: list[Slot]
    x: Sequence[int] | int = 0  # after each step
    y: int = 0
    spans: Iterable[Span] = ()  # read once


def layers_of(scene: SequenceDiagram, part: str = "all", only: int | None = None) -> tuple[list[Layer], int]:
    """The layers of one part of the picture, the first one lowest; and its height. With `only` as far as they are seen after that step."""
    layers: list[Layer] = []
    y = 0
    if part in ("all", "lanes"):
        layers += _diagram(scene, only)
        y += scene.tall + 14
    rows = [row for row in scene.rows if part == "all" or (row.kind == "remembered") == (part == "remembered")]
    if rows and part != "log":
        first = rows[0].y
        layers += [_row(scene, row, y + row.y - first) for row in rows]
        y += rows[-1].y - first + ROW_TALL
    for place, log in enumerate(scene.logs if part in ("all", "log") else ()):
        y += 4
        layers.append(_log(scene, log, place, y))
        y += LOG_TALL + (LOG_ZOOM if log.has_bar else 0)
    return layers, y


def scene_legend() -> list[Item]:
    """What marks, ways and boxes mean, but for those that say it themselves."""
    items = [Item(f"mark {look.code}", mark_swatch(look), look.meaning) for look in MARKS]
    items += [Item(f"way {look.code}", way_swatch(look), look.meaning) for look in WAYS]
    items += [Item(f"box {look.code}", box_swatch(look), look.meaning) for look in (*ROW_BOXES, *LOG_BOXES)]
    quiet = {f"{kind} {code}" for kind, codes in SPEAK_FOR_THEMSELVES.items() for code in codes}
    return [item for item in items if item.key not in quiet]


def words_of(scene: SequenceDiagram, step: int) -> list[str]:
    """What is drawn, in words."""
    if step < 0:
        return []
    told = [f"{row.title.lower()}: {row.words.at(step, 'nothing')}" for row in scene.rows]
    return told + [f"the log of {log.name}: {log.words.at(step, 'no record')}" for log in scene.logs]


def _diagram(scene: SequenceDiagram, only: int | None) -> list[Layer]:
    """What crosses between the lanes. Ways are drawn whole: the page's paper lies over what has not happened yet."""
    steps, lanes = len(scene.x), scene.lanes
    (_, first), (_, last) = lanes[0], lanes[-1]
    shifts = [SCENE_LEFT - scene.window_at(step) for step in range(steps)]
    present = [x + shift for x, shift in zip(scene.x, shifts, strict=True)]
    ways, heads, ways_seen = _ways(scene, only)
    marks, marks_seen = _marks(scene, only)
    future = el("rect", cls="paper", x=0, y=first - 4, width=WIDTH, height=last - first + 8)
    past = el("rect", cls="paper", x=0, y=first - 4, width=SCENE_LEFT, height=last - first + 8)
    now = el("path", d=f"M0 {first}V{last}", cls="ink-line", stroke_width=1, stroke_dasharray="1 3")
    names = [el("text", name, cls="ink", x=LEFT, y=y + 4, font_size=13, font_weight="bold") for name, y in lanes]
    lines = [el("path", d=f"M{SCENE_LEFT} {y}H{SCENE_RIGHT}", cls="grey-line", stroke_width=1) for _, y in lanes]
    lines.append(el("path", d=f"M{SCENE_LEFT} {scene.tall - 17}H{SCENE_RIGHT}", cls="grey-line", stroke_width=0.7))
    return [
        Layer(ways, shifts, spans=ways_seen),
        Layer([_always(future)], present),
        Layer([_always(piece) for piece in (past, *names, *lines)]),
        Layer([Slot([0], lambda step: now), *heads, _present_ring(scene)], present),
        Layer([*_ticks(scene), *marks], shifts, spans=marks_seen),
    ]


def _always(piece: Svg) -> Slot:
    return Slot([NEVER], lambda step: piece)


def _ticks(scene: SequenceDiagram) -> list[Slot]:
    """The times below the lanes, as far as they have passed and have room."""
    y = scene.tall - 4
    stays = []
    for x, words in scene.ticks:
        line, told = el("path", d=f"M0 {y - 13}v4", cls="grey-line", stroke_width=1), el("text", words, cls="grey", y=y, font_size=11)
        piece = group(line, told, transform=f"translate({x} 0)")
        room = x + SCENE_LEFT + len(words) * CHAR - SCENE_RIGHT - 20  # how far the window must have moved
        since = bisect_left(scene.x, x if room <= 0 else room + NOW_AT)
        stays.append(Stay(since, bisect_right(scene.x, x + NOW_AT), partial(_same, piece)))
    return packed(stays)


def _same(piece: Svg, step: int) -> Svg:
    return piece


def _ways(scene: SequenceDiagram, only: int | None) -> tuple[list[Slot], list[Slot], list[Span]]:
    """The messages' ways, an arrow at the present for each that is under way, and which are seen when."""
    ways, heads, seen = [], [], []
    for way in scene.ways:
        begun = bisect_right(scene.x, way.x0)
        over = bisect_left(scene.x, way.end_x)  # the first step at which it goes no farther
        gone = bisect_left(scene.x, way.x1 + NOW_AT)
        ended = ON_ITS_WAY if way.is_open else way.code
        ways.append(Stay(begun, min(over, gone), partial(_way, way, ON_ITS_WAY)))
        ways.append(Stay(max(begun, over), gone, partial(_way, way, ended)))
        heads.append(Stay(begun, over, partial(_head, scene, way), is_moving=True))
        seen += [(begun, over, f"way {ON_ITS_WAY}"), (over, gone, f"way {ended}")]
        seen += [(over, gone, "mark L")] if way.has_cross else []
    return packed(ways, only), packed(heads, only), seen


def _way(way: Way, code: str, step: int) -> Svg:
    """A message's whole way, with an arrow where it ends, or a cross where no mark says that it was lost."""
    x, y = round(way.end_x), way.y_at(round(way.end_x))
    line = el("path", d=f"M{way.x0} {way.y0}L{x} {y}")
    # The second one is seen by nobody: a page makes it wide enough to be pointed at.
    parts = [_style(code, line), Svg(f'{line.head} class="kit-hit"')]
    is_over = code != ON_ITS_WAY
    if way.has_cross and is_over:
        parts.append(group(sign("L"), transform=f"translate({x} {y})"))
    if code != LOST and (is_over or way.is_open):
        arrow = _arrow(code, _turn(way), min(MARK_ROOM, round((x - way.x0) / 2)) if is_over else 0)
        parts.append(group(arrow, transform=f"translate({x} {y})"))
    return group(*parts, cls="kit-message", data_ref=way.ref)


def _style(code: str, line: Svg) -> Svg:
    look = WAY_OF[code]
    return group(line, fill="none", stroke_width=look.thick, stroke_dasharray=look.dash or None, **line_paint(look.edge))


def _turn(way: Way) -> int:
    return round(degrees(atan2(way.y1 - way.y0, max(1, way.x1 - way.x0))))


def _head(scene: SequenceDiagram, way: Way, step: int) -> Svg:
    """The arrow of a message that is under way."""
    return _head_at(way.y_at(scene.x[step]), _turn(way))


@lru_cache(4_000)
def _head_at(y: int, turn: int) -> Svg:
    return group(_arrow(ON_ITS_WAY, turn, 0), transform=f"translate(0 {y})")


@lru_cache(1_000)
def _arrow(code: str, turn: int, before: int) -> Svg:
    """An arrow's head that ends so far before 0, 0."""
    edge = WAY_OF[code].edge
    fill = {"cls": edge} if edge in ("ink", "grey") else {"fill": edge}
    return el("path", d=f"M{-before} 0l-8 -4v8Z", transform=f"rotate({turn})", **fill)


def _marks(scene: SequenceDiagram, only: int | None) -> tuple[list[Slot], list[Span]]:
    """The signs of the steps with their labels; one goes before its label would leave the window."""
    marks, seen = [], []
    steps = range(len(scene.x)) if only is None else range(bisect_left(scene.x, scene.x[only] - NOW_AT - 4), only + 1)
    for step in steps:
        x, mark = scene.x[step], scene.marks[step]
        if mark is not None:
            room = x + 4 - max(map(len, mark.lines), default=0) * CHAR / 2  # how far the window may have moved
            gone = max(step + 1, bisect_right(scene.x, room + NOW_AT))
            marks.append(Stay(step, gone, partial(_mark, mark, x)))
            seen.append((step, gone, f"mark {mark.code}"))
    return packed(marks, only), seen


def _mark(mark: Mark, x: int, step: int) -> Svg:
    """A mark with its label above a lane or below it."""
    top = -16 - LINE * (len(mark.lines) - 1) if mark.is_above else 22
    lines = (_label_line(line, top + LINE * number) for number, line in enumerate(mark.lines))
    return group(group(sign(mark.code, is_long=True), *lines, transform=f"translate({x} {mark.y})"), data_ref=mark.ref)


@lru_cache(4_000)
def _label_line(line: str, y: int) -> Svg:
    bold = "bold" if line.startswith(BOLD) else None
    return el("text", line, y=y, text_anchor="middle", font_size=11, font_weight=bold, **letter_paint("ink", 3))


def _present_ring(scene: SequenceDiagram) -> Slot:
    """The ring around the mark of the present step."""

    def at(step: int) -> Svg:
        mark = scene.marks[step]
        return NOTHING if mark is None else _circle(mark.y)

    return Slot(range(len(scene.x)), at)


@lru_cache(256)
def _circle(y: int) -> Svg:
    return el("circle", cls="ink-line", cy=y, r=10, fill="none", stroke_width=1.8)


@lru_cache(256)
def sign(code: str, *, is_long: bool = False) -> Svg:
    """A mark's sign around 0, 0, as in the legend; or as in the diagram, with what it means as a tip."""
    look = MARK_OF[code]
    names = [look.edge + "-line"] if look.edge in ("ink", "grey") else []
    names += ["paper"] if look.fill == "paper" else []
    drawn = el(
        "path",
        d=look.long if is_long and look.long else look.path,
        cls=" ".join(names) or None,
        fill=None if look.fill == "paper" else look.fill,
        stroke=None if look.edge in ("ink", "grey") else look.edge,
        stroke_width=look.thick,
        stroke_linejoin="round",
    )
    return group(el("title", look.meaning), drawn) if is_long else drawn


def mark_swatch(look: MarkLook) -> Svg:
    return group(sign(look.code), transform="translate(13 9)")


def way_swatch(look: WayLook) -> Svg:
    return el("path", d="M0 9H26", stroke_width=look.thick, stroke_dasharray=look.dash or None, **line_paint(look.edge))


def _row(scene: SequenceDiagram, row: Row, y: int) -> Layer:
    """A row's words, its boxes, and rings around those that the step is about."""
    changes = sorted({0, *row.boxes.steps})
    none = el("path", d=f"M0 {ROW_TOP + BOX_TALL / 2}h40", cls="grey-line", stroke_dasharray="1 4")

    def box_at(place: int, step: int) -> Svg:
        boxes = row.boxes.at(step, [])
        return _box_at(place, boxes[place]) if place < len(boxes) else NOTHING

    def rings_at(step: int) -> Svg:
        rings = scene.rings[step]
        return _rings_at(tuple(place for place, box in enumerate(row.boxes.at(step, [])) if box.subject in rings)) if rings else NOTHING

    slots = [
        _title(row.title, row.words, "nothing", 0),
        Slot(changes, lambda step: NOTHING if row.boxes.at(step, []) else none),
        *(Slot(changes, partial(box_at, place)) for place in range(row.wide)),
        Slot(range(len(scene.rings)), rings_at),
    ]
    ends = [*row.boxes.steps[1:], len(scene.x)]
    spans = (
        (since, until, f"box {code}")
        for since, until in zip(row.boxes.steps, ends, strict=False)
        for code in {box.code for box in row.boxes.at(since, [])}
    )
    return Layer(slots, row.x, y, spans)


@lru_cache(10_000)
def _box_at(place: int, box: Box) -> Svg:
    drawn = draw_box(box.code, box.first, box.second)
    return group(drawn, transform=f"translate({place * BOX_PITCH} {ROW_TOP})", data_ref=box.ref)


@lru_cache(1_000)
def _rings_at(places: tuple[int, ...]) -> Svg:
    ring = _ring(BOX_WIDE, BOX_TALL)
    return group(*(group(ring, transform=f"translate({place * BOX_PITCH} {ROW_TOP})") for place in places)) if places else NOTHING


def _title(title: str, words: History, otherwise: str, x: int) -> Slot:
    """A row's or a log's title, and how many there are."""
    bold = el("tspan", title, font_weight="bold")
    at = lambda step: el("text", bold, el("tspan", words.at(step, otherwise), dx=8), cls="ink", x=x, y=12, font_size=12)  # noqa: E731
    return Slot(sorted({NEVER, *words.steps}), at)


@lru_cache(4_000)
def draw_box(code: str, first: str, second: str) -> Svg:
    """A batch's box: its name, its sequence numbers, a corner when it is sent again, a line through a forgotten one."""
    look = BOX_OF[code]
    words = letter_paint(look.text)
    middle = BOX_WIDE / 2
    parts = [_frame(look, BOX_WIDE, BOX_TALL, 3)]
    if look.flag == "again":
        parts.append(el("path", d=f"M{BOX_WIDE - 13} 0H{BOX_WIDE}V13Z", fill=RED, stroke=BLACK, stroke_linejoin="round"))
    if look.flag == "cross":
        parts.append(el("path", d=f"M0 {BOX_TALL}L{BOX_WIDE} 0", stroke=RED, stroke_width=1.4))
        words = letter_paint("ink", 3)
    for text, y, weight in ((first, 15, "bold" if first.startswith(BOLD) else None), (second, 29, None)):
        if text:
            parts.append(el("text", text, x=middle, y=y, text_anchor="middle", font_size=11, font_weight=weight, **words))
    return group(*parts)


def _frame(look: BoxLook, wide: int, tall: int, round_by: int) -> Svg:
    return el(
        "rect",
        x=0.5,
        y=0.5,
        width=wide - 1,
        height=tall - 1,
        rx=round_by,
        fill=HATCH if look.hatch else look.fill,
        stroke_width=1.6 if look.fill == "none" and look.edge != "grey" else 1,
        stroke_dasharray=look.dash or None,
        **line_paint(look.edge),
    )


def _ring(wide: int, tall: int) -> Svg:
    return el("rect", cls="ink-line", x=-2.5, y=-2.5, width=wide + 5, height=tall + 5, rx=5, fill="none", stroke_width=2)


def box_swatch(look: BoxLook) -> Svg:
    drawn = [_frame(look, 26, 18, 2)]
    if look.flag == "again":
        drawn.append(el("path", d="M17 0H26V9Z", fill=RED, stroke=BLACK))
    elif look.flag == "cross":
        drawn.append(el("path", d="M0 18L26 0", stroke=RED, stroke_width=1.4))
    elif look in LOG_BOXES:
        drawn += _foot(look, 26, 18)
    return group(*drawn)


def _log(scene: SequenceDiagram, log: LogView, place: int, y: int) -> Layer:
    """The log's words, the bar of a long log, and a box for each record of the close-up with its number."""
    name = f"The log of {log.name}" if len(scene.logs) > 1 else "The log"
    steps = {step for one in log.segments for step in (one.born, one.died, one.acked, one.failed)}
    changes = sorted({0, *steps, *log.start.steps, *log.window.steps} - {NEVER})
    close_up = cache(partial(_close_up, log, LOG_TOP + (LOG_ZOOM if log.has_bar else 0)))

    def box_at(place: int, step: int) -> Svg:
        return close_up(step)[0].get(place, NOTHING)

    def ring_at(step: int) -> Svg:
        spot = scene.spots[step]
        if spot is None or spot[0] != place:
            return NOTHING
        window = log.window.at(step, log.base)
        first, last = max(spot[1], window), min(spot[1] + spot[2], window + log.boxes)
        top = LOG_TOP + (LOG_ZOOM if log.has_bar else 0)
        return _spot(LEFT + (first - window) * log.box_wide, top, (last - first) * log.box_wide) if last > first else NOTHING

    bar = [Slot(changes, partial(_bar, log)), Slot(sorted({0, *log.window.steps}), partial(_bracket, log))] if log.has_bar else []
    boxes = (Slot(changes, partial(box_at, number)) for number in range(NEVER, log.boxes))
    slots = [_title(name, log.words, "no record yet", LEFT), *bar, *boxes, Slot(range(len(scene.spots)), ring_at)]
    ends = [*changes[1:], len(scene.x)]
    spans = (
        (since, until, f"box {code}")
        for since, until in zip(changes, ends, strict=True)
        for code in close_up(since)[1]
    )
    return Layer(slots, 0, y, spans)


def _close_up(log: LogView, top: int, step: int) -> tuple[dict[int, Svg], set[str]]:
    """The boxes of the close-up by their places, and at -1 what stands there instead; and their codes."""
    segments = log.segments_after(step)
    start, window = log.start.at(step, log.base), log.window.at(step, log.base)
    boxes: dict[int, Svg] = {} if segments else {NEVER: _no_record(top)}
    codes = set()
    label_end = -9.0
    for one in segments:
        for offset in range(max(one.offset, window), min(one.offset + one.last - one.first + 1, window + log.boxes)):
            code = one.code_after(step, start, offset)
            codes.add(code)
            x = LEFT + (offset - window) * log.box_wide
            is_labelled = (offset == one.offset or offset == window) and x >= label_end
            if is_labelled:
                label_end = x + len(str(offset)) * CHAR + 12
            record, label = one.first + offset - one.offset, offset if is_labelled else None
            boxes[offset - window] = _record_at(x, top, code, record, log.box_wide, label)
    return boxes, codes


@lru_cache(64)
def _no_record(top: int) -> Svg:
    return el("path", d=f"M{LEFT} {top + RECORD_TALL / 2}h40", cls="grey-line", stroke_dasharray="1 4")


@lru_cache(20_000)
def _record_at(x: int, top: int, code: str, record: int, wide: int, offset: int | None) -> Svg:
    label = [] if offset is None else [el("text", str(offset), cls="grey", x=2, y=RECORD_TALL + 13, font_size=11)]
    return group(draw_record(code, record, wide), *label, transform=f"translate({x} {top})")


@lru_cache(1_000)
def _spot(x: int, top: int, wide: int) -> Svg:
    return group(_ring(wide, RECORD_TALL), transform=f"translate({x} {top})")


@lru_cache(10_000)
def draw_record(code: str, record: int, wide: int) -> Svg:
    """A record's box: its number and, where it is not as it should be, a band with a sign."""
    look = BOX_OF[code]
    drawn = [_frame(look, wide, RECORD_TALL, 1)]
    words = letter_paint("ink", 4) if look.hatch else letter_paint(look.text)
    drawn.append(el("text", str(record), x=wide / 2, y=14, text_anchor="middle", font_size=11, **words))
    drawn += _foot(look, wide, RECORD_TALL)
    return group(*drawn)


def _foot(look: BoxLook, wide: int, tall: int) -> list[Svg]:
    """What the foot of a record's box says beside its colour."""
    drawn: list[Svg] = []
    if look.band:
        drawn.append(el("rect", x=0.5, y=tall - 14.5, width=wide - 1, height=14, fill=look.band, stroke=BLACK))
    if look.flag:
        words = el("text", look.flag, x=wide / 2, y=tall - 3.5, text_anchor="middle", font_size=11, fill=BLACK)
        drawn.append(words)
    if look.sign:
        stroke = BLACK if look.band else look.text
        place = f"translate({wide / 2:g} {tall - 7.5:g})"
        drawn.append(el("path", d=look.sign, transform=place, fill="none", stroke=stroke, stroke_width=1.8))
    return drawn


def _bar(log: LogView, step: int) -> Svg:
    """The whole log as a thin bar."""
    scale = STRIP / max(1, log.end - log.base)
    parts = [el("path", d=f"M{LEFT} {LOG_TOP + LOG_BAR / 2}h{STRIP}", cls="grey-line", stroke_dasharray="1 4")]
    for first, after, code in bar_of(log.segments_after(step), step, log.start.at(step, log.base)):
        parts.append(_bar_piece(code, LEFT + (first - log.base) * scale, max(1.5, (after - first) * scale)))
    return group(*parts)


@lru_cache(10_000)
def _bar_piece(code: str, x: float, wide: float) -> Svg:
    look = BOX_OF[code]
    fill = HATCH if look.hatch else look.fill
    return el("rect", x=x, y=LOG_TOP, height=LOG_BAR, width=wide, fill=fill, stroke_width=0.5, **line_paint(look.edge))


def _bracket(log: LogView, step: int) -> Svg:
    """Where in the bar the close-up looks."""
    scale = STRIP / max(1, log.end - log.base)
    box = {"x": LEFT + (log.window.at(step, log.base) - log.base) * scale - 1.5, "y": LOG_TOP - 3, "height": LOG_BAR + 6}
    return el("rect", **box, cls="ink-line", width=log.boxes * scale + 3, rx=2, fill="none", stroke_width=1.8)
