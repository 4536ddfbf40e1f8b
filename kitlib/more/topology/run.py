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
from collections.abc import Callable, Sequence
from functools import partial

from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.more.topology.builder import Topology, TopologyConfig
from kitlib.more.topology.components import Spout, TopologyContext, TopologyError
from kitlib.more.topology.faults import Chance, Fault
from kitlib.more.topology.groupings import Rng
from kitlib.more.topology.tasks import AckerTask, BoltTask, DoneTo, Observer, Runtime, SpoutTask, Task

MAX_EVENTS_AT_ONCE = 1_000_000  # at one and the same millisecond: more is a loop without an end


class TopologyRun(Runtime):
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
        observer: Observer = lambda actor, what, data: None,
        done_to: DoneTo = lambda thing, number: None,
    ) -> None:
        """Make every task and open it, at 0 ms. `done_to` may lose, delay, double or fail single tuples.

        TopologyError for a bad setting or a fault that cannot act.
        """
        super().__init__(topology, TopologyConfig() if config is None else config, rng, chance, observer, done_to)
        if not isinstance(topology, Topology):
            raise TopologyError(f"TopologyRun: topology is {topology!r:.60}, expected what create_topology() of a TopologyBuilder gives.")
        self._check_config()
        self._check_faults(faults)
        self.plan.faults = faults
        self.is_closed = False
        self._make_tasks()
        tasks: list[Task] = [*self.ackers.values(), *self.bolts.values(), *self.spouts.values()]
        for task in tasks:  # a spout may send when it is opened, so the others come first
            task.start()
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

    def plant(self, faults: Sequence[Fault]) -> None:
        """These faults and no others from now on; tuples are counted on. TopologyError for one that cannot act."""
        self._check_faults(faults)
        before, self.plan.faults = self.plan.faults, faults
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
        self.config.check()
        if self.config.transfer_jitter_ms and self.chance is None:
            raise TopologyError("TopologyConfig: transfer_jitter_ms needs a run with chance=(what, count) -> 0 to below 1.")

    def _make_tasks(self) -> None:
        next_id = 1
        for component in self.topology.components.values():
            ids = self.tasks_of[component.name] = list(range(next_id, next_id + component.parallelism))
            next_id += component.parallelism
            for index, task_id in enumerate(ids):
                context = TopologyContext(component.name, task_id, index, self)
                if component.kind is Spout:
                    self.spouts[task_id] = SpoutTask(self, component, context)
                else:
                    self.bolts[task_id] = BoltTask(self, component, context)
        if ackers := self.config.topology_ackers:
            self.tasks_of[ACKER_COMPONENT_ID] = list(range(next_id, next_id + ackers))
            self.ackers = {task_id: AckerTask(self, ACKER_COMPONENT_ID, task_id) for task_id in self.tasks_of[ACKER_COMPONENT_ID]}

    def __repr__(self) -> str:
        return f"<TopologyRun at {self.now_ms} ms: {self.pending} trees pending, {self.queued} tuples queued>"
