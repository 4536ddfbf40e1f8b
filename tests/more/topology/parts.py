"""Spouts and bolts as a learner writes them, and a watcher that keeps what a run tells."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kitlib.more.topology import (
    BasicBolt,
    Bolt,
    Fault,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyConfig,
    TopologyRun,
    Tuple,
)


@dataclass(frozen=True)
class Event:
    """One thing that a run told."""

    at_ms: int
    actor: str
    what: str
    data: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


@dataclass
class Watch:
    """An observer that keeps everything."""

    events: list[Event] = field(default_factory=list)
    run: TopologyRun | None = None

    def __call__(self, actor: str, what: str, data: dict[str, Any]) -> None:
        self.events.append(Event(self.run.now_ms if self.run else 0, actor, what, data))

    def of(self, what: str, actor: str = "") -> list[Event]:
        """The events of one word, of the tasks whose name begins with `actor`."""
        return [event for event in self.events if event.what == what and event.actor.startswith(actor)]

    def count(self, what: str, **data: Any) -> int:
        """How many events of this word hold these data."""
        return sum(all(event.data.get(name) == value for name, value in data.items()) for event in self.of(what))

    def ages(self) -> tuple[list[int], list[int]]:
        """How old trees were, in ms: those that the spout failed, and those that an acker dropped."""
        emitted = {event["root"]: event.at_ms for event in self.of("emit")}
        begun = {event["root"]: event.at_ms for event in self.of("acker_init")}
        failed = [event.at_ms - emitted[event["root"]] for event in self.of("fail")]
        return failed, [event.at_ms - begun[root] for event in self.of("acker_tick") for root in event["dropped"]]

    def messages(self, what: str) -> list[Any]:
        """The message ids of emit, ack or fail, in order."""
        return [event["message_id"] for event in self.of(what)]

    def effects(self) -> Counter[int]:
        """How often each number was processed by the last bolt."""
        return Counter(event["n"] for event in self.of("process"))


def by_chance(what: str, count: int) -> float:
    """A number in [0, 1) that depends on its arguments alone."""
    return Random(zlib.crc32(f"{what} {count}".encode())).random()


def started(
    topology: Topology, faults: Sequence[Fault] = (), seed: int = 1, **config: Any
) -> tuple[TopologyRun, Watch]:
    """A run of a topology at 0 ms, and who watches it."""
    watch = Watch()
    run = TopologyRun(
        topology, TopologyConfig(**config), rng=Random(seed), chance=by_chance, faults=faults, observer=watch
    )
    watch.run = run
    return run, watch


class Numbers(Spout):
    """Hands out 0, 1, 2, ... and what failed again; a new one begins with `left`, which outlives it."""

    output_fields = ("n",)

    def __init__(self, count: int = 10, *, per_call: int = 1, message_ids: bool = True, every_ms: int = 0) -> None:
        self.left = list(range(count - 1, -1, -1))
        self.per_call, self.message_ids, self.every_ms, self.next_ms = per_call, message_ids, every_ms, 0

    def next_tuple(self) -> None:
        if self.context.now_ms < self.next_ms:
            return
        self.next_ms = self.context.now_ms + self.every_ms
        for _ in range(min(self.per_call, len(self.left))):
            number = self.left.pop()
            self.collector.emit([number], message_id=number if self.message_ids else None)

    def fail(self, message_id: Any) -> None:
        self.left.append(message_id)


class Once(Numbers):
    """Numbers that a failure does not bring again."""

    def fail(self, message_id: Any) -> None:
        pass


class Endless(Numbers):
    """As Numbers, without an end."""

    def __init__(self, **more: Any) -> None:
        super().__init__(0, **more)
        self.next_number = 0

    def next_tuple(self) -> None:
        while len(self.left) < self.per_call:
            self.left.insert(0, self.next_number)
            self.next_number += 1
        super().next_tuple()


class Pass(BasicBolt):
    """Sends on what it gets."""

    output_fields = ("n",)

    def process(self, given: Tuple, collector: Any) -> None:
        collector.emit(given.values)


class Store(BasicBolt):
    """Tells the trace of each number: the effect."""

    def process(self, given: Tuple, collector: Any) -> None:
        self.context.note("process", n=given["n"])


class Slow(Store):
    """As Store, and takes 100 ms for each."""

    execute_ms = 100


class Holder(Bolt):
    """Keeps what it gets and does nothing more about it."""

    output_fields = ("n",)

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def execute(self, given: Tuple) -> None:
        self.held.append(given)


def bolt_that(does: Callable[[Any, Any], object], execute_ms: Any = 1) -> type[Bolt]:
    """A bolt of one function of itself and what it gets."""

    def execute(bolt: Any, given: Tuple) -> None:
        does(bolt, given)

    return type("Does", (Holder,), {"execute": execute, "execute_ms": execute_ms})


class Join(Holder):
    """Waits for `needed` tuples, sends one that is anchored to all of them, and acks them."""

    needed = 2

    def execute(self, given: Tuple) -> None:
        super().execute(given)
        if len(self.held) == self.needed:
            self.collector.emit([self.held[0]["n"]], anchors=self.held)
            for tuple_ in self.held:
                self.collector.ack(tuple_)
            self.held = []


def chain(spout: Callable[[], Spout], *bolts: Callable[[], Bolt], spouts: int = 1) -> Topology:
    """spout -> a -> b -> c ..., each by shuffle, one task each but for the spout."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout, spouts)
    before = "spout"
    for name, bolt in zip("abcdef", bolts, strict=False):
        builder.set_bolt(name, bolt).shuffle_grouping(before)
        before = name
    return builder.create_topology()
