"""Replays recorded scripts of Storm 0.9.3's acker on the kit's model.

An acker alone makes no timeout. So a script also has spout tasks, each with the pending map of its
executor: a `RotatingMap` of two buckets, rotated by ticks of its own. They are played here; the acker
is what is judged. An acker of the learner's own goes through the same door: anything with the methods
init, ack, fail, reset_timeout and tick, and the buckets of `pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kitlib.conformance.golden import unknown
from kitlib.mechanisms.acker import (
    ACKER_ACK_STREAM_ID,
    ACKER_FAIL_STREAM_ID,
    ACKER_RESET_TIMEOUT_STREAM_ID,
    Acker,
    Completion,
    UnknownStreamError,
)
from kitlib.mechanisms.rotating_map import RotatingMap

Build = Callable[[], Any]

METHODS = {  # the operation -> the acker's method, and its arguments in the recording's words
    "init": ("init", "id val task"), "spout_emit": ("init", "id val task"), "ack": ("ack", "id val"), "fail": ("fail", "id"),
    "reset_timeout": ("reset_timeout", "id"), "tick": ("tick", ""),
}  # fmt: skip
EVENTS = {ACKER_ACK_STREAM_ID: "ack", ACKER_FAIL_STREAM_ID: "fail"}  # the stream -> what the spout hears
_UNKNOWN_STREAM = {
    "class": "java.lang.IllegalArgumentException",
    "message": f"No matching clause: {ACKER_RESET_TIMEOUT_STREAM_ID}",
}


@dataclass(slots=True)
class Spouts:
    """The spout tasks of a script: what each waits for, and the acker's messages that are on their way."""

    pending: dict[int, RotatingMap[int, Any]] = field(default_factory=dict)  # task -> root id -> message id
    undelivered: list[Completion] = field(default_factory=list)  # oldest first; empty when delivery is immediate

    def of(self, task: int) -> RotatingMap[int, Any]:
        """The task's pending map; a new task has an empty one."""
        return self.pending.setdefault(task, RotatingMap(2))

    def tick(self, task: int) -> list[dict[str, Any]]:
        """A message timeout has passed at this task: the events, by root id."""
        expired = self.of(task).rotate()
        return [_event("timeout", task, root, expired[root]) for root in sorted(expired)]

    def deliver(self) -> list[dict[str, Any]]:
        """Let everything that is on its way arrive: the events, in the order in which it was sent."""
        arrived, self.undelivered = self.undelivered, []
        return [self._heard(completion) for completion in arrived if completion.spout_task in self.pending]

    def _heard(self, completion: Completion) -> dict[str, Any]:
        """The event at the spout; an answer for a root that is no longer pending is ignored."""
        task, root = completion.spout_task, completion.root
        if root not in self.pending[task]:
            return _event("ignored", task, root, None)
        return _event(EVENTS[completion.stream], task, root, self.pending[task].remove(root))


def replay(trace: dict[str, Any], build: Build = Acker) -> Iterator[dict[str, Any]]:
    """What the acker and the spouts did at each step of one recorded script: result and state.

    An acker's messages reach the spout at once, or with `delivery` "manual" at the operation deliver.
    """
    delivery = trace["config"]["delivery"]
    acker, spouts = build(), Spouts()
    for step in trace["steps"]:
        op, args = step["op"], step.get("args", {})
        result: dict[str, Any] = {"emits": [], "input_acks": 0}
        events: list[dict[str, Any]] = []
        if op == "deliver":
            events = spouts.deliver()
        elif op == "spout_tick":
            events = spouts.tick(args["task"])
        elif op == "tick":
            result["emits"] = [emit_of(completion) for completion in completions_in(acker.tick())]
        else:
            if op == "spout_emit":
                spouts.of(args["task"]).put(args["id"], args.get("msg"))
            if not args.get("lost"):
                result, completions = _told_to(acker, op, args)
                spouts.undelivered += completions
            events = spouts.deliver() if delivery == "immediate" else []
        if events:
            result["spout"] = events
        yield {"result": result, "state": state_of(acker, spouts, delivery)}


def state_of(acker: Any, spouts: Spouts, delivery: str) -> dict[str, Any]:
    """The acker's ledger and the spouts' in the recording's words."""
    buckets = ledger_of(acker)
    state: dict[str, Any] = {"acker": buckets, "acker_size": sum(map(len, buckets))}
    if spouts.pending:
        state["spouts"] = {
            str(task): [[[root, bucket[root]] for root in sorted(bucket)] for bucket in waiting.buckets]
            for task, waiting in spouts.pending.items()
        }
    if delivery == "manual":
        state["undelivered"] = len(spouts.undelivered)
    return state


def ledger_of(acker: Any) -> list[list[list[Any]]]:
    """The acker's buckets, newest first, each [[root id, val, spout task, failed], ...] by root id; None: not known."""
    return [
        [[root, bucket[root].val, bucket[root].spout_task, bucket[root].failed or None] for root in sorted(bucket)]
        for bucket in acker.pending.buckets
    ]


def message_of(op: str, args: dict[str, Any]) -> tuple[str, list[int]]:
    """The acker's method that a step calls, and its arguments; TraceError when it calls none."""
    if op not in METHODS:
        raise unknown(op)
    method, names = METHODS[op]
    return method, [args[name] for name in names.split()]


def _told_to(acker: Any, op: str, args: dict[str, Any]) -> tuple[dict[str, Any], list[Completion]]:
    """The result of one message to the acker, and what the acker sent to spout tasks because of it."""
    method, given = message_of(op, args)
    try:
        completions = completions_in(getattr(acker, method)(*given))
    except UnknownStreamError:
        return {"exception": _UNKNOWN_STREAM, "emits": [], "input_acks": 0}, []
    return {"emits": [emit_of(completion) for completion in completions], "input_acks": 1}, completions


def completions_in(answer: Any) -> list[Completion]:
    """The completions that a method of an acker returned: none, one, or a list; what `tick` dropped are none."""
    if isinstance(answer, Completion):
        return [answer]
    return [item for item in answer if isinstance(item, Completion)] if isinstance(answer, list | tuple) else []


def emit_of(completion: Completion) -> dict[str, Any]:
    """A completion in the recording's words."""
    return {"task": completion.spout_task, "stream": completion.stream, "values": [completion.root]}


def _event(event: str, task: int, root: int, msg: Any) -> dict[str, Any]:
    return {"event": event, "task": task, "id": root, "msg": msg}
