"""A workshop's plans, and the page that its leader reads: when, what is asked, what is right, and what wrong answers to expect.

The plans are lines of `plans.md`, beside this file. Questions and answers are not kept here: they are the notebooks' and the
checks' own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitlib.errors import KnobError
from kitlib.exercises import exercises
from kitlib.exercises.course import number_of
from kitlib.exercises.frame import Exercise, find
from kitlib.exercises.instructor import by_section, lines_of, sections_of, template
from kitlib.lab import jupyter, notebooks

DAYS = {"two": ("two-1", "two-2")}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a plan."""

    minutes: int
    text: str  # as it stands there
    notebook: str = ""  # "07a"; "" for a sentence and for the incident room
    part: str = ""  # of it: the number or title of a section, or the name of an exercise
    is_exercise: bool = False
    seed: int | None = None  # of the incident

    @classmethod
    def of(cls, line: str) -> Row:
        minutes, _, text = line.strip().partition(" ")
        if told := re.fullmatch(r"(\d\d[a-z]?)(:|!) (.+)", text):
            return cls(int(minutes), text, told[1], told[3], told[2] == "!")
        seed = re.fullmatch(r"incident (\d+)", text)
        return cls(int(minutes), text, seed=int(seed[1]) if seed else None)


def _plans() -> Iterator[tuple[str, tuple[str, int, list[Row]]]]:
    """Each plan's name with its title, its minutes and its lines."""
    for section in Path(__file__).with_suffix(".md").read_text(encoding="utf-8").split("\n## ")[1:]:
        head, *lines = section.splitlines()
        name, minutes, title = re.split(r" \((\d+) minutes\): ", head)
        yield name, (title, int(minutes), [Row.of(line[2:]) for line in lines if line.startswith("* ")])


PLANS = dict(_plans())
PAGE = template("plan.md")


def page_of_plan(name: str) -> str:
    """The leader's page of a plan, as Markdown. KitError when there is none of that name."""
    known = [*(each for each in PLANS if each.partition("-")[0] not in DAYS), *DAYS]
    if name not in known:
        raise KnobError(f"there is no plan {name[:40]!r}. The plans are {', '.join(known)}.")
    pages = (PAGE.render(title=PLANS[plan][0], rows=list(_told(PLANS[plan][2]))).rstrip() for plan in DAYS.get(name, (name,)))
    return "\n\n".join(pages) + "\n"


def _told(rows: list[Row]) -> Iterator[dict[str, Any]]:
    """What the page says of each row: when it is, and of an exercise or a section what is asked and what is right."""
    at = 0
    for row in rows:
        told: dict[str, Any] = {"row": row, "at": f"{at // 60}:{at % 60:02}", "lines": []}
        if row.is_exercise:
            exercise = exercises()[row.part]
            wrong = {str(answer): find(exercise, answer).said for answer in often(exercise)}
            told |= {"asked": exercise.told, "wrong": wrong}
        elif row.notebook:
            cells = notebooks.load(notebook_of(row)).cells
            parts = sections_of(cells)
            asked = zip(parts, by_section(parts, cells), strict=True)
            found, its = next((part, its) for part, its in asked if part.title == row.part or part.title.startswith(f"{row.part}. "))
            told |= {"section": found.title, "lines": [line for each in its for line in lines_of(each)]}
        yield told
        at += row.minutes


def often(exercise: Exercise) -> tuple[Any, ...]:
    """Wrong answers that groups give, as they stand in `notebooks/answers`; what the check says to them is on the leader's page."""
    return tuple(ast.literal_eval(f"[{exercise.told.says['often']}]"))


def notebook_of(row: Row) -> Path:
    """The file of a row's notebook."""
    return next(path for path in notebooks.find(jupyter.project_dir()) if number_of(path.stem) == row.notebook)
