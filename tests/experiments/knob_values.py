"""Runs that several tests read: an experiment's own, once for all of them, and runs with any settings, for properties that always hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import KitError
from kitlib.experiments import get
from kitlib.monitor.delivery import Verdict, judge
from kitlib.trace import Trace


@cache
def own_run(name: str) -> Trace:
    """The run with the experiment's own settings: to be read, never changed."""
    return get(name).run()


def case_id(case: tuple[str, dict[str, Any]]) -> str:
    """An experiment with its knobs, as a case's id."""
    return " ".join([case[0], *(f"{name}={value}" for name, value in case[1].items())])


def counted(trace: Trace, *but: str) -> dict[str, int]:
    """The counts of a run's verdict that are not 0."""
    return {kind: count for kind, count in judge(trace).counts.items() if count and kind not in but}


def with_any_knobs(name: str, examples: int, check: Callable[[Trace, Verdict], None], refused: str = "nothing is refused") -> None:
    """Whatever the knobs and the seed, a run ends within its steps, is JSON both ways with its verdict, and passes the check.

    Settings that do not go together may be refused in these words.
    """

    @settings(deadline=None, max_examples=examples)
    @given(settings_of(name), st.integers(0, 2**63 - 1))
    def any_knobs(knobs: dict[str, Any], seed: int) -> None:
        try:
            trace = get(name).run(seed=seed, **knobs)
        except KitError as error:
            assert re.search(refused, str(error)), error
            return
        assert len(trace) <= knobs["max_steps"] and Trace.from_json_lines(trace.to_json_lines()) == trace
        verdict = judge(trace)
        json.dumps(verdict.to_json())
        check(trace, verdict)

    any_knobs()


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
