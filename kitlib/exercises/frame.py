"""What an exercise is, and the kinds of answers it can ask for.

An exercise is declared once, by a function under `@exercise`: the kind of the answer, and in the function's body the *near
misses*. All that is said of it stands in `notebooks/answers` (`kitlib.exercises.prose`): its hints, a right answer, what else is
right, and under the name of each near miss the sentence that explains it, with places for values:

    @exercise(Given(whole(0, 10, "the number of copies")))                # ## copies
    def copies(given: int) -> Rows:                                       #
        truth = max(stored_in(run("batch_expires")).values())             # * none: a retry cannot remove a record.
        yield given == 0 and Miss("none")                                 # * other: it is not {given}. Look: Who sends again?
        yield given != truth and Miss("other", given=given)               # * right: the application's new send has new numbers, so the
        yield Right()                                                     #   broker cannot recognise it.

A row that is false does not apply; the first `Miss` is the finding, and `Right` ends the check. The truth is not typed in: it comes
from an experiment, a model or a recording at the moment of the check; neither a check nor a hint shows the right answer. A `Half`
is a `Miss` of which a part is right already. Where to look next stands behind the sentence; without it the first hint is shown.

The kinds read an answer (`kitlib.exercises.answers`), and turn a wrong shape or a function that raises into a
`NotYet` of their own. A function or class of the learner's never runs here, but in a process of its own
(`kitlib.exercises.sandbox`); of any other answer a check gets plain values.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import signature
from itertools import chain
from types import CodeType, FunctionType
from typing import Any, Protocol

from kitlib.errors import KitError
from kitlib.exercises import prose, sandbox
from kitlib.exercises.answers import (
    HalfRight,
    NotYet,
    Reader,
    a_function,
    as_text,
    expected,
    knobs_for,
    sequence,
    whole,
)
from kitlib.exercises.sandbox import plain, told
from kitlib.exercises.told import HALF, RIGHT, WRONG, Told, box
from kitlib.experiments import run
from kitlib.monitor.delivery import Verdict, judge
from kitlib.text import plain_text
from kitlib.trace import Trace

RETURNED = "what your function returns"
UNNAMED = 3  # arguments of a call that go without their names
MOST_CASES = 0.8  # a function that is right in more of its cases is half right: a stub is right in some, too

Rows = Iterator[Any]  # near misses in order (falsy: does not apply; Miss or NotYet), then the sentence for a right answer, or Right


class Miss:
    """A near miss: the name of its sentence, and the values in it. `look` and `picture` are those of `NotYet`."""

    finding: type[NotYet] = NotYet

    def __init__(self, name: str, /, *, look: str | int | None = None, picture: Any = None, **values: Any) -> None:
        self.name, self.look, self.picture, self.values = name, look, picture, values


class Half(Miss):
    """One of which a part is right, and the sentence says which."""

    finding = HalfRight


class Unlike(Miss):
    """A value is not the expected one, which is all there is to say: the kind of the answer words it. A name says where to look."""

    def __init__(self, right: Any = None, name: str = "", *, picture: Any = None, **values: Any) -> None:
        super().__init__(name, picture=picture, **values)
        self.right = right


class Right(Miss):
    """The answer is right; its sentence has the name "right", or another where there are several."""

    def __init__(self, name: str = "right", /, **values: Any) -> None:
        super().__init__(name, **values)


class Kind(Protocol):
    """What sort of answer an exercise asks for."""

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """The findings on an answer, by the exercise's own rule and in its words."""
        ...


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise, as it was declared."""

    name: str  # unique in the kit
    kind: Kind
    rule: Callable[..., Any]  # what it gets and gives depends on the kind

    @property
    def told(self) -> prose.Answer:
        """What is said of it: where it is asked, its hints and sentences, and what else is right."""
        return prose.answers()[self.name]

    def check(self, answer: Any) -> str:
        """The sentence that explains a right answer; raises NotYet otherwise."""
        for row in self.kind.rows(answer, self):
            if isinstance(row, NotYet):
                raise row
            if row:
                return str(row)
        raise KitError(f"the check of {self.name} came to no end. Its last row should be the sentence for a right answer.")

    def rows(self, *given: Any) -> Rows:
        """What the rule finds, in words."""
        for row in self.rule(*given):
            yield self.say(row.name, **row.values) if isinstance(row, Right) else self.worded(row) if isinstance(row, Miss) else row

    def miss(self, *given: Any, unlike: Callable[[Any], str]) -> NotYet | None:
        """The first near miss that the rule finds; `unlike` words a value that is only not the right one."""
        row = next((each for each in self.rule(*given) if each), None)
        return self.worded(row, unlike) if isinstance(row, Miss) else row

    def worded(self, row: Miss, unlike: Callable[[Any], str] = str) -> NotYet:
        """A near miss with its sentence, and with where to look."""
        said = unlike(row.right) if isinstance(row, Unlike) else self.say(row.name, **row.values)
        look = self.told.looks.get(row.name, "").format(**row.values) or None
        return row.finding(said, look if row.look is None else row.look, row.picture)

    def say(self, name: str, /, **values: Any) -> str:
        """One of its sentences, with values in it."""
        return self.told.says[name].format(**values)


DECLARED: dict[str, Exercise] = {}  # by name, in the order of their modules


def exercise(kind: Kind) -> Callable[[Callable[..., Any]], Exercise]:
    """Declare the exercise that has the function's name."""

    def declare(rule: Callable[..., Any]) -> Exercise:
        name, module = rule.__name__, rule.__module__
        if name in DECLARED and DECLARED[name].rule.__module__ != module:
            raise KitError(f"two exercises are called {name}. Rename the one in {module}.")
        DECLARED[name] = Exercise(name, kind, rule)
        return DECLARED[name]

    return declare


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: one line that begins with "Right:", "Half right:" or "Not yet:", in a notebook a box with a sign."""

    exercise: str
    passed: bool
    said: str
    look: str = ""  # where to look next; empty when the answer is right
    picture: Any = None  # of what went wrong, where there is one; for a cell of its own
    printed: str = ""  # the beginning of what the learner's code printed while it was checked
    half: bool = False  # a part is right already; then it has not passed
    mark: str = field(default="", repr=False)  # tells two answers apart; empty when there is no answer
    beside: str = ""  # about the learner's progress, not about the answer
    history: Trace | None = field(default=None, repr=False)  # the shortest calls that show what is wrong, where there are some

    @property
    def head(self) -> str:
        """How the line begins."""
        return "Right:" if self.passed else "Half right:" if self.half else "Not yet:"

    @property
    def parts(self) -> list[str]:
        """What follows the head."""
        printed = f"(Your code printed: {plain_text(self.printed, 120)})" if self.printed else ""
        return [part for part in (self.said, self.look, printed, self.beside) if part]

    @property
    def player(self) -> Any:
        """The shortest history in a player, opened at the call at which the two part; a sentence where there is none."""
        if self.history is None:
            return Told("There is nothing to play: the answer is right." if self.passed else "There is no history to play for this answer.")
        from kitlib.views import Player  # widgets take a while to load

        return Player(self.history, open_at=len(self.history) - 1)

    def __repr__(self) -> str:
        return " ".join([self.head, *self.parts])

    def _repr_html_(self) -> str:
        sign, colour = ("\u2713", RIGHT) if self.passed else ("\u00bd", HALF) if self.half else ("\u2717", WRONG)
        return box(colour, f"{sign} {self.head}", *self.parts)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """The box; in a notebook with buttons for the next hint and for the solution."""
        from kitlib.exercises import hint, solution
        from kitlib.views.browser.asking import with_buttons

        tell = {} if self.passed else {"Hint": lambda: hint(self.exercise)}
        return with_buttons(self, {**tell, "Solution": lambda: solution(self.exercise)})


def find(asked: Exercise, answer: Any) -> Finding:
    """The finding on one answer. Whatever the answer does wrong becomes a sentence, never a traceback."""
    printed: list[str] = []
    listening, mark = sandbox.heard.set(printed), ""
    try:
        if answer is None or answer is ...:
            raise NotYet("there is no answer here.", "Put it in place of None and run this cell again.")
        mark = "unreadable"
        plain = _read(answer)
        mark = mark_of(plain)
        said = asked.check(plain)
        return Finding(asked.name, True, said, printed="".join(printed), mark=mark)
    except NotYet as wrong:
        mark = "" if wrong.look == "" else mark  # an answer of the wrong shape is no try
        look = wrong.look if isinstance(wrong.look, str) else next(iter(asked.told.hints[(wrong.look or 1) - 1 :]), "")
        half, heard = isinstance(wrong, HalfRight), "".join(printed)
        picture = wrong.picture() if callable(wrong.picture) else wrong.picture
        return Finding(asked.name, False, wrong.said, look, picture, heard, half, mark, history=wrong.history)
    finally:
        sandbox.heard.reset(listening)


def mark_of(answer: Any) -> str:
    """A short mark of an answer, the same when its cell is run again. A function's is of its code, which is not run."""
    functions = [answer, *vars(answer).values()] if isinstance(answer, type) else [answer]
    codes = [_anywhere(function.__code__) for function in functions if isinstance(function, FunctionType)]
    content = b"".join(map(marshal.dumps, codes)) if codes else as_text(answer, 10_000).encode(errors="replace")
    return hashlib.sha256(content).hexdigest()[:12]


def _anywhere(code: CodeType) -> CodeType:
    """The code without where it stands: each kernel has another file for its cells."""
    inner = tuple(_anywhere(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename="", co_firstlineno=1, co_consts=inner)


def _read(answer: Any) -> Any:
    """The answer in values without code of the learner's; what can be called is left as it is, for the sandbox."""
    try:
        return answer if callable(answer) else plain(answer)
    except (Exception, SystemExit) as error:
        raise NotYet(f"your answer cannot be read: {told(error)[1]}.", "Answer with plain values.") from error


def values_of(function: Any, argument_lists: Sequence[Sequence[Any]], *, in_part: bool = False) -> list[Any]:
    """What the learner's function returns for each list of arguments, JSON values or Traces; NotYet when it breaks.

    It runs in a process of its own, so what it does to its arguments or to the kit is done to copies. `in_part`: the first values of
    a function that is too slow for all of them.
    """
    outcome = sandbox.call(function, argument_lists)
    if not (in_part and outcome.is_slow):
        unbroken(outcome)
    for raised in outcome.raised:
        if raised is not None:
            raise NotYet(f"your code raised {raised.what}.", "Look at that line first.")
    return list(chain.from_iterable(outcome.answers))


def unbroken(outcome: sandbox.Outcome) -> sandbox.Outcome:
    """The outcome, if every script was run; NotYet with the breach's sentence otherwise."""
    if outcome.breach is not None:
        raise NotYet(outcome.breach.said, outcome.breach.look)
    return outcome


def first_of(wrong: Sequence[NotYet], count: int, share: float = 0) -> Rows:
    """The first of what is wrong in `count` parts; a `HalfRight` that counts when more than this share of them is right."""
    right = count - len(wrong)
    if wrong and 0 < right > share * count:
        first = wrong[0]
        said = f"{right} of {count} are right; the first that is not: {first.said}"
        yield HalfRight(said, first.look, first.picture, first.history)
    yield from wrong[:1]


# Kinds of answers.


@dataclass(frozen=True, slots=True)
class Given:
    """A value of one shape; the rule gets it and yields the rows."""

    reads: Reader

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """The rule's own."""
        yield from asked.rows(self.reads(answer))


@dataclass(frozen=True, slots=True)
class Edge:
    """The smallest or the largest number that is enough; the rule measures a number, and nothing is typed in.

    In its sentences, "wrong" of a number that does not fit, "more" of the next one where it fits too, and "right", are `n` (the
    answer), `here` (its measure), `m` and `there` (the next number on the wrong side, and its measure).
    """

    name: str
    low: int
    high: int
    largest: bool  # else the smallest
    fits: Callable[[Any], bool]  # of a measure
    unit: str = ""
    picture: Callable[[int], Any] | None = None  # of a number that does not fit

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """By two measures: of the answer, and of its neighbour on the wrong side."""
        n = whole(self.low, self.high, self.name, self.unit)(answer)
        m, here = n + (1 if self.largest else -1), asked.rule(n)
        yield not self.fits(here) and asked.worded(Miss("wrong", picture=self.picture and self.picture(n), n=n, here=here))
        there = asked.rule(m) if m >= self.low else None
        if there is not None and self.fits(there):
            edge, other = ("largest", "larger") if self.largest else ("smallest", "smaller")
            more = " " + asked.say("more", there=there) if "more" in asked.told.says else ""
            yield NotYet(f"{n:,}{self.unit} is not the {edge}: {m:,}{self.unit} works too{more}.", f"Try a {other} one.")
        yield asked.say("right", n=n, here=here, m=m, there=there)


@dataclass(frozen=True, slots=True)
class Each:
    """A value for each of some situations, as a list in their order or as a dict by their names.

    The rule gets a value and the situation's place or name, and yields rows; an `Unlike` is worded here. What to look at in a situation
    stands under its name, or under its number.
    """

    situations: tuple[str, ...]  # as the question tells them, or the dict's keys
    reads: Reader
    noun: str = "words"
    named: bool = False  # a dict is asked for
    facts: Callable[[], dict[str, Any]] = dict  # that stand in the sentence of a right answer

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """The first value that is wrong, and how many are right."""
        rows = [self.judged(asked, number, *told) for number, told in enumerate(self.given(answer), 1)]
        yield from first_of([row for row in rows if row is not None], len(self.situations))
        yield asked.say("right", **self.facts())

    def judged(self, asked: Exercise, number: int, situation: str, given: Any) -> NotYet | None:
        """What is wrong with the value for one situation."""
        where = situation if self.named else f"situation {number}{f', {situation}' if situation else ''}"
        row = asked.miss(given, situation if self.named else number - 1, unlike=lambda _: f"{where}: {as_text(given)} is not right.")
        if row is not None and row.look is None:
            row.look = asked.told.looks.get(situation if self.named else str(number))
        return row

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

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """The rule's own, after a look at which knobs were turned."""
        knobs = knobs_for(self.experiment, answer, self.only)
        if fixed := [name for name in knobs if name in self.story]:
            yield NotYet(f"{fixed[0]} belongs to the story and stays as it is.", "Turn a different knob.")
        if self.exactly and len(knobs) != self.exactly:
            yield NotYet(f"turn one knob; this turns {len(knobs)}.", "Leave the others at their defaults.")
        if self.most and len(knobs) > self.most:
            yield NotYet(f"{self.most} knobs are enough; this turns {len(knobs)}.", "Leave out those that change nothing.")
        story = {name: value for name, value in self.story.items() if value is not None}
        yield from asked.rows(Turned(knobs, run(self.experiment, **{**self.default, **story, **knobs})))


@dataclass(frozen=True, slots=True)
class Function:
    """A function, held against cases: the rule gets what it returned and the case, and yields the near misses.

    An `Unlike` is worded here: `begin(5, 5, 9, 'latest') should return 5; yours returns None.`
    """

    cases: Callable[[], Sequence[Sequence[Any]]]  # its arguments, JSON values or Traces, and then what only the rule sees
    reads: Reader = lambda value, what: value
    facts: Callable[[], dict[str, Any]] = dict  # that stand in the sentence of a right answer, beside `n`, how many cases there are

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """The first case in which the function is wrong, and in how many it is right, when these are most."""
        function, cases = a_function(answer), self.cases()
        count = len(signature(asked.told.solution).parameters)
        given = [list(case[:count]) for case in cases]
        values = values_of(function, given, in_part=True)
        rows = [self.judged(asked, *each) for each in zip(cases, given, values, strict=False)]
        yield from first_of([row for row in rows if row is not None], len(cases), MOST_CASES)
        yield len(values) < len(cases) and HalfRight(
            f"right, and slow: the first {len(values)} of {len(cases)} cases are right, and then {sandbox.DEADLINE_S:g} s were over.",
            "What does your function go through again and again?",
        )
        yield asked.say("right", n=len(cases), **self.facts())

    def judged(self, asked: Exercise, case: Sequence[Any], arguments: Sequence[Any], value: Any) -> NotYet | None:
        """What is wrong with the value in one case."""

        def unlike(right: Any) -> str:
            return f"{called(asked.told.solution, arguments)} should return {as_text(right, 200)}; yours returns {as_text(got, 200)}."

        try:
            got = self.reads(value, RETURNED)
            return asked.miss(got, *case, unlike=unlike)
        except NotYet as odd:
            return odd


def called(function: Any, arguments: Sequence[Any]) -> str:
    """A call as a learner would write it; many arguments have their names."""
    names = [f"{name}=" if len(arguments) > UNNAMED else "" for name in signature(function).parameters]
    parts = [f"{name}{plain_text(repr(value), 300)}" for name, value in zip(names, arguments, strict=True)]
    return f"{function.__name__}({', '.join(parts)})"


def unknown(name: str, known: Iterable[str]) -> str:
    """The sentence about a name that no exercise has, with the one that is nearest to it."""
    near = get_close_matches(name, known, n=1)
    look = f"Did you mean '{near[0]}'?" if near else "Copy the name from the cell that checks your answer."
    return f"there is no exercise '{plain_text(name, 60)}'. {look}"
