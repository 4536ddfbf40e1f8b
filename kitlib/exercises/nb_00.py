"""The exercises of notebook 00: a knob that prevents the first loss, the six words, and the player."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.answers import HalfRight, NotYet, as_text, subset, whole_number
from kitlib.exercises.frame import Given, Knobs, Rows, Turned, exercise
from kitlib.experiments import get, run
from kitlib.monitor.delivery import ANOMALIES, judge
from kitlib.trace import from_ranges

# The notebook's first loss: the worker dies before its first commit, and one record arrives while it is down.
STORY: dict[str, Any] = {"records": 5, "process_ms": 5, "max_spout_pending": 1, "crash_at_ms": 45, "records_while_down": 1}
STUCK: dict[str, Any] = {"stuck_offset": 5}
SCRUBBED: dict[str, Any] = {"seed": 3, "process_ms": 100}

ABSENT = {  # what the count 0 of each word says
    "lost": "every record is processed in the end",
    "duplicated": "no record was processed more than once",
    "reordered": "no record was first processed after a higher offset had been",
    "skipped": "the second start did not jump over any record that had not been emitted",
    "stalled": "the committed offset never stood still for five commits while records waited",
    "rewound": "neither the committed offset nor the reading position went back",
}


@exercise(
    "Turn **one** knob of the spout so that all six records are processed. The story itself stays as it is.",
    Knobs("restart", story=STORY | {"max_steps": None}, exactly=1),
    "The verdict gives the reason for the loss: the second start found no stored offset.",
    "Either make the spout store something before the crash, or tell the start where to begin without it.",
    "The knobs to look at are commit_every_ms and force_from_start.",
    solution={"force_from_start": True},
)
def mend_the_crash(turned: Turned) -> Rows:
    [(name, value)] = turned.knobs.items()
    default = next(knob.default for knob in get("restart").knobs if knob.name == name)
    yield value == default and NotYet(f"{value} is the default of {name}, so nothing changes.")
    verdict = turned.verdict
    if verdict.processed < verdict.appended:
        why = verdict.first("lost").reason
        yield NotYet(
            f"{turned.words} only {verdict.processed} of {verdict.appended} records are processed" + (f" ({why})." if why else "."),
            "What does the second start find when it looks for a stored offset?",
        )
    again = verdict.counts["duplicated"]
    price = f"at a price: {again} records are processed twice." if again else "and none of them twice."
    yield f"{turned.words} all {verdict.appended} records are processed, {price}"


@exercise(
    'Run `restart` with `stuck_offset=5` on the model. Which of the six words apply? Answer with a set, like `{"lost"}`.',
    Given(subset(*ANOMALIES)),
    "This time the second start finds a stored offset and begins there.",
    "Two of the six words apply; you have seen one of them in happy_path.",
    solution={"duplicated", "reordered"},
)
def name_the_anomalies(named: set[str]) -> Rows:
    counts = judge(run("restart", **STUCK)).counts
    there = {kind for kind, count in counts.items() if count}
    for kind in ANOMALIES:
        yield kind in named - there and NotYet(
            f"'{kind}' does not occur: {ABSENT[kind]}.",
            "Every record that was in flight at the crash is emitted again."
            if kind in ("lost", "skipped")
            else "Compare with the counts in the verdict.",
        )
    missing = len(there - named)
    look = "Look at the verdict's count for each of the six words."
    yield missing and named and HalfRight(f"what you name does occur, and so does something else ({missing} more).", look)
    yield missing and NotYet(f"you name none; {missing} apply.", look)
    yield f"{', '.join(f'{counts[kind]} {kind}' for kind in ANOMALIES if kind in there)}, and the settings explain every one of them."


@exercise(
    "In this run, go to the first commit that writes an offset. How many records are already processed at "
    "that moment, although they lie at or above the offset it writes?",
    Given(whole_number),
    "Scrub through the player, or look at `.data` and `.state` of the run's steps.",
    "The step's state has `processed` as ranges; count the offsets in them that the commit does not cover.",
    solution=6,
)
def done_but_not_saved(number: int) -> Rows:
    step = next(step for step in run("happy_path", **SCRUBBED) if step.what == "commit" and step.data["written"])
    offset, processed = step.data["offset"], from_ranges(step.state["processed"])
    above = sum(done >= offset for done in processed)
    pending = sum(last - first + 1 for first, last in step.state["pending"])
    if number != above:
        yield number == len(processed) and NotYet(f"{number} is all processed records, and some of them lie below the committed offset.")
        yield number == offset and NotYet(f"{number} is the committed offset itself.", "Count what is processed at or above it.")
        yield number == pending and NotYet(f"{number} records are pending, which means not processed.", "Count the processed ones.")
        yield NotYet(
            f"it is not {as_text(number)}.",
            f"Scrub to step {step.number}, the first commit that writes, and count the done boxes to the right of the committed offset.",
        )
    yield f"{len(processed)} records are processed, the commit says {offset}, and a crash now would repeat {above} of them."
