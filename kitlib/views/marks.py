"""The steps of a run that are worth jumping to: what the words of its domain mark, the fork, and where the verdict first saw each anomaly.

Marks stand on the player's slider. Those that crowd are one mark there, which names the first of them and counts the others; the keyboard
goes from one marked step to the next all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kitlib.monitor.verdict import Verdict
from kitlib.trace import Trace
from kitlib.views.play_clock import PlayClock

ENDS = frozenset({"crash", "exit", "broker lost"})  # marks of what dies
RETURN = "restart"  # is a mark of what comes back only where something has died
NEAR, ALIKE = 0.016, 0.035  # of the axis: marks that are closer are one, and those of one name
MOST_KINDS = 3  # that a label names


@dataclass(frozen=True, slots=True)
class Mark:
    """One step worth jumping to."""

    step: int
    name: str  # "crash", "restart", "first lost", ...
    is_alarm: bool = False  # an anomaly's first witness, or what dies


def events(trace: Trace) -> list[Mark]:
    """What the words of the trace's domain mark."""
    found: list[Mark] = []
    has_died = False
    for step in trace.steps:
        name = trace.vocabulary.mark(step.what, step.data)
        if not name:
            continue
        has_died = has_died or name in ENDS
        if name != RETURN or has_died:
            found.append(Mark(step.number, name, name in ENDS))
    return found


def pauses(marks: Iterable[Mark]) -> list[int]:
    """The steps at which something dies or comes back."""
    return [mark.step for mark in marks if mark.name in ENDS or mark.name == RETURN]


def marks_of(trace: Trace, verdict: Verdict) -> list[Mark]:
    """All marks of a run in the order of their steps."""
    found = events(trace)
    if trace.parent is not None:
        found.append(Mark(int(trace.parent["at"]), "fork"))
    for kind in verdict.kinds:
        witness = verdict.first(kind).witness
        if witness is not None and witness < len(trace):
            found.append(Mark(witness, f"first {kind.replace('_', ' ')}", True))
    return sorted(found, key=lambda mark: mark.step)


def signs_of(marks: Iterable[Mark], clock: PlayClock) -> list[dict[str, Any]]:
    """The marks as they stand on the slider, for the player: those too close to each other are one sign."""

    def apart(one: Mark, other: Mark) -> float:
        return clock.share(other.step) - clock.share(one.step)

    crowds: list[list[Mark]] = []
    for mark in marks:
        crowd = crowds[-1] if crowds else []
        is_alike = {each.name for each in crowd} == {mark.name}
        if crowd and (apart(crowd[0], mark) < NEAR or (is_alike and apart(crowd[-1], mark) < ALIKE)):
            crowd.append(mark)
        else:
            crowds.append([mark])
    return [
        {
            "steps": list(dict.fromkeys(mark.step for mark in crowd)),
            "label": _label([mark.name for mark in crowd]),
            "isAlarm": any(mark.is_alarm for mark in crowd),
        }
        for crowd in crowds
    ]


def _label(names: Sequence[str]) -> str:
    """`crash`, `crash, restart`, `12 resets`, `crash, 3 time-outs and more`."""
    told = [name if count == 1 else f"{name} ×{count}" for name, count in Counter(names).items()]
    return ", ".join(told) if len(told) <= MOST_KINDS else f"{', '.join(told[: MOST_KINDS - 1])} and more"
