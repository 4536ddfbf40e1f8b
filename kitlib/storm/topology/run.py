"""A topology runs: tasks, messages between them, and one clock for all.

Time is virtual: a heap of what is due next. A message takes `transfer_ms` from task to task; a bolt's
task works on one tuple after the other, `execute_ms` each; a spout's task asks its spout for more
whenever its pending map has room. Acker messages travel like tuples and can be lost like them. What
happens is told to an observer, step by step, in the words listed in `kitlib.monitor.delivery`.

    run = TopologyRun(topology, TopologyConfig(topology_ackers=2), rng=random.Random(1), observer=print)
    run.run_for(60_000)

Left out: workers and machines (each task stands alone, and crashes alone), serialisation, back pressure
between bolts, metrics. A component's own loop without an end is not caught here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from kitlib.errors import KitError
from kitlib.storm.acker import ACKER_COMPONENT_ID
from kitlib.storm.topology.acker_task import AckerTask
from kitlib.storm.topology.bolt_task import BoltTask
from kitlib.storm.topology.builder import Component, Topology, TopologyConfig
from kitlib.storm.topology.components import TopologyContext, TopologyError, task_name
from kitlib.storm.topology.faults import Fault, FaultPlan
from kitlib.storm.topology.groupings import Chooser, chooser_of
from kitlib.storm.topology.hashing import list_hash_code
from kitlib.storm.topology.ids import Chance, Rng, generate_id
from kitlib.storm.topology.spout_task import SpoutTask
from kitlib.storm.topology.task import Task

MAX_EVENTS_AT_ONCE = 1_000_000  # at one and the same millisecond: more is a loop without an end


class Observer(Protocol):
    """Who is told what happens: the task, the word, and its data."""

    def __call__(self, actor: str, what: str, data: dict[str, Any], /) -> None: ...


def _nobody(_actor: str, _what: str, _data: dict[str, Any]) -> None:
    """The observer of a run that nobody watches."""


class TopologyRun:
    """One run of a topology. `config` may be changed while it runs; what it says counts from then on.

    Source: Storm 0.9.3, `backtype.storm.daemon.executor` (`mk-threads`), `daemon.task`, `daemon.common`.
    Differs: each executor has one task; a crash takes one task and not its worker; time is virtual.
    """

    def __init__(
        self,
        topology: Topology,
        config: TopologyConfig | None = None,
        *,
        rng: Rng,
        chance: Chance | None = None,
        faults: Sequence[Fault] = (),
        observer: Observer = _nobody,
    ) -> None:
        """Make every task and open it, at 0 ms. TopologyError for a bad setting or a fault that cannot act."""
        self.topology, self.config = topology, config or TopologyConfig()
        self.config.check()
        self.rng, self.chance, self.observer = rng, chance, observer
        for fault in faults:
            fault.check(topology)
        self.plan = FaultPlan(faults, chance)
        self.now_ms = 0
        self.due: list[tuple[int, int, Callable[[], None]]] = []  # heap: (at ms, order, what to do)
        self.order = 0
        self.tuples_made = 0
        self.open_tuples: dict[int, int] = {}  # root -> tuples of its tree whose ack no acker has had
        self.open_at_end: dict[int, int] = {}  # root -> the same, when an acker called the tree finished
        self.spouts: dict[int, SpoutTask] = {}
        self.bolts: dict[int, BoltTask] = {}
        self.ackers: dict[int, AckerTask] = {}
        self.tasks_of: dict[str, list[int]] = {}
        self._number_tasks()
        self._open_tasks()
        for fault in faults:
            if fault.kind == "crash":
                self.after((fault.at_ms or 0) - self.now_ms, partial(self.crash, fault.component, fault.task_index))

    # -- what a caller does --------------------------------------------------------------------------

    def run_for(self, ms: int, until: Callable[[], bool] | None = None) -> None:
        """Let `ms` of virtual time pass, or less when `until` comes true.

        TopologyError when time does not move for MAX_EVENTS_AT_ONCE events, and, with errors="raise", when a
        component raises.
        """
        end, at_once = self.now_ms + ms, 0
        while not (until and until()):
            if not self.due or self.due[0][0] > end:
                self.now_ms = end
                return
            at_ms, _, do = heapq.heappop(self.due)
            at_once = at_once + 1 if at_ms == self.now_ms else 0
            if at_once > MAX_EVENTS_AT_ONCE:
                raise TopologyError(
                    f"at {self.now_ms} ms {MAX_EVENTS_AT_ONCE:,} things happened without time moving. "
                    "Does a bolt with execute_ms=0 send to itself?"
                )
            self.now_ms = max(self.now_ms, at_ms)
            do()

    def crash(self, component: str, task_index: int = 0) -> None:
        """One task dies with everything it holds; after `restart_ms` a new one is there."""
        tasks = self.tasks_of.get(component)
        if not tasks or not 0 <= task_index < len(tasks):
            raise TopologyError(
                f"crash: there is no task {task_index} of {component!r}. There are {len(tasks or ())}, from 0 on, and "
                f"the components are {', '.join(self.tasks_of)}."
            )
        task = self.task(tasks[task_index])
        if task.is_alive:
            task.crash()
            self.after(self.config.restart_ms, task.restart)

    def close(self) -> None:
        """The topology ends: every living spout is closed, every living bolt cleaned up."""
        for spout in self.spouts.values():
            if spout.is_alive:
                spout.spout.close()
        for bolt in self.bolts.values():
            if bolt.is_alive:
                bolt.bolt.cleanup()

    @property
    def pending(self) -> int:
        """Trees that the spouts wait for."""
        return sum(len(spout.pending) for spout in self.spouts.values())

    @property
    def queued(self) -> int:
        """Tuples that wait at bolts, the ones being worked on included."""
        return sum(len(bolt.inbox) + bolt.is_busy for bolt in self.bolts.values())

    # -- what its tasks do ---------------------------------------------------------------------------

    def tell(self, actor: str, what: str, **data: Any) -> None:
        """Pass on to the observer what happened."""
        self.observer(actor, what, data)

    def after(self, ms: int, do: Callable[[], None]) -> None:
        """Have something done `ms` from now."""
        self.order += 1
        heapq.heappush(self.due, (self.now_ms + ms, self.order, do))

    def send(self, component: str, number: int | None, deliver: Callable[[], None]) -> None:
        """Put a message on its way to a task of `component`; `number` is its tuple's, None for acker messages."""
        late = self.config.transfer_jitter_ms
        more = int(self.chance("transfer", self.order) * (late + 1)) if late and self.chance else 0
        if self.plan.on_the_way(component):
            self.tell(component, "fault", kind="lose", tuple=number)
        else:
            self.after(self.config.transfer_ms + more, deliver)

    def new_id(self) -> int:
        """An id for a tuple."""
        return generate_id(self.rng, self.config.id_bits)

    def new_root(self) -> int:
        """An id for a tree."""
        return generate_id(self.rng, self.config.root_id_bits)

    def next_number(self) -> int:
        """A number for a tuple, unique in the run."""
        self.tuples_made += 1
        return self.tuples_made

    def note_end(self, root: int) -> None:
        """An acker calls this tree finished: keep how many of its tuples are open, of which it knows nothing."""
        if root in self.open_tuples:
            self.open_at_end[root] = self.open_tuples[root]

    def forget(self, root: int) -> int:
        """A spout ends this tree; how many of its tuples were open when an acker called it finished."""
        self.open_tuples.pop(root, None)
        return self.open_at_end.pop(root, 0)

    def acker_for(self, root: int) -> AckerTask:
        """The acker that follows this tree: the root's hash modulo the number of ackers."""
        tasks = self.tasks_of[ACKER_COMPONENT_ID]
        return self.ackers[tasks[list_hash_code([root]) % len(tasks)]]

    @property
    def has_ackers(self) -> bool:
        """Whether trees are followed at all."""
        return bool(self.ackers)

    def choosers(self, component: Component) -> dict[str, list[Chooser]]:
        """For each stream of a sending task: one chooser of tasks for each bolt that subscribes to it."""
        return {
            stream: [
                chooser_of(grouping, fields, self.tasks_of[bolt.name], self.rng)
                for bolt, grouping in self.topology.subscribers(component.name, stream)
            ]
            for stream, fields in component.streams.fields.items()
        }

    def name_of(self, task_id: int) -> str:
        """A task's name in traces."""
        return self.task(task_id).name

    def task(self, task_id: int) -> SpoutTask | BoltTask | AckerTask:
        """The task with this id."""
        return self.spouts.get(task_id) or self.bolts.get(task_id) or self.ackers[task_id]

    def failure(self, task: str, doing: str, error: Exception) -> None:
        """What an exception of a component leads to: TopologyError, or nothing when its task is to crash."""
        if isinstance(error, KitError):
            raise error
        if self.config.errors == "raise":
            raise TopologyError(
                f"{task} raised {type(error).__name__} in {doing}: {str(error)[:200]}. In Storm its worker would die and "
                "come back; with errors='crash' it does so here. Mend the component, or fail the tuple."
            ) from error

    def _number_tasks(self) -> None:
        task_id = 0
        for name, count in [
            *((component.name, component.parallelism) for component in self.topology.components.values()),
            (ACKER_COMPONENT_ID, self.config.topology_ackers),
        ]:
            if count:
                self.tasks_of[name] = list(range(task_id + 1, task_id + 1 + count))
            task_id += count

    def _open_tasks(self) -> None:
        for task_id in self.tasks_of.get(ACKER_COMPONENT_ID, ()):
            self.ackers[task_id] = AckerTask(self, task_name(ACKER_COMPONENT_ID, task_id), task_id)
        for component in self.topology.components.values():
            for index, task_id in enumerate(self.tasks_of[component.name]):
                context = TopologyContext(component.name, task_id, index, self)
                if component.is_spout:
                    self.spouts[task_id] = SpoutTask(self, component, context)
                else:
                    self.bolts[task_id] = BoltTask(self, component, context)
        tasks: list[Task] = [*self.ackers.values(), *self.bolts.values(), *self.spouts.values()]
        for task in tasks:  # a spout may send when it is opened, so the others come first
            task.start()

    def __repr__(self) -> str:
        return f"<TopologyRun at {self.now_ms} ms: {self.pending} trees pending, {self.queued} tuples queued>"
