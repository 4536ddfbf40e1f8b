"""One partition while the steps of a trace go by: what each record is after any of them.

The picture after step n must be there at once, whichever step is asked for. So each step of a partition keeps
only its *toggles*: one flag (see `kitlib.views.look`) that flips on a range of offsets, and the partition's
positions. Played from the start they give the views of all steps in turn.

Left out: what the flags together mean (`kitlib.views.look`), and the drawing (`kitlib.views.partition.strip`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from kitlib.trace import Step, Trace, to_ranges
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
from kitlib.words.word import Range, place, place_name

QUIET_WORDS = frozenset({"append", "commit", "compact"})  # they do not move the close-up
CALM = ALARM[::-1]
MAX_SPAN = 8_000_000  # offsets a lane can draw; of a longer log the newest ones

Key = tuple[Any, Any]  # topic and partition
Marks = tuple[int, int, int, int]  # log start, log end, committed_to, emitted_to
Toggle = tuple[int, int, int]  # first offset - lane's base, count, flag


class Beyond(NamedTuple):
    """What the boxes cannot show: how often something happened, and records whose boxes are gone."""

    repeats: int = 0  # times that a record was processed once more
    removed: int = 0  # records removed by compaction after they were processed
    replaced: int = 0  # records replaced by compaction before they were
    cut_done: int = 0  # records processed before the log's end was truncated below them
    cut_lost: int = 0  # records that were not


class LaneView(NamedTuple):
    """What one lane shows after one step."""

    lane: Lane
    at: Moment  # the newest one up to the step
    codes: str  # of offsets base, base + 1, ... as far as the log reaches now
    flags: bytes  # of all offsets of the lane
    current: int  # the offset that the step is about, or -1

    def counts(self) -> dict[str, int]:
        """Offsets by code, the calm codes first."""
        return {code: count for code in CALM if (count := self.codes.count(code))}


class Moment(NamedTuple):
    """What one step of a lane changes, and where its positions are then."""

    step: int
    toggles: list[Toggle]
    marks: Marks
    window: int  # first offset of the close-up
    offset: int  # the record that the step is about, or -1
    beyond: Beyond
    is_stored: bool  # whether committed_to is what the store holds


@dataclass(slots=True)
class Lane:
    """One partition, drawn as one strip: offsets base <= offset < end."""

    name: str
    base: int
    end: int
    place: str = ""  # its topic and partition in refs: "orders/0"
    moments: list[Moment] = field(default_factory=list)  # of its steps

    @property
    def has_bar(self) -> bool:
        """Whether the close-up is too short for the whole log."""
        return self.end - self.base > self.boxes

    @property
    def boxes(self) -> int:
        """How many offsets the close-up shows."""
        return MANY_BOXES if self.end - self.base > FEW_BOXES and self.end <= 100 else FEW_BOXES

    def after(self, step: int) -> LaneView:
        """The lane after a step, its own or another lane's."""
        past = self.moments[: bisect_right(self.moments, step, key=lambda moment: moment.step)]
        flags = bytearray(self.end - self.base)
        for moment in past:
            flip(flags, moment.toggles)
        return self._view(past[-1] if past else None, flags, step)

    def views(self) -> Iterator[tuple[int, LaneView]]:
        """Each step from which on the lane looks another way than before, and how; the first one is step 0."""
        flags = bytearray(self.end - self.base)
        if not self.moments or self.moments[0].step > 0:
            yield 0, self._view(None, flags, 0)
        for moment, after in zip_longest(self.moments, self.moments[1:]):
            flip(flags, moment.toggles)
            yield moment.step, self._view(moment, flags, moment.step)
            if moment.offset >= 0 and (after is None or after.step > moment.step + 1):
                yield moment.step + 1, self._view(moment, flags, moment.step + 1)

    def _view(self, moment: Moment | None, flags: bytearray, step: int) -> LaneView:
        """The lane after a step, the newest of its own moments up to then."""
        at = moment or Moment(-1, [], (self.base,) * 4, self.base, -1, Beyond(), False)
        codes = codes_of(flags, self.base, at.marks)[: max(0, at.marks[1] - self.base)]
        shown = codes if at.is_stored else codes.replace("C", "D")
        return LaneView(self, at, shown, bytes(flags), at.offset if at.step == step else -1)


def flip(flags: bytearray, toggles: Iterable[Toggle]) -> None:
    """Flip what toggles say; flipping again undoes it."""
    for first, length, flag in toggles:
        if length == 1:
            flags[first] ^= flag
        else:
            flags[first : first + length] = flags[first : first + length].translate(_FLIP[flag])


_FLIP = {1 << bit: bytes(value ^ (1 << bit) for value in range(256)) for bit in range(8)}


def lanes_of(trace: Trace) -> dict[Key, Lane]:
    """The partitions in the order in which the trace names them, and the offsets each must have room for."""
    lanes: dict[Key, Lane] = {}
    for step in trace.steps:
        data = step.data
        if "topic" not in data or "partition" not in data:
            continue
        key = (data["topic"], data["partition"])
        lane = lanes.get(key)
        if lane is None:
            lane = lanes[key] = Lane(place(data, trace.run), -1, 0, place_name(data, trace.run))
        if step.what == "append":
            first = data["first"]
            lane.base = first if lane.base < 0 else min(lane.base, first)
            lane.end = max(lane.end, data["last"] + 1)
    for lane in lanes.values():
        lane.base = max(lane.base, 0, lane.end - MAX_SPAN)
        lane.end = max(lane.end, lane.base)
    return lanes


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


def size_of(ranges: Iterable[Range]) -> int:
    """How many offsets lie in at least one of the ranges."""
    size, after = 0, -1
    for first, last in sorted(ranges):
        size += max(0, last + 1 - max(first, after))
        after = max(after, last + 1)
    return size


def _ends(ranges: list[Range]) -> set[int]:
    """The first and the one-after-the-last offset of each range; an end that two ranges share goes away."""
    ends = [end for first, last in ranges for end in (first, last + 1)]
    found = set(ends)
    if len(found) < len(ends):
        found = set()
        for end in ends:
            found ^= {end}
    return found


class LaneReader:
    """What one lane knows while the steps go by, and the toggles that each step makes."""

    STATE_FLAGS = (("pending", PENDING), ("failed", FAILED), ("waiting", WAITING))

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.toggles: list[Toggle] = []
        self.flags = bytearray(lane.end - lane.base)
        self.marks: Marks = (lane.base, lane.base, lane.base, lane.base)
        self.window = lane.base
        self.lag = self.in_flight = self.retries = 0
        self.is_stored = False  # what the spout begins from is a commit only once it was written, or read
        self.ranges: dict[str, list[Range]] = {"pending": [], "failed": [], "waiting": []}
        self.ends: dict[str, set[int]] = {"pending": set(), "failed": set(), "waiting": set()}
        self.effects: set[tuple[int, Any]] = set()  # (offset, part) with a process step
        self.parts: dict[int, int] = {}  # offset -> effects it still misses, of records whose append says how many
        self.beyond = Beyond()
        self.refused: set[int] = set()
        self.emitted = bytearray(lane.end - lane.base)  # 1: emitted or skipped, so it cannot be skipped any more
        self.appended_to = lane.base

    def take(self, step: Step) -> None:
        """Take one step of this lane."""
        what, data, state = step.what, step.data, step.state
        self.toggles = []
        handle = getattr(self, f"_on_{what}", None)
        if handle is not None:
            handle(data)
        before = self.marks[2]
        if state:
            self._read_state(state)
        else:
            start, end, committed, emitted = self.marks
            self.marks = (start, max(end, self.appended_to), committed, emitted)
        if what == "start" and "stored" in data:
            self.is_stored = data["stored"] == self.marks[2]
        elif what != "start" and self.marks[2] != before:
            self.is_stored = True
        self.lag = max(0, self.marks[1] - self.marks[2])
        if self.toggles:
            self.in_flight = self._in_flight()
        if what not in QUIET_WORDS:
            self._look_at(data.get("offset", data.get("to")))
        offset = data.get("offset", -1) if what not in QUIET_WORDS else -1
        self.lane.moments.append(Moment(step.number, self.toggles, self.marks, self.window, offset, self.beyond, self.is_stored))

    def _read_state(self, state: dict[str, Any]) -> None:
        """The partition's own numbers. Where no spout is at work nothing is pending, and the next one starts
        at the commit, so without an emitted_to_offset that is where reading stands.
        """
        start, end, committed, _ = self.marks
        committed = state.get("committed_to", committed)
        self.marks = (
            state.get("log_start", start),
            state.get("log_end", max(end, self.appended_to)),
            committed,
            state.get("emitted_to_offset", committed),
        )
        self.retries = state.get("retries", self.retries)
        for name, flag in self.STATE_FLAGS:
            ranges = state.get(name, [])
            if ranges == self.ranges[name]:
                continue
            ends = _ends(ranges)
            changed = sorted(ends ^ self.ends[name])
            for first, after in zip(changed[::2], changed[1::2], strict=True):
                self._toggle(first, after, flag)
            self.ranges[name], self.ends[name] = ranges, ends

    def _in_flight(self) -> int:
        """How many records are pending, and neither wait, nor are to be fetched again, nor failed for good."""
        held = [*self.ranges["waiting"], *self.ranges["failed"]]
        stuck = [[offset, offset] for offset in self.refused if not self._is(offset, PROCESSED)]
        return size_of([*self.ranges["pending"], *held, *stuck]) - size_of([*held, *stuck])

    def _toggle(self, first: int, after: int, flag: int) -> None:
        """Flip a flag on first <= offset < after, as far as the lane reaches."""
        first, after = max(first, self.lane.base), min(after, self.lane.end)
        if first < after:
            self.toggles.append((first - self.lane.base, after - first, flag))
            flip(self.flags, self.toggles[-1:])

    def _is(self, offset: int, flag: int) -> bool:
        at = offset - self.lane.base
        return 0 <= at < len(self.flags) and bool(self.flags[at] & flag)

    def _set(self, offset: int, flag: int, is_on: bool = True) -> None:
        """Flip the flag of one offset unless it is so already."""
        if self._is(offset, flag) != is_on:
            self._toggle(offset, offset + 1, flag)

    def _look_at(self, offset: object) -> None:
        """Move the close-up when the offset leaves it; a third of it stays on the left."""
        lane = self.lane
        if isinstance(offset, int) and not self.window + 1 <= offset < self.window + lane.boxes - 1:
            self.window = max(lane.base, min(offset - lane.boxes // 3, lane.end - lane.boxes))

    def _on_append(self, data: dict[str, Any]) -> None:
        first, last = data["first"], data["last"]
        for begin, end in to_ranges(data["offsets"]) if "offsets" in data else ([first, last],):
            self._toggle(begin, end + 1, EXISTS)
        self.appended_to = max(self.appended_to, last + 1)
        parts = data.get("parts")
        if parts is None:
            return
        offsets = data.get("offsets") or range(first, last + 1)
        for at, offset in enumerate(offsets):
            self.parts[offset] = parts[at] if isinstance(parts, list) else parts
            if not self.parts[offset]:
                self._set(offset, PROCESSED)

    def _on_compact(self, data: dict[str, Any]) -> None:
        """The records are replaced by later ones of their keys."""
        self._remove(data["offsets"])
        self._count(replaced=sum(not self._is(offset, PROCESSED) for offset in set(data["offsets"])))

    def _on_purge(self, data: dict[str, Any]) -> None:
        """Nothing replaces a tombstone: one that was not processed is lost."""
        self._remove(data["offsets"])
        for offset in data["offsets"]:
            if not self._is(offset, PROCESSED):
                self._refuse(offset)

    def _remove(self, offsets: list[int]) -> None:
        for first, last in to_ranges(offsets):
            self._toggle(first, last + 1, EXISTS)
        for offset in set(offsets):
            self._refuse(offset, False)
        self._count(removed=sum(self._is(offset, PROCESSED) for offset in set(offsets)))

    def _on_cut(self, data: dict[str, Any]) -> None:
        """From `to` on nothing is left, and nothing is known of what will lie there."""
        to, base = max(int(data["to"]), self.lane.base), self.lane.base
        gone = [self.flags[at] for at in range(to - base, len(self.flags)) if self.flags[at] & EXISTS]
        done = sum(bool(flags & PROCESSED) for flags in gone)
        self._count(cut_done=done, cut_lost=len(gone) - done)
        for flag in (EXISTS, PROCESSED, TWICE, REFUSED, SKIPPED):
            for first, last in to_ranges(offset for offset in range(to, self.lane.end) if self._is(offset, flag)):
                self._toggle(first, last + 1, flag)
        self.refused = {offset for offset in self.refused if offset < to}
        self.effects = {effect for effect in self.effects if effect[0] < to}
        self.parts = {offset: left for offset, left in self.parts.items() if offset < to}
        self.emitted[to - base :] = bytes(len(self.emitted[to - base :]))
        self.appended_to = min(self.appended_to, to)

    def _on_start(self, data: dict[str, Any]) -> None:
        self._skip_to(data.get("offset", 0))

    def _on_reset(self, data: dict[str, Any]) -> None:
        self._skip_to(data.get("to", 0))

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
        self._refuse(offset, False)

    def _on_fail(self, data: dict[str, Any]) -> None:
        if data.get("retry") is False:
            self._refuse(data["offset"])

    def _on_process(self, data: dict[str, Any]) -> None:
        offset = data["offset"]
        effect = (offset, data.get("part"))
        if effect in self.effects:
            self._count(repeats=1)
            self._set(offset, TWICE)
            return
        self.effects.add(effect)
        if offset in self.parts:
            self.parts[offset] -= 1
        if self.parts.get(offset, 0) <= 0:
            self._set(offset, PROCESSED)

    def _refuse(self, offset: int, is_refused: bool = True) -> None:
        self._set(offset, REFUSED, is_refused)
        self.refused.add(offset) if is_refused else self.refused.discard(offset)

    def _count(self, **more: int) -> None:
        self.beyond = self.beyond._replace(**{name: getattr(self.beyond, name) + count for name, count in more.items()})
