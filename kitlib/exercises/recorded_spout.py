"""A learner's PartitionManager beside the recorded one of Storm 0.9.3: told in the ledgers' words, drawn as two partitions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

from kitlib.conformance.golden import Difference, bundled, read_traces
from kitlib.conformance.partition_manager import replay
from kitlib.exercises.recorded import Recording, Script
from kitlib.storm.partition_manager import PartitionManager
from kitlib.text import plain_text
from kitlib.trace import Trace, to_ranges
from kitlib.views import Picture, show

FILES = ("pm_scenarios.jsonl.gz", "pm_random_public.jsonl.gz")
ASKED = ("offset", "topic", "time")  # in a recorded call to the broker: what Storm asked for, so an answer of its own
MOST_DRAWN = 2_000  # records in the picture of a difference
UNLIMITED = 2**63 - 1

LEDGERS = {  # the recording's word -> the learner's, in the order in which a difference is told
    "pending": "pending",
    "failed": "failed",
    "waitingToEmit": "waiting_to_emit",
    "emittedToOffset": "emitted_to_offset",
    "committedTo": "committed_to",
    "numberAcked": "number_acked",
    "numberFailed": "number_failed",
}


@cache
def bundled_scripts() -> tuple[Script, ...]:
    """Every recorded script that comes with the kit."""
    return tuple(chain.from_iterable(read_traces(bundled("storm", name)) for name in FILES))


def operations(script: Script) -> Script:
    """A recorded script without anything that Storm answered, but with what the broker answered to whom."""
    steps = []
    for step in script["steps"]:
        broker = [{name: value for name, value in call.items() if name not in ASKED} for call in step.get("broker", [])]
        steps.append({"op": step["op"], "args": step.get("args", {}), "broker": broker})
    return {**{name: script[name] for name in ("name", "config", "zk", "log") if name in script}, "steps": steps}


def answers_to(make: Any, script: Script) -> Iterator[dict[str, Any]]:
    """The learner's ack in the kit's PartitionManager, or their whole class, at each step; runs in their process."""
    return replay(script, built_with(make))


def built_with(make: Any) -> Any:
    """The class itself, or the kit's with the learner's ack in it."""
    return make if isinstance(make, type) else type("YourPartitionManager", (PartitionManager,), {"ack": make})


def _where(script: Script, at: int) -> str:
    step, bound = script["steps"][at], script["config"].get("maxOffsetBehind")
    limit = "unlimited" if bound is None or bound == UNLIMITED else f"{bound:,}"
    operation = " ".join([step["op"], *(str(value) for value in step.get("args", {}).values())])
    return f"step {at} (max_offset_behind {limit}), {operation}"


def _said(script: Script, first: Difference, answers: list[Any]) -> tuple[str, Any]:
    recorded, had = script["steps"][first.step]["state"], _ledgers(answers[-1])
    rows = [(ours, recorded[theirs], had.get(theirs)) for theirs, ours in LEDGERS.items()]
    name, wanted, got = next((row for row in rows if row[1] != row[2]), (first.field, first.expected, first.got))

    def draw(_: str) -> Picture | None:
        return _picture(script, answers) if all(map(_can_be_drawn, answers)) else None

    return f"{name} should now be {_listed(wanted)}; yours is {_listed(got)}", draw


def _listed(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        return plain_text(value, 120)
    return plain_text("{" + ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in to_ranges(value)) + "}")


def _picture(script: Script, yours: list[Any]) -> Picture:
    """Both partitions after the step: Storm's recorded ledgers above the learner's."""
    steps = script["steps"][: len(yours)]
    trace = Trace("difference", "the first difference", "recorded script")
    offsets = {offset for done in (steps, yours) for result in done for offset in _offsets_of(result)}
    bounds = {"log_start": min(offsets, default=0), "log_end": max(offsets, default=-1) + 1}
    for lane, done in (("Storm 0.9.3", steps), ("your code", yours)):
        place: dict[str, Any] = {"topic": lane, "partition": 0}
        trace.record(0, "log", "append", first=bounds["log_start"], last=bounds["log_end"] - 1, **place)
        acked: set[int] = set()
        for step, result in zip(steps, done, strict=True):
            for offset in result["result"].get("emitted", ()):
                trace.record(0, "spout", "emit", offset=offset, **place)
            if step["op"] == "ack" and step["args"]["offset"] not in acked:
                acked.add(step["args"]["offset"])
                trace.record(0, "bolt", "process", offset=step["args"]["offset"], **place)
        last, ledgers = steps[-1], done[-1]["state"]
        state = bounds | {
            "committed_to": ledgers["committedTo"],
            "emitted_to_offset": ledgers["emittedToOffset"],
            "pending": to_ranges(ledgers["pending"]),
            "failed": to_ranges(ledgers["failed"]),
            "waiting": to_ranges(ledgers["waitingToEmit"]),
        }
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


SPOUT = Recording(bundled_scripts, operations, answers_to, lambda answer, step: answer, _where, _said)
