"""The exercises of notebooks 04 and 05: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kitlib.exercises import check, nb_04, nb_05
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.storm.acker import Acker
from kitlib.storm.later_acker import LaterAcker
from kitlib.storm.topology import BasicBolt, Bolt, FailedError

OURS = {"04_tuple_trees_and_the_acker": nb_04.EXERCISES, "05_when_things_crash": nb_05.EXERCISES}


# -- bolts for own_split -------------------------------------------------------------------------------


class GoodSplit(Bolt):
    output_fields = ("word",)

    def execute(self, given: Any) -> None:
        if given["sentence"].endswith("?"):
            self.collector.fail(given)
            return
        for word in given["sentence"].split():
            if len(word) >= 3:
                self.collector.emit([word], anchors=given)
        self.collector.ack(given)


class BasicSplit(BasicBolt):
    """A BasicBolt is an answer, too."""

    output_fields = ("word",)

    def process(self, given: Any, collector: Any) -> None:
        if given["sentence"].endswith("?"):
            raise FailedError
        for word in given["sentence"].split():
            if len(word) >= 3:
                collector.emit([word])


class UnanchoredSplit(GoodSplit):
    def execute(self, given: Any) -> None:
        if given["sentence"].endswith("?"):
            self.collector.fail(given)
            return
        for word in given["sentence"].split():
            if len(word) >= 3:
                self.collector.emit([word])
        self.collector.ack(given)


class AcksFirst(GoodSplit):
    def execute(self, given: Any) -> None:
        if given["sentence"].endswith("?"):
            self.collector.fail(given)
            return
        self.collector.ack(given)
        for word in given["sentence"].split():
            if len(word) >= 3:
                self.collector.emit([word], anchors=given)


class NeverAcks(GoodSplit):
    def execute(self, given: Any) -> None:
        for word in given["sentence"].split():
            if len(word) >= 3:
                self.collector.emit([word], anchors=given)


class AcksWithWords(GoodSplit):
    def execute(self, given: Any) -> None:
        if given["sentence"].endswith("?"):
            self.collector.fail(given)
            return
        long = [word for word in given["sentence"].split() if len(word) >= 3]
        for word in long:
            self.collector.emit([word], anchors=given)
        if long:
            self.collector.ack(given)


class SendsAll(GoodSplit):
    def execute(self, given: Any) -> None:
        for word in given["sentence"].split():
            self.collector.emit([word], anchors=given)
        self.collector.ack(given)


class SendsLonger(GoodSplit):
    def execute(self, given: Any) -> None:
        if given["sentence"].endswith("?"):
            self.collector.fail(given)
            return
        for word in given["sentence"].split():
            if len(word) > 3:
                self.collector.emit([word], anchors=given)
        self.collector.ack(given)


class AcksQuestions(GoodSplit):
    def execute(self, given: Any) -> None:
        if given["sentence"].endswith("?"):
            self.collector.ack(given)
        else:
            super().execute(given)


class AsksTheQuestions(GoodSplit):
    def execute(self, given: Any) -> None:
        for word in given["sentence"].split():
            if len(word) >= 3:
                self.collector.emit([word], anchors=given)
        (self.collector.fail if given["sentence"].endswith("?") else self.collector.ack)(given)


class IgnoresQuestions(GoodSplit):
    def execute(self, given: Any) -> None:
        if not given["sentence"].endswith("?"):
            super().execute(given)


class FailsAll(GoodSplit):
    def execute(self, given: Any) -> None:
        self.collector.fail(given)


class SendsTwoValues(GoodSplit):
    def execute(self, given: Any) -> None:
        self.collector.emit([given["sentence"], 1], anchors=given)


class SendsAList(GoodSplit):
    """One tuple with all words in its one value, which Storm allows."""

    def execute(self, given: Any) -> None:
        self.collector.emit([given["sentence"].split()], anchors=given)
        self.collector.ack(given)


class SendsDicts(GoodSplit):
    def execute(self, given: Any) -> None:
        self.collector.emit([{"word": given["sentence"]}], anchors=given)
        self.collector.ack(given)


class FailsWhatComesAgain(GoodSplit):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.known: set[str] = set()

    def execute(self, given: Any) -> None:
        if given["sentence"] not in self.known or given["sentence"].endswith("?"):
            self.known.add(given["sentence"])
            super().execute(given)
            return
        for word in given["sentence"].split():
            if len(word) >= 3:
                self.collector.emit([word], anchors=given)
        self.collector.fail(given)


class MisspeltSplit(GoodSplit):
    def execute(self, given: Any) -> None:
        self.collector.akc(given)  # type: ignore[attr-defined]


class NoBolt:
    """It has not even a method."""


# -- ackers for own_acker ------------------------------------------------------------------------------


class OwnAcker:
    """The rules of 0.9.3 in lists and dicts."""

    def __init__(self) -> None:
        self.pending: list[dict[int, list[Any]]] = [{}, {}]

    def init(self, root: int, val: int, spout_task: int) -> Any:
        entry = self.renewed(root)
        entry[0] ^= val
        entry[1] = spout_task
        return self.completion(root, entry)

    def ack(self, root: int, val: int) -> Any:
        entry = self.renewed(root)
        entry[0] ^= val
        return self.completion(root, entry)

    def fail(self, root: int) -> Any:
        entry = self.renewed(root)
        entry[2] = True
        return self.completion(root, entry)

    def tick(self) -> Any:
        self.pending = [{}, self.pending[0]]

    def renewed(self, root: int) -> list[Any]:
        newer, older = self.pending
        entry = newer[root] = newer.get(root) or older.pop(root, None) or [0, None, False]
        return entry

    def completion(self, root: int, entry: list[Any]) -> Any:
        if entry[1] is None or (entry[0] != 0 and not entry[2]):
            return None
        del self.pending[0][root]
        return entry[1], "fail" if entry[0] else "ack", root


class FailedFirst(OwnAcker):
    def completion(self, root: int, entry: list[Any]) -> Any:
        if entry[1] is None or (entry[0] != 0 and not entry[2]):
            return None
        del self.pending[0][root]
        return entry[1], "fail" if entry[2] else "ack", root


class NeverRenews(OwnAcker):
    def renewed(self, root: int) -> list[Any]:
        for bucket in self.pending:
            if root in bucket:
                return bucket[root]
        return self.pending[0].setdefault(root, [0, None, False])

    def completion(self, root: int, entry: list[Any]) -> Any:
        if entry[1] is None or (entry[0] != 0 and not entry[2]):
            return None
        for bucket in self.pending:
            bucket.pop(root, None)
        return entry[1], "fail" if entry[0] else "ack", root


class ForgetsAtOnce(OwnAcker):
    def tick(self) -> Any:
        self.pending = [{}, {}]


class EndsWithoutSpout(OwnAcker):
    def completion(self, root: int, entry: list[Any]) -> Any:
        if entry[0] != 0 and not entry[2]:
            return None
        del self.pending[0][root]
        return None if entry[1] is None else (entry[1], "fail" if entry[0] else "ack", root)


class TaskZeroIsNone(OwnAcker):
    def completion(self, root: int, entry: list[Any]) -> Any:
        return super().completion(root, entry) if entry[1] else None


class NeverForgets(OwnAcker):
    def tick(self) -> Any:
        return None


class SaysTrue(OwnAcker):
    def completion(self, root: int, entry: list[Any]) -> Any:
        return super().completion(root, entry) is not None


class StubAcker:
    """The cell of the notebook."""

    def __init__(self) -> None:
        self.pending: list[dict[int, list[Any]]] = [{}, {}]

    def init(self, root: int, val: int, spout_task: int) -> Any:
        self.pending[0][root] = [val, spout_task, False]

    def ack(self, root: int, val: int) -> Any:
        entry = self.pending[0][root]
        entry[0] ^= val
        if entry[0] == 0:
            return entry[1], "ack", root

    def fail(self, root: int) -> Any: ...

    def tick(self) -> Any: ...


class NoFail:
    init = ack = tick = lambda self, *_: None


class BreaksAtFail(OwnAcker):
    def fail(self, root: int) -> Any:
        raise LookupError("not yet written")


# -- bolts for own_batch -------------------------------------------------------------------------------


class GoodBatch(Bolt):
    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.held: list[Any] = []

    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            self.write()
            for held in self.held:
                self.collector.ack(held)
            self.held = []

    def write(self) -> None:
        self.context.note("write", numbers=[held["number"] for held in self.held])


class KeepsNumbersToo(GoodBatch):
    """It writes its own list, and empties that list afterwards."""

    def execute(self, given: Any) -> None:
        self.held.append(given)
        self.numbers = [*getattr(self, "numbers", ()), given["number"]]
        if len(self.held) == 5:
            self.context.note("write", numbers=self.numbers)
            for held in self.held:
                self.collector.ack(held)
            self.held.clear()
            self.numbers.clear()


class KeepsTheNewest(GoodBatch):
    """A number that comes again while it waits replaces its older tuple."""

    def execute(self, given: Any) -> None:
        self.held = [held for held in self.held if held["number"] != given["number"]]
        super().execute(given)


class AcksWhatIsWritten(GoodBatch):
    """A number that is known to be written is acked and not written again."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.written: set[int] = set()

    def execute(self, given: Any) -> None:
        if given["number"] in self.written:
            self.collector.ack(given)
        else:
            super().execute(given)

    def write(self) -> None:
        super().write()
        self.written.update(held["number"] for held in self.held)


class SkipsWhatIsWritten(AcksWhatIsWritten):
    """It never acks a number that comes again."""

    def execute(self, given: Any) -> None:
        if given["number"] not in self.written:
            super().execute(given)


class SkipsWhatWaits(GoodBatch):
    """A number that comes again while it waits is thrown away, and the older tuple acked, which has timed out."""

    def execute(self, given: Any) -> None:
        if given["number"] not in {held["number"] for held in self.held}:
            super().execute(given)


class AcksBeforeTheWrite(GoodBatch):
    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            for held in self.held:
                self.collector.ack(held)
            self.write()
            self.held = []


class AcksTheLastBeforeTheWrite(GoodBatch):
    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            self.collector.ack(given)
            self.write()
            for held in self.held[:-1]:
                self.collector.ack(held)
            self.held = []


class ListInTheClass(Bolt):
    held: ClassVar[list[Any]] = []

    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            self.context.note("write", numbers=[held["number"] for held in self.held])
            for held in self.held:
                self.collector.ack(held)
            self.held.clear()


class ListInTheClassAtFirst(GoodBatch):
    """Its first batch is in the list of the class, where it stays."""

    held: ClassVar[list[Any]] = []  # type: ignore[misc]

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        Bolt.prepare(self, conf, context, collector)

    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) >= 5:
            self.write()
            for held in self.held:
                self.collector.ack(held)
            self.held = []  # type: ignore[misc]


class ListAsDefault(ListInTheClass):
    def __init__(self, held: list[Any] = []) -> None:  # noqa: B006
        self.held = held  # type: ignore[misc]


class NumbersInTheClass(GoodBatch):
    """Numbers in a list of the class, tuples in one of its own: no ack is refused."""

    numbers: ClassVar[list[int]] = []

    def execute(self, given: Any) -> None:
        self.numbers.append(given["number"])
        self.held.append(given)
        if len(self.numbers) == 5:
            self.context.note("write", numbers=self.numbers)
            for held in self.held:
                self.collector.ack(held)
            self.numbers.clear()
            self.held = []


class AcksOnArrival(GoodBatch):
    def execute(self, given: Any) -> None:
        self.held.append(given)
        self.collector.ack(given)
        if len(self.held) == 5:
            self.write()
            self.held = []


class AcksTheLast(GoodBatch):
    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            self.write()
            self.collector.ack(given)
            self.held = []


class NeverAcksBatch(GoodBatch):
    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            self.write()
            self.held = []


class WritesNothing(GoodBatch):
    def write(self) -> None:
        return None


class WritesOneByOne(GoodBatch):
    def execute(self, given: Any) -> None:
        self.context.note("write", numbers=[given["number"]])
        self.collector.ack(given)


class WritesTuples(GoodBatch):
    def write(self) -> None:
        self.context.note("write", numbers=[repr(held) for held in self.held])


class WritesNoList(GoodBatch):
    def write(self) -> None:
        self.context.note("write", number=self.held[0]["number"])


class GrowingBatch(GoodBatch):
    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) >= 5:
            self.write()
            self.collector.ack(given)


class MisspeltBatch(GoodBatch):
    def write(self) -> None:
        self.context.note("write", numbers=[held["nubmer"] for held in self.held])


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("zero_too_early", (1, 2, 3), "is 0000"),
    ("zero_too_early", [15, 9, 6], "is 0000"),
    ("zero_too_early", {8, 4, 12}, "is 0000"),
    ("bits_for_ten_years", 42, "one bit less 7.0 years"),
    ("bits_for_ten_years", 42.0, "one bit less 7.0 years"),
    ("when_it_fails", 80, "It waited 33 s"),
    ("own_split", GoodSplit, "a question fails at once"),
    ("own_split", BasicSplit, "a question fails at once"),
    ("own_acker", OwnAcker, "every recorded step"),
    ("largest_pending", 300, "leave room"),
    ("quiet_fault", "ack_twice", "never looks finished"),
    ("quiet_fault", "Ack twice", "never looks finished"),
    ("cheap_spout_crash", {"max_spout_pending": 3, "commit_every_ms": 20}, "8 effects are made twice"),
    ("cheap_spout_crash", {"max_spout_pending": "4", "commit_every_ms": 10}, "8 effects are made twice"),
    ("end_the_livelock", {"parallelism": 2}, "2 tasks share"),
    ("end_the_livelock", {"topology_message_timeout_secs": 60}, "up to 120 s"),
    ("own_batch", GoodBatch, "a bolt alone cannot do better"),
    ("own_batch", KeepsNumbersToo, "a bolt alone cannot do better"),
    ("own_batch", KeepsTheNewest, "a bolt alone cannot do better"),
    ("own_batch", AcksWhatIsWritten, "at most 4 are written twice"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("zero_too_early", (1, 2, 4), "the number is 0111"),
    ("zero_too_early", (6, 1, 2), "the number is 0101"),
    ("zero_too_early", (1, 1, 2), "the same id"),
    ("zero_too_early", (1, 2), "these are 2 ids"),
    ("zero_too_early", (0, 1, 2), "from 1 to 15"),
    ("zero_too_early", (16, 17, 1), "from 1 to 15"),
    ("zero_too_early", ("1", 2, 3), "should be a number"),
    ("zero_too_early", 7, "should be 3 ids"),
    ("bits_for_ten_years", 41, "every 7.0 years"),
    ("bits_for_ten_years", 8, "days on average"),
    ("bits_for_ten_years", 43, "fewer bits are enough"),
    ("bits_for_ten_years", 64, "fewer bits are enough"),
    ("bits_for_ten_years", 0, "1 to 64 bits"),
    ("bits_for_ten_years", 65, "1 to 64 bits"),
    ("bits_for_ten_years", "42", "should be a number"),
    ("bits_for_ten_years", 41.5, "a whole number"),
    ("when_it_fails", 67, "a clock of its own"),
    ("when_it_fails", 87, "longer than any tuple waits"),
    ("when_it_fails", 60, "not thrown out yet"),
    ("when_it_fails", 100, "long been thrown out"),
    ("when_it_fails", 20, "not been emitted yet"),
    ("when_it_fails", 70, "no bucket is rotated"),
    ("when_it_fails", "80", "should be a number"),
    ("own_split", UnanchoredSplit, "was acked after"),
    ("own_split", AcksFirst, "was acked after"),
    ("own_split", NeverAcks, "timed out after 60,000 ms"),
    ("own_split", AcksWithWords, "'so it is'"),
    ("own_split", SendsAll, "the word 'of' was sent"),
    ("own_split", SendsLonger, "was never sent"),
    ("own_split", AcksQuestions, "was acked"),
    ("own_split", AsksTheQuestions, "of the question"),
    ("own_split", IgnoresQuestions, "that was the time-out"),
    ("own_split", FailsAll, "failed after"),
    ("own_split", SendsTwoValues, "TopologyError"),
    ("own_split", SendsAList, "['streams', 'of', 'tuples', 'grow', 'into', 'trees'] was sent as the value of one tuple, expected one word"),
    ("own_split", SendsDicts, "was sent as the value of one tuple, expected one word"),
    ("own_split", FailsWhatComesAgain, "came again after its word had failed, and failed again"),
    ("own_split", MisspeltSplit, "AttributeError"),
    ("own_split", NoBolt, "your code raised"),
    ("own_split", GoodSplit(), "should be your class"),
    ("own_acker", StubAcker, "recorded steps agree"),
    ("own_acker", FailedFirst, "should emit __ack_ack"),
    ("own_acker", NeverRenews, "recorded steps agree"),
    ("own_acker", ForgetsAtOnce, "should still be in the ledger"),
    ("own_acker", EndsWithoutSpout, "should still be in the ledger"),
    ("own_acker", TaskZeroIsNone, "the acker should emit __ack_ack to task 0, yours emits nothing"),
    ("own_acker", NeverForgets, "recorded steps agree"),
    ("own_acker", SaysTrue, "should return None or (spout_task, stream, root)"),
    ("own_acker", BreaksAtFail, "your code raised LookupError: not yet written"),
    ("own_acker", NoFail, "your class has no fail. An acker has init, ack, fail, tick."),
    ("own_acker", dict, "your class has no init and no ack and no fail and no tick."),
    ("own_acker", Acker, "the kit's own"),
    ("own_acker", LaterAcker, "the kit's own"),
    ("own_acker", Acker(), "should be your class"),
    ("largest_pending", 299, "nothing does either"),
    ("largest_pending", 301, "time out in 400 s"),
    ("largest_pending", 600, "of the work is useless"),
    ("largest_pending", 0, "expected 1 to 5,000"),
    ("largest_pending", 5_001, "expected 1 to 5,000"),
    ("largest_pending", "300", "should be a number"),
    ("quiet_fault", "fail", "none of them is made after it"),
    ("quiet_fault", "drop", "only 23 of 24"),
    ("quiet_fault", "lose", "only 23 of 24"),
    ("quiet_fault", "raise", "in the first second"),
    ("quiet_fault", "hang", "in the first second"),
    ("quiet_fault", "crash", "should be one of"),
    ("quiet_fault", 5, "should be one of"),
    ("cheap_spout_crash", {}, "28 effects are made twice"),
    ("cheap_spout_crash", {"commit_every_ms": 10}, "effects are made twice, with the defaults 28"),
    ("cheap_spout_crash", {"max_spout_pending": 3}, "effects are made twice, with the defaults 28"),
    ("cheap_spout_crash", {"max_spout_pending": 1}, "the last record is acked at"),
    ("cheap_spout_crash", {"source": "kestrel"}, "may be turned here"),
    ("cheap_spout_crash", {"commit_every_ms": 0}, "expected"),
    ("cheap_spout_crash", "max_spout_pending", "a dict of knobs"),
    ("end_the_livelock", {}, "this turns 0"),
    ("end_the_livelock", {"topology_ackers": 5}, "trees time out"),
    ("end_the_livelock", {"topology_message_timeout_secs": 45}, "trees time out"),
    ("end_the_livelock", {"parallelism": 2, "topology_ackers": 2}, "this turns 2"),
    ("end_the_livelock", {"max_spout_pending": 300}, "may be turned here"),
    ("end_the_livelock", {"parallelism": 0}, "expected"),
    ("end_the_livelock", 2, "a dict of knobs"),
    ("own_batch", AcksOnArrival, "acked after"),
    ("own_batch", AcksBeforeTheWrite, "number 0 is acked after 7 ms and only then written, in the same millisecond; expected"),
    ("own_batch", AcksTheLastBeforeTheWrite, "number 4 is acked after 7 ms and only then written"),
    ("own_batch", ListInTheClass, "when two tasks share the numbers, batch-2 writes number 1, which it was not given since it started"),
    ("own_batch", ListInTheClassAtFirst, "batch-2 writes number 1, which it was not given since it started; expected its own only"),
    ("own_batch", ListAsDefault, "writes number 1, which it was not given since it started"),
    ("own_batch", NumbersInTheClass, "writes number 1, which it was not given since it started"),
    ("own_batch", SkipsWhatIsWritten, "when five messages to the acker are lost, number 0 is written, but it comes 30 times"),
    ("own_batch", SkipsWhatWaits, "when the source pauses after 3 numbers, number 0 is written, but it comes 30 times"),
    ("own_batch", AcksTheLast, "came again"),
    ("own_batch", NeverAcksBatch, "came again"),
    ("own_batch", WritesNothing, "never written: it is lost"),
    ("own_batch", WritesOneByOne, "a batch of 1"),
    ("own_batch", WritesTuples, "expected a list of 5 numbers"),
    ("own_batch", WritesNoList, "expected a list of 5 numbers"),
    ("own_batch", GrowingBatch, "a batch of 6"),
    ("own_batch", MisspeltBatch, "has no field 'nubmer'"),
    ("own_batch", GoodBatch(), "should be your class"),
]


def test_truths_move_with_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is typed in: with other numbers in the question, another answer is the right one."""
    monkeypatch.setattr(nb_04, "YEARS", 1)
    assert check("bits_for_ten_years", 39).passed and not check("bits_for_ten_years", 42).passed
    monkeypatch.setattr(nb_04, "EMITTED_S", 61)
    assert check("when_it_fails", 100).passed and not check("when_it_fails", 80).passed
    monkeypatch.setattr(nb_05, "EXECUTE_MS", 200)
    assert check("largest_pending", 150).passed and not check("largest_pending", 300).passed


def test_cheap_spout_crash_names_what_the_defaults_cost() -> None:
    """The number in the question is what the experiment counts with its defaults."""
    [exercise] = [each for each in nb_05.EXERCISES if each.name == "cheap_spout_crash"]
    counts = judge(run("spout_crash", **nb_05.SPOUT_CRASH)).counts
    assert f"makes {counts['duplicated']} effects twice" in exercise.question and not counts["lost"]


def test_own_acker_shows_both_ledgers() -> None:
    """The picture of the first difference has Storm's ledger and the learner's, the same each time."""
    picture = check("own_acker", StubAcker).picture
    assert "Storm 0.9.3" in picture.svg and "your code" in picture.svg
    assert check("own_acker", StubAcker).picture.svg == picture.svg
    assert check("own_acker", BreaksAtFail).picture is None


def test_no_hint_tells_the_answer() -> None:
    """What a learner should find is not printed in a question or a hint."""
    texts = [text for exercise in (*nb_04.EXERCISES, *nb_05.EXERCISES) for text in (exercise.question, *exercise.hints)]
    assert not any(answer in text for text in texts for answer in ("ack_twice", " 300 ", "42", "second 80"))
