"""The learner's own copies of the notebooks, in `work/`: what git tracks stays as it was shipped, whatever a learner does.

A copy is the shipped notebook without its outputs, with each prediction's code and answer folded. Its metadata
holds a line for each cell as it was copied, so a cell that still has its hash is known to be untouched: it follows the
kit when that has a newer one. A cell that the learner has changed, added or deleted is theirs, and stays so.
There is no list beside the copies that could disagree with them, and each file is written whole or
not at all, so this may be interrupted, or run twice at once.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path

from nbformat import NotebookNode

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import jupyter, notebooks, workspace

FOLDER = "work"
RECORD = "delivery_lab"  # in a copy's metadata, which JupyterLab keeps
SHIPPED = "notebooks"
DATA = "data"  # what the notebooks read, beside them

Refreshed = Callable[[NotebookNode, NotebookNode], None]  # a copy as it was, and as it is now
ASKS = re.compile(r"\*\*(?:Predict|Think)|(?:^|[.:] )Predict ", re.MULTILINE)
ASKS_IN_CODE = re.compile(r"^(?:\w+ = )?predict\(", re.MULTILINE)
LEADS_ON = re.compile(r"(?:(.*[.?!)]) )?([^.?!]*:)\s*", re.DOTALL)  # a last sentence that ends with a colon, and what is before it
TASK = re.compile(r"^#|\*\*(?:Predict|Think|Explain|Find|Break it|Run|Play it|Next)|\bPredict ")  # a paragraph that is no part of an answer
SUMMARY = "<b>What happened, and why</b>: open this when you have made up your mind and run it."


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
    """The project's own folder `work`; where nothing is to be written there, the workspace's."""
    folder = root / FOLDER
    can_write = root != jupyter.INSTALLED and os.access(folder if folder.exists() else root, os.W_OK)
    return Desk(root, folder if can_write else workspace.home() / FOLDER)


def make(desk: Desk, say: Callable[[str], None], refreshed: Refreshed = lambda before, after: None) -> None:
    """Make the copies that are missing, and bring what the kit has newer into untouched cells of the others; DiskError if it cannot.

    `refreshed` hears of each copy that was changed: as it was, and as it is now.
    """
    if desk.top != desk.root:
        say(
            f"Your notebooks are in {desk.folder}"
            if desk.root == jupyter.INSTALLED
            else f"{desk.root / FOLDER} cannot be written to, so your notebooks are in {desk.folder}"
        )
    made, renewed = [], []
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
            if is_untouched(mine):
                renewed.append(path)
            else:
                new, updated, kept = merged(mine, new)
                left = f"; {kept} that you have changed {'stays as it is' if kept == 1 else 'stay as they are'}" if kept else ""
                say(f"{path.stem}: {updated} cell{'s' if updated != 1 else ''} updated{left}")
                refreshed(mine, new)
        workspace.write_atomic(path, notebooks.text_of(new))
    link_data(desk)
    if made:
        say(f"Copied {count(made)} to {desk.folder}: work on these")
    if renewed:
        say(f"Updated {count(renewed)} that you had not touched")


def renew(desk: Desk, original: Path) -> Path | None:
    """Replace the copy of one notebook by a new one; where the learner's own is kept, beside it, when there was something to keep."""
    path, kept = desk.copy_of(original), None
    if os.path.lexists(path) and not is_as_made(desk, original):
        numbered = (path.with_name(f"{path.stem}.mine{number or ''}.ipynb") for number in count_from(0))
        kept = next(place for place in numbered if not os.path.lexists(place))
        try:
            os.rename(path, kept)
        except OSError as error:
            raise workspace.disk_error(f"{path} could not be renamed", error, path) from error
    workspace.write_atomic(path, notebooks.text_of(as_copied(notebooks.load(original))))
    link_data(desk)
    return kept


def count(paths: list[Path]) -> str:
    return f"{len(paths)} notebook{'s' if len(paths) != 1 else ''}"


def as_copied(original: NotebookNode) -> NotebookNode:
    """A new copy of a shipped notebook: the same cells, nothing run yet."""
    new = copy.deepcopy(original)
    for cell in new.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    fold_answers(new)
    new.metadata[RECORD] = {"cells": lines_of(new)}
    return new


def fold_answers(notebook: NotebookNode) -> None:
    """Fold a prediction's code, and what follows its run, so that neither plumbing nor the answer is read before it is predicted."""
    is_asked = has_run = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            is_prediction = ASKS_IN_CODE.search(cell.source) is not None
            is_asked, has_run = is_asked or is_prediction, is_asked and not is_prediction
            if is_prediction:  # its output is the question; the code behind it is one click away
                cell.metadata["jupyter"] = {"source_hidden": True}
        elif cell.cell_type == "markdown":
            asks = ASKS.search(cell.source) is not None
            if is_asked and has_run:
                cell.source = folded(cell.source)
            is_asked, has_run = asks or (is_asked and not has_run), False


def folded(text: str) -> str:
    """A text whose first paragraphs are to be opened: those before the next task, and before the sentence that leads to a cell."""
    paragraphs = text.split("\n\n")
    end = next((at for at, paragraph in enumerate(paragraphs) if TASK.search(paragraph)), len(paragraphs))
    if end == len(paragraphs) and (leads := LEADS_ON.fullmatch(paragraphs[-1])):
        paragraphs[-1:] = [part for part in leads.groups() if part]
        end = len(paragraphs) - 1
    if end == 0 or any(paragraph.startswith(("```", "<details")) for paragraph in paragraphs[:end]):
        return text
    return "\n\n".join([f"<details><summary>{SUMMARY}</summary>", *paragraphs[:end], "</details>", *paragraphs[end:]])


def merged(mine: NotebookNode, new: NotebookNode) -> tuple[NotebookNode, int, int]:
    """The learner's notebook with what is newer in cells that they have not touched; how many these are, and how many newer ones stay out.

    A cell that the kit has dropped goes, one that it has added comes behind its neighbour; one that the learner has deleted does not
    come back. Outputs stay with a cell that is the same.
    """
    recorded = dict(line.partition(" ")[::2] for line in record_of(mine) or [])
    theirs = {cell.get("id"): cell for cell in new.cells}
    result, updated, kept = copy.deepcopy(mine), 0, 0
    cells: list[NotebookNode] = []
    for cell in result.cells:
        was, its = recorded.get(cell.get("id")), theirs.get(cell.get("id"))
        is_newer = was is not None and (its is None or hash_of(its) != was)
        if is_newer and hash_of(cell) == was:
            updated += 1
            cells += [its] if its is not None else []
            continue
        kept += is_newer
        cells.append(cell)
    here = [cell.get("id") for cell in cells]
    for at, cell in enumerate(new.cells):
        if cell.id in recorded or cell.id in here:
            continue
        place = next((here.index(other.id) + 1 for other in reversed(new.cells[:at]) if other.id in here), 0)
        cells.insert(place, cell)
        here.insert(place, cell.id)
        updated += 1
    result.cells = cells
    result.metadata[RECORD] = new.metadata[RECORD]
    return result, updated, kept


def lines_of(notebook: NotebookNode) -> list[str]:
    """A line for each cell in its order: its id, and a hash of what a learner can change in it by hand."""
    return [f"{cell.get('id')} {hash_of(cell)}" for cell in notebook.cells]


def hash_of(cell: NotebookNode) -> str:
    """A hash of what a learner can change in a cell by hand."""
    text = json.dumps([cell.cell_type, cell.source, cell.metadata.get("tags", [])])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def record_of(mine: NotebookNode) -> list[str] | None:
    """The cells of the notebook that this one was copied from, as `lines_of` told them; None when it is no copy."""
    record = mine.metadata.get(RECORD)
    cells = record.get("cells") if isinstance(record, dict) else None
    return cells if isinstance(cells, list) and all(isinstance(line, str) for line in cells) else None


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
