"""The way through the exercises: what was tried and passed, which hint comes next, and when a solution is shown.

Progress is kept in the workspace (`kitlib.lab.progress`), so it survives a kernel. A workspace that cannot be written to costs
the progress and nothing else: the check's own sentence is told all the same.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kitlib.errors import DiskError, KnobError
from kitlib.exercises.answers import as_text
from kitlib.exercises.frame import Exercise, Finding, unknown
from kitlib.exercises.prose import Answer, questions, to_explain
from kitlib.exercises.told import NOTE, Asking, Told, box
from kitlib.lab import progress
from kitlib.lab.progress import Progress

TRIES = 3  # different wrong answers after which a solution is shown
FEWEST_WORDS = 8  # of an explanation


def noted(finding: Finding) -> Finding:
    """The finding, with its try or success in the learner's progress. An answer that is not there is no try."""
    if not finding.mark:
        return finding
    try:
        now = progress.change(finding.exercise, lambda row: row.tried(finding.mark, finding.passed))
    except DiskError as error:
        return replace(finding, beside=f"(Your progress could not be kept: {error})")
    if finding.passed:
        return replace(finding, beside=f'`solution("{finding.exercise}")` discusses other ways.')
    return finding if now.passed or now.tries < TRIES else replace(finding, beside=f'`solution("{finding.exercise}")` is open now.')


def no_such(name: Any, known: Iterable[str]) -> Told:
    """The sentence about a name that none has."""
    said = unknown(str(name), known)
    return Told(said[:1].upper() + said[1:])


def next_hint(asked: Exercise) -> Told:
    """The first hint that has not been shown yet; after the last one all of them, and what is left to do."""
    count = len(asked.told.hints)
    shown = _row(asked.name).hints
    if shown >= count:
        open_now = f'`solution("{asked.name}")` shows a solution.'
        told = "\n\n".join(f"{number}. {text}" for number, text in enumerate(asked.told.hints, 1))
        return Told(f"You have seen all {count} hints.\n\n{told}\n\n{_locked(asked.name) or open_now}")
    return Told(f"Hint {shown + 1} of {count}: {hint_number(asked, shown + 1)}")


def hint_number(asked: Exercise, number: Any) -> Told:
    """One hint; a sentence when there is none of this number."""
    if type(number) is not int or number not in range(1, len(asked.told.hints) + 1):
        return Told(f"{asked.name} has no hint {as_text(number)}, only hints 1 to {len(asked.told.hints)}.")
    _change(asked.name, lambda row: replace(row, hints=max(row.hints, number)))
    return Told(asked.told.hints[number - 1])


@dataclass(frozen=True, slots=True)
class Solution:
    """A right answer and what else would do."""

    name: str
    code: str
    discussion: str

    def __repr__(self) -> str:
        return f"One solution of {self.name}:\n\n{textwrap.indent(self.code, '    ')}\n\n{self.discussion}"

    def _repr_html_(self) -> str:
        return box(NOTE, f"One solution of {self.name}:", "", self.discussion, code=self.code)


def solution_of(asked: Exercise) -> Solution | Told:
    """A right answer with its discussion, after a right answer or enough tries; else how many tries are left."""
    if locked := _locked(asked.name):
        return Told(locked)
    _change(asked.name, lambda row: replace(row, seen=True))
    return Solution(asked.name, asked.told.code, asked.told.text)


def explained(asked: Answer, text: Any) -> Told:
    """The model answer, once the learner has written one of their own."""
    words = len(text.split()) if isinstance(text, str) else 0
    if words < FEWEST_WORDS:
        so_far = f"Yours has {words} word{'' if words == 1 else 's'}" if words else "There is no text here"
        asking = Asking(f"{so_far}. Write your explanation as a text of {FEWEST_WORDS} words or more; then a model answer is shown.")
        asking.take = lambda written: explained(asked, written)
        return asking
    _change(asked.name, lambda row: replace(row, passed=True))
    return model_answer(asked)


def model_answer(asked: Answer) -> Told:
    """What an instructor would accept."""
    return Told(f"Compare yours with this one. Which point of it is missing, and is one of yours wrong?\n\n{asked.text}")


def explanation_of(asked: Answer) -> Told:
    """The model answer again, if the learner has written their own."""
    if not _row(asked.name).passed:
        return Told(f'Write your own first: explain("{asked.name}", "...") then shows a model answer.')
    return model_answer(asked)


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the course: an exercise or a question to explain, and how far the learner has come with it."""

    name: str
    notebook: str  # "04b"
    kind: str  # "exercise" or "explain"
    progress: Progress

    @property
    def question(self) -> str:
        """As the notebook asks it."""
        return questions(self.notebook)[self.name]

    @property
    def state(self) -> str:
        """In words."""
        if self.progress.passed:
            return "right" if self.kind == "exercise" else "written"
        tries = self.progress.tries
        return f"{tries} {'try' if tries == 1 else 'tries'}" if tries else "open"


def items(exercises: dict[str, Exercise]) -> list[Item]:
    """Every exercise and every question to explain, by notebook; in one, the exercises first. DiskError when progress may not be read."""
    rows = progress.load()
    asked = [(each.told.notebook, "exercise", each.name) for each in exercises.values()]
    asked += [(each.notebook, "explain", each.name) for each in to_explain().values()]
    asked.sort(key=lambda each: each[0])
    return [Item(name, notebook, kind, rows.get(name, Progress())) for notebook, kind, name in asked]


def number_of(asked: str) -> str:
    """The number that a notebook's name begins with: "02" of 2, "02b" of notebooks/02b_on_a_broker.ipynb; "" when there is none."""
    found = re.match(r"(\d{1,2})([a-z]?)(?![a-z0-9])", asked.rpartition("/")[2])
    return found[1].zfill(2) + found[2] if found else ""


def of_notebook(found: list[Item], asked: str) -> list[Item]:
    """Those of one notebook, by its number or its name, or of a chapter, by its two digits. KitError when it has none."""
    number = number_of(asked)
    its = [item for item in found if number and item.notebook.startswith(number)]
    if not its:
        known = ", ".join(dict.fromkeys(item.notebook for item in found))
        raise KnobError(f"no notebook {as_text(asked)} has exercises. Name one of {known}.")
    return its


def _locked(name: str) -> str:
    """Why the solution is not shown yet; empty when it is."""
    row = _row(name)
    left = TRIES - row.tries
    if row.passed or left <= 0:
        return ""
    count = "1 try is" if left == 1 else f"{left} tries are"
    return f"The solution of {name} is shown after a right answer or {TRIES} different tries; {count} left."


def _row(name: str) -> Progress:
    try:
        return progress.load().get(name, Progress())
    except DiskError:
        return Progress()


def _change(name: str, changed: Any) -> None:
    try:
        progress.change(name, changed)
    except DiskError:
        pass  # a hint is worth more than the note that it was given
