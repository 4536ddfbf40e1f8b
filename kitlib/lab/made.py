"""Which notebook made which topic, group and checkpoint, so that `kit reset` can take back exactly that.

A learner who starts over wants the leftovers of one notebook gone and those of the others untouched,
and nobody else's topics even looked at. So whoever makes something says so here: one line for each
thing, appended to a file of the notebook's own. A line is written before the thing is made: a name
too many does no harm, a thing that nobody remembers stays for ever.

Names: a notebook's topics are `kit.<experiment>.<run>`, a run's trace is `kit.trace.<run>`.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kitlib.errors import DiskError
from kitlib.lab import workspace

Kind = Literal["topic", "group", "checkpoint", "offset"]
MARKER = ".made-by-kit"  # a folder without it is never deleted
TOPIC_PREFIX = "kit."  # a topic without it is never deleted


@dataclass(frozen=True, slots=True)
class Made:
    """One thing that a notebook has made on the broker or on the disk."""

    kind: Kind
    name: str  # a topic, a consumer group, a folder (absolute), or the key of a stored offset
    store: str = ""  # for a stored offset: the compacted topic that holds the key


def remember(kind: Kind, name: str | Path, store: str = "") -> None:
    """Note that the running notebook is about to make this; for a checkpoint the folder is made and marked too.

    Call it before the topic is created, the group joined, the query started or the offset written.
    """
    made = Made(kind, str(name), store)
    if kind == "checkpoint":
        made = Made(kind, str(mark(Path(name))))
    if made in read(notebook()):
        return
    path = path_of(notebook())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = json.dumps({"kind": made.kind, "name": made.name, "store": made.store}) + "\n"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, line.encode())  # one write: two kernels never mix their lines
        finally:
            os.close(handle)
    except OSError as error:
        raise DiskError(f"{path} could not be written ({error.strerror}). Make room or set KIT_HOME.") from error


def mark(folder: Path) -> Path:
    """Make a folder and put the marker into it without which the kit deletes nothing; its real path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch(mode=0o600)
    except OSError as error:
        raise DiskError(f"{folder} could not be made ({error.strerror}). Make room or choose another one.") from error
    return folder.resolve()


def notebook() -> str:
    """The name of the running notebook without folder and ending; `terminal` outside of notebooks.

    JupyterLab tells a kernel its notebook's path as JPY_SESSION_NAME; `kit tour` and the tests set KIT_NOTEBOOK.
    """
    path = os.environ.get("KIT_NOTEBOOK") or os.environ.get("JPY_SESSION_NAME") or "terminal"
    return slug(Path(path).name.removesuffix(".ipynb"))


def slug(name: str) -> str:
    """`name` as a file name: letters, digits, `_`, `-` and inner dots, 100 at most."""
    return re.sub(r"[^\w.-]", "_", name).strip(".")[:100] or "terminal"


def folder() -> Path:
    return workspace.run_dir() / "made"


def path_of(name: str) -> Path:
    return folder() / f"{slug(name)}.jsonl"


def notebooks() -> list[str]:
    """The notebooks that have made something which is still remembered."""
    return sorted(path.stem for path in folder().glob("*.jsonl"))


def read(name: str) -> list[Made]:
    """What a notebook has made, each thing once. A line that was cut short names nothing and is left out."""
    try:
        lines = path_of(name).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DiskError(f"{path_of(name)} could not be read ({error.strerror}). Mend its permissions.") from error
    return list(dict.fromkeys(made for line in lines if (made := parse(line))))


def parse(line: str) -> Made | None:
    try:
        said = json.loads(line)
        kind, made, store = said["kind"], said["name"], said.get("store", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    known = kind in ("topic", "group", "checkpoint", "offset") and isinstance(made, str) and isinstance(store, str)
    return Made(kind, made, store) if known else None


def forget(name: str, gone: list[Made]) -> None:
    """Strike out what no longer exists. What a kernel adds at this very moment may be kept or struck out with it."""
    rest = [made for made in read(name) if made not in gone]
    if not rest:
        path_of(name).unlink(missing_ok=True)
        return
    lines = [json.dumps({"kind": made.kind, "name": made.name, "store": made.store}) for made in rest]
    workspace.write_atomic(path_of(name), "\n".join(lines) + "\n")
