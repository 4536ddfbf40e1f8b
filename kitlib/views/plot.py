"""A few numbers over the run: how far the commit is behind, what is pending, how often was retried.

Steps run to the right. Each curve has its own row, name and scale, so that a small one is not
flattened by a large one and colour is never what tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kitlib.views.curves import QUESTION, Sample
from kitlib.views.frames import Frames
from kitlib.views.look import PLOT_LEFT, PLOT_RIGHT, RISE, ROW
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, PINK, RED, SKY


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over the run: its value after every step."""

    name: str
    colour: str
    meaning: str
    values: list[int]


def curves_of(frames: Frames) -> list[Curve]:
    """What is worth following in a trace: of its partitions, of its trees, of its samples."""
    steps = len(frames)
    if frames.samples:
        told = (
            ("worked on", GREEN, "tuples that the bolts worked through, a second", lambda s: round(s.executed)),
            ("acked in time", BLUE, "trees acked, a second", lambda s: round(s.acked)),
            ("in queues", SKY, "tuples that wait at the bolts", lambda s: s.queue),
            ("failed", RED, "trees that failed or timed out, a second", lambda s: round(s.failed)),
        )
        return [Curve(name, colour, meaning, _held(frames, value)) for name, colour, meaning, value in told]
    if frames.space_time is not None:
        return [Curve(name, *PRODUCED[name], values) for name, values in frames.space_time.curves.items()]
    curves = []
    if frames.lanes or frames.forest is None:
        curves.append(Curve("commit lag", BLUE, "log end minus committed_to", frames.lag))
    if frames.forest is not None:
        trees, tuples = frames.forest.counts(steps)
        curves.append(Curve("pending trees", ORANGE, "the spouts wait for their end", trees))
        curves.append(Curve("tuples out", SKY, "sent, and neither acked, failed nor lost", tuples))
    else:
        curves.append(Curve("pending", ORANGE, "fetched, not acked", frames.pending))
    if frames.lanes or frames.forest is None:
        curves.append(Curve("retries", RED, "emitted again so far", frames.retries))
    return curves


def _held(frames: Frames, value: Callable[[Sample], int]) -> list[int]:
    """A sample's value, held until the next one."""
    found = [0] * len(frames)
    ends = [sample.step for sample in frames.samples[1:]] + [len(frames)]
    for sample, end in zip(frames.samples, ends, strict=True):
        found[sample.step : end] = [value(sample)] * (end - sample.step)
    return found


PRODUCED = {
    "in flight": (ORANGE, "batches sent, without an answer yet"),
    "waiting": (SKY, "batches in the accumulator"),
    "acked": (BLUE, "records of which the user was told that they are stored"),
    "second copies": (PINK, "records that lie in the log once more"),
}


def question_of(frames: Frames) -> str:
    """What the curves answer."""
    if frames.space_time:
        return "How much waits, how much is in flight, and what was stored?"
    if frames.samples:
        return QUESTION
    return (
        "How far is the commit behind, and what is in flight?"
        if frames.lanes or not frames.forest
        else "How much is out?"
    )


def height_of(frames: Frames) -> int:
    """The plot's height."""
    return ROW * len(curves_of(frames)) + 26


def plots_to_json(frames: Frames) -> list[dict[str, Any]]:
    """The curves as the player needs them, with their ready-made paths."""
    return [
        {
            "name": found.name,
            "colour": found.colour,
            "meaning": found.meaning,
            "values": found.values,
            "path": curve(found.values),
        }
        for found in curves_of(frames)
    ]


def x_of(step: int, steps: int) -> float:
    """Where a step lies on the time axis."""
    return PLOT_LEFT + (PLOT_RIGHT - PLOT_LEFT) * (step / (steps - 1) if steps > 1 else 0)


def curve(values: list[int]) -> str:
    """The path of one curve, in whole units: a corner where the value changes, nothing between."""
    high = max(1, *values) if values else 1
    corners: list[str] = []
    last_x = last_y = -1
    for step, value in enumerate(values):
        x, y = round(x_of(step, len(values))), RISE - round(RISE * value / high)
        if y == last_y:
            continue
        if not corners:
            corners.append(f"M{x} {y}")
        else:
            corners.append(f"H{x}V{y}" if x != last_x else f"V{y}")
        last_x, last_y = x, y
    return "".join(corners) + f"H{PLOT_RIGHT}" if corners else ""


def draw_plot(frames: Frames, number: int, top: int) -> Svg:
    """The curves and the cursor at step `number`, the upper edge at y = `top`."""
    parts, curves = [], curves_of(frames)
    for row, found in enumerate(curves):
        name, colour, values = found.name, found.colour, found.values
        path = curve(values)
        y = row * ROW
        high = max(values, default=0)
        parts.append(
            group(
                el("path", d=f"M{PLOT_LEFT} {RISE}H{PLOT_RIGHT}", cls="grey-line", stroke_width=0.7),
                el("path", d=f"{path}V{RISE}H{PLOT_LEFT}Z", fill=colour, opacity=0.15) if path else Svg(""),
                el("path", d=path, fill="none", stroke=colour, stroke_width=2),
                el("text", name, cls="ink", x=20, y=12, font_weight="bold"),
                el(
                    "text",
                    f"{values[number]:,}" if values else "0",
                    cls="ink",
                    x=PLOT_LEFT - 10,
                    y=12,
                    text_anchor="end",
                    font_weight="bold",
                ),
                el("text", f"highest {high:,}", cls="grey", x=20, y=27, font_size=11),
                el("title", f"{name}: {found.meaning}"),
                transform=f"translate(0 {y})",
            )
        )
    bottom = ROW * len(curves)
    steps = len(frames)
    x = x_of(number, steps)
    parts.append(el("path", d=f"M{x:.1f} -6V{bottom}", cls="ink-line", stroke_width=1.5))
    parts.append(el("path", d=f"M{x:.1f} {bottom}l-5 7h10Z", cls="ink"))
    at = f"step {number}, {frames.at_ms[number]:,} ms" if steps else "no steps"
    anchor = "start" if x < PLOT_LEFT + 90 else "end" if x > PLOT_RIGHT - 90 else "middle"
    parts.append(el("text", at, cls="ink", x=x, y=bottom + 20, text_anchor=anchor))
    if frames.forked_at >= 0:
        fork = x_of(frames.forked_at, steps)
        parts.append(el("path", d=f"M{fork:.1f} -6V{bottom}", cls="ink-line", stroke_width=1, stroke_dasharray="3 3"))
        parts.append(el("text", "forked here", cls="grey", x=fork + 4, y=-1, font_size=11))
    return group(*parts, transform=f"translate(0 {top})")
