"""A topology as it is declared: components, their parallelism, and who subscribes to whom.

    builder = TopologyBuilder()
    builder.set_spout("sentences", SentenceSpout)
    builder.set_bolt("split", SplitSentence, 2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount, 4).fields_grouping("split", ["word"])
    topology = builder.create_topology()

Declared is what a mistake can be told of before anything runs: an unknown component, stream or field,
a bolt that nobody feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kitlib.storm.acker import ACKER_COMPONENT_ID, bounds_of
from kitlib.storm.topology.components import DEFAULT_STREAM, Bolt, Spout, Streams, TopologyError
from kitlib.storm.topology.groupings import Grouping, GroupingKind

AckerRelease = Literal["0.9.3", "2.4.0"]


@dataclass(slots=True)
class TopologyConfig:
    """The settings of a topology, with Storm 0.9.3's defaults where Storm has the setting.

    Source: Storm 0.9.3, `backtype.storm.Config`, conf/defaults.yaml.
    Differs: times of the simulated network and of a restart; ids of fewer bits; which release's acker.
    """

    topology_ackers: int = 1  # tasks; 0: a tuple counts as acked when it is emitted
    topology_message_timeout_secs: int = 30  # the period of the ticks; a tuple times out after one to two of them
    topology_enable_message_timeouts: bool = True  # False: no ticks, and what is lost stays pending for ever
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
        rules: tuple[tuple[str, int, int], ...] = (
            ("topology_ackers", self.topology_ackers, 0),
            ("topology_message_timeout_secs", self.topology_message_timeout_secs, 1),
            ("transfer_ms", self.transfer_ms, 1),
            ("transfer_jitter_ms", self.transfer_jitter_ms, 0),
            ("restart_ms", self.restart_ms, 1),
        )
        for name, value, least in rules:
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise TopologyError(f"{name} is {value!r:.40}, expected a whole number from {least} on.")
        if self.topology_max_spout_pending is not None and self.topology_max_spout_pending < 1:
            raise TopologyError(
                f"topology_max_spout_pending is {self.topology_max_spout_pending}, expected 1 or more, or None for no bound."
            )
        bounds_of(self.id_bits)
        bounds_of(self.root_id_bits)


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
        return self._add("fields", component, stream, [fields] if isinstance(fields, str) else fields)

    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Each tuple to every task."""
        return self._add("all", component, stream)

    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Every tuple to the task with the lowest id."""
        return self._add("global", component, stream)

    def _add(self, kind: GroupingKind, component: str, stream: str, fields: Sequence[str] = ()) -> BoltDeclarer:
        self.groupings.append(Grouping(kind, component, stream, tuple(fields)))
        return self


@dataclass(slots=True)
class TopologyBuilder:
    """Collects components and checks them all at once."""

    spouts: dict[str, tuple[Callable[[], Spout], int, Mapping[str, Any]]] = field(default_factory=dict)
    bolts: dict[str, BoltDeclarer] = field(default_factory=dict)

    def set_spout(self, name: str, make: Callable[[], Spout], parallelism: int = 1, **conf: Any) -> None:
        """Add a spout; `make` is its class, or a function that makes one for each task. TopologyError for a bad one."""
        self._check_new(name, make, parallelism)
        self.spouts[name] = (make, parallelism, conf)

    def set_bolt(self, name: str, make: Callable[[], Bolt], parallelism: int = 1, **conf: Any) -> BoltDeclarer:
        """Add a bolt; say on the answer what it subscribes to. TopologyError for a bad one."""
        self._check_new(name, make, parallelism)
        self.bolts[name] = BoltDeclarer(name, make, parallelism, conf)
        return self.bolts[name]

    def create_topology(self) -> Topology:
        """The topology. TopologyError for an unknown component, stream or field, and for a bolt that nobody feeds."""
        if not self.spouts:
            raise TopologyError("the topology has no spout, so nothing would ever happen. Add one with set_spout.")
        components = {
            name: Component(name, make, parallelism, _streams(name, make, Spout), True, (), conf)
            for name, (make, parallelism, conf) in self.spouts.items()
        }
        for name, bolt in self.bolts.items():
            streams = _streams(name, bolt.make, Bolt)
            components[name] = Component(
                name, bolt.make, bolt.parallelism, streams, False, tuple(bolt.groupings), bolt.conf
            )
        for name, bolt in self.bolts.items():
            if not bolt.groupings:
                raise TopologyError(f"nobody feeds bolt {name!r}. Subscribe it, such as with .shuffle_grouping('...').")
            for grouping in bolt.groupings:
                _check_subscription(name, grouping, components)
        return Topology(components)

    def _check_new(self, name: str, make: object, parallelism: int) -> None:
        if not isinstance(name, str) or not name or name.startswith("__"):
            raise TopologyError(
                f"a component's name is {name!r:.60}, expected a text that does not begin with '__', "
                f"as {ACKER_COMPONENT_ID} and its like are Storm's own."
            )
        if name in self.spouts or name in self.bolts:
            raise TopologyError(f"there are two components with the name {name!r}. Give one of them another name.")
        if not callable(make):
            raise TopologyError(
                f"{name}: expected a class or a function that makes one for each task, got {make!r:.60}. "
                f"Give {type(make).__name__} instead of an object of it."
            )
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or not 1 <= parallelism <= 1_000:
            raise TopologyError(f"{name}: parallelism is {parallelism!r:.40}, expected 1 to 1,000 tasks.")


def _streams(name: str, make: Callable[[], Any], kind: type) -> Streams:
    """The output fields of what `make` makes. TopologyError when that is no spout or bolt."""
    is_class = isinstance(make, type)
    made: Any = make if is_class else make()
    if not (issubclass(made, kind) if is_class else isinstance(made, kind)):
        raise TopologyError(
            f"{name}: {made!r:.60} is no {kind.__name__}. Subclass kitlib.storm.topology.{kind.__name__}."
        )
    return Streams.of(name, made.output_fields)


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
    if grouping.kind == "fields" and not grouping.fields:
        raise TopologyError(f"bolt {bolt!r}: a fields grouping on {grouping.component!r} needs a field. It has {fields}.")
    for name in grouping.fields:
        if name not in fields:
            raise TopologyError(
                f"bolt {bolt!r} groups {grouping.component!r} by the field {name!r}, which it has not. "
                f"Its fields are {', '.join(fields)}."
            )
