"""What a page needs to show every step of a run: its sentences and its pictures, as JSON."""

from __future__ import annotations

import gzip
import json
from typing import Any

from kitlib.views.figure_curve import figure_reel
from kitlib.views.film import Film
from kitlib.views.frames import Frames
from kitlib.views.lives import Lives
from kitlib.views.outcome import Comparison
from kitlib.views.partition_strip import strip_reel
from kitlib.views.plot import plot_reel
from kitlib.views.producer_picture import diagram_reel
from kitlib.views.scene import scene_reel
from kitlib.views.stage_picture import staged
from kitlib.views.svg import hatch
from kitlib.views.tree import tree_reel

LONG = 250_000  # bytes; longer ones are packed


def packed(frames: bytes) -> bytes:
    """What `played` gave, as it is sent: of a long run packed with gzip, always into the same bytes; `player.js` unpacks it."""
    return gzip.compress(frames, 6, mtime=0) if len(frames) > LONG else frames


def played(
    frames: Frames, only: int | None = None, chosen: int = -1, comparison: Comparison | None = None, held_at: int | None = None
) -> bytes:
    """What the browser needs to show every step of a run, or the step `only` of what is `chosen`, as compact JSON.

    Of a run of which one step is shown no other step's sentence is told.
    `held_at` is where the close-up of a long log was put, in thousandths; None: nowhere.

    With a `comparison` the curve of the run's figure comes last, and the curves of the run it is compared with are there in grey.
    """
    film = Film()
    if frames.scene:
        reels = [scene_reel(film, frames.scene)]
    else:
        plot, is_alone = plot_reel(film, frames, only, comparison.before if comparison else None), not (frames.forest or frames.diagram)
        strips = [strip_reel(film, frames.lanes, len(frames), only, held_at)] if frames.has_records or is_alone else []
        trees = [tree_reel(film, frames.forest, only, chosen)] if frames.forest else []
        first = [diagram_reel(film, frames.diagram, only)] if frames.diagram else trees
        reels = [*strips, plot] if is_alone else [*first, plot, *strips]
    axis = next((reel.cursor for reel in reels if reel.cursor), None)
    if comparison and axis and (figure := figure_reel(film, comparison, axis, only)):
        reels.append(figure)
    said = frames.said if only is None else [frames.sentence(only) if number == only else "" for number in range(len(frames))]
    row: dict[str, Any] = {"said": said, "cut": frames.cut, "forked_at": frames.forked_at}
    row["isWhole"] = only is None
    row["clock"] = frames.clock.to_json()
    row["stage"] = staged(film, frames, only)
    row["life"] = Lives(frames.trace, frames).to_json() if frames.trace.steps and only is None else None
    row["hatch"] = film.add(hatch())
    row["reels"] = [reel.to_json() for reel in reels]
    return json.dumps(row | film.to_json(), separators=(",", ":")).encode()
