"""A topology as it is declared: components, their parallelism, and who subscribes to whom.

    builder = TopologyBuilder()
    builder.set_spout("sentences", SentenceSpout)
    builder.set_bolt("split", SplitSentence, 2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount, 4).fields_grouping("split", ["word"])
    topology = builder.create_topology()

The declaration reveals mistakes before anything runs: an unknown component, stream or field,
a bolt without input.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.more.topology.components import DEFAULT_STREAM, Bolt, Spout, Streams, TopologyError
from kitlib.more.topology.groupings import Grouping, GroupingKind

AckerRelease = Literal["0.9.3", "2.4.0"]
MAX_TASKS = 1_000  # of one component
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
        for name, least, most in (
            ("topology_ackers", 0, MAX_TASKS),
            ("topology_message_timeout_secs", 1, None),
            ("topology_max_spout_pending", 1, None),
            ("id_bits", 1, 64),
            ("root_id_bits", 1, 64),
            ("transfer_ms", 1, None),
            ("transfer_jitter_ms", 0, None),
            ("restart_ms", 1, None),
        ):
            value = getattr(self, name)
            if value is None and name == "topology_max_spout_pending":
                continue
            if type(value) is not int or value < least or (most is not None and value > most):
                span = f"from {least} on" if most is None else f"from {least} to {most:,}"
                none = ", or None for no bound" if name == "topology_max_spout_pending" else ""
                raise TopologyError(f"TopologyConfig: {name} is {value!r:.40}, expected a whole number {span}{none}.")
        for name, known in (
            ("topology_enable_message_timeouts", (True, False)),
            ("acker_release", ("0.9.3", "2.4.0")),
            ("errors", ("raise", "crash")),
        ):
            if getattr(self, name) not in known:
                told = " or ".join(repr(value) for value in known)
                raise TopologyError(f"TopologyConfig: {name} is {getattr(self, name)!r:.40}, expected {told}.")


@dataclass(frozen=True, slots=True)
class Component:
    """One spout or bolt of a topology."""

    name: str
    make: Callable[[], Any]  # called once for each task, and again after a crash
    parallelism: int
    streams: Streams
    is_spout: bool
    groupings: tuple[Grouping, ...] = ()  # what it subscribes to; none for a spout
    conf: Mapping[str, Any] = field(default_factory=dict)  # handed to open or prepare


@dataclass(frozen=True, slots=True)
class Topology:
    """Components that fit together; `TopologyBuilder.create_topology` makes one."""

    components: Mapping[str, Component]

    def subscribers(self, component: str, stream: str) -> list[tuple[Component, Grouping]]:
        """Who gets the tuples of a stream."""
        return [
            (bolt, grouping)
            for bolt in self.components.values()
            for grouping in bolt.groupings
            if (grouping.component, grouping.stream) == (component, stream)
        ]

    def __repr__(self) -> str:
        told = (f"{name} x {component.parallelism}" for name, component in self.components.items())
        return f"<Topology: {', '.join(told)}>"


@dataclass(slots=True)
class BoltDeclarer:
    """Says what a bolt subscribes to; each method returns it again, so that calls can be chained."""

    name: str
    make: Callable[[], Bolt]
    parallelism: int
    conf: Mapping[str, Any]
    groupings: list[Grouping] = field(default_factory=list)

    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Each tuple to one task, evenly, by chance."""
        return self._add("shuffle", component, stream)

    def fields_grouping(self, component: str, fields: Sequence[str], stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Tuples with equal values in these fields to the same task."""
        names = [fields] if isinstance(fields, str) else fields
        if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
            raise TopologyError(
                f"bolt {self.name!r}: a fields grouping on {component!r:.60} got the fields {fields!r:.60}, expected "
                "a list of names, such as ['word']."
            )
        return self._add("fields", component, stream, names)

    def _add(self, kind: GroupingKind, component: str, stream: str, fields: Sequence[str] = ()) -> BoltDeclarer:
        if not isinstance(component, str) or not isinstance(stream, str):
            raise TopologyError(
                f"bolt {self.name!r} subscribes to {component!r:.60}, stream {stream!r:.60}, expected the names that "
                "they were given. Name the component, as in .shuffle_grouping('sentences')."
            )
        if any((known.component, known.stream) == (component, stream) for known in self.groupings):
            raise TopologyError(
                f"bolt {self.name!r} subscribes twice to stream {stream!r} of {component!r}. In Storm the second "
                "subscription replaces the first: leave one."
            )
        self.groupings.append(Grouping(kind, component, stream, tuple(fields)))
        return self


@dataclass(slots=True)
class TopologyBuilder:
    """Collects components and checks them all at once."""

    spouts: dict[str, tuple[Callable[[], Spout], int, Mapping[str, Any]]] = field(default_factory=dict)
    bolts: dict[str, BoltDeclarer] = field(default_factory=dict)

    def set_spout(self, name: str, make: Callable[[], Spout], parallelism: int = 1, **conf: Any) -> None:
        """Add a spout; `make` is its class, or a function that makes one for each task. TopologyError for a bad one."""
        self._check_new(name, parallelism)
        self.spouts[name] = (make, parallelism, conf)

    def set_bolt(self, name: str, make: Callable[[], Bolt], parallelism: int = 1, **conf: Any) -> BoltDeclarer:
        """Add a bolt; say on the answer what it subscribes to. TopologyError for a bad one."""
        self._check_new(name, parallelism)
        self.bolts[name] = BoltDeclarer(name, make, parallelism, conf)
        return self.bolts[name]

    def create_topology(self) -> Topology:
        """The topology. TopologyError for an unknown component, stream or field, and for a bolt that nobody feeds."""
        if not self.spouts:
            raise TopologyError("the topology has no spout, so nothing would ever happen. Add one with set_spout.")
        components = {
            name: Component(name, make, parallelism, _inspected(name, make, Spout), True, (), conf)
            for name, (make, parallelism, conf) in self.spouts.items()
        }
        for name, bolt in self.bolts.items():
            streams = _inspected(name, bolt.make, Bolt)
            components[name] = Component(
                name, bolt.make, bolt.parallelism, streams, False, tuple(bolt.groupings), bolt.conf
            )
        for name, bolt in self.bolts.items():
            if not bolt.groupings:
                raise TopologyError(f"nothing feeds bolt {name!r}. Subscribe it, such as with .shuffle_grouping('...').")
            for grouping in bolt.groupings:
                _check_subscription(name, grouping, components)
        return Topology(components)

    def _check_new(self, name: str, parallelism: int) -> None:
        if not isinstance(name, str) or not name or name.startswith("__"):
            raise TopologyError(
                f"a component's name is {name!r:.60}, expected a text that does not begin with '__', "
                f"as {ACKER_COMPONENT_ID} and its like are Storm's own."
            )
        if name in self.spouts or name in self.bolts:
            raise TopologyError(f"there are two components with the name {name!r}. Give one of them another name.")
        if type(parallelism) is not int or not 1 <= parallelism <= MAX_TASKS:
            raise TopologyError(f"{name}: parallelism is {parallelism!r:.40}, expected 1 to {MAX_TASKS:,} tasks.")


def make_one(name: str, make: Callable[[], Any], kind: type) -> Any:
    """A new object for one task. TopologyError when it cannot be made or is no spout or bolt."""
    try:
        made = make()
    except Exception as error:
        raise TopologyError(
            f"{name}: making a {kind.__name__} raised {type(error).__name__}: {str(error)[:200]}. Storm makes one for each "
            "task, without arguments: give a class that has all its methods, or a function, such as "
            f"lambda: {_called(make)}(...)."
        ) from error
    if not isinstance(made, kind):
        raise TopologyError(
            f"{name}: {_called(make)} makes {made!r:.60}, expected a {kind.__name__}. "
            f"Subclass kitlib.more.topology.{kind.__name__}, and return an object of it."
        )
    return made


def _inspected(name: str, make: Callable[[], Any], kind: type) -> Streams:
    """The output fields of what `make` makes. TopologyError when that cannot run as a spout or bolt."""
    made = make_one(name, make, kind)
    for method in CALLED_BY_STORM:
        code = getattr(made, method, None)
        if inspect.isgeneratorfunction(code) or inspect.iscoroutinefunction(code):
            raise TopologyError(
                f"{name}: {type(made).__name__}.{method} has a yield or is async, so that calling it does nothing. "
                "Write a plain method, and send with self.collector.emit([...])."
            )
    return Streams.of(name, made.output_fields)


def _called(make: Callable[[], Any]) -> str:
    return getattr(make, "__name__", type(make).__name__)


def _check_subscription(bolt: str, grouping: Grouping, components: Mapping[str, Component]) -> None:
    source = components.get(grouping.component)
    if source is None:
        raise TopologyError(
            f"bolt {bolt!r} subscribes to {grouping.component!r}, which the topology has not. "
            f"Its components are {', '.join(components)}."
        )
    fields = source.streams.fields.get(grouping.stream)
    if fields is None:
        known = ", ".join(source.streams.fields) or "none"
        raise TopologyError(
            f"bolt {bolt!r} subscribes to stream {grouping.stream!r} of {grouping.component!r}, which has no such "
            f"stream. Its streams are {known}; set output_fields."
        )
    for name in grouping.fields:
        if name not in fields:
            raise TopologyError(
                f"bolt {bolt!r} groups {grouping.component!r} by the field {name!r}, which it has not. "
                f"Its fields are {', '.join(fields)}."
            )
