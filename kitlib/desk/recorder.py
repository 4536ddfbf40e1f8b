"""The last few thousand steps of the desk's spout, as a trace that a player can open.

A run of hours has millions of steps, so only the last ones are kept, each with the spout's ledgers as they were then, and the state
before the first of them. The trace begins with that: the log from the commit on, a start at that commit, and what was in flight.

The steps are those of `kitlib.words.spout`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.experiments.run import PartitionLedger
from kitlib.experiments.storm.spout_run import ShownLedgers
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.settings import Settings
from kitlib.trace import Trace, from_ranges

MOST_STEPS = 4_000
MOST_RANGES = 1_000  # of processed offsets that are remembered
ACTORS = {"append": "log", "process": "bolt"}
DEAD: dict[str, Any] = {"pending": [], "failed": [], "waiting": [], "number_acked": 0, "number_failed": 0}  # what a spout's death leaves

Entry = tuple[int, str, dict[str, Any], dict[str, Any]]  # ms since the run began, word, data, the state after it


@dataclass(slots=True)
class Recorder:
    """Written by the spout's thread; `trace` may be asked for at any time."""

    began_s: float = field(default_factory=time.monotonic)
    most: int = MOST_STEPS
    steps: deque[Entry] = field(default_factory=deque)
    before: dict[str, Any] = field(default_factory=dict)  # the state before the first of the steps, once some have fallen out
    forgotten: int = 0  # steps that fell out
    log: PartitionLedger = field(default_factory=lambda: PartitionLedger("records"))
    shown: ShownLedgers = field(default_factory=ShownLedgers)
    spout: dict[str, Any] = field(default_factory=dict)  # its ledgers as the last step shows them
    attempts: Counter[int] = field(default_factory=Counter)  # of the offsets that are pending
    retries: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, manager: PartitionManager | None, what: str, /, **data: Any) -> None:
        """The next step, now, after a call of the manager; None while no spout lives."""
        if what == "emit":
            self.attempts[data["offset"]] += 1
            self.retries += self.attempts[data["offset"]] > 1
            data |= {"attempt": self.attempts[data["offset"]], "parts": 1}
        elif what == "process":
            self.log.process(data["offset"])
            del self.log.processed[:-MOST_RANGES]
        elif what == "ack":
            del self.attempts[data["offset"]]
        elif what == "clear":
            for offset in from_ranges(data["ranges"]):
                del self.attempts[offset]
        elif what == "crash":
            self.attempts.clear()
        self.spout = self.spout | DEAD if manager is None else self.shown.of_manager(manager, self.retries)
        self._keep(what, data)

    def fetched(self, offsets: Sequence[int]) -> None:
        """A fetch brought these; of those behind the end of the log so far nobody has known before."""
        if offsets[-1] >= self.log.log_end:
            first, self.log.log_end = self.log.log_end, offsets[-1] + 1
            self._keep("append", {"first": first, "last": offsets[-1]})

    def _keep(self, what: str, data: dict[str, Any]) -> None:
        at_ms = int((time.monotonic() - self.began_s) * 1000)
        with self.lock:
            self.steps.append((at_ms, what, data, self.log.log_state() | self.spout))
            while len(self.steps) > self.most:
                *_, self.before = self.steps.popleft()
                self.forgotten += 1

    def trace(self, run: str, topic: str, settings: Settings) -> Trace:
        """What is kept, as a trace with the state after each step."""
        with self.lock:
            steps, before = list(self.steps), self.before
        trace = Trace(run, "desk", "kafka", 1, settings, domain="spout")
        if before and before["log_end"] > before["committed_to"]:
            steps = [(steps[0][0], what, data, before) for what, data in self._opening(before)] + steps
        for at_ms, what, data, state in steps:
            trace.append(at_ms, ACTORS.get(what, "spout"), what, {"topic": topic, "partition": 0, **data}, state)
        return trace

    def _opening(self, before: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """How a trace begins whose first steps are forgotten."""
        begin = before["committed_to"]
        why = f"the desk has forgotten the {self.forgotten:,} steps before"
        flying = sorted({*from_ranges(before["pending"])} - {*from_ranges(before["waiting"])})
        done = [offset for offset in from_ranges(before["processed"]) if offset >= begin]
        return [
            ("append", {"first": begin, "last": before["log_end"] - 1}),
            ("start", {"offset": begin, "stored": begin, "why": why}),
            *(("emit", {"offset": offset, "attempt": 1, "parts": 1}) for offset in flying),
            *(("process", {"offset": offset}) for offset in done),
        ]
