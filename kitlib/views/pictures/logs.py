"""What lies in the log, for two runs one below the other: the model's and the broker's; and what settings give and cost.

    lay_under(run(script=text), run(script=text, backend="kafka"))
    side_by_side("reordering_by_retry", over="max_in_flight", values=(1, 5), script=text)

Left out: how the logs came to be; that is what the runs' own pictures show.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pandas as pd

from kitlib.experiments import run
from kitlib.experiments.script import Script
from kitlib.experiments.stored import Stored, compare_logs, send_figures, stored
from kitlib.trace import Trace
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.picture import Picture
from kitlib.views.svg import Svg, document, el, group, legend
from kitlib.words.glyphs import BLUE, PINK

NAME_WIDE = 150  # room for a row's name
STRIP_LEFT, STRIP_WIDE = LEFT + NAME_WIDE, WIDTH - 2 * LEFT - NAME_WIDE
STRIP_TALL, PITCH = 26, 40
CHAR = 6.5  # width of a digit

def lay_under(model: Trace, broker: Trace) -> Picture:
    """The log that a broker really has under the model's, of one script on both. TraceError for a run that has not read its log."""
    rows = [row for pair in zip_longest(_rows("model", model), _rows("broker", broker)) for row in pair if row]
    sentence = compare_logs(model, broker)
    return _picture("Is the broker's log the model's?", sentence, *_strips(rows, 52))


def side_by_side(
    name: str | None = None,
    /,
    *,
    over: str,
    values: Sequence[Any],
    script: Script | str | None = None,
    backend: str = "model",
    **knobs: Any,
) -> pd.DataFrame:
    """A producer's experiment with each of these values of one knob, all else alike: a row for each, with what it gives and costs.

    `script` and knobs as `kitlib.experiments.run`. KnobError as the run; TraceError for an experiment whose runs do not read
    their log back.
    """
    found = {value: send_figures(run(name, backend=backend, script=script, **{**knobs, over: value})) for value in values}
    rows = [(each.records_per_s, each.median_ms, each.worst_ms, each.copies) for each in found.values()]
    heads = ["records a second", "median latency, ms", "worst latency, ms", "copies in the log"]
    return pd.DataFrame(rows, pd.Index(found, name=over), heads).round().astype(int)


def _rows(name: str, trace: Trace) -> list[tuple[str, list[Stored]]]:
    """A name and pieces for each partition's log."""
    logs = stored(trace)
    return [(name if len(logs) == 1 else f"{name}, {partition}", pieces) for partition, pieces in logs.items()]


def _strips(rows: Sequence[tuple[str, list[Stored]]], top: int) -> tuple[Svg, int]:
    """The logs as strips of boxes on one scale, each with its name, and a legend; where they end."""
    most = max((piece.offset + piece.last - piece.first + 1 for _, pieces in rows for piece in pieces), default=1)
    parts = []
    for place, (name, pieces) in enumerate(rows):
        y = top + place * PITCH
        parts.append(el("text", name, cls="ink", x=LEFT, y=y + 17))
        parts += [_box(piece, most, y) for piece in pieces]
    named = [(_swatch(1), "in the log for the first time (the numbers are records)")]
    if any(piece.copy > 1 for _, pieces in rows for piece in pieces):
        named.append((_swatch(2), "a copy"))
    shown, tall = legend(named, top + len(rows) * PITCH)
    return group(*parts, shown), top + len(rows) * PITCH + tall + 10


def _box(piece: Stored, most: int, y: int) -> Svg:
    x = STRIP_LEFT + STRIP_WIDE * piece.offset / most
    wide = STRIP_WIDE * (piece.last - piece.first + 1) / most
    words = [f"{piece.first}-{piece.last}"] if piece.last > piece.first else []
    told = next((word for word in (*words, str(piece.first)) if CHAR * len(word) + 2 <= wide), "")
    box = el("rect", x=x + 0.5, y=y, width=max(wide - 1, 0.5), height=STRIP_TALL, rx=2, **_paint(piece.copy))
    return group(box, *([el("text", told, cls="ink", x=x + wide / 2, y=y + 17, text_anchor="middle")] if told else []))


def _paint(copy: int) -> dict[str, Any]:
    """Stored once is pale, a copy is loud and has an edge."""
    colour = BLUE if copy == 1 else PINK
    return {"fill": colour, "fill_opacity": "0.22" if copy == 1 else "0.55", "stroke": colour, "stroke_width": 1 if copy == 1 else 2}


def _swatch(copy: int) -> Svg:
    return el("rect", x=1, y=2, width=24, height=14, rx=2, **_paint(copy))


def _picture(question: str, sentence: str, body: Svg, height: int) -> Picture:
    title = el("text", question, cls="ink", x=LEFT, y=26, font_size=15, font_weight="bold")
    return Picture(sentence, document(question, sentence, group(title, body), WIDTH, height))
