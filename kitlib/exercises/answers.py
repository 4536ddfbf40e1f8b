"""Readers: each reads an answer of one shape into plain values, and has a sentence about one of another shape.

A reader takes the answer and what to call it in a sentence ("the answer", "what your function returns"), and raises
`NotYet` for a text where a number is asked for, a misspelt knob, a list that is too short. `whole(1, 64, "bits")`,
`choice("kept", "gone")` and the like make readers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.knobs import settle
from kitlib.text import plain_text

MOST_OFFSETS = 1_000_000  # in one answer; looking through `range(10**12)` would take for ever

Reader = Callable[..., Any]  # (value, what to call it in a sentence) -> plain value; NotYet for another shape


class NotYet(Exception):
    """The answer is not right: what is wrong with it, where to look, and perhaps a picture of it.

    `look` is a sentence, or the number of the hint that fits. Without it the exercise's first hint is shown; "" shows none, for an
    answer of the wrong shape. `picture` may be a function that draws it, called if this is what is told. `history` is a Trace of the
    calls that show what is wrong.
    """

    def __init__(self, said: str, look: str | int | None = None, picture: Any = None, history: Any = None) -> None:
        super().__init__(said)
        self.said, self.look, self.picture, self.history = said, look, picture, history


class HalfRight(NotYet):
    """A part of the answer is right, and the sentence says which."""


def expected(what: str, shape: str, answer: Any, look: str = "") -> NotYet:
    """The sentence about an answer of the wrong shape."""
    return NotYet(f"{what} should be {shape}; got {as_text(answer)}.", look)


def whole_number(answer: Any, what: str = "the answer") -> int:
    """`answer` as an int; NotYet when it is no whole number."""
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise expected(what, "a number", answer)
    if answer != answer or answer in (float("inf"), float("-inf")) or answer != int(answer):
        raise expected(what, "a whole number", answer)
    return int(answer)


def whole(low: int, high: int, name: str, unit: str = "") -> Reader:
    """Reads a whole number from `low` to `high`."""

    def read(answer: Any, what: str = "the answer") -> int:
        number = whole_number(answer, what)
        if not low <= number <= high:
            raise NotYet(f"{name} is {number:,}{unit}, expected {low:,} to {high:,}{unit}.", "")
        return number

    return read


def maybe(reads: Reader) -> Reader:
    """Reads None, or what `reads` reads."""
    return lambda answer, what="the answer": None if answer is None else reads(answer, what)


def choice(*choices: str) -> Reader:
    """Reads the one of these words that is named, whatever its case and blanks."""
    named = {plain_name(each): each for each in choices}

    def read(answer: Any, what: str = "the answer") -> str:
        if not isinstance(answer, str) or plain_name(answer) not in named:
            raise expected(what, f"one of {', '.join(map(repr, choices))}", answer)
        return named[plain_name(answer)]

    return read


def subset(*choices: str) -> Reader:
    """Reads some of these words, in a set, list or tuple; a single one counts as a set of one."""
    one = choice(*choices)

    def read(answer: Any, what: str = "the answer") -> set[str]:
        given = [answer] if isinstance(answer, str) else answer
        if not isinstance(given, set | frozenset | list | tuple):
            raise expected(what, "a set of names", answer)
        return {one(name, f"each name in {what}") for name in given}

    return read


def numbers_in(answer: Any, what: str = "the answer", noun: str = "offset") -> list[int]:
    """Distinct whole numbers in ascending order, from a list, set, tuple or range; NotYet otherwise."""
    if not isinstance(answer, set | frozenset | list | tuple | range):
        raise expected(what, f"a list of {noun}s", answer)
    if any(True for _ in islice(answer, MOST_OFFSETS, MOST_OFFSETS + 1)):  # len() of a huge range overflows
        raise NotYet(f"{what} has more than {MOST_OFFSETS:,} {noun}s.", "")
    return sorted({whole_number(number, f"each {noun} in {what}") for number in answer})


def in_order(shape: str, noun: str, *kinds: type[Collection[Any]]) -> Reader:
    """Reads whole numbers in their order, from a list, a tuple or one of the other kinds."""

    def read(answer: Any, what: str = "the answer") -> list[int]:
        if not isinstance(answer, list | tuple) and type(answer) not in kinds:
            raise expected(what, shape, answer)
        return [whole_number(number, f"each {noun}") for number in answer]

    return read


def each_once(answer: Any, what: str = "the answer") -> list[int]:
    """As `numbers_in`; NotYet also when an offset is there twice."""
    found = numbers_in(answer, what)
    if len(found) < len(answer):
        again = next(offset for offset in found if list(answer).count(offset) > 1)
        raise NotYet(f"{what} names offset {again} more than once; expected each once.", "")
    return found


def sequence(count: int, noun: str = "numbers", reads: Reader = whole_number) -> Reader:
    """Reads a list or tuple of so many values, each of one shape."""

    def read(answer: Any, what: str = "the answer") -> tuple[Any, ...]:
        if not isinstance(answer, list | tuple) or len(answer) != count:
            raise expected(what, f"a list of {count} {noun}", answer)
        return tuple(reads(each, f"{noun.removesuffix('s')} {place}") for place, each in enumerate(answer, 1))

    return read


def mapping(answer: Any, what: str = "the answer") -> Mapping[Any, Any]:
    """A dict; NotYet otherwise."""
    if not isinstance(answer, Mapping):
        raise expected(what, "a dict", answer)
    return answer


def knobs_for(experiment: str, answer: Any, only: Collection[str] = ()) -> dict[str, Any]:
    """The knobs in a dict, checked as the experiment checks them; `only` names those that may be turned."""
    if not isinstance(answer, Mapping):
        raise expected("the answer", "a dict of knobs", answer)
    for name in answer:
        if only and name not in only:
            raise NotYet(f"only {', '.join(only)} may be turned here, not {plain_text(name, 60)}.", "")
    try:
        settled = settle(get(experiment).knobs, answer, experiment)
    except KnobError as error:
        raise NotYet(str(error), "") from error
    return {name: settled[name] for name in answer}


def a_function(answer: Any, what: str = "the answer") -> Callable[..., Any]:
    """`answer` if it can be called; NotYet otherwise."""
    if not callable(answer):
        raise expected(what, "a function", answer, "Give its name without parentheses.")
    return answer  # type: ignore[no-any-return]


def a_class(answer: Any, what: str = "the answer") -> type:
    """`answer` if it is a class; NotYet otherwise."""
    if not isinstance(answer, type):
        raise expected(what, "your class", answer, "Give its name without parentheses.")
    return answer


def as_text(answer: Any, limit: int = 60) -> str:
    """An answer as a sentence may show it: short, printable, on one line."""
    try:
        shown = type.__repr__(answer) if isinstance(answer, type) else repr(answer)  # a metaclass may have its own repr
    except Exception as error:  # noqa: BLE001 - nested too deep, a number with too many digits, or a __repr__ of the learner's
        shown = f"something whose repr raises {type(error).__name__}"
    return plain_text(shown, limit)


def plain_name(text: str) -> str:
    """A name without case, blanks, dashes and underscores, for comparing."""
    return "".join(char for char in text.casefold() if char.isalnum())
