"""Who runs which task: balanced over threads, but a task runs only where its state already is.

The assignor first distributes tasks evenly, ignoring the past. Then it checks whose copy of a
task's state is up to date. Where the one that should get a task is behind and another is not, the other
runs it for now, and the first one warms up: it gets a copy that follows. A later rebalance (the probing
one) moves the task when the copy has caught up. No one waits for a restore while one copy is alive.

Left out: racks and tags.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import cycle, permutations

from kitlib.errors import KitError
from kitlib.more.streams.topology import StreamsTaskId

RUNNING_LAG = -2  # of the instance that runs a task; Source: Task.LATEST_OFFSET


class StreamsAssignmentError(KitError):
    """Tasks cannot be assigned as asked."""


@dataclass(frozen=True, slots=True)
class AssignmentSettings:
    """Settings that decide on assignments; Source: Kafka 4.3.1, StreamsConfig."""

    num_standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000  # records; a copy that is behind by so few counts as caught up
    max_warmup_replicas: int = 2
    probing_rebalance_interval_ms: int = 600_000


@dataclass(slots=True)
class ClientState:
    """One instance as the assignor sees it."""

    name: str
    threads: int  # >= 1
    lags: Mapping[StreamsTaskId, int]  # stateful task -> records its copy is behind; RUNNING_LAG where it runs
    active: set[StreamsTaskId] = field(default_factory=set)
    standby: set[StreamsTaskId] = field(default_factory=set)

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        """Tasks for each thread."""
        return self.count / self.threads

    def has(self, task: StreamsTaskId) -> bool:
        return task in self.active or task in self.standby


@dataclass(slots=True)
class HighAvailabilityTaskAssignor:
    """One assignment: `clients` are filled by `assign`.

    Source: Kafka 4.3.1, streams.processor.internals.assignment.HighAvailabilityTaskAssignor,
    DefaultStandbyTaskAssignor, TaskMovement. Differs: an instance is known by its name and not by a
    UUID, so ties go by name.
    """

    clients: dict[str, ClientState]
    settings: AssignmentSettings = field(default_factory=AssignmentSettings)
    warmups: dict[str, set[StreamsTaskId]] = field(default_factory=dict)  # instance -> tasks it warms up for
    warmups_left: int = 0

    def assign(self, tasks: Collection[StreamsTaskId], stateful: Collection[StreamsTaskId]) -> bool:
        """Fill the clients, of which there is at least one; whether a probing rebalance is needed."""
        self.clients = {name: self.clients[name] for name in sorted(self.clients)}
        with_state = sorted(stateful)
        for task, client in zip(with_state, cycle(self.clients.values()), strict=False):
            client.active.add(task)
        self._balance(lambda client: client.active)
        if self.settings.num_standby_replicas:
            self._assign_standbys(with_state)
            self._balance(lambda client: client.standby)
        self.warmups_left = self.settings.max_warmup_replicas
        moved = self._move_active() + self._move_standbys()
        for task in sorted(set(tasks) - set(with_state)):
            least = min(self.clients.values(), key=lambda client: (len(client.active) / client.threads, client.name))
            least.active.add(task)
        return moved > 0

    def _balance(self, held: Callable[[ClientState], set[StreamsTaskId]]) -> None:
        """Move tasks from whoever has more for each thread to whoever has less, as long as that helps."""
        again = True
        while again:
            again = False
            for source, destination in permutations(self.clients.values(), 2):
                for task in sorted(held(source)):
                    if not _should_move(source, destination):
                        break
                    if not destination.has(task):
                        held(source).discard(task)
                        held(destination).add(task)
                        again = True

    def _assign_standbys(self, stateful: Iterable[StreamsTaskId]) -> None:
        """Copies of each task go to the least loaded instances that have none; too few instances, fewer copies."""
        for task in stateful:
            for _ in range(self.settings.num_standby_replicas):
                if name := self._least_loaded(each for each, client in self.clients.items() if not client.has(task)):
                    self.clients[name].standby.add(task)

    def _least_loaded(self, names: Iterable[str]) -> str | None:
        """The one of these with the fewest tasks for each thread; None of none."""
        return min(names, key=lambda name: (self.clients[name].load, name), default=None)

    def caught_up(self, task: StreamsTaskId) -> list[str]:
        """The instances that run the task, or whose copy is behind by no more than is acceptable."""
        lags = {name: client.lags[task] for name, client in self.clients.items()}
        return [name for name, lag in lags.items() if lag == RUNNING_LAG or 0 <= lag <= self.settings.acceptable_recovery_lag]

    def by_lag(self, task: StreamsTaskId) -> list[str]:
        """All instances, the one with the best copy first."""
        return sorted(self.clients, key=lambda name: (self.clients[name].lags[task], name))

    def _movements(self, held: Callable[[ClientState], set[StreamsTaskId]]) -> list[tuple[int, StreamsTaskId, str]]:
        """(instances that are caught up, task, instance that should have it and is behind another one), the hardest to place first."""
        return sorted(
            (len(ready), task, name)
            for name, client in self.clients.items()
            for task in held(client) - self.warmups.get(name, set())
            if name not in (ready := self.caught_up(task)) and self.clients[self.by_lag(task)[0]].lags[task] < client.lags[task]
        )

    def _move_active(self) -> int:
        movements = self._movements(lambda client: client.active)
        for _, task, to in movements:
            ready = self.caught_up(task)
            name = self._least_loaded(each for each in ready if task in self.clients[each].standby)
            name = name or self._least_loaded(ready) or self.by_lag(task)[0]
            source, destination = self.clients[name], self.clients[to]
            source.active.add(task)
            destination.active.discard(task)
            if task in source.standby:
                source.standby.discard(task)
                destination.standby.add(task)
            elif self._take_warmup():
                destination.standby.add(task)
                self.warmups.setdefault(to, set()).add(task)
        return len(movements)

    def _move_standbys(self) -> int:
        moved = 0
        for _, task, to in self._movements(lambda client: client.standby):
            better = self.by_lag(task)
            name = self._least_loaded(each for each in self.caught_up(task) if not self.clients[each].has(task))
            name = name or next((each for each in better[: better.index(to)] if not self.clients[each].has(task)), None)
            if name is not None:
                self.clients[name].standby.add(task)
                if not self._take_warmup():
                    self.clients[to].standby.discard(task)
                moved += 1
        return moved

    def _take_warmup(self) -> bool:
        self.warmups_left -= 1
        return self.warmups_left >= 0


def _should_move(source: ClientState, destination: ClientState) -> bool:
    """Whether one task less here and one more there brings the loads nearer to each other."""
    skew = source.load - destination.load
    after = (source.count - 1.0) / source.threads - (destination.count + 1.0) / destination.threads
    return skew > 0 and 0 <= after < skew


def assign_to_threads(
    tasks: Iterable[StreamsTaskId], previous: Mapping[str, list[StreamsTaskId]], load: dict[str, int]
) -> dict[str, list[StreamsTaskId]]:
    """The tasks of one instance, dealt to its threads: back to who had them, as far as the balance allows.

    `previous` holds the stateful tasks that threads had, the most caught up first; `load` counts the tasks
    that each of the threads has got in earlier calls, and is added to.

    Source: Kafka 4.3.1, StreamsPartitionAssignor.assignTasksToThreads. Differs: tasks are dealt in order, not in that of a Java queue.
    """
    left = sorted(tasks)
    dealt: dict[str, list[StreamsTaskId]] = {name: [] for name in sorted(load)}
    share = (sum(load.values()) + len(left)) // len(dealt)

    def with_less(most: int) -> list[str]:
        return [name for name in dealt if load[name] < most]

    def give(task: StreamsTaskId, name: str) -> None:
        left.remove(task)
        dealt[name].append(task)
        load[name] += 1

    had = [(name, task) for name in dealt for task in previous.get(name, ()) if task in left]
    for name, task in had:
        if name in with_less(share):
            give(task, name)
    while left and (below := with_less(share)):
        for task, name in zip(list(left), below, strict=False):
            give(task, name)
    for name, task in sorted(had, key=lambda each: each[1]):  # one more each, as long as there are some
        if task in left and name in with_less(share + 1):
            give(task, name)
    for task, name in zip(list(left), with_less(share + 1), strict=False):
        give(task, name)
    return dealt
