"""A source task's memory of how far it has read: written on a timer, after the records, or with them in one transaction.

A source task reads something outside Kafka and produces records. Its position is its
source offset, which the worker writes to a topic of its own every `offset.flush.interval.ms`. What was
produced since then is produced again after a crash. With exactly-once support the records and the source
offset are written in one transaction: a crash aborts the open one, and its contents are read again.

Left out: several source partitions of one task, filtered records, and records that fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Boundary = Literal["poll", "interval"]


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How a source task keeps its place; times in ms."""

    offset_flush_interval_ms: int = 60_000  # Source: Kafka 4.3.1, WorkerConfig
    exactly_once: bool = False  # exactly.once.source.support of the workers, and a connector that supports it
    transaction_boundary: Boundary = "poll"  # transaction.boundary: each poll, or each flush interval


@dataclass(frozen=True, slots=True)
class Produced:
    """What a call wrote: records as [first, last] that a reader sees from now on, and the source offset if it was stored."""

    visible: tuple[int, int] | None = None  # to a read_committed reader, both inclusive
    flushed: int | None = None  # the source offset that was stored, the next record to read


@dataclass(slots=True)
class SourceTask:
    """One task: what it has read, what of it is in the topic, and what it would remember after a crash.

    Source: Kafka 4.3.1, connect.runtime.WorkerSourceTask, SourceTaskOffsetCommitter (without transactions),
    ExactlyOnceWorkerSourceTask (with them). Differs: every produced record is acknowledged at once.
    """

    settings: SourceSettings = field(default_factory=SourceSettings)
    position: int = 0  # the next source record to read
    stored: int = 0  # the source offset in the offsets topic; never above `position`
    open_from: int | None = None  # the first record of the open transaction
    last_flush_ms: int = 0

    def start(self, now_ms: int) -> int:
        """Begin at the stored source offset; that offset."""
        self.position, self.open_from = self.stored, None
        self.last_flush_ms = now_ms
        return self.position

    def poll(self, count: int, now_ms: int) -> Produced:
        """Read so many records and produce them; a transaction of one poll is committed at once."""
        if count < 1:
            return Produced()
        first, self.position = self.position, self.position + count
        if not self.settings.exactly_once:
            return Produced(visible=(first, self.position - 1))
        if self.open_from is None:
            self.open_from = first
        return self._commit(now_ms) if self.settings.transaction_boundary == "poll" else Produced()

    def maybe_flush(self, now_ms: int) -> Produced:
        """Store the source offset if the interval is over; with transactions of an interval, end the open one."""
        if now_ms - self.last_flush_ms < self.settings.offset_flush_interval_ms:
            return Produced()
        self.last_flush_ms = now_ms
        if self.settings.exactly_once:
            return self._commit(now_ms)
        self.stored = self.position
        return Produced(flushed=self.stored)

    def crash(self) -> tuple[int, int] | None:
        """The worker dies; the records of the open transaction, which is aborted, or None."""
        aborted = None if self.open_from is None else (self.open_from, self.position - 1)
        self.open_from = None
        return aborted

    def stop(self, now_ms: int) -> Produced:
        """Stopped in order: what was produced is stored as done."""
        if self.settings.exactly_once:
            return self._commit(now_ms)
        self.stored, self.last_flush_ms = self.position, now_ms
        return Produced(flushed=self.stored)

    @property
    def at_risk(self) -> int:
        """How many records would be in the topic a second time after a crash now."""
        return 0 if self.settings.exactly_once else self.position - self.stored

    def _commit(self, now_ms: int) -> Produced:
        if self.open_from is None:
            return Produced()
        visible, self.open_from = (self.open_from, self.position - 1), None
        self.stored = self.position
        return Produced(visible=visible, flushed=self.stored)
