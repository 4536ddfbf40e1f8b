"""All experiments as a site of plain files, with live knobs: Python runs in the reader's browser, and nothing else is asked.

    build(Path("build/page"))       # `make page`, `kit page --out build/page`

The site holds the player's own JavaScript, Pyodide (kitlib/lab/pyodide.py), the rooms of kitlib that a run needs, and for each
experiment a recording of its default run, so that there is a picture before Python is. Any server of files can serve it;
a browser does not run it from a folder, because from there it loads no workers. Left out: the real broker, Spark, notebooks.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kitlib
from kitlib.errors import DiskError
from kitlib.experiments import every
from kitlib.experiments.experiment import Experiment
from kitlib.lab import pyodide, workspace
from kitlib.views.browser.player import SCRIPTS, STYLES, joined
from kitlib.views.browser.session import Session
from kitlib.views.browser.web_page import to_page

MARK = "made-by-kit-page.txt"  # in a folder that may be replaced
# The rooms that a run in the browser needs: the pure ones, and what stands on them.
ROOMS = (
    "__init__.py", "errors.py", "settings.py", "text.py", "trace.py", "trace_lines.py", "words", "java", "mechanisms", "more", "monitor",
    "experiments", "views", "lab/__init__.py", "lab/client_processes/__init__.py", "lab/client_processes/driver.py",
)  # fmt: skip
START = ("small_max_offset_behind", "restart", "answers_lost", "six_in_flight", "tuple_tree")  # the first one plays as the page opens
MECHANISMS = {
    "spout": "A spout reads a partition (Storm)",
    "topology": "Trees of tuples, and the acker (Storm)",
    "idempotence": "The producer: retries, order, idempotence",
    "groups": "Groups of consumers",
    "transactions": "Transactions",
    "send_path": "From send to the log",
    "connect": "Kafka Connect",
    "streams": "Kafka Streams",
    "compaction": "The offsets topic and its compaction",
    "offsets": "Committed offsets: kept, moved, lost, reset",
    "lag": "Lag, and what it hides",
    "replication": "Replicas and elections",
    "checkpoint": "The checkpoint of a streaming query (Spark)",
    "share": "Share groups",
}


@dataclass(frozen=True, slots=True)
class Site:
    """What was built: where, and how large it is."""

    folder: Path
    experiments: int
    size: int  # bytes of all files
    sent: int  # bytes of what a browser needs for an experiment with live knobs, as they lie here


def build(folder: Path, progress: Callable[[str], None] = print) -> Site:
    """Build the site in `folder`, which is replaced as a whole when it is one of the kit's already.

    SupplyError when Pyodide cannot be had; DiskError when the folder holds something else, or there is no room.
    """
    folder = folder.absolute()
    _check_free(folder)
    package = pyodide.ensure(progress)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True) as room:
            site = _build(Path(room) / "new", folder, package, progress)
            if folder.exists():
                os.replace(folder, Path(room) / "old")
            os.replace(Path(room) / "new", folder)
    except OSError as error:
        raise workspace.disk_error(f"{folder} could not be built", error, folder) from error
    return site


def _check_free(folder: Path) -> None:
    if folder.is_dir() and not (folder / MARK).is_file() and any(folder.iterdir()):
        raise DiskError(f"{folder} holds other files than a site of `kit page`. Name an empty folder, or one that is not there yet.")
    if folder.exists() and not folder.is_dir():
        raise DiskError(f"{folder} is a file. Name a folder.")


def _build(room: Path, folder: Path, package: Path, progress: Callable[[str], None]) -> Site:
    room.mkdir(exist_ok=True)
    (room / MARK).write_text("`kit page` made this folder and may replace it.\n", encoding="utf-8")
    loaded = pyodide.unpack(package, room / "pyodide")
    (room / "kit.zip").write_bytes(to_parcel())
    loaded.append(room / "kit.zip")
    parts_of_page = ("player_dom.js", "page_model.js", "site.js")
    for name, parts in (("player.js", SCRIPTS), ("site.js", parts_of_page), ("worker.js", ("site_worker.js",))):
        (room / name).write_text(joined(parts), encoding="utf-8")
    (room / "runs").mkdir()
    groups: dict[str, list[dict[str, Any]]] = {}
    recorded = []
    for experiment in every():
        session = Session(experiment)
        path = room / "runs" / f"{experiment.name}.run"
        path.write_bytes(to_recorded_run(session))
        recorded.append(path.stat().st_size)
        row = {"name": experiment.name, "title": experiment.title, "question": experiment.question}
        groups.setdefault(mechanism(experiment, session), []).append(row | {"knobs": [knob.name for knob in experiment.knobs]})
    progress(f"recorded the default runs of {len(recorded)} experiments")
    catalog = {
        # The parts of Python that a page counts while they come; the module of the WebAssembly is not among them.
        "bytes": sum(path.stat().st_size for path in loaded if path.suffix != ".mjs"),
        "first": START,
        "groups": [{"title": title, "experiments": rows} for title, rows in groups.items()],
    }
    style = joined((*STYLES, "page.css", "site.css"))
    policy = ("connect-src 'self'", "worker-src 'self'")
    page = to_page("site.html", "Delivery Lab", style=style, data=("kit-catalog", catalog), src="site.js", policy=policy)
    (room / "index.html").write_text(page, encoding="utf-8")
    files = [path for path in room.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return Site(folder, len(recorded), size, size - sum(recorded) + max(recorded))


def mechanism(experiment: Experiment, session: Session) -> str:
    """The title under which the experiment is listed: its folder's; Storm's folder has two."""
    folder = experiment.story.__module__.split(".")[2]
    if folder == "storm":
        folder = "topology" if session.trace.domain == "topology" else "spout"
    return MECHANISMS[folder]


def to_recorded_run(session: Session) -> bytes:
    """A line of JSON with `heading` and `told`, then the frames; packed with gzip, always into the same bytes."""
    head = json.dumps({"heading": session.heading, "told": session.told}, separators=(",", ":"))
    return gzip.compress(head.encode() + b"\n" + session.frames, mtime=0)


def to_parcel() -> bytes:
    """The rooms of kitlib that a run needs, as a ZIP file; always the same bytes for the same files."""
    top = Path(kitlib.__file__).parent
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as parcel:
        for path in _sources(top):
            entry = zipfile.ZipInfo(f"kitlib/{path.relative_to(top).as_posix()}", (1980, 1, 1, 0, 0, 0))
            parcel.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return held.getvalue()


def _sources(top: Path) -> Iterator[Path]:
    for room in ROOMS:
        path = top / room
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))
