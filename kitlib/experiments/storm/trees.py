"""The topologies of the stories about trees: a record that grows level by level, and a join that makes a DAG of it.

    events -> split1 -> split2 -> ... -> store            each split makes `fan_out` tuples of one
    events -> split1 -> ... -> join -> store              the join makes one tuple of the `fan_out` of one parent

The last bolt stores: what it does to a tuple is the effect that a verdict counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kitlib.experiments.storm.topology_story import SPOUT, TopologyStory
from kitlib.more.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Fault,
    OutputCollector,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyContext,
    TopologyRun,
    Tuple,
)
from kitlib.settings import Settings

STORE = "store"
FIELDS = ("offset", "part")  # the record, and which piece of it this tuple is


class _Timed:
    """A bolt whose work takes as long as the knob says now."""

    def __init__(self, story: TopologyStory) -> None:
        self.story = story

    @property
    def execute_ms(self) -> int:
        return int(self.story.settings.execute_ms)


class Split(_Timed, Bolt):  # type: ignore[override]  # how long it takes is asked anew for each tuple
    """Makes `fan_out` tuples of one; forgets to anchor them when the knob says so."""

    output_fields = FIELDS

    def execute(self, given: Tuple) -> None:
        fan_out, is_anchored = self.story.settings.fan_out, self.story.settings.anchored
        for piece in range(fan_out):
            values = (given["offset"], given["part"] * fan_out + piece)
            self.collector.emit(values, anchors=given if is_anchored else ())
        self.collector.ack(given)


class Join(_Timed, Bolt):  # type: ignore[override]  # as above
    """Waits for the `fan_out` tuples of one parent, sends one tuple anchored to all of them, and acks them together."""

    output_fields = FIELDS

    def prepare(self, conf: Any, context: TopologyContext, collector: OutputCollector) -> None:
        super().prepare(conf, context, collector)
        self.waiting: dict[tuple[int, int], dict[int, Tuple]] = {}  # (offset, parent's part) -> part -> tuple

    def execute(self, given: Tuple) -> None:
        fan_out = self.story.settings.fan_out
        parent = given["offset"], given["part"] // fan_out
        pieces = self.waiting.setdefault(parent, {})
        pieces[given["part"]] = given  # a replay's tuple takes the place of the one that it repeats
        if len(pieces) == fan_out:
            anchors = list(self.waiting.pop(parent).values())
            self.collector.emit(parent, anchors=anchors if self.story.settings.anchored else ())
            for piece in anchors:
                self.collector.ack(piece)


class Store(_Timed, BasicBolt):  # type: ignore[override]  # as above
    """Does what the topology is for, and tells the trace of it."""

    def process(self, given: Tuple, collector: BasicOutputCollector) -> None:
        self.context.note("process", offset=given["offset"], part=given["part"])


def tree_topology(story: TopologyStory, spout: Callable[[], Spout]) -> Topology:
    """The topology that the knobs describe, with this spout."""
    settings = story.settings
    tasks = settings.parallelism
    builder = TopologyBuilder()
    builder.set_spout(SPOUT, spout)
    last = SPOUT
    for level in range(1, settings.depth + 1):
        builder.set_bolt(f"split{level}", lambda: Split(story), tasks).shuffle_grouping(last)
        last = f"split{level}"
    if settings.join and last != SPOUT:
        builder.set_bolt("join", lambda: Join(story), tasks).fields_grouping(last, ["offset"])
        last = "join"
    builder.set_bolt(STORE, lambda: Store(story), tasks).shuffle_grouping(last)
    return builder.create_topology()


def effects_per_record(settings: Settings) -> int:
    """How many tuples of one record reach the last bolt."""
    depth = int(settings.depth)
    levels = depth - 1 if settings.join and depth else depth
    return int(settings.fan_out**levels)


def begin(
    story: TopologyStory, faults: Callable[[], Sequence[Fault]] = tuple, source: str = "kafka", **config: Any
) -> TopologyRun:
    """Records in a topic, and the topology of the knobs that reads them, from the topic itself or from a queue."""
    story.append([b"record %d" % number for number in range(story.settings.records)], parts=effects_per_record(story.settings))
    spout = story.kestrel_spout if source == "kestrel" else story.kafka_spout
    return story.start(tree_topology(story, spout(FIELDS, lambda record: (record.offset, 0))), faults, **config)


def drain(story: TopologyStory, after_ms: int = -1) -> None:
    """Let the topology run until, later than `after_ms`, every record is finished, or for as long as that may take; then end it."""
    patience_ms = 60_000 + 10_000 * story.settings.topology_message_timeout_secs  # some timeouts after the last work
    story.run_for(patience_ms, until=lambda: story.now_ms > after_ms and story.is_done())
    story.stop()


def planted(settings: Settings) -> list[Fault]:
    """The faults of the last bolt that the knobs name; the last bolt that sends is the one that forgets to anchor."""
    found = []
    if settings.fail_percent:
        found.append(Fault("fail", STORE, percent=settings.fail_percent))
    kind, depth = settings.fault, settings.depth
    if kind == "unanchored" and depth:
        sender = "join" if settings.join else f"split{depth}"
        found.append(Fault(kind, sender, nth=(settings.fault_nth,)))
    elif kind not in ("none", "unanchored"):
        found.append(Fault(kind, STORE, nth=(settings.fault_nth,)))
    return found
