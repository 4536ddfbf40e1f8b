"""What a learner has predicted so far, in the whole course: one small file in the workspace (`kitlib.lab.kept_rows`).

Each prediction is kept under its own key, and its first answer is the one that counts, so a notebook can be run again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kitlib.lab.kept_rows import KeptRows

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


KEPT = KeptRows("predictions.json", lambda row: Answered(**row))


path, load, reset = KEPT.path, KEPT.load, KEPT.reset


def keep(key: str, answered: Answered) -> dict[str, Answered]:
    """Keep an answer, unless this prediction has one already; all that are kept then. DiskError when it cannot be written."""
    found = load()
    if key not in found:
        found[key] = replace(answered, **{name: getattr(answered, name)[:MOST_KEPT] for name in TEXTS})
        KEPT.save(found)
    return found


def score(answers: dict[str, Answered]) -> str:
    """How many were right: "7 of 9 right so far"."""
    return f"{sum(each.is_right for each in answers.values())} of {len(answers)} right so far"
