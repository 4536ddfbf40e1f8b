"""The desk's own books: what its producer, its spout and its bolt have seen and been told, written by them as it happens."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from kitlib.desk.fold import LogFold
from kitlib.desk.lamps import Witness


@dataclass(slots=True)
class Ledgers:
    """Written by the threads of the producer and of the spout, read by whoever looks."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    handed_over: int = 0  # records that the application gave to the producer
    stored: int = 0  # of them, those that it was told are stored
    failed: int = 0  # and those that it was told are not
    log_end: int = 0  # of the topic, as far as any of the three knows
    topic: LogFold = field(default_factory=LogFold)  # what the spout was given, each offset once
    unread: int = 0  # offsets that no spout was given: one began behind them
    results: LogFold = field(default_factory=LogFold)  # what the broker has acknowledged to the bolt
    committed_to: int = 0
    pending: int = 0  # fetched, neither acked nor cleared
    in_flight: int = 0  # at the bolt, or on the way to the results
    retried: int = 0  # emitted once more
    refused: int = 0  # failures that max_offset_behind leaves unretried
    cleared: int = 0  # offsets that an ack has taken out of pending

    def told(self, error: str, offset: int) -> None:
        """The producer was told of a record: its offset, or why it failed."""
        with self.lock:
            if error:
                self.failed += 1
            else:
                self.stored += 1
                self.log_end = max(self.log_end, offset + 1)

    def given(self, offset: int, number: int | None) -> None:
        """The spout was given the record at this offset; None for one that holds no number."""
        with self.lock:
            self.log_end = max(self.log_end, offset + 1)
            self.unread += max(0, offset - self.topic.next_offset)
            if number is None:
                self.topic.skip(offset)
            else:
                self.topic.take(offset, number)

    def written(self, offset: int, source: int) -> None:
        """The result of the record at `source` lies at `offset` of the results."""
        with self.lock:
            self.results.take(offset, source)

    def witness(self, handed_over: int, log_end: int) -> Witness:
        """What they say at the end."""
        with self.lock:
            unread = self.unread + max(0, log_end - self.topic.next_offset)
            return Witness("our ledgers", self.topic.tally(handed_over), self.results.tally(log_end), unread)
