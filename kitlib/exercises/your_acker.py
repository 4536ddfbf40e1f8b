"""A learner's own Acker beside the recorded one of Storm 0.9.3: the completions it emits, and the ledger it keeps.

It needs little: it is made without arguments, and has `init(root, val, spout_task)`, `ack(root, val)`, `fail(root)`
and `tick()`. Each returns the completion that follows, as the kit's `Completion` or as a tuple (spout_task, stream,
root), or None; the stream may be "ack" or "fail" for short. If it has an attribute `pending` with buckets, a
`RotatingMap` or a list of dicts with the newest first, its ledger is compared as well. An entry is an object with val,
spout_task and failed, or the three in a list. Any other `pending` is its own affair.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import chain
from types import SimpleNamespace
from typing import Any

from kitlib.conformance.acker import message_of, replay
from kitlib.conformance.golden import bundled, read_traces
from kitlib.exercises.door import Recording, Script, Seen, Step
from kitlib.exercises.sandbox import shown
from kitlib.mechanisms import acker

METHODS = ("init", "ack", "fail", "tick")  # what a learner's acker must have
STREAMS = {"ack": acker.ACKER_ACK_STREAM_ID, "fail": acker.ACKER_FAIL_STREAM_ID}  # a learner's short word -> Storm's
BUCKETS = ("newer", "older")
WANTED = "instead of None or (spout_task, stream, root)"


@cache
def scripts() -> list[Script]:
    """Every recorded script that comes with the kit; in the random ones spout tasks count from 0, which is a task like any other."""
    named, random = (list(read_traces(bundled("storm", f"acker_{name}.jsonl.gz"))) for name in ("scenarios", "random_public"))
    for less, step in ((less, step) for less, traces in enumerate((named, random)) for trace in traces for step in trace["steps"]):
        step["args"] = {name: value - less if name == "task" else value for name, value in step.get("args", {}).items()}
        step["result"]["emits"] = [{**emit, "task": emit["task"] - less} for emit in step["result"]["emits"]]
        for row in chain.from_iterable(step["state"]["acker"]):
            row[2] = None if row[2] is None else row[2] - less
    return [*named, *random]


class Yours:
    """A learner's acker as the recorded scripts drive it."""

    def __init__(self, make: Any) -> None:
        self.made = make()

    def __getattr__(self, method: str) -> Any:
        return lambda *given: completions_of(getattr(self.made, method)(*given))

    def reset_timeout(self, root: int) -> None:
        raise acker.UnknownStreamError

    @property
    def pending(self) -> Any:
        """The buckets; none when they cannot be read."""
        pending = getattr(self.made, "pending", None)
        buckets = getattr(pending, "buckets", pending)
        if not isinstance(buckets, list | deque) or not all(isinstance(bucket, dict) for bucket in buckets):
            return SimpleNamespace(buckets=[])
        read = [{root: entry_of(entry) for root, entry in bucket.items()} for bucket in buckets]
        can_be_read = all(type(root) is int and entry for bucket in read for root, entry in bucket.items())
        return SimpleNamespace(buckets=read if can_be_read else [])


def completions_of(returned: Any) -> list[acker.Completion]:
    """The completion that a method returned, or none; one without a root says what else came. A dict is what the kit's tick dropped."""
    if returned is None or isinstance(returned, dict):
        return []
    return [completion_of(returned) or acker.Completion(None, f"{shown(returned)} {WANTED}", None)]  # type: ignore[arg-type]


def completion_of(value: Any) -> acker.Completion | None:
    """What a learner's method returned as a completion."""
    parts = parts_of(value, "spout_task", "stream", "root")
    if len(parts) != 3 or not isinstance(parts[1], str):
        return None
    task, stream, root = parts
    return acker.Completion(task, STREAMS.get(stream, stream), root)


def entry_of(entry: Any) -> acker.AckerEntry | None:
    """Value, spout task and failed; None when these cannot be found."""
    val, task, failed = (parts_of(entry, "val", "spout_task", "failed") + [None] * 3)[:3]
    is_entry = {type(val), type(task)} <= {int, type(None)} and (val, task, failed) != (None, None, None)
    return acker.AckerEntry(val, task, bool(failed)) if is_entry else None


def parts_of(value: Any, *names: str) -> list[Any]:
    """The parts of a list or tuple, or of an object that has these names."""
    return list(value) if isinstance(value, list | tuple) else [getattr(value, name, None) for name in names]


def seen(script: Script, step: Step) -> Seen:
    """What is emitted, and each tree's entry."""
    emits = [emitted(each["stream"], each["task"], each["values"][0]) for each in step["result"]["emits"]]
    entries: dict[str, Any] = {}
    for bucket, rows in enumerate(step["state"]["acker"]):
        for root, val, task, failed in rows:
            where = BUCKETS[bucket] if bucket < 2 else str(bucket)
            where = f"{entries[f'tree {root}']['bucket']} and {where}" if f"tree {root}" in entries else where
            entry = {"value": hexadecimal(val or 0), "task": "unknown" if task is None else task, "failed": bool(failed), "bucket": where}
            entries[f"tree {root}"] = entry
    return {"emitted": emits, "ledger": entries if step["state"]["acker"] else None}


def emitted(stream: str, task: Any, root: Any) -> str:
    """A completion in words."""
    return stream if root is None else f"{stream} to task {task} for tree {root}"


def hexadecimal(value: int) -> str:
    """A value as 16 hexadecimal digits, or as it is where it is no 64-bit number."""
    return f"0x{value & (2**64 - 1):016x}" if -(2**63) <= value < 2**63 else str(value)


def call(step: Step) -> str:
    """`init(1, 5, 1)`; what its spouts and the network do is in other words."""
    if step["op"] in ("deliver", "spout_tick"):
        return f"{step['op']}()"
    method, given = message_of(step["op"], step["args"])
    return f"{method}({', '.join(map(str, given))})"


def replayed(script: Script, make: Any) -> Iterator[Step]:
    """The recorded script on a learner's acker."""
    return replay(script, lambda: Yours(make))


KITS = ("kitlib.mechanisms.acker:Acker", "kitlib.more.topology.later_acker:LaterAcker")
ACKER = Recording(f"{__name__}:ACKER", scripts, replayed, seen, "own_acker", call, KITS)
