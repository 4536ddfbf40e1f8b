"""What a page needs to show every step of a run, as JSON: its sentences and its pictures."""

from __future__ import annotations

import gzip
import json
from typing import Any

from kitlib.views.browser.outcome import Comparison
from kitlib.views.film import Film
from kitlib.views.frames import Frames
from kitlib.views.lives import index_of
from kitlib.views.picture import reels_of
from kitlib.views.stage.picture import staged
from kitlib.views.svg import hatch

LONG = 250_000  # bytes; longer ones are packed


def packed(frames: bytes) -> bytes:
    """What `played` gave, as it is sent: of a long run packed with gzip, always into the same bytes; `player.js` unpacks it."""
    return gzip.compress(frames, 6, mtime=0) if len(frames) > LONG else frames


def played(frames: Frames, only: int | None = None, chosen: int = -1, comparison: Comparison | None = None) -> bytes:
    """What the browser needs to show every step of a run, or the step `only` of what is `chosen`, as compact JSON.

    Of a run of which one step is shown no other step's sentence is told.
    With a `comparison` the curves are those of its outcome, and those of the run it is compared with are there in grey.
    """
    film = Film()
    run, before = (comparison.now, comparison.before) if comparison else (None, None)
    reels = reels_of(frames, only=only, chosen=chosen, curves=run.curves if run else None, before=before)
    said = frames.said if only is None else [frames.sentence(only) if number == only else "" for number in range(len(frames))]
    row: dict[str, Any] = {"said": said, "cut": frames.cut, "forked_at": frames.forked_at}
    row["isWhole"] = only is None
    row["clock"] = frames.clock.to_json()
    row["stage"] = staged(film, frames, only)
    row["life"] = index_of(frames.trace, frames.lanes) if frames.trace.steps and only is None else None
    row["hatch"] = film.add(hatch())
    row["reels"] = [reel.to_json(film) for reel in reels]
    return json.dumps(row | film.to_json(), separators=(",", ":")).encode()
