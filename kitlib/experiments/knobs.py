"""Knobs: the settings of an experiment, described once.

A knob is a parameter of an experiment's function: its name and its default are the parameter's, its kind
comes from the type, and the rest stands beside the type:

    batches: Annotated[int, Knob("How many batches are written.", "batches", 1, 20)] = 6

From this one description come the slider, the command line's option with its help, and the sentence a
learner reads after a bad value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args, get_origin

from kitlib.errors import KnobError
from kitlib.java.numbers import MAX_LONG
from kitlib.settings import Settings

UNLIMITED = MAX_LONG  # what Storm writes for "no bound"

_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

Kind = Literal["int", "float", "bool", "choice"]
PLACES = ("offset", "day")  # units that say where or when, and not how many: "offset 35"
ENDINGS = (("ies", "y"), ("ches", "ch"), ("s", ""))  # of a plural and its singular


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: one line of help, its unit and range, and what `bind` takes from its parameter.

    `low` and `high` are inclusive and matter for numbers. A `live` knob may change in the middle of a run
    (at a fork); the others shape the run from its first step.
    """

    help: str
    unit: str = ""
    low: float = 0
    high: float = 0
    scale: Literal["linear", "log"] = "linear"
    live: bool = False
    name: str = ""
    kind: Kind = "int"
    default: Any = None
    choices: tuple[str, ...] = ()  # of kind "choice"

    @property
    def range(self) -> str:
        """The allowed values in words."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        high = "unlimited" if self.high == UNLIMITED else f"{self.high:,}"
        return f"{self.low:,} to {high}" + (f" {self.unit}" if self.unit else "")

    def with_unit(self, number: str) -> str:
        """A value's number with the unit, as one says it: "35 tuples", "1 tuple", "offset 35"."""
        if self.unit in PLACES:
            return f"{self.unit} {number}"
        what, per, time = self.unit.partition("/")
        if number == "1" and len(what) > 2:  # not ms, s or %
            what = next((what.removesuffix(many) + one for many, one in ENDINGS if what.endswith(many)), what)
        return f"{number} {what}{per}{time}".strip()

    def check(self, value: Any) -> Any:
        """`value` as this knob's type. KnobError when it is of another type or outside the range.

        Texts are read as a command line writes them: "unlimited", "true", "1e3", "1_000".
        """
        try:
            return self._checked(value)
        except (ValueError, TypeError, OverflowError, KeyError):
            raise KnobError(f"{self.name} is {repr(value)[:60]}, expected {self.range}. {self.help}") from None

    def _checked(self, value: Any) -> Any:
        if self.kind == "bool":
            if isinstance(value, str):
                return _BOOLS[value.strip().lower()]
            return value if isinstance(value, bool) else _refuse()
        if self.kind == "choice":
            return value if value in self.choices else _refuse()
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return _refuse()
        if isinstance(value, str) and value.strip().lower() == "unlimited" and self.high == UNLIMITED:
            return UNLIMITED
        number = float(value) if self.kind == "float" else _whole(value)
        return number if math.isfinite(number) and self.low <= number <= self.high else _refuse()

    def to_json(self) -> dict[str, Any]:
        """The description as JSON values, for widgets; 64-bit bounds as text, which JavaScript keeps exactly."""
        told = {name: "unlimited" if value == UNLIMITED else value for name, value in asdict(self).items()}
        return told | {"choices": list(self.choices)}


def _whole(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        try:
            return int(text)
        except ValueError:
            value = float(text)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(_refuse())


def _refuse() -> Any:
    raise ValueError


def told_value(value: Any) -> str:
    """A knob's value in words: the number that stands for no bound is "unlimited"."""
    return "unlimited" if value == UNLIMITED else str(value)


def as_text(value: Any) -> str:
    """A knob's value as a command line or a script writes it, which `Knob.check` reads."""
    return told_value(value).lower() if isinstance(value, bool) else told_value(value)


def settle(knobs: Iterable[Knob], given: Mapping[str, Any], where: str) -> Settings:
    """Every knob's value: the given one, checked, or its default. KnobError for a name that is no knob."""
    by_name = {knob.name: knob for knob in knobs}
    for name in given:
        if name not in by_name:
            near = "".join(f" Did you mean {each}?" for each in get_close_matches(name, by_name, n=1))
            raise KnobError(f"{where} has no knob '{name}'.{near} Its knobs are {', '.join(by_name)}.")
    return Settings({name: knob.check(given[name]) if name in given else knob.default for name, knob in by_name.items()})


def check_seed(seed: Any, where: str) -> int:
    """A run's seed. KnobError unless it is a whole number from 0 to 2^63 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise KnobError(f"{where}: seed is {str(seed)[:40]!r}, expected a whole number from 0 to 2^63 - 1.")
    return seed


KINDS: dict[Any, Kind] = {int: "int", float: "float", bool: "bool"}


def bind(name: str, hint: Any, default: Any) -> Knob:
    """The knob that `name: hint = default` declares. KnobError when it declares none, or its default is out of range."""
    value_type, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    choices = get_args(value_type) if get_origin(value_type) is Literal else ()
    found = next((extra for extra in extras if isinstance(extra, Knob)), None)
    if found is None or not (choices or value_type in KINDS):
        raise KnobError(
            f"{name} is annotated with {hint}, expected Annotated[int, Knob(...)], with int, float, bool or a Literal of texts. "
            "Annotate it so."
        )
    knob = replace(found, name=name, kind="choice" if choices else KINDS[value_type], choices=choices)
    return replace(knob, default=knob.check(default))
