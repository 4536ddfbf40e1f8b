"""What the acker did last with one tree's number, bit by bit.

The question: is the number zero? The message stands below the number before, so that each of its ones
is seen to flip the bit above. Numbers of up to 16 bits are a row of cells; one of 64 bits is a square.
"""

from __future__ import annotations

from kitlib.text import plain_text
from kitlib.views.forest import NEVER, Forest
from kitlib.views.ledger_rows import LedgerRow
from kitlib.views.svg import Svg, el, group
from kitlib.views.tree_look import (
    BIT_PITCH,
    BIT_TALL,
    BITS_TOP,
    FLIPPED,
    GRID_CELL,
    LINE_TALL,
    SIDE_LEFT,
    SIDE_WIDE,
    TONES,
)
from kitlib.words.glyphs import BLUE, RED

NO_MESSAGE = "The acker has heard nothing of it yet."
NOBODY = "No acker follows this record."


def ledger_name(forest: Forest, tree: int) -> str:
    """`__acker-5's ledger of this tree`."""
    acker = forest.trees[tree].acker
    return f"What {forest.tasks[acker]} knows of it" if acker != NEVER else "What the acker knows of it"


def ledger_title(row: LedgerRow, step: int) -> str:
    """`now: ack of split-2`, or when it was."""
    return f"now: {row.title}" if row.step == step else f"last, step {row.step}: {row.title}"


def draw_ledger(forest: Forest, step: int, top: int) -> Svg:
    """The ledger of the tree that the step is about."""
    tree = forest.focus[step] if step >= 0 else NEVER
    if tree == NEVER:
        return Svg()
    parts = [el("text", ledger_name(forest, tree), cls="ink", y=16, font_size=13, font_weight="bold")]
    row = forest.row_of(tree, step)
    if row is None:
        told = NO_MESSAGE if forest.trees[tree].is_tracked else NOBODY
        parts.append(el("text", told, cls="grey", y=33))
    else:
        title = plain_text(ledger_title(row, step), 44)
        parts.append(el("text", title, cls="ink", y=33, font_weight="bold" if row.step == step else None))
        parts += _square(row) if forest.bits > 16 else _rows(row, forest.bits)
        y = BITS_TOP + (112 if forest.bits > 16 else 3 * BIT_PITCH + 4)
        parts += _lines(row, y)
    return group(*parts, transform=f"translate({SIDE_LEFT} {top})")


def numbers_of(row: LedgerRow) -> list[tuple[str, str | None, str]]:
    """The three numbers with their labels: (label, number or None, what it is)."""
    return [
        ("before" if row.before is not None else "before: no entry, counts as 0", row.before, "before"),
        ("⊕ message" if row.message is not None else "no number in it", row.message, "message"),
        (
            "= after" + (": zero" if is_zero(row.after) else ": nothing" if row.after is None else ""),
            row.after,
            "after",
        ),
    ]


def is_zero(number: str | None) -> bool:
    """Whether the number is there and zero."""
    return number is not None and int(number, 16) == 0


def bits_of_number(number: str | None, bits: int) -> str:
    """The digits 0 and 1, the highest first; without a number, as many blanks."""
    return " " * bits if number is None else f"{int(number, 16):0{bits}b}"[-bits:]


def _rows(row: LedgerRow, bits: int) -> list[Svg]:
    cell = min(30, SIDE_WIDE // bits)
    parts = []
    flips = bits_of_number(row.message, bits)
    for index, (label, number, kind) in enumerate(numbers_of(row)):
        y = BITS_TOP + index * BIT_PITCH
        parts.append(el("text", label, cls="ink", y=y + 10, font_size=11))
        for place, bit in enumerate(bits_of_number(number, bits)):
            paint = cell_paint(bit, kind, row, is_flipped=flips[place] == "1")
            frame = {"x": place * cell + 0.5, "y": y + 14, "width": cell - 1, "height": BIT_TALL}
            parts.append(el("rect", **frame, **paint))
            if bit != " ":
                x, ink = place * cell + cell / 2, digit_paint(bit, kind)
                parts.append(el("text", bit, x=x, y=y + 28, text_anchor="middle", font_size=12, **ink))
    return parts


def _square(row: LedgerRow) -> list[Svg]:
    parts = []
    side = 8 * GRID_CELL
    flips = bits_of_number(row.message, 64)
    for index, ((label, number, kind), sign) in enumerate(zip(numbers_of(row), ("", "⊕", "="), strict=True)):
        left, y = index * (side + 22), BITS_TOP + 14
        short = {"before": "before", "message": "message", "after": label.removeprefix("= ")}[kind]
        parts.append(el("text", short, cls="ink", x=left, y=y - 4, font_size=11))
        if sign:
            parts.append(
                el("text", sign, cls="ink", x=left - 11, y=y + side / 2 + 5, text_anchor="middle", font_size=14)
            )
        for place, bit in enumerate(bits_of_number(number, 64)):
            paint = cell_paint(bit, kind, row, is_flipped=flips[place] == "1")
            down, across = divmod(place, 8)
            x = left + across * GRID_CELL + 0.5
            parts.append(
                el("rect", x=x, y=y + down * GRID_CELL + 0.5, width=GRID_CELL - 1, height=GRID_CELL - 1, **paint)
            )
        digits = (
            "no entry"
            if number is None and kind == "before"
            else "none"
            if number is None
            else f"{int(number, 16):016x}"
        )
        for line, text in enumerate((digits[:8], digits[8:])):
            parts.append(el("text", text, cls="ink", x=left, y=y + side + 14 + line * 13, font_size=11))
    return parts


def cell_paint(bit: str, kind: str, row: LedgerRow, *, is_flipped: bool) -> dict[str, object]:
    """The box of one bit: a one is filled, a zero hollow; what the message flips is orange; zero as a whole is blue."""
    if bit == " ":
        return {"fill": "none", "cls": "grey-line", "stroke_width": 0.7, "stroke_dasharray": "2 2"}
    if kind == "message" and bit == "1":
        return {"fill": FLIPPED, "stroke": "#000000", "stroke_width": 1}
    if kind == "after" and is_zero(row.after):
        return {"fill": "none", "stroke": RED if row.is_false else BLUE, "stroke_width": 2}
    edge: dict[str, object] = {"cls": "ink-line", "stroke_width": 1}
    if kind == "after" and is_flipped:
        edge = {"stroke": FLIPPED, "stroke_width": 2}
    if bit == "1":
        shared = edge.pop("cls", None)
        return {**edge, "cls": f"ink {shared}" if shared else "ink"}
    return {**edge, "fill": "none"}


def digit_paint(bit: str, kind: str) -> dict[str, object]:
    """The colour of a digit in its box."""
    if bit == "0":
        return {"cls": "ink"}
    return {"fill": "#000000"} if kind == "message" else {"cls": "paper"}


def _lines(row: LedgerRow, y: int) -> list[Svg]:
    """The sentences; those of a tone stand together on its colour."""
    parts: list[Svg] = []
    toned = [tone for _, tone in row.lines if tone in TONES]
    if toned:
        first = next(index for index, (_, tone) in enumerate(row.lines) if tone in TONES)
        top, tall = y + first * LINE_TALL + 3, len(toned) * LINE_TALL + 8
        parts.append(el("rect", x=-4, y=top, width=SIDE_WIDE + 8, height=tall, rx=3, fill=TONES[toned[0]][0]))
    for index, (text, tone) in enumerate(row.lines):
        place = y + index * LINE_TALL + (18 if tone in TONES else 11)
        ink = {"fill": TONES[tone][1]} if tone in TONES else {"cls": tone}
        parts.append(el("text", plain_text(text, 60), x=0, y=place, font_size=11 if tone not in TONES else 12, **ink))
    return parts
