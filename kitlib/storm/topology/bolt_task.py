"""A bolt's task: one tuple after the other, and what the bolt says about each is carried out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kitlib.storm.topology.builder import Component, make_one
from kitlib.storm.topology.components import DEFAULT_STREAM, Bolt, TopologyContext, TopologyError, Tuple, short
from kitlib.storm.topology.faults import Fault
from kitlib.storm.topology.task import Collector, ComponentTask

if TYPE_CHECKING:
    from kitlib.storm.topology.run import TopologyRun


class BoltTask(ComponentTask):
    """Works on one tuple after the other."""

    def __init__(self, run: TopologyRun, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component, context)
        self.bolt: Bolt
        self.collector: BoltCollector
        self.inbox: deque[Tuple] = deque()  # arrived, in order; the one being worked on has left it
        self.is_busy = False

    def start(self) -> None:
        """A new bolt; the inbox is empty, as a crash has left it."""
        self.is_alive, self.life = True, self.life + 1
        self.collector = BoltCollector(self)
        self.bolt = self.run.claim(self, make_one(self.component.name, self.component.make, Bolt))
        self.bolt.context, self.bolt.collector = self.context, self.collector
        self.guarded("prepare", self.bolt.prepare, self.component.conf, self.context, self.collector)

    def crash(self) -> None:
        """The task dies with what waits in its inbox and the tuple that it works on."""
        lost = len(self.inbox) + self.is_busy
        self.is_alive = self.is_busy = self.collector.is_open = False
        self.inbox = deque()
        self.run.tell(self.name, "crash", lost=lost)

    def close(self) -> None:
        """The topology ends."""
        self.bolt.cleanup()

    def arrive(self, made: Tuple) -> None:
        """A tuple is here; nobody is there to take it while the task is dead."""
        if not self.is_alive:
            self.lose(made.number)
            return
        self.inbox.append(made)
        if not self.is_busy:
            self._begin()

    def _begin(self) -> None:
        made = self.inbox.popleft()
        made.holder = self.collector
        self.is_busy = True
        ms = self.bolt.execute_ms
        if type(ms) is not int or ms < 0:
            raise TopologyError(f"{self.name}: execute_ms is {ms!r:.40}, expected a whole number of ms from 0 on.")
        fault = self.run.plan.at_work(self.component_name)
        if fault is not None and fault.kind == "hang":
            self.run.tell(self.name, "fault", kind="hang", tuple=made.number, ms=fault.ms)
            if fault.ms is None:
                return
            ms += fault.ms
        self.run.after(ms, partial(self._finish, made, fault, self.life))

    def _finish(self, made: Tuple, fault: Fault | None, life: int) -> None:
        if not self.is_of(life):
            return
        if fault is None:
            self.run.tell(self.name, "execute", tuple=made.number, values=short(made.values))
            self._execute(made)
        else:
            self._finish_with(fault.kind, made)
        if self.is_of(life):
            self.is_busy = False
            if self.inbox:
                self._begin()

    def _finish_with(self, kind: str, made: Tuple) -> None:
        run, collector = self.run, self.collector
        if kind in ("fail", "drop", "raise", "unanchored"):
            run.tell(self.name, "fault", kind=kind, tuple=made.number)
        if kind == "fail":
            collector.fail(made)
        elif kind == "raise":
            run.crash(self.component.name, self.context.task_index)
        elif kind != "drop":
            run.tell(self.name, "execute", tuple=made.number, values=short(made.values))
            collector.forgets_to_anchor = kind == "unanchored"
            is_alive = self._execute(made)
            collector.forgets_to_anchor = False
            if kind == "ack_twice" and is_alive:
                run.tell(self.name, "fault", kind=kind, tuple=made.number)
                collector.ack(made)

    def _execute(self, made: Tuple) -> bool:
        self.collector.sent_in_call = 0
        return self.guarded("execute", self.bolt.execute, made)


class BoltCollector(Collector):
    """Anchors, acks and fails: `kitlib.storm.topology.components.OutputCollector` for one life of a task.

    Source: Storm 0.9.3, `backtype.storm.daemon.executor` (`mk-threads` :bolt).
    Differs: nothing.
    """

    __slots__ = ("component", "forgets_to_anchor", "task_id")

    def __init__(self, task: BoltTask) -> None:
        super().__init__(task)
        self.component, self.task_id = task.component_name, task.task_id
        self.forgets_to_anchor = False  # a fault

    def emit(
        self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] = (), stream: str = DEFAULT_STREAM
    ) -> list[int]:
        """As OutputCollector.emit: one tuple for each task that gets it, and each of them has ids of its own."""
        self.check_open("sends a tuple")
        run = self.run
        fields = self.streams.check(stream, values)
        to_anchor = self._anchors(anchors)
        parents = [anchor.number for anchor in to_anchor]
        task_ids = [task_id for choose in self.choosers[stream] for task_id in choose(values)]
        self.count(task_ids)
        told, values = short(values), list(values)
        for task_id in task_ids:
            ids = self._ids(to_anchor)
            made = Tuple(run.next_number(), values, fields, self.component, self.task_id, stream, ids)
            to = run.bolts[task_id]
            ids_told = [[root, at] for root, at in ids.items()]
            run.tell(self.name, "send", tuple=made.number, parents=parents, ids=ids_told, to=to.name, values=told)
            run.send(to, made.number, partial(to.arrive, made))
        return task_ids

    def ack(self, given: Tuple) -> None:
        """As OutputCollector.ack: to each tree's acker, the tuple's id XOR what was anchored to it."""
        self._check_given(given, "acks")
        run, is_first = self.run, not given.is_acked
        given.is_acked = True
        ack_val = given.ack_val
        vals = [[root, at ^ ack_val] for root, at in given.ids.items()]
        run.tell(self.name, "bolt_ack", tuple=given.number, vals=vals)
        for root, val in vals:
            acker = run.acker_for(root)
            run.send(acker, None, partial(acker.ack, root, val, is_first))

    def fail(self, given: Tuple) -> None:
        """As OutputCollector.fail."""
        self._check_given(given, "fails")
        run = self.run
        run.tell(self.name, "bolt_fail", tuple=given.number, roots=list(given.ids))
        for root in given.ids:
            acker = run.acker_for(root)
            run.send(acker, None, partial(acker.fail, root))

    def reset_timeout(self, given: Tuple) -> None:
        """As OutputCollector.reset_timeout. TopologyError with the acker of a release that does not know it."""
        self._check_given(given, "asks for more time for")
        run = self.run
        if run.config.acker_release == "0.9.3":
            raise TopologyError(
                f"{self.name} calls reset_timeout, which Storm 0.9.3 has not. "
                "Set acker_release='2.4.0', or a longer topology_message_timeout_secs."
            )
        for root in given.ids:
            acker = run.acker_for(root)
            run.send(acker, None, partial(acker.reset_timeout, root))

    def _anchors(self, anchors: object) -> Sequence[Tuple]:
        """The tuples to anchor to: one, several or none; all of them given to this task."""
        found = (anchors,) if isinstance(anchors, Tuple) else anchors
        if not isinstance(found, list | tuple):
            self._refuse(anchors, "anchors to")
        for anchor in found:
            self._check_given(anchor, "anchors to")
        return () if self.forgets_to_anchor else found

    def _ids(self, anchors: Sequence[Tuple]) -> dict[int, int]:
        """A new tuple's ids: for each anchor one id, XORed into every tree of that anchor and into the anchor itself."""
        ids: dict[int, int] = {}
        run = self.run
        for anchor in anchors:
            if not anchor.ids:
                continue
            edge = run.new_id()
            anchor.ack_val ^= edge
            for root in anchor.ids:
                ids[root] = ids.get(root, 0) ^ edge
        for root in ids:
            if root in run.open_tuples:
                run.open_tuples[root] += 1
        return ids

    def _check_given(self, given: object, does: str) -> None:
        if type(given) is not Tuple or given.holder is not self or not self.is_open:
            self._refuse(given, does)

    def _refuse(self, given: object, does: str) -> NoReturn:
        self.check_open(f"{does} a tuple")
        if not isinstance(given, Tuple):
            raise TopologyError(
                f"{self.name} {does} {given!r:.60}, expected a tuple that it was given to work on. "
                "Use the one that execute was called with."
            )
        raise TopologyError(
            f"{self.name} {does} tuple {given.number} of {given.source_component}, which it was never given. "
            "Use the one that execute was called with."
        )
