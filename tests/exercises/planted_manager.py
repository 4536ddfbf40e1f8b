"""Slips of learners who write the whole PartitionManager: each is shown by a recorded step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.mechanisms.partition_manager import PartitionManager
from tests.exercises import solutions

Base = solutions.OwnPartitionManager


class CommitsWhatIsEmitted(Base):
    def commit(self) -> None:
        if self.emitted_to_offset != self.committed_to:
            self.store.write(self.emitted_to_offset)
            self.committed_to = self.emitted_to_offset


class StartsAtTheConfigured(Base):
    def __init__(self, config: Any, log: Any, store: Any) -> None:
        super().__init__(config, log, store)
        self.emitted_to_offset = self.committed_to = self.configured()


class TriesNewOnesFirst(Base):
    def fill(self) -> None:
        failed, self.failed = self.failed, set()
        super().fill()
        self.failed = failed
        if not self.waiting_to_emit:
            super().fill()


class ForgetsAfterAReset(Base):
    """What failed is gone with the range."""

    def fill(self) -> None:
        before = self.emitted_to_offset
        super().fill()
        if self.emitted_to_offset < before:
            self.failed = set()


class ClearsWithTheAck(Base):
    """As 0.9.2."""

    def ack(self, offset: int) -> None:
        self.number_acked += 1
        if self.pending and self.pending.first() < offset - self.config.max_offset_behind:
            self.pending.clear_below(offset)
        else:
            self.pending.discard(offset)


class EmitsNulls(Base):
    def next(self) -> Any:
        if not self.waiting_to_emit:
            self.fill()
        return self.waiting_to_emit.popleft() if self.waiting_to_emit else None


class BreaksAtAFailure(Base):
    def fail(self, offset: int) -> None:
        raise LookupError("not yet written")


class ScansPending(Base):
    """Agrees with every step."""

    def ack(self, offset: int) -> None:
        sorted(self.pending)
        super().ack(offset)


class AroundTheKits:
    """A wrapper."""

    def __init__(self, config: Any, log: Any, store: Any) -> None:
        self.kits = PartitionManager(config, log, store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kits, name)

    next = ack = fail = commit = lambda self, *given: None


PLANTED: list[Callable[..., Any]] = [
    CommitsWhatIsEmitted, StartsAtTheConfigured, TriesNewOnesFirst, ForgetsAfterAReset, ClearsWithTheAck, EmitsNulls, BreaksAtAFailure,
]  # fmt: skip
