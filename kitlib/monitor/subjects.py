"""What a run was about that followed no record: tasks and rebalances, restored state, the size of a log.

A verdict counts what happened to records. Where none was followed it says what the run did to its own subject
instead: for Connect and Streams who was without an owner for how long, for the offsets topic what a load has to read.
A run that was cut before its last step says nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.trace import Trace
from kitlib.words.template import count

MOST_NAMED = 2  # tasks that a sentence names


def subject_of(trace: Trace) -> str:
    """What the run did, as sentences; empty where its domain has no subject but its records, or it has no result."""
    last = trace.steps[-1].data if trace.steps else {}
    tell = SUBJECTS.get(trace.domain)
    return tell(trace, last) if tell and trace.steps[-1].what in ("idle", "result", "part") else ""


def _connect(trace: Trace, last: dict[str, Any]) -> str:
    told = f"{_run_on(trace, last['tasks'], 'worker')} after {_rebalances(trace, 'sync')}"
    told += f"; {count(len(last['moved']), 'task')} moved. " if "moved" in last else ". "
    waited = [step.data["delay_ms"] for step in trace if step.what == "delay"]
    rest, longest_ms = "", max(waited, default=0)
    if waited and last["longest_ms"] >= longest_ms:
        rest = f" {longest_ms / 1_000:,g} s of that is scheduled.rebalance.max.delay.ms."
    return told + _longest(last["tasks"]) + rest


def _streams(trace: Trace, last: dict[str, Any]) -> str:
    told = f"{_run_on(trace, last['tasks'], 'instance')} after {_rebalances(trace, 'assigned')}; "
    told += f"{count(last['restored'], 'record')} restored, {last['threads_idle']} of {count(last['threads'], 'thread')} idle. "
    return told + _longest(last["tasks"]) + _queries(trace)


def _run_on(trace: Trace, tasks: list[list[Any]], one: str) -> str:
    """`6 tasks on 2 workers`: those that started and have neither left nor died since."""
    up: set[str] = set()
    for step in trace:
        if step.what == "start" and step.actor != "group":
            up.add(step.actor)
        elif step.what in ("kill", "leave"):
            up.discard(step.actor)
    return f"{count(len(tasks), 'task')} on {count(len(up), one)}"


def _rebalances(trace: Trace, word: str) -> str:
    return count(sum(step.what == word and step.actor == "group" for step in trace), "rebalance")


def _longest(tasks: list[list[Any]]) -> str:
    longest = max((ms for _, ms in tasks), default=0)
    if not longest:
        return "No task was ever without an owner."
    names = [str(name) for name, ms in tasks if ms == longest]
    some = "all" if len(names) == len(tasks) else f"{len(names)} of"
    who = " and ".join(names) if len(names) <= MOST_NAMED else f"{some} {count(len(tasks), 'task')}"
    return f"Longest without an owner: {who}, {longest / 1_000:,g} s."


def _queries(trace: Trace) -> str:
    asked = [step.data for step in trace if step.what == "ask"]
    if not asked:
        return ""
    right = sum(each["outcome"] == "value" and not each["behind"] for each in asked)
    old = sum(each["outcome"] == "value" and each["behind"] > 0 for each in asked)
    null = sum(each["outcome"] == "null" for each in asked)
    parts = ((right, "right"), (old, "outdated"), (null, "null"), (len(asked) - right - old - null, "refused or unanswered"))
    return f" {count(len(asked), 'query', 'queries')} = {' + '.join(f'{number} {what}' for number, what in parts if number)}."


SUBJECTS: dict[str, Callable[[Trace, dict[str, Any]], str]] = {  # domain -> the sentences; of the trace and its last step's data
    "connect": _connect,
    "streams": _streams,
    "difference": lambda trace, last: f"After {last['call']}, {last['said']}.",
}
