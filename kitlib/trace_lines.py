"""One line of a recorded trace: a JSON object whose fields have known types, or what is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from kitlib.errors import TraceError
from kitlib.settings import WITHOUT_KNOB, Settings
from kitlib.text import plain_text
from kitlib.words.fields import is_whole

MAX_LINE_CHARS = 1_000_000  # a longer line is no step of ours; reading stops before memory does
HEADER = {
    "run": str, "experiment": str, "domain": str, "backend": str, "seed": int, "knobs": dict, "parent": dict, "script": list,
    "simulated": str,
}  # fmt: skip
STEP = {"n": int, "at_ms": int, "actor": str, "what": str, "data": dict, "state": dict}


def _finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(f"{text[:20]} is no number that is kept here")


DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


class BadLineError(TraceError):
    """What is wrong with a line; the reader of the file adds the line's number."""


def parse(text: str) -> dict[str, Any]:
    """The JSON object in a line."""
    if len(text) > MAX_LINE_CHARS:
        raise BadLineError(f"it is {len(text):,} characters long, at most {MAX_LINE_CHARS:,} are read")
    try:
        row = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"it is not JSON ({str(error)[:80] or 'nested too deeply'})") from None
    if not isinstance(row, dict):
        raise BadLineError(f"expected a JSON object, got {_short(row)}")
    return row


def read_header(row: dict[str, Any], schema: int) -> dict[str, Any]:
    """The fields of a trace's first line, by the names of `Trace`."""
    found = row.get("kit_trace")
    if found != schema:
        older = " (recorded by an older kit: run the experiment again)" if found == 1 else ""
        raise BadLineError(f"expected a header with 'kit_trace': {schema}, got {_short(found)}{older}")
    fields = _typed({"parent": None, "script": [], "simulated": ""} | row, HEADER, "header", or_none="parent")
    if not all(isinstance(line, str) for line in fields["script"]):
        raise BadLineError(f"script should be a list of texts, got {_short(fields['script'])}")
    if strange := [name for name, value in fields["knobs"].items() if not (is_whole(value) or type(value) in (str, float, bool))]:
        raise BadLineError(f"the knob {plain_text(strange[0], 40)} should be a text, a number, true or false")
    if taken := [name for name in fields["knobs"] if hasattr(Settings, name) and name not in WITHOUT_KNOB]:
        raise BadLineError(f"no knob can be called {taken[0]}")
    if fields["parent"] is not None and not is_whole(fields["parent"].get("at")):
        raise BadLineError(f"parent should say at which step it was left, got {_short(fields['parent'])}")
    return {"settings" if name == "knobs" else name: value for name, value in fields.items()}


def read_step(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a step's line, by the names of `Step`."""
    row.setdefault("state", {})
    if [type(row.get(name)) for name in STEP] != [*STEP.values()] or not is_whole(row["at_ms"]):
        _typed(row, STEP, "step")  # says which is missing or of another type
    return {"number" if name == "n" else name: row[name] for name in STEP}


def _typed(row: Mapping[str, Any], types: Mapping[str, type], line: str, or_none: str = "") -> dict[str, Any]:
    for name, kind in types.items():
        if name not in row:
            raise BadLineError(f"the {line} has no '{name}'")
        value = row[name]
        if not (is_whole(value) if kind is int else isinstance(value, kind) or (name == or_none and value is None)):
            raise BadLineError(f"{name} should be of type {kind.__name__}, got {_short(value)}")
    return {name: row[name] for name in types}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
