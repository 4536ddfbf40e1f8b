"""What can go wrong in a topology, planted on purpose.

A fault belongs to a component and meets some of the tuples that reach it: the ones counted in `nth`,
or `percent` of a hundred by chance. A crash happens at a time instead.

* fail: the bolt fails the tuple instead of working on it
* hang: the bolt works `ms` longer on it; without `ms` for ever, and its task with it
* drop: the bolt takes the tuple, and neither sends, acks nor fails anything
* ack_twice: the bolt works on it as usual and acks it a second time
* unanchored: what the bolt sends while it works on it is anchored to nothing
* raise: the bolt raises an error; its task dies of it and comes back
* lose: the message never arrives; also for the acker's messages ("__acker") and for a spout's answers
* crash: the task dies at `at_ms`, with everything it held, and comes back after the topology's restart_ms
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kitlib.storm.acker import ACKER_COMPONENT_ID
from kitlib.storm.topology.builder import Topology
from kitlib.storm.topology.components import TopologyError
from kitlib.storm.topology.ids import Chance

FaultKind = Literal["fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose", "crash"]
KINDS: tuple[FaultKind, ...] = ("fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose", "crash")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, and when."""

    kind: FaultKind
    component: str
    nth: Collection[int] = ()  # of the tuples (or messages) that reach the component, from 1 on
    percent: float = 0  # of them, by chance; beside `nth`
    ms: int | None = None  # for "hang": how much longer; None means for ever
    at_ms: int | None = None  # for "crash": when
    task_index: int = 0  # for "crash": which of the component's tasks

    def check(self, topology: Topology) -> None:
        """Raise TopologyError when the fault cannot act on this topology."""
        if self.kind not in KINDS:
            raise TopologyError(f"a fault's kind is {self.kind!r}, expected one of {', '.join(KINDS)}.")
        component = topology.components.get(self.component)
        if component is None and self.component != ACKER_COMPONENT_ID:
            raise TopologyError(
                f"fault {self.kind}: there is no component {self.component!r}. "
                f"There are {', '.join(topology.components)} and {ACKER_COMPONENT_ID}."
            )
        if self.kind not in ("lose", "crash") and (component is None or component.is_spout):
            raise TopologyError(f"fault {self.kind} is for bolts, {self.component} is none. Name a bolt.")
        if not 0 <= self.percent <= 100:
            raise TopologyError(f"fault {self.kind} of {self.component}: percent is {self.percent}, expected 0 to 100.")
        if self.kind == "crash" and (self.at_ms is None or self.at_ms < 0):
            raise TopologyError(f"fault crash of {self.component}: at_ms is {self.at_ms}, expected a time from 0 ms on.")


@dataclass(slots=True)
class FaultPlan:
    """The faults of a run, and how many tuples each component has met."""

    faults: Sequence[Fault]
    chance: Chance | None = None
    met: dict[tuple[str, bool], int] = field(default_factory=dict)  # (component, on the way) -> tuples so far

    def on_the_way(self, component: str) -> bool:
        """Whether the next message to this component is lost."""
        return self._next(component, True) is not None

    def at_work(self, component: str) -> Fault | None:
        """What happens to the next tuple that a task of this component takes; the first fault that meets it."""
        return self._next(component, False)

    def _next(self, component: str, on_the_way: bool) -> Fault | None:
        count = self.met[component, on_the_way] = self.met.get((component, on_the_way), 0) + 1
        for place, fault in enumerate(self.faults):
            if fault.component != component or (fault.kind == "lose") != on_the_way or fault.kind == "crash":
                continue
            if count in fault.nth or (fault.percent and self._happens(f"{place} {fault.kind} {component}", count, fault)):
                return fault
        return None

    def _happens(self, what: str, count: int, fault: Fault) -> bool:
        if self.chance is None:
            raise TopologyError(f"fault {fault.kind} of {fault.component}: percent needs a chance. Give the run one.")
        return self.chance(what, count) * 100 < fault.percent
