"""Where a learner's code first does something that the recorded original did not.

The bundled scripts of an original (Storm's PartitionManager and acker, a Kafka broker's producer state) are played
on the learner's code in a process of its own. What the original answered stays here: over there go operations
alone. The first step at which the two part is told in one sentence and drawn in one picture. What differs between
the originals is a `Recording`: its scripts, the driver that plays them, and how a step is worded and drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kitlib.conformance.golden import Conformance, Difference, conform
from kitlib.exercises.answers import HalfRight, NotYet, Reader
from kitlib.exercises.frame import Rows, unbroken
from kitlib.exercises.own import KITS, built_on, kits_own, played_here
from kitlib.exercises.sandbox import Outcome, run_steps
from kitlib.exercises.shrinking import RAISED, played, shrink
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views import Picture

FEWEST = 3  # that many of the shortest recorded histories are made smaller

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
    name: str  # where this is: module:name
    right: Any  # an answer that repeats every step
    differ: Callable[[Any, Any], str]  # how an answer is not the right one's; "" when it is
    simpler: Callable[[list[Any]], Iterator[list[Any]]]  # the same steps with smaller numbers
    call: Callable[[Any], str]  # a step as a learner would write it
    rows: Callable[[Any], dict[str, str]]  # an answer in words, a line for each ledger
    kits: tuple[str, ...]  # module:name of what the kit has of it, which is not the learner's to use
    original: str = "Storm 0.9.3"

    @property
    def at_home(self) -> dict[str, Any]:
        """What the learner's process is told of it: where it is, and what to close there."""
        return {"recording": self.name, "kits": list(self.kits)}


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
    short: str = ""  # a sentence with the shortest history that differs
    history: Trace | None = None  # that history, with both sides after each call

    def not_yet(self, so_far: str = "") -> NotYet:
        """The finding; `so_far` says which part of the answer is right already."""
        said = f"{self.matched:,} of {self.total:,} recorded steps agree. The first that does not: {self.said}{self.short}"
        look = "Look at that line first." if self.has_raised else f"What that script shows: {self.meaning}"
        return (HalfRight if so_far else NotYet)(said, so_far + look, self.picture, self.history)


def first_difference(recording: Recording, make: Any) -> FirstDifference | None:
    """The first step that differs; None when every recorded step is repeated. NotYet when the code breaks a limit."""
    scripts = recording.scripts()
    given = [{**recording.operations(script), **recording.at_home} for script in scripts]
    outcome = unbroken(run_steps(played_here, make, given))
    if told := kits_own(outcome):
        raise NotYet(*told)
    compared = compare(recording, scripts, outcome)
    found = difference_in(recording, scripts, outcome, compared)
    if found is None:
        return None
    numbers = {script["name"]: number for number, script in enumerate(scripts)}
    ends = [(numbers[each.trace], each.step) for each in compared.differences]
    short, history = shortest(recording, make, scripts, ends)
    return replace(found, short=short, history=history)


def shortest(recording: Recording, make: Any, scripts: Sequence[Script], ends: Sequence[tuple[int, int]]) -> tuple[str, Trace | None]:
    """A sentence with the calls, what was expected and what came, and the same to be played; ("", None) when none was found in time.

    `ends` are (number of a script, its first step that differs).
    """
    found = sorted(ends, key=lambda end: end[1])[:FEWEST]
    histories = [recording.operations(scripts[number])["steps"][: at + 1] for number, at in found]
    outcome = run_steps(shrink, make, [{**recording.at_home, "histories": histories}])
    answer = outcome.answers[0][0] if outcome.answers and outcome.answers[0] else None
    if not isinstance(answer, dict) or not all(isinstance(answer.get(name), list) for name in ("steps", "got")):
        return "", None
    steps, got = answer["steps"], answer["got"]
    try:
        right = played(recording.driver, recording.right, steps)
        differs = recording.differ(right[-1], got[-1]) if len(right) == len(got) == len(steps) > 0 else ""
        calls = [plain_text(recording.call(step), 160) for step in steps]
        return (f" In short: {'; '.join(calls)}: {differs}.", history_of(recording, calls, right, got, differs)) if differs else ("", None)
    except Exception:  # noqa: BLE001 - what came from the learner's process may be anything
        return "", None


def history_of(recording: Recording, calls: Sequence[str], right: Sequence[Any], got: Sequence[Any], differs: str) -> Trace:
    """The calls as a trace that a player shows: what both sides have after each of them."""
    trace = Trace("difference", f"your code beside {recording.original}", domain="difference")
    for number, (call, *answers) in enumerate(zip(calls, right, got, strict=True)):
        sides = [_side(recording, answer) for answer in answers]
        names = dict.fromkeys([*sides[0], *sides[1]])
        state = {"sides": [recording.original, "your code"], "rows": [[name, *(side.get(name, "") for side in sides)] for name in names]}
        if number < len(calls) - 1:
            trace.record(0, "you", "call", state=state, call=call)
        else:
            trace.record(0, "you", "part", state=state, call=call, said=differs)
    return trace


def _side(recording: Recording, answer: Any) -> dict[str, str]:
    if isinstance(answer, dict) and RAISED in answer:
        return {"raises": plain_text(answer[RAISED], 120)}
    return recording.rows(answer)


def first_row(wanted: dict[str, str], got: dict[str, str]) -> str:
    """The first line in which the two sides differ, in words."""
    for name in dict.fromkeys([*wanted, *got]):
        if wanted.get(name) != got.get(name):
            if name not in wanted:
                return f"there should be no {name}; yours has {got[name]}"
            return f"{name} should now be {wanted[name]}; yours {f'is {got[name]}' if name in got else 'has none'}"
    return "what is seen differs"


def compare(recording: Recording, scripts: Sequence[Script], outcome: Outcome) -> Conformance:
    """How many recorded steps the answers repeat, and where each script first differs."""
    pairs = zip(scripts, outcome.answers, strict=True)
    done = iter([[recording.judged(*both) for both in zip(answers, script["steps"], strict=False)] for script, answers in pairs])
    return conform(lambda _: iter(next(done)), iter(scripts))


def difference_in(
    recording: Recording, scripts: Sequence[Script], outcome: Outcome, compared: Conformance | None = None
) -> FirstDifference | None:
    """The first step of the scripts that was answered otherwise than by the original; None when there is none."""
    found = compared or compare(recording, scripts, outcome)
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
    grows: Callable[[Any], Rows] | None = None  # near misses that agree with every recorded step and grow with what is open

    def rows(self, answer: Any, rule: Callable[[Any], Rows]) -> Rows:
        """What the rule says, then the first recorded step that differs, then what grows."""
        made = self.reads(answer)
        yield built_on(made, self.recording.kits) and NotYet(*KITS)
        yield from rule(made)
        if missing := [name for name in self.methods if not callable(getattr(made, name, None))]:
            yield NotYet(f"your class has no {' and no '.join(missing)}.", f"It should have {', '.join(self.methods)}.")
        found = first_difference(self.recording, made)
        yield found and found.not_yet()
        if self.grows is not None:
            yield from self.grows(made)
        yield self.right
