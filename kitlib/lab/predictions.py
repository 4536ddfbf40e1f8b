"""What a learner has predicted so far, in the whole course: one small file in the workspace.

Each prediction is kept under its own key, and its first answer is the one that counts, so a notebook can be run again.
A file that cannot be read is put aside, as a score is not worth a notebook that stops.

Left out: two kernels that keep an answer within the same millisecond; the later one wins.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kitlib.errors import DiskError
from kitlib.lab import workspace

SCHEMA = 1
MOST_KEPT = 2_000  # characters of one field
TEXTS = ("experiment", "question", "answer", "truth")


@dataclass(frozen=True, slots=True)
class Answered:
    """One prediction and what came of it, as text."""

    experiment: str
    question: str
    answer: str
    truth: str
    is_right: bool


def path() -> Path:
    """The file; it may not exist."""
    return workspace.home() / "predictions.json"


def load() -> dict[str, Answered]:
    """All predictions that have been answered, by key, the oldest first. A file that cannot be read is put aside; then there are none.

    DiskError when the file is there and may not be read.
    """
    place = path()
    try:
        text = place.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except UnicodeDecodeError:
        text = ""
    except OSError as error:
        told = f"{place}: the predictions cannot be read ({error.strerror or error})"
        raise DiskError(f"{told}. Set KIT_HOME to a folder of yours.") from error
    try:
        row = json.loads(text)
        if row["schema"] != SCHEMA:
            raise ValueError("another schema")
        return {str(key): _answered(each) for key, each in row["answers"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        _put_aside(place)
        return {}


def _answered(row: Any) -> Answered:
    texts = {name: row[name] for name in TEXTS}
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(row["is_right"], bool):
        raise TypeError("not an answer")
    return Answered(**texts, is_right=row["is_right"])


def _put_aside(place: Path) -> None:
    try:
        os.replace(place, place.with_name(f"{place.name}.damaged"))
    except OSError:
        pass  # the next answer replaces it


def keep(key: str, answered: Answered) -> dict[str, Answered]:
    """Keep an answer, unless this prediction has one already; all that are kept then. DiskError when it cannot be written."""
    found = load()
    if key not in found:
        short = {name: getattr(answered, name)[:MOST_KEPT] for name in TEXTS}
        found[key] = Answered(**short, is_right=answered.is_right)
        rows = {each: asdict(row) for each, row in found.items()}
        workspace.write_atomic(path(), json.dumps({"schema": SCHEMA, "answers": rows}, indent=1, ensure_ascii=False) + "\n")
    return found


def reset() -> int:
    """Forget all answers; how many there were. DiskError when the file cannot be removed."""
    count = len(load())
    try:
        path().unlink(missing_ok=True)
    except OSError as error:
        raise DiskError(f"{path()}: it cannot be removed ({error.strerror or error}). Set KIT_HOME to a folder of yours.") from error
    return count


def score(answers: dict[str, Answered]) -> str:
    """How many were right: "7 of 9 right so far"."""
    return f"{sum(each.is_right for each in answers.values())} of {len(answers)} right so far"
