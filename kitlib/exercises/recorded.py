"""Where a learner's code first does something that the recorded original did not.

The bundled scripts of an original (Storm's PartitionManager and acker, a Kafka broker's producer state) are played
on the learner's code in a process of its own. What the original answered stays here: over there go operations
alone. The first step at which the two part is told in one sentence and drawn in one picture. What differs between
the originals is a `Recording`: its scripts, the driver that plays them, and how a step is worded and drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kitlib.conformance.golden import Conformance, Difference, conform
from kitlib.exercises.answers import NotYet, Reader
from kitlib.exercises.frame import Rows, unbroken
from kitlib.exercises.sandbox import Outcome, run_steps
from kitlib.views import Picture

Script = dict[str, Any]  # name, meaning, and steps: {op, args, and what the original answered}


@dataclass(frozen=True, slots=True)
class Recording:
    """One original's recorded scripts, and how to play and tell them."""

    scripts: Callable[[], Sequence[Script]]  # the named ones first, as they are the shorter ones
    operations: Callable[[Script], Script]  # a script without anything that the original answered
    driver: Callable[[Any, Script], Iterator[Any]]  # plays the operations; runs in the learner's process
    judged: Callable[[Any, dict[str, Any]], Any]  # an answer and its step -> the answer in the form of what was recorded
    where: Callable[[Script, int], str]  # which step of which script, in words
    said: Callable[[Script, Difference, list[Any]], tuple[str, Callable[[str], Picture | None]]]  # what differs; draws it


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """How far the learner's code agrees, and the step at which it first does not."""

    matched: int
    total: int
    trace: str  # the script's name
    meaning: str  # what the script shows, in the recorder's words
    said: str  # what differs at that step
    has_raised: bool  # the learner's code raised an exception there
    picture: Picture | None  # None where the code gave no answer that can be drawn

    def not_yet(self, so_far: str = "") -> NotYet:
        """The finding; `so_far` says which part of the answer is right already."""
        said = f"{self.matched:,} of {self.total:,} recorded steps agree. The first that does not: {self.said}"
        look = "Look at that line first." if self.has_raised else f"What that script shows: {self.meaning}"
        return NotYet(said, so_far + look, self.picture)


def first_difference(recording: Recording, make: Any) -> FirstDifference | None:
    """The first step that differs; None when every recorded step is repeated. NotYet when the code breaks a limit."""
    scripts = recording.scripts()
    outcome = unbroken(run_steps(recording.driver, make, [recording.operations(script) for script in scripts]))
    return difference_in(recording, scripts, outcome)


def compare(recording: Recording, scripts: Sequence[Script], outcome: Outcome) -> Conformance:
    """How many recorded steps the answers repeat, and where each script first differs."""
    pairs = zip(scripts, outcome.answers, strict=True)
    done = iter([[recording.judged(*both) for both in zip(answers, script["steps"], strict=False)] for script, answers in pairs])
    return conform(lambda _: iter(next(done)), iter(scripts))


def difference_in(recording: Recording, scripts: Sequence[Script], outcome: Outcome) -> FirstDifference | None:
    """The first step of the scripts that was answered otherwise than by the original; None when there is none."""
    found = compare(recording, scripts, outcome)
    if found.agrees:
        return None
    first = found.differences[0]
    number, script = next((number, each) for number, each in enumerate(scripts) if each["name"] == first.trace)
    answers, raised, picture = outcome.answers[number][: first.step + 1], None, None
    where = f"script '{first.trace}', {recording.where(script, first.step)}"
    if len(answers) <= first.step:
        raised = outcome.raised[number]
        said = f"{where}: your code {f'raised {raised.what}' if raised else 'gave no answer'}."
    else:
        what, draw = recording.said(script, first, answers)
        said = f"{where}: {what}."
        picture = draw(said)
    return FirstDifference(found.matched, found.total, first.trace, first.meaning, said, raised is not None, picture)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A function or class, held step by step against a recording; the rule sees it first and yields rows."""

    recording: Recording
    reads: Reader
    right: str
    methods: tuple[str, ...] = ()  # what a class must have

    def rows(self, answer: Any, rule: Callable[[Any], Rows]) -> Rows:
        """What the rule says, then the first recorded step that differs."""
        made = self.reads(answer)
        yield from rule(made)
        if missing := [name for name in self.methods if not callable(getattr(made, name, None))]:
            yield NotYet(f"your class has no {' and no '.join(missing)}.", f"It should have {', '.join(self.methods)}.")
        found = first_difference(self.recording, made)
        yield found and found.not_yet()
        yield self.right
