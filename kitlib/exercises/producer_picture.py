"""The batch at which a learner's broker and Kafka's part: what was remembered, where the batch belongs, both answers.

The question: is this batch new, known, or neither? Sequences run to the right, a box for each batch and not to
scale. What the broker remembers is filled, what it has written and forgotten is hollow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kitlib.kafka.protocol import MAX_SEQUENCE, increment_sequence
from kitlib.text import plain_text
from kitlib.views import Picture
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.svg import Svg, document, el, group
from kitlib.words.glyphs import BLACK, BLUE, ORANGE, RED, WHITE

MOST_FORGOTTEN = 2  # boxes of batches that are no longer remembered
SLOT, GAP, TALL = 82, 6, 34  # a box's width, the space between two, and its height
TOP = 62  # of the broker's row
BELOW = TOP + TALL + 44  # of the arriving batch


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be seen at one batch."""

    pid: int
    before: dict[str, Any] | None  # the recorded entry when it came; None: the producer is not known
    written: list[list[int]]  # [first, last] of each batch of its epoch that was written so far, oldest first
    epoch: int
    first_seq: int
    last_seq: int
    kafka: str  # the broker's answer in words
    yours: str


def draw_sight(script: str, sight: Sight, said: str) -> Picture:
    """The broker's memory, the arriving batch below the place where it belongs, and both answers."""
    body = group(
        el("text", "Is this batch new, known, or neither?", cls="ink", x=LEFT, y=24, font_size=14, font_weight="bold"),
        el("text", _heading(sight), cls="grey", x=LEFT, y=TOP - 12, font_size=11),
        *_row(sight),
        *_arriving(sight),
        *_answers(sight),
    )
    name = f"{plain_text(script, 60)}, the first batch that is answered otherwise"
    return Picture(said, document(name, said, body, WIDTH, BELOW + TALL + 92))


def _heading(sight: Sight) -> str:
    if sight.before is None:
        return f"the broker knows no producer {sight.pid}"
    return f"what the broker remembers of producer {sight.pid}, epoch {sight.before['epoch']}"


def _boxes(sight: Sight) -> list[tuple[int, int, bool]]:
    """First and last sequence of each box, and whether the broker remembers the batch."""
    if sight.before is None:
        return []
    remembered = [(first, last) for first, last, _, _ in sight.before["batches"]]
    forgotten = [(first, last) for first, last in map(tuple, sight.written) if (first, last) not in remembered]
    if sight.before["epoch"] != sight.epoch:
        forgotten = []
    return [(*each, False) for each in forgotten[-MOST_FORGOTTEN:]] + [(*each, True) for each in remembered]


def _next(sight: Sight) -> int | None:
    """The sequence that the broker expects under the batch's epoch; None where it takes any, or none."""
    if sight.before is None or sight.epoch < sight.before["epoch"]:
        return None
    return 0 if sight.epoch > sight.before["epoch"] else increment_sequence(sight.before["last_seq"], 1)


def _left(place: float) -> float:
    return LEFT + place * (SLOT + GAP)


def _row(sight: Sight) -> list[Svg]:
    boxes = _boxes(sight)
    parts = []
    for place, (first, last, is_remembered) in enumerate(boxes):
        fill, ink = (BLUE, WHITE) if is_remembered else ("none", None)
        parts += _box(_left(place), TOP, fill, ink, first, last, dash=None if is_remembered else "4 3")
        if not is_remembered:
            parts.append(_small(_left(place) + SLOT / 2, TOP + TALL + 13, "forgotten"))
    x, expected = _left(len(boxes)), _next(sight)
    parts.append(el("rect", cls="grey-line", x=x, y=TOP, width=SLOT, height=TALL, rx=4, fill="none", stroke_dasharray="2 3"))
    words = "any" if sight.before is None else "none" if expected is None else f"{expected}"
    parts.append(el("text", words, cls="ink", x=x + SLOT / 2, y=TOP + 21, font_size=11, text_anchor="middle"))
    under = f"expected under epoch {sight.epoch}" if sight.before and sight.before["epoch"] != sight.epoch else "expected"
    parts.append(_small(x + SLOT / 2, TOP + TALL + 13, under))
    return parts


def _place(sight: Sight) -> float:
    """Where on the row the arriving batch begins, in boxes from the left."""
    boxes, expected = _boxes(sight), _next(sight)
    if expected is None:
        return len(boxes)
    ahead = _distance(expected, sight.first_seq)
    if ahead >= 0:
        return len(boxes) + (0.5 if ahead else 0)
    if sight.before is None or sight.before["epoch"] != sight.epoch:
        return len(boxes) - 0.5
    for place, (first, last, _) in enumerate(boxes):
        if sight.first_seq == first:
            return place
        if 0 < _distance(first, sight.first_seq) <= _distance(first, last):
            return place + 0.5
    return 0


def _distance(start: int, end: int) -> int:
    """How many sequences `end` lies after `start`, the shorter way round; negative when it lies before."""
    ahead = (end - start) % (MAX_SEQUENCE + 1)
    return ahead if ahead <= MAX_SEQUENCE // 2 else ahead - MAX_SEQUENCE - 1


def _arriving(sight: Sight) -> list[Svg]:
    x = min(_left(_place(sight)), WIDTH - LEFT - SLOT)
    middle = x + SLOT / 2
    return [
        el("path", cls="ink-line", d=f"M{middle:.1f} {BELOW - 4}V{TOP + TALL + 22}", fill="none"),
        el("path", cls="ink", d=f"M{middle:.1f} {TOP + TALL + 17}l-4 8h8z"),
        *_box(x, BELOW, ORANGE, BLACK, sight.first_seq, sight.last_seq),
        _small(middle, BELOW + TALL + 13, f"arrives, epoch {sight.epoch}"),
    ]


def _answers(sight: Sight) -> list[Svg]:
    y = BELOW + TALL + 44
    parts = []
    for name, answer in (("Kafka 4.3.1", sight.kafka), ("your code", sight.yours)):
        parts.append(el("text", name, cls="ink", x=LEFT, y=y, font_size=12, font_weight="bold"))
        parts.append(el("text", answer, cls="ink", x=LEFT + 96, y=y, font_size=12))
        y += 24
    wide = min(WIDTH - 2 * LEFT, 110 + 7 * len(sight.yours))
    parts.append(el("rect", x=LEFT - 6, y=y - 40, width=wide, height=22, fill="none", stroke=RED, stroke_width=1.5))
    return parts


def _box(x: float, y: float, fill: str, ink: str | None, first: int, last: int, dash: str | None = None) -> list[Svg]:
    """A batch with its sequences; long numbers stand on two lines."""
    rect = el("rect", cls="ink-line", x=x, y=y, width=SLOT, height=TALL, rx=4, fill=fill, stroke_dasharray=dash)
    lines = [str(first)] if first == last else [f"{first}-{last}"]
    if len(lines[0]) > 11 and first != last:
        lines = [f"{first}-", str(last)]
    start = y + (21 if len(lines) == 1 else 14)
    return [
        rect,
        *(
            el("text", line, cls=None if ink else "ink", fill=ink, x=x + SLOT / 2, y=start + 14 * row, font_size=11, text_anchor="middle")
            for row, line in enumerate(lines)
        ),
    ]


def _small(x: float, y: float, text: str) -> Svg:
    return el("text", text, cls="grey", x=x, y=y, font_size=11, text_anchor="middle")
