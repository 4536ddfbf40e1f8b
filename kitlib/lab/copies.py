"""The learner's own copies of the notebooks, in `work/`: what git tracks stays as it was shipped, whatever a learner does.

A copy is the shipped notebook without its outputs. Its metadata holds a line for each cell as it was
copied, so a copy that still has these cells and no output is known to be untouched, and is renewed when
the kit has a newer notebook. Any other copy belongs to the learner: it is never written to again.
There is no list beside the copies that could disagree with them, and each file is written whole or
not at all, so this may be interrupted, or run twice at once.

Left out: bringing the newer cells of a notebook into a copy that the learner has changed.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import jupyter, notebooks, workspace

FOLDER = "work"
RECORD = "delivery_lab"  # in a copy's metadata, which JupyterLab keeps
SHIPPED = "notebooks"
DATA = "data"  # what the notebooks read, beside them


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the notebooks of a project are, and where their copies."""

    root: Path  # the project, which holds `notebooks`
    folder: Path  # holds the copies under the names of the originals

    @property
    def top(self) -> Path:
        """What JupyterLab shows: the whole project, or only the copies when they cannot be in it."""
        return self.root if self.folder.parent == self.root else self.folder

    def copy_of(self, original: Path) -> Path:
        return self.folder / original.relative_to(self.root / SHIPPED)

    def page(self, notebook: Path) -> str:
        """The path by which JupyterLab opens a notebook: a shipped one's copy, any other itself. LabError outside of `top`."""
        for original in notebooks.shipped_in(self.root):
            mine = self.copy_of(original)
            if notebook.samefile(original) or (mine.exists() and notebook.samefile(mine)):
                return mine.relative_to(self.top).as_posix()
        try:
            return notebook.resolve().relative_to(self.top.resolve()).as_posix()
        except ValueError:
            raise LabError(f"{notebook} is outside of {self.top}, which is all that JupyterLab shows. Copy it there.") from None


def desk(root: Path) -> Desk:
    """The project's own folder `work`; where nothing can be written there, the workspace's."""
    folder = root / FOLDER
    can_write = os.access(folder if folder.exists() else root, os.W_OK)
    return Desk(root, folder if can_write else workspace.home() / FOLDER)


def make(desk: Desk, say: Callable[[str], None]) -> None:
    """Make the copies that are missing and renew the untouched ones of notebooks that have changed; DiskError if it cannot."""
    if desk.top != desk.root:
        say(f"{desk.root / FOLDER} cannot be written to, so your notebooks are in {desk.folder}")
    made, renewed, older = [], [], []
    for original in notebooks.shipped_in(desk.root):
        path, new = desk.copy_of(original), as_copied(notebooks.load(original))
        if not os.path.lexists(path):
            made.append(path)
        else:
            try:
                mine = notebooks.load(path)
            except KitError:
                say(f"{path} cannot be read as a notebook. Delete it and start the lab again to get a new copy")
                continue
            if record_of(mine) in (None, record_of(new)):
                continue
            if not is_untouched(mine):
                older.append(path.stem)
                continue
            renewed.append(path)
        workspace.write_atomic(path, notebooks.text_of(new))
    link_data(desk)
    if made:
        say(f"Copied {count(made)} to {desk.folder}: work on these")
    if renewed:
        say(f"Updated {count(renewed)} that you had not touched")
    if older:
        say(
            f"{', '.join(older)}: the kit has a newer version; yours stays as it is. To get the new one, "
            "rename or delete yours and start the lab again"
        )


def count(paths: list[Path]) -> str:
    return f"{len(paths)} notebook{'s' if len(paths) != 1 else ''}"


def as_copied(original: NotebookNode) -> NotebookNode:
    """A new copy of a shipped notebook: the same cells, nothing run yet."""
    new = copy.deepcopy(original)
    for cell in new.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    new.metadata[RECORD] = {"cells": lines_of(original)}
    return new


def lines_of(notebook: NotebookNode) -> list[str]:
    """A line for each cell in its order: its id, and a hash of what a learner can change in it by hand."""
    lines = []
    for cell in notebook.cells:
        text = json.dumps([cell.cell_type, cell.source, cell.metadata.get("tags", [])])
        lines.append(f"{cell.get('id')} {hashlib.sha256(text.encode()).hexdigest()[:16]}")
    return lines


def record_of(mine: NotebookNode) -> list[str] | None:
    """The cells of the notebook that this one was copied from, as `lines_of` told them; None when it is no copy."""
    record = mine.metadata.get(RECORD)
    return record.get("cells") if isinstance(record, dict) else None


def is_untouched(mine: NotebookNode) -> bool:
    """Whether a copy has the cells it was made with and no output; what JupyterLab adds to the metadata does not count."""
    return record_of(mine) == lines_of(mine) and not any(cell.get("outputs") for cell in mine.cells)


def is_as_made(desk: Desk, original: Path) -> bool:
    """Whether the copy is, to the last byte, what `make` writes for this original."""
    try:
        text = desk.copy_of(original).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return text == notebooks.text_of(as_copied(notebooks.load(original)))


def link_data(desk: Desk) -> None:
    """Let the copies find what the notebooks read: a link, so there is nothing to keep up to date."""
    source, link = desk.root / SHIPPED / DATA, desk.folder / DATA
    if not source.is_dir() or (link.exists() and not link.is_symlink()):
        return
    target = os.path.relpath(source.resolve(), desk.folder.resolve())
    try:
        if link.is_symlink() and os.readlink(link) != target:
            link.unlink(missing_ok=True)  # the project was moved
        with contextlib.suppress(FileExistsError):
            link.symlink_to(target, target_is_directory=True)
    except OSError as error:
        raise DiskError(f"{link} could not be made ({error.strerror}). Make a copy of {source} there.") from error


def main() -> int:
    """Make the copies in the project itself, for those who start JupyterLab without `kit lab`; returns the exit code."""
    root = jupyter.project_dir()
    try:
        make(Desk(root, root / FOLDER), lambda text: print(text, file=sys.stderr))
    except KitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
