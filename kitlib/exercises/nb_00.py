"""The exercises of notebook 00: a knob that prevents the first loss, and the six words."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.answers import subset
from kitlib.exercises.frame import Given, Half, Knobs, Miss, Right, Rows, Turned, exercise
from kitlib.experiments import get, run
from kitlib.monitor.delivery import ANOMALIES, judge

# The notebook's first loss: the worker dies before its first commit, and one record arrives while it is down.
STORY: dict[str, Any] = {"records": 5, "process_ms": 5, "max_spout_pending": 1, "crash_at_ms": 45, "records_while_down": 1}
STUCK: dict[str, Any] = {"stuck_offset": 5}


@exercise(Knobs("restart", story=STORY | {"max_steps": None}, exactly=1))
def mend_the_crash(turned: Turned) -> Rows:
    [(name, value)] = turned.knobs.items()
    default = next(knob.default for knob in get("restart").knobs if knob.name == name)
    yield value == default and Miss("default", value=value, name=name)
    verdict = turned.verdict
    if verdict.processed < verdict.appended:
        why = verdict.first("lost").reason
        yield Miss("lost", turned=turned, verdict=verdict, because=f" ({why})" if why else "")
    again = verdict.counts["duplicated"]
    price = f"at a price: {again} records are processed twice." if again else "and none of them twice."
    yield Right(turned=turned, verdict=verdict, price=price)


@exercise(Given(subset(*ANOMALIES)))
def name_the_anomalies(named: set[str]) -> Rows:
    counts = judge(run("restart", **STUCK)).counts
    there = {kind for kind, count in counts.items() if count}
    for kind in ANOMALIES:
        yield kind in named - there and Miss(kind)
    missing = len(there - named)
    yield missing and named and Half("more", missing=missing)
    yield missing and Miss("none", missing=missing)
    yield Right(counted=", ".join(f"{counts[kind]} {kind}" for kind in ANOMALIES if kind in there))
