"""A knob as the page needs it: what it is called, where its slider stops, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.trace import Trace

MANTISSAS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)  # the stops of a decade on a logarithmic slider
MAX_STOPS = 200
LONG_NUMBER = 11  # characters; beside a longer one there is no room for the unit
LOG_TOP = 10**6  # an unlimited slider counts to here; its last stop is "unlimited"


def to_control(knob: Knob, trace: Trace) -> dict[str, Any]:
    """A knob as the browser needs it: its stops, and where it stands."""
    value = trace.settings.get(knob.name, knob.default)
    return {
        "name": knob.name,
        "kind": knob.kind,
        "help": knob.help,
        "live": knob.live,
        "isSlow": trace.backend != "model",  # run at the end of a move, not during it
        "value": to_text(value),
        "stops": [{"value": to_text(stop), "label": to_label(knob, stop)} for stop in stops_of(knob, value)],
    }


def to_label(knob: Knob, value: Any) -> str:
    """A knob's value as it stands beside its slider."""
    if value == UNLIMITED:
        return "unlimited"
    number = f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    return number if len(number) > LONG_NUMBER else knob.with_unit(number)


def stops_of(knob: Knob, value: Any) -> list[Any]:
    """The values at which a knob's slider stops, `value` and the default among them, in order."""
    if knob.kind == "choice":
        return list(knob.choices)
    if knob.kind == "bool":
        return []
    found: Iterable[float]
    if knob.scale == "log":
        found = _log_stops(knob)
    elif knob.kind == "int" and knob.high - knob.low <= MAX_STOPS:
        found = range(int(knob.low), int(knob.high) + 1)
    elif knob.kind == "int":  # a long way: one by one where it matters, then by steps that grow
        found = [*range(int(knob.low), 61), *_log_stops(knob)]
    else:
        found = (knob.low + (knob.high - knob.low) * part / 100 for part in range(101))
    kind = int if knob.kind == "int" else float
    stops = {kind(round(stop, 6)) if stop != UNLIMITED else UNLIMITED for stop in found}
    return sorted(stop for stop in stops | {value, knob.default, kind(knob.low)} if knob.low <= stop <= knob.high)


def _log_stops(knob: Knob) -> list[float]:
    """1, 1.2, 1.5, 2, ... in every decade of the range, and its ends."""
    top = LOG_TOP if knob.high == UNLIMITED else knob.high
    decades = range(-3 if knob.kind == "float" else 0, 20)
    stops = [mantissa * 10.0**decade for decade in decades for mantissa in MANTISSAS]
    inside = [stop for stop in stops if knob.low <= stop <= top]
    return [knob.low, *inside, UNLIMITED if knob.high == UNLIMITED else knob.high]


def to_text(value: Any) -> Any:
    """A knob's value for the browser: numbers as text, as JavaScript cannot hold 2^63 - 1."""
    return value if isinstance(value, bool) else str(value)
