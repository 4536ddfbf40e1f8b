"""The parts a topology is written with: spouts, bolts, tuples, and the collectors that they call.

A spout emits tuples with a message id and is notified of each one's end, once: `ack` when the whole tree
that grew from it was processed, `fail` when a part of it failed or took too long. For this, a bolt has
two duties. It *anchors* each tuple it sends to the tuple it came from, which makes it a part of the
tree; and it acks or fails each tuple it receives. A `BasicBolt` gets both done for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kitlib.errors import KitError

_AS_THEY_ARE = frozenset({int, float, bool, type(None)})


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
    ids: dict[int, int]  # root id -> this tuple's id in that tree
    ack_val: int = 0  # the XOR of the ids of all tuples anchored to this one so far
    holder: Any = None  # the OutputCollector of the task that was given it, and of no later life of that task
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


class Clock:
    """The time of a run, and who is told what happens in it: the task, the word, and its data."""

    def __init__(self, observer: Callable[[str, str, dict[str, Any]], None]) -> None:
        self.now_ms, self.observer = 0, observer
        self.raised_by_observer: BaseException | None = None

    def tell(self, actor: str, what: str, **data: Any) -> None:
        """Pass on to the observer what happened. What it raises ends the run, whoever was at work."""
        try:
            self.observer(actor, what, data)
        except BaseException as error:
            self.raised_by_observer = error
            raise


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
        return f"{self.component}-{self.task_id}"

    @property
    def now_ms(self) -> int:
        """The run's time."""
        return self.clock.now_ms

    def note(self, what: str, **data: Any) -> None:
        """Write a step into the run's trace, with this task as its actor."""
        self.clock.tell(self.task, what, **data)


class _Part(ABC):
    """What a topology is made of."""

    output_fields: ClassVar[Sequence[str]] = ()
    context: TopologyContext


class Spout(_Part):
    """A source of tuples. Subclass it, say which fields it sends, and write `next_tuple`.

    `self.context` and `self.collector` are there from `open` on, also when a subclass writes its own.
    Source: Storm 0.9.3, `backtype.storm.spout.ISpout`.
    Differs: `is_retried` and `crashed` are for the trace, and for what others notice when its process dies; `conf` is empty.
    """

    collector: Any  # a SpoutOutputCollector, through which it emits

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: Any) -> None:
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
    Differs: how long it takes is declared, as time is virtual; `conf` is empty.
    """

    execute_ms: int = 1
    collector: Any  # an OutputCollector, through which it sends, acks and fails

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: Any) -> None:
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

    collector: Any
    given: Tuple

    def emit(self, values: Sequence[Any]) -> list[int]:
        """As OutputCollector.emit, anchored; the task ids that get it."""
        task_ids: list[int] = self.collector.emit(values, anchors=self.given)
        return task_ids


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


def checked_fields(component: str, names: object) -> tuple[str, ...]:
    """What `output_fields` may be. TopologyError for anything but different names."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise TopologyError(
            f"{component}: output_fields are {names!r:.60}, expected a tuple of different names, such as ('word',). Mind the comma."
        )
    return tuple(names)


def short(values: Sequence[Any]) -> list[Any]:
    """Values as a trace may hold them: numbers and short texts."""
    return [value if type(value) in _AS_THEY_ARE else str(value)[:40] for value in values]
