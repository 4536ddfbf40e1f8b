"""A trace, made ready to be drawn: what changes at each step, and nothing that a picture can look up.

The picture after step n must be there at once, whichever way the reader scrubs. So each step keeps
only its *toggles*: one flag (see `kitlib.views.look`) that flips on a range of offsets. Flipping
again undoes it, so the same list is played forwards and backwards. The Python SVG and the browser's
player both read these frames; where the close-up looks and what a step says is decided here, once.

Left out: the colours and the drawing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kitlib.errors import TraceError
from kitlib.monitor.verdict import cut_sentence
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.curves import Sample, bearable, to_samples
from kitlib.views.forest import Forest
from kitlib.views.forest_reader import to_forest
from kitlib.views.frames_ledger import QUIET_WORDS, Lane, LaneLedger, number_of
from kitlib.views.lanes import SpaceTime
from kitlib.views.lanes_reader import to_space_time
from kitlib.views.look import ALARM, IS_BELOW_COMMIT, IS_GONE, IS_READ, TABLE
from kitlib.views.scene import Scene
from kitlib.views.scenes import kind_of
from kitlib.words.word import place

MAX_SPAN = 8_000_000  # offsets a lane can draw; of a longer log the newest ones
NO_LANE = -1


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
    cut: str = ""  # that the run was cut, as a sentence for below the picture; "" when its story came to its end
    forest: Forest | None = None  # the trees of a topology's trace
    samples: list[Sample] = field(default_factory=list)  # the counts that a long run of a topology wrote down
    bearable: int | None = None  # tuples that its one bolt works through in a timeout
    space_time: SpaceTime | None = None  # a producer's trace: what crosses between it and the broker
    scene: Scene | None = None  # a trace whose whole run is one picture (kitlib.views.scenes)

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
        row |= {"space_time": self.space_time.to_json()} if self.space_time else {}
        row |= {"scene": self.scene.to_json()} if self.scene else {}
        return json.dumps(row | more, separators=(",", ":")).encode()


# Told to the browser in another form, or not at all: what curves show comes ready-made (kitlib.views.plot).
NOT_SENT = frozenset({"lanes", "forest", "samples", "bearable", "space_time", "scene", "lag", "pending", "retries"})
_FLIP = {1 << bit: bytes(value ^ (1 << bit) for value in range(256)) for bit in range(8)}


def to_frames(trace: Trace, part: str = "all") -> Frames:
    """The frames of a trace. Steps without a topic and a partition belong to no lane and change no strip.

    `part` is the part of its scene, where it has one (`kitlib.views.scenes`).
    TraceError when a step's data are not what its word promises (an offset that is no number).
    """
    try:
        return _to_frames(trace, part)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"trace {plain_text(trace.run)}: it cannot be drawn, a step's data are not what its word needs "
            f"({type(error).__name__}: {plain_text(error)}). Record the trace again."
        ) from error


def _to_frames(trace: Trace, part: str) -> Frames:
    frames = Frames(trace.experiment, trace.backend)
    kind = kind_of(trace)
    if kind is not None:
        frames.scene = kind.to_scene(trace, part)
    else:
        frames.space_time = to_space_time(trace) if trace.domain == "idempotence" else None
        frames.forest = to_forest(trace) if trace.domain == "topology" else None
        frames.samples, frames.bearable = to_samples(trace), bearable(trace)
    of_run = frames.scene or frames.space_time
    told = of_run.said if of_run else None
    frames.forked_at = int(trace.parent["at"]) if trace.parent else -1
    frames.cut = "" if trace.cut_at is None else f"{cut_sentence(trace.cut_at)}."
    known = frames.space_time.places if frames.space_time else ()
    has_records = kind is None or kind.has_records
    lanes = [(key, lane) for key, lane in _lanes_of(trace).items() if key not in known] if has_records else []
    ledgers = {key: LaneLedger(number, lane) for number, (key, lane) in enumerate(lanes)}
    frames.lanes = [ledger.lane for ledger in ledgers.values()]
    lag = pending = retries = 0
    for step in trace.steps:
        data = step.data
        ledger = ledgers.get((data.get("topic"), data.get("partition")))
        frames.at_ms.append(step.at_ms)
        frames.said.append(told[step.number] if told else trace.sentence(step))
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
            frames.offset.append(number_of(data.get("offset"), -1) if step.what not in QUIET_WORDS else -1)
            frames.window.append(ledger.window)
            frames.marks += ledger.marks
        frames.begins.append(len(frames.toggles))
        frames.lag.append(lag)
        frames.pending.append(pending)
        frames.retries.append(retries)
    if frames.cut:
        frames.said[-1] = trace.sentence(trace.steps[-1])
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
            first = number_of(data.get("first"), 0)
            lane.base = first if lane.base < 0 else min(lane.base, first)
            lane.end = max(lane.end, number_of(data.get("last"), first) + 1)
    for lane in lanes.values():
        lane.base = max(lane.base, 0, lane.end - MAX_SPAN)
        lane.end = max(lane.end, lane.base)
    return lanes


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
