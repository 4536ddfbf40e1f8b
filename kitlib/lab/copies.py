"""The learner's own copies of the notebooks, in `work/`: what git tracks stays as it was shipped, whatever a learner does.

A copy is the shipped notebook without its outputs, with each prediction's code and answer folded. Its metadata
holds a hash of its cells as they were copied, so a copy that nobody has touched is known: it is replaced when the kit has a newer
one. One that the learner has worked on is theirs and stays; the newer one is put beside it.
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
from collections.abc import Callable, Iterator
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


def make(desk: Desk, say: Callable[[str], None]) -> None:
    """Make the copies that are missing, renew untouched ones, and put what is newer beside the others. DiskError if it cannot."""
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
            if RECORD not in mine.metadata or mine.metadata[RECORD] == new.metadata[RECORD]:
                continue
            if is_untouched(mine):
                renewed.append(path)
            else:
                path = next(place for place in named(path, "new") if not os.path.lexists(place) or is_copy_of(new, place))
                if path.exists():
                    continue
                say(f"The kit has a newer {original.name}: {path.name}, beside yours")
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
        kept = next(place for place in named(path, "mine") if not os.path.lexists(place))
        try:
            os.rename(path, kept)
        except OSError as error:
            raise workspace.disk_error(f"{path} could not be renamed", error, path) from error
    workspace.write_atomic(path, notebooks.text_of(as_copied(notebooks.load(original))))
    link_data(desk)
    return kept


def named(path: Path, word: str) -> Iterator[Path]:
    """`01a.new.ipynb`, `01a.new1.ipynb`, ... beside `01a.ipynb`."""
    return (path.with_name(f"{path.stem}.{word}{number or ''}.ipynb") for number in count_from(0))


def count(paths: list[Path]) -> str:
    return f"{len(paths)} notebook{'s' if len(paths) != 1 else ''}"


def as_copied(original: NotebookNode) -> NotebookNode:
    """A new copy of a shipped notebook: the same cells, nothing run yet."""
    new = copy.deepcopy(original)
    for cell in new.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    fold_answers(new)
    new.metadata[RECORD] = hash_of(new)
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


def hash_of(notebook: NotebookNode) -> str:
    """A hash of what a learner can change in the cells by hand; what JupyterLab adds to the metadata does not count."""
    cells = [[cell.get("id"), cell.cell_type, cell.source, cell.metadata.get("tags", [])] for cell in notebook.cells]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def is_untouched(mine: NotebookNode) -> bool:
    """Whether a copy has the cells it was made with and no output."""
    return mine.metadata[RECORD] == hash_of(mine) and not any(cell.get("outputs") for cell in mine.cells)


def is_copy_of(new: NotebookNode, path: Path) -> bool:
    """Whether the file is a copy of the same notebook as `new`, touched or not."""
    try:
        return bool(notebooks.load(path).metadata.get(RECORD) == new.metadata[RECORD])
    except KitError:
        return False


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
