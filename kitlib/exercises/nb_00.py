"""The exercises of notebook 00: a knob that mends the first loss, the six words, and the player."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, knobs_for, some_of, told, whole_number
from kitlib.experiments import get, run
from kitlib.monitor.delivery import ANOMALIES, judge
from kitlib.trace import Step, from_ranges

# The notebook's first loss: the worker dies before its first commit, and one record arrives while it is down.
STORY: dict[str, Any] = {"records": 5, "process_ms": 5, "max_spout_pending": 1, "crash_at_ms": 45, "records_while_down": 1}
STUCK: dict[str, Any] = {"stuck_offset": 5}
SCRUBBED: dict[str, Any] = {"seed": 3, "process_ms": 100}

ABSENT = {  # what the count 0 of each word says
    "lost": "every record is processed in the end",
    "duplicated": "no record was processed more than once",
    "reordered": "no record was processed for the first time after a higher offset",
    "skipped": "the second start jumped over no record that was never handed out",
    "stalled": "the committed offset never stood still for five commits while records waited",
    "rewound": "neither the committed offset nor the reading position went back",
}


def check_mend_the_crash(answer: Any) -> str:
    """One knob, the story untouched, every record processed: the experiment tells."""
    knobs = knobs_for("restart", answer)
    for name in knobs:
        if name in STORY or name == "max_steps":
            raise NotYet(f"{name} belongs to the story and stays as it is.", "Turn a knob of the spout instead.")
    if len(knobs) != 1:
        raise NotYet(f"this turns {len(knobs)} knobs, and one is enough.")
    name, value = next(iter(knobs.items()))
    default = next(knob.default for knob in get("restart").knobs if knob.name == name)
    if value == default:
        raise NotYet(f"{name} is {value} already, that is its default.")
    verdict = judge(run("restart", **STORY, **knobs))
    if verdict.processed < verdict.appended:
        why = verdict.first("lost").reason
        raise NotYet(
            f"with {name}={value} only {verdict.processed} of {verdict.appended} records are processed"
            + (f" ({why})." if why else "."),
            "Ask what the second start finds when it looks for a stored offset.",
        )
    again = verdict.counts["duplicated"]
    price = f"its price: {again} records are processed twice." if again else "and none of them twice."
    return f"with {name}={value} all {verdict.appended} records are processed, {price}"


def check_name_the_anomalies(answer: Any) -> str:
    """The kinds that the verdict counts, no more and no less."""
    named = some_of(answer, ANOMALIES)
    verdict = judge(run("restart", **STUCK))
    there = {kind for kind, count in verdict.counts.items() if count}
    for kind in ANOMALIES:
        if kind in named - there:
            raise NotYet(
                f"'{kind}' does not occur: {ABSENT[kind]}.",
                "Every record that was on its way at the crash is handed out again."
                if kind in ("lost", "skipped")
                else "Compare with the counts of the verdict.",
            )
    missing = [kind for kind in ANOMALIES if kind in there - named]
    if missing:
        raise NotYet(
            f"what you name does occur, and so does something else ({len(missing)} more).",
            "Look at the verdict's count of each of the six words.",
        )
    told_counts = ", ".join(f"{verdict.counts[kind]} {kind}" for kind in ANOMALIES if kind in there)
    return f"{told_counts}, and every one of them is allowed by the settings."


def first_written_commit() -> Step:
    """The step of the scrubbed run at which a commit writes for the first time."""
    return next(step for step in run("happy_path", **SCRUBBED) if step.what == "commit" and step.data["written"])


def check_done_but_not_saved(answer: Any) -> str:
    """Records that are processed although they lie at or above the first committed offset."""
    number = whole_number(answer)
    step = first_written_commit()
    offset, processed = step.data["offset"], from_ranges(step.state["processed"])
    above = [done for done in processed if done >= offset]
    pending = sum(last - first + 1 for first, last in step.state["pending"])
    if number == len(above):
        return (
            f"{len(processed)} records are done, the commit says {offset}, and a crash now would repeat "
            f"{len(above)} of them."
        )
    if number == len(processed):
        raise NotYet(f"{number} records are processed in all, and some of them lie below the committed offset.")
    if number == offset:
        raise NotYet(f"{number} is the committed offset itself.", "Count what is done at or above it.")
    if number == pending:
        raise NotYet(f"{number} records are pending, and those are not done.", "Count the done ones instead.")
    raise NotYet(
        f"it is not {told(number)}.",
        f"Scrub to step {step.number}, the first commit that writes, and count the done boxes to the right of the "
        "committed offset.",
    )


EXERCISES = (
    Exercise(
        "mend_the_crash",
        "Turn **one** knob of the spout so that all six records are processed. The story itself stays as it is.",
        check_mend_the_crash,
        (
            "The verdict gives the reason of the loss: the second start found no stored offset.",
            "Either let something be stored before the crash, or tell the start where to begin without it.",
            "The knobs to look at are commit_every_ms and force_from_start.",
        ),
    ),
    Exercise(
        "name_the_anomalies",
        'Run `restart` with `stuck_offset=5` on the model. Which of the six words apply? Answer with a set, like `{"lost"}`.',
        check_name_the_anomalies,
        (
            "The second start finds a stored offset this time, and begins there.",
            "Two of the six words apply; one of them you have seen in happy_path.",
        ),
    ),
    Exercise(
        "done_but_not_saved",
        "In this run, go to the first commit that writes an offset. How many records are already processed at "
        "that moment, although they lie at or above the offset it writes?",
        check_done_but_not_saved,
        (
            "Scrub through the player, or look at `.data` and `.state` of the run's steps.",
            "The step's state has `processed` as ranges; count the offsets in them that the commit does not cover.",
        ),
    ),
)
