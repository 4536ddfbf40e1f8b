"""One partition while the steps of a trace go by: which flags of its records each step flips.

A step keeps only its *toggles*: one flag (see `kitlib.views.look`) that flips on a range of offsets.
`kitlib.views.frames` puts the toggles of all partitions in a row.

Left out: what the flags together mean (`kitlib.views.look`), and the drawing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kitlib.views.look import (
    EXISTS,
    FAILED,
    FEW_BOXES,
    MANY_BOXES,
    PENDING,
    PROCESSED,
    REFUSED,
    SKIPPED,
    TWICE,
    WAITING,
)
from kitlib.words.word import Range

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


def number_of(value: object, default: int) -> int:
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


class LaneLedger:
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
        self.skipped: set[int] = set()
        self.exists: set[int] = set()
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
        committed = number_of(state.get("committed_to"), committed)
        self.marks = (
            number_of(state.get("log_start"), start),
            number_of(state.get("log_end"), max(end, self.appended_to)),
            committed,
            number_of(state.get("emitted_to_offset"), committed),
        )
        self.retries = number_of(state.get("retries"), self.retries)
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
            self.exists.update(range(max(begin, self.lane.base), min(after, self.lane.end)))
        self.appended_to = max(self.appended_to, last + 1)

    def _on_compact(self, data: dict[str, Any]) -> None:
        for begin, after in _runs(data["offsets"]):
            self._toggle(begin, after, EXISTS)
        self.exists -= set(data["offsets"])

    _on_purge = _on_compact  # tombstones are taken out like other records

    def _on_cut(self, data: dict[str, Any]) -> None:
        """From `to` on nothing is left, and nothing is known of what will lie there."""
        to, base = max(int(data["to"]), self.lane.base), self.lane.base
        for first, after in _runs(offset for offset in self.exists if offset >= to):
            self._toggle(first, after, EXISTS)
        for known, flag in ((self.processed, PROCESSED), (self.twice, TWICE), (self.refused, REFUSED), (self.skipped, SKIPPED)):
            for first, after in _runs(offset for offset in known if offset >= to):
                self._toggle(first, after, flag)
            known -= {offset for offset in known if offset >= to}
        self.exists = {offset for offset in self.exists if offset < to}
        self.effects = {effect for effect in self.effects if effect[0] < to}
        self.emitted[to - base :] = bytes(len(self.emitted[to - base :]))
        self.appended_to = min(self.appended_to, to)

    def _on_start(self, data: dict[str, Any]) -> None:
        self._skip_to(number_of(data.get("offset"), 0))

    def _on_reset(self, data: dict[str, Any]) -> None:
        self._skip_to(number_of(data.get("to"), 0))

    def _skip_to(self, position: int) -> None:
        """Mark what lies below the position and was never emitted."""
        base = self.lane.base
        limit = min(position, self.appended_to) - base
        first = self.emitted.find(0, 0, limit) if limit > 0 else -1
        while first >= 0:
            after = self.emitted.find(1, first, limit)
            after = limit if after < 0 else after
            self._toggle(base + first, base + after, SKIPPED)
            self.skipped.update(range(base + first, base + after))
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
