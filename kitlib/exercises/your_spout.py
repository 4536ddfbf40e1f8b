"""A learner's PartitionManager beside the recorded one of Storm 0.9.3: an ack of theirs in the kit's class, or a whole class.

Two kinds of answers. A function `ack(manager, offset)` stands in the kit's own class. A class is the whole of it, as the question of
`own_partition_manager` describes it: what is network, text or setting is done for it by `Log` and `Store`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.partition_manager import LiveLog, in_python, replay
from kitlib.exercises.door import Recording, Script, Seen, Step
from kitlib.mechanisms.log import FetchError, Record
from kitlib.mechanisms.offset_store import StoredOffset, offset_text, read_stored_offset
from kitlib.mechanisms.partition_manager import NO_OFFSET, Emission, EmitState, PartitionManager, SpoutConfig
from kitlib.mechanisms.spout_errors import FailedFetchError, MissingTopologyNameError, TooManyTupleFailuresError

FILES = ("pm_scenarios.jsonl.gz", "pm_random_public.jsonl.gz")
METHODS = ("next", "ack", "fail", "commit")  # what a learner's class must have
UNLIMITED = 2**63 - 1
SETTINGS = {  # the recording's word -> the learner's, and what goes without saying
    "maxOffsetBehind": ("max_offset_behind", UNLIMITED),
    "forceFromStart": ("force_from_start", False),
    "startOffsetTime": ("start_offset_time", -2),
    "useStartOffsetTimeIfOffsetOutOfRange": ("use_start_offset_time_if_offset_out_of_range", True),
    "topologyId": ("topology_id", "topo-1"),
    "topologyName": ("topology_name", "topo"),
}
# In the recording's words, in the order in which a difference is told.
LEDGERS = ("pending", "failed", "waitingToEmit", "emittedToOffset", "committedTo", "numberAcked", "numberFailed")


@cache
def scripts() -> list[Script]:
    """Every recorded script that comes with the kit."""
    traces = chain.from_iterable(read_traces(bundled("storm", name)) for name in FILES)
    return [{**trace, "steps": [{"args": {}, **step} for step in trace["steps"]]} for trace in traces]


@cache
def whole_scripts() -> list[Script]:
    """The same for a whole class: each ends before a failure whose bound lies below Java's numbers, which overflow."""
    return [{**script, "steps": list(_without_overflow(script))} for script in scripts()]


def _without_overflow(script: Script) -> Iterator[Step]:
    bound = script["config"]["maxOffsetBehind"]
    for step in script["steps"]:
        bound = step["args"].get("config", {}).get("maxOffsetBehind", bound)
        if step["op"] == "fail" and step["state"]["emittedToOffset"] - bound < -(2**63):
            return
        yield step


def with_ack(script: Script, make: Any) -> Iterator[Step]:
    """The recorded script on the learner's ack in the kit's class, or on their class."""
    return replay(script, built_with(make), LiveLog)


def with_class(script: Script, make: Any) -> Iterator[Step]:
    """The recorded script on the learner's own class."""
    return replay(script, partial(Whole, make), LiveLog)


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
        fetched = PartitionManager.fetch(asks, offset)  # which error is which
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


def seen(script: Script, step: Step) -> Seen:
    """The ledgers, what was emitted, and what is stored."""
    result, state = step["result"], step["state"]
    found: Seen = {}
    if "exception" in result:
        found["the error"] = f"{result['exception']['class']}: {result['exception']['message']}"
    found |= {in_python(name): state[name] for name in LEDGERS}
    if "ret" in result:
        more = "more is waiting" if result["ret"] == EmitState.EMITTED_MORE_LEFT.value else "nothing is left"
        found["emitted"] = f"{', '.join(map(str, result['emitted'])) or 'nothing'} ({more})"
    if "zk_write" in step:
        found["written"] = stored(step["zk_write"])
    return found | {"stored": stored(state["zk"])}


def stored(text: str | None) -> str:
    """The offset in a stored text, or the text where there is none."""
    try:
        return f"offset {json.loads(text or '')['offset']}"
    except (TypeError, ValueError, LookupError):
        return text or "none"


def begin(script: Script) -> list[str]:
    """Which log a start meets, and what is stored."""
    logs = [f"a log of {log['start']}..{log['end'] - 1}" for log in script.get("log", {}).values()]
    return logs + [f"{stored(text)} stored" for text in script.get("zk", {}).values()]


def call(step: Step) -> str:
    """`ack(3)`; of a restart what is set otherwise."""
    given = [str(value) for name, value in step["args"].items() if name != "config"]
    named = {SETTINGS[name][0]: value for name, value in step["args"].get("config", {}).items() if name in SETTINGS}
    return f"{step['op']}({', '.join([*given, *(f'{name}={value}' for name, value in named.items())])})"


SPOUT = Recording(
    f"{__name__}:SPOUT", scripts, with_ack, seen, "own_ack", call, ("kitlib.mechanisms.partition_manager:PartitionManager.ack",),
    settings=SETTINGS, begin=begin,
)  # fmt: skip
MANAGER = Recording(
    f"{__name__}:MANAGER", whole_scripts, with_class, seen, "own_partition_manager", call,
    ("kitlib.mechanisms.partition_manager:PartitionManager",), settings=SETTINGS, begin=begin,
)  # fmt: skip
