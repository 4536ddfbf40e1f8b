"""A record's way from `send` to the log: who does what, what crosses between them, and where each batch is.

The body has a lane for each actor of the stage. The steps that the source counts have its numbers. The panel is the path after
the step as a table, a row for each partition; below it gauges say how much of the buffer memory is taken, and when the metadata
may be asked for and will be.

The model writes its path into every state. A real client shows only what was seen of it, so there the same is put together from
the words: a record is in a batch from its send to its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.settings import Settings
from kitlib.trace import Step, Trace
from kitlib.views.scene import Scene
from kitlib.views.scenes.lanes import Lanes, Spell
from kitlib.views.scenes.table import Cell, Line, Table, draw_gauge
from kitlib.views.scenes.timeline import Bar, compose, places
from kitlib.views.stage.producers import node_of
from kitlib.views.svg import Svg
from kitlib.words.glyphs import (
    BAR,
    BLUE,
    CHECK,
    CROSSED_SQUARE,
    DIAMOND,
    DISC,
    GREEN,
    ORANGE,
    PINK,
    PLAY,
    RED,
    SKY,
    SMALL_CROSS,
    SQUARE,
    Glyph,
)
from kitlib.words.template import count

PARTS = {
    "all": "Where is each batch, and when is the metadata asked for again?",
    "clock": "When may the metadata be asked for, and when is it?",
}
MAX_BACKOFF_MS = 1_000  # Kafka's own
MOST_QUEUES, MOST_BATCHES = 4, 4  # partitions that are shown, and batches of one
SIGNS = {
    "call": Glyph("a call of send", PLAY, "ink", 0.8, SKY),
    "delivered": Glyph("the application is notified: stored", CHECK, BLUE, 2.4),
    "undelivered": Glyph("the application is notified: failed", SMALL_CROSS, RED, 2.4),
    "request_update": Glyph("metadata is wanted", DIAMOND, ORANGE, 2, "paper"),
    "update": Glyph("metadata has come", DISC, "ink", 0.8, GREEN),
    "failed_update": Glyph("metadata could not be had", SMALL_CROSS, RED, 2.4),
    "disconnected": Glyph("a connection is gone, or not to be had", CROSSED_SQUARE, RED, 1.6, "paper"),
    "requeue": Glyph("a batch comes back for a retry", SQUARE, "ink", 0.8, RED),
    "write": Glyph("a batch is written", SQUARE, "ink", 0.8, BLUE),
    "recognise": Glyph("a batch is recognised as written before", SQUARE, "ink", 0.8, PINK),
    "refuse": Glyph("a batch is refused", CROSSED_SQUARE, RED, 1.6, "paper"),
    "move_leader": Glyph("another broker leads", DIAMOND, "ink", 0.8, GREEN),
    "exit": Glyph("the process ends", BAR, RED, 3),
}
SAME = {"leader": "update", "expire": "undelivered", "fault": "disconnected"}
OWN_LANES = ("user", "accumulator", "sender")
OF_CLOCK = ("call", "request_update", "update", "failed_update", "disconnected")


@dataclass(slots=True)
class Path:
    """Where everything is after a step."""

    calls: dict[int, str] = field(default_factory=dict)  # record -> what its call waits for
    queues: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)  # partition -> batch -> records, attempts before
    in_flight: dict[int, tuple[str, int]] = field(default_factory=dict)  # batch -> partition, records
    stored: dict[str, int] = field(default_factory=dict)  # partition -> records in the log
    memory: tuple[int, int, int] | None = None  # available, total, waiting calls; None: not known

    def take(self, step: Step) -> None:
        """Follow one step by its words."""
        data, partition, batch = step.data, str(step.data.get("partition", 0)), step.data.get("batch")
        records = data.get("last", 0) - data.get("first", 0) + 1
        match step.what:
            case "blocked" if "record" in data:
                self.calls[data["record"]] = str(data.get("on", "metadata"))
            case "returned":
                self.calls.pop(data.get("record", -1), None)
            case "send":
                self.calls.pop(data.get("record", data["first"]), None)
                if batch is not None:
                    queue = self.queues.setdefault(partition, {})
                    queue[batch] = queue.get(batch, (0, 0))[0] + records, 0
            case "request" if batch is not None:
                self.queues.get(partition, {}).pop(batch, None)
                self.in_flight[batch] = partition, records
            case "requeue" if batch is not None:
                self.in_flight.pop(batch, None)
                self.queues.setdefault(partition, {})[batch] = records, 1
            case "answer" | "no_answer" | "delivered" | "undelivered" | "expire" if batch is not None:
                self.in_flight.pop(batch, None)
                self.queues.get(partition, {}).pop(batch, None)
            case "write":
                self.stored[partition] = max(self.stored.get(partition, 0), data["offset"] + records)

    def read(self, told: Mapping[str, Any]) -> None:
        """Take what the model says."""
        self.calls = dict(told["calls"])
        self.queues = {
            str(name): {batch: (records, attempts) for batch, records, _, attempts in queue} for name, queue in told["queues"].items()
        }
        self.in_flight = {batch: (str(name), records) for _, batch, name, records, _ in told["in_flight"]}
        self.stored, self.memory = dict(told["stored"]), tuple(told["memory"])

    def rows(self) -> list[Line]:
        """The table: for each partition what waits, what is in flight and what is stored."""
        found = []
        for name in dict.fromkeys([*self.queues, *self.stored, *(name for name, _ in self.in_flight.values())]):
            waits = [
                Cell("again" if tries else "waits", f"×{records:,}", f"batch {batch}", f"batch:{batch}")
                for batch, (records, tries) in self.queues.get(name, {}).items()
            ]
            flies = [
                Cell("in flight", f"×{records:,}", f"batch {batch}", f"batch:{batch}")
                for batch, (where, records) in self.in_flight.items()
                if where == name
            ]
            ends = self.stored.get(name, 0)
            found.append(Line(f"partition {name}", [waits, flies, [Cell("stored", f"{ends:,}")] if ends else []]))
        return found

    def words(self, clock: Mapping[str, Any] | None) -> str:
        """The panel in words."""
        waiting = sum(records for queue in self.queues.values() for records, _ in queue.values())
        flying = sum(records for _, records in self.in_flight.values())
        told = f"{count(len(self.calls), 'call')} blocked; {count(waiting, 'record')} in queues, {flying} in flight, "
        told += f"{sum(self.stored.values())} in the log."
        return told if clock is None else f"{told} The metadata, {clock_words(clock)}."


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "clock" shows what has to do with metadata only."""
    xs = places(trace)
    known = SIGNS | {what: SIGNS[like] for what, like in SAME.items()}
    signs = known if part == "all" else {what: known[what] for what in (*OF_CLOCK, "leader", "fault")}
    lanes = Lanes(trace, xs, signs, _lane_of, blocked(trace, xs), lambda step: step.data.get("stage"))
    rows = max((len(path.rows()) for path in paths(trace)), default=1)
    table = Table(("in the accumulator", "in flight", "in the log"), (MOST_BATCHES, 2, 1), min(MOST_QUEUES, rows))
    panels = _panels(trace, table if part == "all" else None)
    numbers = lanes.number_legend("one of the nine steps of a first send")
    legend = [*numbers, *lanes.legend(), *(table.legend() if part == "all" else [])]
    has_clock = any("clock" in step.state for step in trace.steps)
    tall = (table.tall + 62 if part == "all" else 0) + (66 if has_clock else 0)
    return compose(trace, xs, "From send to the log", PARTS[part], [lanes], panels, tall, legend, top=2)


def _lane_of(step: Step) -> str:
    """Who takes a step, on the stage: what is done to metadata and connections the sender does."""
    if step.what == "send":
        return "accumulator"
    return step.actor if step.actor in OWN_LANES else node_of(step) if step.actor == "broker" else "sender"


def blocked(trace: Trace, xs: Sequence[float]) -> list[Spell]:
    """From where to where which call of send blocks."""
    since: dict[Any, float] = {}
    found: list[Spell] = []
    for step, x in zip(trace, xs, strict=True):
        record = step.data.get("record")
        if step.what == "blocked" and record is not None:
            since[record] = x
        elif step.what in ("returned", "send") and record in since:
            found.append(("user", Bar(since.pop(record), x, "blocked", f"send of record {record}"), f"call:{record}"))
    return found


def paths(trace: Trace) -> Iterator[Path]:
    """The path after each step: the same object, as it is then."""
    path = Path()
    for step in trace:
        told = step.state.get("path")
        path.read(told) if isinstance(told, dict) else path.take(step)
        yield path


def _panels(trace: Trace, table: Table | None) -> Iterator[tuple[list[Svg], str]]:
    """The table after each step with the gauges below it, and both in words."""
    for step, path in zip(trace.steps, paths(trace), strict=True):
        clock, pieces, y = step.state.get("clock"), list[Svg](), 0.0
        if table is not None:
            calls = ", ".join(f"send of record {record} waits for {what}" for record, what in [*path.calls.items()][:3]) or "no call blocks"
            pieces, y = [*table.draw(path.rows()), table.note(calls)], table.tall + 24
            if path.memory is not None:
                available, total, waiting = path.memory
                told = f"{total - available:,} of {total:,} bytes taken" + (f", {waiting} waiting" if waiting else "")
                pieces.append(draw_gauge("memory", (total - available) / max(1, total), told, RED if waiting else SKY, y))
                y += 36
        if isinstance(clock, dict):
            pieces += draw_clock(clock, trace.settings, y)
        yield pieces, path.words(clock)


def draw_clock(clock: Mapping[str, Any], settings: Settings, y: float) -> list[Svg]:
    """How long the metadata still holds, and how long it may not be asked for: two gauges that run out."""
    longest_ms = max(settings.retry_backoff_ms, MAX_BACKOFF_MS if settings.release != "0.10" else 0, 1)
    allowed = f"may be asked for in {clock['allow_ms']:,} ms" if clock["allow_ms"] else "may be asked for at once"
    return [
        draw_gauge("metadata", clock["expire_ms"] / max(settings.metadata_max_age_ms, 1), clock_words(clock), BLUE, y),
        draw_gauge("", clock["allow_ms"] / longest_ms, allowed, ORANGE, y + 30),
    ]


def clock_words(clock: Mapping[str, Any]) -> str:
    """When the metadata is asked for."""
    wanted = ("a new topic is wanted" if clock["partial"] else "news is wanted") if clock["need_update"] else "nothing is wanted"
    when = f"is asked for in {clock['next_ms']:,} ms at the latest" if clock["next_ms"] else "is asked for now"
    when = "is asked for: the answer is awaited" if clock["in_progress"] else when
    leader = "no leader known" if clock["leader"] is None else f"leader {clock['leader']}"
    failures = f", {clock['attempts']} failures" if clock["attempts"] else ""
    return f"version {clock['version']}, {leader}, {wanted}{failures}: {when}"
