"""A learner's broker state beside the recorded one of Kafka 4.3.1.

Two kinds of answers. A function `check_sequence(entry, epoch, seq, count)` says one of four words of a batch, and the kit remembers the
batches for it, as those words say (`Around`). A class remembers them itself, as the question of `own_broker_state` describes it.

Of the recorded scripts those without transactions are played, each partition on a state of its own. A script ends
before a change of the leader that brings back what a restart had lost: that is the log's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.exercises.door import Recording, Script, Seen, Step
from kitlib.exercises.sandbox import shown
from kitlib.mechanisms.protocol import increment_sequence

FILES = ("producer_state_named.jsonl.gz", "producer_state_public.jsonl.gz")
METHODS = ("append", "restart", "forget")  # what a learner's class must have
APPEND, DUPLICATE, OUT_OF_ORDER, OLD_EPOCH = "append", "duplicate", "out of order", "old epoch"
ERRORS = {"OUT_OF_ORDER_SEQUENCE_NUMBER": OUT_OF_ORDER, "INVALID_PRODUCER_EPOCH": OLD_EPOCH}  # the recording's words
REMEMBERED = 5  # batches, of each producer


@dataclass(frozen=True, slots=True)
class RememberedBatch:
    """One batch that the broker remembers: its sequences and its place in the log."""

    first_seq: int
    last_seq: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What the broker remembers of one producer in one partition."""

    epoch: int
    batches: tuple[RememberedBatch, ...]  # the newest five of this epoch, oldest first; never empty

    @property
    def last_seq(self) -> int:
        """The sequence of the last record that was written."""
        return self.batches[-1].last_seq


@dataclass(slots=True)
class Around:
    """Keeps the entries for a learner's function, as the function decides: the whole state, made of a check."""

    check: Callable[..., Any]
    entries: dict[int, Entry] = field(default_factory=dict)

    def append(self, pid: int, epoch: int, seq: int, count: int, offset: int) -> Any:
        """What the function says of the batch; on "append" it is remembered."""
        entry = self.entries.get(pid)
        said = self.check(entry, epoch, seq, count)
        if said == APPEND:
            before = entry.batches if entry and entry.epoch == epoch else ()
            new = RememberedBatch(seq, increment_sequence(seq, count - 1), offset)
            self.entries[pid] = Entry(epoch, (*before, new)[-REMEMBERED:])
        return said

    def restart(self) -> None:
        """Of each producer the newest batch is left."""
        self.entries = {pid: replace(entry, batches=entry.batches[-1:]) for pid, entry in self.entries.items()}

    def forget(self, pid: int) -> None:
        """The producer is unknown from now on."""
        self.entries.pop(pid, None)


@cache
def scripts(is_function: bool) -> list[Script]:
    """The scripts without transactions that come with the kit; a function is asked for words, a class for offsets."""
    traces = chain.from_iterable(read_traces(bundled("producer", name)) for name in FILES)
    played = ({**trace, "steps": list(_steps(trace, is_function))} for trace in traces if trace["family"] == "idempotent")
    return [script for script in played if script["steps"]]


def _steps(trace: dict[str, Any], is_function: bool) -> Iterator[Step]:
    """What happens to the memory of each partition, and what the broker answered."""
    producers: dict[int, dict[str, Any]] = {}  # partition -> what the broker has of each producer then
    ends: dict[int, int] = {}  # partition -> end of its log
    for step in trace["steps"]:
        state, args = step["state"], step["args"]
        if state is None:
            continue  # the clock alone has moved
        partition = args["partition"]
        known = producers.get(partition, {})
        if step["op"] == "append":
            if args["pid"] >= 0:
                given = {name: args[name] for name in ("partition", "pid", "epoch", "seq", "count")} | {"offset": ends.get(partition, 0)}
                yield {"op": "append", "args": given, "answer": _answered(step["result"], is_function)}
            producers[partition] = known | state["producers"]
        else:
            after = state["producers"]
            if step["op"].endswith("_restart"):
                yield {"op": "restart", "args": {"partition": partition}, "answer": None}
                known = {pid: {**each, "batches": each["batches"][-1:]} for pid, each in known.items()}
            for pid in sorted(known.keys() - after.keys()):
                yield {"op": "forget", "args": {"partition": partition, "pid": int(pid)}, "answer": None}
            if any(after[pid] != known.get(pid) for pid in after):
                return
            producers[partition] = after
        ends[partition] = state["log_end_offset"]


def _answered(result: dict[str, Any], is_function: bool) -> int | str:
    """What the broker did with a batch: in a word, or the offset that it answered."""
    if result["outcome"] == "REJECTED":
        return ERRORS[result["error"]]
    word = APPEND if result["outcome"] == "APPENDED" else DUPLICATE
    return word if is_function else int(result["base_offset"])


def replayed(script: Script, make: Any) -> Iterator[Step]:
    """What the learner's class, or their function in `Around`, returned at each step; what restart and forget return is not asked for."""
    states: dict[int, Any] = {}
    for step in script["steps"]:
        partition, *given = step["args"].values()
        if partition not in states:
            states[partition] = make() if isinstance(make, type) else Around(make)
        returned = getattr(states[partition], step["op"])(*given)
        yield {**step, "answer": answer_of(returned) if step["op"] == "append" else None}


def answer_of(returned: Any) -> int | str:
    """An answer as an offset or a word; a text that is no word of ours when it is something else."""
    name = getattr(returned, "name", returned)  # an ErrorCode goes by its name
    if isinstance(name, str):
        return str(ERRORS.get(name, name[:200]))
    is_number = hasattr(type(returned), "__index__") and not isinstance(returned, bool)
    return int(returned.__index__()) if is_number else shown(returned)


def seen(script: Script, step: Step) -> Seen:
    """The answer to a batch."""
    return {} if step["answer"] is None else {"the answer": step["answer"]}


def call(step: Step) -> str:
    """`append(1, 0, 5, 2, 10)`: without the partition."""
    return f"{step['op']}({', '.join(map(str, [*step['args'].values()][1:]))})"


def batch(step: Step) -> str:
    """A batch in words, for a function that is asked about each one."""
    if step["op"] != "append":
        return call(step)
    return "producer {pid} sends epoch={epoch}, seq={seq}, count={count}".format(**step["args"])


KITS = ("kitlib.mechanisms.broker.producer_state:ProducerStateManager",)
CHECK = Recording(f"{__name__}:CHECK", partial(scripts, True), replayed, seen, "own_check_sequence", batch, KITS, "Kafka 4.3.1")
STATE = Recording(f"{__name__}:STATE", partial(scripts, False), replayed, seen, "own_broker_state", call, KITS, "Kafka 4.3.1")
