"""How far a learner has come with the exercises: one small file in the workspace (`kitlib.lab.kept_rows`).

A wrong answer is one try, however often its cell is run; an answer that is not there yet is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from kitlib.lab.kept_rows import KeptRows

MARKS_KEPT = 20  # of the last wrong answers of an exercise


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known of one exercise."""

    passed: bool = False  # once right, it stays right
    tries: int = 0  # different wrong answers before the first right one
    hints: int = 0  # how many of its hints have been shown; later ones follow
    seen: bool = False  # its solution or model answer has been shown
    marks: tuple[str, ...] = ()  # of the wrong answers, the newest last: a cell that is run again is no new try

    def tried(self, mark: str, passed: bool) -> Progress:
        """After one more checked answer."""
        if passed or self.passed or mark in self.marks:
            return replace(self, passed=self.passed or passed)
        return replace(self, tries=self.tries + 1, marks=(*self.marks, mark)[-MARKS_KEPT:])


KEPT = KeptRows("exercises.json", lambda row: Progress(**{**row, "marks": tuple(row["marks"])}))


load = KEPT.load


def change(name: str, changed: Callable[[Progress], Progress]) -> Progress:
    """Change what is known of one exercise; what it is now. DiskError when it cannot be read or written."""
    rows = load()
    before = rows.get(name, Progress())
    after = changed(before)
    if after != before:
        KEPT.save({**rows, name: after})
    return after


def forget(names: Collection[str]) -> int:
    """Forget these exercises; how many of them were known. DiskError when it cannot be written."""
    rows = load()
    left = {name: row for name, row in rows.items() if name not in names}
    if len(left) < len(rows):
        KEPT.save(left)
    return len(rows) - len(left)
