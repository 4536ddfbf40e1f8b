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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, cycle
from typing import Any

from kitlib.java.hash_tables import in_hash_order
from kitlib.more.connect.work import Assignment, ConnectError, ConnectorsAndTasks, Part, configured_work


def assign_eagerly(connectors: Mapping[str, int], members: Iterable[str]) -> dict[str, Assignment]:
    """Each worker's assignment, by name. ConnectError without a worker, or for a number of tasks below 0.

    `connectors` maps a connector to its number of tasks. The hand that deals goes on from the last
    connector to the first task.

    Source: Kafka 4.3.1, EagerAssignor.performTaskAssignment. Differs: nothing.
    """
    dealt = {name: ConnectorsAndTasks() for name in sorted(members)}
    check_members(dealt)
    for part, work in zip(configured_work(connectors), cycle(dealt.values()), strict=False):
        work[part] = None
    return {name: Assignment(work, ConnectorsAndTasks()) for name, work in dealt.items()}


def check_members(members: Iterable[str]) -> None:
    """ConnectError unless there is a worker to give work to."""
    if not list(members):
        raise ConnectError("the group has no worker, expected at least 1. Let a worker join first.")


NO_GENERATION = -1  # of a worker that has not completed a rebalance
BACKOFF_MULTIPLIER = 40  # Source: the assignor's ExponentialBackoff
CONNECTOR, TASK = str, tuple  # the kinds of work, which are counted apart
Shares = dict[str, ConnectorsAndTasks]  # by the worker's name


@dataclass(slots=True)
class IncrementalCooperativeAssignor:
    """The leader's memory between rebalances, and how it decides. A worker that becomes the leader begins with none.

    Source: Kafka 4.3.1, connect.runtime.distributed.IncrementalCooperativeAssignor.
    Differs: time is an argument; assignments are values and not bytes.
    """

    max_delay_ms: int  # scheduled.rebalance.max.delay.ms, >= 0
    previous_assignment: ConnectorsAndTasks = field(default_factory=ConnectorsAndTasks)  # what should be running, lost work included
    previous_revocation: ConnectorsAndTasks = field(default_factory=ConnectorsAndTasks)  # what the last rebalance told workers to stop
    revoked_in_previous: bool = False  # the last rebalance took work away for balance
    candidate_workers: dict[str, None] = field(default_factory=dict)  # had no work while a delay ran; get the lost work
    scheduled_rebalance_ms: int = 0  # when lost work is handed out; 0: no delay runs
    delay_ms: int = 0  # what the workers were told last
    previous_generation: int = NO_GENERATION
    previous_members: frozenset[str] = frozenset()
    successive_revoking_rebalances: int = 0

    def perform_task_assignment(
        self, connectors: Mapping[str, int], last_completed_generation: int, generation: int,
        members: Mapping[str, ConnectorsAndTasks], now_ms: int,
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
        counts = Counter(chain.from_iterable(members.values()))
        active = ConnectorsAndTasks.of(counts)
        if self.previous_revocation.within(active):
            self.previous_assignment = active  # the revocation never arrived: it is to be told again
        self.previous_revocation = ConnectorsAndTasks()

        deleted = self.previous_assignment.without(configured)
        duplicated = ConnectorsAndTasks.of(part for part, count in counts.items() if count > 1)
        lost = self.previous_assignment.without(active, deleted)
        created = configured.without(self.previous_assignment, active)

        after: Shares = {name: ConnectorsAndTasks(members[name]) for name in in_hash_order(members)}
        to_revoke: Shares = {name: ConnectorsAndTasks() for name in members}
        for name, work in after.items():
            for unwanted in (deleted, duplicated):
                to_revoke[name] |= members[name].within(unwanted)
                work.remove(unwanted)

        as_new = self.handle_lost(lost, after, now_ms)
        if self.delay_ms == 0:
            self.balance(configured, after, to_revoke, now_ms)
        else:
            self.revoked_in_previous = False
        deal(after, created.connectors + as_new.connectors, CONNECTOR)
        deal(after, created.tasks + as_new.tasks, TASK)

        self.remember(after, to_revoke, lost)
        self.previous_generation, self.previous_members = generation, frozenset(members)
        told = {}
        for name, work in after.items():
            assigned = ConnectorsAndTasks(work)
            assigned.remove(part for part in members[name] if part not in deleted)
            told[name] = Assignment(assigned, to_revoke[name], self.delay_ms)
        return told

    def handle_lost(self, lost: ConnectorsAndTasks, after: Shares, now_ms: int) -> ConnectorsAndTasks:
        """What of the lost work is to be dealt out like new work; begins, goes on with or ends a delay.

        When a delay ends, workers that had nothing to do meanwhile (a restarted one is among them) get the
        lost work themselves.
        """
        if not lost and not self.revoked_in_previous:
            self.reset_delay()
            return ConnectorsAndTasks()
        nobody_left = self.previous_members <= after.keys()
        if (self.scheduled_rebalance_ms <= 0 and nobody_left) or self.max_delay_ms == 0:
            return lost
        if 0 < self.scheduled_rebalance_ms <= now_ms:
            as_new = self.hand_to_candidates(lost, after)
            self.reset_delay()
            self.revoked_in_previous = False
            return as_new
        self.candidate_workers |= dict.fromkeys(in_hash_order(name for name, work in after.items() if not work))
        remaining_ms = self.scheduled_rebalance_ms - now_ms
        self.delay_ms = min(remaining_ms, self.max_delay_ms) if remaining_ms > 0 else self.max_delay_ms
        self.scheduled_rebalance_ms = now_ms + self.delay_ms
        return ConnectorsAndTasks()

    def hand_to_candidates(self, lost: ConnectorsAndTasks, after: Shares) -> ConnectorsAndTasks:
        """Deal the lost work to the candidates that are still there, in turn; all of it comes back if there are none."""
        candidates = [after[name] for name in self.candidate_workers if name in after]
        if not candidates:
            return lost
        for kind in (CONNECTOR, TASK):
            for part, work in zip(held(lost, kind), cycle(candidates), strict=False):
                work[part] = None
        return ConnectorsAndTasks()

    def reset_delay(self) -> None:
        """No delay runs any more."""
        self.candidate_workers, self.scheduled_rebalance_ms, self.delay_ms = {}, 0, 0

    def balance(self, configured: ConnectorsAndTasks, after: Shares, to_revoke: Shares, now_ms: int) -> None:
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
        for name, parts in revocations.items():
            to_revoke[name] |= ConnectorsAndTasks.of(parts)
            after[name].remove(parts)

    def remember(self, after: Shares, to_revoke: Shares, lost: ConnectorsAndTasks) -> None:
        """What should be running once everybody has heard: all that is assigned, and what is lost for now."""
        self.previous_revocation = ConnectorsAndTasks.of(chain.from_iterable(to_revoke.values()))
        self.previous_assignment = ConnectorsAndTasks.of(chain.from_iterable(after.values()))
        self.previous_assignment.remove(self.previous_revocation)
        self.previous_assignment |= lost


def held(work: ConnectorsAndTasks, kind: type[Any]) -> list[Part]:
    """The parts of one kind, in their order."""
    return [part for part in work if isinstance(part, kind)]


def balancing_revocations(configured: ConnectorsAndTasks, after: Shares) -> dict[str, list[Part]]:
    """What each worker must give up so that nobody has more than its share: the first ones it names, connectors and tasks apart.

    The share is total / workers; the first workers met that have more keep one extra as long as there is a
    remainder. Nothing when all have their share already.
    """
    found: dict[str, list[Part]] = {}
    for kind in (CONNECTOR, TASK) if configured and any(after.values()) else ():
        share, extras = divmod(len(held(configured, kind)), len(after))
        sizes = [len(held(work, kind)) for work in after.values()]
        with_extra = sizes.count(share + 1)
        if with_extra == extras and sizes.count(share) + with_extra == len(after):
            continue
        for name, work in after.items():
            parts = held(work, kind)
            if len(parts) > share:
                most = share + (extras > 0)
                extras = max(0, extras - 1)
                if len(parts) > most:
                    found.setdefault(name, []).extend(parts[: len(parts) - most])
    return found


def deal(after: Shares, parts: Iterable[Part], kind: type[Any]) -> None:
    """Deal work of one kind, each part to the worker with the least of it; of several to the one that began with less, then by name."""
    sizes = {name: len(held(work, kind)) for name, work in after.items()}
    counts = {name: sizes[name] for name in sorted(sizes, key=lambda name: (sizes[name], name))}
    for part in parts:
        least = min(counts, key=counts.__getitem__)
        after[least][part] = None
        counts[least] += 1


def revoking_backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """How long a rebalance that would take work away waits after `attempts` others in a row did the same.

    Source: Kafka 4.3.1, ExponentialBackoff.backoff with 1 ms, 40 and no jitter. Differs: nothing.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempts, math.log(max_delay_ms) / math.log(BACKOFF_MULTIPLIER))
    return min(int(math.pow(BACKOFF_MULTIPLIER, exponent)), max_delay_ms)
