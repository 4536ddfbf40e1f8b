"""A run in one HTML file: no server, no kernel, and it can be scrubbed and played.

    save(trace, Path("loss.html"))      # or player.save("loss.html"), or kit run poison_record --html loss.html

The file holds the player's own JavaScript, the pictures of all steps, and as text what the run was: its experiment,
seed and knobs, and the command that repeats it. Left out: knobs to turn, which need a kernel (or the site of `kit page`).
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from kitlib.errors import DiskError, KnobError
from kitlib.experiments.knobs import as_text
from kitlib.lab import workspace
from kitlib.text import LONG, html_table, plain_text
from kitlib.trace import Trace
from kitlib.views.browser.played import packed
from kitlib.views.browser.player import SCRIPTS, STYLES, joined
from kitlib.views.browser.session import Session
from kitlib.views.browser.web_page import to_page

FORMAT = 1  # of what `saved_page.js` reads
SENDER = ("page_model.js", "saved_page.js")


def save(trace: Trace, path: Path, *, part: str = "all", open_at: int | str = 0, overwrite: bool = False, who: str = "save") -> Path:
    """Write the page of a run, whole or not at all; its path.

    KnobError for a name that is no page's, a bad `part` or `open_at`; DiskError, in the name of `who`, when the file is there
    already (unless `overwrite`) or cannot be written.
    """
    check_page(path, who)
    if not overwrite and path.exists():
        raise DiskError(f"{who}: {path} is there already. Name another file, or say overwrite=True.")
    workspace.write_atomic(path, to_recording(trace, part=part, open_at=open_at))
    return path


def check_page(path: Path, who: str) -> None:
    """KnobError for a name that is no page's, DiskError when no file could be written there; to be asked before long work."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise KnobError(f"{who}: {plain_text(path.name, 80)!r} is no name of a page. Let it end in .html.")
    workspace.check_writable(path, who)


def to_recording(trace: Trace, *, part: str = "all", open_at: int | str = 0) -> str:
    """The page of a run. KnobError for a bad `part` or `open_at`, TraceError for a trace that cannot be drawn."""
    session = Session(trace, part=part, open_at=open_at)
    title, command, frames = session.heading["title"], session.told["script"]["command"], packed(session.frames)
    recording = "This page is a recording, which cannot be changed."
    data = {
        "format": FORMAT,
        "heading": session.heading,
        "told": session.told,
        # Pictures of a long run are packed, and held as text.
        "frames": base64.b64encode(frames).decode() if frames != session.frames else json.loads(frames),
        "recording": f"{recording} Run `{command}` to turn the knobs." if command else recording,
    }
    return to_page(
        "saved_page.html",
        f"{title} - Delivery Lab",
        style=joined((*STYLES, "page.css")),
        data=("kit-saved", data),
        script=f"const FORMAT = {FORMAT};\n{joined((*SCRIPTS, *SENDER))}",
        command=plain_text(command, LONG),
        run_script="\n".join(plain_text(line, LONG) for line in session.told["script"]["text"].splitlines()),
        **_told(session),
    )


def _told(session: Session) -> dict[str, str]:
    """What the run was, as HTML: its verdict, and its knobs."""
    trace = session.trace
    facts = {"experiment": trace.experiment, "run": trace.run, "backend": trace.backend, "seed": str(trace.seed)}
    facts |= {"steps": f"{len(trace):,}", "verdict": session.verdict.sentence}
    if trace.parent is not None:
        facts["fork of"] = f"{trace.parent['run']}: steps 0 to {trace.parent['at']} are its own, and the knobs below hold after them"
    known = {knob.name: knob for knob in session.experiment.knobs} if session.experiment else {}
    rows = []
    for name, value in trace.settings.items():
        knob = known.get(name)
        other = f" (default: {as_text(knob.default)})" if knob and value != knob.default else ""
        rows.append((name, f"{as_text(value)}{other}", knob.help if knob else ""))
    knobs = html_table(("knob", "value", "meaning"), rows) if rows else ""
    return {"facts": html_table(("what", "this run"), facts.items()), "knobs": knobs}
