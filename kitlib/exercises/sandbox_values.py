"""A value of the learner's as JSON values and back: what JSON does not have is written as `{"~": kind, "v": parts}`.

What has no plain form arrives as a `Foreign`, which shows what it was and can do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import index
from typing import Any

MARK = "~"
KINDS = {"tuple": tuple, "set": set, "frozenset": frozenset}
SHOWN = 200  # characters of what a Foreign shows


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value that stayed in the learner's process: only what it looked like came over."""

    shown: str

    def __repr__(self) -> str:
        return self.shown


def pack(value: Any) -> Any:
    """`value` as JSON values."""
    try:
        return _packed(value)
    except RecursionError:
        return {MARK: "foreign", "v": shown(value)}


def _packed(value: Any) -> Any:
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, list):
        return [_packed(each) for each in value]
    if isinstance(value, range):
        return {MARK: "range", "v": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {MARK: "dict", "v": [[_packed(name), _packed(each)] for name, each in value.items()]}
    for name, kind in KINDS.items():
        if isinstance(value, kind):
            return {MARK: name, "v": [_packed(each) for each in value]}
    with suppress(TypeError):
        return index(value)  # the whole numbers of NumPy, too
    return {MARK: "foreign", "v": shown(value)}


def unpack(value: Any) -> Any:
    """What `pack` packed."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind, parts = value[MARK], value["v"]
    if kind == "foreign":
        return Foreign(parts)
    if kind == "range":
        return range(*parts)
    return {unpack(name): unpack(each) for name, each in parts} if kind == "dict" else KINDS[kind](map(unpack, parts))


def shown(value: Any) -> str:
    """What `repr` says of a value, shortened; of what cannot be shown, why not."""
    try:
        return repr(value)[:SHOWN]
    except Exception as error:  # noqa: BLE001 - a __repr__ of the learner's may raise anything
        return f"something whose repr raises {type(error).__name__}"
