"""A run of Kafka Connect in virtual time: a cluster, or one standalone worker, or one source task.

The words of such a trace; no lane is judged, except a source task's, which is a producer's:

    group     configure {connectors}   prepare {why}   sync {generation, leader, members}   evict {member, why}
              delay {delay_ms, until_ms}   idle {tasks: [[name, ms] ...], longest_ms, shuffled}
    <worker>  start {}   kill {connectors, tasks}   leave {connectors, tasks}   assigned {connectors, tasks}
              revoked {connectors, tasks}
    task      send {topic, partition, first, last}   write {topic, partition, first, last, offset}
              flush {topic, partition, offset}   aborted {topic, partition, first, last}
              begins {topic, partition, position}   crash {topic, partition, position, stored}

`state["connect"]` is the cluster: its workers with what they run, what runs nowhere, and until when it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.errors import KnobError
from kitlib.experiments.run import Run
from kitlib.kafka.connect.cluster import ConnectCluster
from kitlib.kafka.connect.settings import ConnectSettings
from kitlib.kafka.connect.source_task import Produced, SourceSettings, SourceTask
from kitlib.kafka.connect.standalone import StandaloneWorker
from kitlib.kafka.connect.work import TaskId, configured_work

MODEL_ONLY = "the kit has no jars of Connect, and a lost worker is waited for in minutes"


@dataclass(slots=True)
class ConnectRun(Run):
    """One run of a cluster of workers, or of one standalone worker, and the trace it writes."""

    domain: ClassVar[str] = "connect"

    cluster: Any = field(init=False)  # a ConnectCluster, or one whose group is real
    is_real: bool = field(init=False)
    alone: StandaloneWorker | None = None
    alone_ms: int = 0
    idle_ms: dict[TaskId, int] = field(default_factory=dict)  # task -> for how long it ran nowhere
    moves: dict[TaskId, list[str]] = field(default_factory=dict)  # task -> the workers that ran it, one after the other
    looked_ms: int = 0

    def __post_init__(self) -> None:
        knobs = self.knobs
        names = ("scheduled_rebalance_max_delay_ms", "session_timeout_ms", "join_ms", "protocol")
        settings = ConnectSettings(**{name: knobs[name] for name in names if name in knobs})
        self.is_real = self.stage.backend == "kafka"
        if self.is_real:
            if knobs.get("mode") == "standalone":
                raise KnobError(
                    'mode=standalone has no group, so there is nothing to run on real brokers. Run it with backend="model".'
                )
            from kitlib.experiments.connect.kafka_connect import KafkaConnectCluster

            self.cluster = KafkaConnectCluster.open(self.stage, self.trace.run, settings)
        else:
            self.cluster = ConnectCluster(settings)
        if knobs.get("mode") == "standalone":
            self.alone = StandaloneWorker()

    # -- what a story calls --------------------------------------------------------------------------

    def configure(self, connectors: Mapping[str, int]) -> None:
        """These connectors, with their numbers of tasks."""
        if self.alone is not None:
            self.alone.configure(connectors)
            self._record(self.alone.name, "configure", connectors=dict(connectors))
            return
        self.cluster.configure(connectors)
        self._tell()

    def start(self, name: str) -> None:
        """A worker starts; a standalone one is alone."""
        if self.alone is not None:
            self.alone.start()
            told = self.alone.shown()["workers"][self.alone.name]
            self._record(self.alone.name, "start")
            self._record(self.alone.name, "assigned", connectors=told["connectors"], tasks=told["tasks"])
            return
        self.cluster.start(name)
        self._tell()

    def kill(self, name: str) -> None:
        """A worker dies without a word."""
        if self.alone is not None:
            told = self.alone.shown()["workers"][self.alone.name]
            self.alone.kill()
            self._record(self.alone.name, "kill", connectors=told["connectors"], tasks=told["tasks"])
            return
        self.cluster.kill(name)
        self._tell()

    def run_for(self, ms: int) -> None:
        """Let time pass; on a real broker only until nothing is due."""
        if self.alone is not None:
            self._count_idle(self.alone_ms + ms)
            self.alone_ms += ms
            return
        end = self.cluster.now_ms + ms
        while (due := self.cluster.next_ms()) is not None and due <= end:
            self._count_idle(due)
            self.cluster.run_until(due)
            self._tell()
        if not self.is_real:
            self._count_idle(end)
            self.cluster.run_until(end)

    def close(self) -> None:
        """Let go of a real group."""
        if self.is_real:
            self.cluster.close()

    def count_from_here(self) -> None:
        """What was idle and what moved so far does not count."""
        self.idle_ms, self.moves = {}, {}
        self._note_owners()

    def tell_idle(self) -> None:
        """Write down for how long each task ran nowhere, and how many moved to another worker."""
        moved = [task for task, owners in self.moves.items() if len(set(owners)) > 1]
        idle = {f"{name}-{number}": self.idle_ms.get((name, number), 0) for name, number in sorted(self._tasks())}
        self._record(
            "group",
            "idle",
            tasks=[list(each) for each in idle.items()],
            longest_ms=max(idle.values(), default=0),
            shuffled=sum(len(owners) - 1 for owners in self.moves.values()),
            moved=[f"{name}-{number}" for name, number in sorted(moved)],
        )

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the run began."""
        return self.alone_ms if self.alone is not None else self.cluster.now_ms

    # -- what is counted -----------------------------------------------------------------------------

    def _tasks(self) -> list[TaskId]:
        found = self.alone.connectors if self.alone is not None else self.cluster.published
        return list(configured_work(found).tasks)

    def _count_idle(self, until_ms: int) -> None:
        for task in self._tasks():
            runs = self.alone.is_up if self.alone is not None else bool(self.cluster.owner(task))
            if not runs:
                self.idle_ms[task] = self.idle_ms.get(task, 0) + until_ms - self.looked_ms
        self.looked_ms = until_ms

    def _note_owners(self) -> None:
        for task in self._tasks() if self.alone is None else ():
            for owner in self.cluster.owner(task):
                known = self.moves.setdefault(task, [])
                if not known or known[-1] != owner:
                    known.append(owner)

    def _tell(self) -> None:
        self._note_owners()
        for event in self.cluster.take_events():
            data = {name: value for name, value in event.data.items() if name != "member_id"}
            self._record(event.who, event.what, **data)

    def _record(self, actor: str, what: str, /, **data: Any) -> None:
        shown = self.alone.shown() if self.alone is not None else self.cluster.shown()
        self.write(self.now_ms, actor, what, data, {"connect": shown})


@dataclass(slots=True)
class SourceRun(Run):
    """One run of one source task that reads a table and produces into one partition."""

    domain: ClassVar[str] = "source"

    now_ms: int = 0
    end_offset: int = 0
    task: SourceTask = field(init=False)
    topic: str = "orders"

    def __post_init__(self) -> None:
        knobs = self.knobs
        self.task = SourceTask(
            SourceSettings(knobs["offset_flush_interval_ms"], knobs["exactly_once"], knobs["transaction_boundary"])
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
            done = self.task.poll(self.knobs["records_per_s"] * ms // 1_000, self.now_ms)
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
        task = self.task
        state = {
            "source": {
                "position": task.position,
                "stored": task.stored,
                "at_risk": task.at_risk,
                "open_from": task.open_from,
            },
            "log_start": 0,
            "log_end": self.end_offset,
            "processed": [],
        }
        self.write(self.now_ms, "task", what, {"topic": self.topic, "partition": 0, **data}, state)
