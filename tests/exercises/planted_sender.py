"""Slips of learners who number a sender's batches: each is shown by a recorded step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.exercises import solutions


class ToTheFront(solutions.SenderNumbers):
    def place(self, queue: list[Any], batch: Any) -> int:
        return 0


class ToTheBack(solutions.SenderNumbers):
    def place(self, queue: list[Any], batch: Any) -> int:
        return len(queue)


class NobodyWaits(solutions.SenderNumbers):
    def may_leave(self, batch: Any) -> bool:
        return batch.seq is not None or super().may_leave(batch)


class RetriesTogether(solutions.SenderNumbers):
    def may_leave(self, batch: Any) -> bool:
        return batch.seq is None or True


class CountsBatches(solutions.SenderNumbers):
    """The bug of kafkajs#598, on its own side."""

    def give(self, known: Any, batch: Any) -> None:
        batch.epoch, batch.seq = known.epoch, known.next_seq
        known.next_seq += 1


class NumbersAnewAtEachRetry(solutions.SenderNumbers):
    def place(self, queue: list[Any], batch: Any) -> int:
        at = super().place(queue, batch)
        self.give(self.of(batch), batch)
        return at


class NeverBegins(solutions.SenderNumbers):
    def refused(self, batch: Any, error: str, log_start: int | None) -> None:
        pass


class AlwaysBegins(solutions.SenderNumbers):
    def refused(self, batch: Any, error: str, log_start: int | None) -> None:
        self.anew.add(batch.partition)


class ForgetsTheLogStart(solutions.SenderNumbers):
    def refused(self, batch: Any, error: str, log_start: int | None) -> None:
        super().refused(batch, error, 0)


class AllPartitionsBeginAtOnce(solutions.SenderNumbers):
    def before_run(self) -> None:
        if self.anew:
            self.anew = set(self.partitions)
        super().before_run()


class OnlyTheEpochRises(solutions.SenderNumbers):
    def begin(self, known: Any) -> None:
        known.epoch = self.epoch


class LeavesTheGap(solutions.SenderNumbers):
    def failed(self, batch: Any, leaves_gap: bool) -> None:
        super().failed(batch, False)


class AlwaysAGap(solutions.SenderNumbers):
    def failed(self, batch: Any, leaves_gap: bool) -> None:
        super().failed(batch, True)


class HasNoDoubt(solutions.SenderNumbers):
    def expired(self, batch: Any) -> None:
        self.forget(self.of(batch), batch)


class DoubtsTheNeverSent(solutions.SenderNumbers):
    def expired(self, batch: Any) -> None:
        known = self.of(batch)
        self.forget(known, batch)
        known.in_doubt = known.next_seq


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


class DropsThePartsOfASplit(solutions.SenderNumbers):
    def split(self, batch: Any, parts: list[Any]) -> None:
        self.forget(self.of(batch), batch)


class RaisesAtOnce(solutions.SenderNumbers):
    def refused(self, batch: Any, error: str, log_start: int | None) -> None:
        super().refused(batch, error, log_start)
        super().before_run()


class BreaksAtARetry(solutions.SenderNumbers):
    def place(self, queue: list[Any], batch: Any) -> int:
        raise LookupError("not yet written")


PLANTED: list[Callable[[], Any]] = [
    ToTheFront, ToTheBack, NobodyWaits, RetriesTogether, CountsBatches, NumbersAnewAtEachRetry, NeverBegins, AlwaysBegins,
    ForgetsTheLogStart, AllPartitionsBeginAtOnce, OnlyTheEpochRises, LeavesTheGap, AlwaysAGap, HasNoDoubt, DoubtsTheNeverSent,
    DoubtsForever, LastStoredGoesBack, DropsThePartsOfASplit, RaisesAtOnce, BreaksAtARetry,
]  # fmt: skip
RARE = {AllPartitionsBeginAtOnce, LastStoredGoesBack, RaisesAtOnce}  # no named script shows these
