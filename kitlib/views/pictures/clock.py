"""A time axis in proportion, for pictures of real histories: from milliseconds to places, and its labels.

Times that are milliseconds since 1970 are told as UTC; smaller ones, as models have them, as seconds since 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from kitlib.views.svg import Svg, el, group

EPOCH_FROM_MS, EPOCH_TO_MS = 10**11, 253_402_300_799_000  # 1973, and the last second of the year 9999
STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000,
    *(minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 10_080, 43_200, 525_600)),
)  # fmt: skip
TICKS = 5  # at most so many and one more; fewer where they are told to the millisecond


class Placed(Protocol):
    """Anything that knows where a time lies."""

    @property
    def left(self) -> float:
        """Where the axis begins."""

    @property
    def right(self) -> float:
        """Where it ends."""

    def x(self, at_ms: int) -> float:
        """The place of a time."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Where a time lies between `left` and `right`. Times outside of it lie on its ends."""

    since_ms: int
    until_ms: int
    left: float
    right: float

    def x(self, at_ms: int) -> float:
        """The place of a time."""
        share = (at_ms - self.since_ms) / max(1, self.until_ms - self.since_ms)
        return round(self.left + (self.right - self.left) * min(1.0, max(0.0, share)), 1)

    @property
    def is_wall(self) -> bool:
        """Whether these are times of a calendar."""
        return self.since_ms >= EPOCH_FROM_MS and self.until_ms <= EPOCH_TO_MS

    def ticks(self) -> list[int]:
        """Round times within, few enough to be labelled."""
        span = self.until_ms - self.since_ms
        most = TICKS - 2 if self.is_wall and span < 6_000 else TICKS
        wide = next((step for step in STEPS_MS if span <= step * most), -(-span // most))
        first = -(-self.since_ms // wide) * wide
        return list(range(first, self.until_ms + 1, wide))

    def name(self, at_ms: int) -> str:
        """A time as people say it: 12:03:07 (UTC), or 4.2 s."""
        if not self.is_wall:
            return f"{at_ms / 1000:,.10g} s"
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        span = self.until_ms - self.since_ms
        if span > 3 * 86_400_000:
            return f"{moment:%Y-%m-%d}"
        return f"{moment:%H:%M:%S}" + (f".{at_ms % 1000:03d}" if span < 6_000 else "")

    @property
    def day(self) -> str:
        """The day on which it begins, for the axis; nothing where the times are no calendar's."""
        return f"{datetime.fromtimestamp(self.since_ms / 1000, UTC):%Y-%m-%d}, UTC" if self.is_wall else ""

    def draw(self, y: float, top: float) -> Svg:
        """The line at height `y`, its times below, and a faint line up to `top` at each of them."""
        parts = [el("path", d=f"M{self.left:g} {y:g}H{self.right:g}", cls="grey-line", stroke_width=0.7)]
        for at_ms in self.ticks():
            x = self.x(at_ms)
            parts.append(el("path", d=f"M{x:g} {y + 4:g}V{top:g}", cls="grey-line", stroke_width=0.5, opacity="0.35"))
            anchor = "start" if x < self.left + 24 else "end" if x > self.right - 24 else "middle"
            parts.append(el("text", self.name(at_ms), cls="grey", x=x, y=y + 16, font_size=11, text_anchor=anchor))
        if self.day:
            parts.append(el("text", self.day, cls="grey", x=20, y=y + 16, font_size=11))
        return group(*parts)


def clock_over(times_ms: Iterable[int], left: float, right: float) -> Clock:
    """The axis that holds all of these times; of none, one second from 0 on."""
    found = list(times_ms) or [0, 1_000]
    since, until = min(found), max(found)
    return Clock(since, until if until > since else since + 1_000, left, right)


def figure(value: int) -> str:
    """A number that fits below a sign: 1,234,567, or 12.3 M and the like."""
    if abs(value) < 10**7:
        return f"{value:,}"
    for unit, name in ((10**6, "M"), (10**9, "G"), (10**12, "T")):
        if abs(value) < unit * 1000:
            return f"{value / unit:.4g} {name}"
    return f"{value:.2e}"
