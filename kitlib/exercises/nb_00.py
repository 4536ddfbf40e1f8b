"""The exercises of notebook 00: a knob that prevents the first loss, and the six words."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.answers import HalfRight, NotYet, subset
from kitlib.exercises.frame import Given, Knobs, Rows, Turned, exercise
from kitlib.experiments import get, run
from kitlib.monitor.delivery import ANOMALIES, judge

# The notebook's first loss: the worker dies before its first commit, and one record arrives while it is down.
STORY: dict[str, Any] = {"records": 5, "process_ms": 5, "max_spout_pending": 1, "crash_at_ms": 45, "records_while_down": 1}
STUCK: dict[str, Any] = {"stuck_offset": 5}

ABSENT = {  # what the count 0 of each word says
    "lost": "every record is processed in the end",
    "duplicated": "no record was processed more than once",
    "reordered": "no record was first processed after a higher offset had been",
    "skipped": "the second start did not jump over any record that had not been emitted",
    "stalled": "the committed offset never stood still for five commits while records waited",
    "rewound": "neither the committed offset nor the reading position went back",
}


@exercise(Knobs("restart", story=STORY | {"max_steps": None}, exactly=1), solution={"force_from_start": True})
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


@exercise(Given(subset(*ANOMALIES)), solution={"duplicated", "reordered"})
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
