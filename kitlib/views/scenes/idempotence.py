"""A producer's run: what crosses between it and the broker, which batches each side knows, and what the log holds.

The lanes are longer than the picture: a window on them follows the present. Below are, after each step, the batches that wait,
those in flight, those that the broker remembers with what it has just forgotten, and the log. Two producers have rows of their own.

What a step does not say is worked out here: which copy of a record a write makes, and whether the record lies behind one that was
sent later. `kitlib.monitor.producing` counts the same for the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import inf
from typing import Any, NamedTuple

from kitlib.mechanisms.protocol import increment_sequence
from kitlib.settings import Settings
from kitlib.text import plain_text
from kitlib.trace import Step, Trace, from_ranges
from kitlib.views.look import BAR_Y, CELLS, LEFT, LOG_LOOKS, LOOK_OF, STRIP, WIDTH, ZOOM
from kitlib.views.partition.strip import bar_of, cells_of, frame_of, look_of, sign_of, swatch_of
from kitlib.views.scene import MARGIN, Scene
from kitlib.views.scenes.lanes import BROKEN_OFF, Lanes, spread, windowed
from kitlib.views.scenes.timeline import FILLS, Item, draw_fill, fill_legend
from kitlib.views.stage.producers import error_word
from kitlib.views.svg import Svg, el, group, letter_paint
from kitlib.words.glyphs import (
    BLACK,
    BLUE,
    CHECK,
    CLOCK,
    CROSS,
    CROSSED_DISC,
    CROSSED_SQUARE,
    DIAMOND,
    DISC,
    GREEN,
    ORANGE,
    PINK,
    RED,
    SKY,
    SQUARE,
    Glyph,
)
from kitlib.words.idempotence import is_side
from kitlib.words.template import count

PARTS = {
    "all": "What crosses, and what does each side know?",
    "lanes": "What crosses between producer and broker?",
}
Data = dict[str, Any]

SIGNS = {
    "send": Glyph("the application sends records", "M-2 -4.5H2V4.5H-2Z", "ink", 0.8, SKY),
    "request": Glyph("a request leaves", DISC, "ink", 1.2, ORANGE),
    "again": Glyph("the batch is sent again", "M0 -6.5L6 4.5H-6Z", "ink", 1.2, RED),
    "delay": Glyph("delayed in transit", CLOCK, ORANGE, 1.8, "paper"),
    "duplicate_request": Glyph("sent on twice by the network", "M-5 0H-1L5 -5M-1 0L5 5", PINK, 2.4),
    "write": Glyph("written", SQUARE, "ink", 1.2, GREEN),
    "copy": Glyph("written once more: a second copy", f"{SQUARE}M-2.5 -2.5H2.5V2.5H-2.5Z", "ink", 1.2, PINK),
    "recognise": Glyph("recognised as a duplicate: not written again", DIAMOND, "ink", 1.2, PINK),
    "refuse": Glyph("refused by the broker", CROSSED_SQUARE, RED, 1.8, "paper"),
    "answer": Glyph("an answer arrives: stored", DISC, "ink", 1.2, BLUE),
    "error": Glyph("an answer arrives: an error", "M0 -6.5L6.5 0L0 6.5L-6.5 0ZM0 -3.2V0.6M0 2.4V3.2", RED, 1.8, "paper"),
    "no_answer": Glyph("no answer came: given up waiting", CROSSED_DISC, RED, 1.8, "paper"),
    "requeue": Glyph("back into the queue", "M5 -4H-1a4 4 0 0 0 0 8H5M2 1L5 4L2 7", RED, 1.8),
    "delivered": Glyph("the application is notified: stored", CHECK, BLUE, 2.6),
    "undelivered": Glyph("the application is notified: failed", CROSS, "ink", 2.6),
    "id": Glyph("the producer gets its id or epoch", DIAMOND, "ink", 1.6, "paper"),
    "restart": Glyph("the broker stops and comes back", "M-4 -8L0 -3L-4 3L0 8M2 -8L6 -3L2 3L6 8", RED, 2.2),
    "expire": Glyph("something else at the broker", "M-5 -4H5M-5 0H5M-5 4H5", "ink", 1.6),
    "cut": Glyph("the connection is cut", BROKEN_OFF, RED, 1.8),
    "read": Glyph("the topic is read back", "M-7 0Q0 -7 7 0Q0 7 -7 0ZM-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0Z", "ink", 1.2, "paper"),
}
SPEAK_FOR_THEMSELVES = ("request", "write", "answer", "error", "refuse", "no_answer", "undelivered", "id", "expire", "read", "restart")
SAME = {"refuse_to_start": "undelivered", "down": "restart", "delete": "expire", "fail_over": "expire"}
MOST_DIGITS = 7  # of both ends of a range of sequence numbers together, in a box


def batch_name(number: int) -> str:
    """`batch 7`, and where the number is long `no. 1234`."""
    return f"batch {number}" if number < 1_000 else f"no. {number}"


@lru_cache(4_000)
def sequence_word(first: int | None, count: int) -> str:
    """`seq 15-19`, `15-1019` where that is long, only the first where that is long, too."""
    if first is None or first < 0:
        return "no seq"
    last = increment_sequence(first, count - 1)
    if last == first or len(f"{first}{last}") > MOST_DIGITS:
        return f"seq {first}" if len(str(first)) <= MOST_DIGITS else f"{first}"
    return f"seq {first}-{last}" if len(f"{first}{last}") < 6 else f"{first}-{last}"


def _request(data: Data) -> tuple[str, ...]:
    attempts, lines = data.get("attempt", 0), (batch_name(data["batch"]), sequence_word(data.get("seq"), len(records_of(data))))
    return (f"try {attempts + 1}", *lines) if attempts else lines


def _answer(data: Data) -> tuple[str, ...]:
    return batch_name(data["batch"]), error_word(data["error"])


def _written(data: Data) -> tuple[str, ...]:
    copy = data["copy"]
    copies = "2nd copy" if copy == 2 else f"copy {copy}"
    return batch_name(data["batch"]), copies if copy > 1 else "late" if data["is_late"] else f"at {data['offset']}"


LINES: dict[str, Callable[[Data], tuple[str, ...]]] = {  # what stands at the signs
    "request": _request,
    "answer": _answer,
    "no_answer": lambda data: (batch_name(data["batch"]), "no answer"),
    "undelivered": lambda data: (batch_name(data["batch"]), "failed"),
    "id": lambda data: (f"id {data['pid']}", f"epoch {data['epoch']}"),
    "refuse_to_start": lambda data: ("refuses", "to start"),
    "write": _written,
    "recognise": lambda data: (batch_name(data["batch"]), "known"),
    "refuse": _answer,
    "down": lambda data: ("goes", "down"),
    "restart": lambda data: ({"kill": "killed", "up": "back"}.get(str(data.get("how")), "restart"),),
    "expire": lambda data: ("id", "forgotten"),
    "delete": lambda data: ("deletes", f"to {data['to']}"),
    "fail_over": lambda data: ("another", "leader"),
    "read": lambda data: ("read",),
}


def sign_of_step(step: Step) -> str:
    """The word whose sign stands for a step."""
    data = step.data
    if step.what == "request" and data.get("attempt", 0) > 0:
        return "again"
    if step.what == "answer" and data.get("error") != "NONE":
        return "error"
    if step.what == "write" and data.get("copy", 1) > 1:
        return "copy"
    return SAME.get(step.what, step.what)


class Box(NamedTuple):
    """A batch in a row, with its two lines."""

    kind: str  # a key of FILLS
    first: str = ""
    second: str = ""
    ref: str | None = None  # by which a page asks for its life
    seq: int = -1  # of one that the broker remembers


class Row(NamedTuple):
    """A row of boxes: what waits, what is in flight, what the broker remembers."""

    title: str
    words: str
    boxes: tuple[Box, ...]


BOX_WIDE, BOX_PITCH, BOX_TALL, ROW_TALL, ROW_TOP = 66, 71, 36, 74, 20
MOST_BOXES, HALF = 10, 5  # of a row, or half of them where two stand side by side
RECORD_TALL, LOG_TALL = 48, 96
EXPLAINED = {"again", "unnumbered", "sent again", "forgotten"}  # kinds of boxes that the titles of their rows do not explain


@dataclass(frozen=True, slots=True)
class Held:
    """What each side holds after a step, as the states of the steps tell it."""

    settings: Settings
    actors: Sequence[str]
    queues: Mapping[str, list[Any]] = field(default_factory=dict)
    flying: Mapping[str, list[Any]] = field(default_factory=dict)
    memories: Mapping[tuple[str, str], tuple[list[Any], list[Any], str]] = field(default_factory=dict)  # place -> known, forgotten, whose
    again: Set[tuple[str, int]] = frozenset()  # (producer, batch) of what was last sent once more

    def after(self, step: Step) -> Held:
        """The same after one more step."""
        data, producer, broker = step.data, step.state.get("producer", {}), step.state.get("broker", {})
        owner, held = step.actor if step.actor in self.actors else self.actors[0], self
        if step.what == "request":
            batch = {(step.actor, data["batch"])}
            held = replace(held, again=held.again | batch if data.get("attempt", 0) > 0 else held.again - batch)
        if producer:
            queues, flying = {owner: producer.get("queue", [])}, {owner: producer.get("in_flight", [])}
            held = replace(held, queues={**held.queues, **queues}, flying={**held.flying, **flying})
        if "remembered" in broker and ("partition" in data or len(self.memories) == 1):
            place = (str(data["topic"]), str(data["partition"])) if "partition" in data else next(iter(self.memories))
            pid, epoch = (broker.get(name, producer.get(name, -1)) for name in ("pid", "epoch"))
            now, (known, gone, _) = broker["remembered"], self.memories.get(place, ([], [], ""))
            whose = f" of producer id {pid}, epoch {epoch}" if pid >= 0 else ""
            gone = gone if now == known else [entry for entry in known if entry not in now]
            held = replace(held, memories={**held.memories, place: (now, gone, whose)})
        return held

    @property
    def has_ids(self) -> bool:
        """Whether batches have sequence numbers."""
        return self.settings.idempotence is not False

    @property
    def kinds(self) -> set[str]:
        """The kinds of boxes of what waits, what was sent again and what has just been forgotten."""
        found = {self._kind(row) for queue in self.queues.values() for row in queue}
        found |= {"sent again" for actor, flying in self.flying.items() for row in flying if (actor, row[1]) in self.again}
        return found | {"forgotten" for _, gone, _ in self.memories.values() if gone}

    def rows(self) -> list[Row]:
        """The rows now."""
        found = list[Row]()
        most, slots, has_ids = self.settings.max_in_flight, self.settings.remembered_batches, self.has_ids
        room = HALF if most <= HALF else MOST_BOXES
        for actor in self.actors:
            queue, flying = self.queues.get(actor, []), self.flying.get(actor, [])
            name = "" if len(self.actors) == 1 else f"{plain_text(actor, 12)}: "
            words = f"{count(len(queue), 'batch', 'batches')}, {count(sum(row[2] for row in queue), 'record')}" if queue else "nothing"
            boxes = [self._waiting(actor, row) for row in queue[:room]]
            found.append(Row(f"{name}waiting" if name else "In the accumulator", words + _hidden(queue, room), tuple(boxes)))
            requests = len({row[0] for row in flying})
            words = f"{requests} of at most {most}" + (f", with {len(flying)} batches" if requests != len(flying) else "")
            boxes = [self._in_flight(actor, row) for row in flying[:room]]
            boxes += [Box("free")] * max(0, min(most - len(flying), room - len(boxes)))
            found.append(Row(f"{name}in flight" if name else "In flight", words + _hidden(flying, room), tuple(boxes)))
        for (_, partition), (now, gone, whose) in self.memories.items():
            ghosts = gone[-max(1, MOST_BOXES - max(slots, len(now))) :]
            shown = now[-(MOST_BOXES - len(ghosts)) :]
            boxes = [_remembered("forgotten", row) for row in ghosts] + [_remembered("remembered", row) for row in shown]
            boxes += [Box("free")] * max(0, min(slots - len(now), MOST_BOXES - len(boxes))) if has_ids else []
            words = f"{count(len(now), 'batch', 'batches')}{whose}, at most {slots}"
            words += f"; it has just forgotten {len(gone)}" if gone else ""
            words = words if now or gone else "nothing of this producer yet"
            words = words if has_ids else "nothing: without a producer id it cannot tell one batch from another"
            of = f" of partition {plain_text(partition, 12)}" if len(self.memories) > 1 else ""
            found.append(Row(f"The broker remembers{of}", words + _hidden(now, len(shown)), tuple(boxes)))
        return found

    def _ref(self, actor: str, batch: int) -> str:
        owner = "" if actor == self.actors[0] else f"{plain_text(actor, 60)}/"
        return f"batch:{owner}{batch}"

    def _kind(self, row: list[Any]) -> str:
        """Of a batch that waits."""
        _, seq, _, *attempts = row
        is_numbered = seq is not None and seq >= 0
        return "again" if any(attempts) else "waits" if is_numbered or not self.has_ids else "unnumbered"

    def _waiting(self, actor: str, row: list[Any]) -> Box:
        batch, seq, count, *_ = row
        told = sequence_word(seq, count) if seq is not None and seq >= 0 else "no number"
        return Box(self._kind(row), batch_name(batch), told if self.has_ids else f"{count:,} rec.", self._ref(actor, batch))

    def _in_flight(self, actor: str, row: list[Any]) -> Box:
        _, batch, seq, count = row
        kind = "sent again" if (actor, batch) in self.again else "in flight"
        return Box(kind, batch_name(batch), sequence_word(seq, count), self._ref(actor, batch))


def _hidden(found: list[Any], room: int) -> str:
    return f"; {len(found) - room:,} more" if len(found) > room else ""


def _remembered(kind: str, row: list[Any]) -> Box:
    first, last, offset = row[:3]
    words = sequence_word(first, last - first + 1 if last >= first else 1)
    return Box(kind, words, f"at {offset}" if kind == "remembered" else "forgotten", seq=first)


class LogView(NamedTuple):
    """One partition's log after a step."""

    name: str
    words: str
    base: int
    codes: str  # of all that it holds
    records: tuple[int, ...]
    window: int  # the first place that is shown as a box
    has_bar: bool  # whether the run's log outgrows the boxes


@dataclass(slots=True)
class Log:
    """One partition's log while the steps go by: which copy of each record lies where, and what the application was told."""

    name: str
    room: int  # boxes that fit
    has_bar: bool
    base: int = 0  # the first record's offset
    start: int = 0  # what lies below was deleted
    records: list[int] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)  # of each: 2 or O, see LOG_LOOKS, or ""
    copies: Counter[int] = field(default_factory=Counter)  # of each record
    highest: int = -1  # record
    told: dict[int, str] = field(default_factory=dict)  # record -> A or ?, see LOG_LOOKS
    window: int = 0
    view: LogView | None = None

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return self.base + len(self.records)

    def put(self, offset: int, records: Sequence[int]) -> None:
        """From an offset on these records lie in the log, and no others."""
        at = max(0, offset - self.base) if self.records else 0
        self.base = self.base if at else offset
        if self.records[at:] == [*records]:
            return
        if at < len(self.records):  # what lay there is not there any more
            self.records, self.marks = self.records[:at], self.marks[:at]
            self.copies, self.highest = Counter(self.records), max(self.records, default=-1)
        for record in records:
            self.marks.append("2" if self.copies[record] else "O" if record < self.highest else "")
            self.records.append(record)
            self.copies[record] += 1
            self.highest = max(self.highest, record)
        if not self.window <= at <= len(self.records) <= self.window + self.room:
            self.window = max(0, len(self.records) - self.room + self.room // 4)
        self.view = None

    def tell(self, records: Iterable[int], is_stored: bool) -> None:
        """The application is told of these records that they are stored, or that they failed."""
        self.told |= dict.fromkeys(records, "A" if is_stored else "?")
        self.view = None

    def delete(self, to: int) -> None:
        """The log begins at an offset now."""
        self.start, self.view = to, None

    def after(self) -> LogView:
        """What it is now."""
        if self.view is None:
            codes = "".join([mark or self.told.get(record, "n") for mark, record in zip(self.marks, self.records, strict=True)])
            codes = "G" * (gone := max(0, min(self.start - self.base, len(codes)))) + codes[gone:]
            told, copies = [count(len(codes), "record")], codes.count("2")
            told += [count(copies, "second copy", "second copies")] if copies else []
            told += [f"{codes.count('O'):,} out of order"] if "O" in codes else []
            told += [f"{codes.count('G'):,} deleted since"] if "G" in codes else []
            self.view = LogView(self.name, ", ".join(told), self.base, codes, tuple(self.records), self.window, self.has_bar)
        return self.view


class Reader:
    """What is known while the steps go by."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        actors = dict.fromkeys(step.actor for step in trace if step.actor.startswith("producer"))
        self.held = Held(trace.settings, list(actors)[:2] or ["producer"])  # now
        highest = max((step.data.get("last", 0) for step in trace), default=0)
        self.box_wide = {1: 20, 2: 20, 3: 24, 4: 30, 5: 36}.get(len(str(highest)), 48)
        written = [step.data["offset"] + 1 for step in trace if step.what == "write"]
        self.has_bar = max([highest, *written]) >= STRIP // self.box_wide  # whether a log may outgrow its boxes
        self.logs: dict[tuple[str, str], Log] = {}
        self.arrived: dict[tuple[str, ...], int] = {}  # (topic, partition, batch) -> how often it came to the broker
        self.steps: list[Step] = []  # with what the log makes of them
        self.helds: list[Held] = []  # after each step
        self.views: list[list[LogView]] = []
        self.spots: list[tuple[int, int, int]] = []  # of each step the log, the place in it and the number of records that it is about
        self.acked = 0
        self.curves: dict[str, list[int]] = {name: [] for name in ("in flight", "waiting", "acked", "second copies")}
        for step in trace:
            self.take(step)

    @property
    def log_tall(self) -> int:
        """How much height each log takes."""
        return LOG_TALL + (ZOOM + 14 if self.has_bar else 0)

    def take(self, step: Step) -> None:
        """Take one step."""
        log = self._log(step.data) if {"topic", "partition"} <= step.data.keys() else None
        data = self._known(step, log)
        self.steps.append(step if data is step.data else replace(step, data=data))
        self.held = self.held.after(step)
        self.helds.append(self.held)
        self.spots.append((-1, 0, 0))
        if log is not None:
            self._follow(step, log)
        self.views.append([log.after() for log in self.logs.values()])
        counts = (
            sum(map(len, self.held.flying.values())),
            sum(map(len, self.held.queues.values())),
            self.acked,
            sum(view.codes.count("2") for view in self.views[-1]),
        )
        for values, number in zip(self.curves.values(), counts, strict=True):
            values.append(number)

    def _known(self, step: Step, log: Log | None) -> Data:
        """The step's data, and of what arrives at the broker: how often it came, and what its writing would make."""
        if step.what not in ("write", "recognise", "refuse"):
            return step.data
        data = dict(step.data)
        batch = str(data.get("topic")), str(data.get("partition")), str(data.get("batch"))
        data["arrival"] = self.arrived[batch] = self.arrived.get(batch, 0) + 1
        if log:
            first = data.get("first", 0)
            data["copy"] = log.copies[first] + 1
            data["is_late"] = data["copy"] == 1 and first < log.highest
        return data

    def _log(self, data: Data) -> Log:
        key = str(data["topic"]), str(data["partition"])
        if key not in self.logs:
            topic = key[0].removeprefix(f"kit.{self.trace.run}.")
            name = f"{plain_text(topic, 60)}, partition {plain_text(key[1], 12)}"
            self.logs[key] = Log(name, STRIP // self.box_wide, self.has_bar)
        return self.logs[key]

    def _follow(self, step: Step, log: Log) -> None:
        data, records, told = step.data, records_of(step.data), step.state.get("broker", {})
        if step.what in ("restart", "fail_over") and len(self.logs) == 1 and told.get("log_end", log.end) < log.end:
            log.put(told["log_end"], ())
        match step.what:
            case "write":
                log.put(data["offset"], records)
            case "read":
                log.put(data.get("first_offset", 0), from_ranges(data["records"]))
            case "delivered" | "undelivered":
                self.acked += len(records) if step.what == "delivered" else 0
                log.tell(records, step.what == "delivered")
        if step.what in ("write", "recognise") and data["offset"] >= 0:
            self.spots[-1] = [*self.logs.values()].index(log), data["offset"] - log.base, len(records)
        if told.get("log_start", log.start) != log.start:
            log.delete(told["log_start"])


def records_of(data: Data) -> range:
    """The records that a step is about."""
    first: int = data.get("first", 0)
    return range(first, data.get("last", first) + 1)


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; part "lanes" has no panel."""
    reader, has_panel = Reader(trace), part == "all"
    beside = trace.settings.max_in_flight <= HALF
    tall = _rows_tall(reader.held.rows() if has_panel else [], beside) + (reader.log_tall * len(reader.logs) if has_panel else 0)
    names = [*reader.held.actors[:1], "broker", *reader.held.actors[1:]]
    foot = PITCH * (len(names) - 1) + 110
    scene = Scene("A producer", PARTS[part], height=foot + 30, panel_height=tall, top=8, bottom=foot, right=WIDTH - MARGIN)
    known = replace(trace, steps=reader.steps)

    def lane_of(step: Step) -> str:
        return step.actor if is_side(step.actor) or step.actor in names else ""

    def lines_of(step: Step) -> Sequence[str]:
        return LINES[step.what](step.data) if step.what in LINES and lane_of(step) not in ("", "network") else ()

    xs = spread(known, lines_of, lane_of)
    signs = SIGNS | {what: SIGNS[like] for what, like in SAME.items()}
    lanes = Lanes(
        known, xs, signs, lane_of, word_of=sign_of_step, lines_of=lines_of, names=names, between="network", right=inf, pitch=PITCH
    )  # fmt: skip
    windowed(scene, lanes, 46)
    scene.x_of_step, scene.steps = xs, reader.steps
    if has_panel:
        scene.panel_after, scene.words_after = partial(_panel, reader, beside), partial(_words, reader)
    scene.legend = _legend(reader, lanes, has_panel)
    scene.curves = reader.curves if has_panel else {}
    return scene


PITCH = 116  # from one lane to the next


def _rows_tall(rows: Sequence[Row], beside: bool) -> int:
    flying = sum(row.title.lower().endswith("in flight") for row in rows)
    return ROW_TALL * (len(rows) - (flying if beside else 0)) + 8 if rows else 8


def _panel(reader: Reader, beside: bool, at: int) -> Svg:
    step, y, pieces = reader.steps[at], 8, list[Svg]()
    subject = batch_name(step.data["batch"]) if "batch" in step.data else ""
    seq = step.data.get("seq", -1) if step.actor == "broker" else -1
    for row in reader.helds[at].rows():
        is_beside = beside and row.title.lower().endswith("in flight")
        y -= ROW_TALL if is_beside else 0
        x = WIDTH - LEFT - HALF * BOX_PITCH + BOX_PITCH - BOX_WIDE if is_beside else LEFT
        rings = (at for at, box in enumerate(row.boxes) if (box.first == subject and box.ref) or 0 <= seq == box.seq)
        pieces += (_draw_title(row.title, row.words, x, y + 12), _draw_row(row.boxes, x, y + ROW_TOP))
        pieces.append(Svg("", [_ring(x + place * BOX_PITCH, y + ROW_TOP, BOX_WIDE, BOX_TALL) for place in rings]))
        y += ROW_TALL
    for number, view in enumerate(reader.views[at]):
        where, first, count = reader.spots[at]
        top, wide = y + reader.log_tall * number, reader.box_wide
        title = f"The log of {view.name}" if len(reader.logs) > 1 else "The log"
        pieces += (_draw_title(title, view.words if view.codes else "no record yet", LEFT, top + 12), _draw_log(view, wide, top))
        begin, end = max(first, view.window), min(first + count, view.window + STRIP // wide)
        if where == number and end > begin:
            box = LEFT + (begin - view.window) * wide, top + reader.log_tall - LOG_TALL + 22, (end - begin) * wide
            pieces.append(_ring(*box, RECORD_TALL))
    return Svg("", pieces)


@lru_cache(4_000)
def _ring(x: int, y: int, wide: int, tall: int) -> Svg:
    """Around what a step is about."""
    return el("rect", cls="ink-line", x=x - 3, y=y - 3, width=wide + 6, height=tall + 6, rx=5, fill="none", stroke_width=2)


def _words(reader: Reader, at: int) -> str:
    told = [f"{row.title.lower()}: {row.words}" for row in reader.helds[at].rows()]
    return "; ".join(told + [f"the log of {view.name}: {view.words}" for view in reader.views[at]])


@lru_cache(4_000)
def _draw_title(title: str, words: str, x: int, y: int) -> Svg:
    """What a row or a log is, and what it holds in words."""
    return el("text", el("tspan", title, font_weight="bold"), el("tspan", words, dx=8), cls="ink", x=x, y=y, font_size=12)


@lru_cache(4_000)
def _draw_row(boxes: tuple[Box, ...], x: int, y: int) -> Svg:
    """The boxes of a row."""
    if not boxes:
        return el("path", d=f"M{x} {y + BOX_TALL / 2}h40", cls="grey-line", stroke_dasharray="1 4")
    at = (f"translate({x + place * BOX_PITCH} {y})" for place in range(len(boxes)))
    return group(*(group(draw_batch(box), transform=place, data_ref=box.ref) for place, box in zip(at, boxes, strict=False)))


@lru_cache(4_000)
def draw_batch(box: Box) -> Svg:
    """A batch's box with its two lines; one that was forgotten is crossed out."""
    look = FILLS[box.kind]
    parts = [draw_fill(look, 0.5, 0.5, BOX_WIDE - 1, BOX_TALL - 1, look.meaning, 3)]
    if box.kind == "forgotten":
        parts.append(el("path", d=f"M0 {BOX_TALL}L{BOX_WIDE} 0", stroke=RED, stroke_width=1.4))
    if box.kind in ("again", "sent again"):
        parts.append(el("path", d=f"M{BOX_WIDE - 13} 0H{BOX_WIDE}V13Z", fill=RED, stroke=BLACK, stroke_linejoin="round"))
    paint = letter_paint(look.text, 3 * (box.kind == "forgotten"))
    for line, y in ((box.first, 15), (box.second, 29)):
        bold = "bold" if line.startswith(("batch ", "no. ")) else None
        parts += [el("text", line, x=BOX_WIDE / 2, y=y, text_anchor="middle", font_size=11, font_weight=bold, **paint)] if line else []
    return group(*parts)


@lru_cache(2_000)
def _draw_log(view: LogView, wide: int, y: int) -> Svg:
    """A box for each record of the close-up, and the bar of a long log above them."""
    room, codes = STRIP // wide, view.codes
    top = 22 + (ZOOM + 14 if view.has_bar else 0)
    parts = []
    if not codes:
        parts.append(el("path", d=f"M{LEFT} {top + RECORD_TALL / 2}h40", cls="grey-line", stroke_dasharray="1 4"))
    labelled = -9
    for at in range(view.window, min(view.window + room, len(codes))):
        x = LEFT + (at - view.window) * wide
        is_label = x >= labelled and (at == view.window or view.records[at] != view.records[at - 1] + 1 or at % 5 == 0)
        labelled = x + 7 * len(str(view.base + at)) + 12 if is_label else labelled
        label = [el("text", f"{view.base + at}", cls="grey", x=2, y=RECORD_TALL + 13, font_size=11)] if is_label else []
        parts.append(group(draw_record(codes[at], view.records[at], wide), *label, transform=f"translate({x} {top})"))
    return group(*_draw_bar(view, room), *parts, transform=f"translate(0 {y})")


def _draw_bar(view: LogView, room: int) -> list[Svg]:
    """The whole of a long log, as the strips of other runs have it, and where the close-up looks."""
    if not view.has_bar or not view.codes:
        return []
    scale = STRIP / max(room, len(view.codes))
    beam, bracket = look_of(LEFT + view.window * scale, LEFT + min(len(view.codes), view.window + room) * scale)
    return [group(beam, *bar_of(tuple(cells_of(view.codes, CELLS)), view.base, scale), bracket, transform=f"translate(0 {22 - BAR_Y})")]


@lru_cache(10_000)
def draw_record(code: str, record: int, wide: int) -> Svg:
    """A record's box: its number, and below it the letter of its fate."""
    paint = letter_paint(LOOK_OF[code].text, 4 * LOOK_OF[code].hatch)
    number = el("text", f"{record}", x=wide / 2, y=14, text_anchor="middle", font_size=11, **paint)
    return group(frame_of(code, wide), number, *sign_of(code, wide))


def _legend(reader: Reader, lanes: Lanes, has_panel: bool) -> list[Item]:
    """What occurred; signs with words of their own, and boxes in a row whose title says it, are left out."""
    quiet = {SIGNS[what].meaning for what in SPEAK_FOR_THEMSELVES}
    found = [item for item in lanes.legend(has_arrows=False) if item[1] not in quiet]
    if not has_panel:
        return found
    shown = {id(view): view for views in reader.views for view in views}
    codes = {code for view in shown.values() for code in set(view.codes)}
    kinds = {kind for held in {id(held): held for held in reader.helds}.values() for kind in held.kinds} & EXPLAINED
    return found + fill_legend(kinds) + [(swatch_of(look), look.meaning) for look in LOG_LOOKS if look.code in codes]
