"""Bugs of Connect's leader, planted by hand: what each puts in the place of a function or method of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kitlib.conformance import connect as replayed
from kitlib.kafka.connect import assignors
from kitlib.kafka.connect.assignors import IncrementalCooperativeAssignor as Assignor
from kitlib.kafka.connect.work import Assignment, ConnectorsAndTasks

Patch = tuple[Any, str, Any]  # where, which name, what stands there instead
_LOST, _RESET, _REMEMBER = Assignor.handle_lost, Assignor.reset_delay, Assignor.remember
_PERFORM, _BALANCE, _DEAL, _SURPLUS = (
    Assignor.perform_task_assignment,
    Assignor.balance,
    assignors.deal,
    assignors.surplus,
)


def _no_delay(self: Any, lost: ConnectorsAndTasks, after: Any, now_ms: int) -> ConnectorsAndTasks:
    """Lost work is handed out at once."""
    return lost


def _always_a_delay(self: Any, lost: ConnectorsAndTasks, after: Any, now_ms: int) -> ConnectorsAndTasks:
    """A delay also when nobody has left."""
    if lost:
        self.previous_members |= {"somebody"}
    return _LOST(self, lost, after, now_ms)


def _delay_begins_anew(self: Any, lost: ConnectorsAndTasks, after: Any, now_ms: int) -> ConnectorsAndTasks:
    """Each rebalance within a delay starts it again."""
    if now_ms < self.scheduled_rebalance_ms:
        self.scheduled_rebalance_ms = now_ms + self.max_delay_ms
    return _LOST(self, lost, after, now_ms)


def _delay_ends_a_moment_late(self: Any, lost: ConnectorsAndTasks, after: Any, now_ms: int) -> ConnectorsAndTasks:
    """At the very end of the delay it is still waited."""
    if lost and now_ms == self.scheduled_rebalance_ms > 0:
        self.scheduled_rebalance_ms += 1
    return _LOST(self, lost, after, now_ms)


def _no_candidates(self: Any, lost: ConnectorsAndTasks, after: Any) -> ConnectorsAndTasks:
    """A worker that comes back empty gets no more than any other."""
    return lost


def _never_forgets(self: Any, connectors: Any, completed: int, generation: int, members: Any, now_ms: int) -> Any:
    """The leader trusts its memory though its own sync was lost."""
    return _PERFORM(self, connectors, self.previous_generation, generation, members, now_ms)


def _gives_at_once(self: Any, connectors: Any, completed: int, generation: int, members: Any, now_ms: int) -> Any:
    """What one worker must stop is given to another in the same rebalance."""
    told: dict[str, Assignment] = _PERFORM(self, connectors, completed, generation, members, now_ms)
    freed = ConnectorsAndTasks()
    for each in told.values():
        freed.add(each.revoked)
    idle = next((name for name in sorted(members) if not members[name]), None)
    if idle is not None:
        told[idle].assigned.add(freed)
    return told


def _forgets_lost(self: Any, after: Any, to_revoke: Any, lost: ConnectorsAndTasks) -> None:
    """Lost work that waits is not remembered."""
    _REMEMBER(self, after, to_revoke, ConnectorsAndTasks())


def _no_balance(self: Any, configured: Any, after: Any, to_revoke: Any, now_ms: int) -> None:
    """Nobody gives anything up."""


def _no_back_off(self: Any, configured: Any, after: Any, to_revoke: Any, now_ms: int) -> None:
    """Revokes in every rebalance."""
    self.revoked_in_previous = False
    _BALANCE(self, configured, after, to_revoke, now_ms)


def _first_only(after: Any, work: list[Any], held: Any) -> None:
    """New work goes round the workers by name, whatever they run."""
    after.sort(key=lambda load: load.worker)
    for at, each in enumerate(work):
        held(after[at % len(after)])[each] = None


def _takes_the_last(total: int, after: Any, held: Any) -> dict[str, list[Any]]:
    """A worker gives up the work it names last."""
    return {
        load.worker: list(held(load))[::-1][: len(found)]
        for load in after
        if (found := _SURPLUS(total, after, held).get(load.worker)) is not None
    }


def _eager_by_number(connectors: Mapping[str, int], members: list[str]) -> dict[str, Assignment]:
    """Names are sorted as a person would, w2 before w10."""

    def as_numbers(name: str) -> tuple[int, str]:
        return int((re.findall(r"\d+", name) or ["0"])[0]), name

    names, work, at = sorted(members, key=as_numbers), sorted(connectors, key=as_numbers), 0
    dealt = {name: ConnectorsAndTasks() for name in names}
    for connector in work:
        dealt[names[at % len(names)]].connectors[connector] = None
        at += 1
    for connector in work:
        for task in range(connectors[connector]):
            dealt[names[at % len(names)]].tasks[connector, task] = None
            at += 1
    return {name: Assignment(dealt[name], ConnectorsAndTasks()) for name in names}


BUGS: dict[str, Patch] = {
    "no delay": (Assignor, "handle_lost", _no_delay),
    "a delay though nobody left": (Assignor, "handle_lost", _always_a_delay),
    "the delay begins anew": (Assignor, "handle_lost", _delay_begins_anew),
    "the delay ends a moment late": (Assignor, "handle_lost", _delay_ends_a_moment_late),
    "no candidates": (Assignor, "hand_to_candidates", _no_candidates),
    "a memory that is out of date": (Assignor, "perform_task_assignment", _never_forgets),
    "handed over in one rebalance": (Assignor, "perform_task_assignment", _gives_at_once),
    "lost work forgotten": (Assignor, "remember", _forgets_lost),
    "never balanced": (Assignor, "balance", _no_balance),
    "no back-off": (Assignor, "balance", _no_back_off),
    "dealt by name alone": (assignors, "deal", _first_only),
    "the last is revoked": (assignors, "surplus", _takes_the_last),
    "duplicates are left": (assignors, "duplicated_work", lambda members: ConnectorsAndTasks()),
    "a back-off of 2": (assignors, "BACKOFF_MULTIPLIER", 2),
    "names sorted as numbers": (replayed.exact_replay, "__defaults__", (Assignor, _eager_by_number)),
}

# The recordings have no such case: the directed tests of the assignor catch them.
NOT_RECORDED = ("no candidates", "a memory that is out of date", "duplicates are left")
