"""What a page needs to show every step of a run: its sentences and its pictures, as JSON."""

from __future__ import annotations

import json
from typing import Any

from kitlib.views.film import Film
from kitlib.views.frames import Frames
from kitlib.views.lives import Lives
from kitlib.views.partition_strip import strip_reel
from kitlib.views.plot import plot_reel
from kitlib.views.scene import scene_reel
from kitlib.views.svg import hatch


def played(frames: Frames, only: int | None = None) -> bytes:
    """What the browser needs to show every step of a run, or of the strips and curves the step `only`, as compact JSON."""
    film = Film()
    if frames.scene:
        reels = [scene_reel(film, frames.scene)]
    else:
        plot, is_alone = plot_reel(film, frames, only), not (frames.forest or frames.space_time)
        strips = [strip_reel(film, frames.lanes, len(frames), only)] if frames.has_records or is_alone else []
        reels = [*strips, plot] if is_alone else [plot, *strips]
    row: dict[str, Any] = {"said": frames.said, "cut": frames.cut, "forked_at": frames.forked_at}
    row["isWhole"] = only is None
    row["forest"] = frames.forest.to_json() if frames.forest else None
    row["space_time"] = frames.space_time.to_json() if frames.space_time else None
    row["life"] = Lives(frames.trace, frames).to_json() if frames.trace and only is None else None
    row["hatch"] = film.add(hatch())
    row["reels"] = [reel.to_json() for reel in reels]
    return json.dumps(row | film.to_json(), separators=(",", ":")).encode()
