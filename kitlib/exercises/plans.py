"""A workshop's plans, and the page that its leader reads: when, what is asked, what is right, and what wrong answers to expect.

The plans are lines of `plans.md`, beside this file. Questions and answers are not kept here: they are the notebooks' and the
checks' own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitlib.errors import KnobError
from kitlib.exercises import exercises
from kitlib.exercises.course import code_of, number_of
from kitlib.exercises.frame import find
from kitlib.exercises.instructor import by_section, lines_of, sections_of
from kitlib.lab import jupyter, notebooks

DAYS = {"two": ("two-1", "two-2")}

# Answers that groups give, of each exercise of a plan; what the check says to them is on the leader's page.
WRONG: dict[str, tuple[Any, ...]] = {
    "what_is_committed": (6, 8, 7),
    "cheap_restart": ({"max_offset_behind": 5}, {"process_ms": 1000}),
    "smallest_bound": (249, 251),
    "stop_the_partition": ({"max_spout_pending": 2}, {"fetch_records": 1}),
    "which_clock": (["session", "nobody", "session", "session"], ["poll", "poll", "session", "session"]),
    "how_many_copies": ([1, 1, 1, 1], [2, 2, 1, 2], [1, 2, 1, 1]),
    "safe_kill": ({"retries": 0}, {"max_in_flight": 2}),
    "order_in_log": ([0, 1, 2, 3, 4, 5], [0, 2, 1, 3, 4, 5]),
    "safe_follower": ({"replicas": 2, "min_insync_replicas": 2}, {"replicas": 3}),
    "load_speed": (3, 5),
    "which_rule": (["OK", "STALL", "OK", "STOP", "REWIND", "OK"], ["WARN", "WARN", "OK", "STOP", "REWIND", "OK"]),
}
# What the leader should know beside questions and answers.
NOTES = {
    "13a": "It starts three brokers (770 MB): run it on your screen and let the group vote. Where a laptop has 8 GB, they can run it too.",
    "02b": "The first cell with Spark takes half a minute. Start it, then read the question aloud.",
}


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


def page_of_plan(name: str) -> str:
    """The leader's page of a plan, as Markdown. KitError when there is none of that name."""
    known = [*(each for each in PLANS if each.partition("-")[0] not in DAYS), *DAYS]
    if name not in known:
        raise KnobError(f"there is no plan {name[:40]!r}. The plans are {', '.join(known)}.")
    return "\n\n".join(text for plan in DAYS.get(name, (name,)) for text in _texts(plan)) + "\n"


def _texts(plan: str) -> Iterator[str]:
    title, _, rows = PLANS[plan]
    yield f"# {title}"
    yield "For the leader: this page has the answers, so do not show it."
    at, table, bodies = 0, ["| from | minutes | what |", "| --- | --- | --- |"], []
    for row in rows:
        heading, *body = _body(row)
        table.append(f"| {at // 60}:{at % 60:02} | {row.minutes} | {heading} |")
        if body:
            bodies += [f"## {at // 60}:{at % 60:02}, {row.minutes} minutes: {heading}", *body]
        at += row.minutes
    yield "\n".join(table)
    yield from bodies


def _body(row: Row) -> Iterator[str]:
    """What is done, and then paragraphs about it."""
    if row.seed is not None:
        yield f"Incident room: `kit incident --seed {row.seed}`"
        yield "Teams of three, one folder each: one reads the logs, one the metrics, one writes the report."
        yield f"They may run `kit incident --check` as often as they like. For you: `kit incident --seed {row.seed} --answers`."
        return
    if not row.notebook:
        yield row.text
        return
    if row.is_exercise:
        exercise = exercises()[row.part]
        yield f"{row.notebook}, exercise `{row.part}`"
        yield f"**Asked:** {exercise.question}"
        yield f"**Right:**\n\n```python\n{code_of(exercise)}\n```"
        yield f"**Why:** {exercise.discussion}"
        yield "**Wrong answers to expect:**\n\n" + "\n".join(f"* `{answer}`: {find(exercise, answer).said}" for answer in WRONG[row.part])
        return
    cells = notebooks.load(notebook_of(row)).cells
    parts = sections_of(cells)
    at, found = next((at, part) for at, part in enumerate(parts) if part.title == row.part or part.title.startswith(f"{row.part}. "))
    yield f"{row.notebook}, *{found.title}*"
    if row.notebook in NOTES:
        yield NOTES[row.notebook]
    for asked in by_section(parts, cells)[at]:
        yield from lines_of(asked)


def notebook_of(row: Row) -> Path:
    """The file of a row's notebook."""
    return next(path for path in notebooks.find(jupyter.project_dir()) if number_of(path.stem) == row.notebook)
