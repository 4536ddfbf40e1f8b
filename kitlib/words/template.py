"""Sentences as templates: fields in braces, and in brackets what is said only of some data.

    {offset:d} {ms:,} {ratio:.2f}     a field, formatted as Python does
    {name:40}                         at most so many characters of it, printable
    {records:record} {n:try/tries}    a number, or how many things a list holds, with its noun: `1 record`, `2 tries`; 0 when it is missing
    {ranges:spans()} {span()}         a phrase about a field, or about all of them
    [ ({why})]                        only where all fields and phrases in it say something
    [tx? in {tx}| outside]            where `tx` says something; the last of several without a question: otherwise
    [retry=False? ...] [copy>1? ...]  where it is so; also >=, and != of a field that says something; `@` is another field: [from!=@to? ...]

None, False, an empty text or list and the error NONE say nothing; 0 does. Brackets may stand in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kitlib.text import plain_text

Data = Mapping[str, Any]
Phrase = Callable[[Any], str]

PHRASES: dict[str, Phrase] = {}
_PIECE = re.compile(r"\{(\w+)(\(\))?(?::([^}]*))?\}|(\])|([\[|])(?:(\w+)(?:(>=|>|!=|=)([^?{}\[\]|]+))?\?)?")
_NOUN = re.compile(r"[a-z][a-z -]{2,}(/[a-z -]+)?")


def phrase(function: Phrase) -> Phrase:
    """Make a function of a field's value, or of all fields, known to templates by its name."""
    PHRASES[function.__name__.strip("_")] = function
    return function


def count(number: int, one: str, many: str = "") -> str:
    """`1 record`, `1,000 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def says(value: object) -> bool:
    """Whether a field says something."""
    return not (value is None or value is False or value in ("", "NONE", [], {}))


class Section:
    """Some alternatives, of which the first that may be said is said; a template as a whole has one."""

    def __init__(self) -> None:
        self.ways: list[tuple[tuple[str, str, str], list[Any]]] = []  # (field, sign, other), texts, fields and sections

    def say(self, data: Data) -> str:
        """KeyError, TypeError or ValueError when a field is missing, or not what its format needs."""
        for (name, sign, other), pieces in self.ways:
            if name and not _holds(data, name, sign, other):
                continue
            if name or (len(self.ways) > 1 and pieces is self.ways[-1][1]):
                return "".join(each if type(each) is str else each.say(data) for each in pieces)
            said = [each if type(each) is str else each.say(data) if type(each) is Section else each.say_if(data) for each in pieces]
            if None not in said:
                return "".join(said)
        return ""


class Field:
    """A field, or a phrase about one or about all of them."""

    def __init__(self, name: str, is_phrase: bool, spec: str) -> None:
        self.name, self.spec, self.limit, self.noun = name, spec, 0, ""
        self.phrase = PHRASES[name] if is_phrase else PHRASES[spec[:-2]] if spec.endswith("()") else None
        self.is_about_all = is_phrase
        if spec.isdigit():
            self.limit = int(spec)
        elif self.phrase is None and _NOUN.fullmatch(spec):
            self.noun = spec

    def say(self, data: Data) -> str:
        if self.noun:
            value, (one, _, many) = data.get(self.name, 0), self.noun.partition("/")
            return count(len(value) if isinstance(value, list | dict) else value, one, many)
        value = data if self.is_about_all else data[self.name]
        if self.phrase:
            return self.phrase(value)
        return plain_text(value, self.limit) if self.limit else format(value, self.spec)

    def say_if(self, data: Data) -> str | None:
        """None when there is nothing to say."""
        return (self.say(data) or None) if self.is_about_all or says(data.get(self.name)) else None


def _holds(data: Data, name: str, sign: str, other: str) -> bool:
    value: Any = data.get(name)
    wanted = data.get(other[1:]) if other.startswith("@") else other
    if sign == "=":
        return str(value) == str(wanted)
    if not sign or not says(value):
        return says(value)
    if sign == "!=":
        return str(value) != str(wanted)
    return bool(value >= int(other) if sign == ">=" else value > int(other))


def teller(text: str) -> Callable[[str, dict[str, Any]], str]:
    """Tells, by this template, what somebody does with such data; KeyError for a phrase that nobody has defined."""
    whole = Section()
    open_sections, pieces, end = [whole], list[Any](), 0
    whole.ways = [(("", "", ""), pieces), (("", "", ""), pieces)]  # two: a whole sentence is said whatever is missing
    for found in _PIECE.finditer(text):
        name, is_phrase, spec, closing, bracket, *test = found.groups()
        if text[end : found.start()]:
            pieces.append(text[end : found.start()])
        end = found.end()
        if name:
            pieces.append(Field(name, bool(is_phrase), spec or ""))
            continue
        if closing:
            open_sections.pop()
            pieces = open_sections[-1].ways[-1][1]
            continue
        if bracket == "[":
            inner = Section()
            pieces.append(inner)
            open_sections.append(inner)
        pieces = []
        open_sections[-1].ways.append(((test[0] or "", test[1] or "", test[2] or ""), pieces))
    if text[end:]:
        pieces.append(text[end:])
    return lambda who, data: whole.say({"who": who, **data})
