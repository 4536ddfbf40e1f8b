"""A workshop's plans, and the page that its leader reads: when, what is asked, what is right, and what wrong answers to expect.

A line of a plan is its minutes and what is done: `07a: 1` is that section of that notebook, `07c! how_many_copies` that
exercise, `incident 9` the incident room with that seed, and anything else a sentence. Questions and answers are not kept
here: they are the notebooks' and the checks' own.
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

PLANS = {
    "90": ("90 minutes: can Kafka lose my record?", 90, """
        5 Welcome: who has lost a record, and how did you learn of it?
        8 00: A first loss
        9 00: The desk
        4 00: The verdict
        24 07a: 1
        4 Break
        13 13a: 1
        18 incident 0
        5 What to keep: each says one setting that they will look up tomorrow
    """),
    "half": ("Half a day: lost, doubled, out of order", 240, """
        8 Welcome: who has lost a record, and how did you learn of it?
        8 00: A first loss
        12 00: The desk
        5 00: The verdict
        8 01a: 1
        6 01a! what_is_committed
        10 01a: 3
        8 01a! cheap_restart
        15 Break
        25 07a: 1
        9 08a: 1
        8 08a! order_in_log
        17 08b: 1
        12 Break
        16 13a: 1
        6 13a! safe_follower
        46 incident 9
        15 Each team shows the one line that proves it, and the change that would have prevented it
        6 What to keep: each says one setting that they will look up tomorrow
    """),
    "day": ("One day: the three mechanisms", 420, """
        10 Welcome: who has lost a record, and how did you learn of it?
        8 00: A first loss
        14 00: The desk
        5 00: The verdict
        10 01a: 1
        10 01a: 3
        8 01a! cheap_restart
        15 Break
        8 02a: 1
        20 02a: 2
        6 02a! smallest_bound
        12 02b: 1
        15 02b: 3
        8 02c! stop_the_partition
        60 Lunch
        12 04b: 1
        12 04b: 2
        8 04b: 3
        25 07a: 1
        15 Break
        9 08a: 1
        8 08a! order_in_log
        20 08b: 1
        10 08c: 4
        52 incident 1
        15 Each team shows the one line that proves it, and the change that would have prevented it
        10 Back to the desk: each team turns one knob, says first what Spark will count, and is right or learns why
        15 What to keep: three sentences a team
    """),
    "two-1": ("Two days, day 1: consumers", 420, """
        10 Welcome: who has lost a record, and how did you learn of it?
        8 00: A first loss
        14 00: The desk
        5 00: The verdict
        8 01a: 1
        6 01a! what_is_committed
        10 01a: 3
        8 01a! cheap_restart
        15 Break
        8 02a: 1
        20 02a: 2
        6 02a! smallest_bound
        12 02b: 1
        15 02b: 3
        12 02c: 1
        8 02c! stop_the_partition
        55 Lunch
        12 04b: 1
        12 04b: 2
        20 10a: 1
        9 10a: 2
        15 Break
        18 10b: 1
        22 10c: 1
        8 10c! which_clock
        47 incident 11
        15 Each team shows the one line that proves it, and the change that would have prevented it
        22 What to keep: three sentences a team, on the wall until tomorrow
    """),
    "two-2": ("Two days, day 2: producers, and being on call", 420, """
        10 Yesterday's sentences: which would you change?
        28 07a: 1
        8 07c! how_many_copies
        11 07b: 1
        10 07c: 1
        8 07c! safe_kill
        15 Break
        9 08a: 1
        16 08a: 2
        8 08a! order_in_log
        20 08b: 1
        10 08c: 4
        18 15a: 1
        10 15a: 2
        55 Lunch
        16 13a: 1
        6 13a! safe_follower
        20 12a: 1
        15 12a: 2
        6 12b! load_speed
        15 Break
        8 14a: 1
        6 14a: 2
        8 14a! which_rule
        54 incident 3
        15 Each team shows the one line that proves it, and the change that would have prevented it
        15 What to keep: each says one setting that they will look up tomorrow
    """),
}  # fmt: skip
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


def rows_of(plan: str) -> list[Row]:
    """A plan's lines."""
    return [Row.of(line) for line in PLANS[plan][2].strip().splitlines()]


def page_of_plan(name: str) -> str:
    """The leader's page of a plan, as Markdown. KitError when there is none of that name."""
    known = [*(each for each in PLANS if each.partition("-")[0] not in DAYS), *DAYS]
    if name not in known:
        raise KnobError(f"there is no plan {name[:40]!r}. The plans are {', '.join(known)}.")
    return "\n\n".join(text for plan in DAYS.get(name, (name,)) for text in _texts(plan)) + "\n"


def _texts(plan: str) -> Iterator[str]:
    title, _, _ = PLANS[plan]
    yield f"# {title}"
    yield "For the leader: this page has the answers, so do not show it."
    at, table, bodies = 0, ["| from | minutes | what |", "| --- | --- | --- |"], []
    for row in rows_of(plan):
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
