"""A topology as it is declared: components, their parallelism, and who subscribes to whom.

    builder = TopologyBuilder()
    builder.set_spout("sentences", SentenceSpout)
    builder.set_bolt("split", SplitSentence, 2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount, 4).fields_grouping("split", ["word"])
    topology = builder.create_topology()

The declaration reveals mistakes before anything runs: an unknown component or field, a bolt without input.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.more.topology.components import Bolt, Spout, TopologyError, checked_fields
from kitlib.more.topology.groupings import Grouping

AckerRelease = Literal["0.9.3", "2.4.0"]
MAX_TASKS = 1_000  # of one component
MAX_INT = 2**31 - 1  # Java's
NUMBERS = (
    "topology_ackers", "topology_message_timeout_secs", "topology_max_spout_pending", "id_bits", "root_id_bits", "transfer_ms",
    "transfer_jitter_ms", "restart_ms",
)  # fmt: skip
CALLED_BY_STORM = ("open", "next_tuple", "ack", "fail", "close", "prepare", "execute", "process", "cleanup")


@dataclass(slots=True)
class TopologyConfig:
    """The settings of a topology, with Storm 0.9.3's defaults where Storm has the setting.

    Source: Storm 0.9.3, `backtype.storm.Config`, conf/defaults.yaml.
    Differs: times of the simulated network and of a restart; ids of fewer bits; which release's acker.
    """

    topology_ackers: int = 1  # tasks; 0: a tuple counts as acked when it is emitted
    topology_message_timeout_secs: int = 30  # the period of the ticks; a tuple times out after one to two of them
    topology_enable_message_timeouts: bool = True  # False: no ticks, and what is lost stays pending forever
    topology_max_spout_pending: int | None = None  # tuples pending in one spout task; None: without bound
    acker_release: AckerRelease = "0.9.3"
    id_bits: int = 64  # of the tuples' ids, which the acker XORs
    root_id_bits: int = 64  # of the trees' ids
    transfer_ms: int = 1  # how long a message takes from task to task
    transfer_jitter_ms: int = 0  # by how much longer, at most, by chance
    restart_ms: int = 1_000  # after which a crashed task is there again
    errors: Literal["raise", "crash"] = "raise"  # an exception of a component: end the run with it, or crash its task

    def check(self) -> None:
        """Raise TopologyError for a setting outside its range."""
        least = {"topology_ackers": 0, "transfer_jitter_ms": 0}
        most = {"topology_ackers": MAX_TASKS, "id_bits": 64, "root_id_bits": 64}
        for name in NUMBERS:
            value, low, high = getattr(self, name), least.get(name, 1), most.get(name, MAX_INT)
            if (value is not None or name != "topology_max_spout_pending") and (type(value) is not int or not low <= value <= high):
                raise TopologyError(f"TopologyConfig: {name} is {value!r:.40}, expected a whole number from {low} to {high:,}.")
        for name, known in (("acker_release", ("0.9.3", "2.4.0")), ("errors", ("raise", "crash"))):
            if getattr(self, name) not in known:
                raise TopologyError(f"TopologyConfig: {name} is {getattr(self, name)!r:.40}, expected {' or '.join(map(repr, known))}.")


@dataclass(slots=True)
class Component:
    """One spout or bolt. Of a bolt, the groupings say what it subscribes to; each returns it again, so that calls can be chained."""

    name: str
    kind: type[Spout] | type[Bolt]
    make: Callable[[], Any]  # called once for each task, and again after a crash
    parallelism: int
    groupings: list[Grouping] = field(default_factory=list)  # what it subscribes to; none for a spout
    fields: tuple[str, ...] = ()  # of what it sends; known when the topology is created

    def shuffle_grouping(self, component: str) -> Component:
        """Each tuple to one task, evenly, by chance."""
        return self._subscribe(Grouping("shuffle", component))

    def fields_grouping(self, component: str, fields: Sequence[str]) -> Component:
        """Tuples with equal values in these fields to the same task."""
        names = [fields] if isinstance(fields, str) else fields
        if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
            raise TopologyError(
                f"bolt {self.name!r}: a fields grouping on {component!r:.60} got the fields {fields!r:.60}, expected "
                "a list of names, such as ['word']."
            )
        return self._subscribe(Grouping("fields", component, tuple(names)))

    def _subscribe(self, new: Grouping) -> Component:
        if any(known.component == new.component for known in self.groupings):
            raise TopologyError(
                f"bolt {self.name!r} subscribes twice to {new.component!r}. In Storm the second subscription replaces the first: leave one."
            )
        self.groupings.append(new)
        return self


@dataclass(frozen=True, slots=True)
class Topology:
    """Components that fit together; `TopologyBuilder.create_topology` makes one."""

    components: Mapping[str, Component]

    @property
    def bolts(self) -> list[str]:
        """The names of those that are no spouts."""
        return [name for name, component in self.components.items() if component.kind is Bolt]

    def subscribers(self, component: str) -> list[tuple[Component, Grouping]]:
        """Who gets the tuples of a component."""
        return [(bolt, each) for bolt in self.components.values() for each in bolt.groupings if each.component == component]

    def __repr__(self) -> str:
        told = (f"{name} x {component.parallelism}" for name, component in self.components.items())
        return f"<Topology: {', '.join(told)}>"


@dataclass(slots=True)
class TopologyBuilder:
    """Collects components and checks them all at once."""

    components: dict[str, Component] = field(default_factory=dict)

    def set_spout(self, name: str, make: Callable[[], Spout], parallelism: int = 1) -> None:
        """Add a spout; `make` is its class, or a function that makes one for each task. TopologyError for a bad one."""
        self._add(Component(name, Spout, make, parallelism))

    def set_bolt(self, name: str, make: Callable[[], Bolt], parallelism: int = 1) -> Component:
        """Add a bolt; say on the answer what it subscribes to. TopologyError for a bad one."""
        return self._add(Component(name, Bolt, make, parallelism))

    def create_topology(self) -> Topology:
        """The topology. TopologyError for an unknown component or field, and for a bolt that nobody feeds."""
        if not any(component.kind is Spout for component in self.components.values()):
            raise TopologyError("the topology has no spout, so nothing would ever happen. Add one with set_spout.")
        for component in self.components.values():
            component.fields = _fields_of(component)
        for component in self.components.values():
            if component.kind is Bolt and not component.groupings:
                raise TopologyError(f"nothing feeds bolt {component.name!r}. Subscribe it, such as with .shuffle_grouping('...').")
            for grouping in component.groupings:
                _check_subscription(component.name, grouping, self.components)
        spouts_first = sorted(self.components.values(), key=lambda component: component.kind is Bolt)
        return Topology({component.name: component for component in spouts_first})

    def _add(self, new: Component) -> Component:
        name, parallelism = new.name, new.parallelism
        if not isinstance(name, str) or not name or name.startswith("__"):
            raise TopologyError(
                f"a component's name is {name!r:.60}, expected a text that does not begin with '__', "
                f"as {ACKER_COMPONENT_ID} and its like are Storm's own."
            )
        if name in self.components:
            raise TopologyError(f"there are two components with the name {name!r}. Give one of them another name.")
        if type(parallelism) is not int or not 1 <= parallelism <= MAX_TASKS:
            raise TopologyError(f"{name}: parallelism is {parallelism!r:.40}, expected 1 to {MAX_TASKS:,} tasks.")
        self.components[name] = new
        return new


def make_one(component: Component) -> Any:
    """A new object for one task. TopologyError when it cannot be made or is no spout or bolt."""
    name, make, kind = component.name, component.make, component.kind
    called = getattr(make, "__name__", type(make).__name__)
    try:
        made = make()
    except Exception as error:
        raise TopologyError(
            f"{name}: making a {kind.__name__} raised {type(error).__name__}: {str(error)[:200]}. Storm makes one for each "
            f"task, without arguments: give a class that has all its methods, or a function, such as lambda: {called}(...)."
        ) from error
    if not isinstance(made, kind):
        raise TopologyError(
            f"{name}: {called} makes {made!r:.60}, expected a {kind.__name__}. "
            f"Subclass kitlib.more.topology.{kind.__name__}, and return an object of it."
        )
    return made


def _fields_of(component: Component) -> tuple[str, ...]:
    """The output fields of what the component makes. TopologyError when that cannot run as a spout or bolt."""
    made = make_one(component)
    for method in CALLED_BY_STORM:
        code = getattr(made, method, None)
        if inspect.isgeneratorfunction(code) or inspect.iscoroutinefunction(code):
            raise TopologyError(
                f"{component.name}: {type(made).__name__}.{method} has a yield or is async, so that calling it does nothing. "
                "Write a plain method, and send with self.collector.emit([...])."
            )
    return checked_fields(component.name, made.output_fields)


def _check_subscription(bolt: str, grouping: Grouping, components: Mapping[str, Component]) -> None:
    source = components.get(grouping.component)
    if source is None:
        raise TopologyError(
            f"bolt {bolt!r} subscribes to {grouping.component!r}, which the topology has not. "
            f"Its components are {', '.join(components)}."
        )
    if not source.fields:
        raise TopologyError(f"bolt {bolt!r} subscribes to {grouping.component!r}, which sends nothing. Set its output_fields.")
    for name in grouping.fields:
        if name not in source.fields:
            raise TopologyError(
                f"bolt {bolt!r} groups {grouping.component!r} by the field {name!r}, which it has not. "
                f"Its fields are {', '.join(source.fields)}."
            )
