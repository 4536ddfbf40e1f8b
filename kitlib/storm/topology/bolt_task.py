"""A bolt's task: one tuple after the other, and what the bolt says about each is carried out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kitlib.storm.acker import ACKER_COMPONENT_ID
from kitlib.storm.topology.builder import Component
from kitlib.storm.topology.components import DEFAULT_STREAM, Bolt, TopologyContext, TopologyError, Tuple, short
from kitlib.storm.topology.faults import Fault
from kitlib.storm.topology.task import ComponentTask

if TYPE_CHECKING:
    from kitlib.storm.topology.run import TopologyRun


class BoltTask(ComponentTask):
    """Works on one tuple after the other, and carries out what the bolt says about each."""

    def __init__(self, run: TopologyRun, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component, context)
        self.bolt: Bolt
        self.inbox: deque[Tuple] = deque()  # arrived, in order; the one being worked on has left it
        self.given: set[int] = set()  # numbers of the tuples that this task was given
        self.acked: set[int] = set()  # of these, those acked or failed at least once
        self.is_busy = False
        self.is_unanchored = False  # a fault: the bolt forgets to anchor

    def start(self) -> None:
        """A new bolt with an empty inbox."""
        self.is_alive, self.life = True, self.life + 1
        self.inbox, self.given, self.acked = deque(), set(), set()
        self.is_busy = self.is_unanchored = False
        self.choosers = self.run.choosers(self.component)
        self.bolt = self.component.make()
        self.guarded("prepare", self.bolt.prepare, self.component.conf, self.context, self)

    def crash(self) -> None:
        """The task dies with what waits in its inbox and the tuple that it works on."""
        lost = len(self.inbox) + self.is_busy
        self.is_alive, self.is_busy, self.inbox = False, False, deque()
        self.run.tell(self.name, "crash", lost=lost)

    def send(self, made: Tuple) -> None:
        """Put a tuple on its way to this task."""
        self.run.send(self.component.name, made.number, partial(self.arrive, made))

    def arrive(self, made: Tuple) -> None:
        """A tuple is here; nobody is there to take it while the task is dead."""
        if not self.is_alive:
            self.run.tell(self.name, "fault", kind="lose", tuple=made.number)
            return
        self.given.add(made.number)
        self.inbox.append(made)
        if not self.is_busy:
            self._begin()

    def _begin(self) -> None:
        made = self.inbox.popleft()
        self.is_busy = True
        fault = self.run.plan.at_work(self.component.name)
        ms = self.bolt.execute_ms
        if fault is not None and fault.kind == "hang":
            self.run.tell(self.name, "fault", kind="hang", tuple=made.number, ms=fault.ms)
            if fault.ms is None:
                return
            ms += fault.ms
        self.run.after(ms, partial(self._finish, made, fault, self.life))

    def _finish(self, made: Tuple, fault: Fault | None, life: int) -> None:
        if not self.is_of(life):
            return
        run, kind = self.run, fault.kind if fault else ""
        if kind in ("fail", "drop", "raise", "unanchored"):
            run.tell(self.name, "fault", kind=kind, tuple=made.number)
        if kind == "fail":
            self.fail(made)
        elif kind == "raise":
            run.crash(self.component.name, self.context.task_index)
            return
        elif kind != "drop":
            run.tell(self.name, "execute", tuple=made.number, values=short(made.values))
            self.is_unanchored = kind == "unanchored"
            if not self.guarded("execute", self.bolt.execute, made):
                return
            self.is_unanchored = False
            if kind == "ack_twice":
                run.tell(self.name, "fault", kind=kind, tuple=made.number)
                self.ack(made)
        self.is_busy = False
        if self.inbox:
            self._begin()

    def emit(self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] = (), stream: str = DEFAULT_STREAM) -> list[int]:
        """As OutputCollector.emit."""
        run = self.run
        fields = self.component.streams.check(stream, values)
        to_anchor = [anchors] if isinstance(anchors, Tuple) else list(anchors)
        for anchor in to_anchor:
            self._check_given(anchor, "anchors to")
        if self.is_unanchored:
            to_anchor = []
        task_ids = []
        for choose in self.choosers[stream]:
            for task_id in choose(values):
                ids = self._anchored(to_anchor)
                made = Tuple(run.next_number(), values, fields, self.component.name, self.task_id, stream, ids)
                parents = [anchor.number for anchor in to_anchor]
                told = {"tuple": made.number, "parents": parents, "ids": [[root, at] for root, at in ids.items()]}
                run.tell(self.name, "send", **told, to=run.name_of(task_id), values=short(values))
                run.bolts[task_id].send(made)
                task_ids.append(task_id)
        return task_ids

    def _anchored(self, anchors: Sequence[Tuple]) -> dict[int, int]:
        """A new tuple's ids: for each anchor one id, XORed into every tree of that anchor and into the anchor itself."""
        ids: dict[int, int] = {}
        for anchor in anchors:
            if not anchor.ids:
                continue
            edge = self.run.new_id()
            anchor.ack_val ^= edge
            for root in anchor.ids:
                ids[root] = ids.get(root, 0) ^ edge
        for root in ids:
            if root in self.run.open_tuples:
                self.run.open_tuples[root] += 1
        return ids

    def ack(self, given: Tuple) -> None:
        """As OutputCollector.ack: to each tree's acker, the tuple's id XOR what was anchored to it."""
        run = self.run
        self._check_given(given, "acks")
        vals = [[root, at ^ given.ack_val] for root, at in given.ids.items()]
        run.tell(self.name, "bolt_ack", tuple=given.number, vals=vals)
        is_first = given.number not in self.acked
        self.acked.add(given.number)
        for root, val in vals:
            run.send(ACKER_COMPONENT_ID, None, partial(run.acker_for(root).ack, root, val, is_first))

    def fail(self, given: Tuple) -> None:
        """As OutputCollector.fail."""
        self._check_given(given, "fails")
        self.acked.add(given.number)
        self.run.tell(self.name, "bolt_fail", tuple=given.number, roots=list(given.ids))
        for root in given.ids:
            self.run.send(ACKER_COMPONENT_ID, None, partial(self.run.acker_for(root).fail, root))

    def reset_timeout(self, given: Tuple) -> None:
        """As OutputCollector.reset_timeout."""
        self._check_given(given, "asks for more time for")
        for root in given.ids:
            self.run.send(ACKER_COMPONENT_ID, None, partial(self.run.acker_for(root).reset_timeout, root))

    def _check_given(self, given: object, does: str) -> None:
        if not isinstance(given, Tuple):
            raise TopologyError(f"{self.name} {does} {given!r:.60}, expected a tuple that it was given to work on.")
        if given.number not in self.given:
            raise TopologyError(
                f"{self.name} {does} tuple {given.number} of {given.source_component}, which it was never given. "
                "Use the tuple that execute was called with."
            )
