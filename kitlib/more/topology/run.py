"""A topology runs: tasks, messages between them, and one clock for all.

Time is virtual: what is due waits in a queue for each millisecond. A message takes `transfer_ms` from
task to task; a bolt's task processes one tuple after another, `execute_ms` each; a spout's task asks
its spout for more whenever its pending map has room. Acker messages travel like tuples and can be lost
like them. What happens is reported to an observer, step by step, in the words listed in
`kitlib.monitor.delivery` and `kitlib.monitor.trees`.

    run = TopologyRun(topology, TopologyConfig(topology_ackers=2), rng=random.Random(1), observer=print)
    run.run_for(60_000)

Left out: workers and machines (each task stands alone, and crashes alone), serialisation, back pressure
between bolts, metrics. A component's own endless loop is caught only when it sends.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from kitlib.errors import KitError
from kitlib.java.hash_codes import list_hash_code
from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.more.topology.builder import Component, Topology, TopologyConfig
from kitlib.more.topology.components import TopologyContext, TopologyError, task_name
from kitlib.more.topology.faults import Fault, FaultPlan
from kitlib.more.topology.groupings import Chooser, chooser_of
from kitlib.more.topology.ids import Chance, Rng, generate_id
from kitlib.more.topology.tasks import AckerTask, BoltTask, ComponentTask, Made, SpoutTask, Task

MAX_EVENTS_AT_ONCE = 1_000_000  # at one and the same millisecond: more is a loop without an end


class Observer(Protocol):
    """Who is told what happens: the task, the word, and its data."""

    def __call__(self, actor: str, what: str, data: dict[str, Any], /) -> None: ...


def _nobody(_actor: str, _what: str, _data: dict[str, Any]) -> None:
    """The observer of a run that nobody watches."""


# ("tuple" or "ack of tuple", the tuple's number) -> what is done to that one, with its ms; None for nothing.
DoneTo = Callable[[str, int], tuple[str, int] | None]


def _nothing(_thing: str, _number: int) -> None:
    """What is done to the tuples of a run that no one interferes with."""


class TopologyRun:
    """One run of a topology. `config` may be changed while it runs; what it says counts from then on.

    The number of ackers is what it was at the start, and a release's acker comes with the acker's next life.
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
        done_to: DoneTo = _nothing,
    ) -> None:
        """Make every task and open it, at 0 ms. `done_to` may lose, delay, double or fail single tuples.

        TopologyError for a bad setting or a fault that cannot act.
        """
        self.topology, self.config = topology, TopologyConfig() if config is None else config
        self.rng, self.chance, self.observer, self.done_to = rng, chance, observer, done_to
        for name, got, is_right, expected in (
            ("topology", topology, isinstance(topology, Topology), "what create_topology() of a TopologyBuilder gives"),
            ("rng", rng, hasattr(rng, "getrandbits"), "a generator such as random.Random(1)"),
            ("chance", chance, chance is None or callable(chance), "a function of what and count, or None"),
            ("observer", observer, callable(observer), "a function of the actor, the word and its data"),
        ):
            if not is_right:
                raise TopologyError(f"TopologyRun: {name} is {got!r:.60}, expected {expected}.")
        self._check_config()
        self._check_faults(faults)
        self.plan = FaultPlan(faults, chance)
        self.raised_by_observer: BaseException | None = None
        self.is_closed = False
        self.now_ms = 0
        self.due: dict[int, deque[Callable[[], None]]] = {}  # at ms -> what to do then, in order
        self.times: list[int] = []  # heap: the keys of `due`
        self.messages_sent = 0
        self.tuples_made = 0
        self.open_tuples: dict[int, int] = {}  # root -> tuples of its tree whose ack no acker has had
        self.open_at_end: dict[int, int] = {}  # root -> the same, when an acker called the tree finished
        self.spouts: dict[int, SpoutTask] = {}
        self.bolts: dict[int, BoltTask] = {}
        self.ackers: dict[int, AckerTask] = {}
        self.tasks_of: dict[str, list[int]] = {}
        self.claimed: dict[int, tuple[ComponentTask, object]] = {}  # id() of a spout or bolt -> whose it is
        self._number_tasks()
        self._open_tasks()
        self._plan_crashes(faults)

    def run_for(self, ms: int, until: Callable[[], bool] | None = None) -> None:
        """Let `ms` of virtual time pass, or less when `until` comes true.

        TopologyError for a bad setting; when time does not move for MAX_EVENTS_AT_ONCE events; and, with
        errors="raise", when a component raises.
        """
        if type(ms) is not int or ms < 0:
            raise TopologyError(f"run_for: ms is {ms!r:.40}, expected a whole number of ms from 0 on.")
        if self.is_closed:
            raise TopologyError("run_for: the run is closed. Start another TopologyRun.")
        self._check_config()
        for spout in self.spouts.values():
            if spout.is_throttled and spout.has_room:  # since the bound was changed
                spout.wake()
        end, times = self.now_ms + ms, self.times
        if until and until():
            return
        while times and times[0] <= end:
            self.now_ms = times[0]
            due, done = self.due[self.now_ms], 0
            while due:
                due.popleft()()
                if until and until():
                    return
                done += 1
                if done > MAX_EVENTS_AT_ONCE:
                    raise TopologyError(
                        f"at {self.now_ms} ms {MAX_EVENTS_AT_ONCE:,} things happened without time moving. "
                        "Do the bolts send more and more to each other? Look at the cycles of the topology."
                    )
            del self.due[heapq.heappop(times)]
        self.now_ms = end

    def crash(self, component: str, task_index: int = 0, restart_ms: int | None = None) -> None:
        """One task dies with everything it holds; after `restart_ms` (the topology's if None) a new one is there."""
        tasks = self.tasks_of.get(component)
        if not tasks or not 0 <= task_index < len(tasks):
            raise TopologyError(
                f"crash: there is no task {task_index} of {component!r}. There are {len(tasks or ())}, from 0 on, and "
                f"the components are {', '.join(self.tasks_of)}."
            )
        task = self.task(tasks[task_index])
        if task.is_alive:
            task.crash()
            self.after(self.config.restart_ms if restart_ms is None else restart_ms, task.restart)

    def plant(self, faults: Sequence[Fault]) -> None:
        """These faults and no others from now on; tuples are counted on. TopologyError for one that cannot act."""
        self._check_faults(faults)
        before = self.plan.faults
        self.plan = FaultPlan(faults, self.chance, sent=self.plan.sent, taken=self.plan.taken)
        self._plan_crashes([fault for fault in faults if fault not in before])

    def close(self) -> None:
        """The topology ends: every living spout is closed, every living bolt cleaned up. A second time does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        for task in [*self.spouts.values(), *self.bolts.values()]:
            if task.is_alive:
                task.guarded("close", task.close)
                task.collector.is_open = False

    @property
    def pending(self) -> int:
        """Trees that the spouts wait for."""
        return sum(len(spout.pending) for spout in self.spouts.values())

    @property
    def queued(self) -> int:
        """Tuples that wait at bolts, the ones being processed included."""
        return sum(len(bolt.inbox) + bolt.is_busy for bolt in self.bolts.values())

    def tell(self, actor: str, what: str, **data: Any) -> None:
        """Pass on to the observer what happened. What it raises ends the run, whoever was at work."""
        try:
            self.observer(actor, what, data)
        except BaseException as error:
            self.raised_by_observer = error
            raise

    def after(self, ms: int, do: Callable[[], None]) -> None:
        """Have something done `ms` from now."""
        at_ms = self.now_ms + ms
        due = self.due.get(at_ms)
        if due is None:
            self.due[at_ms] = deque((do,))
            heapq.heappush(self.times, at_ms)
        else:
            due.append(do)

    def send(self, to: Task, number: int | None, deliver: Callable[[], None]) -> None:
        """Put a message on its way to a task; `number` is its tuple's, None for acker messages."""
        config, late = self.config, 0
        self.messages_sent += 1
        if config.transfer_jitter_ms and self.chance:
            late = int(self.chance("transfer", self.messages_sent) * (config.transfer_jitter_ms + 1))
        verb, ms = ("", 0) if number is None else self.done_to("tuple", number) or ("", 0)
        if self.plan.on_the_way(to.component_name) or verb == "lose":
            to.lose(number)
            return
        self.after(config.transfer_ms + late + (ms if verb == "delay" else 0), deliver)
        if verb == "double":
            self.after(config.transfer_ms + late, deliver)
        if verb in ("delay", "double"):
            self.tell(to.name, "fault", kind=verb, tuple=number, **({"ms": ms} if verb == "delay" else {}))

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
        """The acker that follows this tree: the root's hash modulo the number of ackers, as for a fields grouping."""
        tasks = self.tasks_of[ACKER_COMPONENT_ID]
        return self.ackers[tasks[list_hash_code((root,)) % len(tasks) if len(tasks) > 1 else 0]]

    def claim(self, task: ComponentTask, made: Made) -> Made:
        """This object is the task's own from now on. TopologyError when another living task has it."""
        owner, _ = self.claimed.get(id(made), (task, made))
        if owner is not task:
            raise TopologyError(
                f"{task.name} was given the same object as {owner.name}. Each task needs one of its own: "
                "make it inside the function that set_spout or set_bolt got."
            )
        self.claimed[id(made)] = task, made
        return made

    def choosers(self, component: Component) -> dict[str, list[Chooser]]:
        """For each stream of a sending task: one chooser of tasks for each bolt that subscribes to it."""
        return {
            stream: [
                chooser_of(grouping, fields, self.tasks_of[bolt.name], self.rng)
                for bolt, grouping in self.topology.subscribers(component.name, stream)
            ]
            for stream, fields in component.streams.fields.items()
        }

    def task(self, task_id: int) -> SpoutTask | BoltTask | AckerTask:
        """The task with this id."""
        return self.spouts.get(task_id) or self.bolts.get(task_id) or self.ackers[task_id]

    def check_survivable(self, task: str, doing: str, error: BaseException) -> None:
        """Raise what an exception of a component ends the run with; nothing when only its task dies of it.

        Misuse always ends the run; with errors="raise" everything does, as TopologyError or the KitError that it is.
        """
        if isinstance(error, TopologyError) or (isinstance(error, KitError) and self.config.errors == "raise"):
            raise error
        if self.config.errors == "raise":
            raise TopologyError(
                f"{task} raised {type(error).__name__} in {doing}: {str(error)[:200]}. In Storm its worker would die and "
                "come back; with errors='crash' it does so here. Mend the component, or fail the tuple."
            ) from error

    def _check_faults(self, faults: Sequence[Fault]) -> None:
        if not isinstance(faults, list | tuple) or not all(isinstance(fault, Fault) for fault in faults):
            raise TopologyError(f"TopologyRun: faults is {faults!r:.60}, expected a list of Faults.")
        for fault in faults:
            fault.check(self.topology, self.config.topology_ackers, self.chance)

    def _plan_crashes(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            if fault.kind == "crash" and fault.at_ms is not None and fault.at_ms >= self.now_ms:
                self.after(fault.at_ms - self.now_ms, partial(self._crash_as_planned, fault))

    def _crash_as_planned(self, fault: Fault) -> None:
        if fault in self.plan.faults:
            self.crash(fault.component, fault.task_index)

    def _check_config(self) -> None:
        if not isinstance(self.config, TopologyConfig):
            raise TopologyError(
                f"TopologyRun: the config is {self.config!r:.60}, expected a TopologyConfig, such as "
                "TopologyConfig(topology_ackers=2)."
            )
        self.config.check()
        if self.config.transfer_jitter_ms and self.chance is None:
            raise TopologyError(
                "TopologyConfig: transfer_jitter_ms needs chance. Give the run one, chance=(what, count) -> a number from "
                "0 to below 1."
            )

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
            name = task_name(ACKER_COMPONENT_ID, task_id)
            self.ackers[task_id] = AckerTask(self, ACKER_COMPONENT_ID, name, task_id)
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
