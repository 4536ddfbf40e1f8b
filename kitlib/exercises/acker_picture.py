"""The step at which a learner's acker and Storm's part: what they were told, and both ledgers after it.

The question: where do they differ? Values are written in hexadecimal, a cell for each digit, and every
cell of yours and of Storm's that is not the same has a frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kitlib.text import plain_text
from kitlib.views import Picture
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.svg import Svg, document, el, group
from kitlib.words.glyphs import RED

MESSAGES_WIDE = 290  # the left column: what the acker was told
MOST_MESSAGES, MOST_ROWS = 9, 5
LINE = 20  # from one line of text to the next
# The columns of a ledger, from its left edge: bucket, root, value, spout task, failed.
BUCKET_X, ROOT_X, VALUE_X, TASK_X, FAILED_X, END_X = 0, 46, 190, 352, 392, 430
DIGIT_WIDE = 9.6
VALUE_LEFT = 66  # of the sum in the left column
BUCKET_WORDS = {0: "newer", 1: "older"}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two ackers after the step."""

    name: str
    emits: str  # in words
    rows: list[list[Any]] | None  # root, val, spout task, failed, bucket; None: its ledger cannot be read


def told_value(value: Any) -> str:
    """A value as 16 hexadecimal digits, or as it is where it is no 64-bit number."""
    is_long = type(value) is int and -(2**63) <= value < 2**63
    return f"0x{value & (2**64 - 1):016x}" if is_long else plain_text(value, 40)


def draw_sides(script: dict[str, Any], step: int, root: int | None, storm: Side, yours: Side, said: str) -> Picture:
    """Storm's ledger above the learner's after `step`, beside the messages about `root` (about all if None)."""
    heading = "Where do the two ackers differ?"
    told, told_height = _messages(script["steps"][: step + 1], root)
    roots = _roots(root, storm, yours)
    above, above_height = _side(storm, yours, roots)
    below, below_height = _side(yours, storm, roots)
    right = LEFT + MESSAGES_WIDE
    height = max(told_height, above_height + below_height) + 66
    body = group(
        el("text", heading, cls="ink", x=LEFT, y=24, font_size=14, font_weight="bold"),
        group(told, transform=f"translate({LEFT} 40)"),
        group(above, transform=f"translate({right} 40)"),
        group(below, transform=f"translate({right} {40 + above_height})"),
        _frame(LEFT, height - 25, 18),
        el("text", "not the same on both sides", cls="ink", x=LEFT + 26, y=height - 12, font_size=11),
    )
    name = plain_text(script["name"], 60)
    return Picture(said, document(f"{name}, the first step that differs", said, body, WIDTH, height))


def _messages(steps: list[dict[str, Any]], root: Any) -> tuple[Svg, int]:
    """What the acker was told of this tree, the last message in bold; its height."""
    about = [step for step in steps if root is None or step["op"] == "tick" or step["args"]["given"][0] == root]
    if not about or about[-1] is not steps[-1]:
        about.append(steps[-1])
    title = "messages" if root is None else f"messages about tree {plain_text(root, 24)}"
    lines = [el("text", title, cls="ink", y=14, font_weight="bold")]
    y = 14 + LINE
    if len(about) > MOST_MESSAGES:
        lines.append(el("text", f"… {len(about) - MOST_MESSAGES} earlier", cls="grey", y=y, font_size=11))
        y += LINE
    for step in about[-MOST_MESSAGES:]:
        weight = "bold" if step is steps[-1] else None
        lines.append(el("text", f"step {step['args']['number']}", cls="grey", y=y, font_size=11, font_weight=weight))
        lines.append(el("text", _message(step), cls="ink", x=52, y=y, font_size=11, font_weight=weight))
        y += LINE
    return group(*lines, *_sum(steps, y + 4)), y + 4 + 3 * LINE


def _sum(steps: list[dict[str, Any]], y: int) -> list[Svg]:
    """What the last message does to the value that Storm's entry had before it, bit by bit: three numbers."""
    given = steps[-1]["args"]["given"]
    if len(given) < 2:
        return []
    before = next((row[1] for row in (steps[-2]["ledger"] if len(steps) > 1 else ()) if row[0] == given[0]), 0)
    lines = []
    for sign, what, val in (
        ("", "before", before),
        ("⊕", steps[-1]["op"], given[1]),
        ("=", "value", before ^ given[1]),
    ):
        lines.append(el("text", what, cls="grey", y=y, font_size=11))
        lines.append(el("text", sign, cls="ink", x=VALUE_LEFT - 14, y=y, font_size=11))
        lines += [
            el(
                "text",
                digit,
                cls="ink",
                x=VALUE_LEFT + (place + 0.5) * DIGIT_WIDE,
                y=y,
                font_size=11,
                text_anchor="middle",
            )
            for place, digit in enumerate(told_value(val).removeprefix("0x"))
        ]
        y += LINE
    return lines


def _message(step: dict[str, Any]) -> str:
    given = step["args"]["given"]
    parts = [step["op"], *(told_value(val) for val in given[1:2]), *(f"task {task}" for task in given[2:3])]
    return "  ".join(parts)


def _roots(root: Any, storm: Side, yours: Side) -> list[Any]:
    """The trees to be drawn: the one the step is about, then those that differ, then the others."""
    mine, other = ({row[0]: row for row in side.rows or []} for side in (storm, yours))
    known = list(dict.fromkeys([*mine, *other]))
    if root is not None and root not in known:
        known.append(root)
    return sorted(known, key=lambda each: (each != root, mine.get(each) == other.get(each)))


def _side(side: Side, other: Side, roots: list[Any]) -> tuple[Svg, int]:
    """One acker: what it emits, and its ledger; its height."""
    parts = [el("text", side.name, cls="ink", y=14, font_size=13, font_weight="bold")]
    parts.append(el("text", f"emits {side.emits}", cls="ink", x=2, y=14 + LINE, font_size=12))
    if side.emits != other.emits:
        parts.append(_frame(-3, 14 + LINE - 14, min(END_X, 12 + 7 * (len(side.emits) + 6))))
    y = 14 + 2 * LINE
    if side.rows is None:
        parts.append(
            el("text", "has no `pending` that can be read: only what it emits counts", cls="grey", y=y, font_size=11)
        )
        return group(*parts), y + LINE
    for x, name in ((BUCKET_X, "bucket"), (ROOT_X, "tree"), (VALUE_X, "value"), (TASK_X, "task"), (FAILED_X, "failed")):
        parts.append(el("text", name, cls="grey", x=x, y=y, font_size=11))
    mine, others = ({row[0]: row for row in each.rows or []} for each in (side, other))
    for root in roots[:MOST_ROWS]:
        y += LINE
        twin = others.get(root) if other.rows is not None else mine.get(root)
        parts += _row(root, mine.get(root), twin, y)
    if len(roots) > MOST_ROWS:
        y += LINE
        parts.append(el("text", f"… {len(roots) - MOST_ROWS} more trees", cls="grey", y=y, font_size=11))
    return group(*parts), y + LINE


def _row(root: Any, row: list[Any] | None, twin: list[Any] | None, y: int) -> list[Svg]:
    """A tree's entry, with a frame around each cell in which the other side's differs."""
    parts = [el("text", plain_text(root, 24), cls="ink", x=ROOT_X, y=y, font_size=11)]
    if row is None:
        parts.append(el("text", "no entry", cls="grey", x=VALUE_X, y=y, font_size=11))
        return [*parts, _frame(VALUE_X - 4, y - 13, 60)] if twin is not None else parts
    if twin is None:
        parts.append(_frame(ROOT_X - 4, y - 13, END_X - ROOT_X))
    _, val, task, failed, bucket = row
    cells = (
        (BUCKET_X, BUCKET_WORDS.get(bucket, plain_text(bucket, 6)), 4, 42),
        (TASK_X, "–" if task is None else plain_text(task, 5), 2, 36),
        (FAILED_X, "yes" if failed else "no", 3, 36),
    )
    for x, text, place, wide in cells:
        parts.append(el("text", text, cls="ink", x=x, y=y, font_size=11))
        if twin is not None and twin[place] != row[place]:
            parts.append(_frame(x - 4, y - 13, wide))
    digits = told_value(val).removeprefix("0x")
    against = told_value(twin[1]).removeprefix("0x") if twin is not None else digits
    for place, digit in enumerate(digits[:16]):
        left = VALUE_X + place * DIGIT_WIDE
        parts.append(el("text", digit, cls="ink", x=left + DIGIT_WIDE / 2, y=y, font_size=11, text_anchor="middle"))
        if against[place : place + 1] != digit:
            parts.append(_frame(left, y - 13, DIGIT_WIDE))
    return parts


def _frame(x: float, y: float, width: float) -> Svg:
    return el("rect", x=x, y=y, width=width, height=18, fill="none", stroke=RED, stroke_width=1.5)
