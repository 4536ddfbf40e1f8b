"""What a run came to, in a few numbers, and how it differs from the run before: "46 lost → 2 lost".

A player that shows another run keeps the numbers of one to compare with, its *ghost*: the run from before the knob that
is being turned was first touched, or the run that was forked. A ghost is numbers only, so it costs nothing; what it was drawn
with is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kitlib.experiments.experiment import Experiment
from kitlib.experiments.knobs import told_value
from kitlib.monitor.delivery import Verdict
from kitlib.monitor.figures import Measured, amount
from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.frames import Frames
from kitlib.views.plot import Before, Curve, curves_of

MOST_NAMED = 3  # settings that are named in a comparison
COUNTED = {"lose_answer": ("answers", "lost"), "lose_request": ("requests", "lost"), "requeue": ("", "sent again")}  # word -> unit, what
DONE = ("write", "process")  # the words with which a record is done


@dataclass(frozen=True, slots=True)
class Outcome:
    """The numbers of one run."""

    settings: dict[str, Any]  # knobs, "seed", and "script": the lines of its interventions
    forked_at: int | None
    counts: dict[str, int]  # of anomalies
    measured: Measured | None  # the figure of merit
    at_ms: list[int]  # of each step
    curves: list[Curve]  # of its plot
    told: dict[str, int]  # how often messages were lost and sent again, by their words
    done_ms: int | None  # when the last record was done

    @classmethod
    def of(cls, trace: Trace, verdict: Verdict, experiment: Experiment | None, frames: Frames | None = None) -> Outcome:
        """The numbers of a run, with its curves where its frames are given. TraceError when its figure cannot be measured."""
        figure = experiment.figure if experiment else None
        measured = figure.measure(trace, verdict) if figure else None
        forked_at = None if trace.parent is None else int(trace.parent["at"])
        settings = {**trace.settings, "seed": trace.seed, "script": "; ".join(trace.script) or "none"}
        words = trace.words()
        told = {word: words[word] for word in COUNTED if word in words}
        done_ms = next((step.at_ms for step in reversed(trace.steps) if step.what in DONE), None)
        curves = curves_of(frames, measured) if frames else []
        return cls(settings, forked_at, verdict.counts, measured, [step.at_ms for step in trace], curves, told, done_ms)

    @property
    def figure(self) -> str:
        """The number that is asked for, after what led to it; where that is 0, what went wrong all the same."""
        if self.measured is None:
            return ""
        worst = next((f"{count:,} {kind}" for kind, count in self.counts.items() if count), "")
        asked = worst if worst and not self.measured.value else self.measured.sentence
        before = [_counted(word, count) for word, count in self.told.items()]
        return f"{', '.join([*before, asked[:1].lower() + asked[1:]] if before else [asked])}."

    def turned(self, other: Outcome) -> frozenset[str]:
        """The settings in which another run differs."""
        names = {name for name in self.settings | other.settings if self.settings.get(name) != other.settings.get(name)}
        return frozenset(names | ({"fork"} if self.forked_at != other.forked_at else set()))


def _counted(word: str, count: int) -> str:
    unit, what = COUNTED[word]
    return f"{amount(count, unit)} {what}"


def label(run: Outcome, other: Outcome) -> str:
    """A run as its comparison with another names it: by the settings in which they differ."""
    turned = run.turned(other)
    named = [f"{name}={told_value(run.settings[name])}" for name in run.settings if name in turned]
    if len(named) > MOST_NAMED:
        named[MOST_NAMED:] = [f"{len(named) - MOST_NAMED} more"]
    if "fork" in turned:
        named.insert(0, "the run without the fork" if run.forked_at is None else f"the fork at step {run.forked_at}")
    return plain_text(", ".join(named), 120)


def changes(before: Outcome, now: Outcome) -> list[str]:
    """What differs between two runs: anomalies whose count changed, the figure of merit, what was lost and sent again, and the time."""
    kinds = list(before.counts | now.counts)
    pairs = [(kind, before.counts.get(kind, 0), now.counts.get(kind, 0)) for kind in kinds]
    told = [f"{was:,} {kind} → {count:,} {kind}" for kind, was, count in pairs if was != count]
    if before.measured and now.measured and before.measured.value != now.measured.value:
        figure = now.measured.figure
        if (before.measured.value, now.measured.value) not in [(was, count) for _, was, count in pairs]:  # else it is one of the counts
            told.append(f"{figure.name}: {amount(before.measured.value, figure.unit)} → {amount(now.measured.value, figure.unit)}")
    for word in COUNTED:
        was, count = before.told.get(word, 0), now.told.get(word, 0)
        told += [f"{was:,} → {_counted(word, count)}"] if was != count else []
    if before.done_ms is not None and now.done_ms is not None and before.done_ms != now.done_ms:
        told.append(f"last record done after {amount(before.done_ms, 'ms')} → {amount(now.done_ms, 'ms')}")
    return told


@dataclass(frozen=True, slots=True)
class Parting:
    """The first step at which two runs differ."""

    number: int
    a: Step | None  # None: the run is over
    b: Step | None
    differs: str  # "actor", "word", "data", "state", "time", or "length"
    field: str = ""  # of the data or the state, the first that differs


def parting(a: Trace, b: Trace) -> Parting | None:
    """Where two traces part: the first step with another actor, word, data or state, or with another time. None when all are equal.

    A difference in what happens comes before one in time alone: two runs that do the same at other times part in time only.
    """
    in_time = None
    for number in range(max(len(a), len(b))):
        if number >= len(a) or number >= len(b):
            one, other = (trace.steps[number] if number < len(trace) else None for trace in (a, b))
            return Parting(number, one, other, "length")
        step, twin = a.steps[number], b.steps[number]
        if (step.actor, step.what) != (twin.actor, twin.what):
            return Parting(number, step, twin, "word" if step.what != twin.what else "actor")
        for kind, own, its in (("data", step.data, twin.data), ("state", step.state, twin.state)):
            if own != its:
                return Parting(number, step, twin, kind, next(name for name in own | its if own.get(name, ...) != its.get(name, ...)))
        if in_time is None and step.at_ms != twin.at_ms:
            in_time = Parting(number, step, twin, "time")
    return in_time


class Comparison:
    """Which run the one that is shown is compared with."""

    def __init__(self) -> None:
        self.now: Outcome | None = None
        self.ghost: Outcome | None = None
        self._turned: frozenset[str] = frozenset()  # the settings that were changed last

    def take(self, outcome: Outcome) -> None:
        """Another run is shown: the ghost becomes the run before; turning the same knob on keeps it."""
        before, self.now = self.now, outcome
        turned = before.turned(outcome) if before else frozenset()
        if before and turned and turned != self._turned:
            self.ghost = before
        self._turned = turned or self._turned

    @property
    def drawn_ghost(self) -> Outcome | None:
        """The ghost, where it is another run than the one that is shown."""
        return self.ghost if self.ghost and self.now and self.ghost.turned(self.now) else None

    @property
    def before(self) -> Before | None:
        """The curves of the ghost."""
        ghost = self.drawn_ghost
        return Before(ghost.curves, ghost.at_ms) if ghost else None

    def to_json(self) -> dict[str, str]:
        """What the page shows of it: the figure's sentence, which run it is compared with, and what differs."""
        ghost, now = self.drawn_ghost, self.now
        told = {"figure": now.figure if now else "", "lead": "", "changes": ""}
        if ghost and now:
            told |= {"lead": f"Compared with {label(ghost, now)}: ", "changes": f"{', '.join(changes(ghost, now)) or 'no difference'}."}
        return told
