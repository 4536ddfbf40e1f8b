"""A learner's own acker beside the recorded one: right ones of every make pass, wrong ones are told where they differ."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import deque
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.exercises import check, recorded
from kitlib.exercises.answers import NotYet
from kitlib.exercises.recorded import difference_in, first_difference
from kitlib.exercises.recorded_acker import ACKER, bundled_scripts, operations
from kitlib.exercises.sandbox import Limits, Outcome, run_steps
from kitlib.storm.acker import ACKER_FAIL_STREAM_ID, Acker, AckerEntry, Completion
from kitlib.storm.later_acker import LaterAcker
from kitlib.views.look import ALL_COLOURS
from tests.exercises.steps import judged_here

SCRIPTS = list(bundled_scripts())
STEPS = sum(len(script["steps"]) for script in SCRIPTS)
NAMED = SCRIPTS[:40]


# -- ackers that are right ------------------------------------------------------------------------


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
    """Its ledger is a list of two dicts of lists, and each answer is a list of completions."""

    @property
    def pending(self) -> Any:
        return [self.young, self.old]

    def told(self, *told: Any, **also: Any) -> Any:
        found = FromScratch.told(self, *told, **also)
        return [] if found is None else [Completion(found[0], f"__ack_{found[1]}", found[2])]


class WithDicts(FromScratch):
    """Its ledger has dicts as entries."""

    @property
    def pending(self) -> Any:
        return deque(
            {root: {"val": val, "spout_task": task, "failed": failed} for root, (val, task, failed) in bucket.items()}
            for bucket in (self.young, self.old)
        )


class WithAPendingOfItsOwn(FromScratch):
    """What it calls pending is nothing that the check could read."""

    pending: ClassVar[dict[int, int]] = {1: 1}


@pytest.mark.parametrize("make", [Acker, FromScratch, WithLists, WithDicts, WithAPendingOfItsOwn])
def test_first_difference_of_a_right_acker_is_none(make: Any) -> None:
    """An acker that does as Storm's passes, however it keeps its trees and whichever form its answers have."""
    assert judged_here(ACKER, make) is None


def test_first_difference_in_a_process_of_its_own_is_none() -> None:
    """The same through the sandbox."""
    assert first_difference(ACKER, FromScratch) is None


# -- ackers that are wrong ------------------------------------------------------------------------


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


class Subtracts(Acker):
    def ack(self, root: int, val: int) -> Completion | None:
        entry = self.pending.get(root) or AckerEntry()
        entry.val = (entry.val or 0) - val
        return self.apply(root, entry)


class KeepsWhatHasEnded(Acker):
    def completion(self, root: int, entry: AckerEntry) -> Completion | None:
        end = Acker.completion(self, root, entry)
        if end:
            self.pending.put(root, entry)
        return end


class IgnoresEarlyAcks(Acker):
    def ack(self, root: int, val: int) -> Completion | None:
        return Acker.ack(self, root, val) if root in self.pending else None


class TellsOfWhatItDrops(Acker):
    def tick(self) -> Any:
        found = Acker.tick(self).items()
        return [(entry.spout_task, ACKER_FAIL_STREAM_ID, root) for root, entry in found if entry.spout_task]


class ForgetsTheFail(Acker):
    def fail(self, root: int) -> Completion | None:
        end = Acker.fail(self, root)
        entry = self.pending.get(root)
        if entry:
            entry.failed = False
        return end


class FirstTaskWins(FromScratch):
    def init(self, root: int, val: int, spout_task: int) -> Any:
        known = (self.young.get(root) or self.old.get(root) or [0, None])[1]
        return self.told(root, val, spout_task if known is None else known)


class AnswersAnotherRoot(FromScratch):
    def told(self, root: int, *told: Any, **also: Any) -> Any:
        found = FromScratch.told(self, root, *told, **also)
        return found and (*found[:2], root + 1)


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


WRONG: dict[type, str] = {
    AsksFailedFirst: "step 1, ack 6001: the acker should emit __ack_ack to task 1; yours emits __ack_fail to task 1.",
    NeverForgets: "script 'two_ticks_drop_an_entry', step 3, ack 6001: the acker should emit nothing; yours emits __ack_ack to task 1.",
    DropsAtEachTick: "ack 6001: the acker should emit __ack_ack to task 1; yours emits nothing.",
    DoesNotRenew: "script 'touch_renews', step 2, ack 6001: tree 6001 should now be in the newer bucket; yours is in the older bucket.",
    Subtracts: "the value of tree 6001 should now be 0xf0123456789abcdf; yours is 0x",
    KeepsWhatHasEnded: "script 'one_tuple', step 1, ack 6001: tree 6001 should no longer be in the ledger; yours has it.",
    IgnoresEarlyAcks: "script 'acks_before_init', step 0, ack 6001: tree 6001 should still be in the ledger; yours does not have it.",
    TellsOfWhatItDrops: "tick: the acker should emit nothing; yours emits __ack_fail to task 1 for 6001.",
    ForgetsTheFail: "step 0, fail 6001: `failed` of tree 6001 should now be True; yours is False.",
    FirstTaskWins: "step 2, ack 6001: the acker should emit __ack_ack to task 2; yours emits __ack_ack to task 1.",
    AnswersAnotherRoot: "the acker should emit __ack_ack to task 1; yours emits __ack_ack to task 1 for 6002.",
    AnswersYes: "step 0, init 6001: your init returns False; it should return None or (spout_task, stream, root).",
    HoldsATreeTwice: "script 'one_tuple', step 0, init 6001: tree 6001 should be in the ledger once; yours has it in two buckets.",
    LaterAcker: "script 'fail_twice', step 4, tick: tree 6001 should no longer be in the ledger; yours has it.",
    HasNoFail: "should emit __ack_ack to task 1; yours emits nothing.",
    Breaks: "script 'fail_after_init', step 1, fail 6001: your code raised KeyError: 6001.",
    WantsArguments: "script 'one_tuple', step 0, init 6001: your code raised TypeError: ",
}


@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_first_difference_of_a_wrong_acker_is_told_and_drawn(make: type) -> None:
    """The sentence has script, step, operation, what Storm does and what the learner's code does; the picture shows both."""
    found = judged_here(ACKER, make, NAMED)
    assert found and WRONG[make] in found.said and found.said.startswith("script '") and len(found.said) < 300
    assert found.matched < found.total == sum(len(script["steps"]) for script in NAMED) and found.meaning
    assert found.has_raised is (" raised " in found.said) is (found.picture is None)
    if found.picture:
        assert found.picture.sentence == found.said
        root = ET.fromstring(found.picture.svg)
        words = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
        assert {"Storm 0.9.3", "your code", "not the same on both sides"} <= set(words)
        assert len([element for element in root.iter() if element.get("stroke") == "#D55E00"]) > 1  # beside the legend's
        assert set(re.findall(r"#[0-9A-Fa-f]{6}", found.picture.svg)) <= ALL_COLOURS


def test_first_difference_in_a_process_of_its_own_tells_the_same() -> None:
    """A wrong acker, and one that breaks, through the sandbox: the same sentences, and the line that raised."""
    for make in (HasNoFail, Breaks):
        found = first_difference(ACKER, make)
        assert found and WRONG[make].removesuffix(".") in found.said and found.total == STEPS
    assert found and found.has_raised and re.search(r"in line \d+ of fail\.$", found.said)


class NeverEnds(FromScratch):
    def ack(self, root: int, val: int) -> Any:
        while True:
            pass


def test_first_difference_of_an_acker_that_never_ends_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop without an end is stopped, and the sentence says in which script it was."""
    monkeypatch.setattr(recorded, "run_steps", partial(run_steps, limits=Limits(deadline_s=5)))
    with pytest.raises(NotYet, match=r"your code did not finish in \d+ s, at step 1 of script 'one_tuple'"):
        first_difference(ACKER, NeverEnds)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Acker, "this is the kit's own"), (LaterAcker, "this is the kit's own"), (DoesNotRenew, "or built on it"),
        (FromScratch(), "should be your class; got <"), ("FromScratch", "should be your class; got 'FromScratch'"),
        (HasNoFail, "your class has no fail."), (int, "your class has no init and no ack and no fail and no tick."),
    ],
)  # fmt: skip
def test_check_own_acker_of_a_wrong_kind_says_so(answer: Any, words: str) -> None:
    """An answer of a wrong kind, without all methods, or not the learner's own work is refused before anything runs."""
    finding = check("own_acker", answer)
    assert not finding.passed and words in finding.said and finding.look


def test_check_own_acker_passes_a_right_one_and_shows_a_wrong_one() -> None:
    """A right class gets a sentence; a wrong one the first step that differs, what its script shows, and the picture."""
    assert check("own_acker", FromScratch).passed
    finding = check("own_acker", NeverForgets)
    assert re.match(r"8,\d+ of 10,\d+ recorded steps agree. The first that does not: script 'two_ticks", finding.said)
    assert finding.look.startswith("What that script shows: ") and finding.picture


# -- what goes over and what comes back -----------------------------------------------------------


def test_operations_hold_nothing_that_storm_answered() -> None:
    """The learner's process gets names, numbers of steps, methods and arguments, and every message of the acker's part."""
    assert {frozenset(step) for script in SCRIPTS for step in operations(script)["steps"]} == {frozenset({"op", "number", "given"})}
    assert {step["op"] for script in SCRIPTS for step in script["steps"]} == {"init", "ack", "fail", "tick"}
    assert STEPS > 10_000 and len(SCRIPTS) == 190


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inside: st.lists(inside, max_size=5) | st.dictionaries(st.sampled_from(["emits", "ledger", "x"]), inside),
    max_leaves=15,
)
ROWS = st.lists(
    st.tuples(st.integers(6000, 6003), st.integers(), st.none() | st.integers(), st.booleans(), st.integers(-1, 3)).map(list), max_size=8
)
EMITS = st.lists(st.tuples(JUNK, JUNK, JUNK).map(list), max_size=4)


@settings(max_examples=100, deadline=None)
@given(st.lists(JUNK | st.fixed_dictionaries({"emits": EMITS | JUNK, "ledger": ROWS | JUNK}), min_size=1, max_size=5))
def test_difference_in_any_answers_is_a_sentence(answers: list[Any]) -> None:
    """Whatever the learner's process sends back, no answer is right by it, and the difference can be told and drawn."""
    script = next(script for script in NAMED if script["name"] == "fan_out")
    found = difference_in(ACKER, [script], Outcome([answers[: len(script["steps"])]], [None]))
    assert found and found.matched < len(script["steps"]) and len(found.said) < 3_000
    if found.picture:
        ET.fromstring(found.picture.svg)


def test_difference_in_hostile_words_stays_text() -> None:
    """A stream's name that is markup, or turns the reading direction, is shown as text."""
    script = NAMED[0]
    hostile = "</text><script>alert(1)</script>\u202e"
    found = difference_in(ACKER, [script], Outcome([[{"emits": [[1, hostile, 6001]], "ledger": None}]], [None]))
    assert found and found.picture and "\u202e" not in found.said + found.picture.svg and "<script>" not in found.picture.svg
