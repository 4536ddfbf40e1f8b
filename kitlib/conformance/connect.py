"""Replays recorded rebalances of Kafka Connect's leader: what each worker was told to begin and to stop, and to wait.

A leader remembers what it handed out, so the steps of a recording share one assignor per leader. Where a
recording says that its answers hang on the order of Java's hash tables, an assignor of another order need
not repeat them: it must not give anything to two workers, lose anything, or hand out what another still
runs. Once it has decided otherwise than the recording, its memory is no longer the recorded leader's, and
the rest of that recording says nothing about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from kitlib.conformance.golden import number_in, quoted
from kitlib.errors import TraceError
from kitlib.more.connect.assignors import NO_GENERATION, IncrementalCooperativeAssignor, assign_eagerly
from kitlib.more.connect.work import Assignment, ConnectorsAndTasks, configured_work

EAGER, INCREMENTAL = "default", ("compatible", "sessioned")  # names of the protocols
MAX_TASKS = 100_000  # of one connector; a recording has a few


class Leader(Protocol):
    """A leader's assignor, the kit's or a learner's own."""

    def perform_task_assignment(
        self,
        connectors: Mapping[str, int],
        last_completed_generation: int,
        generation: int,
        members: Mapping[str, ConnectorsAndTasks],
        now_ms: int,
    ) -> dict[str, Assignment]:
        """As IncrementalCooperativeAssignor.perform_task_assignment."""
        ...


Build = Callable[[int], Leader]  # scheduled.rebalance.max.delay.ms -> the assignor of a new leader
EagerRule = Callable[[Mapping[str, int], list[str]], dict[str, Assignment]]


def replay(
    trace: dict[str, Any], build: Build = IncrementalCooperativeAssignor, eager: EagerRule = assign_eagerly
) -> Iterator[dict[str, Any]]:
    """What the leaders of one recording decide, step by step. TraceError for what no recording holds."""
    config = trace["config"]
    parted = False
    for step, result in zip(trace["steps"], exact_replay(trace, build, eager), strict=False):
        recorded = step.get("result")
        if config.get("order_sensitive") and result["result"] != recorded:
            parted = parted or not broken_rule(step["args"], result["result"], is_eager=config.get("protocol") == EAGER)
        yield {"result": recorded} if parted else result


def exact_replay(
    trace: dict[str, Any], build: Build = IncrementalCooperativeAssignor, eager: EagerRule = assign_eagerly
) -> Iterator[dict[str, Any]]:
    """As `replay`, and the order of Java's hash tables counts too."""
    config = trace["config"]
    protocol, max_delay_ms = config.get("protocol"), config.get("scheduled_rebalance_max_delay_ms")
    if protocol != EAGER and protocol not in INCREMENTAL:
        raise TraceError(f"protocol is {quoted(protocol)}, expected {EAGER}, {' or '.join(INCREMENTAL)}.")
    if not _is_number(max_delay_ms, 0):
        raise TraceError(f"scheduled_rebalance_max_delay_ms is {quoted(max_delay_ms)}, expected 0 or more.")
    leaders: dict[str, Leader] = {}
    away: set[str] = set()  # leaders that have left or were started anew since
    for step in trace["steps"]:
        args = step.get("args", {})
        connectors, members = connectors_of(args), members_of(args)
        if protocol == EAGER:
            told = eager(connectors, list(members))
        else:
            now_ms, generation = number_in(args, "now_ms", 0), number_in(args, "generation", 0)
            completed = number_in(args, "leader_last_completed_generation", NO_GENERATION)
            leader = args.get("leader")
            if leader not in members:
                raise TraceError(f"leader is {quoted(leader)}, expected one of the members {', '.join(members)}.")
            away |= {name for name in leaders if name not in members} | set(names_in(args, "restarted"))
            if leader in away and completed == NO_GENERATION:  # a new process: it remembers nothing
                leaders.pop(leader, None)
            away.discard(leader)
            if leader not in leaders:
                leaders[leader] = build(max_delay_ms)
            told = leaders[leader].perform_task_assignment(connectors, completed, generation, members, now_ms)
        yield {"result": result_of(told, members, names_in(args, "lost_sync"), is_eager=protocol == EAGER)}


def result_of(
    told: Mapping[str, Assignment], members: Mapping[str, ConnectorsAndTasks], lost_sync: list[str], is_eager: bool
) -> dict[str, Any]:
    """The assignments in the recording's words, with what each worker runs once it has heard."""
    workers = {}
    for name in sorted(told):
        assignment = told[name]
        workers[name] = {
            "assigned_connectors": sorted(assignment.assigned.connectors),
            "assigned_tasks": _tasks(assignment.assigned),
            "revoked_connectors": sorted(assignment.revoked.connectors),
            "revoked_tasks": _tasks(assignment.revoked),
        }
        if name in lost_sync:
            workers[name]["lost_sync"] = True
        else:
            owned = owned_after(members.get(name, ConnectorsAndTasks()), assignment, is_eager)
            workers[name] |= {"owned_connectors": sorted(owned.connectors), "owned_tasks": _tasks(owned)}
    return {"delay_ms": max((each.delay_ms for each in told.values()), default=0), "workers": workers}


def owned_after(before: ConnectorsAndTasks, assignment: Assignment, is_eager: bool) -> ConnectorsAndTasks:
    """What a worker runs once it has heard: all that is assigned, and under the incremental rules what it kept."""
    owned = assignment.assigned.copy()
    if not is_eager:
        kept = before.copy()
        kept.remove(assignment.revoked)
        owned.add(kept)
    return owned


def broken_rule(args: dict[str, Any], result: dict[str, Any], is_eager: bool) -> str:
    """What no order excuses: the first rule that these assignments break, in a sentence; "" when none is broken."""
    members, configured = members_of(args), configured_work(connectors_of(args))
    if set(result["workers"]) != set(members):
        return "every worker of the group gets an answer, and nobody else"
    running: set[Any] = set() if is_eager else {each for work in members.values() for each in _all(work)}
    given: set[Any] = set()
    for name, told in result["workers"].items():
        assigned, revoked = _named(told, "assigned"), _named(told, "revoked")
        if not revoked <= _all(members[name]):
            return "a worker is told to stop only what it runs"
        if not assigned <= _all(configured):
            return "only what is configured is assigned"
        if assigned & (given | running):
            return "nothing is assigned that another worker runs, or was given too"
        given |= assigned
    if is_eager and given != _all(configured):
        return "everything is assigned"
    return ""


def connectors_of(args: dict[str, Any]) -> dict[str, int]:
    """The configured connectors of a step with their numbers of tasks; TraceError when they are none."""
    found = args.get("connectors")
    if not isinstance(found, dict) or not all(_is_number(each, 0, MAX_TASKS) for each in found.values()):
        raise TraceError(f"connectors is {quoted(found)}, expected names with their numbers of tasks.")
    return found


def members_of(args: dict[str, Any]) -> dict[str, ConnectorsAndTasks]:
    """The workers of a step with what they say they run; TraceError when they are none."""
    found = args.get("members")
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise TraceError(f"members is {quoted(found)}, expected a list of workers.")
    members = {}
    for each in found:
        tasks = each.get("tasks")
        if not isinstance(each.get("id"), str) or not isinstance(tasks, list) or not all(map(_is_task, tasks)):
            raise TraceError(f"a member is {quoted(each)}, expected its id, connectors and tasks.")
        members[each["id"]] = ConnectorsAndTasks.of(
            names_in(each, "connectors"), ((task[0], task[1]) for task in tasks)
        )
    return members


def names_in(args: dict[str, Any], name: str) -> list[str]:
    """A list of names among a step's arguments, empty when it is left out; TraceError when it is something else."""
    value = args.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TraceError(f"{name} is {quoted(value)}, expected a list of names.")
    return value


def _is_number(value: Any, least: int, most: int = 2**63 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_task(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and _is_number(value[1], 0)


def _tasks(work: ConnectorsAndTasks) -> list[list[Any]]:
    return [list(task) for task in sorted(work.tasks)]


def _all(work: ConnectorsAndTasks) -> set[Any]:
    return {*work.connectors, *work.tasks}


def _named(told: dict[str, Any], kind: str) -> set[Any]:
    return {*told[f"{kind}_connectors"], *(tuple(task) for task in told[f"{kind}_tasks"])}
