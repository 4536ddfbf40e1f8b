"""Any settings of an experiment, for properties that hold whatever they are."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kitlib.experiments import get


@st.composite
def settings_of(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Any values of some of an experiment's knobs, small enough for a short run."""
    found: dict[str, Any] = {"max_steps": draw(st.integers(10, 300))}
    for knob in get(name).knobs:
        if knob.name == "max_steps" or not draw(st.booleans()):
            continue
        if knob.kind == "bool":
            found[knob.name] = draw(st.booleans())
        elif knob.kind == "choice":
            found[knob.name] = draw(st.sampled_from(knob.choices))
        elif knob.kind == "float":
            found[knob.name] = draw(st.floats(knob.low, knob.high))
        else:
            low, high = int(knob.low), int(knob.high)
            found[knob.name] = draw(st.integers(low, min(high, low + 60)) | st.sampled_from([low, min(high, 2_000)]))
    if found.get("crash") == "acker":  # word_count refuses the death of an acker where there is none
        found.pop("topology_ackers", None)
    return found
