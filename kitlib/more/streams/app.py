"""A Streams application in virtual time: instances come and die, tasks follow, and state is restored from changelogs.

A stateful task writes every change of its store to a changelog topic, one partition for each task. Whoever
runs the task next needs the whole store: from its own disk as far as that goes, and the rest from the
changelog. A standby replica reads the changelog all the time, so little is left to read. Until a task has
restored, it processes nothing, and its input waits.

Every instance can say who holds a key: the key's partition is computed as a producer computes it, and the last
assignment says who runs that task and who keeps standbys. Asking is the application's own affair.

Left out: commits and what is processed twice after a crash (see the transactions), and input that is
skewed: every task gets the same number of records; range queries, window stores, and the network between instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kitlib.more.hashes import partition_of_key
from kitlib.more.streams.assignor import (
    RUNNING_LAG,
    AssignmentSettings,
    ClientState,
    HighAvailabilityTaskAssignor,
    StreamsAssignmentError,
    assign_to_threads,
)
from kitlib.more.streams.topology import StreamsTaskId, StreamsTopology, TopologyError, task_name

TICK_MS = 100


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """How fast things go (10 records a second or more: one in each tick), and what decides on assignments."""

    assignment: AssignmentSettings = field(default_factory=AssignmentSettings)
    session_timeout_ms: int = 45_000  # Source: Kafka 4.3.1, ConsumerConfig
    join_ms: int = 1_000  # until all instances have joined a rebalance
    records_per_s: int = 100  # that reach each task
    process_per_s: int = 1_000  # that a task can process, when it has catching up to do
    restore_per_s: int = 5_000  # changelog records that a task reads while it restores
    standby_poll_ms: int = 1_000  # how often a standby reads its changelog


Event = tuple[str, str, dict[str, Any]]  # who (an instance, or "group"), what happened to it, and what is to be said of that
Kind = Literal["running", "restoring", "standby"]  # of a task that an instance holds; the first two are active


@dataclass(slots=True)
class Instance:
    """One process with its threads and its disk. The disk outlives the process."""

    name: str
    threads: int
    is_up: bool = True
    is_member: bool = False
    dies_ms: int | None = None  # when the coordinator gives it up
    lost_threads: dict[str, int | None] = field(default_factory=dict)  # threads that have died -> when the group misses them
    held: dict[StreamsTaskId, Kind] = field(default_factory=dict)  # its active and standby tasks
    began: dict[StreamsTaskId, int] = field(default_factory=dict)  # of those that restore: from which offset on
    positions: dict[StreamsTaskId, int] = field(default_factory=dict)  # on disk: the store as of this changelog offset
    thread_of: dict[StreamsTaskId, str] = field(default_factory=dict)  # active and standby tasks

    def tasks(self, *kinds: Kind) -> set[StreamsTaskId]:
        return {task for task, kind in self.held.items() if kind in kinds}

    @property
    def active(self) -> set[StreamsTaskId]:
        return self.tasks("running", "restoring")

    def thread_state(self, thread: str) -> str:
        """As a query sees the thread: PARTITIONS_ASSIGNED until the last of its active tasks has restored."""
        waits = any(self.thread_of.get(task) == thread for task in self.tasks("restoring"))
        return "PARTITIONS_ASSIGNED" if waits else "RUNNING"

    @property
    def thread_names(self) -> list[str]:
        names = (f"{self.name}-{number + 1}" for number in range(self.threads))
        return [name for name in names if name not in self.lost_threads]


@dataclass(slots=True)
class StreamsApp:
    """All instances of one application.

    Source: Kafka 4.3.1, streams.processor.internals.StreamsPartitionAssignor, TaskManager, StreamThread,
    DefaultStateUpdater. Differs: time goes in ticks of 100 ms; a rebalance takes `join_ms`; restoring has
    one speed; tasks that move between instances are handed over within one rebalance; an instance that is
    started again takes its own old place at once.
    """

    topology: StreamsTopology
    partitions: Mapping[str, int]
    settings: StreamsSettings = field(default_factory=StreamsSettings)
    now_ms: int = 0
    instances: dict[str, Instance] = field(default_factory=dict)
    tasks: dict[StreamsTaskId, tuple[tuple[str, int], ...]] = field(init=False)
    stateful: set[StreamsTaskId] = field(init=False)
    arrived: dict[StreamsTaskId, int] = field(init=False)  # records of the task's input
    processed: dict[StreamsTaskId, int] = field(init=False)  # of them; also the end of the changelog
    restored: dict[StreamsTaskId, int] = field(init=False)  # changelog records read by whoever took the task over
    idle_ms: dict[StreamsTaskId, int] = field(init=False)  # for how long nobody processed the task
    generation: int = 0
    rebalance_ms: int | None = None
    probing_ms: int | None = None
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tasks = self.topology.tasks(self.partitions)
        self.stateful = self.topology.stateful(self.tasks)
        self.arrived, self.processed, self.restored, self.idle_ms = (dict.fromkeys(self.tasks, 0) for _ in range(4))

    def start(self, name: str, threads: int = 1, *, disk: bool = True) -> None:
        """A process with one or more threads starts; with `disk` it finds what one of this name left behind. Nothing when it runs."""
        before = self.instances.get(name)
        if before is not None and before.is_up:
            return
        positions = dict(before.positions) if before and disk else {}
        self.instances[name] = Instance(name, threads, positions=positions)
        self._tell(name, "start", threads=threads, on_disk=len(positions))
        self._prepare(f"{name} joins")

    def kill(self, name: str) -> None:
        """A process dies. Its disk stays; the group misses it after the session timeout. Nothing when it does not run."""
        if name in self.running:
            found = self.instances[name]
            told = [task_name(task) for task in sorted(found.active)]
            found.is_up, found.dies_ms = False, self.now_ms + self.settings.session_timeout_ms
            found.held.clear()
            self._tell(name, "kill", tasks=told)

    def lose_thread(self, name: str, thread: int) -> None:
        """One thread of an instance dies of an exception; its process, its disk and its other threads live on.

        Each thread is a member of the group, so the group misses it after the session timeout. This is what happened up to 2.7,
        and what an exception handler can still have: today's default (SHUTDOWN_CLIENT) ends the whole instance, see `kill`, and
        REPLACE_THREAD, which starts another thread, is left out. Error when there is no such
        thread, or when it is the instance's last one: then the process has nothing left to do, see `kill`.
        """
        found, lost = self.instances.get(name), f"{name}-{thread}"
        if found is None or not found.is_up or lost not in found.thread_names or len(found.thread_names) == 1:
            raise StreamsAssignmentError(f"thread {lost} is not one of several that run. Name one of an instance with two or more.")
        tasks = {task for task, had in found.thread_of.items() if had == lost}
        told = [task_name(task) for task in sorted(tasks & found.active)]
        found.lost_threads[lost] = self.now_ms + self.settings.session_timeout_ms
        close(found, tasks)
        self._tell(name, "lose_thread", thread=lost, tasks=told)

    def run_for(self, ms: int) -> None:
        """Let `ms` pass, in ticks of 100 ms."""
        for _ in range(ms // TICK_MS):
            self.now_ms += TICK_MS
            self._tick()

    @property
    def is_settled(self) -> bool:
        """Every task runs somewhere, nobody restores, and no rebalance is under way."""
        waits = any(found.dies_ms is not None or any(found.lost_threads.values()) for found in self.instances.values())
        return not waits and self.rebalance_ms is None and all(self.runner(task) for task in self.tasks)

    def take_events(self) -> list[Event]:
        """What has happened since the last call, oldest first."""
        taken, self.events = self.events, []
        return taken

    def _tick(self) -> None:
        for task in self.tasks:
            self.arrived[task] += self.settings.records_per_s * TICK_MS // 1_000
        for found in self._up():
            for task in found.tasks("running"):
                room = self.settings.process_per_s * TICK_MS // 1_000
                self.processed[task] = min(self.arrived[task], self.processed[task] + room)
                if task in self.stateful:
                    found.positions[task] = self.processed[task]
        for found in self._up():
            self._read_changelogs(found)
        for task in self.tasks:
            self.idle_ms[task] += 0 if self.runner(task) else TICK_MS
        for found in self.instances.values():
            if found.dies_ms is not None and found.dies_ms <= self.now_ms:
                found.dies_ms, found.is_member = None, False
                self._evict(found.name)
            for thread, missed_ms in found.lost_threads.items():
                if missed_ms is not None and missed_ms <= self.now_ms:
                    found.lost_threads[thread] = None
                    self._evict(thread)
        if self.probing_ms is not None and self.probing_ms <= self.now_ms:
            self.probing_ms = None
            self._prepare("probing: has a warm-up caught up?")
        if self.rebalance_ms is not None and self.rebalance_ms <= self.now_ms:
            self._rebalance()

    def _read_changelogs(self, found: Instance) -> None:
        step = self.settings.restore_per_s * TICK_MS // 1_000
        for task, kind in list(found.held.items()):
            end, at = self.processed[task], found.positions.get(task, 0)
            if kind == "restoring":
                found.positions[task] = min(end, at + step)
                self.restored[task] += found.positions[task] - at
                if found.positions[task] == end:
                    self._run(found, task, restored=end - found.began[task])
            elif kind == "standby" and self.now_ms % self.settings.standby_poll_ms == 0:
                found.positions[task] = min(end, at + step * self.settings.standby_poll_ms // TICK_MS)

    def _run(self, found: Instance, task: StreamsTaskId, restored: int) -> None:
        found.held[task] = "running"
        self._tell(found.name, "running", task=task_name(task), restored=restored)

    def _evict(self, member: str) -> None:
        self._tell("group", "evict", member=member)
        self._prepare(f"{member} was removed")

    def _prepare(self, why: str) -> None:
        if self.rebalance_ms is None:
            self.rebalance_ms = self.now_ms + self.settings.join_ms
            self._tell("group", "prepare", why=why)

    def _rebalance(self) -> None:
        self.rebalance_ms = None
        members = self._up()
        if not members:
            return
        self.generation += 1
        clients = {found.name: ClientState(found.name, len(found.thread_names), self._lags(found)) for found in members}
        is_probing_needed = HighAvailabilityTaskAssignor(clients, self.settings.assignment).assign(self.tasks, self.stateful)
        self.probing_ms = self.now_ms + self.settings.assignment.probing_rebalance_interval_ms if is_probing_needed else None
        self._tell(
            "group", "assigned", generation=self.generation, probing_needed=is_probing_needed,
            active={name: [task_name(task) for task in sorted(client.active)] for name, client in clients.items()},
            standby={name: [task_name(task) for task in sorted(client.standby)] for name, client in clients.items()},
        )  # fmt: skip
        for found in members:
            client = clients[found.name]
            close(found, (found.active - client.active) | (found.tasks("standby") - client.standby))
        for found in members:
            self._take(found, clients[found.name])

    def _take(self, found: Instance, client: ClientState) -> None:
        found.is_member = True
        before: dict[str, list[StreamsTaskId]] = {}
        for task in sorted(found.thread_of, key=lambda task: (client.lags.get(task, 0), task)):
            before.setdefault(found.thread_of[task], []).append(task)
        load = dict.fromkeys(found.thread_names, 0)
        dealt = [
            assign_to_threads(client.active & self.stateful, before, load),
            assign_to_threads(client.standby, before, load),
            assign_to_threads(client.active - self.stateful, {}, load),
        ]
        found.thread_of = {task: thread for part in dealt for thread, tasks in part.items() for task in tasks}
        behind = {task: self.processed[task] - found.positions.get(task, 0) if task in self.stateful else 0 for task in self.tasks}
        for task in sorted(client.standby - found.held.keys()):
            found.held[task] = "standby"
            self._tell(found.name, "standby", task=task_name(task), behind=behind[task])
        for task in sorted(client.active - found.active):
            if behind[task]:
                found.held[task], found.began[task] = "restoring", found.positions.get(task, 0)
                self._tell(found.name, "restoring", task=task_name(task), behind=behind[task])
            else:
                self._run(found, task, restored=0)

    def _lags(self, found: Instance) -> dict[StreamsTaskId, int]:
        running = found.tasks("running")
        return {task: RUNNING_LAG if task in running else self.processed[task] - found.positions.get(task, 0) for task in self.stateful}

    def runner(self, task: StreamsTaskId) -> str | None:
        """The instance that processes a task now."""
        return next((found.name for found in self._up() if found.held.get(task) == "running"), None)

    def snapshot(self) -> dict[str, Any]:
        """What a picture shows: JSON values."""
        return {
            "generation": self.generation,
            "rebalancing": self.rebalance_ms is not None,
            "probing_at_ms": self.probing_ms,
            "instances": {name: self._shown(found) for name, found in self.instances.items()},
            "nobody": [task_name(task) for task in sorted(self.tasks) if not any(task in f.active for f in self._up())],
            "waiting": {task_name(task): self.arrived[task] - self.processed[task] for task in self.tasks},
        }

    def _shown(self, found: Instance) -> dict[str, Any]:
        threads: dict[str, list[list[Any]]] = {thread: [] for thread in found.thread_names}
        for task, kind in sorted(found.held.items()):
            behind = self.processed[task] - found.positions.get(task, 0) if task in self.stateful else 0
            threads[found.thread_of[task]].append([task_name(task), kind, behind])
        return {"up": found.is_up, "member": found.is_member, "threads": threads}

    def _up(self) -> list[Instance]:
        return [found for found in self.instances.values() if found.is_up]

    @property
    def running(self) -> list[str]:
        """The instances that are up."""
        return [found.name for found in self._up()]

    def _tell(self, who: str, what: str, **data: Any) -> None:
        self.events.append((who, what, data))


def close(found: Instance, tasks: set[StreamsTaskId]) -> None:
    """The instance holds these tasks no longer; their stores stay on its disk."""
    for task in tasks:
        found.held.pop(task, None)


Outcome = Literal["value", "null", "InvalidStateStoreException", "no answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query of one instance gives. `behind` counts the changes that the copy has not seen yet."""

    outcome: Outcome
    value: int | None = None  # how many records of this key the copy has counted
    behind: int = 0
    why: str = ""


def metadata_for_key(app: StreamsApp, store: str, key: str) -> tuple[StreamsTaskId, str | None]:
    """The key's task, and which instance runs it by the last assignment; None before the first one. TopologyError for an unknown store.

    A dead instance is named until the next assignment.

    Source: Kafka 4.3.1, KafkaStreams.queryMetadataForKey, StreamsMetadataState.getKeyQueryMetadataForKey.
    Differs: the answer is read from the instances and not from what the last rebalance spread; standbys are left out.
    """
    task = task_of_key(app, store, key)
    members = [found for found in app.instances.values() if found.is_member]
    active = next((found.name for found in members if task in found.active), None)
    if active is None:  # the last owner has died, and no rebalance has named another
        active = next((found.name for found in members if not found.is_up and found.thread_of.get(task)), None)
    return task, active


def task_of_key(app: StreamsApp, store: str, key: str) -> StreamsTaskId:
    """The task whose copy of the store has the key."""
    for sub in app.topology.sub_topologies():
        if store in sub.stores:
            width = sum(task[0] == sub.number for task in app.tasks)
            return sub.number, partition_of_key(key.encode(), width)
    raise TopologyError(f"there is no store {store:.60}. Name one of the topology's own.")


def query(app: StreamsApp, instance: str, store: str, key: str, *, stale: bool = False) -> Answer:
    """What this instance's own store says of the key; `stale` is enableStaleStores. TopologyError for an unknown store.

    It looks through all threads of the instance. If one of them is still restoring, the whole query fails, unless it
    accepts stale stores; then standbys and restoring copies answer, with what they have. An instance that does not hold
    the key but another partition of the store says nothing at all: the answer is null, as for a key that does not exist.

    Source: Kafka 4.3.1, QueryableStoreProvider.getStore, StreamThreadStateStoreProvider.stores,
    CompositeReadOnlyKeyValueStore.get. Differs: a store counts the records of each key.
    """
    task, found = task_of_key(app, store, key), app.instances.get(instance)
    if found is None or not found.is_up:
        return Answer("no answer", why=f"{instance} is not up")
    if not stale:
        for thread in found.thread_names:
            if (state := found.thread_state(thread)) != "RUNNING":
                return Answer("InvalidStateStoreException", why=f"stream thread {thread} is {state}, not RUNNING")
    readable = set(found.held) if stale else found.tasks("running")
    if task in readable:
        position = found.positions.get(task, 0)
        return Answer("value", count_of_key(key, position), app.processed[task] - position)
    if any(each[0] == task[0] for each in readable):
        return Answer("null", why=f"{instance} has other partitions of {store}, not the key's")
    return Answer("InvalidStateStoreException", why=f"the state store, {store}, may have migrated to another instance")


def count_of_key(key: str, position: int) -> int:
    """How many of its task's first `position` records have this key, when its keys take turns."""
    turn = sum(key.encode()) % TURNS
    return (position - turn + TURNS - 1) // TURNS if position > turn else 0


TURNS = 10  # keys of one partition, which take turns
