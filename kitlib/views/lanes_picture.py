"""A producer's run as SVG: the lanes with what crosses between them, the rows of batches, the log.

Time runs to the right and the present stands at a thin line, near the right edge once the run is
longer than the window. A message is a line from lane to lane; a lost one ends half way at a cross.
"""

from __future__ import annotations

from math import atan2, degrees, hypot

from kitlib.views.lanes import LOST, ON_ITS_WAY, LogView, Mark, Row, SpaceTime, Way, steps_between, visible
from kitlib.views.lanes_log import bar_of
from kitlib.views.lanes_look import (
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
    MARK_OF,
    MARKS,
    RECORD_TALL,
    ROW_BOXES,
    ROW_TALL,
    ROW_TOP,
    SCENE_LEFT,
    SCENE_WIDE,
    SPEAK_FOR_THEMSELVES,
    WAY_OF,
    WAYS,
    BoxLook,
    MarkLook,
    WayLook,
)
from kitlib.views.look import LEFT, STRIP
from kitlib.views.paint import letter_paint, line_paint
from kitlib.views.svg import HATCH, Svg, el, group, legend
from kitlib.words.glyphs import BLACK, RED

# The parts of a producer's picture, and the question that each answers.
PRODUCER_PARTS = {
    "all": "What crosses, and what does each side know?",
    "lanes": "What crosses between producer and broker?",
    "remembered": "Which batches would the broker recognise?",
    "log": "What does the log hold?",
}
BOLD = ("batch ", "no. ")  # lines that begin so are
CROSSED = "a cross"  # beside the codes of ways: one that ends so was drawn
MARK_ROOM = 6  # before a mark an arrow ends
ARROW = "M0 0L-8 -4V4Z"
SCENE_RIGHT = SCENE_LEFT + SCENE_WIDE


def draw_space_time(scene: SpaceTime, step: int, part: str, top: int) -> tuple[Svg, int]:
    """One part of the picture, or all of it, from `top` on; and its height."""
    drawn: list[Svg] = []
    seen: list[tuple[Svg, str]] = []
    y = 0
    if part in ("all", "lanes"):
        drawn.append(_lanes(scene, step, seen))
        y += scene.tall + 14
    boxes: set[str] = set()
    rows = [row for row in scene.rows if part == "all" or (row.kind == "remembered") == (part == "remembered")]
    if rows and part != "log":
        first = rows[0].y
        for row in rows:
            at = f"translate({row.x} {y + row.y - first})"
            drawn.append(group(*_row(scene, row, step, boxes), transform=at))
        y += rows[-1].y - first + ROW_TALL
    for place, log in enumerate(scene.logs if part in ("all", "log") else ()):
        y += 4
        drawn.append(group(*_log(scene, log, place, step, boxes), transform=f"translate(0 {y})"))
        y += LOG_TALL + (LOG_ZOOM if log.has_bar else 0)
    seen += [
        (box_swatch(look), look.meaning)
        for look in (*ROW_BOXES, *LOG_BOXES)
        if look.code in boxes - set(SPEAK_FOR_THEMSELVES["box"])
    ]
    drawn_legend, tall = legend(seen, y + 4)
    return group(*drawn, drawn_legend, transform=f"translate(0 {top})"), y + 4 + tall


def words_of(scene: SpaceTime, step: int) -> list[str]:
    """What is drawn, in words."""
    if step < 0:
        return []
    told = [f"{row.title.lower()}: {row.words.at(step, 'nothing')}" for row in scene.rows]
    return told + [f"the log of {log.name}: {log.words.at(step, 'no record')}" for log in scene.logs]


# -- the lanes -----------------------------------------------------------------------------------------


def _lanes(scene: SpaceTime, step: int, seen: list[tuple[Svg, str]]) -> Svg:
    window = scene.window_at(step)
    now = scene.x[step] if step >= 0 else 0
    shift = SCENE_LEFT - window
    bottom = scene.lanes[-1][1]
    parts: list[Svg] = []
    for name, y in scene.lanes:
        parts.append(el("text", name, cls="ink", x=LEFT, y=y + 4, font_size=13, font_weight="bold"))
        parts.append(el("path", d=f"M{SCENE_LEFT} {y}H{SCENE_RIGHT}", cls="grey-line", stroke_width=1))
    parts += _ticks(scene, window, now, shift)
    if step >= 0:
        first = scene.lanes[0][1]
        line = f"M{now + shift} {first}V{bottom}"
        parts.append(el("path", d=line, cls="ink-line", stroke_width=1, stroke_dasharray="1 3"))
    codes: set[str] = set()
    for way in visible(scene.ways, window, now, step):
        parts += draw_way(way, window, now, shift, codes)
    marks = [(number, mark) for number in steps_between(scene.x, window, now) if (mark := scene.marks[number])]
    shown = [(number, mark) for number, mark in marks if number <= step]
    for number, mark in shown:
        parts += draw_mark(mark, scene.x[number] + shift, number == step)
    told = {mark.code for _, mark in shown} - set(SPEAK_FOR_THEMSELVES["mark"])
    told |= {"L"} if CROSSED in codes else set()
    seen += [(mark_swatch(look), look.meaning) for look in MARKS if look.code in told]
    seen += [(way_swatch(look), look.meaning) for look in WAYS if look.code in codes - set(SPEAK_FOR_THEMSELVES["way"])]
    return group(*parts)


def _ticks(scene: SpaceTime, window: int, now: int, shift: int) -> list[Svg]:
    """The times below the lanes, as far as they have passed."""
    y = scene.tall - 4
    parts = [el("path", d=f"M{SCENE_LEFT} {y - 13}H{SCENE_RIGHT}", cls="grey-line", stroke_width=0.7)]
    for x, words in scene.ticks:
        if window <= x <= now and x + shift + len(words) * CHAR <= SCENE_RIGHT + 20:
            parts.append(el("path", d=f"M{x + shift} {y - 13}v4", cls="grey-line", stroke_width=1))
            parts.append(el("text", words, cls="grey", x=x + shift, y=y, font_size=11))
    return parts


def draw_way(way: Way, window: int, now: int, shift: int, codes: set[str]) -> list[Svg]:
    """A message's way as far as it has come and as far as the window shows it, with an arrow at its head."""
    part = way.part_at(now)
    is_over = now >= way.x1 and not way.is_open
    look = WAY_OF[way.code if is_over else ON_ITS_WAY]
    codes.add(look.code)
    wide, tall = way.x1 - way.x0, way.y1 - way.y0
    if is_over and way.code != LOST:
        part -= min(0.5, MARK_ROOM / max(1.0, hypot(wide, tall)))
    x1, y1 = way.x0 + wide * part, way.y0 + tall * part
    x0, y0 = float(way.x0), float(way.y0)
    if x0 < window:
        y0 += (y1 - y0) * (window - x0) / max(1.0, x1 - x0)
        x0 = float(window)
    if x1 - x0 < (1 if part < 1 and not is_over else MARK_ROOM):
        return []
    line = f"M{x0 + shift:.1f} {y0:.1f}L{x1 + shift:.1f} {y1:.1f}"
    drawn = [
        el("path", d=line, fill="none", stroke_width=look.thick, stroke_dasharray=look.dash or None, **line_paint(look.edge))
    ]
    if way.has_cross and is_over and x1 > window:
        codes.add(CROSSED)
        drawn.append(sign(MARK_OF["L"], x1 + shift, y1))
    if not (is_over and way.code == LOST):
        turn = degrees(atan2(tall, max(1, wide)))
        fill = {"cls": look.edge} if look.edge in ("ink", "grey") else {"fill": look.edge}
        place = f"translate({x1 + shift:.1f} {y1:.1f}) rotate({turn:.1f})"
        drawn.append(el("path", d=ARROW, transform=place, **fill))
    return drawn


def draw_mark(mark: Mark, x: int, is_now: bool) -> list[Svg]:
    """A mark, the ring around that of the present step, and its label: above a lane or below it."""
    drawn = [sign(MARK_OF[mark.code], x, mark.y, is_long=True)]
    if is_now:
        drawn.append(el("circle", cls="ink-line", cx=x, cy=mark.y, r=10, fill="none", stroke_width=1.8))
    wide = max((len(line) for line in mark.lines), default=0) * CHAR
    if x - wide / 2 < SCENE_LEFT - 4:
        return drawn
    y = mark.y - 16 - LINE * (len(mark.lines) - 1) if mark.is_above else mark.y + 22
    for number, line in enumerate(mark.lines):
        is_bold = line.startswith(BOLD)
        drawn.append(
            el(
                "text",
                line,
                cls="ink paper-line",
                x=x,
                y=y + LINE * number,
                text_anchor="middle",
                font_size=11,
                font_weight="bold" if is_bold else None,
                stroke_width=3,
                paint_order="stroke",
                stroke_linejoin="round",
            )
        )
    return drawn


def sign(look: MarkLook, x: float, y: float, is_long: bool = False) -> Svg:
    """A mark's sign alone, as in the legend or as in the diagram."""
    names = [look.edge + "-line"] if look.edge in ("ink", "grey") else []
    names += ["paper"] if look.fill == "paper" else []
    return el(
        "path",
        d=look.long if is_long and look.long else look.path,
        transform=f"translate({x} {y})",
        cls=" ".join(names) or None,
        fill=None if look.fill == "paper" else look.fill,
        stroke=None if look.edge in ("ink", "grey") else look.edge,
        stroke_width=look.thick,
        stroke_linejoin="round",
    )


def mark_swatch(look: MarkLook) -> Svg:
    return sign(look, 13, 9)


def way_swatch(look: WayLook) -> Svg:
    return el("path", d="M0 9H26", stroke_width=look.thick, stroke_dasharray=look.dash or None, **line_paint(look.edge))


# -- the rows ------------------------------------------------------------------------------------------


def _row(scene: SpaceTime, row: Row, step: int, seen: set[str]) -> list[Svg]:
    """A row's words and its boxes."""
    parts = [_title(row.title, row.words.at(step, "nothing"), 0)]
    rings = scene.rings[step] if step >= 0 else []
    for place, box in enumerate(row.boxes.at(step, [])):
        code, first, second = scene.boxes[box]
        seen.add(code)
        at = f"translate({place * BOX_PITCH} {ROW_TOP})"
        parts.append(group(draw_box(BOX_OF[code], first, second, box in rings), transform=at))
    if not row.boxes.at(step, []):
        parts.append(el("path", d=f"M0 {ROW_TOP + BOX_TALL / 2}h40", cls="grey-line", stroke_dasharray="1 4"))
    return parts


def _title(title: str, words: str, x: int) -> Svg:
    bold = el("tspan", title, font_weight="bold")
    return el("text", bold, el("tspan", words, dx=8), cls="ink", x=x, y=12, font_size=12)


def draw_box(look: BoxLook, first: str, second: str, is_ringed: bool) -> Svg:
    """A batch's box: its name, its sequence numbers, a corner when it is sent again, a line through a forgotten one."""
    words = _words(look)
    middle = BOX_WIDE / 2
    parts = [_frame(look, BOX_WIDE, BOX_TALL, 3)]
    if look.flag == "again":
        parts.append(
            el("path", d=f"M{BOX_WIDE - 13} 0H{BOX_WIDE}V13Z", fill=RED, stroke=BLACK, stroke_linejoin="round")
        )
    if look.flag == "cross":
        parts.append(el("path", d=f"M0 {BOX_TALL}L{BOX_WIDE} 0", stroke=RED, stroke_width=1.4))
        words = letter_paint("ink", 3)
    for text, y, weight in ((first, 15, "bold" if first.startswith(BOLD) else None), (second, 29, None)):
        if text:
            parts.append(
                el("text", text, x=middle, y=y, text_anchor="middle", font_size=11, font_weight=weight, **words)
            )
    if is_ringed:
        parts.append(_ring(BOX_WIDE, BOX_TALL))
    return group(*parts)


def _words(look: BoxLook) -> dict[str, object]:
    return {"cls": look.text} if look.text in ("ink", "grey") else {"fill": look.text}


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
    return el(
        "rect", cls="ink-line", x=-2.5, y=-2.5, width=wide + 5, height=tall + 5, rx=5, fill="none", stroke_width=2
    )


def box_swatch(look: BoxLook) -> Svg:
    drawn = [_frame(look, 26, 18, 2)]
    if look.flag == "again":
        drawn.append(el("path", d="M17 0H26V9Z", fill=RED, stroke=BLACK))
    elif look.flag == "cross":
        drawn.append(el("path", d="M0 18L26 0", stroke=RED, stroke_width=1.4))
    elif look in LOG_BOXES:
        drawn += _foot(look, 26, 18)
    return group(*drawn)


# -- the log -------------------------------------------------------------------------------------------


def _log(scene: SpaceTime, log: LogView, place: int, step: int, seen: set[str]) -> list[Svg]:
    """The log's words, the bar of a long log, and a box for each record of the close-up with its number."""
    name = f"The log of {log.name}" if len(scene.logs) > 1 else "The log"
    parts = [_title(name, log.words.at(step, "no record yet"), LEFT)]
    segments = log.segments_after(step)
    start, window = log.start.at(step, log.base), log.window.at(step, log.base)
    top = LOG_TOP
    if log.has_bar:
        parts.append(_bar(log, step, start, window))
        top += LOG_ZOOM
    boxes: list[Svg] = []
    label_end = -9.0
    for one in segments:
        for offset in range(max(one.offset, window), min(one.offset + one.last - one.first + 1, window + log.boxes)):
            code = one.code_after(step, start, offset)
            seen.add(code)
            x = LEFT + (offset - window) * log.box_wide
            record = one.first + offset - one.offset
            boxes.append(group(draw_record(BOX_OF[code], record, log.box_wide), transform=f"translate({x} 0)"))
            is_label = offset == one.offset or offset == window
            if is_label and x >= label_end and (wide := len(str(offset)) * CHAR):
                boxes.append(el("text", str(offset), cls="grey", x=x + 2, y=RECORD_TALL + 13, font_size=11))
                label_end = x + wide + 12
    spot = scene.spots[step] if step >= 0 else None
    if spot is not None and spot[0] == place:
        first, last = max(spot[1], window), min(spot[1] + spot[2], window + log.boxes)
        if last > first:
            at = f"translate({LEFT + (first - window) * log.box_wide} 0)"
            boxes.append(group(_ring((last - first) * log.box_wide, RECORD_TALL), transform=at))
    if not segments:
        boxes.append(el("path", d=f"M{LEFT} {RECORD_TALL / 2}h40", cls="grey-line", stroke_dasharray="1 4"))
    parts.append(group(*boxes, transform=f"translate(0 {top})"))
    return parts


def draw_record(look: BoxLook, record: int, wide: int) -> Svg:
    """A record's box: its number and, where it is not as it should be, a band with a sign."""
    drawn = [_frame(look, wide, RECORD_TALL, 1)]
    words = _words(look)
    if look.hatch:
        words = letter_paint("ink", 4)
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


def _bar(log: LogView, step: int, start: int, window: int) -> Svg:
    """The whole log as a thin bar, with a bracket where the close-up looks."""
    scale = STRIP / max(1, log.end - log.base)
    parts = [el("path", d=f"M{LEFT} {LOG_TOP + LOG_BAR / 2}h{STRIP}", cls="grey-line", stroke_dasharray="1 4")]
    for first, after, code in bar_of(log.segments_after(step), step, start):
        look = BOX_OF[code]
        box = {"x": LEFT + (first - log.base) * scale, "y": LOG_TOP, "height": LOG_BAR}
        fill = HATCH if look.hatch else look.fill
        parts.append(
            el("rect", **box, width=max(1.5, (after - first) * scale), fill=fill, stroke_width=0.5, **line_paint(look.edge))
        )
    box = {"x": LEFT + (window - log.base) * scale - 1.5, "y": LOG_TOP - 3, "height": LOG_BAR + 6}
    parts.append(el("rect", **box, cls="ink-line", width=log.boxes * scale + 3, rx=2, fill="none", stroke_width=1.8))
    return group(*parts)
