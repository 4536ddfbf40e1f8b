"""The committed offset of one partition over time: a stair, with red arrows where it goes back and crosses where it vanishes.

Of a row with more commits than there is room for, each column keeps its first, lowest, highest and last, so that no step back is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kitlib.monitor.commit_history import Committed
from kitlib.monitor.rewinds import Rewind, Vanished
from kitlib.text import plain_text
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT
from kitlib.views.svg import Svg, el
from kitlib.words.glyphs import RED

ROW_TALL = 78
COLUMN = 3  # wide, in which commits are drawn as one
MOST_MARKS = 40  # signs drawn in a row
MOST_NAMED = 4  # of which so many have their number
NAMED_APART = 130  # and none near another one with its number: one may stand left of its sign and the other right

Sign = Rewind | Vanished


@dataclass(frozen=True, slots=True)
class StepClock:
    """Where a time lies on an axis that is laid out by steps: at the last step that is not later."""

    times_ms: list[int]
    xs: list[float]
    left: float = AXIS_LEFT
    right: float = AXIS_RIGHT

    def x(self, at_ms: int) -> float:
        """The place of a time."""
        place = bisect_right(self.times_ms, at_ms) - 1
        return self.xs[place] if place >= 0 else self.left


def figure(value: int) -> str:
    """A number that fits below a sign: 1,234,567, or 12.3 M and the like."""
    if abs(value) < 10**7:
        return f"{value:,}"
    for unit, name in ((10**6, "M"), (10**9, "G"), (10**12, "T")):
        if abs(value) < unit * 1000:
            return f"{value / unit:.4g} {name}"
    return f"{value:.2e}"


def short(text: str, most: int) -> str:
    """A name in so many characters: its end matters as much as its beginning."""
    shown = plain_text(text, 200)
    return shown if len(shown) <= most else f"{shown[: most - most // 2 - 1]}…{shown[len(shown) - most // 2 :]}"


def points_of(commits: Sequence[Committed], clock: StepClock) -> list[tuple[float, int | None]]:
    """Places with their offsets; the time never falls, and a column has four of them at most, and each tombstone."""
    columns: dict[int, list[tuple[float, int | None]]] = {}
    x = clock.left
    for each in commits:
        x = max(x, clock.x(each.at_ms))
        columns.setdefault(int(x) // COLUMN, []).append((x, each.offset))
    found: list[tuple[float, int | None]] = []
    for column in columns.values():
        if len(column) <= 4:
            found += column
            continue
        keep = {0, len(column) - 1}
        known = [(offset, place) for place, (_, offset) in enumerate(column) if offset is not None]
        keep |= {min(known)[1], max(known)[1]} if known else set()
        gone = next((place for place, (_, offset) in enumerate(column) if offset is None), None)
        keep |= set() if gone is None else {gone}
        found += [column[place] for place in sorted(keep)]
    return found


def stair(points: Sequence[tuple[float, int | None]], y: Callable[[int], float]) -> str:
    """A path that stays at an offset until the next commit, and breaks off at a tombstone."""
    path, last_y, is_open = [], -1.0, False
    for x, offset in points:
        if offset is None:
            path.append(f"H{x:g}" if is_open else "")
            is_open = False
            continue
        at_y = y(offset)
        if not is_open:
            path.append(f"M{x:g} {at_y:g}h0.1")
        elif at_y != last_y:
            path.append(f"H{x:g}V{at_y:g}")
        else:
            path.append(f"H{x:g}")
        last_y, is_open = at_y, True
    return "".join(path) or "M0 0"


def draw_marks(signs: Sequence[Sign], clock: StepClock, y: Callable[[int], float]) -> list[Svg]:
    """Red arrows where it went back, crosses where it vanished; excused ones are thin and dashed."""
    parts: list[Svg] = []
    named: list[float] = []  # places of those with their number
    for sign in sorted(signs, key=lambda each: (not each.is_fault, -_size(each)))[:MOST_MARKS]:
        if isinstance(sign, Rewind):
            x, from_y, to_y = clock.x(sign.after.at_ms), y(sign.before.offset or 0), y(sign.after.offset or 0)
            from_y = min(from_y, to_y - 10)
            path, label = f"M{x:g} {from_y:g}V{to_y:g}m-4 -6l4 6l4 -6", f"−{figure(sign.records)}"
        else:
            x, from_y = clock.x(sign.tombstone.at_ms), y(sign.last.offset or 0)
            path, label = f"M{x - 5:g} {from_y - 5:g}l10 10m0 -10l-10 10", "vanished"
            to_y = from_y
            if sign.begun_again is not None and sign.begun_again.offset is not None:
                again = clock.x(sign.begun_again.at_ms), y(sign.begun_again.offset)
                line = f"M{x:g} {from_y:g}L{again[0]:g} {again[1]:g}"
                parts.append(el("path", d=line, stroke=RED, stroke_width=1.2, stroke_dasharray="2 4"))
        is_fault = sign.is_fault
        parts.append(
            el("path", el("title", str(sign)), d=path, fill="none", stroke=RED if is_fault else None,
               cls=None if is_fault else "grey-line", stroke_width=2.8 if is_fault else 1.6,
               stroke_dasharray=None if is_fault else "3 2")
        )  # fmt: skip
        if len(named) < MOST_NAMED and all(abs(x - other) > NAMED_APART for other in named):
            named.append(x)
            is_right = x < clock.right - 80
            at_y = min(ROW_TALL - 2.0, (from_y + to_y) / 2 + 4)
            parts.append(
                el("text", label, cls="ink paper-line", x=x + (8 if is_right else -8), y=round(at_y, 1), font_size=11,
                   text_anchor=None if is_right else "end", stroke_width=3, paint_order="stroke")
            )  # fmt: skip
    return parts


def _size(sign: Sign) -> int:
    return sign.records if isinstance(sign, Rewind) else 2**62
