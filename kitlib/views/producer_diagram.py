"""A producer's run, made ready to be drawn: after any step, without the steps before it.

The messages between producer and broker are laid out once for the whole run, as in a sequence
diagram: each step has its place on the time axis, each message is a line between two lanes. What is to
be seen after step n is what lies left of its place, so scrubbing is moving a window. The rows of
batches (waiting, in flight, remembered) and the log change at some steps only, and are looked up.

Left out: how the trace is read (`kitlib.views.producer_reader`), and the drawing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kitlib.views.forest import History
from kitlib.views.look import LEFT, STRIP
from kitlib.views.producer_look import APART, CLIENT_Y, MOST_BOXES, NOW_AT, ROW_TALL, record_wide

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

    @property
    def rows_tall(self) -> int:
        """Height of all rows of batches together."""
        return max((row.y for row in self.rows), default=-ROW_TALL) + ROW_TALL

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
