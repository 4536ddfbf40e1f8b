"""Where a learner's PartitionManager first does something else than the recorded one of Storm 0.9.3.

The bundled scripts are replayed, the named ones first as they are the shorter ones. The first step that
differs is told in the ledgers' own words, and drawn: what Storm had after that step above what the
learner's code has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from kitlib.conformance.golden import Conformance, Difference, bundled, conform, read_traces
from kitlib.conformance.partition_manager import Build, replay
from kitlib.trace import Trace, to_ranges
from kitlib.views import Picture, show

FILES = ("pm_scenarios.jsonl.gz", "pm_random_public.jsonl.gz")

LEDGERS = {  # the recording's word -> the learner's, in the order in which a difference is told
    "pending": "pending",
    "failed": "failed",
    "waitingToEmit": "waiting_to_emit",
    "emittedToOffset": "emitted_to_offset",
    "committedTo": "committed_to",
    "numberAcked": "number_acked",
    "numberFailed": "number_failed",
}


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """How far the learner's code agrees, and the step at which it first does not."""

    matched: int
    total: int
    trace: str  # the script's name
    meaning: str  # what the script shows, in the recorder's words
    said: str  # what differs at that step
    picture: Picture | None  # None where the ledgers could not be read


def bundled_scripts() -> Iterator[dict[str, Any]]:
    """Every recorded script that comes with the kit."""
    return chain.from_iterable(read_traces(bundled("storm", name)) for name in FILES)


def conformance(build: Build) -> Conformance:
    """How many recorded steps a PartitionManager repeats, over all bundled scripts."""
    return conform(partial(replay, build=build), bundled_scripts())


def first_difference(build: Build) -> FirstDifference | None:
    """The first step that differs; None when every recorded step is repeated."""
    found = conformance(build)
    if found.agrees:
        return None
    first = found.differences[0]
    script = next(trace for trace in bundled_scripts() if trace.get("name") == first.trace)
    storm = script["steps"][: first.step + 1]
    yours = _replayed(script, build, first.step + 1)
    said = _said(script, first, yours)
    picture = _picture(script, storm, yours) if len(yours) == len(storm) else None
    return FirstDifference(found.matched, found.total, first.trace, first.meaning, said, picture)


def _replayed(script: dict[str, Any], build: Build, count: int) -> list[dict[str, Any]]:
    """What the learner's code did in the first steps, as far as it came without breaking."""
    done: list[dict[str, Any]] = []
    try:
        for _, result in zip(range(count), replay(script, build), strict=False):
            done.append(result)
    except Exception:  # noqa: BLE001  a learner's code may raise anything; the difference tells what
        pass
    return done


def _said(script: dict[str, Any], first: Difference, yours: list[dict[str, Any]]) -> str:
    step = script["steps"][first.step]
    operation = " ".join([step["op"], *(str(value) for value in step.get("args", {}).values())])
    bound = script["config"].get("maxOffsetBehind")
    where = f"script '{first.trace}' (max_offset_behind {told_bound(bound)}), step {first.step}, {operation}"
    if len(yours) <= first.step:
        return f"{where}: your code raised {first.got}."
    recorded, had = step["state"], yours[first.step]["state"]
    for theirs, ours in LEDGERS.items():
        if recorded[theirs] != had[theirs]:
            return f"{where}: {ours} should be {_listed(recorded[theirs])} then, yours is {_listed(had[theirs])}."
    return f"{where}: {first.field} should be {_listed(first.expected)} then, yours is {_listed(first.got)}."


def told_bound(bound: int | None) -> str:
    """A bound as the notebooks write it."""
    return "unlimited" if bound is None or bound == 2**63 - 1 else f"{bound:,}"


def _listed(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        return str(value)[:120]
    return "{" + ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in to_ranges(value)) + "}"


def _picture(script: dict[str, Any], storm: list[dict[str, Any]], yours: list[dict[str, Any]]) -> Picture:
    """Both partitions after the step: Storm's recorded ledgers above the learner's."""
    trace = Trace("difference", "the first difference", "recorded script")
    offsets = {offset for done in (storm, yours) for result in done for offset in _offsets_of(result)}
    bounds = {"log_start": min(offsets, default=0), "log_end": max(offsets, default=-1) + 1}
    steps = script["steps"][: len(storm)]
    for lane, done in (("Storm 0.9.3", storm), ("your code", yours)):
        place: dict[str, Any] = {"topic": lane, "partition": 0}
        trace.record(0, "log", "append", first=bounds["log_start"], last=bounds["log_end"] - 1, **place)
        acked: set[int] = set()
        for step, result in zip(steps, done, strict=True):
            for offset in result["result"].get("emitted", ()):
                trace.record(0, "spout", "emit", offset=offset, **place)
            if step["op"] == "ack" and step["args"]["offset"] not in acked:
                acked.add(step["args"]["offset"])
                trace.record(0, "bolt", "process", offset=step["args"]["offset"], **place)
        last = steps[-1]
        state = bounds | _state(done[-1]["state"])
        trace.record(0, "spout", last["op"], state=state, **place, **last.get("args", {}))
    return show(trace, part="log")


def _offsets_of(result: dict[str, Any]) -> set[int]:
    """Every offset that a step's state or result names."""
    state = result["state"]
    named = {*state["pending"], *state["failed"], *state["waitingToEmit"], *result["result"].get("emitted", ())}
    return {offset for offset in named if offset >= 0}


def _state(state: dict[str, Any]) -> dict[str, Any]:
    """The recording's ledgers as a trace's steps hold them."""
    return {
        "committed_to": state["committedTo"],
        "emitted_to_offset": state["emittedToOffset"],
        "pending": to_ranges(state["pending"]),
        "failed": to_ranges(state["failed"]),
        "waiting": to_ranges(state["waitingToEmit"]),
    }
