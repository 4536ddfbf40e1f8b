"""A few numbers over the run: how far the commit is behind, what is pending, how often was retried; in a player the run's figure, too.

Time runs to the right, as in the player (`kitlib.views.play_clock`). Each curve has its own name, row and scale, so that a small one is not
flattened by a large one; those that are to be compared share a row and its scale. Colour is never what tells them apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kitlib.monitor.figures import Measured, amount
from kitlib.trace import Trace
from kitlib.views.film import Cursor, Reel, Track
from kitlib.views.frames import Frames
from kitlib.views.look import PLOT_LEFT, PLOT_RIGHT, RISE, ROW
from kitlib.views.play_clock import PlayClock
from kitlib.views.scene import draw_cursor
from kitlib.views.svg import Svg, el, group, letter_paint, line_paint
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, PINK, RED, SKY

PLAYED_TOP = 16  # of the curves, in the player


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over the run: its value after every step."""

    name: str
    colour: str
    meaning: str
    values: Sequence[float]
    dash: str | None = None
    joins: bool = False  # lies in the row of the one before, on its scale
    area: str = ""  # colour of what lies below it; "": its own
    deep: float = 0.15  # how opaque that is
    unit: str = ""  # told with its values, which then have a line of their own


def curves_of(frames: Frames, measured: Measured | None = None) -> list[Curve]:
    """What is worth following in a trace: of its partitions, trees, samples or scene; and its figure, unless it is one of them."""
    curves = _curves_of(frames)
    if measured and measured.figure.is_drawn and any(measured.curve) and all(found.values != measured.curve for found in curves):
        curves.append(Curve(measured.figure.name, "ink", ASKED_FOR, measured.curve, deep=0.1, unit=measured.figure.unit))
    return curves


def _curves_of(frames: Frames) -> list[Curve]:
    steps = len(frames)
    if frames.samples:
        return _loaded(frames)
    if frames.scene is not None:
        return [Curve(name, *PRODUCED[name], values) for name, values in frames.scene.curves.items()]
    curves = []
    if frames.lanes or frames.forest is None:
        curves.append(Curve("commit lag", BLUE, "log end minus committed_to", frames.lag))
    if frames.forest is not None:
        trees, tuples = frames.forest.counts(steps)
        curves.append(Curve("pending trees", ORANGE, "the spouts wait for their end", trees))
        curves.append(Curve("tuples out", SKY, "sent, and neither acked, failed nor lost", tuples))
    else:
        curves.append(Curve("in flight", ORANGE, "emitted, no ack yet", frames.in_flight))
    if frames.lanes or frames.forest is None:
        curves.append(Curve("retries", RED, "emitted again so far", frames.retries))
    return curves


def _loaded(frames: Frames) -> list[Curve]:
    """A topology under load: what lies between what was worked through and what was acked in time was worked on for nothing."""

    def held(name: str, is_rate: bool = True) -> list[int]:
        """What each sample counted, or how much a second since the one before, held until the next; the first one's from the start."""
        found, before, before_ms = list[int](), 0, 0
        for step, end in zip(frames.samples, [*(each.number for each in frames.samples[1:]), len(frames)], strict=True):
            total, seconds = step.data[name], max(1, step.at_ms - before_ms) / 1000
            found += [round((total - before) / seconds if is_rate else total)] * (end - len(found))
            before, before_ms = total, step.at_ms
        return found

    late, bound, work = held("late"), bearable(frames.trace), f"work in {frames.trace.settings.topology_message_timeout_secs} s"
    return [
        Curve("worked / s", GREEN, "tuples that the bolts worked through, a second", held("executed"), "6 3", False, RED, 0.22),
        Curve("acked / s", BLUE, "trees acked in time, a second", held("acked"), None, True, "paper", 1),
        Curve("in queues", SKY, "tuples that wait at the bolts", held("queue", False), deep=0),
        Curve("pending", ORANGE, "trees that the spout waits for", held("pending", False), "6 3", True, deep=0),
        *([Curve(work, "ink", "what the bolt works through in one timeout", [bound] * len(frames), "1 3", True, deep=0)] if bound else []),
        Curve("failed / s", RED, "trees that failed or timed out, a second", held("failed")),
        *([Curve("late / s", "ink", "trees that were answered too late, a second", late, "2 3", True, deep=0)] if any(late) else []),
    ]


def bearable(trace: Trace) -> int | None:
    """How many tuples the one bolt works through in a timeout; None where no single bolt sets the pace."""
    told = trace.settings
    execute_ms, timeout_secs, tasks = told.execute_ms, told.topology_message_timeout_secs, told.parallelism
    if told.depth != 0 or not all(isinstance(value, int) for value in (execute_ms, timeout_secs, tasks)):
        return None
    return timeout_secs * 1000 * tasks // execute_ms if execute_ms else None


ASKED_FOR = "what the experiment asks for"
PRODUCED = {
    "in flight": (ORANGE, "batches sent, without an answer yet"),
    "waiting": (SKY, "batches in the accumulator"),
    "acked": (BLUE, "records that the application was told are stored"),
    "second copies": (PINK, "records that lie in the log once more"),
}


def question_of(frames: Frames, curves: Sequence[Curve]) -> str:
    """What the curves answer."""
    if frames.scene is not None and frames.scene.curves:
        return "How much waits, how much is in flight, and what was stored?"
    if [found.meaning for found in curves] == [ASKED_FOR]:
        return "How does the figure build up?"
    if frames.samples:
        return "Is the work that is done still worth something?"
    return (
        "How far is the commit behind, and what is in flight?"
        if frames.lanes or not frames.forest
        else "How much is out?"
    )


def xs_of(clock: PlayClock) -> list[float]:
    """Where each step lies on the time axis."""
    last = clock.places[-1] if clock.places else 0.0
    scale = (PLOT_RIGHT - PLOT_LEFT) / (last or 1.0)
    return [round(PLOT_LEFT + scale * place, 1) for place in clock.places]


@dataclass(frozen=True, slots=True)
class Before:
    """The curves of the run that this one is compared with."""

    curves: list[Curve]
    at_ms: list[int]  # of each of its steps


def mapped(at_ms: Sequence[int], own_ms: Sequence[int], xs: Sequence[float], right: float) -> list[float]:
    """Where the times of another run lie on the axis of this one: at the same times; beyond `right` what came later."""
    found = []
    for ms in at_ms:
        place = bisect_right(own_ms, ms) - 1
        if place < 0:
            found.append(xs[0])
        elif place == len(own_ms) - 1:
            found.append(xs[-1] if ms == own_ms[-1] else right + 1)
        else:
            share = (ms - own_ms[place]) / (own_ms[place + 1] - own_ms[place])
            found.append(round(xs[place] + share * (xs[place + 1] - xs[place]), 1))
    return found


def curve(
    values: Sequence[float], xs: Sequence[float], high: float = 0, *, rise: int = RISE, foot: int = RISE, right: int = PLOT_RIGHT
) -> str:
    """The path of one curve, in whole units: a corner where the value changes, nothing between, and nothing right of the axis.

    `high` is the highest value that there is room for, if that is more than the curve's own; it lies `rise` above `foot`.
    """
    high = max(1, high, *values)
    end = right if not xs or xs[-1] > right else round(xs[-1])
    corners: list[str] = []
    last_x = last_y = -1
    last: float | None = None
    for value, place in zip(values, xs, strict=True):
        if place > right:
            break
        if value == last:
            continue
        x, y, last = round(place), foot - round(rise * value / high), value
        if y == last_y:
            continue
        if not corners:
            corners.append(f"M{x} {y}")
        else:
            corners.append(f"H{x}V{y}" if x != last_x else f"V{y}")
        last_x, last_y = x, y
    return "".join(corners) + f"H{end}" if corners else ""


def plot_reel(frames: Frames, curves: list[Curve], only: int | None = None, before: Before | None = None) -> Reel:
    """The curves with their cursor, after every step; with `only` the numbers of that step, whichever is asked for.

    The curves of the run `before` are drawn in grey, on the same scale.
    """
    steps = len(frames)
    bottom, names = ROW * len(curves), ", ".join(found.name for found in curves)
    reel = Reel(f"{names} over the run", question_of(frames, curves), bottom + 44)
    down = f"translate(0 {PLAYED_TOP})"
    xs = xs_of(frames.clock)
    reel.back = group(*_curves(frames, curves, xs, before), transform=down)
    values, cursor = Track(transform=down), Track(transform=down)
    for step, shown in enumerate(range(steps) if only is None else [only][:steps]):
        values.show(step, _values(curves, shown))
        cursor.show(step, _cursor(frames, bottom, shown, xs[shown]))
    reel.tracks.append(values)
    reel.cursor = Cursor(xs, PLAYED_TOP - 6, bottom + 6, PLOT_RIGHT, cursor)
    return reel


def _curves(frames: Frames, curves: list[Curve], xs: list[float], before: Before | None = None) -> list[Svg]:
    """What stays: each curve with its name in its own row, in grey that of the run before, and where the run was forked."""
    parts = []
    others = {other.name: other.values for other in before.curves} if before else {}
    places = mapped(before.at_ms, frames.clock.at_ms, xs, PLOT_RIGHT) if before and xs else []
    for at, found in enumerate(curves):
        shared = next(row for row in _rows(curves) if at in row)
        foot, rise = RISE + ROW * (shared[-1] - at), RISE + ROW * (len(shared) - 1)
        high = max((value for each in shared for value in (*curves[each].values, *others.get(curves[each].name, ()))), default=0.0)
        path = curve(found.values, xs, high, rise=rise, foot=foot)
        other = others.get(found.name, [])
        ghost = curve(other, places, high, rise=rise, foot=foot) if other and places else ""
        ink = line_paint(found.colour)
        fill = letter_paint(found.area or found.colour) | {"opacity": found.deep}
        parts.append(
            group(
                el("path", d=ghost, cls="grey-line", fill="none", stroke_width=1.2, stroke_dasharray="5 2", data_ghost="curve")
                if ghost
                else Svg(),
                el("path", d=f"M{PLOT_LEFT} {foot}H{PLOT_RIGHT}", cls="grey-line", stroke_width=0.7),
                el("path", d=f"{path}V{foot}H{PLOT_LEFT}Z", **fill) if path and found.deep else Svg(),
                el("path", d=path, fill="none", **ink, stroke_width=2, stroke_dasharray=found.dash),
                el("text", found.name, cls="ink", x=20, y=12, font_weight="bold"),
                Svg() if found.unit else el("text", f"highest {max(found.values, default=0):,}", cls="grey", x=20, y=27, font_size=11),
                el("path", d="M20 34h26", stroke_width=2, stroke_dasharray=found.dash, **ink) if len(shared) > 1 else Svg(),
                el("title", f"{found.name}: {found.meaning}"),
                transform=f"translate(0 {at * ROW})",
            )
        )
    if frames.samples:
        parts += [el("text", told, cls="grey", x=xs[step], y=ROW * len(curves) + 2, font_size=11) for step, told in frames.clock.labels()]
    if frames.forked_at >= 0:
        fork = xs[frames.forked_at]
        line = f"M{fork:.1f} -6V{ROW * len(curves)}"
        parts.append(el("path", d=line, cls="ink-line", stroke_width=1, stroke_dasharray="3 3"))
        parts.append(el("text", "forked here", cls="grey", x=fork + 4, y=-1, font_size=11))
    if frames.clock.breaks and curves:
        parts.append(frames.clock.draw_breaks(PLOT_LEFT, PLOT_RIGHT, ROW * (len(curves) - 1) + RISE))
    return parts


def _rows(curves: list[Curve]) -> list[list[int]]:
    """The places of the curves that share a row each."""
    rows: list[list[int]] = []
    for at, found in enumerate(curves):
        rows[-1:] = [[*rows[-1], at]] if found.joins else [*rows[-1:], [at]]
    return rows


def _cursor(frames: Frames, bottom: int, number: int, x: float) -> list[Svg]:
    """The line of the present at x = 0, and at its foot when that is."""
    line, head = _line(bottom, "start" if x < PLOT_LEFT + 90 else "end" if x > PLOT_RIGHT - 90 else "middle")
    return [line, Svg(head, [f"step {number}, {frames.clock.at_ms[number]:,} ms"])]


@lru_cache(10)
def _line(bottom: int, anchor: str) -> tuple[Svg, str]:
    return group(draw_cursor(-6, bottom)), el("text", cls="ink", x=0, y=bottom + 20, text_anchor=anchor).head


def _values(curves: list[Curve], number: int) -> list[Svg]:
    return [_value(found.values[number], found.unit, row) for row, found in enumerate(curves)]


@lru_cache(10_000)
def _value(value: float, unit: str, row: int) -> Svg:
    y = row * ROW + (27 if unit else 12)
    return el("text", amount(value, unit), cls="ink", x=PLOT_LEFT - 10, y=y, text_anchor="end", font_weight="bold")
