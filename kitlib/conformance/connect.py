"""Replays recorded rebalances of Kafka Connect's leader: what each worker was told to begin and to stop, and to wait.

A leader remembers what it handed out, so the steps of a recording share one assignor per leader. Where a recording says that its
answers hang on the order of Java's hash tables, they are compared all the same: the kit knows that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kitlib.more.connect.assignors import NO_GENERATION, IncrementalCooperativeAssignor, assign_eagerly
from kitlib.more.connect.work import Assignment, ConnectorsAndTasks

EAGER = "default"  # the protocol's name


def replay(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the leaders of one recording decide, step by step."""
    is_eager = trace["config"]["protocol"] == EAGER
    leaders: dict[str, IncrementalCooperativeAssignor] = {}
    away: set[str] = set()  # leaders that have left or were started anew since
    for step in trace["steps"]:
        args = step["args"]
        members = members_of(args)
        if is_eager:
            told = assign_eagerly(args["connectors"], members)
        else:
            leader, completed = args["leader"], args["leader_last_completed_generation"]
            away |= {name for name in leaders if name not in members} | set(args["restarted"])
            if leader in away and completed == NO_GENERATION:  # a new process: it remembers nothing
                leaders.pop(leader, None)
            away.discard(leader)
            if leader not in leaders:
                leaders[leader] = IncrementalCooperativeAssignor(trace["config"]["scheduled_rebalance_max_delay_ms"])
            told = leaders[leader].perform_task_assignment(
                args["connectors"], completed, args["generation"], members, args["now_ms"]
            )
        yield {"result": result_of(told, members, args["lost_sync"], is_eager)}


def result_of(
    told: Mapping[str, Assignment], members: Mapping[str, ConnectorsAndTasks], lost_sync: list[str], is_eager: bool
) -> dict[str, Any]:
    """The assignments in the recording's words, with what each worker runs once it has heard."""
    workers = {}
    for name in sorted(told):
        assigned, revoked = told[name].assigned, told[name].revoked
        workers[name] = listed("assigned", assigned) | listed("revoked", revoked)
        if name in lost_sync:
            workers[name]["lost_sync"] = True
        else:
            owned = ConnectorsAndTasks(assigned)
            if not is_eager:
                owned |= members[name].without(revoked)
            workers[name] |= listed("owned", owned)
    return {"delay_ms": max((each.delay_ms for each in told.values()), default=0), "workers": workers}


def members_of(args: dict[str, Any]) -> dict[str, ConnectorsAndTasks]:
    """The workers of a step with what they say they run."""
    return {
        each["id"]: ConnectorsAndTasks.of([*each["connectors"], *((name, number) for name, number in each["tasks"])])
        for each in args["members"]
    }


def listed(what: str, work: ConnectorsAndTasks) -> dict[str, Any]:
    """Work in the recording's words."""
    return {f"{what}_connectors": sorted(work.connectors), f"{what}_tasks": [list(task) for task in sorted(work.tasks)]}
