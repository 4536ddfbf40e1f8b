"""One line of a recorded trace: a JSON object whose fields have known types, or what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kitlib.errors import TraceError

MAX_LINE_CHARS = 1_000_000  # a longer line is no step of ours; reading stops before memory does
HEADER = {
    "run": str, "experiment": str, "domain": str, "backend": str, "seed": int, "knobs": dict, "parent": dict, "script": list,
    "simulated": str,
}  # fmt: skip
STEP = {"n": int, "at_ms": int, "actor": str, "what": str, "data": dict, "state": dict}


class BadLineError(TraceError):
    """What is wrong with a line; the reader of the file adds the line's number."""


def parse(text: str) -> dict[str, Any]:
    """The JSON object in a line."""
    if len(text) > MAX_LINE_CHARS:
        raise BadLineError(f"it is {len(text):,} characters long, at most {MAX_LINE_CHARS:,} are read")
    try:
        row = json.loads(text)
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
    return fields


def read_step(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a step's line, by the names of `Step`."""
    fields = _typed({"state": {}} | row, STEP, "step")
    return {"number": fields.pop("n")} | fields


def _typed(row: Mapping[str, Any], types: Mapping[str, type], line: str, or_none: str = "") -> dict[str, Any]:
    for name, kind in types.items():
        if name not in row:
            raise BadLineError(f"the {line} has no '{name}'")
        value = row[name]
        if name == or_none and value is None:
            continue
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadLineError(f"{name} should be of type {kind.__name__}, got {_short(value)}")
    return {name: row[name] for name in types}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
