"""The signs of an offset that goes back, on one time axis.

Whoever looks at a cluster from outside sees three curves: what is committed beside the log's end, records a
second in and out, and the lag. Each alone has an innocent reading; when the commit steps back, more goes out
than came in, and the lag leaps, all at one moment, there is none. Lines through all three rows mark the moments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kitlib.monitor.commit_history import Committed, GroupSeen
from kitlib.monitor.rewinds import (
    LagSpike,
    Rewind,
    Sample,
    Surge,
    Vanished,
    in_order,
    lag_spikes,
    rewinds,
    surges,
    vanished,
)
from kitlib.views.look import LEFT
from kitlib.views.pictures.clock import Placed, figure
from kitlib.views.pictures.history import draw_marks, points_of, stair
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, PINK, RED
from kitlib.words.template import count

CHART_LEFT, CHART_RIGHT = 176, 736
PITCH, RISE = 86, 52  # from one row to the next, and a curve's height
ROWS = ("Offsets", "Rates", "Lag")
DETAILS = ("log end and commit", "records a second", "log end − commit")
SIGNS_TALL = PITCH * len(ROWS)
COLUMN = 3  # places nearer than this are drawn as one


@dataclass(frozen=True, slots=True)
class Seen:
    """What one partition showed, and the signs in it."""

    commits: Sequence[Committed]
    samples: Sequence[Sample]
    steps: Sequence[Rewind | Vanished]  # signs of the commits
    surges: Sequence[Surge]
    spikes: Sequence[LagSpike]

    @property
    def moments_ms(self) -> list[int]:
        """When the commits went back or vanished with nothing to excuse it."""
        found = [each for each in self.steps if each.is_fault]
        return [each.after.at_ms if isinstance(each, Rewind) else each.tombstone.at_ms for each in found]

    @property
    def sentence(self) -> str:
        """All signs counted."""
        back = sum(isinstance(each, Rewind) for each in self.steps)
        gone = len(self.steps) - back
        extra = sum(each.repeated for each in self.surges)
        told = [
            count(back, "step") + " back",
            count(gone, "vanished commit"),
            f"{extra:,} records at least went out again",
            count(len(self.spikes), "lag spike"),
        ]
        return "; ".join(told) + "."


def look_for_signs(commits: Sequence[Committed], samples: Sequence[Sample], groups: Sequence[GroupSeen] = ()) -> Seen:
    """The signs in one partition's commits and samples, each by its own rule of `kitlib.monitor.rewinds`."""
    return Seen(
        in_order(commits), samples, [*rewinds(commits), *vanished(commits, groups)], surges(samples), lag_spikes(samples)
    )


def draw_rows(seen: Seen, clock: Placed) -> Svg:
    """The three rows, 0 <= y <= SIGNS_TALL, and the lines through them."""
    lines = "".join(f"M{x:g} 4V{SIGNS_TALL}" for x in sorted({clock.x(at_ms) for at_ms in seen.moments_ms})[:60])
    samples = thinned(seen.samples, clock)
    rows = (_draw_offsets(seen, samples, clock), _draw_rates(seen, samples, clock), _draw_lag(seen, samples, clock))
    parts = [el("path", d=lines or "M0 0", stroke=RED, stroke_width=1, stroke_dasharray="2 3")]
    for place, row in enumerate(rows):
        names = group(
            el("text", ROWS[place], cls="ink", x=LEFT, y=34, font_weight="bold"),
            el("text", DETAILS[place], cls="grey", x=LEFT, y=50, font_size=11),
            el("path", d=f"M{clock.left:g} {PITCH - 12}H{clock.right:g}", cls="grey-line", stroke_width=0.7),
        )
        parts.append(group(names, *row, transform=f"translate(0 {PITCH * place})"))
    return group(*parts)


def thinned(samples: Sequence[Sample], clock: Placed) -> list[Sample]:
    """The last sample of each column, the very first too: what is counted between two of them stays counted."""
    found: list[Sample] = []
    column = -1
    for each in samples:
        here = int(clock.x(each.at_ms)) // COLUMN
        if here == column and len(found) > 1:
            found[-1] = each
        else:
            found.append(each)
        column = here
    return found


def _scale(values: Sequence[float], low: float | None = None) -> tuple[float, float, Callable[[float], float]]:
    """The lowest and the highest value, and a value's height in its row."""
    least = min(values, default=0) if low is None else low
    most = max(values, default=0)

    def y(value: float) -> float:
        share = (value - least) / (most - least) if most > least else 0.0
        return round(PITCH - 12 - RISE * min(1.0, max(0.0, share)), 1)

    return least, most, y


def _ends(low: float, high: float, y: Callable[[float], float], clock: Placed) -> list[Svg]:
    told = {y(high): high} | ({y(low): low} if high > low else {})
    return [
        el("text", figure(round(value)), cls="grey", x=clock.left - 8, y=at_y + 4, font_size=11, text_anchor="end")
        for at_y, value in told.items()
    ]


def _draw_offsets(seen: Seen, samples: Sequence[Sample], clock: Placed) -> list[Svg]:
    known = [each.offset for each in seen.commits if each.offset is not None]
    low, high, y = _scale([*known, *(each.log_end for each in samples)])
    ends = [(clock.x(each.at_ms), each.log_end) for each in samples]
    return [
        *_ends(low, high, y, clock),
        el("path", d=stair(ends, y), fill="none", cls="ink-line", stroke_width=1.4),
        el("path", d=stair(points_of(seen.commits, clock), y), fill="none", stroke=BLUE, stroke_width=2),
        *draw_marks(seen.steps, clock, y),
    ]


def _draw_rates(seen: Seen, samples: Sequence[Sample], clock: Placed) -> list[Svg]:
    came: list[tuple[float, float, float]] = []  # from, to, a second
    went: list[tuple[float, float, float]] = []
    for since, until in pairwise(samples):
        seconds = (until.at_ms - since.at_ms) / 1000
        if seconds <= 0:
            continue
        x0, x1 = clock.x(since.at_ms), clock.x(until.at_ms)
        came.append((x0, x1, max(0, until.log_end - since.log_end) / seconds))
        went.append((x0, x1, max(0, until.emitted - since.emitted) / seconds))
    low, high, y = _scale([rate for _, _, rate in came + went], 0)
    extra = "".join(_box(each, y, clock) for each in seen.surges)
    return [
        *_ends(low, high, y, clock),
        el("path", el("title", "more went out than had come in and waited"), d=extra or "M0 0", fill=PINK, opacity="0.6"),
        el("path", d=_steps(went, y), fill="none", stroke=GREEN, stroke_width=2),
        el("path", d=_steps(came, y), fill="none", cls="ink-line", stroke_width=1.4, stroke_dasharray="5 3"),
    ]


def _box(surge: Surge, y: Callable[[float], float], clock: Placed) -> str:
    """From its first look to its last, as high as the rate that went out."""
    x0, x1 = clock.x(surge.since.at_ms), clock.x(surge.until.at_ms)
    rate = surge.went_out * 1000 / max(1, surge.until.at_ms - surge.since.at_ms)
    return f"M{x0:g} {y(0):g}V{y(rate):g}H{max(x1, x0 + 2):g}V{y(0):g}Z"


def _steps(rates: Sequence[tuple[float, float, float]], y: Callable[[float], float]) -> str:
    path, last_x, last_y = [], -1.0, -1.0
    for x0, x1, rate in rates:
        at_y = y(rate)
        start = f"M{x0:g} {at_y:g}" if x0 != last_x else "" if at_y == last_y else f"V{at_y:g}"
        path.append(f"{start}H{x1:g}")
        last_x, last_y = x1, at_y
    return "".join(path) or "M0 0"


def _draw_lag(seen: Seen, samples: Sequence[Sample], clock: Placed) -> list[Svg]:
    lags = [(clock.x(each.at_ms), max(0, each.log_end - each.committed)) for each in samples if each.committed is not None]
    low, high, y = _scale([lag for _, lag in lags], 0)
    line = "".join(f"{'L' if place else 'M'}{x:g} {y(lag):g}" for place, (x, lag) in enumerate(lags))
    area = f"{line}V{y(0):g}H{lags[0][0]:g}Z" if lags else "M0 0"
    parts = [
        *_ends(low, high, y, clock),
        el("path", d=area, fill=ORANGE, opacity="0.35"),
        el("path", d=line or "M0 0", fill="none", stroke=ORANGE, stroke_width=2),
    ]
    for spike in sorted(seen.spikes, key=lambda each: each.lag_before - each.lag_after)[:40]:
        x, from_y, to_y = clock.x(spike.until.at_ms), y(spike.lag_before), y(spike.lag_after)
        path = f"M{x:g} {max(from_y, to_y + 10):g}V{to_y:g}m-4 6l4 -6l4 6"
        parts.append(el("path", el("title", str(spike)), d=path, fill="none", stroke=RED, stroke_width=2.4))
    return parts


def signs_legend() -> list[tuple[Svg, str]]:
    """Swatches with their meanings."""
    return [
        (el("path", d="M2 14H10V9H18V4H24", fill="none", stroke=BLUE, stroke_width=2), "committed offset"),
        (el("path", d="M2 14H10V9H18V4H24", fill="none", cls="ink-line", stroke_width=1.4), "log end"),
        (el("path", d="M2 5H24", cls="ink-line", stroke_width=1.4, stroke_dasharray="5 3"), "records that come in, a second"),
        (el("path", d="M2 9H24", stroke=GREEN, stroke_width=2), "records that go out, a second"),
        (el("path", d="M13 2V16m-4 -6l4 6l4 -6", fill="none", stroke=RED, stroke_width=2.8), "the commit went back (a cross: it vanished)"),
        (el("rect", x=2, y=3, width=22, height=13, fill=PINK, opacity="0.6"), "more out than had come in and waited"),
        (el("path", d="M13 16V3m-4 6l4 -6l4 6", fill="none", stroke=RED, stroke_width=2.4), "the lag leapt: by more than the log grew"),
        (el("rect", x=2, y=3, width=22, height=13, fill=ORANGE, opacity="0.35"), "lag"),
    ]
