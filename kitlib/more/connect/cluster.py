"""A Connect cluster in virtual time: workers come, die and return, and connectors and tasks follow them.

Every worker is a member of one group, whose coordinator knows nothing of connectors: it counts
generations, notices who has gone and names a leader, and the leader assigns the work. A dead worker
is noticed after its session timeout. Its tasks then wait for the scheduled delay, or go to others
at once. A worker that had to stop something rejoins at once, so that the freed work can be
assigned; that is the second rebalance of every move.

Left out: the configuration and status topics, the REST interface, connectors that change, and how a connector decides on its
tasks. A connector publishes its number of tasks as soon as it runs, which causes one more rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kitlib.more.connect.assignors import NO_GENERATION, IncrementalCooperativeAssignor, assign_eagerly
from kitlib.more.connect.work import (
    EAGER,
    Assignment,
    ConnectorsAndTasks,
    ConnectSettings,
    Part,
    as_told,
    configured_work,
)

Event = tuple[str, str, dict[str, Any]]  # who (a worker, or "group"), what happened to it, and what is to be said of that


@dataclass(slots=True)
class Worker:
    """One process. Its memory (assignor, generation, work) is gone with it."""

    name: str
    member_id: str  # a new one at each start
    assignor: IncrementalCooperativeAssignor
    work: ConnectorsAndTasks = field(default_factory=ConnectorsAndTasks)  # what it runs, in its own order
    is_up: bool = True
    is_member: bool = False  # it has a place in the present generation
    last_completed_generation: int = NO_GENERATION
    dies_ms: int | None = None  # when the coordinator gives it up; only of a dead one
    rejoin_ms: int | None = None  # when its scheduled delay is over


@dataclass(slots=True)
class ConnectCluster:
    """The workers of one distributed cluster. Calls change it at `now_ms`; `run_until` lets time pass.

    Source: Kafka 4.3.1, connect.runtime.distributed.DistributedHerder (`handleRebalanceCompleted`,
    `RebalanceListener`), WorkerCoordinator (`onJoinPrepare`, `onJoinComplete`). Differs: joining takes
    `join_ms` and not up to a heartbeat; a leader is never behind its configuration; a leader that is gone is
    followed by who joined next, where a broker takes the first of a hash table.
    """

    settings: ConnectSettings = field(default_factory=ConnectSettings)
    now_ms: int = 0
    processes: list[Worker] = field(default_factory=list)  # all that there were, dead ones too
    wanted: dict[str, int] = field(default_factory=dict)  # connector -> tasks that it will ask for
    published: dict[str, int] = field(default_factory=dict)  # connector -> tasks that it has asked for
    generation: int = 0
    leader: str | None = None  # member id
    order: list[str] = field(default_factory=list)  # member ids in the order in which they joined
    rebalance_ms: int | None = None  # when the rebalance under way completes
    events: list[Event] = field(default_factory=list)  # since they were last taken

    @property
    def workers(self) -> dict[str, Worker]:
        """The running or last process of each name."""
        return {worker.name: worker for worker in self.processes}

    def start(self, name: str) -> None:
        """A worker process starts and joins; nothing when it runs."""
        if name in self.running:
            return
        member_id = f"{name}-{len(self.processes)}" if name in self.workers else name
        assignor = IncrementalCooperativeAssignor(self.settings.scheduled_rebalance_max_delay_ms)
        self.processes.append(Worker(name, member_id, assignor))
        self._tell(name, "start")
        self.prepare(f"{name} joins")

    def kill(self, name: str) -> None:
        """A worker dies without a word; the coordinator notices after the session timeout. Nothing when it does not run."""
        if name in self.running:
            worker = self.workers[name]
            ran, worker.work = worker.work, ConnectorsAndTasks()
            worker.is_up, worker.rejoin_ms = False, None
            worker.dies_ms = self.now_ms + self.settings.session_timeout_ms
            self._tell(name, "kill", **_told(ran))

    def configure(self, connectors: Mapping[str, int]) -> None:
        """These are the connectors, each with the number of tasks that it will ask for; no worker runs yet."""
        self.wanted, self.published = dict(connectors), dict.fromkeys(connectors, 0)
        self._tell("group", "configure", connectors=dict(connectors))

    def prepare(self, why: str) -> None:
        """A rebalance begins, unless one is under way. Under the eager protocol everybody stops everything."""
        if self.rebalance_ms is not None:
            return
        self.rebalance_ms = self.now_ms + self.settings.join_ms
        self._tell("group", "prepare", why=why)
        if self.settings.protocol == EAGER:
            for worker in self.workers.values():
                if worker.is_up and worker.work:
                    stopped, worker.work = worker.work, ConnectorsAndTasks()
                    self._tell(worker.name, "revoked", **_told(stopped))

    def next_ms(self) -> int | None:
        """When the next thing happens by itself; None when nothing will."""
        due = [worker.rejoin_ms for worker in self.workers.values() if worker.rejoin_ms is not None]
        due += [worker.dies_ms for worker in self._dead() if worker.dies_ms is not None]
        if self.rebalance_ms is not None:
            due.append(self._completes_ms())
        return max(min(due), self.now_ms) if due else None

    def run_until(self, now_ms: int) -> None:
        """Let time pass up to `now_ms`, and everything happen that is due."""
        while (due := self.next_ms()) is not None and due <= now_ms:
            self.now_ms = due
            self._step()
        self.now_ms = now_ms

    def take_events(self) -> list[Event]:
        """What has happened since the last call, oldest first."""
        taken, self.events = self.events, []
        return taken

    def _step(self) -> None:
        for worker in self._dead():
            if worker.dies_ms is not None and worker.dies_ms <= self.now_ms:
                worker.dies_ms, worker.is_member = None, False
                if worker.member_id in self.order:
                    self.order.remove(worker.member_id)
                    self._tell("group", "evict", member=worker.name, why="session")
                    self.prepare(f"{worker.name} was removed")
        if self.rebalance_ms is not None and self._completes_ms() <= self.now_ms:
            self._complete()
        over = [each for each in self.workers.values() if each.rejoin_ms is not None and each.rejoin_ms <= self.now_ms]
        for worker in over:
            worker.rejoin_ms = None
        if over:
            self.prepare("the delay is over")

    def _completes_ms(self) -> int:
        """A rebalance waits for dead workers until the coordinator gives them up."""
        assert self.rebalance_ms is not None
        waited_for = (worker.dies_ms or 0 for worker in self._dead() if worker.member_id in self.order)
        return max(self.rebalance_ms, *waited_for, self.rebalance_ms)

    def _complete(self) -> None:
        self.rebalance_ms = None
        joined = {worker.member_id: worker for worker in self.workers.values() if worker.is_up}
        self.order = [each for each in self.order if each in joined]
        self.order += [each for each in joined if each not in self.order]
        self.generation += 1
        if not joined:
            self.leader = None
            self._tell("group", "sync", generation=self.generation, leader=None, members=[])
            return
        if self.leader not in joined:
            self.leader = self.order[0]
        leader = joined[self.leader]
        if self.settings.protocol == EAGER:
            told = assign_eagerly(self.published, joined)
        else:
            told = leader.assignor.perform_task_assignment(
                self.published, leader.last_completed_generation, self.generation,
                {each: joined[each].work for each in self.order}, self.now_ms,
            )  # fmt: skip
        names = [joined[each].name for each in self.order]
        self._tell("group", "sync", generation=self.generation, leader=leader.name, members=names)
        moved = False
        for member_id in self.order:
            worker, assignment = joined[member_id], told[member_id]
            worker.is_member, worker.last_completed_generation = True, self.generation
            worker.rejoin_ms = self.now_ms + assignment.delay_ms if assignment.delay_ms > 0 else None
            moved = self._obey(worker, assignment) or moved
        delay_ms = max(assignment.delay_ms for assignment in told.values())
        if delay_ms:
            self._tell("group", "delay", delay_ms=delay_ms, until_ms=self.now_ms + delay_ms)
        self._follow_up(moved)

    def _obey(self, worker: Worker, assignment: Assignment) -> bool:
        """A worker stops and begins what it was told; whether it had to stop something."""
        if assignment.revoked:
            worker.work.remove(assignment.revoked)
            self._tell(worker.name, "revoked", **_told(assignment.revoked))
        if assignment.assigned:
            new = as_told(assignment.assigned)
            new |= worker.work
            worker.work = as_told(new)
            self._tell(worker.name, "assigned", **_told(assignment.assigned))
        return bool(assignment.revoked)

    def _follow_up(self, moved: bool) -> None:
        """Who was told to stop something joins again; a connector that runs asks for its tasks."""
        running = {name for worker in self.workers.values() for name in worker.work.connectors}
        asking = [name for name in running if self.published.get(name) != self.wanted.get(name)]
        for name in asking:
            self.published[name] = self.wanted[name]
        if moved:
            self.prepare("tasks were revoked")
        elif asking:
            self.prepare(f"{', '.join(sorted(asking))} ask{'' if len(asking) > 1 else 's'} for tasks")

    def unassigned(self) -> ConnectorsAndTasks:
        """What is configured and runs nowhere."""
        idle = configured_work(self.published)
        for worker in self.workers.values():
            idle.remove(worker.work)
        return idle

    def owner(self, what: Part) -> list[str]:
        """The workers that run a connector (its name) or a task (name and number)."""
        return [worker.name for worker in self.workers.values() if what in worker.work]

    def snapshot(self) -> dict[str, Any]:
        """What a picture shows: JSON values."""
        delayed = [worker.rejoin_ms for worker in self.workers.values() if worker.rejoin_ms is not None]
        by_member = {worker.member_id: worker.name for worker in self.workers.values()}
        return {
            "generation": self.generation,
            "leader": by_member.get(self.leader or ""),
            "rebalancing": self.rebalance_ms is not None,
            "delay_until_ms": max(delayed, default=None),
            "workers": {
                worker.name: {"up": worker.is_up, "member": worker.is_member, **_told(worker.work)}
                for worker in self.workers.values()
            },
            "unassigned": _told(self.unassigned()),
        }

    @property
    def running(self) -> list[str]:
        """The workers that are up."""
        return [worker.name for worker in self.workers.values() if worker.is_up]

    def _dead(self) -> list[Worker]:
        return [worker for worker in self.processes if not worker.is_up]

    def _tell(self, who: str, what: str, **data: Any) -> None:
        self.events.append((who, what, data))


def _told(work: ConnectorsAndTasks) -> dict[str, Any]:
    return {"connectors": sorted(work.connectors), "tasks": [list(task) for task in sorted(work.tasks)]}


@dataclass(slots=True)
class StandaloneWorker(ConnectCluster):
    """Connect's standalone mode: one worker runs everything, and no one takes over when it dies.

    There is no group, no generation and no leader. The configuration comes from files, and the source offsets
    go to a file of the same machine.

    Source: Kafka 4.3.1, connect.runtime.standalone.StandaloneHerder. Differs: connectors ask for their
    tasks at once.
    """

    generation: int | None = None  # type: ignore[assignment]  # there is no group

    def __post_init__(self) -> None:
        self.processes.append(Worker("w1", "w1", IncrementalCooperativeAssignor(0), is_up=False))

    def start(self, name: str) -> None:
        """The process starts; it runs everything at once. Nothing when it runs."""
        if not self.running:
            work = configured_work(self.published)
            self.processes.append(Worker(name, name, IncrementalCooperativeAssignor(0), work, is_member=True))
            self._tell(name, "start")
            self._tell(name, "assigned", **_told(work))

    def kill(self, name: str) -> None:
        """The process dies, and all work with it; nobody waits for it."""
        ConnectCluster.kill(self, name)
        self.workers[name].is_member, self.workers[name].dies_ms = False, None

    def configure(self, connectors: Mapping[str, int]) -> None:
        """These connectors; they ask for their tasks at once."""
        self.published = dict(connectors)
        self._tell("w1", "configure", connectors=dict(connectors))
