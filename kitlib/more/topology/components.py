"""The parts a topology is written with: spouts, bolts, tuples, and the collectors that they call.

A spout emits tuples with a message id and is notified of each one's end, once: `ack` when the whole tree
that grew from it was processed, `fail` when a part of it failed or took too long. For this, a bolt has
two duties. It *anchors* each tuple it sends to the tuple it came from, which makes it a part of the
tree; and it acks or fails each tuple it receives. A `BasicBolt` gets both done for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Protocol

from kitlib.errors import KitError

DEFAULT_STREAM = "default"
_AS_THEY_ARE = frozenset({int, float, bool, type(None)})

OutputFields = Sequence[str] | Mapping[str, Sequence[str]]  # of the default stream, or by stream


class TopologyError(KitError):
    """A topology, or what one of its components does, is not what Storm allows."""


@dataclass(slots=True, eq=False)
class Tuple:
    """Named values on their way to one task.

    `ids` are the tuple's ids by the root of each tree that it belongs to; empty when it is in none.
    """

    number: int  # unique in the run
    values: list[Any]
    fields: tuple[str, ...]
    source_component: str
    source_task: int
    stream: str
    ids: dict[int, int]  # root id -> this tuple's id in that tree
    ack_val: int = 0  # the XOR of the ids of all tuples anchored to this one so far
    holder: OutputCollector | None = None  # of the task that was given it, and of no later life of that task
    is_acked: bool = False  # its holder has acked it at least once

    def __getitem__(self, name: str) -> Any:
        """The value of a field. TopologyError when the tuple has no such field."""
        try:
            return self.values[self.fields.index(name)]
        except ValueError:
            raise TopologyError(
                f"tuple {self.number} of {self.source_component} has no field {name!r}. "
                f"Its fields are {', '.join(self.fields)}."
            ) from None

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in zip(self.fields, self.values, strict=True))
        return f"<Tuple {self.number} from {self.source_component}-{self.source_task}: {told}>"


class Clock(Protocol):
    """The run, as its components see it."""

    now_ms: int

    def tell(self, actor: str, what: str, **data: Any) -> None:
        """Something happened that the trace should hold."""
        ...


@dataclass(frozen=True, slots=True)
class TopologyContext:
    """Where a component's task finds itself."""

    component: str
    task_id: int  # unique in the topology
    task_index: int  # among the component's own tasks, from 0
    clock: Clock

    @property
    def task(self) -> str:
        """The task's name, such as "split-2"."""
        return task_name(self.component, self.task_id)

    @property
    def now_ms(self) -> int:
        """The run's time."""
        return self.clock.now_ms

    def note(self, what: str, **data: Any) -> None:
        """Write a step into the run's trace, with this task as its actor."""
        self.clock.tell(self.task, what, **data)


def task_name(component: str, task_id: int) -> str:
    """How a task is called in traces."""
    return f"{component}-{task_id}"


class SpoutOutputCollector(Protocol):
    """Through which a spout emits tuples."""

    def emit(self, values: Sequence[Any], message_id: Any = None, stream: str = DEFAULT_STREAM) -> list[int]:
        """Send a tuple; the task ids that get it. Without a message id nobody follows its tree.

        TopologyError for an unknown stream, another number of values than the stream has fields, and when
        the task has died or the run is closed.
        """
        ...


class OutputCollector(Protocol):
    """Through which a bolt sends tuples, and acks and fails those that it was given."""

    def emit(
        self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] = (), stream: str = DEFAULT_STREAM
    ) -> list[int]:
        """Send a tuple, anchored to one tuple, to several (its trees become one DAG) or to none.

        TopologyError as SpoutOutputCollector.emit, and for an anchor that this task was not given.
        """
        ...

    def ack(self, given: Tuple) -> None:
        """This tuple is done. A second ack is sent like the first. TopologyError for one that was not given."""
        ...

    def fail(self, given: Tuple) -> None:
        """This tuple's trees have failed. TopologyError for one that was not given."""
        ...

    def reset_timeout(self, given: Tuple) -> None:
        """Ask for another timeout for this tuple's trees; later releases of the acker only."""
        ...


class _Part(ABC):
    """What a topology is made of."""

    output_fields: ClassVar[OutputFields] = ()
    context: TopologyContext


class Spout(_Part):
    """A source of tuples. Subclass it, say which fields it sends, and write `next_tuple`.

    `self.context` and `self.collector` are there from `open` on, also when a subclass writes its own.
    Source: Storm 0.9.3, `backtype.storm.spout.ISpout`.
    Differs: `is_retried` and `crashed` are for the trace, and for what others notice when its process dies.
    """

    collector: SpoutOutputCollector

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        """The task begins."""
        self.context, self.collector = context, collector

    def close(self) -> None:
        """The topology ends. Nobody calls this when a process dies."""

    @abstractmethod
    def next_tuple(self) -> None:
        """Send the next tuple if there is one; must not wait."""

    def ack(self, message_id: Any) -> None:
        """The tree of this message was processed."""

    def fail(self, message_id: Any) -> None:
        """The tree of this message failed, or was not finished in time."""

    def is_retried(self, message_id: Any) -> bool:
        """Whether a message that has just failed will be emitted again: never by a spout without a `fail`."""
        return type(self).fail is not Spout.fail

    def crashed(self) -> None:
        """The process died: its connections break. Called on the dead object; do only what the other end does."""


class Bolt(_Part):
    """A step of the processing. Subclass it, say which fields it sends, and write `execute`.

    `execute_ms` is how long one tuple takes, in virtual time. `self.context` and `self.collector` are there
    from `prepare` on, also when a subclass writes its own.
    Source: Storm 0.9.3, `backtype.storm.task.IBolt`.
    Differs: how long it takes is declared, as time is virtual.
    """

    execute_ms: int = 1
    collector: OutputCollector

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """The task begins."""
        self.context, self.collector = context, collector

    @abstractmethod
    def execute(self, given: Tuple) -> None:
        """Work on one tuple: send what follows from it, and ack or fail it, now or later."""

    def cleanup(self) -> None:
        """The topology ends. Nobody calls this when a process dies."""


@dataclass(slots=True)
class BasicOutputCollector:
    """The collector of a `BasicBolt`: what is sent through it is anchored to the tuple being processed."""

    collector: OutputCollector
    given: Tuple

    def emit(self, values: Sequence[Any], stream: str = DEFAULT_STREAM) -> list[int]:
        """As OutputCollector.emit, anchored."""
        return self.collector.emit(values, anchors=self.given, stream=stream)


class FailedError(Exception):
    """A BasicBolt raises it to fail the tuple that it works on."""


class BasicBolt(Bolt):
    """A bolt that anchors and acks by itself. Write `process`; raise FailedError to fail the tuple.

    Source: Storm 0.9.3, `backtype.storm.topology.BasicBoltExecutor`.
    Differs: the method is called `process`, as `execute` is the executor's.
    """

    @abstractmethod
    def process(self, given: Tuple, collector: BasicOutputCollector) -> None:
        """Work on one tuple; it is acked when this returns."""

    def execute(self, given: Tuple) -> None:
        """Call `process`, then ack; fail on FailedError."""
        try:
            self.process(given, BasicOutputCollector(self.collector, given))
        except FailedError:
            self.collector.fail(given)
        else:
            self.collector.ack(given)


@dataclass(frozen=True, slots=True)
class Streams:
    """The output fields of one component, by stream."""

    component: str
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, component: str, declared: OutputFields) -> Streams:
        """From `output_fields`. TopologyError when a name comes twice, is no text, or begins with Storm's own "__"."""
        by_stream = declared if isinstance(declared, Mapping) else ({DEFAULT_STREAM: declared} if declared else {})
        found = {}
        for stream, names in by_stream.items():
            if not isinstance(stream, str) or stream.startswith("__"):
                raise TopologyError(
                    f"{component}: a stream in output_fields is called {stream!r:.60}, expected a text that does not "
                    "begin with '__', as Storm's own streams do. Give it another name."
                )
            if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
                raise TopologyError(
                    f"{component}: output_fields of stream {stream!r} are {names!r:.60}, expected a tuple of names, "
                    "such as ('word',). Mind the comma."
                )
            if len(set(names)) < len(names):
                raise TopologyError(
                    f"{component}: a field of stream {stream!r} comes twice in {', '.join(names)}. Rename one."
                )
            found[stream] = tuple(names)
        return cls(component, found)

    def check(self, stream: str, values: Sequence[Any]) -> tuple[str, ...]:
        """The stream's fields. TopologyError when there is no such stream or the number of values is another."""
        names = self.fields.get(stream)
        if names is None or not isinstance(values, list | tuple) or len(values) != len(names):
            self._refuse(stream, names, values)
        return names

    def _refuse(self, stream: str, names: tuple[str, ...] | None, values: object) -> NoReturn:
        if names is None:
            known = ", ".join(self.fields) or "none: set output_fields"
            raise TopologyError(
                f"{self.component} sends on stream {stream!r:.60}, which it has not. Its streams are {known}."
            )
        wanted = f"expected a list of {len(names)} ({', '.join(names)})"
        if isinstance(values, Tuple):
            raise TopologyError(
                f"{self.component} sends a whole tuple on stream {stream!r}, {wanted}. "
                "The values come first: emit([...], anchors=given)."
            )
        if not isinstance(values, list | tuple):
            raise TopologyError(
                f"{self.component} sends {values!r:.60} on stream {stream!r}, {wanted}. Put it into a list."
            )
        raise TopologyError(
            f"{self.component} sends {len(values)} values on stream {stream!r}, {wanted}. "
            "Send one value for each field, or change output_fields."
        )


def short(values: Sequence[Any]) -> list[Any]:
    """Values as a trace may hold them: numbers and short texts."""
    return [value if type(value) in _AS_THEY_ARE else str(value)[:40] for value in values]
