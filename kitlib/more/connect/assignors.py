"""How Connect shares out its work: formerly everybody stopped, now only what must move is stopped.

By the eager rule connectors first and then tasks, each sorted by name, are assigned round-robin to the workers sorted by name.
Current assignments are ignored, so one joining worker moves nearly everything.

By the incremental rule the leader compares what it handed out last with what the workers say they run. What is gone
with a worker is lost, and is not reassigned at once: the worker may only be restarting, so the leader waits for
`scheduled.rebalance.max.delay.ms`. What has to move between living workers is revoked in one rebalance
and assigned in the next, so that no task ever runs twice.

Left out: the configuration topic's offset, and with it a leader that is behind the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kitlib.java.hash_tables import in_hash_order
from kitlib.more.connect.work import Assignment, ConnectorsAndTasks, check_members, configured_work


def assign_eagerly(connectors: Mapping[str, int], members: Iterable[str]) -> dict[str, Assignment]:
    """Each worker's assignment, by name. ConnectError without a worker, or for a number of tasks below 0.

    `connectors` maps a connector to its number of tasks. The hand that deals goes on from the last
    connector to the first task.

    Source: Kafka 4.3.1, EagerAssignor.performTaskAssignment. Differs: nothing.
    """
    names = sorted(members)
    check_members(names)
    work = configured_work(connectors)
    dealt = {name: ConnectorsAndTasks() for name in names}
    for at, connector in enumerate(work.connectors):
        dealt[names[at % len(names)]].connectors[connector] = None
    for at, task in enumerate(work.tasks, start=len(work.connectors)):
        dealt[names[at % len(names)]].tasks[task] = None
    return {name: Assignment(dealt[name], ConnectorsAndTasks()) for name in names}


NO_GENERATION = -1  # of a worker that has not completed a rebalance
BACKOFF_MULTIPLIER = 40  # Source: the assignor's ExponentialBackoff


@dataclass(slots=True)
class WorkerLoad:
    """A worker and the work it will run after this rebalance."""

    worker: str
    work: ConnectorsAndTasks


@dataclass(slots=True)
class IncrementalCooperativeAssignor:
    """The leader's memory between rebalances, and how it decides. A worker that becomes the leader begins with none.

    Source: Kafka 4.3.1, connect.runtime.distributed.IncrementalCooperativeAssignor.
    Differs: time is an argument; assignments are values and not bytes.
    """

    max_delay_ms: int  # scheduled.rebalance.max.delay.ms, >= 0
    previous_assignment: ConnectorsAndTasks = field(
        default_factory=ConnectorsAndTasks
    )  # what should be running, lost work included
    previous_revocation: ConnectorsAndTasks = field(
        default_factory=ConnectorsAndTasks
    )  # what the last rebalance told workers to stop
    revoked_in_previous: bool = False  # the last rebalance took work away for balance
    candidate_workers: dict[str, None] = field(default_factory=dict)  # had no work while a delay ran; get the lost work
    scheduled_rebalance_ms: int = 0  # when lost work is handed out; 0: no delay runs
    delay_ms: int = 0  # what the workers were told last
    previous_generation: int = NO_GENERATION
    previous_members: frozenset[str] = frozenset()
    successive_revoking_rebalances: int = 0

    def perform_task_assignment(
        self,
        connectors: Mapping[str, int],
        last_completed_generation: int,
        generation: int,
        members: Mapping[str, ConnectorsAndTasks],
        now_ms: int,
    ) -> dict[str, Assignment]:
        """One rebalance: each worker's assignment, by name.

        `connectors` maps a connector to its number of tasks; `members` holds what each worker says it runs,
        in its own order; `last_completed_generation` is the leader's. ConnectError without a worker, or for
        a number of tasks below 0.
        """
        check_members(members)
        configured = configured_work(connectors)
        if self.previous_generation != last_completed_generation:
            self.previous_assignment = ConnectorsAndTasks()
        active = ConnectorsAndTasks()
        for work in members.values():
            active.add(work)
        if self.previous_revocation.within(active):
            self.previous_assignment = active.copy()  # the revocation never arrived: it is to be told again
        self.previous_revocation = ConnectorsAndTasks()

        deleted = self.previous_assignment.without(configured)
        duplicated = duplicated_work(members.values())
        lost = self.previous_assignment.without(active, deleted)
        created = configured.without(self.previous_assignment, active)

        current = {name: members[name].copy() for name in members}
        after = [WorkerLoad(name, members[name].copy()) for name in in_hash_order(members)]
        to_revoke = {name: ConnectorsAndTasks() for name in members}
        for load in after:
            current[load.worker].remove(deleted)
            for unwanted in (deleted, duplicated):
                to_revoke[load.worker].add(members[load.worker].within(unwanted))
                load.work.remove(unwanted)

        as_new = self.handle_lost(lost, after, now_ms)
        if self.delay_ms == 0:
            self.balance(configured, after, to_revoke, now_ms)
        else:
            self.revoked_in_previous = False
        to_assign = created.copy()
        to_assign.add(as_new)
        deal(after, list(to_assign.connectors), lambda load: load.work.connectors)
        deal(after, list(to_assign.tasks), lambda load: load.work.tasks)

        self.remember(after, to_revoke, lost)
        self.previous_generation, self.previous_members = generation, frozenset(members)
        told = {}
        for load in after:
            assigned = load.work.copy()
            assigned.remove(current[load.worker])
            told[load.worker] = Assignment(assigned, to_revoke[load.worker], self.delay_ms)
        return told

    def handle_lost(self, lost: ConnectorsAndTasks, after: list[WorkerLoad], now_ms: int) -> ConnectorsAndTasks:
        """What of the lost work is to be dealt out like new work; begins, goes on with or ends a delay.

        When a delay ends, workers that had nothing to do meanwhile (a restarted one is among them) get the
        lost work themselves.
        """
        if not lost and not self.revoked_in_previous:
            self.reset_delay()
            return ConnectorsAndTasks()
        nobody_left = self.previous_members <= {load.worker for load in after}
        if (self.scheduled_rebalance_ms <= 0 and nobody_left) or self.max_delay_ms == 0:
            return lost
        if 0 < self.scheduled_rebalance_ms <= now_ms:
            as_new = self.hand_to_candidates(lost, after)
            self.reset_delay()
            self.revoked_in_previous = False
            return as_new
        idle = in_hash_order(load.worker for load in after if not load.work)
        self.candidate_workers |= dict.fromkeys(idle)
        remaining_ms = self.scheduled_rebalance_ms - now_ms
        self.delay_ms = min(remaining_ms, self.max_delay_ms) if remaining_ms > 0 else self.max_delay_ms
        self.scheduled_rebalance_ms = now_ms + self.delay_ms
        return ConnectorsAndTasks()

    def hand_to_candidates(self, lost: ConnectorsAndTasks, after: list[WorkerLoad]) -> ConnectorsAndTasks:
        """Deal the lost work to the candidates that are still there, in turn; all of it comes back if there are none."""
        here = {load.worker: load for load in after}
        candidates = [here[name] for name in self.candidate_workers if name in here]
        if not candidates:
            return lost
        for at, connector in enumerate(lost.connectors):
            candidates[at % len(candidates)].work.connectors[connector] = None
        for at, task in enumerate(lost.tasks):
            candidates[at % len(candidates)].work.tasks[task] = None
        return ConnectorsAndTasks()

    def reset_delay(self) -> None:
        """No delay runs any more."""
        self.candidate_workers = {}
        self.scheduled_rebalance_ms = 0
        self.delay_ms = 0

    def balance(
        self,
        configured: ConnectorsAndTasks,
        after: list[WorkerLoad],
        to_revoke: dict[str, ConnectorsAndTasks],
        now_ms: int,
    ) -> None:
        """Take work from whoever has too much; a second time in a row only after a growing delay."""
        revocations = balancing_revocations(configured, after)
        if not revocations:
            if self.revoked_in_previous:
                self.revoked_in_previous = False
                self.successive_revoking_rebalances = 0
            return
        if self.revoked_in_previous:
            self.successive_revoking_rebalances += 1
            self.delay_ms = revoking_backoff_ms(self.successive_revoking_rebalances, self.max_delay_ms)
            if self.delay_ms != 0:
                self.scheduled_rebalance_ms = now_ms + self.delay_ms
                return
        else:
            self.revoked_in_previous = True
        for load in after:
            if load.worker in revocations:
                to_revoke[load.worker].add(revocations[load.worker])
                load.work.remove(revocations[load.worker])

    def remember(
        self, after: list[WorkerLoad], to_revoke: dict[str, ConnectorsAndTasks], lost: ConnectorsAndTasks
    ) -> None:
        """What should be running once everybody has heard: all that is assigned, and what is lost for now."""
        previous = ConnectorsAndTasks()
        for load in after:
            previous.add(load.work)
        for revoked in to_revoke.values():
            previous.remove(revoked)
            self.previous_revocation.add(revoked)
        previous.add(lost)
        self.previous_assignment = previous


def duplicated_work(members: Iterable[ConnectorsAndTasks]) -> ConnectorsAndTasks:
    """What more than one worker says it runs."""
    connectors: Counter[str] = Counter()
    tasks: Counter[tuple[str, int]] = Counter()
    for work in members:
        connectors.update(work.connectors.keys())
        tasks.update(work.tasks.keys())
    return ConnectorsAndTasks.of(
        (name for name, count in connectors.items() if count > 1), (task for task, count in tasks.items() if count > 1)
    )


def balancing_revocations(configured: ConnectorsAndTasks, after: list[WorkerLoad]) -> dict[str, ConnectorsAndTasks]:
    """What each worker must give up so that nobody has more than its share; connectors and tasks are counted apart."""
    if not configured or not any(load.work for load in after):
        return {}
    found: dict[str, ConnectorsAndTasks] = {}
    for worker, revoked in surplus(len(configured.connectors), after, lambda load: load.work.connectors).items():
        found.setdefault(worker, ConnectorsAndTasks()).connectors.update(dict.fromkeys(revoked))
    for worker, revoked in surplus(len(configured.tasks), after, lambda load: load.work.tasks).items():
        found.setdefault(worker, ConnectorsAndTasks()).tasks.update(dict.fromkeys(revoked))
    return found


def surplus(total: int, after: list[WorkerLoad], held: Callable[[WorkerLoad], dict[Any, None]]) -> dict[str, list[Any]]:
    """Of one kind of work, what each worker has above its share: the first ones it names.

    The share is total / workers; the first workers met that have more keep one extra as long as there is a
    remainder. Empty when all have their share already.
    """
    share, extras = divmod(total, len(after))
    sizes = [len(held(load)) for load in after]
    with_extra = sizes.count(share + 1)
    if with_extra == extras and sizes.count(share) + with_extra == len(after):
        return {}
    found = {}
    given_extras = 0
    for load, size in zip(after, sizes, strict=True):
        if size <= share:
            continue
        most = share
        if given_extras < extras:
            given_extras += 1
            most = share + 1
            if size == most:
                continue
        found[load.worker] = list(held(load))[: size - most]
    return found


def deal(after: list[WorkerLoad], work: list[Any], held: Callable[[WorkerLoad], dict[Any, None]]) -> None:
    """Deal work of one kind to the least loaded workers, in rounds; ties go by the worker's name.

    `after` is left in that order: the worker with the least of this kind first.
    """
    after.sort(key=lambda load: (len(held(load)), load.worker))
    at = 0
    while at < len(work):
        least = len(held(after[0]))
        level = next((n for n, load in enumerate(after) if len(held(load)) > least), len(after))
        for load in after[:level]:
            held(load)[work[at]] = None
            at += 1
            if at == len(work):
                break


def revoking_backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """How long a rebalance that would take work away waits after `attempts` others in a row did the same.

    Source: Kafka 4.3.1, ExponentialBackoff.backoff with 1 ms, 40 and no jitter. Differs: nothing.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempts, math.log(max_delay_ms) / math.log(BACKOFF_MULTIPLIER))
    return min(int(math.pow(BACKOFF_MULTIPLIER, exponent)), max_delay_ms)
