"""Three numbers over the run: how far the commit is behind, what is pending, how often was retried.

Steps run to the right. Each curve has its own row, name and scale, so that a small one is not
flattened by a large one and colour is never what tells them apart.
"""

from __future__ import annotations

from kitlib.views.frames import Frames
from kitlib.views.look import BLUE, ORANGE, PLOT_LEFT, PLOT_RIGHT, RED, RISE, ROW
from kitlib.views.svg import Svg, el, group

# Name, attribute of Frames, colour, what it counts.
CURVES = (
    ("commit lag", "lag", BLUE, "log end minus committed_to"),
    ("pending", "pending", ORANGE, "fetched, not acked"),
    ("retries", "retries", RED, "emitted again so far"),
)
HEIGHT = ROW * len(CURVES) + 26


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
    """The three curves and the cursor at step `number`, the upper edge at y = `top`."""
    parts = []
    for row, (name, attribute, colour, meaning) in enumerate(CURVES):
        values: list[int] = getattr(frames, attribute)
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
                el("title", f"{name}: {meaning}"),
                transform=f"translate(0 {y})",
            )
        )
    bottom = ROW * len(CURVES)
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
