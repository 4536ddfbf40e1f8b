"""Small runs with an offsets topic and with a compacted topic, told in the words of their experiments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.trace import Trace

BILLING, AUDIT = "billing orders-0", "audit orders-0"
LANE = {"topic": "orders", "partition": 0}


@dataclass
class OffsetsTopic:
    """An offsets topic that is written to by hand: each step has the log's state."""

    trace: Trace
    at_ms: int = 0
    records: list[list[Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    segments: list[list[Any]] = field(default_factory=lambda: [[0, 0, True]])
    cache: dict[str, int] = field(default_factory=dict)
    loading: list[int] | None = None
    cleaner: str = "runs"
    next_offset: int = 0

    def step(self, actor: str, what: str, *, wait_ms: int = 100, lane: dict[str, Any] | None = None, **data: Any) -> None:
        self.at_ms += wait_ms
        shown = {
            "records": [list(each) for each in self.records], "keys": list(self.keys),
            "segments": [list(each) for each in self.segments], "cache": dict(self.cache),
            "loading": self.loading, "dirty_ratio": 0.25, "cleaner": self.cleaner,
        }  # fmt: skip
        state = {"offsets": shown, "now_ms": self.at_ms} | (lane or {})
        self.trace.record(self.at_ms, actor, what, state=state, **data)

    def write(self, key: str, value: int | None, *, is_cached: bool = True) -> None:
        if key not in self.keys:
            self.keys.append(key)
        self.records.append([self.next_offset, self.keys.index(key), value])
        self.next_offset += 1
        self.segments[-1][1] = self.next_offset
        if is_cached and value is not None:
            self.cache[key] = value
        elif is_cached:
            self.cache.pop(key, None)
        self.step("offsets log", "write", offset=self.next_offset - 1, key=key, value=value, timestamp_ms=self.at_ms)

    def roll(self) -> None:
        self.segments[-1][2] = False
        self.segments.append([self.next_offset, self.next_offset, True])
        self.step("offsets log", "roll", base=self.next_offset)

    def clean(self, removed: list[int]) -> None:
        self.records = [each for each in self.records if each[0] not in removed]
        self.step("offsets log", "clean", removed=removed, kept=len(self.records), to=self.segments[-1][0])


def a_stale_offset(many: int = 0, payload: str = "billing") -> Trace:
    """A coordinator moves, its load ends early, an old offset is in the cache, and the consumer repeats."""
    trace = Trace("stale", "offsets_toy", domain="offsets")
    topic, key = OffsetsTopic(trace), f"{payload} orders-0"
    work = {"log_start": 0, "log_end": 60, "committed_to": 0, "emitted_to_offset": 0, "processed": []}
    topic.step("log", "append", lane=work, **LANE, first=0, last=59)
    topic.step("A", "start", lane=work, **LANE, offset=0, why="earliest")
    done = 0
    for round_ in range(4):
        for offset in range(done, done + 3):
            topic.step("A", "emit", wait_ms=5, lane=work, **LANE, offset=offset)
            topic.step("A", "process", wait_ms=5, lane=work, **LANE, offset=offset)
        done += 3
        work = work | {"committed_to": done, "emitted_to_offset": done, "processed": [[0, done - 1]]}
        topic.step("A", "commit", lane=work, **LANE, offset=done, written=True)
        topic.write(key, done)
        if round_ == 1:
            topic.write(AUDIT, 40)
            topic.roll()
            topic.clean([0])
            topic.step("cleaner", "dies", why="a record that it cannot read")
            topic.cleaner = "dead"
    for number in range(many):
        topic.write(AUDIT, 41 + number)
    topic.write(AUDIT, None)
    topic.cache = {}
    topic.loading = [0, len(topic.records)]
    topic.step("coordinator 1", "move", **{"from": "coordinator 1", "to": "coordinator 2"})
    topic.step("coordinator 2", "load_begin", records=len(topic.records))
    topic.step("coordinator 2", "answer", group=payload, **LANE, offset=-1, error="OffsetsLoadInProgress")
    topic.cache, topic.loading = {key: 6}, [2, len(topic.records)]
    topic.step("coordinator 2", "load", **{"from": 1, "to": 2})
    topic.step("coordinator 2", "load_failed", wait_ms=3000, at=3, why="a record of version 1")
    topic.loading = None
    topic.step("coordinator 2", "load_end", records=2, ms=3100)
    topic.step("coordinator 2", "answer", group=payload, topic="orders", partition=0, offset=6)
    topic.step("A", "start", lane=work | {"committed_to": 6}, **LANE, offset=6, why="committed")
    for offset in range(6, 15):
        topic.step("A", "emit", wait_ms=5, lane=work, **LANE, offset=offset)
        topic.step("A", "process", wait_ms=5, lane=work, **LANE, offset=offset)
    topic.step("A", "commit", lane=work, **LANE, offset=9, written=True)
    topic.step("coordinator 2", "evict", key=key, why="expired")
    topic.step("coordinator 2", "answer", group=payload, topic="orders", partition=0, offset=-1)
    topic.step("offsets log", "retention", start=3)
    topic.step("cleaner", "pass", dirty_ratio=0.5)
    return trace


def a_compacted_topic(payload: str = "a") -> Trace:
    """Two keys, a pass that takes out replaced records, a tombstone that is purged, and a reader that meets the gap."""
    trace = Trace("compacted", "compaction_toy", domain="compaction")
    keys = [payload, "b"]
    rows: list[list[Any]] = []
    at_ms = 0

    def step(actor: str, what: str, **data: Any) -> None:
        nonlocal at_ms
        at_ms += 50
        shown = {"records": [list(each) for each in rows], "keys": keys, "segments": [[0, 5, False], [5, 6, True]],
                 "dirty_ratio": 0.5, "cleaner": "runs"}  # fmt: skip
        lane = {"log_start": 0, "log_end": 6, "committed_to": 0, "emitted_to_offset": 0, "processed": []}
        trace.record(at_ms, actor, what, state=lane | {"offsets": shown}, **LANE, **data)

    written = [(0, "1"), (1, "1"), (0, "2"), (1, None), (0, "3"), (1, "9")]
    for offset, (key, value) in enumerate(written):
        rows.append([offset, key, value])
        step("log", "append", first=offset, last=offset, keys=[keys[key]], values=[value])
        if offset == 4:
            step("log", "roll", base=5)
    step("reader", "start", offset=0, why="earliest")
    step("reader", "emit", offset=0)
    step("reader", "process", offset=0)
    rows = [each for each in rows if each[0] not in (0, 1, 2)]
    step("log", "pass", to=5, removed=3, kept=3)
    step("log", "compact", offsets=[0, 1, 2])
    step("reader", "gap", after=0, next=3)
    rows = [each for each in rows if each[0] != 3]
    step("log", "pass", to=5, removed=1, kept=2)
    step("log", "purge", offsets=[3])
    step("reader", "view", keys=2, stale=[keys[0]], missing=0)
    step("log", "delete", to=4)
    return trace
