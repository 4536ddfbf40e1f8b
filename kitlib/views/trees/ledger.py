"""What the acker did last with one tree's number, digit by digit.

The question: is the number zero? The message stands below the number before, so that each of its ones
is seen to flip the bit above. A number is a row of cells, a bit each; of one with more than 16 bits, four bits each, as a
hexadecimal digit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from kitlib.text import plain_text
from kitlib.views.film import NOTHING, Slot
from kitlib.views.svg import Svg, el, group
from kitlib.views.trees.forest import NEVER, Forest
from kitlib.views.trees.layout import (
    BIT_PITCH,
    BIT_TALL,
    BITS_TOP,
    FLIPPED,
    LINE_TALL,
    SIDE_WIDE,
    TONES,
)
from kitlib.views.trees.ledger_rows import LedgerRow
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


def digits_of(number: int | None, bits: int) -> str:
    """The digits, the highest first: of few bits 0 and 1, of more hexadecimal ones; without a number, as many blanks."""
    count = bits if bits <= 16 else bits // 4
    return " " * count if number is None else f"{number:0{count}{'b' if bits <= 16 else 'x'}}"[-count:]


def ledger_slots(forest: Forest, tree: int) -> list[Slot]:
    """The pieces of one tree's ledger: whose it is, what happened last, the three numbers, the bits that flipped, and sentences."""
    if tree == NEVER:
        return []
    view, bits = forest.trees[tree], forest.bits
    name = el("text", ledger_name(forest, tree), cls="ink", y=16, font_size=13, font_weight="bold")
    unheard = el("text", NO_MESSAGE if view.is_tracked else NOBODY, cls="grey", y=33)
    rows = {row.step: row for row in view.ledger}  # of a step the last one
    steps, last = sorted(rows), len(forest.focus) - 1
    titled = sorted({0, *steps, *(step + 1 for step in steps if step < last)})

    def title_at(step: int) -> Svg:
        row = forest.row_of(tree, step)
        if row is None:
            return unheard
        bold = "bold" if row.step == step else None
        return el("text", plain_text(ledger_title(row, step), 44), cls="ink", y=33, font_weight=bold)

    def row_at(draw: Callable[[LedgerRow, int], Svg], step: int) -> Svg:
        row = forest.row_of(tree, step)
        return NOTHING if row is None else draw(row, bits)

    parts: list[Callable[[LedgerRow, int], Svg]] = [*(partial(_number_of, index) for index in range(3)), _flips, _sentences]
    return [Slot([0], lambda step: name), Slot(titled, title_at), *(Slot(steps, partial(row_at, draw)) for draw in parts)]


def _number_of(index: int, row: LedgerRow, bits: int) -> Svg:
    """The number before, the message or the number after, with its label."""
    kind, number = (("before", row.before), ("message", row.message), ("after", row.after))[index]
    zero = kind == "after" and row.after == 0
    if kind == "before":
        label = kind if number is not None else "before: no entry, counts as 0"
    elif kind == "message":
        label = "no number in it" if number is None else "⊕ message"
    else:
        label = f"= after{': zero' if zero else ': nothing' if number is None else ''}"
    paint = "message" if kind == "message" else "plain" if not zero else "false" if row.is_false else "zero"
    return _number(index, label, digits_of(number, bits), paint)


@lru_cache(4_000)
def _number(index: int, label: str, digits: str, paint: str) -> Svg:
    """A label, and below it a cell for each digit: zero is hollow, no number is dashed."""
    wide, parts = _cell_wide(digits), [el("text", label, cls="ink", y=-4, font_size=11)]
    for place, digit in enumerate(digits):
        parts.append(el("rect", x=place * wide + 0.5, y=0, width=wide - 1, height=BIT_TALL, **_cell_paint(digit, paint)))
        if digit != " ":
            ink = {"cls": "ink"} if digit == "0" else {"fill": "#000000"} if paint == "message" else {"cls": "paper"}
            parts.append(el("text", digit, x=place * wide + wide / 2, y=14, text_anchor="middle", font_size=12, **ink))
    return group(*parts, transform=_number_at(index))


def _cell_wide(digits: str) -> int:
    return min(30, SIDE_WIDE // len(digits))


def _number_at(index: int) -> str:
    """Where the cells of one of the three numbers begin."""
    return f"translate(0 {BITS_TOP + index * BIT_PITCH + 14})"


def _cell_paint(digit: str, paint: str) -> dict[str, object]:
    """A one of the message is orange; zero as a whole is blue, and red where it came by chance."""
    if digit == " ":
        return {"fill": "none", "cls": "grey-line", "stroke_width": 0.7, "stroke_dasharray": "2 2"}
    if paint in ("zero", "false"):
        return {"fill": "none", "stroke": RED if paint == "false" else BLUE, "stroke_width": 2}
    if digit == "0":
        return {"fill": "none", "cls": "ink-line", "stroke_width": 1}
    if paint == "message":
        return {"fill": FLIPPED, "stroke": "#000000", "stroke_width": 1}
    return {"cls": "ink ink-line", "stroke_width": 1}


def _flips(row: LedgerRow, bits: int) -> Svg:
    """A border around the digits that the message changed."""
    return NOTHING if not row.after or row.message is None else _borders(digits_of(row.message, bits))


@lru_cache(4_000)
def _borders(digits: str) -> Svg:
    wide, paint = _cell_wide(digits), {"fill": "none", "stroke": FLIPPED, "stroke_width": 2}
    changed = [place for place, digit in enumerate(digits) if digit != "0"]
    cells = (el("rect", x=place * wide + 0.5, y=0, width=wide - 1, height=BIT_TALL, **paint) for place in changed)
    return group(*cells, transform=_number_at(2))


def _sentences(row: LedgerRow, bits: int) -> Svg:
    return group(*_lines(row, BITS_TOP + 3 * BIT_PITCH + 4))


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
