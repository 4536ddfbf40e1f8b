"""What can go wrong in a topology, planted on purpose.

A fault belongs to a component and hits some of the tuples that reach it: the ones listed in `nth`,
or `percent` of them at random. A crash happens at a time instead.

* fail: the bolt fails the tuple instead of processing it
* hang: the bolt takes `ms` longer; without `ms`, it and its task hang forever
* drop: the bolt takes the tuple, and neither sends, acks nor fails anything
* ack_twice: the bolt processes it as usual and acks it a second time
* unanchored: what the bolt sends while processing it is not anchored
* raise: the bolt raises an error; its task dies from it and comes back
* lose: the message never arrives; also for the acker's messages ("__acker") and for a spout's answers
* crash: the task dies at `at_ms`, with everything it held, and comes back after the topology's restart_ms
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.more.topology.builder import Topology
from kitlib.more.topology.components import TopologyError
from kitlib.more.topology.ids import Chance

FaultKind = Literal["fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose", "crash"]
KINDS: tuple[FaultKind, ...] = ("fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose", "crash")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, and when."""

    kind: FaultKind
    component: str
    nth: Collection[int] = ()  # of the tuples (or messages) that reach the component, from 1 on
    percent: float = 0  # of them, by chance; beside `nth`
    ms: int | None = None  # for "hang": how much longer; None means forever
    at_ms: int | None = None  # for "crash": when
    task_index: int = 0  # for "crash": which of the component's tasks

    def check(self, topology: Topology, ackers: int, chance: Chance | None) -> None:
        """Raise TopologyError when the fault cannot act on this topology with so many ackers."""
        if self.kind not in KINDS:
            raise TopologyError(f"a fault's kind is {self.kind!r:.60}, expected one of {', '.join(KINDS)}.")
        tasks = {name: component.parallelism for name, component in topology.components.items()}
        tasks[ACKER_COMPONENT_ID] = ackers
        if not isinstance(self.component, str) or self.component not in tasks:
            raise TopologyError(
                f"fault {self.kind}: there is no component {self.component!r:.60}. "
                f"There are {', '.join(topology.components)} and {ACKER_COMPONENT_ID}."
            )
        component = topology.components.get(self.component)
        if self.kind not in ("lose", "crash") and (component is None or component.is_spout):
            raise TopologyError(f"fault {self.kind} is for bolts, {self.component} is not a bolt. Name a bolt.")
        if self.kind == "crash":
            self._check_crash(tasks[self.component])
            return
        if not isinstance(self.nth, Collection) or not all(type(count) is int and count > 0 for count in self.nth):
            raise self._wrong("nth", "a list of whole numbers, 1 for the first tuple")
        if isinstance(self.percent, bool) or not isinstance(self.percent, int | float) or not 0 <= self.percent <= 100:
            raise self._wrong("percent", "a number from 0 to 100")
        if self.ms is not None and (type(self.ms) is not int or self.ms < 0):
            raise self._wrong("ms", "a whole number from 0 on, or None for ever")
        if self.percent and chance is None:
            raise TopologyError(
                f"fault {self.kind} of {self.component}: percent needs chance. Give the run one, chance=(what, count) -> "
                "a number from 0 to below 1."
            )

    def _check_crash(self, tasks: int) -> None:
        if type(self.at_ms) is not int or self.at_ms < 0:
            raise self._wrong("at_ms", "a time from 0 ms on")
        if type(self.task_index) is not int or not 0 <= self.task_index < tasks:
            raise self._wrong("task_index", f"the number of one of its {tasks} tasks, from 0 on")

    def _wrong(self, name: str, expected: str) -> TopologyError:
        got = getattr(self, name)
        return TopologyError(f"fault {self.kind} of {self.component}: {name} is {got!r:.60}, expected {expected}.")


@dataclass(slots=True)
class FaultPlan:
    """The faults of a run, and how many tuples each component has met."""

    faults: Sequence[Fault]
    chance: Chance | None = None
    sent: dict[str, int] = field(default_factory=dict)  # component -> messages put on their way to it
    taken: dict[str, int] = field(default_factory=dict)  # component -> tuples that its tasks began to work on

    def on_the_way(self, component: str) -> bool:
        """Whether the next message to this component is lost."""
        count = self.sent[component] = self.sent.get(component, 0) + 1
        return bool(self.faults) and self._meets(component, count, True) is not None

    def at_work(self, component: str) -> Fault | None:
        """What happens to the next tuple that a task of this component takes; the first fault that meets it."""
        count = self.taken[component] = self.taken.get(component, 0) + 1
        return self._meets(component, count, False) if self.faults else None

    def _meets(self, component: str, count: int, on_the_way: bool) -> Fault | None:
        for place, fault in enumerate(self.faults):
            if fault.component != component or fault.kind == "crash" or (fault.kind == "lose") != on_the_way:
                continue
            if count in fault.nth or (
                fault.percent and self._happens(f"{place} {fault.kind} {component}", count, fault)
            ):
                return fault
        return None

    def _happens(self, what: str, count: int, fault: Fault) -> bool:
        return self.chance is not None and self.chance(what, count) * 100 < fault.percent
