"""A producer's run, ready to be drawn after any step, without the steps before it; and its marks, boxes, words and places.

The messages between producer and broker are laid out once for the whole run, as in a sequence
diagram: each step has its place on the time axis, each message is a line between two lanes. What is to
be seen after step n is what lies left of its place, so scrubbing is moving a window. The rows of
batches (waiting, in flight, remembered) and the log change at some steps only, and are looked up.

As in `kitlib.views.look` each meaning has one colour and, beside it, a shape, a letter or a dash of its
own. A recorded trace may hold anything: what is no whole number is read as a default, what is long is cut.

Left out: how the trace is read (`kitlib.views.producer.reader`), and the drawing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kitlib.mechanisms.protocol import increment_sequence
from kitlib.text import plain_text
from kitlib.views.look import LEFT, STRIP, WIDTH
from kitlib.views.trees.forest import History
from kitlib.words.glyphs import (
    BLACK,
    BLUE,
    CHECK,
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
    WHITE,
)


@dataclass(frozen=True, slots=True)
class MarkLook:
    """A small sign on a lane, or between two lanes, where something happened."""

    code: str
    meaning: str  # for the legend
    path: str  # SVG path around 0, 0
    fill: str  # a colour, "paper" or "none"
    edge: str  # a colour, "ink" or "grey"
    thick: float = 1.2
    long: str = ""  # the path in the diagram, where that is another one than in the legend


BACK = "M5 0H-5M-1.5 -3.5L-5 0L-1.5 3.5"
RIFT = "M0 -60" + "L-3 -55L3 -45" + "l-6 10l6 10" * 5 + "L0 60"
BARS = "M-5 -4H5M-5 0H5M-5 4H5"

MARKS = (
    MarkLook("s", "the application sends records", "M-2 -4.5H2V4.5H-2Z", SKY, BLACK, 0.8),
    MarkLook("r", "a request leaves", DISC, ORANGE, BLACK),
    MarkLook("t", "the batch is sent again", "M0 -6.5L6 4.5H-6Z", RED, BLACK),
    MarkLook("L", "lost in transit", CROSS, "none", RED, 2.6),
    MarkLook("D", "delayed in transit", f"{DISC}M0 -2.8V0H2.4", "paper", ORANGE, 1.8),
    MarkLook("2", "sent on twice by the network", "M-5 0H-1L5 -5M-1 0L5 5", "none", PINK, 2.4),
    MarkLook("w", "written", SQUARE, GREEN, BLACK),
    MarkLook("W", "written once more: a second copy", f"{SQUARE}M-2.5 -2.5H2.5V2.5H-2.5Z", PINK, BLACK),
    MarkLook("k", "recognised as a duplicate: not written again", DIAMOND, PINK, BLACK),
    MarkLook("x", "refused by the broker", CROSSED_SQUARE, "paper", RED, 1.8),
    MarkLook("a", "an answer arrives: stored", DISC, BLUE, BLACK),
    MarkLook("e", "an answer arrives: an error", "M0 -6.5L6.5 0L0 6.5L-6.5 0ZM0 -3.2V0.6M0 2.4V3.2", "paper", RED, 1.8),
    MarkLook("n", "no answer came: given up waiting", CROSSED_DISC, "paper", RED, 1.8),
    MarkLook("q", "back into the queue", "M5 -4H-1a4 4 0 0 0 0 8H5M2 1L5 4L2 7", "none", RED, 1.8),
    MarkLook("d", "the application is notified: stored", CHECK, "none", BLUE, 2.6),
    MarkLook("f", "the application is notified: failed", CROSS, "none", "ink", 2.6),
    MarkLook("i", "the producer gets its id or epoch", DIAMOND, "paper", "ink", 1.6),
    MarkLook("b", "the broker stops and comes back", "M-4 -8L0 -3L-4 3L0 8M2 -8L6 -3L2 3L6 8", "none", RED, 2.2),
    MarkLook("v", "something else at the broker", BARS, "none", "ink", 1.6),
    MarkLook("o", "the connection is cut", "M0 -10L-3 -5L3 0L-3 5L0 10", "none", RED, 1.8, RIFT),
    MarkLook("z", "the topic is read back", "M-7 0Q0 -7 7 0Q0 7 -7 0ZM-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0Z", "paper", "ink"),
)  # fmt: skip
MARK_OF = {mark.code: mark for mark in MARKS}


# Not in the legend: marks with a label, boxes in a row whose title says it, ways that end at such a mark.
SPEAK_FOR_THEMSELVES = {"mark": "rwaizvbfxen", "way": "RALE", "box": "npm-"}


@dataclass(frozen=True, slots=True)
class WayLook:
    """The way of one message, as a line."""

    code: str
    meaning: str
    edge: str  # a colour, "ink" or "grey"
    thick: float
    dash: str = ""


# While it is under way a message is drawn as "P", whatever becomes of it.
WAYS = (
    WayLook("P", "in transit now", ORANGE, 2.6),
    WayLook("R", "a request that arrived", "grey", 1.4),
    WayLook("A", "an answer that arrived", BLUE, 1.4),
    WayLook("E", "an error that arrived", RED, 1.6, "7 2"),
    WayLook("L", "the way of what was lost", RED, 1.6, "3 3"),
    WayLook("C", "the way of a second copy", PINK, 1.8, "8 2 2 2"),
)
WAY_OF = {way.code: way for way in WAYS}


@dataclass(frozen=True, slots=True)
class BoxLook:
    """A batch's box in a row, or a record's box in the log."""

    code: str
    meaning: str
    fill: str  # a colour or "none"
    text: str  # BLACK, WHITE, "ink" or "grey"
    edge: str  # a colour, "ink" or "grey"
    dash: str = ""
    hatch: bool = False
    flag: str = ""  # what stands in the band at a record's foot, or in a batch's corner
    band: str = ""  # the band's colour
    sign: str = ""  # SVG path around 0, 0 at a record's foot instead


ROW_BOXES = (
    BoxLook("w", "waits, without a sequence number yet", "none", "ink", SKY, "4 2"),
    BoxLook("n", "waits", SKY, BLACK, BLACK),
    BoxLook("N", "waits to be sent again", SKY, BLACK, BLACK, flag="again"),
    BoxLook("p", "in flight", ORANGE, BLACK, BLACK),
    BoxLook("P", "in flight, sent again", ORANGE, BLACK, BLACK, flag="again"),
    BoxLook("m", "remembered by the broker", GREEN, BLACK, BLACK),
    BoxLook("g", "just forgotten", "none", "ink", RED, "3 3", flag="cross"),
    BoxLook("-", "a free place", "none", "grey", "grey", "2 4"),
)
LOG_BOXES = (
    BoxLook("S", "stored, the application not notified yet", GREEN, BLACK, BLACK),
    BoxLook("A", "stored, and the application notified", BLUE, WHITE, BLACK, sign=CHECK),
    BoxLook("I", "stored, but the application was told it failed", "none", "ink", RED, "5 2", flag="?", band=RED),
    BoxLook("O", "out of order: behind a record sent later", "none", "ink", RED, hatch=True, band=RED, sign=BACK),
    BoxLook("2", "a second copy", PINK, BLACK, BLACK, flag="2×", band=PINK),
    BoxLook("G", "deleted since", "none", "grey", "grey", "1 3"),
)  # fmt: skip
BOX_OF = {box.code: box for box in (*ROW_BOXES, *LOG_BOXES)}

# Geometry in SVG units. The diagram's window begins right of the lanes' names.
SCENE_LEFT = 108
SCENE_WIDE = WIDTH - 20 - SCENE_LEFT
CLIENT_Y = 60  # of the producer's lane, counted like all of these from the diagram's top
APART = 122  # from one lane to the next
LINE = 13  # from one line of a label to the next
LABEL_GAP = 8  # between two labels on one lane
CHAR = 6.7  # width of a character of a label, at most on average
NOW_AT = 566  # where the present step stands in a window that has moved
OPEN_WAY = 130  # how far a message that never ends would need

BOX_WIDE, BOX_PITCH, BOX_TALL = 66, 71, 36
MOST_BOXES = 10  # of a row, or half of them where two stand side by side
ROW_TOP = 20  # from a row's words to its boxes
ROW_TALL = 74
LOG_TOP = 22  # from the log's words to its bar or boxes
LOG_BAR = 10  # height of the bar of a long log
LOG_ZOOM = 22  # how much the bar moves the boxes down
RECORD_TALL = 36
LOG_TALL = 88

# Error names as a broker says them -> what fits under a mark.
SHORT_ERRORS = {
    "NONE": "stored",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "gap",
    "DUPLICATE_SEQUENCE_NUMBER": "duplicate",
    "UNKNOWN_PRODUCER_ID": "unknown id",
    "INVALID_PRODUCER_EPOCH": "old epoch",
    "REQUEST_TIMED_OUT": "timed out",
    "NETWORK_EXCEPTION": "no network",
    "NOT_LEADER_OR_FOLLOWER": "not leader",
    "NOT_ENOUGH_REPLICAS": "replicas",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "replicas",
    "MESSAGE_TOO_LARGE": "too large",
    "CORRUPT_MESSAGE": "corrupt",
    "TOPIC_AUTHORIZATION_FAILED": "not allowed",
    "CLUSTER_AUTHORIZATION_FAILED": "not allowed",
    "UNKNOWN_TOPIC_OR_PARTITION": "no topic",
}


def record_wide(highest: int) -> int:
    """Width of a record's box, so that the highest number fits."""
    return {1: 20, 2: 20, 3: 24, 4: 30, 5: 36}.get(len(str(highest)), 48)


Data = dict[str, Any]
Sign = tuple[str, tuple[str, ...]]  # a mark's code and its label

NO_NUMBER = -1
MOST = 2**53  # what JavaScript holds exactly
CLIENT, BROKER, SECOND = CLIENT_Y, CLIENT_Y + APART, CLIENT_Y + 2 * APART  # the lanes' heights
MOST_DIGITS = 7  # of both ends of a range of sequence numbers together, in a box


def whole(value: object, default: int) -> int:
    """A whole number that a drawing can bear, or the default."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= MOST:
        return default
    return value


def part(state: Data, name: str) -> Data:
    """One side's part of a step's state; empty where it is missing or of another kind."""
    found = state.get(name)
    return found if isinstance(found, dict) else {}


def rows_of(found: object, wide: int) -> list[list[Any]]:
    """The rows of a list in a state that have at least so many items; all others are passed over."""
    if not isinstance(found, list):
        return []
    return [row for row in found if isinstance(row, list) and len(row) >= wide]


def numbers(data: Data) -> tuple[Any, ...]:
    """By what a broker tells one producer's batch from another's."""
    return tuple(data.get(name) for name in ("pid", "epoch", "seq"))


def owner_of(actor: str, actors: list[str]) -> str:
    """`producer 2/` before the name of what belongs to it; "" for the first producer's. Several producers number alike."""
    return "" if actor == actors[0] or actor not in actors else f"{plain_text(actor, 60)}/"


def batch_word(data: Data) -> str:
    return batch_name(data.get("batch"))


def batch_name(batch: object) -> str:
    """`batch 7`, and where the number is long `no. 1234`."""
    number = whole(batch, NO_NUMBER)
    return f"batch {number}" if number < 1_000 else f"no. {number}"


def sequence_word(seq: object, count: int) -> str:
    """`seq 15-19`, `15-1019` where that is long, only the first where that is long, too."""
    first = whole(seq, NO_NUMBER)
    if first < 0:
        return "no seq"
    last = increment_sequence(first, max(1, count) - 1)
    if last == first or len(f"{first}{last}") > MOST_DIGITS:
        return f"seq {first}" if len(str(first)) <= MOST_DIGITS else f"{first}"
    return f"seq {first}-{last}" if len(f"{first}{last}") < 6 else f"{first}-{last}"


def sequence_of(data: Data) -> str:
    """The same for a step that names its first and last record."""
    first = whole(data.get("first"), 0)
    return sequence_word(data.get("seq"), whole(data.get("last"), first) - first + 1)


def in_words(error: object) -> str:
    """An error's name as a speech bubble says it: "out of order sequence number"."""
    name = plain_text(error, 60)
    return name.lower().replace("_", " ") if name.isupper() else name


def error_word(error: object) -> str:
    """An error's name, cut to what fits under a mark."""
    name = plain_text(error, 60)
    short = SHORT_ERRORS.get(name, name.lower().replace("_", " "))
    return short if len(short) <= 12 else f"{short[:11]}…"


def _request(data: Data) -> Sign:
    before, lines = whole(data.get("attempt"), 0), (batch_word(data), sequence_of(data))
    return ("t", (f"try {before + 1}", *lines)) if before > 0 else ("r", lines)


def _answer(data: Data) -> Sign:
    return "a" if data.get("error") == "NONE" else "e", (batch_word(data), error_word(data.get("error")))


def _id(data: Data) -> Sign:
    return "i", (f"id {whole(data.get('pid'), NO_NUMBER)}", f"epoch {whole(data.get('epoch'), NO_NUMBER)}")


def _write(data: Data) -> Sign:
    """`copy` and `is_late` are what the log's reader knows."""
    copy = data.get("copy", 1)
    if copy > 1:
        return "W", (batch_word(data), "2nd copy" if copy == 2 else f"copy {copy}")
    return "w", (batch_word(data), "late" if data.get("is_late") else f"at {whole(data.get('offset'), NO_NUMBER)}")


MARKERS: dict[str, Callable[[Data], Sign]] = {
    "send": lambda data: ("s", ()),
    "request": _request,
    "answer": _answer,
    "no_answer": lambda data: ("n", (batch_word(data), "no answer")),
    "requeue": lambda data: ("q", ()),
    "delivered": lambda data: ("d", ()),
    "undelivered": lambda data: ("f", (batch_word(data), "failed")),
    "id": _id,
    "refuse_to_start": lambda data: ("f", ("refuses", "to start")),
    "lose_request": lambda data: ("L", ()),
    "lose_answer": lambda data: ("L", ()),
    "duplicate_request": lambda data: ("2", ()),
    "delay": lambda data: ("D", ()),
    "cut": lambda data: ("o", ()),
    "write": _write,
    "recognise": lambda data: ("k", (batch_word(data), "known")),
    "refuse": lambda data: ("x", (batch_word(data), error_word(data.get("error")))),
    "down": lambda data: ("b", ("goes", "down")),
    "restart": lambda data: ("b", ({"kill": "killed", "up": "back"}.get(str(data.get("how")), "restart"),)),
    "expire": lambda data: ("v", ("id", "forgotten")),
    "delete": lambda data: ("v", ("deletes", f"to {whole(data.get('to'), 0)}")),
    "fail_over": lambda data: ("v", ("another", "leader")),
    "read": lambda data: ("z", ("read",)),
}


NEVER = -1
ON_ITS_WAY, LOST = "P", "L"
MOST_DONE = 0.82  # of its way: where a message stays whose end the trace does not tell


@dataclass(slots=True)
class Way:
    """One message between two lanes, or the part of its way that it went."""

    x0: int
    y0: int
    x1: int
    y1: int
    born: int  # the step at which it sets out
    code: str  # once it has ended: see WAYS
    is_open: bool = False  # it never ends in this trace
    has_cross: bool = False  # where it ends no step stands that says so
    ref: str | None = None  # by which a page asks for its life

    def y_at(self, x: int) -> int:
        """Where it is at a moment; at its ends before and after."""
        part = min(1.0, max(0.0, (x - self.x0) / max(1, self.x1 - self.x0)))
        return round(self.y0 + (self.y1 - self.y0) * part)

    @property
    def end_x(self) -> float:
        """Where it goes no farther."""
        return self.x0 + (self.x1 - self.x0) * (MOST_DONE if self.is_open else 1)


class Mark(NamedTuple):
    """The sign of one step, with the lines of its label."""

    code: str
    y: int
    lines: tuple[str, ...] = ()
    is_above: bool = False  # where its label stands
    ref: str | None = None  # by which a page asks for the life of what it is about


@dataclass(slots=True)
class LazyHistory(History):
    """A history of which each value is worked out when it is first asked for: a page that turns a knob asks for one step."""

    work_out: Callable[[Any], Any] = lambda value: value
    known: dict[int, Any] = field(default_factory=dict)  # by their places in `values`

    def at(self, step: int, default: Any) -> Any:
        place = bisect_right(self.steps, step) - 1
        if place < 0:
            return default
        if place not in self.known:
            self.known[place] = self.work_out(self.values[place])
        return self.known[place]


class Box(NamedTuple):
    """A batch in a row."""

    code: str
    first: str  # its two lines
    second: str
    subject: tuple[Any, ...] | None = None  # the row's kind, whose batch it is, and which; None of a free place
    ref: str | None = None  # by which a page asks for the batch's life


@dataclass(slots=True)
class Row:
    """A row of boxes: what waits, what is in flight, what the broker remembers."""

    title: str
    kind: str  # "waiting", "in flight" or "remembered"
    x: int = LEFT
    y: int = 0  # below the first row
    room: int = MOST_BOXES
    words: History = field(default_factory=History)  # how many there are
    boxes: History = field(default_factory=History)  # lists of `Box`
    wide: int = 0  # the most boxes that there are at once

    def put(self, step: int, found: list[Any], count: int) -> None:
        """From this step on it holds these, and has so many boxes, if it has room for them."""
        self.boxes.put(step, found)
        self.words.put(step, found)
        self.wide = max(self.wide, min(count, self.room))


class Segment(NamedTuple):
    """Records that lie side by side in a log, with one fate; NEVER for a step that does not come."""

    offset: int
    first: int  # record
    last: int
    born: int  # the step that wrote them
    died: int  # the step after which they are no longer there
    copy: int  # 1 for the first copy of each
    is_late: bool  # behind a record that was sent later
    acked: int  # the step at which the user was told that they are stored
    failed: int

    def code_after(self, step: int, start: int, offset: int) -> str:
        """The look of the record at `offset` after a step, when the log begins at `start`."""
        if offset < start:
            return "G"
        if self.copy > 1:
            return "2"
        if self.is_late:
            return "O"
        if 0 <= self.failed <= step:
            return "I"
        return "A" if 0 <= self.acked <= step else "S"


@dataclass(slots=True)
class LogView:
    """One partition's log."""

    name: str
    base: int = 0
    end: int = 0  # at its longest
    highest: int = 0  # record
    segments: list[Segment] = field(default_factory=list)
    start: History = field(default_factory=History)
    window: History = field(default_factory=History)  # the first offset of the close-up
    words: History = field(default_factory=History)

    @property
    def box_wide(self) -> int:
        return record_wide(self.highest)

    @property
    def boxes(self) -> int:
        """How many records the close-up shows."""
        return STRIP // self.box_wide

    @property
    def has_bar(self) -> bool:
        """Whether the close-up is too short for the log."""
        return self.end - self.base > self.boxes

    def segments_after(self, step: int) -> list[Segment]:
        """Those that lie in the log after a step, in log order."""
        found = [one for one in self.segments if one.born <= step and (one.died == NEVER or one.died > step)]
        return sorted(found, key=lambda one: one.offset)


@dataclass(slots=True)
class SequenceDiagram:
    """Everything that pictures of a producer's run need; `x`, `marks`, `rings`, `spots` and `data` have one item a step."""

    clients: list[str] = field(default_factory=list)  # the producers, as many as there are lanes for them
    places: set[tuple[Any, Any]] = field(default_factory=set)  # topics and partitions that are drawn here
    x: list[int] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    marks: list[Mark | None] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    logs: list[LogView] = field(default_factory=list)
    rings: list[tuple[Any, ...]] = field(default_factory=list)  # the subjects of the boxes that the step is about
    spots: list[tuple[int, int, int] | None] = field(default_factory=list)  # (log, offset, count) it is about
    ticks: list[tuple[int, str]] = field(default_factory=list)  # of the time axis: x and its words
    data: list[dict[str, Any]] = field(default_factory=list)  # the step's own, and what its sentence says besides
    curves: dict[str, list[int]] = field(default_factory=dict)

    @property
    def lanes(self) -> list[tuple[str, int]]:
        """The lanes' names and heights, from the top down: a second producer's is below the broker's."""
        names = [*self.clients[:1], "broker", *self.clients[1:2]]
        return [(name, CLIENT_Y + APART * place) for place, name in enumerate(names)]

    @property
    def tall(self) -> int:
        """Height of the diagram: below the last lane stand three lines of labels and the time."""
        return self.lanes[-1][1] + (62 if len(self.lanes) == 2 else 74)

    def window_at(self, step: int) -> int:
        """The place on the time axis at which the diagram's window begins."""
        return max(0, self.x[step] - NOW_AT) if step >= 0 else 0


def ticks_of(x: list[int], at_ms: list[int]) -> list[tuple[int, str]]:
    """The times that the axis tells: as many as fit side by side, and only where the clock moved."""
    ticks: list[tuple[int, str]] = []
    last = -1
    for place, ms in zip(x, at_ms, strict=True):
        if ms != last and (not ticks or place - ticks[-1][0] >= 92):
            ticks.append((place, f"{ms:,} ms"))
            last = ms
    return ticks
