"""The incident room: a folder with all that is known of an incident and a report to fill in, and the check of that report.

The folder holds the seed and not the answers: the check tells the story again and compares.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from kitlib.errors import KnobError, TraceError
from kitlib.exercises.incidents import CAUSES, CHANGES, HARM, MINUTES, Incident, incident
from kitlib.lab import workspace
from kitlib.text import plain_text

REPORT, NOTE = "report.toml", "incident.json"
LARGEST_FILE = 100_000  # bytes of a report
NEAR, FAR = 0.01, 0.1  # a moment that is off by less than this share of the incident is right, or half right
NEAR_MS = 1_000  # or by this much, whatever the incident's length, up to half of what is half right
COUNT_FAR = 0.2  # a count within this share is half right
NEARBY = 10  # lines on each side of the proof, in the last hint
RIGHT, HALF, WRONG, OPEN = "right", "half right", "wrong", "not answered"


class Answer(NamedTuple):
    """What the check says of one line of the report."""

    name: str
    grade: str  # RIGHT, HALF, WRONG or OPEN
    said: str

    def __str__(self) -> str:
        return f"{self.name:10}  {self.grade:12}  {self.said}".rstrip()


def brief(found: Incident) -> str:
    """The page that a team reads first."""
    first, last = found.trace.steps[0].at_ms, found.trace.steps[-1].at_ms
    logs = "\n".join(f"* `logs/{name}`, {len(rows)} lines" for name, rows in sorted(found.lines.items()))
    told = {"seed": found.seed, "page": found.kind.page, "begin": found.clock(first), "end": found.clock(last), "report": REPORT}
    told |= {"difficulty": found.difficulty, "minutes": MINUTES[found.difficulty]}
    return _template("incident.md").format(logs=logs, **told)


def form(answers: dict[str, Any] | None = None) -> str:
    """The report to fill in; with `answers`, filled in."""
    names = ("cause", "began", "evidence", *HARM, "change")
    given = dict.fromkeys(names, "") | dict.fromkeys(HARM, -1) | (answers or {})
    causes = "\n".join(f"#   {name}: {cause.said}" for name, cause in CAUSES.items())
    changes = "\n".join(f"#   {name}" for name in CHANGES)
    return _template("incident_report.toml").format(causes=causes, changes=changes, **{name: json.dumps(given[name]) for name in names})


def _template(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def solved(found: Incident) -> dict[str, Any]:
    """A report that is right."""
    cure = next(name for name, left in found.changes.items() if left is not None and not any(left.values()))
    told = {"cause": found.kind.cause, "began": found.clock(found.first.at_ms), "evidence": found.where(found.kind.proof)}
    return {**told, **found.counts, "change": cure}


def make(seed: int, folder: Path) -> Incident:
    """Write the folder of an incident, whole or not at all. KitError when it is there already; DiskError when it cannot be written."""
    found = incident(seed)
    if folder.exists():
        raise KnobError(f"{folder} is there already, perhaps with a report in it. Delete it, or name another folder with --out.")
    files = {"README.md": brief(found), REPORT: form(), "settings.properties": found.settings(), "metrics.csv": found.metrics()}
    files |= {"health.csv": found.health(), "topic.csv": found.contents(), NOTE: json.dumps({"seed": seed}) + "\n"}
    files |= {f"logs/{name}": "".join(f"{line}\n" for _, line in rows) for name, rows in found.lines.items()}
    try:
        (folder / "logs").mkdir(parents=True)
        for name, text in files.items():
            if text:
                (folder / name).write_text(text, encoding="utf-8")
    except BaseException as error:  # Ctrl-C among them
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise workspace.disk_error(f"{folder} could not be written", error, folder) from error
        raise
    return found


def check(folder: Path) -> tuple[list[Answer], int]:
    """What is right in the report of a folder, and how many hints the folder has given. KitError if it cannot be read."""
    found, note = _noted(folder)
    report = _read(folder / REPORT, tomllib.loads)
    judges = {"cause": _cause, "began": _began, "evidence": _evidence, **dict.fromkeys(HARM, _count), "change": _change}
    return [graded(name, report.get(name), judged, found) for name, judged in judges.items()], note["hints"]


def hint(folder: Path) -> str:
    """The next hint about a folder's incident, which is remembered there; the last one again when all have been given."""
    found, note = _noted(folder)
    name, _, line = found.where(found.kind.proof).partition(":")
    first, last = max(1, int(line) - NEARBY), min(len(found.lines[name]), int(line) + NEARBY)
    hints = [
        f"the harm begins at {found.clock(found.harmed.at_ms)}. What happened just before it?",
        f"it began in this part of the system: {CAUSES[found.kind.cause].family}. Read logs/{name}.",
        f"a line that proves it is one of the lines {first} to {last} of logs/{name}.",
    ]
    note["hints"] = min(note["hints"] + 1, len(hints))
    workspace.write_atomic(folder / NOTE, json.dumps(note) + "\n")
    return f"Hint {note['hints']} of {len(hints)}: {hints[note['hints'] - 1]}"


def _noted(folder: Path) -> tuple[Incident, dict[str, Any]]:
    """The incident of a folder and the note about it."""
    note = _read(folder / NOTE, json.loads)
    if not isinstance(note, dict) or type(note.get("seed")) is not int:
        raise KnobError(f"{folder / NOTE} names no seed. Make the incident again with `kit incident --seed N`.")
    hints = note.get("hints")
    return incident(note["seed"]), note | {"hints": hints if type(hints) is int and hints > 0 else 0}


def graded(name: str, given: Any, judged: Any, found: Incident) -> Answer:
    """One line of the report; an answer of another type or from no list is told so."""
    if given is None or given == "" or given == -1:
        return Answer(name, OPEN, "")
    if type(given) is not (int if name in HARM else str):
        return Answer(name, WRONG, f"expected {'a number' if name in HARM else 'a text in quotes'}, got {plain_text(repr(given), 60)}.")
    grade, said = judged(name, given, found)
    return Answer(name, grade, said)


def _cause(_: str, given: str, found: Incident) -> tuple[str, str]:
    if given not in CAUSES:
        return WRONG, f"{plain_text(repr(given), 60)} is none of the list."
    if given == found.kind.cause:
        return RIGHT, f"{CAUSES[given].said}."
    if CAUSES[given].family == CAUSES[found.kind.cause].family:
        return HALF, "the right part of the system. Which line of the logs would this cause have written, and is it there?"
    return WRONG, "no line of the logs shows it. Which lines differ from those of every day?"


def _began(_: str, given: str, found: Incident) -> tuple[str, str]:
    try:
        moment = datetime.fromisoformat(given.strip())
    except ValueError:
        return WRONG, f"{plain_text(repr(given), 60)} is no moment. Copy one from a log, such as {found.clock(found.trace.steps[0].at_ms)}."
    after_ms = (moment.replace(tzinfo=UTC) - found.start) / timedelta(milliseconds=1) - found.first.at_ms
    length_ms = found.trace.steps[-1].at_ms - found.trace.steps[0].at_ms
    if abs(after_ms) <= max(NEAR * length_ms, min(NEAR_MS, FAR * length_ms / 2)):
        return RIGHT, f"it began at {found.clock(found.first.at_ms)}."
    told = f"it began {'before' if after_ms > 0 else 'after'} that."
    return (HALF, f"near; {told}") if abs(after_ms) <= FAR * length_ms else (WRONG, told)


def _evidence(_: str, given: str, found: Incident) -> tuple[str, str]:
    line = found.line(given)
    if line is None:
        return WRONG, f"there is no line {plain_text(repr(given), 60)}. Write FILE:LINE, such as {min(found.lines)}:1."
    step, text = line
    if step is not None and found.kind.proof(step):
        return RIGHT, text
    if step is not None and found.kind.trace_of(step):
        return HALF, f"a part of it, but not what shows the cause: {text}"
    return WRONG, f"this would stand there without the incident too: {text}"


def _count(name: str, given: int, found: Incident) -> tuple[str, str]:
    right = found.counts[name]
    if given == right:
        return RIGHT, found.verdict.first(name).reason if right and name in found.verdict.kinds else ""
    if abs(given - right) <= COUNT_FAR * right:
        return HALF, "nearly."
    return WRONG, "there are more." if given < right else "there are fewer." if right else "there are none."


def _change(_: str, given: str, found: Incident) -> tuple[str, str]:
    if given not in CHANGES:
        return WRONG, f"{plain_text(repr(given), 60)} is none of the list."
    left, before = found.changes[given], found.counts
    if left is None:
        return WRONG, "the part of the system where it happened knows no such setting."
    if not any(left.values()):
        return RIGHT, "run again with it: nothing is lost, duplicated or reordered."
    if sum(left.values()) < sum(before.values()):
        return HALF, "run again with it: some of the harm remains."
    return WRONG, "run again with it: as much harm is done."


def _read(path: Path, parse: Any) -> Any:
    try:
        return parse(workspace.read_regular(path, LARGEST_FILE))
    except OSError as error:
        raise KnobError(f"{path} could not be read ({error.strerror}). Name the folder that `kit incident --seed N` made.") from error
    except (ValueError, RecursionError) as error:  # TOML's and JSON's errors, and text that is no UTF-8
        raise TraceError(f"{path} cannot be understood: {plain_text(error, 200)}. Correct that line.") from error
