"""What an exercise is, and the kinds of answers it can ask for.

An exercise is declared once, by a function under `@exercise`: the question as the notebook prints it, the kind
of the answer, a right answer, hints, and in the function's body the *near misses*, each with the sentence that
explains it:

    @exercise(
        "How many times is the record in the topic?",
        Given(whole(0, 10, "the number of copies")),
        "Who sends again, the client or the application?",  # hints
        "`batch_expires` has a knob for each.",
        solution=2,
    )
    def copies(given: int) -> Rows:
        truth = max(stored_in(run("batch_expires")).values())
        yield given == 0 and NotYet("a retry cannot remove a record.")
        yield given != truth and NotYet(f"it is not {given}.")
        yield "The application's new send has new numbers, so the broker cannot recognise it."

A row that is false does not apply; the first `NotYet` is the finding, and the first text says why the answer is
right. The truth is not typed in: it comes from an experiment, a model or a recording at the moment of the check.
The solution serves tests and instructors; neither a check nor a hint shows it.

The kinds read an answer (`kitlib.exercises.answers`), and turn a wrong shape or a function that raises into a
`NotYet` of their own. A function or class of the learner's never runs here, but in a process of its own
(`kitlib.exercises.sandbox`). Nor does any other code of an answer (`__repr__`, `keys`, ...): a check gets plain
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from kitlib.errors import KitError
from kitlib.exercises import sandbox
from kitlib.exercises.answers import NotYet, Reader, a_function, as_text, expected, knobs_for, sequence, whole
from kitlib.experiments import run
from kitlib.monitor.delivery import Verdict, judge
from kitlib.text import plain_text
from kitlib.trace import Trace

RETURNED = "what your function returns"

Rows = Iterator[Any]  # near misses in order (falsy: does not apply; NotYet), then the sentence for a right answer


class Unlike(NotYet):
    """A value is not the expected one, which is all there is to say: the kind of the answer words it."""

    def __init__(self, right: Any = None, look: str | None = None, picture: Any = None) -> None:
        super().__init__("", look, picture)
        self.right = right

    def worded(self, said: str) -> NotYet:
        """The same with its sentence."""
        return NotYet(said, self.look, self.picture)


class Kind(Protocol):
    """What sort of answer an exercise asks for."""

    def rows(self, answer: Any, rule: Callable[..., Any]) -> Rows:
        """The findings on an answer, by the exercise's own rule."""
        ...


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise, as it was declared."""

    name: str  # unique in the kit
    notebook: str  # "04"
    question: str  # as the notebook prints it
    kind: Kind
    rule: Callable[..., Any]  # what it gets and gives depends on the kind
    solution: Any  # a right answer, for tests and instructors
    hints: tuple[str, ...]  # each one says more than the one before

    def check(self, answer: Any) -> str:
        """The sentence that explains a right answer; raises NotYet otherwise."""
        for row in self.kind.rows(answer, self.rule):
            if isinstance(row, NotYet):
                raise row
            if row:
                return str(row)
        raise KitError(f"the check of {self.name} came to no end. Its last row should be the sentence for a right answer.")


DECLARED: dict[str, Exercise] = {}  # by name, in the order of their modules


def exercise(question: str, kind: Kind, *hints: str, solution: Any) -> Callable[[Callable[..., Any]], Exercise]:
    """Declare the exercise that has the function's name, in the notebook that its module is named after."""

    def declare(rule: Callable[..., Any]) -> Exercise:
        name, module = rule.__name__, rule.__module__
        if name in DECLARED and DECLARED[name].rule.__module__ != module:
            raise KitError(f"two exercises are called {name}. Rename the one in {module}.")
        DECLARED[name] = Exercise(name, module.rpartition("nb_")[2], question, kind, rule, solution, hints)
        return DECLARED[name]

    return declare


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; shown as one line that begins with "Right:" or "Not yet:"."""

    exercise: str
    passed: bool
    said: str
    look: str = ""  # where to look next; empty when the answer is right
    picture: Any = None  # of what went wrong, where there is one; for a cell of its own
    printed: str = ""  # the beginning of what the learner's code printed while it was checked

    def __repr__(self) -> str:
        printed = f"(Your code printed: {plain_text(self.printed, 120)})" if self.printed else ""
        parts = ("Right:" if self.passed else "Not yet:", self.said, self.look, printed)
        return " ".join(part for part in parts if part)

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        words = {"said": self.said, "look": self.look, "printed": self.printed}
        return {"exercise": self.exercise, "passed": self.passed, **words}


def find(asked: Exercise, answer: Any) -> Finding:
    """The finding on one answer. Whatever the answer does wrong becomes a sentence, never a traceback."""
    printed: list[str] = []
    listening = sandbox.heard.set(printed)
    try:
        if answer is None or answer is ...:
            raise NotYet("there is no answer here.", "Put it in place of None and run this cell again.")
        said = asked.check(_read(answer))
        return Finding(asked.name, True, said, printed="".join(printed))
    except NotYet as wrong:
        look = next(iter(asked.hints), "") if wrong.look is None else wrong.look
        return Finding(asked.name, False, wrong.said, look, wrong.picture, "".join(printed))
    finally:
        sandbox.heard.reset(listening)


def _read(answer: Any) -> Any:
    try:
        return sandbox.read(answer)
    except sandbox.UnreadableError as error:
        raise NotYet(error.breach.said, error.breach.look) from error


def values_of(function: Any, argument_lists: Sequence[Sequence[Any]]) -> list[Any]:
    """What the learner's function returns for each list of arguments, JSON values or Traces; NotYet when it breaks.

    It runs in a process of its own, so what it does to its arguments or to the kit is done to copies.
    """
    outcome = unbroken(sandbox.call(function, argument_lists))
    for raised in outcome.raised:
        if raised is not None:
            raise NotYet(f"your code raised {raised.what}.", "Look at that line first.")
    return [value for [value] in outcome.answers]


def unbroken(outcome: sandbox.Outcome) -> sandbox.Outcome:
    """The outcome, if every script was run; NotYet with the breach's sentence otherwise."""
    if outcome.breach is not None:
        raise NotYet(outcome.breach.said, outcome.breach.look)
    return outcome


# Kinds of answers.


@dataclass(frozen=True, slots=True)
class Given:
    """A value of one shape; the rule gets it and yields the rows."""

    reads: Reader

    def rows(self, answer: Any, rule: Callable[[Any], Rows]) -> Rows:
        """The rule's own."""
        yield from rule(self.reads(answer))


@dataclass(frozen=True, slots=True)
class Edge:
    """The smallest or the largest number that is enough; the rule measures a number, and nothing is typed in.

    The sentences are templates over `n` (the answer), `here` (its measure), `m` and `there` (the next number on
    the wrong side, and its measure).
    """

    name: str
    low: int
    high: int
    largest: bool  # else the smallest
    fits: Callable[[Any], bool]  # of a measure
    fails: str  # what is wrong with a number that does not fit
    right: str
    look: str | None = None  # beside `fails`; the first hint if None
    unit: str = ""
    picture: Callable[[int], Any] | None = None  # of a number that does not fit
    spare: str = ""  # more about the next number, where it fits too

    def rows(self, answer: Any, rule: Callable[[int], Any]) -> Rows:
        """By two measures: of the answer, and of its neighbour on the wrong side."""
        n = whole(self.low, self.high, self.name, self.unit)(answer)
        m, here = n + (1 if self.largest else -1), rule(n)
        yield not self.fits(here) and NotYet(self.fails.format(n=n, here=here), self.look, self.picture and self.picture(n))
        there = rule(m) if m >= self.low else None
        if there is not None and self.fits(there):
            edge, other = ("largest", "larger") if self.largest else ("smallest", "smaller")
            spare = self.spare.format(there=there)
            yield NotYet(f"{n:,}{self.unit} is not the {edge}: {m:,}{self.unit} works too{spare}.", f"Try a {other} one.")
        yield self.right.format(n=n, here=here, m=m, there=there)


@dataclass(frozen=True, slots=True)
class Each:
    """A value for each of some situations, as a list in their order or as a dict by their names.

    The rule gets a value and the situation's place or name, and yields rows; an `Unlike` is worded here.
    """

    situations: tuple[str, ...]  # as the question tells them, or the dict's keys
    reads: Reader
    right: str | Callable[[], str]
    noun: str = "words"
    named: bool = False  # a dict is asked for

    def rows(self, answer: Any, rule: Callable[[Any, Any], Rows]) -> Rows:
        """The first value that is wrong."""
        for number, (situation, given) in enumerate(self.given(answer), 1):
            where = f"{situation}" if self.named else f"situation {number}{f', {situation}' if situation else ''}"
            for row in rule(given, situation if self.named else number - 1):
                yield row.worded(f"{where}: {as_text(given)} is not right.") if isinstance(row, Unlike) else row
        yield self.right if isinstance(self.right, str) else self.right()

    def given(self, answer: Any) -> Sequence[tuple[str, Any]]:
        """Each situation with the value that the answer has for it."""
        if not self.named:
            values = sequence(len(self.situations), self.noun, self.reads)(answer)
            return list(zip(self.situations, values, strict=True))
        if not isinstance(answer, Mapping) or set(answer) != set(self.situations):
            raise expected("the answer", f"a dict with the keys {', '.join(map(repr, self.situations))}", answer)
        return [(name, self.reads(answer[name], f"the answer for {name!r}")) for name in self.situations]


@dataclass(frozen=True, slots=True)
class Turned:
    """An experiment with the knobs that the learner has turned."""

    knobs: dict[str, Any]
    trace: Trace

    @property
    def words(self) -> str:
        """`with a=1, b=2`."""
        return "with " + (", ".join(f"{name}={value}" for name, value in self.knobs.items()) or "the defaults")

    @property
    def verdict(self) -> Verdict:
        """What is judged of the run."""
        return judge(self.trace)


@dataclass(frozen=True, slots=True)
class Knobs:
    """A dict of knobs of an experiment; the rule gets the run with them, as a `Turned`, and yields rows."""

    experiment: str
    only: tuple[str, ...] = ()  # those that may be turned; all if empty
    story: Mapping[str, Any] = field(default_factory=dict)  # the other knobs of the run; they stay as they are
    most: int = 0  # how many may be turned; 0: any number
    exactly: int = 0
    default: Mapping[str, Any] = field(default_factory=dict)  # of knobs that may be turned, where it is not the experiment's

    def rows(self, answer: Any, rule: Callable[[Turned], Rows]) -> Rows:
        """The rule's own, after a look at which knobs were turned."""
        knobs = knobs_for(self.experiment, answer, self.only)
        if fixed := [name for name in knobs if name in self.story]:
            yield NotYet(f"{fixed[0]} belongs to the story and stays as it is.", "Turn a different knob.")
        if self.exactly and len(knobs) != self.exactly:
            yield NotYet(f"turn one knob; this turns {len(knobs)}.", "Leave the others at their defaults.")
        if self.most and len(knobs) > self.most:
            yield NotYet(f"{self.most} knobs are enough; this turns {len(knobs)}.", "Leave out those that change nothing.")
        story = {name: value for name, value in self.story.items() if value is not None}
        yield from rule(Turned(knobs, run(self.experiment, **{**self.default, **story, **knobs})))


@dataclass(frozen=True, slots=True)
class Function:
    """A function, held against cases: the rule gets what it returned and the case, and yields the near misses.

    An `Unlike` is worded here: `begin(5, 5, 9, 'latest') should return 5; yours returns None.`
    """

    name: str  # what the question calls it
    cases: Callable[[], Sequence[Sequence[Any]]]  # arguments, JSON values or Traces, and after them what only the rule sees
    right: str | Callable[[], str]  # a template over `n`, how many cases there are
    reads: Reader = lambda value, what: value
    asks: int | None = None  # how many of a case's parts are arguments; all if None
    names: tuple[str, ...] = ()  # of the arguments, where there are many

    def rows(self, answer: Any, rule: Callable[..., Rows]) -> Rows:
        """The first case in which the function is wrong."""
        function, cases = a_function(answer), self.cases()
        asked = [list(case[: self.asks]) for case in cases]
        for case, arguments, value in zip(cases, asked, values_of(function, asked), strict=True):
            got = self.reads(value, RETURNED)
            for row in rule(got, *case):
                if isinstance(row, Unlike):
                    row = row.worded(f"{self.call(arguments)} should return {as_text(row.right, 200)}; yours returns {as_text(got, 200)}.")
                yield row
        yield self.right.format(n=len(cases)) if isinstance(self.right, str) else self.right()

    def call(self, arguments: Sequence[Any]) -> str:
        """The call of a case as a learner would write it."""
        names = [f"{name}=" for name in self.names] or [""] * len(arguments)
        parts = [f"{name}{plain_text(repr(value), 300)}" for name, value in zip(names, arguments, strict=True)]
        return f"{self.name}({', '.join(parts)})"


def unknown(name: str, known: Iterable[str]) -> str:
    """The sentence about a name that no exercise has, with the one that is nearest to it."""
    near = get_close_matches(name, known, n=1)
    look = f"Did you mean '{near[0]}'?" if near else "Copy the name from the cell that checks your answer."
    return f"there is no exercise '{plain_text(name, 60)}'. {look}"
