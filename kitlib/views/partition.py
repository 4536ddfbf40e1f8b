"""One partition after one step: its log as a strip, a box for each offset.

The question: which records are done, which are in flight, and which will nobody ever work on? Time
and offsets run to the right. A log that is too long for boxes has a bar above them, on which a run of
alike records is one piece, and the boxes are the close-up of the part where something happens.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.text import plain_text
from kitlib.views.bar import draw_bar
from kitlib.views.frames import Frames, codes_of
from kitlib.views.look import (
    BADGES,
    BANDS,
    LANE_TALL,
    LEFT,
    LOOK_OF,
    LOOKS,
    NAME_Y,
    STRIP,
    STRIP_Y,
    TALL,
    WIDTH,
    ZOOM,
    Look,
)
from kitlib.views.paint import draw_frame, letter_paint, line_paint
from kitlib.views.svg import Svg, el, group, legend
from kitlib.words.glyphs import BLUE

RIGHT = LEFT + STRIP


@dataclass(frozen=True, slots=True)
class LaneView:
    """What one lane shows after one step, before it is drawn."""

    name: str
    base: int
    codes: str  # of offsets base, base + 1, ... as far as the log reaches now
    flags: bytearray
    window: int  # first offset of the close-up
    marks: tuple[int, int, int, int]  # log start, log end, committed_to, emitted_to
    current: int  # the offset that the step is about, or -1
    has_bar: bool
    boxes: int  # of the close-up

    @property
    def height(self) -> int:
        """Units from this lane's top to the next one's."""
        return LANE_TALL + (ZOOM if self.has_bar else 0)

    def counts(self) -> dict[str, int]:
        """Records by code, in the order of alarm; offsets without a record are not counted."""
        return {look.code: n for look in LOOKS if look.code != "." and (n := self.codes.count(look.code))}

    def summary(self) -> str:
        """`12 committed, 4 pending`, the calm ones first."""
        told = [f"{n:,} {LOOK_OF[code].name}" for code, n in reversed(self.counts().items())]
        return ", ".join(told) or "the log is empty"


def lane_views(frames: Frames, number: int) -> list[LaneView]:
    """All lanes after step `number`."""
    views = []
    for lane_number, (lane, flags) in enumerate(zip(frames.lanes, frames.flags_after(number), strict=True)):
        marks = frames.marks_after(lane_number, number)
        is_here = bool(len(frames)) and frames.lane[number] == lane_number
        views.append(
            LaneView(
                lane.name,
                lane.base,
                codes_of(flags, lane.base, marks)[: max(0, marks[1] - lane.base)],
                flags,
                frames.window_after(lane_number, number),
                marks,
                frames.offset[number] if is_here else -1,
                lane.has_bar,
                lane.boxes,
            )
        )
    return views


def draw_lane(view: LaneView, top: int) -> Svg:
    """The lane as SVG, its upper edge at y = `top`."""
    drop = ZOOM if view.has_bar else 0
    parts = [
        el("text", plain_text(view.name, 48), cls="ink", x=LEFT, y=NAME_Y, font_size=13, font_weight="bold"),
        el("text", view.summary(), cls="ink", x=LEFT, y=NAME_Y + 17),
    ]
    if view.has_bar:
        parts.append(draw_bar(view.codes, view.flags, view.base, view.window, view.boxes, view.marks))
    parts.append(group(*_boxes(view), *_marks(view), transform=f"translate(0 {STRIP_Y + drop})"))
    return group(*parts, transform=f"translate(0 {top})")


def _boxes(view: LaneView) -> list[Svg]:
    parts = []
    first, width = view.window - view.base, STRIP // view.boxes
    for index, code in enumerate(view.codes[first : first + view.boxes]):
        offset, badge = view.window + index, int(BADGES[view.flags[first + index]])
        box = draw_box(LOOK_OF[code], offset, badge, width, offset == view.current)
        parts.append(group(box, transform=f"translate({LEFT + index * width} 0)"))
    return parts


def draw_box(look: Look, offset: int, badge: int, width: int, is_current: bool = False) -> Svg:
    """The box of one record: its offset where it fits, its letter or shape, its band."""
    middle = width // 2
    if look.shape == "dot":
        return el("circle", cls="grey", cx=middle, cy=TALL / 2, r=2)
    parts = [draw_frame(look, 1, 0, width - 2, TALL)]
    paint = letter_paint(look.text, 4 * look.hatch)
    digits = str(offset)
    if len(digits) * 7 <= width:
        parts.append(
            el("text", digits, x=middle, y=13, text_anchor="middle", font_size=11 if len(digits) > 2 else 12, **paint)
        )
    elif offset % 5 == 0:
        parts.append(el("text", digits, cls="grey", x=1, y=TALL + 11, font_size=11))
    band = BANDS.get(badge)
    if look.shape in ("cross", "slash"):
        left, right = middle - min(7, middle - 3), middle + min(7, middle - 3)
        cross, slash = f"M{left} 18L{right} 33M{right} 18L{left} 33", f"M{left} 33L{right} 18"
        path = cross if look.shape == "cross" else slash
        parts.append(el("path", d=path, stroke_width=3, **line_paint(look.edge)))
    elif look.shape == "letter":
        parts.append(
            el("text", look.code, x=middle, y=30, text_anchor="middle", font_size=15, font_weight="bold", **paint)
        )
    if band:
        parts.append(el("rect", x=1, y=TALL - 14, width=width - 2, height=14, fill=band[1], stroke="#000000"))
        parts.append(el("text", band[0], x=middle, y=TALL - 3, text_anchor="middle", font_size=11, fill="#000000"))
    if is_current:
        parts.append(
            el(
                "rect",
                cls="ink-line",
                x=-1,
                y=-3,
                width=width + 2,
                height=TALL + 6,
                rx=3,
                fill="none",
                stroke_width=2.5,
            )
        )
    return group(*parts)


def _marks(view: LaneView) -> list[Svg]:
    """The three positions: emitted_to above the boxes, committed_to and the log's ends below."""
    start, end, committed, emitted = view.marks
    return [
        *_mark(view, emitted, f"emitted to {emitted}", is_above=True),
        *_mark(view, committed, f"committed to {committed}", is_above=False),
        *_end(view, start, f"log start {start}", is_start=True),
        *_end(view, end, f"log end {end}", is_start=False),
    ]


def _mark(view: LaneView, offset: int, label: str, *, is_above: bool) -> list[Svg]:
    """A triangle at the left edge of the offset's box, or at the strip's edge pointing out of the close-up."""
    x, side = place_mark(view, offset)
    tip, foot = (-4, -14) if is_above else (TALL + 4, TALL + 14)
    middle = (tip + foot) / 2
    if side:
        path = f"M{x + side * 7} {middle}L{x - side * 3} {middle - 5}V{middle + 5}Z"
    else:
        path = f"M{x} {tip}L{x - 6} {foot}H{x + 6}Z"
    is_left = x < WIDTH / 2
    words = el(
        "text", label, cls="ink", x=x + (11 if is_left else -11), y=middle + 4, text_anchor=None if is_left else "end"
    )
    colour = {"cls": "ink"} if is_above else {"fill": BLUE, "cls": "ink-line", "stroke_width": 0.8}
    return [el("path", d=path, **colour), words]


def _end(view: LaneView, offset: int, label: str, *, is_start: bool) -> list[Svg]:
    """A thick line where the log begins or ends, and its offset in the second row below."""
    x, side = place_mark(view, offset)
    y = TALL + 34
    parts = []
    if side == 0:
        parts.append(el("path", d=f"M{x} -4V{TALL + 24}", cls="ink-line", stroke_width=3))
    else:
        parts.append(el("path", d=f"M{x + side * 7} {y - 4}L{x - side * 3} {y - 9}V{y + 1}Z", cls="ink"))
    if side:
        x_text, anchor = (x + 11, None) if side < 0 else (x - 11, "end")
    elif is_start:  # the two labels keep out of each other's way
        x_text, anchor = (x + 4, None) if x < RIGHT - 200 else (min(x - 4, RIGHT - 105), "end")
    else:
        x_text, anchor = (x - 4, "end") if x > LEFT + 200 else (max(x + 4, LEFT + 105), None)
    return [*parts, el("text", label, cls="grey", x=x_text, y=y, text_anchor=anchor)]


def place_mark(view: LaneView, offset: int) -> tuple[int, int]:
    """Where a position is drawn: x, and -1 or 1 if it lies left or right of the close-up, else 0."""
    index = offset - view.window
    if index < 0:
        return LEFT, -1
    return (LEFT + index * (STRIP // view.boxes), 0) if index <= view.boxes else (RIGHT, 1)


def draw_legend(codes: set[str], badges: set[int], top: int) -> tuple[Svg, int]:
    """What the boxes mean, only those that occur, in two columns; and its height."""
    items: list[tuple[Svg, str]] = []
    for look in reversed(LOOKS):
        if look.code in codes:
            items.append((_swatch(look), look.meaning))
    for badge, (text, colour, meaning) in BANDS.items():
        if badge in badges:
            band = el("rect", width=26, height=14, y=2, fill=colour, stroke="#000000")
            words = el("text", text, x=13, y=13, text_anchor="middle", font_size=11, fill="#000000")
            items.append((group(band, words), meaning))
    return legend(items, top)


def _swatch(look: Look) -> Svg:
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
