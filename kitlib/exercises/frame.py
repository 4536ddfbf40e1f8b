"""What an exercise is: a question, a check that knows the truth by running it, and hints.

A check is a function of the learner's answer. It returns one sentence when the answer is right and
raises `NotYet` when it is not, with what is wrong and where to look; it never says the solution. The
truth comes out of an experiment, a model or a recorded trace, at the moment of the check. The helpers
here turn answers of a wrong shape (a text for a number, a misspelt knob, a function that raises) into
a `NotYet` of their own, so that a check is written for answers that can be judged. A function or class
of the learner's is never run here, but in a process of its own: `values_of`, and `kitlib.exercises.sandbox`.
Nor is any other code of an answer (`__repr__`, `keys`, ...): a check gets plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from kitlib.errors import KnobError
from kitlib.exercises import sandbox
from kitlib.experiments import get
from kitlib.experiments.knobs import settle
from kitlib.text import plain_text

MOST_OFFSETS = 1_000_000  # in one answer; `range(10**12)` would take for ever to look through


class NotYet(Exception):
    """The answer is not right: what is wrong with it, where to look, and perhaps a picture of it.

    Without `look` the exercise's first hint is shown; "" shows none, for an answer of a wrong shape.
    """

    def __init__(self, said: str, look: str | None = None, picture: Any = None) -> None:
        super().__init__(said)
        self.said, self.look, self.picture = said, look, picture


Check = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise: its name, the question as the notebook prints it, its check, and hints."""

    name: str  # unique in the kit
    question: str
    check: Check  # the sentence that explains a right answer; raises NotYet otherwise
    hints: tuple[str, ...] = ()  # each one says more than the one before


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


def find(exercise: Exercise, answer: Any) -> Finding:
    """The finding on one answer. Whatever the answer does wrong becomes a sentence, never a traceback."""
    first_hint = exercise.hints[0] if exercise.hints else ""
    printed: list[str] = []
    listening = sandbox.heard.set(printed)
    try:
        if answer is None or answer is ...:
            raise NotYet("there is no answer here.", "Put it in place of None and run this cell again.")
        said = exercise.check(_read(answer))
        return Finding(exercise.name, True, said, printed="".join(printed))
    except NotYet as wrong:
        look = first_hint if wrong.look is None else wrong.look
        return Finding(exercise.name, False, wrong.said, look, wrong.picture, "".join(printed))
    finally:
        sandbox.heard.reset(listening)


def _read(answer: Any) -> Any:
    try:
        return sandbox.read(answer)
    except sandbox.UnreadableError as error:
        raise NotYet(error.breach.said, error.breach.look) from error


def whole_number(answer: Any, what: str = "the answer") -> int:
    """`answer` as an int; NotYet when it is no whole number."""
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise NotYet(f"{what} should be a number, this is {told(answer)}.", "")
    if answer != answer or answer in (float("inf"), float("-inf")) or answer != int(answer):
        raise NotYet(f"{what} should be a whole number, this is {told(answer)}.", "")
    return int(answer)


def one_of(answer: Any, choices: Iterable[str], what: str = "the answer") -> str:
    """The one of `choices` that `answer` names, whatever its case and blanks; NotYet when it names none."""
    named = {plain_name(choice): choice for choice in choices}
    if not isinstance(answer, str) or plain_name(answer) not in named:
        raise NotYet(f"{what} should be one of {', '.join(map(repr, named.values()))}, this is {told(answer)}.", "")
    return named[plain_name(answer)]


def some_of(answer: Any, choices: Iterable[str], what: str = "the answer") -> set[str]:
    """The names in a set, list or tuple, each one of `choices`; a single name counts as a set of one."""
    given = [answer] if isinstance(answer, str) else answer
    if not isinstance(given, set | frozenset | list | tuple):
        raise NotYet(f"{what} should be a set of names, this is {told(answer)}.", "")
    known = list(choices)
    return {one_of(name, known, f"each name in {what}") for name in given}


def offsets_in(answer: Any, what: str = "the answer") -> list[int]:
    """Distinct offsets in ascending order, from a list, set, tuple or range; NotYet otherwise."""
    if not isinstance(answer, set | frozenset | list | tuple | range):
        raise NotYet(f"{what} should be a list of offsets, this is {told(answer)}.", "")
    if any(True for _ in islice(answer, MOST_OFFSETS, MOST_OFFSETS + 1)):  # len() of a huge range overflows
        raise NotYet(f"{what} has more than {MOST_OFFSETS:,} offsets.", "")
    return sorted({whole_number(offset, f"each offset in {what}") for offset in answer})


def knobs_for(experiment: str, answer: Any, only: Iterable[str] = ()) -> dict[str, Any]:
    """The knobs in a dict, checked as the experiment checks them; `only` names those that may be turned."""
    if not isinstance(answer, Mapping):
        raise NotYet(f"the answer should be a dict of knobs, this is {told(answer)}.", "")
    allowed = tuple(only)
    for name in answer:
        if allowed and name not in allowed:
            raise NotYet(f"only {', '.join(allowed)} may be turned here, and this turns {plain_text(name, 60)}.", "")
    try:
        settled = settle(get(experiment).knobs, answer, experiment)
    except KnobError as error:
        raise NotYet(str(error), "") from error
    return {name: settled[name] for name in answer}


def a_function(answer: Any, what: str = "the answer") -> Callable[..., Any]:
    """`answer` if it can be called; NotYet otherwise."""
    if not callable(answer):
        raise NotYet(f"{what} should be a function, this is {told(answer)}.", "Give its name without parentheses.")
    return answer  # type: ignore[no-any-return]


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


def told(answer: Any) -> str:
    """An answer as a sentence may show it: short, printable, on one line."""
    try:
        shown = type.__repr__(answer) if isinstance(answer, type) else repr(answer)  # a metaclass may have its own repr
    except (RecursionError, ValueError) as error:  # nested too deep, or a number with too many digits
        shown = f"something whose repr raises {type(error).__name__}"
    return plain_text(shown, 60)


def plain_name(text: str) -> str:
    """A name without case, blanks, dashes and underscores, for comparing."""
    return "".join(char for char in text.casefold() if char.isalnum())


def unknown(name: str, known: Iterable[str]) -> str:
    """The sentence about a name that no exercise has, with the one that is nearest to it."""
    near = get_close_matches(name, known, n=1)
    look = f"Did you mean '{near[0]}'?" if near else "The name stands in the cell that checks your answer."
    return f"there is no exercise '{plain_text(name, 60)}'. {look}"
