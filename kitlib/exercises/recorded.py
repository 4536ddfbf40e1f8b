"""Where a learner's PartitionManager first does something else than the recorded one of Storm 0.9.3.

The bundled scripts are replayed, the named ones first as they are the shorter ones. What Storm answered
stays here: the learner's process gets the operations, and what the broker answered to whom. The first step
that differs is told in the ledgers' own words, and drawn: what Storm had after that step above what the
learner's code has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kitlib.conformance.golden import Conformance, Difference, bundled, conform, read_traces
from kitlib.conformance.partition_manager import replay
from kitlib.exercises.frame import NotYet, unbroken
from kitlib.exercises.sandbox import Outcome, Raised, run_steps
from kitlib.storm.partition_manager import PartitionManager
from kitlib.text import plain_text
from kitlib.trace import Trace, to_ranges
from kitlib.views import Picture, show

FILES = ("pm_scenarios.jsonl.gz", "pm_random_public.jsonl.gz")
ASKED = ("offset", "topic", "time")  # in a recorded call to the broker: what Storm asked for, so an answer of its own
MOST_DRAWN = 2_000  # records in the picture of a difference

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
    has_raised: bool  # the learner's code raised an exception there
    picture: Picture | None  # None where the ledgers could not be read


def judged_by(found: FirstDifference | None, agrees: str) -> str:
    """The end of a check against recordings: `agrees` when nothing differs, else NotYet with the first step that does."""
    if found is None:
        return agrees
    raise NotYet(
        f"{found.matched:,} of {found.total:,} recorded steps agree. The first that does not is in {found.said}",
        "Look at that line first." if found.has_raised else f"What that script shows: {found.meaning}",
        found.picture,
    )


def bundled_scripts() -> Iterator[dict[str, Any]]:
    """Every recorded script that comes with the kit."""
    return chain.from_iterable(read_traces(bundled("storm", name)) for name in FILES)


def operations(script: dict[str, Any]) -> dict[str, Any]:
    """A recorded script without anything that Storm answered: what the learner's process is given."""
    steps = []
    for step in script["steps"]:
        broker = [{name: value for name, value in call.items() if name not in ASKED} for call in step.get("broker", [])]
        steps.append({"op": step["op"], "args": step.get("args", {}), "broker": broker})
    return {**{name: script[name] for name in ("name", "config", "zk", "log") if name in script}, "steps": steps}


def answers_to(make: Any, script: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The learner's ack in the kit's PartitionManager, or their whole class, at each step of a script; runs over there."""
    build = make if isinstance(make, type) else type("YourPartitionManager", (PartitionManager,), {"ack": make})
    return replay(script, build)


def first_difference(make: Any) -> FirstDifference | None:
    """The first step that differs; None when every recorded step is repeated. NotYet when the code breaks a limit."""
    scripts = list(bundled_scripts())
    outcome = unbroken(run_steps(answers_to, make, [operations(script) for script in scripts]))
    found = compare(scripts, outcome)
    if found.agrees:
        return None
    first = found.differences[0]
    number, script = next((number, each) for number, each in enumerate(scripts) if each.get("name") == first.trace)
    storm, yours = script["steps"][: first.step + 1], outcome.answers[number][: first.step + 1]
    raised = outcome.raised[number] if len(yours) <= first.step else None
    said = _said(script, first, yours, raised)
    picture = _picture(script, storm, yours) if len(yours) == len(storm) and all(map(_can_be_drawn, yours)) else None
    return FirstDifference(found.matched, found.total, first.trace, first.meaning, said, raised is not None, picture)


def compare(scripts: list[dict[str, Any]], outcome: Outcome) -> Conformance:
    """How many recorded steps the answers repeat, and where each script first differs."""
    answers = iter(outcome.answers)
    return conform(lambda _: iter(next(answers)), iter(scripts))


def _said(script: dict[str, Any], first: Difference, yours: list[Any], raised: Raised | None) -> str:
    step = script["steps"][first.step]
    operation = " ".join([step["op"], *(str(value) for value in step.get("args", {}).values())])
    bound = script["config"].get("maxOffsetBehind")
    where = f"script '{first.trace}' (max_offset_behind {told_bound(bound)}), step {first.step}, {operation}"
    if raised is not None:
        return f"{where}: your code raised {raised.what}."
    recorded, had = step["state"], _ledgers(yours[first.step])
    for theirs, ours in LEDGERS.items():
        if recorded[theirs] != had.get(theirs):
            return f"{where}: {ours} should be {_listed(recorded[theirs])} then, yours is {_listed(had.get(theirs))}."
    return f"{where}: {first.field} should be {_listed(first.expected)} then, yours is {_listed(first.got)}."


def told_bound(bound: int | None) -> str:
    """A bound as the notebooks write it."""
    return "unlimited" if bound is None or bound == 2**63 - 1 else f"{bound:,}"


def _listed(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        return plain_text(value, 120)
    return plain_text("{" + ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in to_ranges(value)) + "}")


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


def _ledgers(answer: Any) -> dict[str, Any]:
    state = answer.get("state") if isinstance(answer, dict) else None
    return state if isinstance(state, dict) else {}


def _can_be_drawn(answer: Any) -> bool:
    """Whether an answer has ledgers of offsets, as any answer of `replay` has: the learner's process may send others."""
    state = _ledgers(answer)
    result = answer.get("result") if state else None
    lists = [state.get("pending"), state.get("failed"), state.get("waitingToEmit")]
    lists.append(result.get("emitted", []) if isinstance(result, dict) else None)
    if not all(isinstance(offsets, list) and all(type(offset) is int for offset in offsets) for offsets in lists):
        return False
    offsets = [offset for offsets in lists for offset in offsets or ()]
    numbers = [state.get("committedTo"), state.get("emittedToOffset")]
    return max(offsets, default=0) - min(offsets, default=0) <= MOST_DRAWN and all(type(each) is int for each in numbers)


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
