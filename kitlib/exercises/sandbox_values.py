"""How a value of the learner's gets from their process into ours: as JSON, and never as code.

A set, a tuple or a NaN has no JSON of its own and is written as `{"~": kind, "v": parts}`; what has
no plain form at all arrives as a `Foreign`, which shows what it was and can do nothing. The learner's
side packs, our side unpacks, and neither trusts the other's sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import index
from typing import Any

MARK = "~"  # the key of a dict that stands for a value which JSON does not have
MAX_PARTS = 200_000  # of one value, counted through all its levels
MAX_DEPTH = 40
MAX_TEXT = 10_000  # characters of one text
MAX_BITS = 1_024  # of one whole number
SHOWN = 200  # characters of what a Foreign shows


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that stayed in the learner's process: only what it looked like came over."""

    shown: str

    def __repr__(self) -> str:
        return self.shown


class _TooManyPartsError(Exception):
    """The value is too large or too deep to be sent part by part."""


def pack(value: Any) -> Any:
    """`value` as JSON values. Whatever cannot be sent becomes what its `repr` says, shortened."""
    try:
        return _packed(value, iter(range(MAX_PARTS)), 0)
    except _TooManyPartsError:
        return _foreign(f"a {type(value).__name__} with more than {MAX_PARTS:,} parts or {MAX_DEPTH} levels")


def _packed(value: Any, budget: Iterator[int], depth: int) -> Any:
    if next(budget, None) is None or depth > MAX_DEPTH:
        raise _TooManyPartsError
    if value is None or value is True or value is False:
        return value
    if isinstance(value, float):
        return float(value) if value - value == 0 else {MARK: "float", "v": float.__repr__(value)}
    if isinstance(value, str):
        return str.__str__(value) if len(value) <= MAX_TEXT else _foreign(shown(value[:SHOWN]))
    if isinstance(value, range):
        return {MARK: "range", "v": [_packed(end, budget, depth + 1) for end in (value.start, value.stop, value.step)]}
    if isinstance(value, Mapping):
        pairs = islice(value.items(), MAX_PARTS)
        return {MARK: "dict", "v": [[_packed(each, budget, depth + 1) for each in pair] for pair in pairs]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            parts = [_packed(each, budget, depth + 1) for each in value]
            return parts if kind is list else {MARK: kind.__name__, "v": parts}
    if (number := _whole(value)) is not None:
        return number if number.bit_length() <= MAX_BITS else _foreign(f"a whole number of {number.bit_length():,} bits")
    return _foreign(shown(value))


def _whole(value: Any) -> int | None:
    """An int, and the whole numbers of NumPy; None for anything else, such as an array of them."""
    try:
        return index(value)
    except TypeError:
        return None


def shown(value: Any) -> str:
    """What `repr` says of a value, shortened; of what cannot be shown, why not."""
    try:
        return repr(value)[:SHOWN]
    except Exception as error:  # noqa: BLE001 - a __repr__ of the learner's may raise anything
        return f"something whose repr raises {type(error).__name__}"


def _foreign(text: str) -> dict[str, str]:
    return {MARK: "foreign", "v": text}


def unpack(value: Any) -> Any:
    """What `pack` packed. ValueError for anything that it never writes."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind, parts = value.get(MARK), value.get("v")
    try:
        if kind == "foreign" and isinstance(parts, str):
            return Foreign(parts[:SHOWN])
        if kind == "float" and isinstance(parts, str):
            return float(parts)
        if isinstance(parts, list):
            if kind == "range":
                return range(*parts)
            if kind == "dict":
                return {unpack(key): unpack(each) for key, each in parts}
            if kind in ("tuple", "set", "frozenset"):
                return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](map(unpack, parts))
    except TypeError as error:
        raise ValueError(str(error)) from None
    raise ValueError(f"{MARK}: {kind!r}")


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


# NaN and Infinity are refused: they come packed, or not at all.
parse = json.JSONDecoder(parse_constant=_refused).decode
