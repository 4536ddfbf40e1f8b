"""A run of a Kafka Streams application in virtual time: instances, threads, tasks, standbys, and queries.

The words of such a trace; no lane is judged:

    group       topology {tasks, stateful}   prepare {why}   evict {member}
                assigned {generation, active, standby, probing_needed}   idle {tasks, longest_ms, restored, threads, threads_idle,
                threads_counting}
    <instance>  start {threads, on_disk}   kill {tasks}   restoring {task, behind}   running {task, restored}
                standby {task, behind}
    <instance>  ask {key, task, stale, outcome, value, behind, truth, why}     its own store is queried

`state["streams"]` is the application: instances with their threads and tasks, what nobody has, what waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from kitlib.experiments.run import Run
from kitlib.kafka.streams.app import StreamsApp, StreamsSettings, count_of_key, metadata_for_key, query
from kitlib.kafka.streams.assignor import AssignmentSettings
from kitlib.kafka.streams.topology import StreamsTopology, task_name

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

    app: StreamsApp = field(init=False)

    def __post_init__(self) -> None:
        knobs = self.knobs
        decides = AssignmentSettings(
            **{name: knobs[name] for name in ("num_standby_replicas", "acceptable_recovery_lag") if name in knobs}
        )
        speeds = {name: knobs[name] for name in ("session_timeout_ms", "restore_per_s") if name in knobs}
        topology = orders_by_customer(knobs["repartition_partitions"])
        self.app = StreamsApp(topology, {"orders": knobs["partitions"]}, StreamsSettings(decides, **speeds))
        self.record(
            "group",
            "topology",
            tasks=[task_name(task) for task in self.app.tasks],
            stateful=[task_name(task) for task in sorted(self.app.stateful)],
        )

    # -- what a story calls --------------------------------------------------------------------------

    def start(self, name: str, *, disk: bool = True) -> None:
        """An instance starts."""
        self.app.start(name, self.knobs["threads"], disk=disk)
        self._tell()

    def kill(self, name: str) -> None:
        """An instance dies."""
        self.app.kill(name)
        self._tell()

    def run_for(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms // 100):
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
        where = metadata_for_key(self.app, STORE, key)
        asked = instance or where.active or "nobody"
        found = query(self.app, asked, STORE, key, stale=stale)
        truth = count_of_key(self.app, where.task, key, self.app.processed[where.task])
        self.record(
            asked, "ask", key=key, task=task_name(where.task), stale=stale, outcome=found.outcome, value=found.value,
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
            "group",
            "idle",
            tasks=[list(each) for each in idle.items()],
            longest_ms=max(idle.values(), default=0),
            restored=sum(self.app.restored.values()),
            threads=len(threads),
            threads_idle=sum(not tasks for tasks in threads),
            threads_counting=sum(
                any(kind != "standby" and name in counting for name, kind, _ in tasks) for tasks in threads
            ),
        )

    def _tell(self) -> None:
        for event in self.app.take_events():
            self.record(event.who, event.what, **event.data)

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the run began."""
        return self.app.now_ms

    def snapshot(self) -> dict[str, Any]:
        """The instances with their tasks."""
        return {"streams": self.app.snapshot()}
