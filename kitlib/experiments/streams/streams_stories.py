"""Kafka Streams: how many tasks there are, an instance that dies, and queries meanwhile.

A run is of one application in virtual time: instances, threads, tasks, standbys, and queries.

No lane is judged. The words of such a trace: `kitlib.words.connect`.
`state["streams"]` is the application: instances with their threads and tasks, what nobody has, what waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Run
from kitlib.experiments.script import Intervention
from kitlib.monitor.figures import BAD_ANSWERS, BUSIEST, RESTORED, TASK_IDLE
from kitlib.more.streams.app import StreamsApp, StreamsSettings, count_of_key, metadata_for_key, query
from kitlib.more.streams.assignor import AssignmentSettings
from kitlib.more.streams.topology import StreamsTopology, task_name

MODEL_ONLY = "the kit has no jars of Kafka Streams"
STORE = "counts"


def orders_by_customer(width: int) -> StreamsTopology:
    """Orders go through a repartition topic of this width, and are counted by customer behind it."""
    made = StreamsTopology().source("orders", "orders").processor("by customer", "orders")
    made.repartition("orders-by-customer", "by customer", width)
    return made.processor("count", "orders-by-customer-source", stores=(STORE,)).sink("totals", "totals", "count")


@dataclass(slots=True)
class StreamsRun(Run):
    """One run of an application that counts orders by customer."""

    domain: ClassVar[str] = "streams"
    takes: ClassVar[tuple[str, ...]] = ("break INSTANCE at T ms for D ms",)

    app: StreamsApp = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        decides = AssignmentSettings(**settings.given("num_standby_replicas", "acceptable_recovery_lag"))
        speeds = settings.given("session_timeout_ms", "restore_per_s")
        topology = orders_by_customer(settings.repartition_partitions)
        self.app = StreamsApp(topology, {"orders": settings.partitions}, StreamsSettings(decides, **speeds))
        tasks, stateful = map(task_name, self.app.tasks), map(task_name, sorted(self.app.stateful))
        self.record("group", "topology", tasks=list(tasks), stateful=list(stateful))

    def start(self, name: str, *, disk: bool = True) -> None:
        """An instance starts; nothing for one that a script has started already."""
        self.app.start(name, self.settings.threads, disk=disk)
        self._tell()

    def kill(self, name: str) -> None:
        """An instance dies; nothing for one that a script has killed already."""
        self.app.kill(name)
        self._tell()

    def lose_thread(self, name: str, thread: int) -> None:
        """A thread of an instance dies."""
        self.app.lose_thread(name, thread)
        self._tell()

    def break_process(self, found: Intervention) -> None:
        if found.target not in self.app.running:
            raise self.no_process(found, "instance", self.app.running)
        self.kill(found.target)

    def mend_process(self, found: Intervention) -> None:
        self.start(found.target)

    def run_for(self, ms: int) -> None:
        for _ in range(ms // 100):
            self.meet()
            self.app.run_for(100)
            self._tell()

    def run_until_settled(self, most_ms: int) -> None:
        """Let time pass until every task runs, or `most_ms` are over."""
        end = self.app.now_ms + most_ms
        while self.app.now_ms < end and not self.app.is_settled:
            self.run_for(100)

    def count_from_here(self) -> None:
        """What was idle and restored so far does not count."""
        self.app.idle_ms = dict.fromkeys(self.app.tasks, 0)
        self.app.restored = dict.fromkeys(self.app.tasks, 0)

    def ask(self, key: str, instance: str | None = None, *, stale: bool = False) -> None:
        """Query the key's owner, as the metadata names it, or another instance."""
        task, owner = metadata_for_key(self.app, STORE, key)
        asked = instance or owner or "nobody"
        found = query(self.app, asked, STORE, key, stale=stale)
        truth = count_of_key(key, self.app.processed[task])
        self.record(
            asked, "ask", key=key, task=task_name(task), stale=stale, outcome=found.outcome, value=found.value,
            behind=found.behind, truth=truth, why=found.why,
        )  # fmt: skip

    def tell_idle(self) -> None:
        """Write down for how long nobody processed each task, what was restored, and which threads have nothing to do."""
        idle = {task_name(task): ms for task, ms in self.app.idle_ms.items()}
        counting = {task_name(task) for task in self.app.stateful}
        threads = [
            tasks for one in self.app.snapshot()["instances"].values() if one["up"] for tasks in one["threads"].values()
        ]
        self.record(
            "group", "idle", tasks=[list(each) for each in idle.items()], longest_ms=max(idle.values(), default=0),
            restored=sum(self.app.restored.values()), threads=len(threads), threads_idle=sum(not tasks for tasks in threads),
            threads_counting=sum(any(kind != "standby" and name in counting for name, kind, _ in tasks) for tasks in threads),
        )  # fmt: skip

    def _tell(self) -> None:
        for who, what, data in self.app.take_events():
            self.record(who, what, **data)

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the run began."""
        return self.app.now_ms

    def state(self) -> dict[str, Any]:
        """The instances with their tasks."""
        return {"streams": self.app.snapshot()}


_APP, _DECIDES = StreamsSettings(), AssignmentSettings()

Partitions = Annotated[int, Knob("How many partitions the input topic has.", "partitions", 1, 24)]
Repartition = Annotated[int, Knob("How many partitions the repartition topic has.", "partitions", 1, 24)]
Instances = Annotated[int, Knob("How many instances run.", "instances", 1, 4)]
Threads = Annotated[int, Knob("How many threads each instance has (num.stream.threads).", "threads", 1, 12)]
Standbys = Annotated[int, Knob("Standby replicas of each store (num.standby.replicas).", "replicas", 0, 2)]
SessionMs = Annotated[int, Knob("An instance without a heartbeat for this long is removed.", "ms", 1_000, 60_000)]
RunS = Annotated[int, Knob("How long the application has been running when the instance dies.", "s", 1, 900)]


class ApplicationKnobs:
    """The application's topics, threads and stores."""

    partitions: Partitions = 6
    repartition_partitions: Repartition = 4
    threads: Threads = 1
    num_standby_replicas: Standbys = _DECIDES.num_standby_replicas


@experiment(
    "As many tasks as partitions, and no more", StreamsRun, shared=(ApplicationKnobs,), model_only=MODEL_ONLY,
    figure=BUSIEST, front=("instances", "threads", "partitions", "repartition_partitions", "num_standby_replicas"),
)
def streams_tasks(run: StreamsRun, instances: Instances = 2, threads: Threads = 2) -> None:
    """Instances and threads are added. When do more of them help, and what does a narrow topic in the middle do?"""
    for number in range(instances):
        run.start(f"i{number + 1}")
        run.run_for(2_000)
    run.run_until_settled(60_000)
    run.tell_idle()


def _begin(run: StreamsRun) -> str:
    """The instances run for a while; the one that will die."""
    for number in range(run.settings.instances):
        run.start(f"i{number + 1}")
    run.run_for(run.settings.run_s * 1_000)
    run.count_from_here()
    return f"i{run.settings.instances}"


@experiment(
    "An instance dies with its stores", StreamsRun, shared=(ApplicationKnobs,), model_only=MODEL_ONLY,
    figure=RESTORED, front=("num_standby_replicas", "back_after_s", "restore_per_s", "session_timeout_ms", "instances"),
)
def streams_failover(
    run: StreamsRun,
    instances: Instances = 2,
    acceptable_recovery_lag: Annotated[
        int, Knob("A standby that is no further behind than this may take over its task at once.", "records", 0, 1_000_000, scale="log")
    ] = _DECIDES.acceptable_recovery_lag,
    run_s: RunS = 120,
    back_after_s: Annotated[int, Knob("When the instance is restarted; 0: never.", "s", 0, 300)] = 0,
    keeps_disk: Annotated[bool, Knob("Whether it then finds its stores on disk.")] = True,
    restore_per_s: Annotated[int, Knob("How fast a changelog is read.", "records/s", 100, 100_000, scale="log")] = _APP.restore_per_s,
    session_timeout_ms: SessionMs = _APP.session_timeout_ms,
) -> None:
    """An instance is killed. Who takes over its tasks, and how much of the changelog must be read before they resume?"""
    lost = _begin(run)
    run.kill(lost)
    back_ms = back_after_s * 1_000
    if back_ms:
        run.run_for(back_ms)
        run.start(lost, disk=keeps_disk)
    elif instances == 1:
        run.start("i2")
    run.run_for(session_timeout_ms + 2_000)
    run.run_until_settled(300_000)
    run.tell_idle()


@experiment(
    "A thread dies, its process lives", StreamsRun, shared=(ApplicationKnobs,), model_only=MODEL_ONLY,
    figure=TASK_IDLE, front=("instances", "threads", "session_timeout_ms", "partitions"),
)
def streams_thread_lost(
    run: StreamsRun,
    instances: Instances = 1,
    threads: Annotated[int, Knob("How many threads each instance has (num.stream.threads).", "threads", 2, 12)] = 2,
    run_s: RunS = 120,
    session_timeout_ms: SessionMs = _APP.session_timeout_ms,
) -> None:
    """One of two threads dies of an exception and is not replaced. Who takes over its tasks, when, and what must be restored?"""
    instance = _begin(run)
    run.lose_thread(instance, 2)
    run.run_for(session_timeout_ms + 2_000)
    run.run_until_settled(300_000)
    run.tell_idle()


@experiment(
    "Who holds the key, and what does it say?", StreamsRun, shared=(ApplicationKnobs,), model_only=MODEL_ONLY,
    figure=BAD_ANSWERS, front=("stale", "num_standby_replicas", "session_timeout_ms", "key", "instances"),
)
def streams_queries(
    run: StreamsRun,
    instances: Annotated[int, Knob("How many instances run.", "instances", 2, 4)] = 2,
    run_s: RunS = 120,
    key: Annotated[Literal["alice", "bob", "carol", "dave"], Knob("Which customer.")] = "alice",
    stale: Annotated[bool, Knob("Whether standbys and restoring copies may answer (enableStaleStores).")] = False,
    session_timeout_ms: SessionMs = _APP.session_timeout_ms,
) -> None:
    """One customer's count is queried while its instance dies. Which answers are right, stale, missing, or an error?"""
    other = "i1"
    lost = _begin(run)
    run.ask(key, stale=stale)
    run.ask(key, other, stale=stale)
    run.kill(lost)
    run.run_for(1_500)
    run.ask(key, stale=stale)
    run.ask(key, other, stale=stale)
    while run.app.generation < 2 and run.app.running:
        run.run_for(100)
    for _ in range(6):
        run.run_for(500)
        run.ask(key, stale=stale)
    run.run_until_settled(300_000)
    run.ask(key, stale=stale)
    run.tell_idle()
