"""A topology under load, over time: is the work that is done still worth something?

A run that is too long to be followed tuple by tuple writes down its counts every few seconds. Three
plots with one time axis: what the bolts work through beside what is acked in time, what waits for them
beside what one timeout's work is, and the trees that time out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kitlib.trace import Trace
from kitlib.views.svg import Svg, el, group, line_paint
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, RED, SKY

QUESTION = "Is the work that is done still worth something?"
LEFT, RIGHT = 66, 566  # the time axis; the curves' names stand to its right
RISE, PITCH = 84, 128  # height of a plot, and from one to the next
TOP = 22


@dataclass(frozen=True, slots=True)
class Sample:
    """What was counted at one moment; rates are per second since the sample before."""

    step: int
    at_ms: int
    executed: float
    acked: float
    failed: float
    late: float
    queue: int
    pending: int


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a plot."""

    name: str
    colour: str
    value: Callable[[Sample], float]
    dash: str | None = None
    is_rare: bool = False  # left out of a plot where it is never above zero


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot: its question and its curves."""

    heading: str
    lines: tuple[Line, ...]


PANELS = (
    Panel(
        "Tuples a second: worked through, and acked in time",
        (Line("worked through", GREEN, lambda s: s.executed, "6 3"), Line("acked in time", BLUE, lambda s: s.acked)),
    ),
    Panel(
        "Tuples that wait: in the bolts' queues, and trees pending at the spout",
        (Line("in queues", SKY, lambda s: s.queue), Line("pending", ORANGE, lambda s: s.pending, "6 3")),
    ),
    Panel(
        "Trees a second: failed or timed out, and answered too late",
        (Line("failed", RED, lambda s: s.failed), Line("too late", "ink", lambda s: s.late, "2 3", is_rare=True)),
    ),
)
HEIGHT = TOP + PITCH * len(PANELS) + 8


def to_samples(trace: Trace) -> list[Sample]:
    """The samples of a trace; the totals in it become rates."""
    found: list[Sample] = []
    before, before_ms = dict.fromkeys(("executed", "acked", "failed", "late"), 0), 0
    for step in trace.steps:
        if step.what != "sample":
            continue
        data, seconds = step.data, max(1, step.at_ms - before_ms) / 1000
        rates = {name: (data[name] - total) / seconds for name, total in before.items()}
        found.append(Sample(step.number, step.at_ms, **rates, queue=data["queue"], pending=data["pending"]))
        before, before_ms = {name: data[name] for name in before}, step.at_ms
    return found


def bearable(trace: Trace) -> int | None:
    """How many tuples the one bolt works through in a timeout; None where no single bolt sets the pace."""
    told = trace.settings
    execute_ms, timeout_secs, tasks = told.execute_ms, told.topology_message_timeout_secs, told.parallelism
    if told.depth != 0 or not all(isinstance(value, int) for value in (execute_ms, timeout_secs, tasks)):
        return None
    return timeout_secs * 1000 * tasks // execute_ms if execute_ms else None


def draw_curves(samples: list[Sample], limit: int | None, at_ms: int | None, top: int) -> Svg:
    """The three plots of one sample or more, their upper edge at y = `top`; a cursor at `at_ms`, or none."""
    end_ms = max(1, samples[-1].at_ms)

    def x_of(ms: int) -> float:
        return LEFT + (RIGHT - LEFT) * ms / end_ms

    parts = []
    for index, panel in enumerate(PANELS):
        high = max(1.0, *(line.value(sample) for line in panel.lines for sample in samples))
        bound = limit if index == 1 else None
        high = max(high, bound or 0)
        drawn = _panel(panel, samples, x_of, high, bound, has_gap=index == 0)
        parts.append(group(*drawn, transform=f"translate(0 {TOP + index * PITCH})"))
    bottom = TOP + PITCH * (len(PANELS) - 1) + RISE
    for share in range(5):
        ms = end_ms * share // 4
        label = f"{ms / 1000:,.0f} s"
        parts.append(el("text", label, cls="grey", x=x_of(ms), y=bottom + 16, text_anchor="middle", font_size=11))
    if at_ms is not None and at_ms < end_ms:
        parts.append(el("path", d=f"M{x_of(at_ms):.1f} {TOP}V{bottom}", cls="ink-line", stroke_width=1.5))
    return group(*parts, transform=f"translate(0 {top})")


def _panel(
    panel: Panel, samples: list[Sample], x_of: Callable[[int], float], high: float, bound: int | None, *, has_gap: bool
) -> list[Svg]:
    def y_of(value: float) -> float:
        return RISE - RISE * value / high

    def way(line: Line) -> str:
        return "L".join(f"{x_of(sample.at_ms):.1f} {y_of(line.value(sample)):.1f}" for sample in samples)

    parts = [
        el("text", panel.heading, cls="ink", x=20, y=-8, font_weight="bold"),
        el("path", d=f"M{LEFT} {RISE}H{RIGHT}", cls="grey-line", stroke_width=0.8),
        el("text", _number(high), cls="grey", x=LEFT - 8, y=4, text_anchor="end", font_size=11),
        el("text", "0", cls="grey", x=LEFT - 8, y=RISE + 4, text_anchor="end", font_size=11),
    ]
    if has_gap:  # what lies between the two curves was worked on for nothing
        worked, acked = panel.lines
        back = "L".join(
            f"{x_of(s.at_ms):.1f} {y_of(min(worked.value(s), acked.value(s))):.1f}" for s in reversed(samples)
        )
        parts.append(el("path", d=f"M{way(worked)}L{back}Z", fill=RED, opacity=0.22))
    labels = []
    for line in panel.lines:
        if line.is_rare and not any(map(line.value, samples)):
            continue
        ink = line_paint(line.colour)
        parts.append(el("path", d=f"M{way(line)}", fill="none", stroke_width=2.2, stroke_dasharray=line.dash, **ink))
        last = line.value(samples[-1])
        labels.append((y_of(last), f"{line.name}: {_number(last)}", line))
    if bound is not None:
        y = y_of(bound)
        parts.append(el("path", d=f"M{LEFT} {y:.1f}H{RIGHT}", cls="ink-line", stroke_width=1.2, stroke_dasharray="1 3"))
        labels.append((y, f"one timeout's work: {bound:,}", Line("", "ink", lambda _: 0.0, "1 3")))
    return parts + _labels(labels)


def _labels(labels: list[tuple[float, str, Line]]) -> list[Svg]:
    """The curves' names at their right ends, kept apart."""
    parts, last = [], -20.0
    room = RISE + 6 - 15 * (len(labels) - 1)
    for index, (y, text, line) in enumerate(sorted(labels, key=lambda label: label[0])):
        place = max(min(y + 4, room + 15 * index), last + 15)
        last = place
        ink = line_paint(line.colour)
        parts.append(
            el("path", d=f"M{RIGHT + 4} {place - 4:.1f}h14", stroke_width=2.2, stroke_dasharray=line.dash, **ink)
        )
        parts.append(el("text", text, cls="ink", x=RIGHT + 22, y=place, font_size=11))
    return parts


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
