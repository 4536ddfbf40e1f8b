"""A learner's numbers in the sender's loop beside the recorded sender: planted slips are told apart, each by a few calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kitlib.exercises import shrinking, solutions
from kitlib.exercises.recorded_sender import METHODS, SENDER, bundled_scripts, operations
from kitlib.exercises.shrinking import shrink
from tests.exercises.steps import MOST_STEPS, histories_in, is_full, judged_here

NAMED = bundled_scripts()[:47]


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


def test_the_solution_repeats_every_recorded_step() -> None:
    """Of the two releases' 10,011 recorded steps these are 4.3.1's, but for those after a change of the producer's id."""
    assert sum(len(script["steps"]) for script in bundled_scripts()) == 9_267
    assert judged_here(SENDER, solutions.SenderNumbers) is None


@pytest.mark.parametrize("make", PLANTED, ids=lambda make: make.__name__)
def test_a_planted_slip_becomes_a_few_calls(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded step shows it in a full sentence, and a few calls are left of its history."""
    monkeypatch.setattr(shrinking, "SECONDS", 60)
    scripts = bundled_scripts() if make in RARE else NAMED
    found = judged_here(SENDER, make, scripts)
    assert found and (found.has_raised or is_full(found.said)), found
    [answer] = shrink(make, {"recording": SENDER.name, "kits": [], "histories": histories_in(SENDER, make, scripts)})
    assert answer["steps"][0]["op"] == "start" and 0 < len(answer["steps"][1:]) <= MOST_STEPS


def test_no_two_planted_slips_are_told_alike() -> None:
    """Each is told by a step of its own, or in its own words."""
    told = [judged_here(SENDER, make, NAMED) for make in PLANTED if make not in RARE]
    assert len({found.said for found in told if found}) >= len(PLANTED) - 4


def test_operations_hold_nothing_that_kafka_did() -> None:
    """What goes over is what was done to the sender: calls of its user, the clock, and the broker's answers."""
    assert {frozenset(step) for script in bundled_scripts() for step in operations(script)["steps"]} == {frozenset({"op", "given"})}
    assert set(METHODS) <= set(dir(solutions.SenderNumbers))
