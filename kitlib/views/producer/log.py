"""A producer's log, read step by step: which copy of each record lies where, and what the user was told.

A second copy is a record that the log has already; a record is out of order when its first copy lies
behind one that was sent later. `kitlib.monitor.producing` counts the same for the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from kitlib.views.producer.diagram import NEVER, LogView, Segment

Run = tuple[int, int, int]  # (offset, first record, last record)


class LogReader:
    """What one partition's log is while the steps go by."""

    def __init__(self, view: LogView) -> None:
        self.view = view
        self.alive: list[int] = []  # places in `view.segments`, in log order
        self.copies: dict[int, int] = {}  # record -> how often it was written
        self.highest = -1  # record in the log
        self.told: dict[int, tuple[int, int]] = {}  # record -> (acked, failed)
        self.records = self.extra = self.late = self.deleted = 0  # in the log; second copies; out of order; gone
        self.has_begun = False

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        if not self.alive:
            return self.view.base
        last = self.view.segments[self.alive[-1]]
        return last.offset + last.last - last.first + 1

    def write(self, step: int, offset: int, first: int, last: int) -> None:
        """Records first to last are stored from `offset` on."""
        view = self.view
        view.base = offset if not self.has_begun else min(view.base, offset)
        view.end = max(view.end, offset + last - first + 1)
        view.highest = max(view.highest, last)
        self.has_begun = True
        for begin, after, copy, is_late in self._fates(first, last):
            acked, failed = self.told.get(begin, (NEVER, NEVER))
            self.alive.append(len(view.segments))
            view.segments.append(
                Segment(offset + begin - first, begin, after - 1, step, NEVER, copy, is_late, acked, failed)
            )
            self._count(view.segments[-1], 1)
        for record in range(first, last + 1):
            self.copies[record] = self.copies.get(record, 0) + 1
        self.highest = max(self.highest, last)
        self._say(step)

    def _fates(self, first: int, last: int) -> list[tuple[int, int, int, bool]]:
        """The records in runs of one fate each: (first, one after the last, copy, is out of order)."""
        copies, told, highest = self.copies, self.told, self.highest
        runs: list[tuple[int, int, int, bool]] = []
        known: object = None
        for record in range(first, last + 1):
            copy = copies.get(record, 0) + 1
            is_late = copy == 1 and record < highest
            key = copy, is_late, told.get(record)
            if runs and known == key:
                runs[-1] = (runs[-1][0], record + 1, copy, is_late)
            else:
                runs.append((record, record + 1, copy, is_late))
            known = key
        return runs

    def copy_of(self, record: int) -> int:
        """How many copies there will be when the record is written now."""
        return self.copies.get(record, 0) + 1

    def tell(self, step: int, first: int, last: int, is_stored: bool) -> None:
        """The user is told of these records that they are stored, or that they failed."""
        for record in range(first, last + 1):
            acked, failed = self.told.get(record, (NEVER, NEVER))
            self.told[record] = (step, failed) if is_stored else (acked, step)
        segments = self.view.segments
        for place in self.alive:
            one = segments[place]
            if one.first > last or one.last < first:
                continue
            if first <= one.first and one.last <= last:
                acked, failed = self.told[one.first]
                segments[place] = one._replace(acked=acked, failed=failed)

    def read(self, step: int, first_offset: int, ranges: Iterable[tuple[int, int]]) -> None:
        """What the topic holds from `first_offset` on, which has the last word."""
        runs: list[Run] = []
        offset = first_offset
        for first, last in ranges:
            runs.append((offset, first, last))
            offset += last - first + 1
        known = {(one.offset + n, one.first + n) for one in self._segments() for n in range(one.last - one.first + 1)}
        found = {(offset + n, first + n) for offset, first, last in runs for n in range(last - first + 1)}
        if {pair for pair in known if pair[0] >= first_offset} == found:
            return
        self.cut(step, first_offset)
        for offset, first, last in runs:
            self.write(step, offset, first, last)
        self._say(step)

    def cut(self, step: int, offset: int) -> None:
        """Nothing from `offset` on is in the log any more."""
        kept = []
        for place in self.alive:
            one = self.view.segments[place]
            if one.offset + one.last - one.first < offset:
                kept.append(place)
                continue
            self.view.segments[place] = one._replace(died=step)
            self._count(one, -1)
            if one.offset < offset:  # the part before the cut stays
                kept.append(len(self.view.segments))
                self.view.segments.append(one._replace(last=one.first + offset - one.offset - 1, born=step))
                self._count(self.view.segments[-1], 1)
        self.alive = kept
        self.copies, self.highest = {}, -1
        for one in self._segments():
            for record in range(one.first, one.last + 1):
                self.copies[record] = self.copies.get(record, 0) + 1
            self.highest = max(self.highest, one.last)
        self._say(step)

    def delete(self, step: int, to: int) -> None:
        """The log begins at `to` now."""
        self.view.start.put(step, to)
        self.deleted = sum(
            max(0, min(to, one.offset + one.last - one.first + 1) - one.offset) for one in self._segments()
        )
        self._say(step)

    def look_at(self, step: int, offset: int, count: int) -> None:
        """Move the close-up when the records leave it; what lies before them stays in view.

        Called when the whole run is known, as the boxes are as broad as its highest number needs.
        """
        view, boxes = self.view, self.view.boxes
        window = view.window.at(step, view.base)
        if not window <= offset <= offset + count <= window + boxes:
            to = min(offset, offset + count - boxes + boxes // 4, view.end - boxes)
            view.window.put(step, max(view.base, to))

    def _segments(self) -> list[Segment]:
        return [self.view.segments[place] for place in self.alive]

    def _count(self, one: Segment, sign: int) -> None:
        number = sign * (one.last - one.first + 1)
        self.records += number
        self.extra += number if one.copy > 1 else 0
        self.late += number if one.is_late else 0

    def _say(self, step: int) -> None:
        told = [f"{self.records:,} {'record' if self.records == 1 else 'records'}"]
        told += [f"{self.extra:,} second {'copy' if self.extra == 1 else 'copies'}"] if self.extra else []
        told += [f"{self.late:,} out of order"] if self.late else []
        told += [f"{self.deleted:,} deleted since"] if self.deleted else []
        self.view.words.put(step, ", ".join(told))


def bar_of(segments: list[Segment], step: int, start: int) -> list[tuple[int, int, str]]:
    """The log in pieces of one look each: (offset, one after the last, code)."""
    pieces: list[tuple[int, int, str]] = []
    for one in segments:
        after = one.offset + one.last - one.first + 1
        edges = sorted({one.offset, min(max(start, one.offset), after), after})
        for begin, end in pairwise(edges):
            code = one.code_after(step, start, begin)
            if pieces and pieces[-1][2] == code and pieces[-1][1] == begin:
                pieces[-1] = (pieces[-1][0], end, code)
            else:
                pieces.append((begin, end, code))
    return pieces
