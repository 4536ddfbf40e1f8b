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

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.more.topology.builder import Topology
from kitlib.more.topology.components import TopologyError

Chance = Callable[[str, int], float]  # (what, how manieth time) -> a number in [0, 1), the same for the same seed
FaultKind = Literal["fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose", "crash"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


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
        tasks = {name: component.parallelism for name, component in topology.components.items()} | {ACKER_COMPONENT_ID: ackers}
        is_crash = self.kind == "crash"
        could = [name for name in tasks if is_crash or self.kind == "lose" or name in topology.bolts]
        count = tasks.get(self.component, 0)
        for name, is_right, expected in (
            ("kind", self.kind in KINDS, f"one of {', '.join(KINDS)}"),
            ("component", self.component in could, f"one of {', '.join(could)}"),
            (
                "nth", isinstance(self.nth, Collection) and all(type(each) is int and each > 0 for each in self.nth),
                "a list of whole numbers, 1 for the first tuple",
            ),
            ("percent", type(self.percent) in (int, float) and 0 <= self.percent <= 100, "a number from 0 to 100"),
            ("percent", not self.percent or chance is not None, "0, unless the run is given chance=(what, count) -> 0 to below 1"),
            ("ms", self.ms is None or (type(self.ms) is int and self.ms >= 0), "a whole number from 0 on, or None for ever"),
            ("at_ms", not is_crash or (type(self.at_ms) is int and self.at_ms >= 0), "a time from 0 ms on"),
            ("task_index", not is_crash or self.task_index in range(count), f"the number of one of its {count} tasks, from 0 on"),
        ):  # fmt: skip
            if not is_right:
                got = getattr(self, name)
                raise TopologyError(f"fault {self.kind!s:.60} of {self.component!s:.60}: {name} is {got!r:.60}, expected {expected}.")


@dataclass(slots=True)
class FaultPlan:
    """The faults of a run, and how many tuples each component has met."""

    faults: Sequence[Fault]
    chance: Chance | None = None
    sent: Counter[str] = field(default_factory=Counter)  # component -> messages put on their way to it
    taken: Counter[str] = field(default_factory=Counter)  # component -> tuples that its tasks began to work on

    def on_the_way(self, component: str) -> bool:
        """Whether the next message to this component is lost."""
        self.sent[component] += 1
        return self._met(component, self.sent[component], on_the_way=True) is not None

    def at_work(self, component: str) -> Fault | None:
        """What happens to the next tuple that a task of this component takes; the first fault that meets it."""
        self.taken[component] += 1
        return self._met(component, self.taken[component], on_the_way=False)

    def _met(self, component: str, count: int, *, on_the_way: bool) -> Fault | None:
        for place, fault in enumerate(self.faults):
            if fault.component != component or fault.kind == "crash" or (fault.kind == "lose") != on_the_way:
                continue
            if count in fault.nth:
                return fault
            if fault.percent and self.chance and self.chance(f"{place} {fault.kind} {component}", count) * 100 < fault.percent:
                return fault
        return None
