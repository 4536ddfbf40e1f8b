"""Each step of a Connect or Streams run as a sentence."""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step
from kitlib.views.scene import Teller, tell_by

MOST_TOLD = 6  # tasks that a sentence names


def _work(data: dict[str, Any]) -> str:
    names = [f"the connector {name}" for name in data["connectors"]]
    names += [f"task {name}-{number}" for name, number in data["tasks"]]
    return ", ".join(names) or "nothing"


def _seconds(ms: int) -> str:
    return f"{ms / 1_000:g} s"


def _configure(who: str, data: dict[str, Any]) -> str:
    told = ", ".join(f"{name} with {tasks} tasks" for name, tasks in data["connectors"].items())
    return f"The connectors are configured: {told}."


def _sync(who: str, data: dict[str, Any]) -> str:
    members = ", ".join(data["members"]) or "nobody"
    return f"The rebalance ends: generation {data['generation']} with {members}; {data['leader'] or 'nobody'} leads."


def _idle(who: str, data: dict[str, Any]) -> str:
    idle = [f"{name} {_seconds(ms)}" for name, ms in data["tasks"] if ms]
    told = idle[:MOST_TOLD] + ([f"and {len(idle) - MOST_TOLD} more"] if len(idle) > MOST_TOLD else [])
    moves = f" {data['shuffled']} times a task moved." if "shuffled" in data else ""
    return f"Not run by anybody: {', '.join(told) or 'no task, ever'}.{moves}"


CONNECT: dict[str, Teller] = {
    "configure": _configure,
    "start": lambda who, data: f"{who} starts and joins the group." if who != "group" else "It starts.",
    "kill": lambda who, data: f"{who} dies without a word; it ran {_work(data)}.",
    "leave": lambda who, data: f"{who} is stopped in order and leaves; it ran {_work(data)}.",
    "evict": lambda who, data: f"The coordinator gives {data['member']} up: no heartbeat within the session time-out.",
    "prepare": lambda who, data: f"A rebalance begins: {data['why']}.",
    "sync": _sync,
    "assigned": lambda who, data: f"{who} is told to begin {_work(data)}.",
    "revoked": lambda who, data: f"{who} is told to stop {_work(data)}.",
    "delay": lambda who, data: f"What was lost waits {_seconds(data['delay_ms'])} for its worker to come back.",
    "idle": _idle,
}


def tell_connect(step: Step) -> str:
    """A Connect step's sentence."""
    return tell_by(CONNECT, step)


def _answer(who: str, data: dict[str, Any]) -> str:
    asked = f"{who} is asked for {data['key']}" + (", stale stores allowed" if data["stale"] else "")
    match data["outcome"]:
        case "value" if data["behind"]:
            return f"{asked}: {data['value']}, while {data['truth']} is right. The copy is {data['behind']} records behind."
        case "value":
            return f"{asked}: {data['value']}, which is right."
        case "null":
            return f"{asked}: null, as if there were no such key. {data['why']}."
        case other:
            return f"{asked}: {other}, {data['why']}."


def _assigned(who: str, data: dict[str, Any]) -> str:
    told = "; ".join(f"{name}: {', '.join(tasks) or 'nothing'}" for name, tasks in data["active"].items())
    more = " A probing rebalance will follow." if data["probing_needed"] else ""
    return f"Generation {data['generation']}: {told}.{more}"


STREAMS: dict[str, Teller] = {
    "topology": lambda who, data: (
        f"The topology has {len(data['tasks'])} tasks, {len(data['stateful'])} of them with a store."
    ),
    "start": lambda who, data: f"{who} starts with {data['threads']} threads.",
    "kill": lambda who, data: f"{who} dies; it processed {', '.join(data['tasks']) or 'nothing'}.",
    "evict": CONNECT["evict"],
    "prepare": CONNECT["prepare"],
    "assigned": _assigned,
    "restoring": lambda who, data: (
        f"{who} restores {data['task']}: {data['behind']:,} records of its changelog are to be read."
    ),
    "running": lambda who, data: (
        f"{who} processes {data['task']}" + (f", after {data['restored']:,} restored." if data["restored"] else ".")
    ),
    "standby": lambda who, data: f"{who} keeps a standby of {data['task']}, {data['behind']:,} records behind.",
    "ask": _answer,
    "idle": lambda who, data: (
        f"{_idle(who, data)} {data['restored']:,} records were restored; {data['threads_idle']} of "
        f"{data['threads']} threads have nothing to do."
    ),
}


def tell_streams(step: Step) -> str:
    """A Streams step's sentence."""
    return tell_by(STREAMS, step)
