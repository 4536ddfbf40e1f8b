"""What a monitor would have seen of one partition in a run, with the signs of an offset that goes back; for any run with commits.

Whoever looks at a cluster from outside sees three curves: what is committed beside the log's end, records a
second in and out, and the lag. Each alone has an innocent reading; when the commit steps back, more goes out
than came in, and the lag leaps, all at one moment, there is none. Lines through all three rows mark the moments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from kitlib.errors import TraceError
from kitlib.experiments.offsets.signs import Signs, commits_in, find_signs, lane_of, samples_in
from kitlib.monitor.commit_history import Committed
from kitlib.monitor.rewinds import Rewind, Sample, Vanished, in_order
from kitlib.trace import Trace
from kitlib.views.pictures.history import figure
from kitlib.views.scene import AXIS_RIGHT, Scene
from kitlib.views.scenes.offset_rows import CHART_TALL, Curve, Scale, Strip
from kitlib.views.scenes.timeline import Drawn, Item, box_swatch, line_swatch, places
from kitlib.views.svg import Svg, el
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, PINK, RED
from kitlib.words.offsets import OFFSETS
from kitlib.words.template import count

QUESTION = "Which signs could have been seen, and when?"
MOST_LANES = 16  # partitions that are looked at for signs
MOST_LINES, MOST_SPIKES = 60, 40
ROWS = 3
COLUMN = 3  # places nearer than this are drawn as one
MOST_MARKS = 40  # signs drawn in a row
MOST_NAMED = 4  # of which so many have their number
NAMED_APART = 130  # and none near another one with its number: one may stand left of its sign and the other right
Clock = Callable[[int], float]  # where a time lies


class Seen(NamedTuple):
    """What one partition showed, and the signs in it."""

    commits: Sequence[Committed]
    samples: Sequence[Sample]
    signs: Signs

    @property
    def steps(self) -> list[Rewind | Vanished]:
        """The signs of the commits."""
        return [*self.signs.rewinds, *self.signs.vanished]

    @property
    def moments_ms(self) -> list[int]:
        """When the commits went back or vanished with nothing to excuse it."""
        found = [each for each in self.steps if each.is_fault]
        return [each.after.at_ms if isinstance(each, Rewind) else each.tombstone.at_ms for each in found]

    @property
    def weight(self) -> tuple[int, int, int]:
        """The more it is worth to be shown, the larger."""
        return len(self.moments_ms), len(self.steps), len(self.signs.surges) + len(self.signs.lag_spikes)

    @property
    def sentence(self) -> str:
        """All signs counted."""
        extra = sum(each.repeated for each in self.signs.surges)
        told = f"{count(len(self.signs.rewinds), 'step')} back; {count(len(self.signs.vanished), 'vanished commit')}; "
        return f"{told}{extra:,} records at least went out again; {count(len(self.signs.lag_spikes), 'lag spike')}."


def look_for_signs(commits: Sequence[Committed], samples: Sequence[Sample]) -> Seen:
    """The signs in one partition's commits and samples."""
    return Seen(in_order(commits), samples, find_signs(commits, samples=samples))


def most_signs(trace: Trace) -> tuple[tuple[str, int], Seen]:
    """The partition with the most signs, the first one of a run without any; and what it showed. TraceError when no step is about one."""
    first = lane_of(trace)
    lanes = dict.fromkeys(
        (str(step.data["topic"]), int(step.data.get("partition", 0))) for step in trace if step.what == "commit" and "topic" in step.data
    )
    looks = [(lane, look_for_signs(commits_in(trace, *lane), samples_in(trace, *lane))) for lane in list(lanes)[:MOST_LANES] or [first]]
    return max(looks, key=lambda look: look[1].weight)


def signs_scene(trace: Trace) -> Scene:
    """The scene of what could have been seen from outside of the partition with the most signs: three rows, and lines through them."""
    strip = Strip(trace, places(trace, room=lambda step: OFFSETS.room(step.what)))
    try:
        (_, partition), seen = most_signs(trace)
    except TraceError:
        words = "nobody has committed anything in this run"
    else:
        words = f"partition {partition}: {seen.sentence}"
        times = [step.at_ms for step in trace]

        def clock(at_ms: int) -> float:
            """The place of a time: at the last step that is not later."""
            return strip.xs[max(0, bisect_right(times, at_ms) - 1)]

        lines = sorted({clock(at_ms) for at_ms in seen.moments_ms})[:MOST_LINES]

        def draw_lines(y: float) -> list[Svg]:
            path = "".join(f"M{x:g} {y + 4:g}v{ROWS * (CHART_TALL + 6)}" for x in lines) or "M0 0"
            return [el("path", d=path, stroke=RED, stroke_width=1, stroke_dasharray="2 3")]

        strip.rows.append(Drawn(0, draw_lines))
        samples = thinned(seen.samples, clock)
        _add_offsets(strip, seen, samples, clock)
        _add_rates(strip, seen, samples, clock)
        _add_lag(strip, seen, samples, clock)
        strip.further += LEGEND
    return strip.compose("The signs of an offset that goes back", QUESTION, ((None, words) for _ in trace), 0, [])


def thinned(samples: Sequence[Sample], clock: Clock) -> list[Sample]:
    """The last sample of each column, the very first too: what is counted between two of them stays counted."""
    found: list[Sample] = []
    column = -1
    for each in samples:
        here = int(clock(each.at_ms)) // COLUMN
        if here == column and len(found) > 1:
            found[-1] = each
        else:
            found.append(each)
        column = here
    return found


def _add_offsets(strip: Strip, seen: Seen, samples: Sequence[Sample], clock: Clock) -> None:
    ends = [(clock(each.at_ms), each.log_end) for each in samples]
    curves = [Curve(ends, thick=1.4), Curve([(clock(each.at_ms), each.offset) for each in seen.commits], BLUE)]
    strip.add_chart("offsets", curves, "end, commit", more=lambda y: draw_marks(seen.steps, clock, y))


def draw_marks(signs: Sequence[Rewind | Vanished], clock: Clock, y: Scale) -> list[Svg]:
    """Red arrows where it went back, crosses where it vanished; excused ones are thin and dashed."""
    parts: list[Svg] = []
    named: list[float] = []  # places of those with their number
    for sign in sorted(signs, key=lambda each: (not each.is_fault, -each.records if isinstance(each, Rewind) else -inf))[:MOST_MARKS]:
        if isinstance(sign, Rewind):
            x, from_y, to_y = clock(sign.after.at_ms), y(sign.before.offset or 0), y(sign.after.offset or 0)
            from_y = min(from_y, to_y - 10)
            path, label = f"M{x:g} {from_y:g}V{to_y:g}m-4 -6l4 6l4 -6", f"−{figure(sign.records)}"
        else:
            x, from_y = clock(sign.tombstone.at_ms), y(sign.last.offset or 0)
            path, label = f"M{x - 5:g} {from_y - 5:g}l10 10m0 -10l-10 10", "vanished"
            to_y = from_y
            if sign.begun_again is not None and sign.begun_again.offset is not None:
                again = clock(sign.begun_again.at_ms), y(sign.begun_again.offset)
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
            is_right = x < AXIS_RIGHT - 80
            at_y = min(CHART_TALL + 6.0, (from_y + to_y) / 2 + 4)
            parts.append(
                el("text", label, cls="ink paper-line", x=x + (8 if is_right else -8), y=round(at_y, 1), font_size=11,
                   text_anchor=None if is_right else "end", stroke_width=3, paint_order="stroke")
            )  # fmt: skip
    return parts


def _add_rates(strip: Strip, seen: Seen, samples: Sequence[Sample], clock: Clock) -> None:
    came: list[tuple[float, int | None]] = []
    went: list[tuple[float, int | None]] = []
    for since, until in pairwise(samples):
        if (seconds := (until.at_ms - since.at_ms) / 1000) > 0:
            x = clock(since.at_ms)
            came.append((x, round(max(0, until.log_end - since.log_end) / seconds)))
            went.append((x, round(max(0, until.emitted - since.emitted) / seconds)))
    end = [(clock(samples[-1].at_ms), 0)] if came else []
    surges: list[Curve] = []
    for each in seen.signs.surges:  # from its first look to its last, as high as the rate that went out
        x0, x1 = clock(each.since.at_ms), clock(each.until.at_ms)
        rate = round(each.went_out * 1000 / max(1, each.until.at_ms - each.since.at_ms))
        surges.append(Curve([(x0, rate), (max(x1, x0 + 2), 0)], PINK, 0.6, "more went out than had come in and waited", 0))
    strip.add_chart("rates", [*surges, Curve([*went, *end], GREEN), Curve([*came, *end], thick=1.4, dash="5 3")], "a second")


def _add_lag(strip: Strip, seen: Seen, samples: Sequence[Sample], clock: Clock) -> None:
    lags = [(clock(each.at_ms), max(0, each.log_end - each.committed)) for each in samples if each.committed is not None]

    def draw_spikes(y: Scale) -> list[Svg]:
        parts = []
        for spike in sorted(seen.signs.lag_spikes, key=lambda each: each.lag_before - each.lag_after)[:MOST_SPIKES]:
            x, from_y, to_y = clock(spike.until.at_ms), y(spike.lag_before), y(spike.lag_after)
            path = f"M{x:g} {max(from_y, to_y + 10):g}V{to_y:g}m-4 6l4 -6l4 6"
            parts.append(el("path", el("title", str(spike)), d=path, fill="none", stroke=RED, stroke_width=2.4))
        return parts

    strip.add_chart("lag", [Curve(lags, ORANGE, 0.35, thick=0), Curve(lags, ORANGE)], "end − commit", more=draw_spikes)


STAIR = "M2 14H10V9H18V4H24"
LEGEND: Iterable[Item] = (
    (el("path", d=STAIR, fill="none", stroke=BLUE, stroke_width=2), "committed offset"),
    (el("path", d=STAIR, fill="none", cls="ink-line", stroke_width=1.4), "log end"),
    (line_swatch(cls="ink-line", stroke_width=1.4, stroke_dasharray="5 3"), "records that come in, a second"),
    (line_swatch(stroke=GREEN, stroke_width=2), "records that go out, a second"),
    (el("path", d="M13 2V16m-4 -6l4 6l4 -6", fill="none", stroke=RED, stroke_width=2.8), "the commit went back (a cross: it vanished)"),
    (box_swatch(fill=PINK, opacity="0.6"), "more out than had come in and waited"),
    (el("path", d="M13 16V3m-4 6l4 -6l4 6", fill="none", stroke=RED, stroke_width=2.4), "the lag leapt: by more than the log grew"),
    (box_swatch(fill=ORANGE, opacity="0.35"), "lag"),
)
