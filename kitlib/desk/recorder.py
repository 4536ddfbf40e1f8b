"""The last few thousand steps of the desk's spout, as a trace that a player can open.

A run of hours has millions of steps, so only the last ones are kept, and beside them the spout's ledgers as they were before the first
of those. A step that falls out is applied to these ledgers. The trace begins with them: the log from the commit on, a start at that
commit, and what was in flight. The state of each further step is then computed anew.

The steps are those of `kitlib.words.spout`. What a fetch brought is kept as well: it is no step, but the ledgers change by it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from kitlib.settings import Settings
from kitlib.trace import Trace, add_to_ranges, to_ranges
from kitlib.words.word import Range

MOST_STEPS = 4_000
MOST_RANGES = 1_000  # of processed offsets that the ledgers remember
FETCH = "fetch"  # what a fetch brought: its offsets
ACTORS = {"append": "log", "process": "bolt"}


@dataclass(slots=True)
class _Ledgers:
    """A PartitionManager's ledgers, and the log, between two steps."""

    log_end: int = 0
    emitted_to_offset: int = 0
    committed_to: int = 0
    pending: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    processed: list[Range] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)  # of the offsets that are pending
    number_acked: int = 0
    number_failed: int = 0
    retries: int = 0

    def apply(self, what: str, data: Mapping[str, Any]) -> None:
        """Change as this step changes them."""
        offset = data.get("offset", -1)
        match what:
            case "append":
                self.log_end = data["last"] + 1
            case "fetch":
                found = set(data["offsets"])
                self.pending |= found
                self.waiting |= found
                self.failed -= found
                self.emitted_to_offset = max(self.emitted_to_offset, *(at + 1 for at in found))
            case "emit":
                self.waiting.discard(offset)
                self.attempts[offset] = self.attempts.get(offset, 0) + 1
                self.retries += self.attempts[offset] > 1
            case "process":
                add_to_ranges(self.processed, offset)
                del self.processed[:-MOST_RANGES]
            case "ack":
                self.pending.discard(offset)
                self.attempts.pop(offset, None)
                self.number_acked += 1
            case "clear":
                for first, last in data["ranges"]:
                    gone = {at for at in self.pending if first <= at <= last}
                    self.pending -= gone
                    for at in gone:
                        self.attempts.pop(at, None)
            case "fail":
                if data["retry"]:
                    self.failed.add(offset)
                    self.number_failed += 1
            case "commit":
                self.committed_to = offset
            case "reset":
                self.emitted_to_offset = data["to"]
            case "start":
                self.committed_to = self.emitted_to_offset = offset
            case "crash":
                self.pending, self.failed, self.waiting, self.attempts = set(), set(), set(), {}
                self.number_acked = self.number_failed = 0

    def state(self) -> dict[str, Any]:
        """As a step of a spout's trace holds them."""
        return {
            "log_start": 0, "log_end": self.log_end, "processed": [[*each] for each in self.processed],
            "committed_to": self.committed_to, "emitted_to_offset": self.emitted_to_offset, "pending": to_ranges(self.pending),
            "failed": to_ranges(self.failed), "waiting": to_ranges(self.waiting), "number_acked": self.number_acked,
            "number_failed": self.number_failed, "retries": self.retries,
        }  # fmt: skip


Entry = tuple[int, str, dict[str, Any]]  # ms since the run began, word, data


@dataclass(slots=True)
class Recorder:
    """Written by the spout's thread; `trace` may be asked for at any time."""

    began_s: float = field(default_factory=time.monotonic)
    most: int = MOST_STEPS
    steps: deque[Entry] = field(default_factory=deque)
    before: _Ledgers = field(default_factory=_Ledgers)  # as they were before the first of the steps
    forgotten: int = 0  # steps that fell out
    log_end: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, what: str, /, **data: Any) -> None:
        """The next step, now."""
        at_ms = int((time.monotonic() - self.began_s) * 1000)
        with self.lock:
            self.steps.append((at_ms, what, data))
            while len(self.steps) > self.most:
                _, old, told = self.steps.popleft()
                self.before.apply(old, told)
                self.forgotten += 1

    def fetched(self, offsets: Sequence[int]) -> None:
        """A fetch brought these."""
        if offsets[-1] >= self.log_end:
            self.note("append", first=self.log_end, last=offsets[-1])
            self.log_end = offsets[-1] + 1
        self.note(FETCH, offsets=list(offsets))

    def cleared(self, by: int, offsets: Iterable[int]) -> None:
        """An ack took these out of pending."""
        self.note("clear", ranges=to_ranges(offsets), by=by)

    def trace(self, run: str, topic: str, settings: Settings) -> Trace:
        """What is kept, as a trace with the state after each step."""
        with self.lock:
            ledgers, steps = deepcopy(self.before), list(self.steps)
        trace = Trace(run, "desk", "kafka", 1, settings, domain="spout")
        place = {"topic": topic, "partition": 0}

        def write(at_ms: int, what: str, data: dict[str, Any]) -> None:
            trace.append(at_ms, ACTORS.get(what, "spout"), what, {**place, **data}, ledgers.state())

        if self.forgotten and ledgers.log_end > ledgers.committed_to and steps:
            self._open(ledgers, steps[0][0], write)
        for at_ms, what, data in steps:
            ledgers.apply(what, data)
            if what == FETCH:
                continue
            more = {"attempt": ledgers.attempts[data["offset"]], "parts": 1} if what == "emit" else {}
            write(at_ms, what, {**data, **more})
        return trace

    def _open(self, ledgers: _Ledgers, at_ms: int, write: Any) -> None:
        """How a trace begins whose first steps are forgotten."""
        begin = ledgers.committed_to
        write(at_ms, "append", {"first": begin, "last": ledgers.log_end - 1})
        why = f"the desk has forgotten the {self.forgotten:,} steps before"
        write(at_ms, "start", {"offset": begin, "stored": begin, "why": why})
        for offset in sorted(ledgers.pending - ledgers.waiting):
            write(at_ms, "emit", {"offset": offset, "attempt": ledgers.attempts.get(offset, 1), "parts": 1})
        for first, last in ledgers.processed:
            for offset in range(max(first, begin), last + 1):
                write(at_ms, "process", {"offset": offset})
