"""Connect: layouts of workers, a worker that is lost, and a source task that crashes between two flushes.

A run takes place in virtual time, and is of a cluster, of one standalone worker, or of one source task.

No lane is judged, except a source task's, which is a producer's. The words of such a trace: `kitlib.words.connect`.
`state["connect"]` is the cluster: its workers with what they run, what runs nowhere, and until when it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Run
from kitlib.experiments.script import Intervention
from kitlib.experiments.world import NEVER, Action, World
from kitlib.monitor.figures import COPIES, MOVES, TASK_IDLE
from kitlib.more.connect.cluster import ConnectCluster, StandaloneWorker
from kitlib.more.connect.source_task import Produced, SourceSettings, SourceTask
from kitlib.more.connect.work import ConnectSettings, TaskId, configured_work

MODEL_ONLY = "the kit has no jars of Connect, and waiting for a lost worker takes minutes"


@dataclass(slots=True)
class ConnectRun(World):
    """One run of a cluster of workers, and the trace it writes; with mode=standalone the cluster is one worker without a group."""

    domain: ClassVar[str] = "connect"
    takes: ClassVar[tuple[str, ...]] = ("break WORKER at T ms for D ms",)

    cluster: ConnectCluster = field(init=False)
    idle_ms: dict[TaskId, int] = field(default_factory=dict)  # task -> for how long it ran nowhere
    moves: dict[TaskId, list[str]] = field(default_factory=dict)  # task -> the workers that ran it, one after the other

    def __post_init__(self) -> None:
        given = self.settings.given("scheduled_rebalance_max_delay_ms", "session_timeout_ms", "join_ms", "protocol")
        is_alone = self.settings.mode == "standalone"
        self.cluster = StandaloneWorker() if is_alone else ConnectCluster(ConnectSettings(**given))

    def configure(self, connectors: Mapping[str, int]) -> None:
        """These connectors, with their numbers of tasks."""
        self.cluster.configure(connectors)
        self._tell()

    def start(self, name: str) -> None:
        """A worker starts; nothing for one that a script has started already."""
        self.cluster.start(name)
        self._tell()

    def kill(self, name: str) -> None:
        """A worker dies without a word; nothing for one that a script has killed already."""
        self.cluster.kill(name)
        self._tell()

    def break_process(self, found: Intervention) -> None:
        if found.target not in self.cluster.running:
            raise self.no_process(found, "worker", self.cluster.running)
        self.kill(found.target)

    def mend_process(self, found: Intervention) -> None:
        self.start(found.target)

    def next_wake(self) -> tuple[int, Action]:
        due_ms = self.cluster.next_ms()
        return (NEVER, self._tell) if due_ms is None else (due_ms, partial(self.wait_until, due_ms))

    def wait_until(self, at_ms: int) -> None:
        self._count_idle(at_ms)
        self.cluster.run_until(at_ms)
        self._tell()

    def count_from_here(self) -> None:
        """What was idle and what moved so far does not count."""
        self.idle_ms, self.moves = {}, {}
        self._note_owners()

    def tell_idle(self) -> None:
        """Write down for how long each task ran nowhere, and how many moved to another worker."""
        moved = [task for task, owners in self.moves.items() if len(set(owners)) > 1]
        idle = {f"{name}-{number}": self.idle_ms.get((name, number), 0) for name, number in sorted(self._tasks())}
        self.record(
            "group", "idle", tasks=[list(each) for each in idle.items()], longest_ms=max(idle.values(), default=0),
            shuffled=sum(len(owners) - 1 for owners in self.moves.values()), moved=[f"{name}-{number}" for name, number in sorted(moved)],
        )  # fmt: skip

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the run began."""
        return self.cluster.now_ms

    def _tasks(self) -> list[TaskId]:
        return configured_work(self.cluster.published).tasks

    def _count_idle(self, until_ms: int) -> None:
        for task in self._tasks():
            if not self.cluster.owner(task):
                self.idle_ms[task] = self.idle_ms.get(task, 0) + until_ms - self.now_ms

    def _note_owners(self) -> None:
        for task in self._tasks():
            for owner in self.cluster.owner(task):
                known = self.moves.setdefault(task, [])
                if not known or known[-1] != owner:
                    known.append(owner)

    def _tell(self) -> None:
        self._note_owners()
        for who, what, data in self.cluster.take_events():
            self.record(who, what, **data)

    def state(self) -> dict[str, Any]:
        """The workers, and what each of them runs."""
        return {"connect": self.cluster.snapshot()}


@dataclass(slots=True)
class SourceRun(Run):
    """One run of one source task that reads a table and produces into one partition."""

    domain: ClassVar[str] = "source"

    now_ms: int = 0
    end_offset: int = 0
    task: SourceTask = field(init=False)
    topic: str = "orders"

    def __post_init__(self) -> None:
        settings = self.settings
        self.task = SourceTask(
            SourceSettings(settings.offset_flush_interval_ms, settings.exactly_once, settings.transaction_boundary)
        )

    def begin(self) -> None:
        """The task starts, where its stored source offset says."""
        position = self.task.start(self.now_ms)
        if self.trace.steps:  # a lane begins with its first send
            self._record("begins", position=position)

    def poll_until(self, end_ms: int) -> None:
        """Read and produce once a second, and look at the flush timer."""
        while self.now_ms < end_ms:
            ms = min(1_000, end_ms - self.now_ms)
            self.now_ms += ms
            first = self.task.position
            done = self.task.poll(self.settings.records_per_s * ms // 1_000, self.now_ms)
            if self.task.position > first:
                self._record("send", first=first, last=self.task.position - 1)
            self._written(done)
            self._written(self.task.maybe_flush(self.now_ms))

    def crash(self) -> None:
        """The worker dies; a transaction that is open is aborted."""
        position = self.task.position
        aborted = self.task.crash()
        self._record("crash", position=position, stored=self.task.stored)
        if aborted is not None:
            self._record("aborted", first=aborted[0], last=aborted[1])

    def stop(self) -> None:
        """The task is stopped in order."""
        self._written(self.task.stop(self.now_ms))

    def _written(self, done: Produced) -> None:
        if done.visible is not None:
            first, last = done.visible
            offset, self.end_offset = self.end_offset, self.end_offset + last - first + 1
            self._record("write", first=first, last=last, offset=offset)
        if done.flushed is not None:
            self._record("flush", offset=done.flushed)

    def _record(self, what: str, /, **data: Any) -> None:
        self.record("task", what, topic=self.topic, partition=0, **data)

    def state(self) -> dict[str, Any]:
        """How far the task has come, and its lane."""
        task = self.task
        source = {"position": task.position, "stored": task.stored, "at_risk": task.at_risk, "open_from": task.open_from}
        return {"source": source, "log_start": 0, "log_end": self.end_offset, "processed": []}


_CLUSTER, _SOURCE = ConnectSettings(), SourceSettings()

Workers = Annotated[int, Knob("How many workers the cluster has.", "workers", 1, 6)]
SourceTasks = Annotated[int, Knob("How many tasks the source connector asks for.", "tasks", 0, 12)]
SinkTasks = Annotated[int, Knob("How many tasks the sink connector asks for.", "tasks", 0, 12)]
Protocol = Annotated[
    Literal["sessioned", "compatible", "eager"], Knob("connect.protocol: eager stops every worker at each rebalance.")
]
JoinMs = Annotated[int, Knob("How long a rebalance takes.", "ms", 0, 10_000)]
DelayMs = Annotated[int, Knob("How long a lost worker's tasks stay unassigned, in case it comes back.", "ms", 0, 600_000)]
SessionMs = Annotated[int, Knob("A worker without a heartbeat for this long is removed.", "ms", 1_000, 60_000)]


@experiment(
    "Workers, connectors and tasks", ConnectRun, model_only=MODEL_ONLY,
    figure=MOVES, front=("workers", "source_tasks", "sink_tasks", "mode", "join_ms"),
)
def connect_layouts(
    run: ConnectRun,
    workers: Workers = 3,
    source_tasks: SourceTasks = 2,
    sink_tasks: SinkTasks = 2,
    mode: Annotated[Literal["distributed", "standalone"], Knob("One process for everything, or a group of workers.")] = "distributed",
    protocol: Protocol = _CLUSTER.protocol,
    join_ms: JoinMs = _CLUSTER.join_ms,
) -> None:
    """Workers join one after another. Who runs what, and what moves each time?"""
    run.configure({"source": source_tasks, "sink": sink_tasks})
    for number in range(1 if mode == "standalone" else workers):
        run.start(f"w{number + 1}")
        run.run_for(10_000)
    run.tell_idle()


@experiment(
    "A worker dies, and no one runs its tasks", ConnectRun, model_only=MODEL_ONLY,
    figure=TASK_IDLE, front=("back_after_ms", "scheduled_rebalance_max_delay_ms", "lost", "workers", "protocol"),
)
def connect_worker_lost(
    run: ConnectRun,
    workers: Workers = 3,
    source_tasks: SourceTasks = 3,
    sink_tasks: SinkTasks = 3,
    back_after_ms: Annotated[int, Knob("When the worker is restarted; 0: never.", "ms", 0, 600_000)] = 0,
    lost: Annotated[Literal["a member", "the leader"], Knob("Who dies: a follower or the leader.")] = "a member",
    scheduled_rebalance_max_delay_ms: DelayMs = _CLUSTER.scheduled_rebalance_max_delay_ms,
    session_timeout_ms: SessionMs = _CLUSTER.session_timeout_ms,
    protocol: Protocol = _CLUSTER.protocol,
    join_ms: JoinMs = _CLUSTER.join_ms,
) -> None:
    """One of three workers is killed. How long do its tasks run nowhere, and what moves when it comes back?"""
    run.configure({"source": source_tasks, "sink": sink_tasks})
    for number in range(workers):
        run.start(f"w{number + 1}")
    run.run_for(20_000)
    run.count_from_here()
    name = f"w{workers}" if lost == "a member" else "w1"
    run.kill(name)
    if back_after_ms:
        run.run_for(back_after_ms)
        run.start(name)
    run.run_for(2 * scheduled_rebalance_max_delay_ms + 60_000)
    run.tell_idle()


@experiment(
    "The source remembers, but not everything", SourceRun, model_only=MODEL_ONLY,
    figure=COPIES, front=("exactly_once", "offset_flush_interval_ms", "crash_at_ms", "ending", "restart_ms"),
)
def connect_source_crash(
    run: SourceRun,
    records_per_s: Annotated[int, Knob("Records that the task produces per second.", "records/s", 1, 1_000)] = 100,
    offset_flush_interval_ms: Annotated[
        int, Knob("How often the source offset is stored.", "ms", 1_000, 600_000, scale="log")
    ] = _SOURCE.offset_flush_interval_ms,
    crash_at_ms: Annotated[int, Knob("When the worker stops.", "ms", 1_000, 200_000)] = 59_000,
    ending: Annotated[Literal["crash", "stop"], Knob("How it stops: it dies, or it shuts down cleanly.")] = "crash",
    exactly_once: Annotated[bool, Knob("exactly.once.source.support: records and offset in one transaction.")] = _SOURCE.exactly_once,
    transaction_boundary: Annotated[
        Literal["poll", "interval"], Knob("One transaction per poll, or per flush interval.")
    ] = _SOURCE.transaction_boundary,
    restart_ms: Annotated[int, Knob("How long until the task is running again.", "ms", 0, 60_000)] = 2_000,
) -> None:
    """A source task writes 100 records a second and its offset once a minute. It crashes a second before the next
    offset is due. How many records arrive twice?
    """
    run.begin()
    run.poll_until(crash_at_ms)
    if ending == "crash":
        run.crash()
    else:
        run.stop()
    run.now_ms += restart_ms
    run.begin()
    run.poll_until(run.now_ms + crash_at_ms + 10_000)  # past all that it had produced before
    run.stop()
