"""A trace, made ready to be drawn: what changes at each step, and nothing that a picture can look up.

The picture after step n must be there at once, whichever way the reader scrubs. So each step keeps
only its *toggles*: one flag (see `kitlib.views.look`) that flips on a range of offsets. Flipping
again undoes it, so the same list is played forwards and backwards. The Python SVG and the browser's
player both read these frames; where the close-up looks and what a step says is decided here, once.

Left out: the colours and the drawing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kitlib.errors import TraceError
from kitlib.trace import Range, Trace
from kitlib.views.curves import Sample, bearable, to_samples
from kitlib.views.forest import Forest
from kitlib.views.forest_reader import to_forest
from kitlib.views.look import (
    ALARM,
    EXISTS,
    FAILED,
    FEW_BOXES,
    IS_BELOW_COMMIT,
    IS_GONE,
    IS_READ,
    MANY_BOXES,
    PENDING,
    PROCESSED,
    REFUSED,
    SKIPPED,
    TABLE,
    TWICE,
    WAITING,
)
from kitlib.views.sentences import place, tell
from kitlib.views.text import plain_text

MAX_SPAN = 8_000_000  # offsets a lane can draw; of a longer log the newest ones
NO_LANE = -1
QUIET_WORDS = frozenset({"append", "commit", "compact"})  # they do not move the close-up


@dataclass(slots=True)
class Lane:
    """One partition, drawn as one strip: offsets base <= offset < end."""

    name: str
    base: int
    end: int

    @property
    def has_bar(self) -> bool:
        """Whether the close-up is too short for the whole log."""
        return self.end - self.base > self.boxes

    @property
    def boxes(self) -> int:
        """How many offsets the close-up shows."""
        return MANY_BOXES if self.end - self.base > FEW_BOXES and self.end <= 100 else FEW_BOXES


@dataclass(slots=True)
class Frames:
    """Everything a picture of one trace needs; all lists but `toggles` and `marks` have one item a step."""

    experiment: str
    backend: str
    lanes: list[Lane] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)  # the step's lane, or NO_LANE
    at_ms: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)  # the record this step is about, or -1
    window: list[int] = field(default_factory=list)  # first offset of that lane's close-up
    marks: list[int] = field(default_factory=list)  # log start, log end, committed_to, emitted_to; four a step
    toggles: list[int] = field(default_factory=list)  # first offset - lane's base, count, flag; three a toggle
    begins: list[int] = field(default_factory=lambda: [0])  # step n's toggles: begins[n] .. begins[n + 1]
    lag: list[int] = field(default_factory=list)  # log end - committed_to, summed over the lanes
    pending: list[int] = field(default_factory=list)
    retries: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    forked_at: int = -1  # the last step shared with the parent, or -1
    forest: Forest | None = None  # the trees of a topology's trace
    samples: list[Sample] = field(default_factory=list)  # the counts that a long run of a topology wrote down
    bearable: int | None = None  # tuples that its one bolt works through in a time-out

    def __len__(self) -> int:
        return len(self.lane)

    def flags_after(self, number: int) -> list[bytearray]:
        """The flags of every lane's offsets after step `number`."""
        flags = [bytearray(lane.end - lane.base) for lane in self.lanes]
        for step in range(number + 1):
            for at in range(self.begins[step], self.begins[step + 1], 3):
                first, length, flag = self.toggles[at : at + 3]
                row = flags[self.lane[step]]
                if length == 1:
                    row[first] ^= flag
                else:
                    row[first : first + length] = row[first : first + length].translate(_FLIP[flag])
        return flags

    def last_of(self, lane: int, number: int) -> int:
        """The last step up to `number` that belongs to the lane, or -1."""
        while number >= 0 and self.lane[number] != lane:
            number -= 1
        return number

    def marks_after(self, lane: int, number: int) -> tuple[int, int, int, int]:
        """Log start, log end, committed_to and emitted_to_offset of a lane after step `number`."""
        at = self.last_of(lane, number) * 4
        if at < 0:
            base = self.lanes[lane].base
            return base, base, base, base
        start, end, committed, emitted = self.marks[at : at + 4]
        return start, end, committed, emitted

    def window_after(self, lane: int, number: int) -> int:
        """The first offset of a lane's close-up after step `number`."""
        at = self.last_of(lane, number)
        return self.lanes[lane].base if at < 0 else self.window[at]

    def to_bytes(self, **more: Any) -> bytes:
        """All of it, and `more`, as compact JSON for the player."""
        row: dict[str, Any] = {name: getattr(self, name) for name in Frames.__slots__ if name not in NOT_SENT}
        row["lanes"] = [[lane.name, lane.base, lane.end, lane.boxes] for lane in self.lanes]
        row["forest"] = self.forest.to_json() if self.forest else None
        return json.dumps(row | more, separators=(",", ":")).encode()


# Told to the browser in another form, or not at all: what curves show comes ready-made (kitlib.views.plot).
NOT_SENT = frozenset({"lanes", "forest", "samples", "bearable", "lag", "pending", "retries"})
_FLIP = {1 << bit: bytes(value ^ (1 << bit) for value in range(256)) for bit in range(8)}


def to_frames(trace: Trace) -> Frames:
    """The frames of a trace. Steps without a topic and a partition belong to no lane and change no strip.

    TraceError when a step's data are not what its word promises (an offset that is no number).
    """
    try:
        return _to_frames(trace)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"trace {plain_text(trace.run)}: it cannot be drawn, a step's data are not what its word needs "
            f"({type(error).__name__}: {plain_text(error)}). Record the trace again."
        ) from error


def _to_frames(trace: Trace) -> Frames:
    frames = Frames(trace.experiment, trace.backend)
    frames.forest = to_forest(trace)
    frames.samples, frames.bearable = to_samples(trace), bearable(trace)
    frames.forked_at = int(trace.parent["at"]) if trace.parent else -1
    ledgers = {key: _Ledger(number, lane) for number, (key, lane) in enumerate(_lanes_of(trace).items())}
    frames.lanes = [ledger.lane for ledger in ledgers.values()]
    lag = pending = retries = 0
    for step in trace.steps:
        data = step.data
        ledger = ledgers.get((data.get("topic"), data.get("partition")))
        frames.at_ms.append(step.at_ms)
        frames.said.append(tell(step))
        if ledger is None:
            frames.lane.append(NO_LANE)
            frames.offset.append(-1)
            frames.window.append(0)
            frames.marks += (0, 0, 0, 0)
        else:
            lag, pending, retries = lag - ledger.lag, pending - ledger.pending, retries - ledger.retries
            ledger.toggles = frames.toggles
            ledger.follow(step.what, data, step.state)
            lag, pending, retries = lag + ledger.lag, pending + ledger.pending, retries + ledger.retries
            frames.lane.append(ledger.number)
            frames.offset.append(_int(data.get("offset"), -1) if step.what not in QUIET_WORDS else -1)
            frames.window.append(ledger.window)
            frames.marks += ledger.marks
        frames.begins.append(len(frames.toggles))
        frames.lag.append(lag)
        frames.pending.append(pending)
        frames.retries.append(retries)
    return frames


def _lanes_of(trace: Trace) -> dict[tuple[Any, Any], Lane]:
    """The partitions in the order in which the trace names them, and the offsets each must have room for."""
    lanes: dict[tuple[Any, Any], Lane] = {}
    for step in trace.steps:
        data = step.data
        if "topic" not in data or "partition" not in data:
            continue
        key = (data["topic"], data["partition"])
        lane = lanes.get(key)
        if lane is None:
            lane = lanes[key] = Lane(place(data, trace.run), -1, 0)
        if step.what == "append":
            first = _int(data.get("first"), 0)
            lane.base = first if lane.base < 0 else min(lane.base, first)
            lane.end = max(lane.end, _int(data.get("last"), first) + 1)
    for lane in lanes.values():
        lane.base = max(lane.base, 0, lane.end - MAX_SPAN)
        lane.end = max(lane.end, lane.base)
    return lanes


def _int(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _ends(ranges: list[Range]) -> set[int]:
    """The first and the one-after-the-last offset of each range; an end that two ranges share goes away."""
    ends = [end for first, last in ranges for end in (first, last + 1)]
    found = set(ends)
    if len(found) < len(ends):
        found = set()
        for end in ends:
            found ^= {end}
    return found


class _Ledger:
    """What one lane knows while the steps go by, and the toggles that each step makes."""

    STATE_FLAGS = (("pending", PENDING), ("failed", FAILED), ("waiting", WAITING))

    def __init__(self, number: int, lane: Lane) -> None:
        self.number = number
        self.lane = lane
        self.toggles: list[int] = []
        self.marks = (lane.base, lane.base, lane.base, lane.base)
        self.window = lane.base
        self.lag = self.pending = self.retries = 0
        self.ranges: dict[str, list[Range]] = {"pending": [], "failed": [], "waiting": []}
        self.ends: dict[str, set[int]] = {"pending": set(), "failed": set(), "waiting": set()}
        self.effects: set[tuple[int, Any]] = set()  # (offset, part) with a process step
        self.processed: set[int] = set()
        self.twice: set[int] = set()
        self.refused: set[int] = set()
        self.emitted = bytearray(lane.end - lane.base)  # 1: emitted or skipped, so it cannot be skipped any more
        self.appended_to = lane.base

    def follow(self, what: str, data: dict[str, Any], state: dict[str, Any]) -> None:
        """Take one step of this lane."""
        handle = getattr(self, f"_on_{what}", None)
        if handle is not None:
            handle(data)
        if state:
            self._read_state(state)
        else:
            start, end, committed, emitted = self.marks
            self.marks = (start, max(end, self.appended_to), committed, emitted)
        self.lag = max(0, self.marks[1] - self.marks[2])
        if what not in QUIET_WORDS:
            self._look_at(data.get("offset", data.get("to")))

    def _read_state(self, state: dict[str, Any]) -> None:
        """The partition's own numbers. Where no spout is at work nothing is pending, and the next one starts
        at the commit, so without an emitted_to_offset that is where reading stands.
        """
        start, end, committed, _ = self.marks
        committed = _int(state.get("committed_to"), committed)
        self.marks = (
            _int(state.get("log_start"), start),
            _int(state.get("log_end"), max(end, self.appended_to)),
            committed,
            _int(state.get("emitted_to_offset"), committed),
        )
        self.retries = _int(state.get("retries"), self.retries)
        for name, flag in self.STATE_FLAGS:
            ranges = state.get(name, [])
            if ranges == self.ranges[name]:
                continue
            ends = _ends(ranges)
            changed = sorted(ends ^ self.ends[name])
            for first, after in zip(changed[::2], changed[1::2], strict=True):
                self._toggle(first, after, flag)
            self.ranges[name], self.ends[name] = ranges, ends
            if name == "pending":
                self.pending = sum(last - first + 1 for first, last in ranges)

    def _toggle(self, first: int, after: int, flag: int) -> None:
        """Flip a flag on first <= offset < after, as far as the lane reaches."""
        first, after = max(first, self.lane.base), min(after, self.lane.end)
        if first < after:
            self.toggles += (first - self.lane.base, after - first, flag)

    def _look_at(self, offset: object) -> None:
        """Move the close-up when the offset leaves it; a third of it stays on the left."""
        lane = self.lane
        if isinstance(offset, int) and not self.window + 1 <= offset < self.window + lane.boxes - 1:
            self.window = max(lane.base, min(offset - lane.boxes // 3, lane.end - lane.boxes))

    def _on_append(self, data: dict[str, Any]) -> None:
        first, last = data["first"], data["last"]
        for begin, after in _runs(data["offsets"]) if "offsets" in data else ((first, last + 1),):
            self._toggle(begin, after, EXISTS)
        self.appended_to = max(self.appended_to, last + 1)

    def _on_compact(self, data: dict[str, Any]) -> None:
        for begin, after in _runs(data["offsets"]):
            self._toggle(begin, after, EXISTS)

    def _on_start(self, data: dict[str, Any]) -> None:
        self._skip_to(_int(data.get("offset"), 0))

    def _on_reset(self, data: dict[str, Any]) -> None:
        self._skip_to(_int(data.get("to"), 0))

    def _skip_to(self, position: int) -> None:
        """Mark what lies below the position and was never emitted."""
        base = self.lane.base
        limit = min(position, self.appended_to) - base
        first = self.emitted.find(0, 0, limit) if limit > 0 else -1
        while first >= 0:
            after = self.emitted.find(1, first, limit)
            after = limit if after < 0 else after
            self._toggle(base + first, base + after, SKIPPED)
            self.emitted[first:after] = b"\x01" * (after - first)
            first = self.emitted.find(0, after, limit)

    def _on_emit(self, data: dict[str, Any]) -> None:
        offset = data["offset"]
        if 0 <= offset - self.lane.base < len(self.emitted):
            self.emitted[offset - self.lane.base] = 1
        if offset in self.refused:
            self.refused.discard(offset)
            self._toggle(offset, offset + 1, REFUSED)

    def _on_fail(self, data: dict[str, Any]) -> None:
        offset = data["offset"]
        if data.get("retry") is False and offset not in self.refused:
            self.refused.add(offset)
            self._toggle(offset, offset + 1, REFUSED)

    def _on_process(self, data: dict[str, Any]) -> None:
        offset = data["offset"]
        effect = (offset, data.get("part"))
        if offset not in self.processed:
            self.processed.add(offset)
            self._toggle(offset, offset + 1, PROCESSED)
        if effect in self.effects and offset not in self.twice:
            self.twice.add(offset)
            self._toggle(offset, offset + 1, TWICE)
        self.effects.add(effect)


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Offsets as (first, one after the last) runs."""
    runs: list[tuple[int, int]] = []
    for offset in sorted(set(offsets)):
        if runs and runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], offset + 1)
        else:
            runs.append((offset, offset + 1))
    return runs


def cells_of(codes: str, limit: int) -> list[tuple[int, int, str]]:
    """Codes as at most `limit` cells, merged into runs: (first index, one after the last, code).

    A cell stands for the same number of offsets each; its code is the most alarming one among them.
    """
    size = -(-len(codes) // limit) if codes else 1
    runs: list[tuple[int, int, str]] = []
    for first in range(0, len(codes), size):
        part = codes[first : first + size]
        code = part[0] if size == 1 else min(set(part), key=ALARM.index)
        after = min(first + size, len(codes))
        if runs and runs[-1][2] == code:
            runs[-1] = (runs[-1][0], after, code)
        else:
            runs.append((first, after, code))
    return runs


def codes_of(flags: bytearray, base: int, marks: tuple[int, int, int, int]) -> str:
    """The codes of a lane's offsets: its flags, and on which side of the three positions each lies."""
    start, _, committed, emitted = marks
    end = base + len(flags)
    edges = sorted({base, end, *(min(max(mark, base), end) for mark in (start, committed, emitted))})
    parts = []
    for first, after in pairwise(edges):
        positions = (first < start) * IS_GONE | (first < committed) * IS_BELOW_COMMIT | (first < emitted) * IS_READ
        parts.append(flags[first - base : after - base].translate(_CODES[positions >> 8]).decode("ascii"))
    return "".join(parts)


_CODES = [TABLE[high * 256 : high * 256 + 256].encode("ascii") for high in range(8)]
