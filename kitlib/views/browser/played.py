"""What a page needs to show every step of a run, as JSON: its sentences, its pictures, and the curve of its figure of merit.

That curve lies below the pictures on their time axis, with that of the run it is compared with in grey. Both have one scale,
which covers both, so what one sees is the difference.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache, partial
from typing import Any

from kitlib.monitor.figures import amount
from kitlib.views.browser.outcome import Comparison, label
from kitlib.views.film import Cursor, Film, Reel, Track
from kitlib.views.frames import Frames
from kitlib.views.lives import index_of
from kitlib.views.picture import reels_of
from kitlib.views.plot import curve, mapped
from kitlib.views.scene import draw_cursor
from kitlib.views.stage.picture import staged
from kitlib.views.svg import Svg, el, group, hatch

TOP, RISE = 24, 54  # where the curve's highest point lies, and how far it falls from there
FOOT = TOP + RISE
TALL = FOOT + 18


def figure_reel(comparison: Comparison, axis: Cursor, only: int | None = None) -> Reel | None:
    """The curve after every step, with `only` after that step; None where there is nothing to draw. `axis` says where steps lie."""
    run, ghost = comparison.now, comparison.drawn_ghost
    if run is None or run.measured is None or not run.measured.figure.is_drawn or len(axis.x) != len(run.at_ms) or not run.at_ms:
        return None
    measured, figure = run.measured, run.measured.figure
    before = ghost.measured if ghost and ghost.measured and ghost.measured.figure is figure else None
    high = max(*measured.curve, *(before.curve if before else ()), 0)
    if not high:
        return None  # a flat zero
    high = max(1, high)
    reel = Reel(f"{figure.name} over the run", "How does the figure build up?", TALL)
    xs, path_of = axis.x, partial(curve, high=high, rise=RISE, foot=FOOT, right=axis.right)
    parts = [el("path", d=f"M{xs[0]:g} {FOOT}H{axis.right:g}", cls="grey-line", stroke_width=0.7)]
    if ghost and before:
        path = path_of(before.curve, mapped(ghost.at_ms, run.at_ms, xs, axis.right))
        told = f"in grey: {label(ghost, run)}, {amount(before.value, figure.unit)}"
        parts.append(el("path", d=path, cls="grey-line", fill="none", stroke_width=1.5, stroke_dasharray="5 2", data_ghost="figure"))
        parts.append(el("text", told, cls="grey", x=axis.right, y=TOP - 8, text_anchor="end", font_size=11))
    path = path_of(measured.curve, xs)
    parts.append(el("path", d=f"{path}V{FOOT}H{round(xs[0])}Z", cls="ink", opacity=0.1))
    parts.append(el("path", d=path, cls="ink-line", fill="none", stroke_width=2))
    reel.back = group(*parts)
    values, line = Track(), Track()
    for step, shown in enumerate(range(len(measured.curve)) if only is None else [only]):
        values.show(step, [_value(measured.curve[shown], figure.name, figure.unit, xs[0])])
    line.show(0, [group(draw_cursor(TOP - 4, FOOT + 4))])
    reel.tracks.append(values)
    reel.cursor = Cursor(xs, TOP - 4, FOOT + 8 - TOP, axis.right, line)
    return reel


@lru_cache(10_000)
def _value(value: float, name: str, unit: str, x: float) -> Svg:
    told = el("tspan", amount(value, unit), cls="ink", font_weight="bold")
    return el("text", f"{name}: ", told, cls="ink", x=x, y=TOP - 8)


LONG = 250_000  # bytes; longer ones are packed


def packed(frames: bytes) -> bytes:
    """What `played` gave, as it is sent: of a long run packed with gzip, always into the same bytes; `player.js` unpacks it."""
    return gzip.compress(frames, 6, mtime=0) if len(frames) > LONG else frames


def played(frames: Frames, only: int | None = None, chosen: int = -1, comparison: Comparison | None = None) -> bytes:
    """What the browser needs to show every step of a run, or the step `only` of what is `chosen`, as compact JSON.

    Of a run of which one step is shown no other step's sentence is told.
    With a `comparison` the curve of the run's figure comes last, and the curves of the run it is compared with are there in grey.
    """
    film = Film()
    reels = reels_of(frames, only=only, chosen=chosen, before=comparison.before if comparison else None)
    axis = next((reel.cursor for reel in reels if reel.cursor), None)
    if comparison and axis and (figure := figure_reel(comparison, axis, only)):
        reels.append(figure)
    said = frames.said if only is None else [frames.sentence(only) if number == only else "" for number in range(len(frames))]
    row: dict[str, Any] = {"said": said, "cut": frames.cut, "forked_at": frames.forked_at}
    row["isWhole"] = only is None
    row["clock"] = frames.clock.to_json()
    row["stage"] = staged(film, frames, only)
    row["life"] = index_of(frames.trace, frames.lanes) if frames.trace.steps and only is None else None
    row["hatch"] = film.add(hatch())
    row["reels"] = [reel.to_json(film) for reel in reels]
    return json.dumps(row | film.to_json(), separators=(",", ":")).encode()
