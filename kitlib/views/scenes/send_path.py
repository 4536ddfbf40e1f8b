"""A record's way from `send` to the log: who of the producer's two threads does what, and where each batch is.

The body has a row for each actor: the user's calls, the metadata, the batches, the sender's loop, the
network and the broker. The steps that the source counts have its numbers. The panel is the pipeline
after the step, with the metadata's clock beside it.

The model writes its path into every state. A real client shows only what was seen of it, so there the
same is put together from the words: a record is in a batch from its send to its answer.

The rows are drawn by hand: a run has thousands of signs, so all of one kind are one path, and messages go from row to row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import cos, pi, sin
from typing import Any

from kitlib.settings import Settings
from kitlib.trace import Step, Trace
from kitlib.views.look import LEFT
from kitlib.views.scene import AXIS_RIGHT, Scene
from kitlib.views.scenes.timeline import Drawn, Item, apart, compose, line_swatch, occurred, places
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, WHITE
from kitlib.words.template import count


@dataclass(frozen=True, slots=True)
class BatchShown:
    """A batch in a queue or in flight."""

    number: int
    records: int
    bytes: int = 0  # 0: not known
    attempts: int = 0  # before this one
    node: int | None = None  # where it is going


@dataclass(frozen=True, slots=True)
class PathShown:
    """The whole path after a step."""

    calls: tuple[tuple[int, str], ...] = ()  # record -> what its call waits for
    queues: tuple[tuple[str, tuple[BatchShown, ...]], ...] = ()  # partition -> its batches, the next one first
    in_flight: tuple[tuple[str, BatchShown], ...] = ()  # partition, batch
    stored: tuple[tuple[str, int], ...] = ()  # partition -> records in the log
    memory: tuple[int, int, int] | None = None  # available, total, waiting calls; None: not known


def paths(trace: Trace) -> Iterator[PathShown]:
    """The path after each step."""
    words = _Words()
    for step in trace.steps:
        words.take(step)
        told = step.state.get("path")
        yield _of_state(told) if isinstance(told, dict) else words.shown()


def _of_state(path: dict[str, Any]) -> PathShown:
    queues = tuple(
        (str(partition), tuple(BatchShown(batch, count, size, attempts) for batch, count, size, attempts in queue))
        for partition, queue in path["queues"].items()
    )
    in_flight = tuple((str(part), BatchShown(batch, count, node=node)) for _, batch, part, count, node in path["in_flight"])
    calls = tuple((record, waits_for) for record, waits_for in path["calls"])
    available, total, waiting = path["memory"]
    return PathShown(calls, queues, in_flight, tuple(path["stored"].items()), (available, total, waiting))


@dataclass(slots=True)
class _Words:
    """The path put together from what was said."""

    calls: dict[int, str] = field(default_factory=dict)
    queues: dict[str, dict[int, int]] = field(default_factory=dict)  # partition -> batch -> records
    in_flight: dict[int, tuple[str, BatchShown]] = field(default_factory=dict)  # batch -> where it is
    stored: dict[str, int] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Follow one step."""
        data, partition = step.data, str(step.data.get("partition", 0))
        batch = data.get("batch")
        count = data.get("last", 0) - data.get("first", 0) + 1
        match step.what:
            case "blocked" if "record" in data:
                self.calls[data["record"]] = str(data.get("on", "metadata"))
            case "returned":
                self.calls.pop(data.get("record", -1), None)
            case "send":
                self.calls.pop(data.get("record", data["first"]), None)
                if batch is not None:
                    queue = self.queues.setdefault(partition, {})
                    queue[batch] = queue.get(batch, 0) + count
            case "request" if batch is not None:
                self.queues.get(partition, {}).pop(batch, None)
                self.in_flight[batch] = partition, BatchShown(batch, count, attempts=data.get("attempt", 0), node=data.get("node"))
            case "requeue" if batch is not None:
                self.in_flight.pop(batch, None)
                self.queues.setdefault(partition, {})[batch] = count
            case "answer" | "no_answer" | "delivered" | "undelivered" | "expire" if batch is not None:
                self.in_flight.pop(batch, None)
                self.queues.get(partition, {}).pop(batch, None)
            case "write":
                self.stored[partition] = max(self.stored.get(partition, 0), data["offset"] + count)

    def shown(self) -> PathShown:
        """The path now."""
        queues = tuple(
            (partition, tuple(BatchShown(batch, count) for batch, count in queue.items()))
            for partition, queue in sorted(self.queues.items())
        )
        return PathShown(tuple(self.calls.items()), queues, tuple(self.in_flight.values()), tuple(sorted(self.stored.items())))


PARTS = {
    "all": "Where is each batch, and when is the metadata asked for again?",
    "clock": "When may the metadata be asked for, and when is it?",
}
HAS_RECORDS = False
ROWS = ("user", "metadata", "accumulator", "sender", "network", "broker")
OF_CLOCK = ("user", "metadata", "network")
ROW_TALL, FIRST_Y = 25, 16
NEAR = 5.0  # signs of one kind that are nearer than this are one
MANY_STEPS, COARSE_MS = 300, 1_000  # in long runs the clock's hands move in such steps

_SQUARE, _DISC = "m-4 -4h8v8h-8Z", "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z"
_CROSS, _CHECK = "m-4 -4l8 8m0 -8l-8 8", "m-5 0l3.5 4l6 -8"
_DIAMOND, _TRIANGLE = "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5Z", "m-4 -5l8 5l-8 5Z"


@dataclass(frozen=True, slots=True)
class Mark:
    """A sign for a kind of step."""

    meaning: str
    d: str  # relative to its place
    colour: str
    is_filled: bool = True

    def draw(self, places: list[tuple[float, float]]) -> Svg:
        """The sign at all its places, as one path."""
        d = "".join(f"M{x:.0f} {y:.0f}{self.d}" for x, y in places)
        if self.is_filled:
            return el("path", d=d, fill=self.colour, stroke=BLACK, stroke_width=0.6)
        return el("path", d=d, fill="none", stroke=self.colour, stroke_width=2.2)

    def swatch(self) -> Svg:
        """For the legend."""
        return self.draw([(13, 9)])


MARKS = {
    "call": Mark("a call of send", _TRIANGLE, SKY),
    "send": Mark("a record goes into a batch", _SQUARE, SKY),
    "delivered": Mark("the application is notified: stored", _CHECK, BLUE, False),
    "undelivered": Mark("the application is notified: failed", _CROSS, RED, False),
    "request_update": Mark("metadata is wanted", _DIAMOND, ORANGE, False),
    "metadata_request": Mark("metadata is asked for", _DIAMOND, ORANGE),
    "update": Mark("metadata has come", _DISC, GREEN),
    "failed_update": Mark("metadata could not be had", _CROSS, RED, False),
    "connect": Mark("a connection is begun", _DISC, ORANGE, False),
    "connected": Mark("a connection stands", _DISC, GREEN),
    "disconnected": Mark("a connection is gone, or not to be had", _CROSS, RED, False),
    "request": Mark("a batch leaves", _TRIANGLE, ORANGE),
    "requeue": Mark("a batch comes back for a retry", _SQUARE, RED),
    "write": Mark("a batch is written", _SQUARE, BLUE),
    "recognise": Mark("a batch is recognised as written before", _SQUARE, PINK),
    "refuse": Mark("a batch is refused", _CROSS, RED, False),
    "move_leader": Mark("another broker leads", _DIAMOND, GREEN),
    "destroy": Mark("a leader is lost for good", "m-5 -5h10v10h-10Zm0 0l10 10m0 -10l-10 10", RED, False),
    "exit": Mark("the process ends", "m0 -9v18", RED, False),
}
SAME = {"leader": "update", "id_request": "metadata_request", "new_batch": "send", "full": "send", "expire": "undelivered",
        "fault": "disconnected"}  # fmt: skip


CLOCK_LEGEND = [
    (el("path", d="M3 15A10 10 0 0 1 23 15", fill="none", stroke=colour, stroke_width=5), meaning)
    for colour, meaning in ((BLUE, "outer arc: until what is known is too old"), (ORANGE, "inner arc: until it may be asked for"))
]


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "clock" shows what has to do with metadata only."""
    rows = ROWS if part == "all" else OF_CLOCK
    xs = places(trace)
    body = _Body(rows, xs)
    for step in trace.steps:
        body.take(step)
    has_clock = any("clock" in step.state for step in trace.steps)
    bodies, legend = [Drawn(len(rows) * ROW_TALL, lambda y: body.drawn())], body.legend() + (CLOCK_LEGEND if has_clock else [])
    return compose(trace, xs, "From send to the log", PARTS[part], bodies, _panels(trace), PANEL_TALL, legend, begin=FIRST_Y, top=2, gap=0)


def _panels(trace: Trace) -> Iterator[tuple[list[Svg], str]]:
    """The pipeline after each step with the clock beside it, and both in words."""
    coarse_ms = COARSE_MS if len(trace) > MANY_STEPS else 1
    for step, path in zip(trace.steps, paths(trace), strict=True):
        clock = step.state.get("clock")
        pieces = draw_pipeline(path)
        if isinstance(clock, dict):
            pieces.append(draw_clock(clock, trace.settings, coarse_ms))
        yield pieces, words_of(path, clock)


def _stage(x: float, y: float, number: int) -> Svg:
    told = el("text", f"{number}", cls="paper", x=x, y=y + 4, text_anchor="middle", font_size=11, font_weight="bold")
    return group(el("circle", cx=x, cy=y, r=8, cls="ink"), told)


@dataclass(slots=True)
class _Body:
    """The rows with their signs, collected step by step."""

    rows: tuple[str, ...]
    xs: list[float]
    found: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # word -> places
    stages: list[tuple[float, float, int]] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)  # from, to: calls that block
    sleeps: list[tuple[float, float]] = field(default_factory=list)  # the loop
    flights: list[tuple[float, float, bool]] = field(default_factory=list)  # from, to, and whether it is an answer
    blocked: dict[int, float] = field(default_factory=dict)  # record -> since
    sent: dict[int, float] = field(default_factory=dict)  # request -> x of its leaving
    written: dict[int, float] = field(default_factory=dict)  # request -> x of the broker's word
    asleep: float | None = None

    def take(self, step: Step) -> None:
        """Put the step's sign where it belongs."""
        x, data = self.xs[step.number], step.data
        if self.asleep is not None:
            self.sleeps.append((self.asleep, x))
            self.asleep = None
        if step.what == "select":
            self.asleep = x if data.get("timeout") else None
        self._follow(step, x)
        row = _row_of(step)
        if row not in self.rows:
            return
        y = float(FIRST_Y + self.rows.index(row) * ROW_TALL)
        stage = data.get("stage")
        if isinstance(stage, int):
            self.stages.append((x, y, stage))
            return
        word = SAME.get(step.what, step.what)
        if word in MARKS:
            known = self.found.setdefault(word, [])
            if not known or x - known[-1][0] >= NEAR or known[-1][1] != y:
                known.append((x, y))

    def _follow(self, step: Step, x: float) -> None:
        data = step.data
        record, request = data.get("record"), data.get("request")
        if step.what == "blocked" and isinstance(record, int):
            self.blocked[record] = x
        elif step.what in ("returned", "send") and record in self.blocked:
            self.waits.append((self.blocked.pop(record), x))
        if not isinstance(request, int) or "sender" not in self.rows:
            return
        if step.what == "request":
            self.sent[request] = x
        elif step.what in ("write", "recognise", "refuse") and request in self.sent:
            self.flights.append((self.sent.pop(request), x, False))
            self.written[request] = x
        elif step.what == "answer" and request in self.written:
            self.flights.append((self.written.pop(request), x, True))

    def drawn(self) -> list[Svg]:
        """Everything, what lies below first."""
        parts = [_name(row, FIRST_Y + number * ROW_TALL) for number, row in enumerate(self.rows)]
        user_y = FIRST_Y
        for begin, end in self.waits:
            parts.append(el("rect", x=begin, y=user_y - 4, width=max(end - begin, 2), height=8, fill=SKY, stroke=BLACK, stroke_width=0.6))
        if "sender" in self.rows:
            y: float = FIRST_Y + self.rows.index("sender") * ROW_TALL
            low = FIRST_Y + self.rows.index("broker") * ROW_TALL
            slept = "".join(f"M{begin:.0f} {y:g}H{end:.0f}" for begin, end in self.sleeps)
            if slept:
                parts.append(el("path", d=slept, cls="grey-line", stroke_width=3))
            for is_answer, colour in ((False, ORANGE), (True, BLUE)):
                d = "".join(
                    f"M{begin:.0f} {low if is_answer else y}L{end:.0f} {y if is_answer else low}"
                    for begin, end, answers in self.flights
                    if answers is is_answer
                )
                if d:
                    parts.append(el("path", d=d, fill="none", stroke=colour, stroke_width=1.2))
        parts += [MARKS[word].draw(places) for word, places in self.found.items()]
        moved = {row: iter(apart([x for x, y, _ in self.stages if y == row], 17)) for _, row, _ in self.stages}
        parts += [_stage(next(moved[y]), y, stage) for _, y, stage in self.stages]
        return parts

    def legend(self) -> list[Item]:
        """What occurred."""
        blocks = el("rect", x=2, y=5, width=22, height=8, fill=SKY, stroke=BLACK, stroke_width=0.6)
        return occurred([
            (self.stages, _stage(13, 9, 1), "one of the nine steps of a first send"),
            *((word in self.found, mark.swatch(), mark.meaning) for word, mark in MARKS.items()),
            (self.waits, blocks, "a call that blocks"),
            (self.sleeps and "sender" in self.rows, line_swatch(cls="grey-line", stroke_width=3), "the sender's loop sleeps"),
        ])


def _row_of(step: Step) -> str:
    return "accumulator" if step.what == "send" else step.actor if step.actor in ROWS else "network"


def _name(row: str, y: float) -> Svg:
    line = el("path", d=f"M108 {y:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.4)
    return group(line, el("text", row, cls="ink", x=LEFT, y=y + 4, font_weight="bold"))


PANEL_TALL = 188
MOST_QUEUES = 4  # partitions that are shown; the others are counted
QUEUE_TALL, FIRST_ROW_Y = 27, 26
CALLS_X, QUEUE_X, FLIGHT_X, LOG_X, END_X = LEFT, 118, 318, 452, 540
BOX_WIDE, BOX_TALL, MOST_BOXES = 42, 20, 4
MEMORY_Y = FIRST_ROW_Y + MOST_QUEUES * QUEUE_TALL + 22
CLOCK_X, CLOCK_Y, EXPIRY_R, BACKOFF_R = 650, 78, 56, 43
MAX_BACKOFF_MS = 1_000  # Kafka's own
NEVER_MS = 2**31 - 1
HEADS = ((CALLS_X, "calls of send"), (QUEUE_X, "queues"), (FLIGHT_X, "in flight"), (LOG_X, "in the log"))


def draw_pipeline(path: PathShown) -> list[Svg]:
    """The pipeline, in pieces that do not change with every step."""
    rows = list(path.queues)
    known = {name for name, _ in rows}
    rows += [(name, ()) for name, _ in path.stored if name not in known]
    pieces = [_HEAD, _draw_calls(path)]
    stored = dict(path.stored)
    for number, (name, queue) in enumerate(rows[:MOST_QUEUES]):
        y = FIRST_ROW_Y + number * QUEUE_TALL
        flying = [batch for where, batch in path.in_flight if where == name]
        pieces.append(_draw_row(y, name, queue, flying, stored.get(name, 0)))
    if len(rows) > MOST_QUEUES:
        told = f"and {len(rows) - MOST_QUEUES} partitions more"
        pieces.append(el("text", told, cls="grey", x=QUEUE_X, y=FIRST_ROW_Y + MOST_QUEUES * QUEUE_TALL + 8, font_size=11))
    if path.memory is not None:
        pieces.append(_draw_memory(*path.memory))
    return pieces


_HEAD = group(
    *(el("text", told, cls="grey", x=x, y=12, font_size=11) for x, told in HEADS),
    el("path", d=f"M{QUEUE_X - 12} 20V{MEMORY_Y - 26}M{FLIGHT_X - 12} 20V{MEMORY_Y - 26}M{LOG_X - 12} 20V{MEMORY_Y - 26}",
       cls="grey-line", stroke_width=0.7),
)  # fmt: skip


def _draw_calls(path: PathShown) -> Svg:
    """Calls that have not returned: each with what it waits for."""
    parts = []
    for number, (record, waits_for) in enumerate(path.calls[:3]):
        y = FIRST_ROW_Y + number * QUEUE_TALL
        title = el("title", f"send of record {record} waits for {waits_for}")
        box = el("rect", title, x=CALLS_X, y=y, width=86, height=BOX_TALL, rx=9, fill=SKY, stroke=BLACK, stroke_width=0.8)
        told = el("text", f"for {waits_for}", x=CALLS_X + 43, y=y + 14, text_anchor="middle", fill=BLACK, font_size=11)
        parts.append(group(box, told, data_ref=f"call:{record}"))
    if not parts:
        parts.append(el("text", "none blocks", cls="grey", x=CALLS_X, y=FIRST_ROW_Y + 14, font_size=11))
    return group(*parts)


def _draw_row(y: int, name: str, queue: tuple[BatchShown, ...], flying: list[BatchShown], stored: int) -> Svg:
    parts = [el("text", f"p{name}", cls="ink", x=QUEUE_X, y=y + 14, font_size=11)]
    parts += _boxes(queue, QUEUE_X + 24, y, SKY, 3 if len(queue) > 3 else MOST_BOXES)
    parts += _boxes(flying, FLIGHT_X, y, ORANGE, 2)
    if stored:
        text = el("text", f"{stored:,}", x=LOG_X + 31, y=y + 14, text_anchor="middle", fill=WHITE, font_size=11)
        parts += [el("rect", x=LOG_X, y=y, width=62, height=BOX_TALL, fill=BLUE, stroke=BLACK, stroke_width=0.8), text]
    else:
        parts.append(el("rect", x=LOG_X, y=y, width=62, height=BOX_TALL, fill="none", cls="grey-line", stroke_width=0.8))
    return group(*parts)


def _boxes(batches: tuple[BatchShown, ...] | list[BatchShown], x: int, y: int, fill: str, most: int) -> list[Svg]:
    """Batches with their numbers of records; a retry has a thick edge and its attempt."""
    parts = []
    for number, batch in enumerate(batches[:most]):
        left = x + number * (BOX_WIDE + 3)
        size = f", {batch.bytes:,} bytes" if batch.bytes else ""
        tried = f", attempt {batch.attempts + 1}" if batch.attempts else ""
        title = el("title", f"batch {batch.number}: {batch.records} records{size}{tried}")
        edge: dict[str, Any] = {"stroke": RED, "stroke_width": 2.4} if batch.attempts else {"stroke": BLACK, "stroke_width": 0.8}
        box = el("rect", title, x=left, y=y, width=BOX_WIDE, height=BOX_TALL, fill=fill, **edge)
        told = el("text", f"×{batch.records:,}", x=left + BOX_WIDE // 2, y=y + 14, text_anchor="middle", fill=BLACK, font_size=11)
        parts.append(group(box, told, data_ref=f"batch:{batch.number}"))
    if len(batches) > most:
        parts.append(el("text", f"+{len(batches) - most:,}", cls="ink", x=x + most * (BOX_WIDE + 3) + 2, y=y + 14, font_size=11))
    return parts


def _draw_memory(available: int, total: int, waiting: int) -> Svg:
    """How much of buffer.memory is taken."""
    taken = total - available
    share = taken / total if total else 1.0
    wide = LOG_X + 62 - QUEUE_X
    told = f"{taken:,} of {total:,} bytes taken" + (f", {waiting} waiting" if waiting else "")
    return group(
        el("text", "memory", cls="grey", x=CALLS_X, y=MEMORY_Y + 10, font_size=11),
        el("rect", x=QUEUE_X, y=MEMORY_Y, width=wide, height=12, fill="none", cls="grey-line", stroke_width=0.8),
        el("rect", x=QUEUE_X, y=MEMORY_Y, width=round(wide * share, 1), height=12, fill=RED if waiting else SKY),
        el("text", told, cls="ink", x=QUEUE_X, y=MEMORY_Y + 26, font_size=11),
    )


def draw_clock(clock: Mapping[str, Any], settings: Settings, coarse_ms: int = 1) -> Svg:
    """When the metadata may be asked for and when it will be, as two arcs that run out."""
    expire_ms, allow_ms, next_ms = (_coarse(clock[name], coarse_ms) for name in ("expire_ms", "allow_ms", "next_ms"))
    longest_ms = max(settings.retry_backoff_ms, MAX_BACKOFF_MS if settings.release != "0.10" else 0, 1)
    parts = [
        el("circle", cx=CLOCK_X, cy=CLOCK_Y, r=EXPIRY_R, fill="none", cls="grey-line", stroke_width=1),
        el("circle", cx=CLOCK_X, cy=CLOCK_Y, r=BACKOFF_R, fill="none", cls="grey-line", stroke_width=1),
        _arc(EXPIRY_R, expire_ms / max(settings.metadata_max_age_ms, 1), BLUE),
        _arc(BACKOFF_R, allow_ms / longest_ms, ORANGE),
    ]
    if clock["in_progress"]:
        big, small = "asked", "answer awaited"
    elif next_ms == 0:
        big, small = "now", "is asked for"
    else:
        big, small = f"{next_ms:,}", "ms to go"
    parts.append(el("text", big, cls="ink", x=CLOCK_X, y=CLOCK_Y + 2, text_anchor="middle", font_size=15, font_weight="bold"))
    parts.append(el("text", small, cls="grey", x=CLOCK_X, y=CLOCK_Y + 18, text_anchor="middle", font_size=11))
    wanted = ("a new topic is wanted" if clock["partial"] else "news is wanted") if clock["need_update"] else "nothing is wanted"
    failures = f", {clock['attempts']} failures" if clock["attempts"] else ""
    leader = "no leader known" if clock["leader"] is None else f"leader {clock['leader']}"
    for y, told, kind in ((150, wanted, "ink"), (166, f"version {clock['version']}, {leader}{failures}", "grey")):
        parts.append(el("text", told, cls=kind, x=CLOCK_X, y=y, text_anchor="middle", font_size=11))
    return group(*parts)


def _arc(radius: int, share: float, colour: str) -> Svg:
    """An arc from the top, clockwise, for a share of the whole."""
    share = round(min(max(share, 0.0), 1.0), 3)
    if share == 0:
        return Svg()
    if share > 0.995:
        return el("circle", cx=CLOCK_X, cy=CLOCK_Y, r=radius, fill="none", stroke=colour, stroke_width=7)
    angle = 2 * pi * share
    x, y = CLOCK_X + radius * sin(angle), CLOCK_Y - radius * cos(angle)
    large = 1 if share > 0.5 else 0
    d = f"M{CLOCK_X} {CLOCK_Y - radius}A{radius} {radius} 0 {large} 1 {x:.1f} {y:.1f}"
    return el("path", d=d, fill="none", stroke=colour, stroke_width=7)


def _coarse(number: int, to: int) -> int:
    return -(-min(number, NEVER_MS) // to) * to


def words_of(path: PathShown, clock: Mapping[str, Any] | None) -> str:
    """The panel in words."""
    waiting = sum(batch.records for _, queue in path.queues for batch in queue)
    flying = sum(batch.records for _, batch in path.in_flight)
    stored = sum(end for _, end in path.stored)
    told = f"{count(len(path.calls), 'call')} blocked; {count(waiting, 'record')} in queues, {flying} in flight, {stored} in the log."
    if clock is None:
        return told
    state = "is asked for" if clock["next_ms"] == 0 else f"is asked for in {clock['next_ms']:,} ms at the latest"
    return f"{told} The metadata, version {clock['version']}, {state}."
