"""Learners' ackers: right ones of every make, and wrong ones with the sentence that they get."""

from __future__ import annotations

from typing import Any, ClassVar

from kitlib.mechanisms.acker import Acker, AckerEntry, Completion
from kitlib.more.topology.later_acker import LaterAcker


class FromScratch:
    """Two plain dicts with other names, tuples as answers: judged by its completions alone."""

    def __init__(self) -> None:
        self.young: dict[int, list[Any]] = {}
        self.old: dict[int, list[Any]] = {}

    def told(self, root: int, val: int = 0, task: int | None = None, has_failed: bool = False) -> Any:
        entry = self.young.get(root) or self.old.pop(root, None) or [0, None, False]
        entry[0] ^= val
        entry[1] = entry[1] if task is None else task
        entry[2] = entry[2] or has_failed
        self.young[root] = entry
        if entry[1] is None or (entry[0] and not entry[2]):
            return None
        del self.young[root]
        return (entry[1], "fail" if entry[0] else "ack", root)

    def init(self, root: int, val: int, spout_task: int) -> Any:
        return self.told(root, val, spout_task)

    def ack(self, root: int, val: int) -> Any:
        return self.told(root, val)

    def fail(self, root: int) -> Any:
        return self.told(root, has_failed=True)

    def tick(self) -> None:
        self.young, self.old = {}, self.young


class WithLists(FromScratch):
    """Its ledger is a list of two dicts of lists."""

    @property
    def pending(self) -> Any:
        return [self.young, self.old]


class WithAPendingOfItsOwn(FromScratch):
    """What it calls pending is nothing that the check could read."""

    pending: ClassVar[dict[int, int]] = {1: 1}


class AsksFailedFirst(FromScratch):
    def told(self, root: int, *told: Any, **also: Any) -> Any:
        found = FromScratch.told(self, root, *told, **also)
        if found is None or not (self.failed_before or also.get("has_failed")):
            return found
        return (found[0], "fail", root)

    @property
    def failed_before(self) -> bool:
        return True


class NeverForgets(FromScratch):
    def tick(self) -> None:
        pass


class DropsAtEachTick(FromScratch):
    def tick(self) -> None:
        self.young, self.old = {}, {}


class DoesNotRenew(Acker):
    def apply(self, root: int, entry: AckerEntry) -> Completion | None:
        if root not in self.pending:
            self.pending.put(root, entry)
        return self.completion(root, entry)


class KeepsWhatHasEnded(Acker):
    def completion(self, root: int, entry: AckerEntry) -> Completion | None:
        end = Acker.completion(self, root, entry)
        if end:
            self.pending.put(root, entry)
        return end


class AnswersYes(FromScratch):
    def told(self, *told: Any, **also: Any) -> Any:
        return FromScratch.told(self, *told, **also) is not None


class HoldsATreeTwice(WithLists):
    @property
    def pending(self) -> Any:
        return [self.young, {**self.young, **self.old}]


class HasNoFail:
    init = ack = tick = lambda self, *_: None


class Breaks(FromScratch):
    def fail(self, root: int) -> Any:
        return {}[root]


class WantsArguments(FromScratch):
    def __init__(self, buckets: int) -> None:
        super().__init__()


RIGHT = [Acker, FromScratch, WithLists, WithAPendingOfItsOwn]
WRONG: dict[type, str] = {
    AsksFailedFirst: "emitted should now be __ack_ack to task 1 for tree 6001; yours is __ack_fail to",
    NeverForgets: "step 3, ack(6001, 1234605616436508552): emitted should now be nothing; yours is __ack_ack",
    DropsAtEachTick: "emitted should now be __ack_ack to task 1 for tree 6001; yours is nothing.",
    DoesNotRenew: "bucket of tree 6001 should now be newer; yours is older.",
    KeepsWhatHasEnded: "script 'one_tuple', step 1, ack(6001, 1234605616436508552): there should be no tree 6001; yours has value 0x0",
    AnswersYes: "yours is False instead of None or (spout_task, stream, root).",
    HoldsATreeTwice: "bucket of tree 6001 should now be newer; yours is newer and older.",
    LaterAcker: "script 'fail_twice', step ",
    HasNoFail: "yours is nothing.",
    Breaks: "script 'fail_after_init', step 1, fail(6001): your code raised KeyError: 6001, in line",
    WantsArguments: "your code raised TypeError: ",
}
