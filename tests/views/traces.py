"""Small made-up traces for the pictures' tests: a spout in miniature, seeded, with every word in it."""

from __future__ import annotations

import random
from typing import Any

from kitlib.experiments import get
from kitlib.trace import Trace, from_ranges, to_ranges

SOME_STEPS = 700  # of an experiment, where a test looks at all of them


class Spout:
    """Enough of a PartitionManager to make traces that look like real ones."""

    def __init__(
        self, topic: str = "orders", partition: int = 0, *, trace: Trace | None = None, behind: int = 2**63 - 1
    ) -> None:
        self.place = {"topic": topic, "partition": partition}
        self.trace = trace or Trace("sample", "sample")
        self.behind = behind
        self.now = 0
        self.log_start = self.log_end = self.committed_to = self.emitted_to = 0
        self.pending: set[int] = set()
        self.failed: set[int] = set()
        self.waiting: list[int] = []
        self.processed: set[int] = set()
        self.retries = self.acked = self.failures = 0
        self.attempts: dict[int, int] = {}

    def record(self, actor: str, what: str, **data: Any) -> None:
        state = {
            "log_start": self.log_start,
            "log_end": self.log_end,
            "committed_to": self.committed_to,
            "emitted_to_offset": self.emitted_to,
            "pending": to_ranges(self.pending),
            "failed": to_ranges(self.failed),
            "waiting": to_ranges(self.waiting),
            "processed": to_ranges(self.processed),
            "number_acked": self.acked,
            "number_failed": self.failures,
            "retries": self.retries,
        }
        self.now = max(self.now, self.trace.steps[-1].at_ms if self.trace.steps else 0)
        self.trace.record(self.now, actor, what, state=state, **self.place, **data)
        self.now += 1

    def append(self, number: int, **more: Any) -> None:
        first = self.log_end
        self.log_end += number
        self.record("log", "append", first=first, last=self.log_end - 1, **more)

    def delete(self, to: int) -> None:
        self.log_start = to
        self.record("log", "delete", to=to)

    def start(self, offset: int, stored: int | None = None, why: str = "") -> None:
        self.pending, self.failed, self.waiting = set(), set(), []
        self.committed_to = self.emitted_to = offset
        self.record("spout", "start", offset=offset, stored=stored, why=why)

    def emit(self, batch: int = 5) -> int | None:
        if not self.waiting:
            if self.failed:
                self.waiting, self.failed = sorted(self.failed), set()
            else:
                last = min(self.emitted_to + batch, self.log_end)
                self.waiting = list(range(max(self.emitted_to, self.log_start), last))
                self.emitted_to = last
            self.pending |= set(self.waiting)
        if not self.waiting:
            self.record("spout", "idle")
            return None
        offset = self.waiting.pop(0)
        attempt = self.attempts[offset] = self.attempts.get(offset, 0) + 1
        self.retries += attempt > 1
        self.record("spout", "emit", offset=offset, attempt=attempt, parts=1)
        return offset

    def process(self, offset: int, part: int = 0) -> None:
        self.processed.add(offset)
        self.record("bolt", "process", offset=offset, part=part)

    def ack(self, offset: int) -> None:
        cleared = {o for o in self.pending if o < offset - self.behind}
        self.pending -= cleared | {offset}
        self.acked += 1
        self.record("spout", "ack", offset=offset)
        if cleared:
            self.record("spout", "clear", ranges=to_ranges(cleared))

    def fail(self, offset: int) -> None:
        retry = offset >= self.emitted_to - self.behind
        if retry:
            self.failed.add(offset)
            self.failures += 1
        self.record("spout", "fail", offset=offset, retry=retry)

    def commit(self) -> None:
        last = min(self.pending, default=self.emitted_to)
        written, self.committed_to = last != self.committed_to, last
        self.record("spout", "commit", offset=last, written=written)


def story() -> Trace:
    """Forty steps on twenty records in which every kind of box occurs."""
    spout = Spout(behind=6)
    spout.append(24)
    spout.start(2, why="latest")
    for _ in range(10):
        spout.emit(10)
    spout.process(2), spout.ack(2)
    spout.fail(3)
    for offset in (4, 5, 6, 7):
        spout.process(offset)
        spout.ack(offset)
    spout.process(8), spout.fail(8), spout.fail(9)
    spout.commit()
    spout.process(11), spout.ack(11)
    spout.commit()
    spout.emit(), spout.process(8)
    spout.delete(3)
    spout.emit(), spout.emit()
    return spout.trace


def long_trace(
    steps: int = 1000, seed: int = 1, records: int = 400, *, topic: str = "orders", behind: int = 60
) -> Trace:
    """A trace of exactly `steps` steps on a longer log, with failures, retries, stalls and losses."""
    rng = random.Random(seed)
    spout = Spout(topic, behind=behind)
    spout.append(records)
    spout.start(0, why="earliest")
    out: list[int] = []
    while len(spout.trace) < steps:
        offset = spout.emit(20)
        if offset is not None:
            out.append(offset)
        while out and (len(out) > 12 or offset is None):
            done = out.pop(rng.randrange(len(out)))
            if rng.random() < 0.12:
                spout.fail(done)
            else:
                spout.process(done)
                spout.ack(done)
        if rng.random() < 0.08:
            spout.commit()
        if rng.random() < 0.02:
            spout.append(rng.randrange(5, 30))
    del spout.trace.steps[steps:]
    return spout.trace


def some_steps_of(name: str, seed: int = 1) -> Trace:
    """An experiment's run, cut where a test has seen enough."""
    return get(name).run(seed=seed, max_steps=SOME_STEPS)


def offsets(state: dict[str, Any], name: str) -> set[int]:
    return set(from_ranges(state[name]))
