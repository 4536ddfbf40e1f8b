"""One partition after one step: its log as a strip, a box for each offset.

The question: which records are done, which are in flight, and which will nobody ever work on? Time
and offsets run to the right. A log that is too long for boxes has a bar above them, on which a run of
alike records is one piece, with its letter and, where they fit, its first and last offset; a bracket
shows where the boxes, the close-up, look. What was drawn before is given back as the same piece.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from kitlib.text import plain_text
from kitlib.views.film import NOTHING, Reel, Track
from kitlib.views.look import (
    BADGES,
    BANDS,
    BAR_TALL,
    BAR_Y,
    CELLS,
    EXISTS,
    FAILED,
    LANE_TALL,
    LEFT,
    LOOK_OF,
    LOOKS,
    LOSSES,
    NAME_Y,
    PENDING,
    PROCESSED,
    SALIENCE,
    STRIP,
    STRIP_Y,
    TALL,
    TWICE,
    WAITING,
    WIDTH,
    ZOOM,
    Look,
)
from kitlib.views.partition.reader import Beyond, Lane, LaneView
from kitlib.views.svg import Item, Svg, draw_frame, el, group, letter_paint, line_paint
from kitlib.words.glyphs import BLUE, PINK
from kitlib.words.template import count as plural

Cell = tuple[int, int, str]  # first index, one after the last, code
RIGHT = LEFT + STRIP
BLOCK = 8  # boxes in a group
BAR_BOTTOM, BAR_MIDDLE = BAR_Y + BAR_TALL, BAR_Y + BAR_TALL / 2
AGAIN = bytes(ord("X" if flags & TWICE else "U") for flags in range(256))  # X: a duplicate
_PENDING = bytes(ord("1" if flags & EXISTS and flags & (WAITING | PENDING | FAILED) else "0") for flags in range(256))
_PROCESSED_PENDING = bytes(ord("1" if flags & PROCESSED and _PENDING[flags] == ord("1") else "0") for flags in range(256))
_TWICE = bytes(ord("1" if flags & TWICE else "0") for flags in range(256))


def lane_tall(has_bar: bool) -> int:
    """Units from a lane's top to the next one's."""
    return LANE_TALL + (ZOOM if has_bar else 0)


def summary_of(view: LaneView) -> str:
    """What became of the records, then what is to come, each set with its sum."""
    return ". ".join(told for told in sums_of(view) if told)


def sums_of(view: LaneView) -> tuple[str, str]:
    """`13 of 60 processed = 8 committed + 5 done; 46 lost`, and `1 not read yet; 1 pending = 1 in flight`.

    The words and numbers are the verdict's. Offsets without a record are not counted.
    """
    kinds = [view.flags.translate(table).count(b"1") for table in (_TWICE, _PENDING, _PROCESSED_PENDING)]
    return _sums(tuple(view.counts().items()), *kinds, view.at.beyond)


@lru_cache(4_000)
def _sums(counts: tuple[tuple[str, int], ...], twice: int, pending: int, processed: int, beyond: Beyond) -> tuple[str, str]:
    of = dict(counts)
    done = [(of.get(code, 0), LOOK_OF[code].name) for code in "RCD"]
    done += [(processed, "pending"), (beyond.removed, "removed since"), (beyond.cut_done, "truncated")]
    lost = [(of.get(code, 0), LOOK_OF[code].name) for code in LOSSES] + [(beyond.cut_lost, "truncated")]
    held = [(of.get(code, 0), LOOK_OF[code].name) for code in "PWFN"]
    held.append((pending - sum(count for count, _ in held), "lost"))
    appended = sum(count for code, count in counts if code != ".") + sum(beyond) - beyond.repeats
    if not appended:
        return "the log is empty", ""
    told = [_sum("processed", done, appended)]
    told += [_sum("lost", lost)] if any(count for count, _ in lost) else []
    told += [f"{beyond.replaced:,} replaced by compaction"] if beyond.replaced else []
    told += [f"{of[code]:,} {LOOK_OF[code].name}" for code in "Ks" if code in of]
    if beyond.repeats:
        told.append(f"{beyond.repeats:,} duplicated" + (f" ({plural(twice, 'record')})" if beyond.repeats != twice else ""))
    ahead = [f"{of['U']:,} {LOOK_OF['U'].name}"] if "U" in of else []
    return "; ".join(told), "; ".join(ahead + [_sum("pending", held)] * bool(pending))


def _sum(name: str, parts: list[tuple[int, str]], of: int = 0) -> str:
    """`13 of 60 processed = 8 committed + 5 done`."""
    found = [(count, part) for count, part in parts if count]
    total = sum(count for count, _ in found)
    terms = " + ".join(f"{count:,} {part}" for count, part in found)
    return f"{total:,}{f' of {of:,}' if of else ''} {name}" + (f" = {terms}" if terms and terms != f"{total:,} given up" else "")


def _told(view: LaneView) -> list[Svg]:
    """The lane's name and its counts."""
    fates, ahead = sums_of(view)
    return [_name(view.lane.name), _words(ahead, RIGHT, NAME_Y), _words(fates, LEFT, NAME_Y + 17)]


def _row(view: LaneView) -> list[Svg]:
    """The boxes and the positions; as many pieces at each step."""
    boxes = _boxes(view)
    rest = [NOTHING] * (view.lane.boxes // BLOCK + 1 - len(boxes))
    ring = _ring(view.at.window, view.lane.boxes, view.current)
    return [*boxes, *rest, ring, *_marks(view)]


def draw_ghost(view: LaneView, end: LaneView) -> Svg:
    """A faint strip at the foot of the boxes: how they end."""
    width, first = STRIP // view.lane.boxes, view.at.window - view.lane.base
    cells = cells_of(end.codes[first : first + view.lane.boxes], view.lane.boxes)
    bands = [
        draw_frame(LOOK_OF[code], LEFT + at * width + 1, TALL - 9, (after - at) * width - 2, 8)
        for at, after, code in cells
        if LOOK_OF[code].shape not in ("dot", "empty")
    ]
    return group(el("title", f"How this run ends: {sums_of(end)[0]}"), *bands, opacity=0.45, data_ghost="strip")


def strip_y(has_bar: bool) -> int:
    return STRIP_Y + (ZOOM if has_bar else 0)


@lru_cache(256)
def _name(name: str) -> Svg:
    return el("text", plain_text(name, 48), cls="ink", x=LEFT, y=NAME_Y, font_size=13, font_weight="bold")


@lru_cache(4_000)
def _words(words: str, x: int, y: int) -> Svg:
    return el("text", words, cls="ink", x=x, y=y, text_anchor="end" if x == RIGHT else None) if words else NOTHING


def strip_reel(lanes: Sequence[Lane], steps: int, only: int | None = None, *, has_ghosts: bool = True) -> Reel:
    """The strips after every step; with `only` those after that step, whichever step is asked for.

    Unless it `has_ghosts` nothing tells before the first step is played how the run ends.
    """
    top, seen = 0, [set[str]() for _ in range(steps)]
    reel = Reel("Where is each record?", "Where is each record?", 20)
    for lane in lanes:
        down, lower = f"translate(0 {top})", f"translate(0 {top + strip_y(lane.has_bar)})"
        beam, bar, bracket, head = (Track(transform=down) for _ in range(4))
        row, ghost = Track(transform=lower), Track(transform=lower)
        found: list[str] = []
        at = 0
        for step, view in lane.views() if only is None else [(0, lane.after(only))]:
            for number in range(at, step):
                seen[number].update(found)
            at, found = step, seen_in(view)
            pieces, labels = draw_bar(view) if lane.has_bar else ([], [])
            bar.show(step, pieces)
            head.show(step, [*_told(view), *labels])
            row.show(step, _row(view))
            if has_ghosts and step == 0 and not only and lane.moments:  # before the first step is played
                ghost.show(0, [draw_ghost(view, lane.after(lane.moments[-1].step))])
                ghost.show(1, [])
            if lane.has_bar:
                for track, piece in zip((beam, bracket), _looks(view), strict=True):
                    track.show(step, [piece])
        for number in range(at, steps):
            seen[number].update(found)
        reel.tracks += (beam, bar, bracket, head, row, ghost) if lane.has_bar else (head, row, ghost)
        top += lane_tall(lane.has_bar)
        reel.tall = top
    told = [(step, frozenset(keys)) for step, keys in enumerate(seen)]
    reel.explain([item for item in strip_legend() if item.key != "."], told)
    return reel


def _boxes(view: LaneView) -> list[Svg]:
    """The boxes of the close-up in groups, most of which stay as they were."""
    width, end = STRIP // view.lane.boxes, min(view.at.window + view.lane.boxes, view.lane.base + len(view.codes))
    parts = []
    for start in range(view.at.window // BLOCK * BLOCK, end, BLOCK):
        first, after = max(start, view.at.window), min(start + BLOCK, end)
        shown = slice(first - view.lane.base, after - view.lane.base)
        block = _block(view.codes[shown], view.flags[shown], first, width, view.lane.place)
        parts.append(Svg(_right(LEFT + (start - view.at.window) * width), [block]))
    return parts


@lru_cache(10_000)
def _block(codes: str, flags: bytes, first: int, width: int, place: str) -> Svg:
    """Boxes side by side; what is inside the group stands for one record each, from the one that it names on."""
    shown = enumerate(zip(codes, flags, strict=True), first)
    boxes = (_box(code, offset, BADGES[flag], width) for offset, (code, flag) in shown)
    return group(*boxes, data_each=f"record:{place}/{first}")


@lru_cache(20_000)
def _box(code: str, offset: int, badge: str, width: int) -> Svg:
    """The box of one record at its place in its group: its offset where it fits, its letter or shape, its band."""
    is_dot = LOOK_OF[code].shape == "dot"
    drawn = (
        [_dot(width)]
        if is_dot
        else [frame_of(code, width), *_digits(code, offset, width), *sign_of(code, width), *_band(badge, width)]
    )
    return Svg(_right(offset % BLOCK * width), drawn)


@cache
def _right(x: int) -> str:
    return group(transform=f"translate({x} 0)").head


@lru_cache(256)
def _dot(width: int) -> Svg:
    return el("circle", cls="grey", cx=width // 2, cy=TALL / 2, r=2)


@lru_cache(256)
def frame_of(code: str, width: int) -> Svg:
    return draw_frame(LOOK_OF[code], 1, 0, width - 2, TALL)


def _digits(code: str, offset: int, width: int) -> list[Svg]:
    digits = str(offset)
    head = _digits_head(code, len(digits), width)
    return [Svg(head, [digits])] if len(digits) * 7 <= width or offset % 5 == 0 else []


@cache
def _digits_head(code: str, count: int, width: int) -> str:
    if count * 7 > width:
        return el("text", cls="grey", x=1, y=TALL + 11, font_size=11).head
    paint = letter_paint(LOOK_OF[code].text, 4 * LOOK_OF[code].hatch)
    return el("text", x=width // 2, y=13, text_anchor="middle", font_size=11 if count > 2 else 12, **paint).head


@lru_cache(256)
def sign_of(code: str, width: int) -> list[Svg]:
    look, middle = LOOK_OF[code], width // 2
    if look.shape in ("cross", "slash"):
        left, right = middle - min(7, middle - 3), middle + min(7, middle - 3)
        cross, slash = f"M{left} 18L{right} 33M{right} 18L{left} 33", f"M{left} 33L{right} 18"
        path = cross if look.shape == "cross" else slash
        return [el("path", d=path, stroke_width=3, **line_paint(look.edge))]
    if look.shape == "letter":
        paint = letter_paint(look.text, 4 * look.hatch)
        return [el("text", look.code, x=middle, y=30, text_anchor="middle", font_size=15, font_weight="bold", **paint)]
    return []


@lru_cache(256)
def _band(badge: str, width: int) -> list[Svg]:
    if int(badge) not in BANDS:
        return []
    told, colour, _ = BANDS[int(badge)]
    return [
        el("rect", x=1, y=TALL - 14, width=width - 2, height=14, fill=colour, stroke="#000000"),
        el("text", told, x=width // 2, y=TALL - 3, text_anchor="middle", font_size=11, fill="#000000"),
    ]


@lru_cache(256)
def _ring(window: int, boxes: int, current: int) -> Svg:
    """Around the record that the step is about."""
    width, place = STRIP // boxes, current - window
    if not 0 <= place < boxes:
        return NOTHING
    ring = {"x": LEFT + place * width - 1, "y": -3, "width": width + 2, "height": TALL + 6}
    return el("rect", cls="ink-line", **ring, rx=3, fill="none", stroke_width=2.5)


def _marks(view: LaneView) -> list[Svg]:
    """Where the next fetch begins above the boxes, committed_to and the log's ends below."""
    marks = view.at.marks
    start, end, committed, emitted = (place_mark(view.at.window, view.lane.boxes, mark) for mark in marks)
    told = f"committed to {marks[2]}" if view.at.is_stored else f"starts at {marks[2]}, not stored"
    return [
        _mark(f"fetched to {marks[3]}", emitted, is_above=True),
        _mark(told, committed, is_above=False, is_hollow=not view.at.is_stored),
        _end(marks[0], start, is_start=True),
        _end(marks[1], end, is_start=False),
    ]


def place_mark(window: int, boxes: int, offset: int) -> tuple[int, int]:
    """Where a position is drawn: x, and -1 or 1 if it lies left or right of the close-up, else 0."""
    index = offset - window
    if index < 0:
        return LEFT, -1
    return (LEFT + index * (STRIP // boxes), 0) if index <= boxes else (RIGHT, 1)


@lru_cache(4_000)
def _mark(told: str, place: tuple[int, int], *, is_above: bool, is_hollow: bool = False) -> Svg:
    """A triangle at the left edge of the offset's box, or at the strip's edge pointing out of the close-up."""
    x, side = place
    tip, foot = (-4, -14) if is_above else (TALL + 4, TALL + 14)
    middle = (tip + foot) / 2
    if side:
        path = f"M{x + side * 7} {middle}L{x - side * 3} {middle - 5}V{middle + 5}Z"
    else:
        path = f"M{x} {tip}L{x - 6} {foot}H{x + 6}Z"
    is_left = x < WIDTH / 2
    words = el(
        "text",
        told,
        x=x + (11 if is_left else -11),
        y=middle + 4,
        text_anchor=None if is_left else "end",
        **letter_paint("ink", 4),
    )
    colour = {"cls": "ink"} if is_above else {"fill": BLUE, "cls": "ink-line", "stroke_width": 0.8}
    if is_hollow:
        colour = {"cls": "paper", "stroke": BLUE, "stroke_width": 1.8}
    return group(el("path", d=path, **colour), words)


@lru_cache(4_000)
def _end(offset: int, place: tuple[int, int], *, is_start: bool) -> Svg:
    """A thick line where the log begins or ends, and its offset in the second row below."""
    x, side = place
    y = TALL + 34
    parts = []
    if side == 0:
        parts.append(el("path", d=f"M{x} -4V{TALL + 3}M{x} {TALL + 19}V{TALL + 25}", cls="ink-line", stroke_width=3))
    else:
        parts.append(el("path", d=f"M{x + side * 7} {y - 4}L{x - side * 3} {y - 9}V{y + 1}Z", cls="ink"))
    if side:
        x_text, anchor = (x + 11, None) if side < 0 else (x - 11, "end")
    elif is_start:  # the two labels keep out of each other's way
        x_text, anchor = (x + 4, None) if x < RIGHT - 200 else (min(x - 4, RIGHT - 105), "end")
    else:
        x_text, anchor = (x - 4, "end") if x > LEFT + 200 else (max(x + 4, LEFT + 105), None)
    label = f"log {'start' if is_start else 'end'} {offset}"
    return group(*parts, el("text", label, cls="grey", x=x_text, y=y, text_anchor=anchor))


def _scale(view: LaneView) -> float:
    return STRIP / max(1, len(view.flags))


def _looks(view: LaneView) -> tuple[Svg, Svg]:
    """The beam from the bar to the close-up, below the bar, and the bracket around what it shows, above."""
    scale = _scale(view)
    places = [min(max(0, offset - view.lane.base), len(view.flags)) for offset in (view.at.window, view.at.window + view.lane.boxes)]
    return look_of(LEFT + places[0] * scale, LEFT + places[1] * scale)


def draw_bar(view: LaneView) -> tuple[list[Svg], list[Svg]]:
    """The bar's pieces, and the labels and positions, which may cross the bracket between the two."""
    codes, flags, base, scale = view.codes, view.flags, view.lane.base, _scale(view)

    def at(offset: int) -> float:
        return LEFT + min(max(0, offset - base), len(flags)) * scale

    _, _, committed, emitted = view.at.marks
    limit = max(1, CELLS * len(codes) // max(1, len(flags)))
    pieces, labels = bar_of(tuple(cells_of(codes, limit)), base, scale)
    twice = flags[: len(codes)].translate(AGAIN).decode("ascii")
    again = _duplicates(tuple(cells_of(twice, limit)), scale) if "X" in twice else NOTHING
    return [pieces, again], [labels, _emitted_to(at(emitted)), _committed_to(at(committed), view.at.is_stored)]


@lru_cache(2_000)
def bar_of(cells: tuple[Cell, ...], base: int, scale: float) -> tuple[Svg, Svg]:
    """The runs of alike records, and what stands on them."""
    pieces, labels = [], []
    for first, after, code in cells:
        x, width = LEFT + first * scale, (after - first) * scale
        pieces.append(_piece(code, x, width))
        labels.append(_label(code, base + first, base + after - 1, x, width))
    return group(*pieces), group(*labels)


@lru_cache(2_000)
def _duplicates(cells: tuple[Cell, ...], scale: float) -> Svg:
    paint = {"y": BAR_BOTTOM - 5, "height": 5, "fill": PINK, "stroke": "#000000", "stroke_width": 0.5}
    found = [(LEFT + first * scale, max(3.0, (after - first) * scale)) for first, after, code in cells if code == "X"]
    return group(*(el("rect", x=x, width=width, **paint) for x, width in found))


@lru_cache(1_000)
def look_of(left: float, right: float) -> tuple[Svg, Svg]:
    """The beam from the bar to the close-up, and the bracket around what it shows."""
    beam = f"M{left:.1f} {BAR_BOTTOM}L{LEFT} {STRIP_Y + ZOOM}H{LEFT + STRIP}L{right:.1f} {BAR_BOTTOM}Z"
    box = {"x": left - 1.5, "y": BAR_Y - 3, "width": right - left + 3, "height": BAR_TALL + 6}
    bracket = el("rect", **box, cls="ink-line", rx=2, fill="none", stroke_width=2)
    return el("path", d=beam, cls="grey", opacity=0.13), bracket


@lru_cache(4_000)
def _emitted_to(x: float) -> Svg:
    return el("path", d=f"M{x:.1f} {BAR_Y - 4}l-4 -6h8Z", cls="ink")


@lru_cache(4_000)
def _committed_to(x: float, is_stored: bool) -> Svg:
    colour = {"fill": BLUE, "cls": "ink-line", "stroke_width": 0.8} if is_stored else {"cls": "paper", "stroke": BLUE, "stroke_width": 1.5}
    return el("path", d=f"M{x:.1f} {BAR_BOTTOM + 4}l-4 6h8Z", **colour)


@lru_cache(4_000)
def _piece(code: str, x: float, width: float) -> Svg:
    """A run of alike records. Where no letter fits on lost ones, a cross stands for it."""
    look = LOOK_OF[code]
    if look.shape == "dot":
        return el("path", d=f"M{x:.1f} {BAR_MIDDLE}h{width:.1f}", cls="grey-line", stroke_dasharray="1 4")
    frame = draw_frame(look, x, BAR_Y, width, BAR_TALL)
    if look.shape != "cross" or width >= 14:
        return frame
    side, centre = min(width, 10) / 2, x + width / 2
    cross = f"M{centre - side:.1f} {BAR_MIDDLE - 5}l{2 * side:.1f} 10m0 -10l{-2 * side:.1f} 10"
    return group(frame, el("path", d=cross, stroke_width=1.2, **line_paint(look.edge)))


@lru_cache(4_000)
def _label(code: str, first: int, last: int, x: float, width: float) -> Svg:
    """A run's letter and its range, or the letter alone, or nothing: what fits."""
    look = LOOK_OF[code]
    span = f"{first}" if first == last else f"{first} to {last}"
    letter = "×" if look.shape == "cross" else "" if look.shape == "empty" else look.code.upper()
    label = f"{letter} {span}".strip() if width >= 7 * (len(span) + 3) else letter if width >= 14 else ""
    if not label or look.shape == "dot":
        return Svg()
    return el("text", label, x=x + width / 2, y=BAR_Y + 14, text_anchor="middle", **letter_paint(look.text, 4))


def cells_of(codes: str, limit: int) -> list[Cell]:
    """Codes as at most `limit` cells, merged into runs: (first index, one after the last, code).

    A cell stands for the same number of offsets each; its code is the most alarming one among them.
    """
    size = -(-len(codes) // limit) if codes else 1
    runs: list[Cell] = []
    at = 0  # where the next cell begins
    for alike in _RUN.finditer(codes):
        end = alike.end()
        while at < end:
            after = len(codes) if end == len(codes) else max(at + size, end - end % size)
            if after <= end:  # whole cells, or the last one
                code = codes[at]
            else:
                after = min(after, len(codes))
                code = min(set(codes[at:after]), key=SALIENCE.index)
            if runs and runs[-1][2] == code:
                runs[-1] = (runs[-1][0], after, code)
            else:
                runs.append((at, after, code))
            at = after
    return runs


_RUN = re.compile(r"(.)\1*")


def strip_legend() -> list[Item]:
    """What the boxes mean."""
    looks = [Item(look.code, swatch_of(look), look.meaning) for look in reversed(LOOKS)]
    return looks + [
        Item(str(badge), _band_swatch(told, colour), meaning) for badge, (told, colour, meaning) in BANDS.items()
    ]


def seen_in(view: LaneView) -> list[str]:
    """The keys of the legend's items that occur."""
    badges = view.flags.translate(_BADGE)
    return [*view.counts(), *(badge for badge in "12" if badge.encode() in badges)]


_BADGE = BADGES.encode()


def _band_swatch(told: str, colour: str) -> Svg:
    band = el("rect", width=26, height=14, y=2, fill=colour, stroke="#000000")
    return group(band, el("text", told, x=13, y=13, text_anchor="middle", font_size=11, fill="#000000"))


def swatch_of(look: Look) -> Svg:
    if look.shape == "dot":
        return el("circle", cls="grey", cx=13, cy=9, r=2)
    parts = [draw_frame(look, 2, 0, 22, 18)]
    if look.shape in ("cross", "slash"):
        path = "M8 4L18 14M18 4L8 14" if look.shape == "cross" else "M8 14L18 4"
        parts.append(el("path", d=path, stroke_width=2, **line_paint(look.edge)))
    elif look.shape == "letter":
        parts.append(
            el(
                "text",
                look.code,
                x=13,
                y=14,
                text_anchor="middle",
                font_size=13,
                font_weight="bold",
                **letter_paint(look.text, 4 * look.hatch),
            )
        )
    return group(*parts)
