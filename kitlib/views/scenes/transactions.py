"""A transaction's run: what crosses between producers, coordinator, log and readers, what is decided, and who sees what.

Time runs to the right. On top is a lane for each actor; on a producer's lie the transactions that it has open. Below are each
transactional id's state at the coordinator, and the log's end with the last stable offset below it: between the two
lies what is written and not decided. The panel is the log after the step, box by box, with the markers,
the last stable offset as a line, and below it what each of two readers has been given. A box's colour is its fate by
the log alone; where the log is longer than the row its newest part is shown.

The fate of a batch is what a reader of the log makes of it: it counts by the first marker of its
producer id behind it, and is undecided until there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import CHAR, LEFT
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes.lanes import Lanes, Spell
from kitlib.views.scenes.offset_rows import Curve, Strip
from kitlib.views.scenes.timeline import (
    FILLS,
    Bar,
    Item,
    Spans,
    as_before,
    bars,
    draw_box,
    draw_fill,
    fill_legend,
    glyphs_of,
    places,
)
from kitlib.views.svg import Svg, el, group, letter_paint
from kitlib.words.glyphs import BLUE, CLOCK, DIAMOND, GREEN, ORANGE, PINK, SQUARE, Glyph
from kitlib.words.word import place_name

READERS = ("read_committed", "read_uncommitted")
PLAIN, OPEN, COMMITTED, COPY, ABORTED = "plain", "open", "committed", "copy", "aborted"  # keys of FILLS
LogRow = list[Any]  # of the state's log: first and last offset, producer id, epoch, transaction or None, marker or None


def fate_of(row: LogRow, log: list[LogRow]) -> str:
    """What a batch is worth by the markers that the log holds."""
    _, last, pid, _, tx, _ = row
    if tx is None:
        return PLAIN
    for first, _, other, _, _, kind in log:
        if kind is not None and other == pid and first > last:
            return COMMITTED if kind == "COMMIT" else ABORTED
    return OPEN


PARTS = {
    "all": "What is written, what is decided, and who may see it?",
    "log": "What does the log hold, and where does read_committed stop?",
}
VARIANTS = {  # of sends and of what a database does
    "held": Glyph("delayed in flight", CLOCK, ORANGE, 1.8, "paper"),
    "charge": Glyph("charged", SQUARE, GREEN, 2, "paper"),
    "again": Glyph("charged again", f"{SQUARE}M-2.5 -2.5H2.5V2.5H-2.5Z", PINK, 2.4, "paper"),
    "known": Glyph("not charged: the key is known", DIAMOND, PINK, 2, "paper"),
}
SIGN_WORDS = (  # in the legend's order
    "commit_tx", "abort_tx", "kill", "freeze", "thaw", "fenced", "unknown", "held", "release", "late_marker", "refuse",
    "charge", "again", "known",
)  # fmt: skip
SHORT = {"CompleteCommit": "Commit", "CompleteAbort": "Abort", "PrepareCommit": "Prepare", "PrepareAbort": "Prepare"}


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a trace; `part` "log" leaves the lanes and the coordinator out."""
    xs = places(trace)
    panel, strip = Panel(trace), Strip(trace, xs)
    if part == "all":
        signs, glyphs = signs_of(trace), glyphs_of(trace, SIGN_WORDS, VARIANTS)
        strip.add(Lanes(trace, xs, glyphs, _lane_of, transactions(trace, xs), word_of=lambda step: signs[step.number]))
        strip.add(Spans(states_of(trace, xs)))
    ends, stable = ([*zip(xs, values, strict=True)] for values in (panel.ends, panel.stable))
    areas = [Curve(ends, ORANGE, 0.55, thick=0), Curve(stable, "paper", thick=0)]  # between the two lies what is not decided
    strip.add_chart("the log", [*areas, Curve(ends, thick=1.4), Curve(stable, BLUE, thick=2.4)], "offsets")
    return strip.compose("Transactions", PARTS[part], map(panel.take, trace), panel.tall, _legend(trace, panel))


def _lane_of(step: Step) -> str:
    """What the network does to a message is seen where it arrives."""
    return "broker" if step.actor == "network" else step.actor


def signs_of(trace: Trace) -> list[str]:
    """The word whose sign stands for each step: of a send whether it is held, of an effect whether it is the first."""
    charged: set[str] = set()
    found = []
    for step in trace:
        word = "held" if step.what == "send" and step.data.get("held") else step.what
        if step.what == "effect":
            key = str(step.data.get("record"))
            word = "known" if not step.data["charged"] else "again" if key in charged else "charge"
            charged |= {key} if step.data["charged"] else set()
        found.append(word)
    return found


def transactions(trace: Trace, xs: Sequence[float]) -> list[Spell]:
    """From where to where each producer has a transaction open, as it sees it."""
    since: dict[str, tuple[float, int]] = {}
    found: list[Spell] = []
    for step, x in zip(trace, xs, strict=True):
        ends = step.what in ("begin", "commit_tx", "abort_tx", "kill") or step.data.get("fatal")
        if ends and step.actor in since:
            begun, tx = since.pop(step.actor)
            found.append((step.actor, _open(begun, x, tx), f"transaction:{tx:d}"))
        if step.what == "begin":
            since[step.actor] = x, step.data["tx"]
    return [*found, *((name, _open(begun, xs[-1], tx), f"transaction:{tx:d}") for name, (begun, tx) in since.items())]


def _open(x0: float, x1: float, tx: int) -> Bar:
    return Bar(x0, x1, "transaction", f"transaction {tx:d}|tx {tx:d}|{tx:d}")


def states_of(trace: Trace, xs: Sequence[float]) -> dict[str, list[Bar]]:
    """What the coordinator holds of each transactional id, from when to when."""
    found: dict[str, list[tuple[str, str] | None]] = {}
    for number, step in enumerate(trace):
        if step.what == "transition":
            name, to = plain_text(step.data["transactional_id"], 12), plain_text(step.data["to"], 20)
            row = found.setdefault(name, [None] * len(trace))
            kind = to if to in FILLS else "Prepare" if to.startswith("Prepare") else "Empty"
            told = f"{to} {step.data['pid']:d}/{step.data['epoch']:d}|{to}|{SHORT.get(to, to)}|{SHORT.get(to, to)[:1]}"
            row[number:] = [(kind, told)] * (len(trace) - number)
    return {name: bars(row, xs) for name, row in found.items()}


def _legend(trace: Trace, panel: Panel) -> list[Item]:
    found: list[Item] = [
        (el("path", d="M1 9H25", cls="ink-line", stroke_width=1.4), "the log's end"),
        (el("path", d="M1 9H25", stroke=BLUE, stroke_width=2.4), "the last stable offset"),
        (el("rect", x=1, y=3, width=24, height=12, fill=ORANGE, opacity=0.55), "written, and not decided"),
    ]
    changes = [step for step in trace.steps if step.what in ("write", "marker")]
    worth = {look for step in [*changes, *trace.steps[-1:]] for look in panel.looks_of(step.state.get("log", [])).values()}
    return [*found, *fill_legend(worth)]


STRIP_LEFT = AXIS_LEFT + 20
MOST_WIDE, LEAST_WIDE, TALL = 28, 20, 24
TITLE_Y, TX_Y, BOX_Y, EPOCH_Y, OFFSET_Y, READ_Y, READ_TALL = 12, 36, 44, 80, 95, 106, 20
PANEL_TALL = READ_Y + 2 * READ_TALL + 30  # and a line for each transactional id
MOST_IDS = 4
INPUT_Y, INPUT_TALL = READ_Y + 2 * READ_TALL + 14, 56  # the input topic, where there is one

class Panel:
    """The panel after each step, in pieces."""

    def __init__(self, trace: Trace) -> None:
        self.ends, self.stable = (
            [value or 0 for value in as_before(step.state.get(name) for step in trace)] for name in ("high_watermark", "lso")
        )
        self.records: dict[int, str] = {}  # offset -> record
        for step in trace:
            if step.actor == "broker" and step.what == "write":
                records = range(step.data["first"], step.data["last"] + 1)
                self.records |= {offset: str(record) for offset, record in enumerate(records, step.data["offset"])}
        self.end = max(self.ends, default=0)
        self.wide = min(MOST_WIDE, max(LEAST_WIDE, (AXIS_RIGHT - STRIP_LEFT) // max(1, self.end)))
        self.room = (AXIS_RIGHT - STRIP_LEFT) // self.wide  # boxes that fit
        self.ids = min(MOST_IDS, max((len(step.state.get("coordinator", {})) for step in trace.steps), default=0))
        self.state: dict[str, Any] = {}
        self.given: dict[str, list[int]] = {name: [] for name in READERS}
        self.inputs = max((step.data.get("inputs", 0) for step in trace.steps if step.what == "open"), default=0)
        self.pids: dict[str, int] = {}  # producer -> its id
        self.sent_offsets: dict[str, tuple[int, int]] = {}  # producer -> (offset, transaction), until a marker decides it
        self.head = self._head()
        self.place = next((place_name(step.data, trace.run) for step in trace if step.what in ("write", "marker")), "")

    @property
    def tall(self) -> int:
        """The panel's height."""
        return PANEL_TALL + 16 * self.ids + (INPUT_TALL if self.inputs else 0)

    def looks_of(self, log: list[LogRow]) -> dict[int, str]:
        """What each offset's box means."""
        found: dict[int, str] = {}
        seen: set[str] = set()  # committed so far
        for row in log:
            look = row[5] or fate_of(row, log)
            for offset in range(row[0], row[1] + 1):
                found[offset] = look
                if look in (COMMITTED, PLAIN) and (record := self.records.get(offset)) is not None:
                    found[offset] = COPY if record in seen else look
                    seen.add(record)
        return found

    def take(self, step: Step) -> tuple[list[Svg], str]:
        """The panel's pieces after a step, and what they show in words."""
        self.state = step.state or self.state
        if step.actor in READERS and step.what == "read":
            self.given[step.actor].append(step.data["offset"])
        if step.what == "id":
            self.pids[step.actor] = step.data["pid"]
        elif step.what == "send_offsets":
            self.sent_offsets[step.actor] = step.data["offset"], step.data["tx"]
        elif step.what == "marker":
            self.sent_offsets = {name: sent for name, sent in self.sent_offsets.items() if self.pids.get(name) != step.data["pid"]}
        log: list[LogRow] = self.state.get("log", [])
        end, lso = self.state.get("high_watermark", 0), self.state.get("lso", 0)
        first = max(0, end - self.room)
        pieces = [self.head, self._title(end, lso, first), *self._boxes(log, first), self._line(lso, first, end)]
        pieces += [self._reads(name, place, log, first) for place, name in enumerate(READERS)]
        pieces += [self._input()] if self.inputs else []
        pieces += self._coordinator()
        return pieces, self._words(end, lso)

    def _words(self, end: int, lso: int) -> str:
        told = [f"the log has {end} offsets, the last stable one is {lso}"]
        told += [f"{name} received {len(self.given[name])}" for name in READERS]
        if self.inputs:
            told.append(f"the group's position in the input is {self._position()} of {self.inputs}")
            told += [f"it becomes {offset} if transaction {tx} commits" for offset, tx in self.sent_offsets.values()]
        return "; ".join(told)

    def _position(self) -> int:
        committed = self.state.get("committed_input")
        return committed if isinstance(committed, int) else 0

    def _input(self) -> Svg:
        """The input topic's records, the group's position in it, and where an open transaction would move it: its other half."""
        y, at = INPUT_Y, self._position()
        ahead = max((offset for offset, _ in self.sent_offsets.values()), default=at)
        shown = min(self.inputs, self.room)
        parts = [el("text", "input", cls="ink", x=LEFT, y=y + 15, font_size=11)]
        for offset in range(shown):
            look = COMMITTED if offset < at else OPEN if offset < ahead else "unread"
            parts.append(draw_box(look, self._x(offset, 0), y, self.wide - 1, TALL, str(offset)))
        words = [f"the group's position: {at}"]
        words += [f"{offset} if transaction {tx} commits" for offset, tx in self.sent_offsets.values() if offset != at]
        x = self._x(min(at, shown), 0)
        parts.append(el("path", d=f"M{x} {y + 26}l-5 8h10Z", fill=BLUE, cls="ink-line", stroke_width=0.8))
        if ahead != at:
            parts.append(el("path", d=f"M{self._x(min(ahead, shown), 0)} {y + 26}l-5 8h10Z", fill=ORANGE, cls="ink-line", stroke_width=0.8))
        parts.append(el("text", "; ".join(words), cls="ink", x=STRIP_LEFT, y=y + 46, font_size=11))
        return group(*parts)

    def _x(self, offset: int, first: int) -> int:
        return STRIP_LEFT + (offset - first) * self.wide

    def _head(self) -> Svg:
        """The names of the rows."""
        rows = [("transaction", TX_Y), ("record", BOX_Y + 16), ("id / epoch", EPOCH_Y), ("offset", OFFSET_Y)]
        parts = [el("text", name, cls="grey", x=LEFT, y=y, font_size=11) for name, y in rows]
        for place, name in enumerate(READERS):
            parts.append(el("text", name, cls="ink", x=LEFT, y=READ_Y + READ_TALL * place + 13, font_size=11))
        return group(*parts)

    def _title(self, end: int, lso: int, first: int) -> Svg:
        shown = f", shown from offset {first} on" if first else ""
        rest = f"{end} offset{'' if end == 1 else 's'}{shown}; last stable offset {lso}"
        bold = el("tspan", "The log", font_weight="bold")
        return el("text", bold, el("tspan", rest, dx=8), cls="ink", x=LEFT, y=TITLE_Y)

    def _boxes(self, log: list[LogRow], first: int) -> list[Svg]:
        """The records and markers that fit, the transactions over them, producer id and epoch below."""
        shown = [row for row in log if row[1] >= first]
        if not shown:
            return [el("path", d=f"M{STRIP_LEFT} {BOX_Y + 12}h60", cls="grey-line", stroke_dasharray="1 4")]
        parts, looks = [], self.looks_of(log)
        for begin, last, pid, epoch, _, kind in shown:
            left, boxes = max(begin, first), []
            for offset in range(left, last + 1):
                words = self.records.get(offset, "")
                box = draw_box(looks[offset], self._x(offset, first), BOX_Y, self.wide - 1, TALL, words, f"offset {offset}")
                boxes.append(group(box, data_ref=f"{'marker' if kind else 'record'}:{self.place}/{offset}"))
            x, wide, told = self._x(left, first), (last - left + 1) * self.wide, f"{pid}/{epoch}"
            boxes.append(el("text", str(left), cls="grey", x=x + 2, y=OFFSET_Y, font_size=11))
            if pid >= 0 and len(told) * CHAR <= wide:
                boxes.append(el("text", told, cls="ink", x=x + wide / 2, y=EPOCH_Y, text_anchor="middle", font_size=11))
            parts.append(group(*boxes))
        for tx, rows in groupby((row for row in shown if row[5] is None), key=lambda row: row[4]):
            spans = [row[:2] for row in rows]
            begin, last = spans[0][0], spans[-1][1]
            if tx is not None:
                parts.append(self._bracket(str(tx), self._x(max(begin, first), first), self._x(last + 1, first)))
        return parts

    def _bracket(self, tx: str, x0: int, x1: int) -> Svg:
        """A transaction's number over its records."""
        line = el("path", d=f"M{x0 + 2} {TX_Y + 6}v-3H{x1 - 2}v3", fill="none", cls="grey-line", stroke_width=1)
        number = el("text", tx, cls="ink", x=(x0 + x1) / 2, y=TX_Y, text_anchor="middle", font_size=11, font_weight="bold")
        return group(line, number, data_ref=f"transaction:{tx}")

    def _line(self, lso: int, first: int, end: int) -> Svg:
        """The last stable offset, as a line through log and readers."""
        x = self._x(max(lso, first), first)
        foot = READ_Y + 2 * READ_TALL
        line = el("path", d=f"M{x} {TX_Y + 5}V{foot}", stroke=BLUE, stroke_width=2.6)
        place, anchor = (x + 4, "start") if x < AXIS_RIGHT - 130 else (x - 4, "end")
        return group(line, el("text", "last stable offset", cls="ink", x=place, y=foot + 6, text_anchor=anchor, font_size=11))

    def _reads(self, name: str, place: int, log: list[LogRow], first: int) -> Svg:
        """A small box below each record that a reader was given; hatched where it was aborted since or before."""
        looks = self.looks_of(log)
        y = READ_Y + READ_TALL * place + 3
        parts = [el("path", d=f"M{STRIP_LEFT} {y + 12}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5)]
        for offset, times in Counter(self.given[name]).items():
            if offset >= first:
                x = self._x(offset, first)
                parts.append(draw_fill(FILLS[looks.get(offset, OPEN)], x + 3, y, self.wide - 6, 12, f"offset {offset}"))
                if times > 1:
                    paint = letter_paint("ink", 4)
                    parts.append(el("text", f"{times}×", x=x + self.wide / 2, y=y + 10, text_anchor="middle", font_size=11, **paint))
        return group(*parts)

    def _coordinator(self) -> list[Svg]:
        """A line for each transactional id."""
        rows = list(self.state.get("coordinator", {}).items())[:MOST_IDS]
        found = []
        for place, (name, entry) in enumerate(rows):
            y = READ_Y + 2 * READ_TALL + 26 + 16 * place + (INPUT_TALL if self.inputs else 0)
            told = f"is {plain_text(entry['state'], 20)} at the coordinator, producer id {entry['pid']}, epoch {entry['epoch']}"
            bold = el("tspan", plain_text(name, 40), font_weight="bold")
            found.append(el("text", bold, el("tspan", told, dx=6), cls="ink", x=LEFT, y=y))
        return found
