"""Slips of learners who write the whole PartitionManager: each is shown by a recorded step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.exercises import solutions
from kitlib.mechanisms.partition_manager import PartitionManager

Base = solutions.OwnPartitionManager


class CommitsWhatIsEmitted(Base):
    def commit(self) -> None:
        if self.emitted_to_offset != self.committed_to:
            self.store.write(self.emitted_to_offset)
            self.committed_to = self.emitted_to_offset


class CommitsBeforeItIsKept(Base):
    def commit(self) -> None:
        completed = self.pending.first() if self.pending else self.emitted_to_offset
        if completed != self.committed_to:
            self.committed_to = completed
            self.store.write(completed)


class NeverCommitsBackwards(Base):
    def commit(self) -> None:
        if not self.pending or self.pending.first() > self.committed_to:
            super().commit()


class CommitsEachTime(Base):
    def commit(self) -> None:
        self.committed_to = -1
        super().commit()


class StartsWhereItStopped(Base):
    """Whatever `force_from_start` says."""

    def __init__(self, config: Any, log: Any, store: Any) -> None:
        super().__init__(config, log, store)
        if (stored := store.read()) is not None:
            self.emitted_to_offset = self.committed_to = stored.offset


class StartsAtTheConfigured(Base):
    def __init__(self, config: Any, log: Any, store: Any) -> None:
        super().__init__(config, log, store)
        self.emitted_to_offset = self.committed_to = self.configured()


class TakesAStoredZero(Base):
    def __init__(self, config: Any, log: Any, store: Any) -> None:
        super().__init__(config, log, store)
        if (stored := store.read()) is not None and stored.offset == 0:
            self.emitted_to_offset = self.committed_to = 0


class IsNeverTooFarBehind(Base):
    def __init__(self, config: Any, log: Any, store: Any) -> None:
        super().__init__(config, log, store)
        stored = store.read()
        if stored is not None and stored.offset > 0 and not (config.force_from_start and stored.topology_id != config.topology_id):
            self.emitted_to_offset = self.committed_to = stored.offset


class TriesNewOnesFirst(Base):
    def fill(self) -> None:
        failed, self.failed = self.failed, set()
        super().fill()
        self.failed = failed
        if not self.waiting_to_emit:
            super().fill()


class TakesAllOfARetry(Base):
    def fill(self) -> None:
        failed = set(self.failed)
        offset = min(failed) if failed else self.emitted_to_offset
        records = self.log.fetch(offset)
        if records is None:
            self.emitted_to_offset = self.configured()
            return
        for record in records:
            if record.offset >= offset:
                self.pending.add(record.offset)
                self.waiting_to_emit.append(record)
                self.failed.discard(record.offset)
                self.emitted_to_offset = max(self.emitted_to_offset, record.offset + 1)


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


class FailsTakeOutOfPending(Base):
    def fail(self, offset: int) -> None:
        self.pending.discard(offset)
        super().fail(offset)


class FailsAlways(Base):
    def fail(self, offset: int) -> None:
        self.failed.add(offset)
        self.number_failed += 1


class NeverGivesUp(Base):
    def fail(self, offset: int) -> None:
        self.number_acked, acked = 1, self.number_acked
        super().fail(offset)
        self.number_acked = acked


class EmitsNulls(Base):
    def next(self) -> Any:
        if not self.waiting_to_emit:
            self.fill()
        return self.waiting_to_emit.popleft() if self.waiting_to_emit else None


class TakesOlderOfABatch(Base):
    """All of a compressed batch, which is fetched whole."""

    def fill(self) -> None:
        again = bool(self.failed)
        records = self.log.fetch(min(self.failed) if again else self.emitted_to_offset)
        if records is None:
            self.emitted_to_offset = self.configured()
            return
        for record in records:
            if not again or record.offset in self.failed:
                self.pending.add(record.offset)
                self.waiting_to_emit.append(record)
                self.failed.discard(record.offset)
                self.emitted_to_offset = max(self.emitted_to_offset, record.offset + 1)


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
    CommitsWhatIsEmitted, CommitsBeforeItIsKept, NeverCommitsBackwards, CommitsEachTime, StartsWhereItStopped, StartsAtTheConfigured,
    TakesAStoredZero, IsNeverTooFarBehind, TriesNewOnesFirst, TakesAllOfARetry, ForgetsAfterAReset, ClearsWithTheAck,
    FailsTakeOutOfPending, FailsAlways, NeverGivesUp, EmitsNulls, TakesOlderOfABatch, BreaksAtAFailure,
]  # fmt: skip
