"""A learner's PartitionManager beside the recorded one of Storm 0.9.3: told in the ledgers' words, drawn as two partitions.

Two kinds of answers. A function `ack(manager, offset)` stands in the kit's own class. A class is the whole of it, made from a config,
a log and a store, with `next()`, `ack(offset)`, `fail(offset)` and `commit()`, and the ledgers as attributes. What is network, text
or setting is done for it: `log.fetch(offset)` returns a list of records, or None when the offset is out of range and the settings
allow to go on; `log.offset_at(time)` an offset; `store.read()` what a start can use, with `offset` and `topology_id`, or None;
`store.write(offset)` keeps one. Too many failures are a RuntimeError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

from kitlib.conformance.golden import Difference, bundled, read_traces
from kitlib.conformance.partition_manager import LiveLog, replay
from kitlib.exercises import solutions
from kitlib.exercises.recorded import Recording, Script, first_row
from kitlib.exercises.shrinking import raised
from kitlib.kafka.log import FetchError, Record
from kitlib.storm.errors import FailedFetchError, MissingTopologyNameError, TooManyTupleFailuresError
from kitlib.storm.offset_store import StoredOffset, offset_text, read_stored_offset
from kitlib.storm.partition_manager import NO_OFFSET, Emission, EmitState, PartitionManager, SpoutConfig
from kitlib.text import plain_text
from kitlib.trace import Trace, to_ranges
from kitlib.views import Picture, show

FILES = ("pm_scenarios.jsonl.gz", "pm_random_public.jsonl.gz")
ASKED = ("offset", "topic", "time")  # in a recorded call to the broker: what Storm asked for, so an answer of its own
MOST_DRAWN = 2_000  # records in the picture of a difference
UNLIMITED = 2**63 - 1
LEFT = {EmitState.EMITTED_MORE_LEFT.value: "more is waiting"}  # what `next` reports, in words
SMALL = 100  # an offset that is easy to read
METHODS = ("next", "ack", "fail", "commit")  # what a learner's class must have
SETTINGS = {  # the recording's word -> the learner's, of what a start is told with
    "maxOffsetBehind": "max_offset_behind",
    "forceFromStart": "force_from_start",
    "startOffsetTime": "start_offset_time",
    "useStartOffsetTimeIfOffsetOutOfRange": "use_start_offset_time_if_offset_out_of_range",
    "topologyId": "topology_id",
    "topologyName": "topology_name",
}
PLAIN = {  # what goes without saying
    "maxOffsetBehind": UNLIMITED, "forceFromStart": False, "startOffsetTime": -2, "useStartOffsetTimeIfOffsetOutOfRange": True,
    "topologyId": "topo-1", "topologyName": "topo",
}  # fmt: skip
_fetch = PartitionManager.fetch  # which error is which, taken before a learner's process closes the class to them

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
    """Every recorded script that comes with the kit; whom Storm asked is no part of its steps: one who asks once more is as good."""
    scripts = list(chain.from_iterable(read_traces(bundled("storm", name)) for name in FILES))
    return tuple({**script, "brokers": [step.pop("broker", []) for step in script["steps"]]} for script in scripts)


@cache
def whole_scripts() -> tuple[Script, ...]:
    """The same for a whole class: each ends before a failure whose bound lies below Java's numbers, which overflow."""
    return tuple({**script, "steps": list(_without_overflow(script))} for script in bundled_scripts())


def _without_overflow(script: Script) -> Iterator[dict[str, Any]]:
    bound = script["config"]["maxOffsetBehind"]
    for step in script["steps"]:
        bound = step.get("args", {}).get("config", {}).get("maxOffsetBehind", bound)
        if step["op"] == "fail" and step["state"]["emittedToOffset"] - bound < -(2**63):
            return
        yield step


def operations(script: Script) -> Script:
    """A recorded script without anything that Storm answered, but with what went wrong between it and the broker.

    The log, the settings and what was stored stand in its first step, so that its steps are all there is to it.
    """
    steps = []
    for step, calls in zip(script["steps"], script["brokers"], strict=False):
        broker = [{name: value for name, value in call.items() if name not in ASKED} for call in calls]
        steps.append({"op": step["op"], "args": step.get("args", {}), "broker": broker})
    steps[0] = {**steps[0], "made": {name: script[name] for name in ("config", "zk", "log") if name in script}}
    return {"name": script["name"], "steps": steps}


# In the learner's process.


def answers_to(make: Any, script: Script) -> Iterator[dict[str, Any]]:
    """The learner's ack in the kit's PartitionManager, or their whole class, at each step; runs in their process."""
    return _played(built_with(make), script)


def answers_of_class(make: Any, script: Script) -> Iterator[dict[str, Any]]:
    """The learner's own class at each step; runs in their process."""
    return _played(partial(Whole, make), script)


def _played(build: Any, script: Script) -> Iterator[dict[str, Any]]:
    steps = script["steps"]
    if not steps or steps[0]["op"] != "start":
        yield from ({} for _ in steps)  # nothing was begun
        return
    for done in replay({**steps[0]["made"], "steps": steps}, build, LiveLog):
        done.pop("broker", None)
        yield done


def built_with(make: Any) -> Any:
    """The class itself, or the kit's with the learner's ack in it."""
    return make if isinstance(make, type) else type("YourPartitionManager", (PartitionManager,), {"ack": make})


@dataclass(slots=True)
class Log:
    """What a learner's class sees of the partition."""

    config: SpoutConfig
    log: Any  # a LogReader

    def fetch(self, offset: int) -> list[Record] | None:
        """The records from `offset` on; None when it is out of range and the settings allow to go on."""
        asks: Any = SimpleNamespace(config=self.config, log=self.log, failed_fetch=self._failed)
        fetched = _fetch(asks, offset)
        return None if fetched.error is FetchError.OFFSET_OUT_OF_RANGE else list(fetched.records)

    def offset_at(self, time: int) -> int:
        """The broker's offset for a time: -2 is the log's start, -1 its end; -5 when it has none."""
        found = self.log.offset_before(time)
        return NO_OFFSET if found is None else found

    def _failed(self, offset: int, error: FetchError) -> FailedFetchError:
        return FailedFetchError(f"{self.config.place} at {self.config.broker}", offset, error)


@dataclass(slots=True)
class Store:
    """Where a learner's class keeps its offset."""

    config: SpoutConfig
    store: Any  # an OffsetStore

    def read(self) -> StoredOffset | None:
        """What a start can use, with `topology_id` and `offset`."""
        return read_stored_offset(self.store, self.config.committed_path())

    def write(self, offset: int) -> None:
        """Keep it; raises when it is not kept."""
        config = self.config
        if config.topology_name is None:
            raise MissingTopologyNameError(config.id, offset)
        where = config.topic, config.partition, config.topology_id, config.topology_name, config.broker_host, config.broker_port
        self.store.write(config.committed_path(), offset_text(offset, *where))


class Whole:
    """A learner's class as the recorded scripts drive it."""

    def __init__(self, make: Any, config: SpoutConfig, log: Any, store: Any) -> None:
        self.config = config
        self.made = make(config, Log(config, log), Store(config, store))

    def next(self) -> Emission:
        record = self.made.next()
        if record is None:
            return Emission(EmitState.NO_EMITTED)
        state = EmitState.EMITTED_MORE_LEFT if self.made.waiting_to_emit else EmitState.EMITTED_END
        return Emission(state, record, self.config.scheme(record) or ())

    def fail(self, offset: int) -> None:
        try:
            self.made.fail(offset)
        except RuntimeError as error:
            config = self.config
            raise TooManyTupleFailuresError(config.id, config.place, self.number_failed, config.max_offset_behind) from error

    def last_completed_offset(self) -> int:
        return int(min(self.made.pending, default=self.made.emitted_to_offset))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)


# In ours.


def _where(script: Script, at: int) -> str:
    step, bound = script["steps"][at], script["config"].get("maxOffsetBehind")
    limit = "unlimited" if bound is None or bound == UNLIMITED else f"{bound:,}"
    operation = " ".join([step["op"], *(str(value) for value in step.get("args", {}).values())])
    return f"step {at} (max_offset_behind {limit}), {operation}"


def _said(script: Script, first: Difference, answers: list[Any]) -> tuple[str, Any]:
    recorded, had = script["steps"][first.step]["state"], _ledgers(answers[-1])
    ledgers = [(ours, recorded[theirs], had.get(theirs)) for theirs, ours in LEDGERS.items()]
    name, wanted, got = next((row for row in ledgers if row[1] != row[2]), ("", None, None))

    def draw(_: str) -> Picture | None:
        return _picture(script, answers) if all(map(_can_be_drawn, answers)) else None

    if not name:  # its result alone, or what it stored
        return first_row(rows(script["steps"][first.step]), rows(answers[-1])), draw
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
        said = {"ack": ("ack", last.get("args", {})), "fail": ("fail", last.get("args", {}))}
        said |= {"commit": ("commit", {"offset": state["committed_to"]}), "start": ("start", {"offset": state["emitted_to_offset"]})}
        what, data = said.get(last["op"].removeprefix("re"), ("idle", {}))
        trace.record(0, "spout", what, state=state, **place, **data)
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


# Made smaller.


def rows(answer: Any) -> dict[str, str]:
    """A result and the ledgers in words. The learner's process may send anything."""
    if not isinstance(answer, dict) or not isinstance(answer.get("state"), dict):
        return {"your spout": plain_text(answer, 120)}
    result, state = answer.get("result"), answer["state"]
    found = {}
    if isinstance(result, dict) and "exception" in result:
        error = result["exception"]
        found["the error"] = plain_text(error.get("message") if isinstance(error, dict) else error, 80)
    found |= {ours: _listed(state.get(theirs)) for theirs, ours in LEDGERS.items()}
    if isinstance(result, dict) and "ret" in result:
        emitted = result.get("emitted") or []
        told = ", ".join(plain_text(each, 40) for each in emitted[:5]) if isinstance(emitted, list) else plain_text(emitted, 80)
        found["emitted"] = f"{told or 'nothing'} ({LEFT.get(str(result['ret']), 'nothing is left')})"
    return found | {"stored": _stored(state.get("zk"))}


def _stored(text: Any) -> str:
    """The offset in a stored text, or the text where there is none."""
    try:
        return f"offset {plain_text(json.loads(text)['offset'], 40)}"
    except (TypeError, ValueError, LookupError):
        return "nothing" if text is None else plain_text(text, 80)


def differ(right: Any, got: Any) -> str:
    """How an answer is not the right one, in words; "" when it is."""
    if raised(right):
        return ""
    return raised(got) or ("" if right == got else first_row(rows(right), rows(got)))


def simpler(steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The same with nothing stored, with the log's start at 100 where it is higher, and with settings that go without saying."""
    begin = steps[0].get("made", {})
    yield [{**steps[0], "made": {**begin, "zk": {}}}, *steps[1:]]
    start = min((log["start"] for log in begin.get("log", {}).values()), default=0)
    if start > SMALL:
        yield [_lower(step, start - SMALL, start - 10 * SMALL) for step in steps]
    for number, step in enumerate(steps):
        for holder, config in (("made", step.get("made", {}).get("config")), ("args", step.get("args", {}).get("config"))):
            for name in [each for each in PLAIN if each in (config or {})]:
                plain = {**step, holder: {**step[holder], "config": {**config, name: PLAIN[name]}}}
                yield [*steps[:number], plain, *steps[number + 1 :]]


def _lower(value: Any, by: int, least: int) -> Any:
    """Every offset in a step, which are its only numbers from `least` to far above, lower by so many."""
    if isinstance(value, dict):
        return {name: each if name == "maxOffsetBehind" else _lower(each, by, least) for name, each in value.items()}
    if isinstance(value, list):
        return [_lower(each, by, least) for each in value]
    return value - by if type(value) is int and least <= value < least + 1_000 * SMALL else value


def call(step: dict[str, Any]) -> str:
    """`ack(3)`; of a start what is set, and which log it meets."""
    given = ", ".join(str(value) for name, value in step.get("args", {}).items() if name != "config")
    settings = step.get("made", {}).get("config", {}) | step.get("args", {}).get("config", {})
    told = [f"{ours}={settings[theirs]}" for theirs, ours in SETTINGS.items() if settings.get(theirs, PLAIN[theirs]) != PLAIN[theirs]]
    logs = [f"log {log['start']}..{log['end'] - 1}" for log in step.get("made", {}).get("log", {}).values()]
    stored = [f"{_stored(text)} is stored" for text in step.get("made", {}).get("zk", {}).values()]
    return f"{step['op']}({', '.join(each for each in (*logs, *stored, *told, given) if each)})"


def _recording(name: str, scripts: Any, driver: Any, right: Any, kit: str) -> Recording:
    return Recording(
        scripts, operations, driver, lambda answer, step: answer, _where, _said, name=f"{__name__}:{name}", right=right, differ=differ,
        simpler=simpler, call=call, rows=rows, kits=(kit,),
    )  # fmt: skip


SPOUT = _recording("SPOUT", bundled_scripts, answers_to, solutions.own_ack, "kitlib.storm.partition_manager:PartitionManager.ack")
MANAGER = _recording(
    "MANAGER", whole_scripts, answers_of_class, solutions.OwnPartitionManager, "kitlib.storm.partition_manager:PartitionManager"
)
