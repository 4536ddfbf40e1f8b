"""The whole log of one partition as a bar: what the close-up below it leaves out.

A run of alike records is one piece with its letter and, where they fit, its first and last offset. A
bracket shows where the close-up looks, two triangles where the commit and the last fetch stand.
"""

from __future__ import annotations

from kitlib.views.frames import cells_of
from kitlib.views.look import BAR_TALL, BAR_Y, CELLS, LEFT, LOOK_OF, STRIP, STRIP_Y, TWICE, ZOOM, Look
from kitlib.views.paint import draw_frame, letter_paint, line_paint
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLUE, PINK

BOTTOM = BAR_Y + BAR_TALL
MIDDLE = BAR_Y + BAR_TALL / 2
AGAIN = bytes(ord("X" if flags & TWICE else "U") for flags in range(256))  # X: a duplicate


def draw_bar(codes: str, flags: bytearray, base: int, window: int, boxes: int, marks: tuple[int, int, int, int]) -> Svg:
    """The bar, the beam from it to the close-up (`boxes` offsets from `window` on), and the positions."""
    scale = STRIP / max(1, len(flags))

    def at(offset: int) -> float:
        return LEFT + min(max(0, offset - base), len(flags)) * scale

    left, right, (_, _, committed, emitted) = at(window), at(window + boxes), marks
    beam = f"M{left:.1f} {BOTTOM}L{LEFT} {STRIP_Y + ZOOM}H{LEFT + STRIP}L{right:.1f} {BOTTOM}Z"
    parts, labels = [el("path", d=beam, cls="grey", opacity=0.13)], []
    limit = max(1, CELLS * len(codes) // max(1, len(flags)))
    for first, after, code in cells_of(codes, limit):
        x, width = LEFT + first * scale, (after - first) * scale
        parts.append(_piece(LOOK_OF[code], x, width))
        labels.append(_label(LOOK_OF[code], base + first, base + after - 1, x, width))
    for first, after, code in cells_of(flags[: len(codes)].translate(AGAIN).decode("ascii"), limit):
        if code == "X":
            x, width = LEFT + first * scale, max(3.0, (after - first) * scale)
            parts.append(
                el("rect", x=x, y=BOTTOM - 5, width=width, height=5, fill=PINK, stroke="#000000", stroke_width=0.5)
            )
    box = {"x": left - 1.5, "y": BAR_Y - 3, "width": right - left + 3, "height": BAR_TALL + 6}
    parts.append(el("rect", **box, cls="ink-line", rx=2, fill="none", stroke_width=2))
    parts += labels  # above the bracket, which may cross them
    parts.append(el("path", d=f"M{at(emitted):.1f} {BAR_Y - 4}l-4 -6h8Z", cls="ink"))
    commit = f"M{at(committed):.1f} {BOTTOM + 4}l-4 6h8Z"
    parts.append(el("path", d=commit, fill=BLUE, cls="ink-line", stroke_width=0.8))
    return group(*parts)


def _piece(look: Look, x: float, width: float) -> Svg:
    """A run of alike records. Where no letter fits on lost ones, a cross stands for it."""
    if look.shape == "dot":
        return el("path", d=f"M{x:.1f} {MIDDLE}h{width:.1f}", cls="grey-line", stroke_dasharray="1 4")
    frame = draw_frame(look, x, BAR_Y, width, BAR_TALL)
    if look.shape != "cross" or width >= 14:
        return frame
    side, centre = min(width, 10) / 2, x + width / 2
    cross = f"M{centre - side:.1f} {MIDDLE - 5}l{2 * side:.1f} 10m0 -10l{-2 * side:.1f} 10"
    return group(frame, el("path", d=cross, stroke_width=1.2, **line_paint(look.edge)))


def _label(look: Look, first: int, last: int, x: float, width: float) -> Svg:
    """A run's letter and its range, or the letter alone, or nothing: what fits."""
    span = f"{first}" if first == last else f"{first} to {last}"
    letter = "×" if look.shape == "cross" else "" if look.shape == "empty" else look.code
    label = f"{letter} {span}".strip() if width >= 7 * (len(span) + 3) else letter if width >= 14 else ""
    if not label or look.shape == "dot":
        return Svg("")
    return el("text", label, x=x + width / 2, y=BAR_Y + 14, text_anchor="middle", **letter_paint(look.text, 4))
