"""Slips of learners who number a sender's batches: each is shown by a recorded step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.exercises import solutions


class ToTheFront(solutions.SenderNumbers):
    def place(self, queue: list[Any], batch: Any) -> int:
        return 0


class NobodyWaits(solutions.SenderNumbers):
    def may_leave(self, batch: Any) -> bool:
        return batch.seq is not None or super().may_leave(batch)


class CountsBatches(solutions.SenderNumbers):
    """The bug of kafkajs#598, on its own side."""

    def give(self, known: Any, batch: Any) -> None:
        batch.epoch, batch.seq = known.epoch, known.next_seq
        known.next_seq += 1


class NeverBegins(solutions.SenderNumbers):
    def refused(self, batch: Any, error: str, log_start: int | None) -> None:
        pass


class ForgetsTheLogStart(solutions.SenderNumbers):
    def refused(self, batch: Any, error: str, log_start: int | None) -> None:
        super().refused(batch, error, 0)


class LeavesTheGap(solutions.SenderNumbers):
    def failed(self, batch: Any, leaves_gap: bool) -> None:
        super().failed(batch, False)


class DoubtsForever(solutions.SenderNumbers):
    def before_run(self) -> None:
        doubts = {partition: known.in_doubt for partition, known in self.partitions.items()}
        super().before_run()
        for partition, doubt in doubts.items():
            self.partitions[partition].in_doubt = doubt


class LastStoredGoesBack(solutions.SenderNumbers):
    def stored(self, batch: Any) -> None:
        known = self.of(batch)
        known.acked = batch.last_seq
        self.forget(known, batch)


class BreaksAtARetry(solutions.SenderNumbers):
    def place(self, queue: list[Any], batch: Any) -> int:
        raise LookupError("not yet written")


PLANTED: list[Callable[[], Any]] = [
    ToTheFront, NobodyWaits, CountsBatches, NeverBegins, ForgetsTheLogStart, LeavesTheGap, DoubtsForever, LastStoredGoesBack,
    BreaksAtARetry,
]  # fmt: skip
