"""A topology under load, over time: is the work that is done still worth something?

A run that is too long to be followed tuple by tuple writes down its counts every few seconds. `kitlib.views.plot` draws them:
what the bolts work through beside what is acked in time, what waits for them beside what one timeout's work is, and the trees
that time out.
"""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.trace import Trace

QUESTION = "Is the work that is done still worth something?"


@dataclass(frozen=True, slots=True)
class Sample:
    """What was counted at one moment; rates are per second since the sample before."""

    step: int
    at_ms: int
    executed: float
    acked: float
    failed: float
    late: float
    queue: int
    pending: int


def to_samples(trace: Trace) -> list[Sample]:
    """The samples of a trace; the totals in it become rates."""
    found: list[Sample] = []
    before, before_ms = dict.fromkeys(("executed", "acked", "failed", "late"), 0), 0
    for step in trace.steps:
        if step.what != "sample":
            continue
        data, seconds = step.data, max(1, step.at_ms - before_ms) / 1000
        rates = {name: (data[name] - total) / seconds for name, total in before.items()}
        found.append(Sample(step.number, step.at_ms, **rates, queue=data["queue"], pending=data["pending"]))
        before, before_ms = {name: data[name] for name in before}, step.at_ms
    return found


def bearable(trace: Trace) -> int | None:
    """How many tuples the one bolt works through in a timeout; None where no single bolt sets the pace."""
    told = trace.settings
    execute_ms, timeout_secs, tasks = told.execute_ms, told.topology_message_timeout_secs, told.parallelism
    if told.depth != 0 or not all(isinstance(value, int) for value in (execute_ms, timeout_secs, tasks)):
        return None
    return timeout_secs * 1000 * tasks // execute_ms if execute_ms else None
