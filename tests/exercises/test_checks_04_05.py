"""The exercises of notebooks 04 and 05: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any, ClassVar

from kitlib.exercises import exercises, nb_05
from kitlib.experiments import run
from kitlib.mechanisms.acker import Acker
from kitlib.monitor.delivery import judge
from kitlib.more.topology import BasicBolt, Bolt, FailedError
from kitlib.more.topology.later_acker import LaterAcker
from tests.exercises import planted_acker as acker
from tests.exercises import solutions

# Bolts for own_split.


class AnySplit(Bolt):
    """A split with a mistake, which its attributes say."""

    output_fields = ("word",)
    anchored: bool | str = True
    shortest, question, acks, ending = 3, "fail", "last", "ack"

    def execute(self, given: Any) -> None:
        is_question = given["sentence"].endswith("?")
        if is_question and self.question != "sent":
            {"fail": self.collector.fail, "ack": self.collector.ack, "ignored": id}[self.question](given)
            return
        words = [word for word in given["sentence"].split() if len(word) >= self.shortest]
        if self.acks == "first":
            self.collector.ack(given)
        for word in words:
            is_anchored = word == words[-1] if self.anchored == "last" else self.anchored
            self.collector.emit([word], **({"anchors": given} if is_anchored else {}))
        if self.acks == "last" or (self.acks == "with words" and words):
            (self.collector.fail if is_question or self.ending == "fail" else self.collector.ack)(given)


def split(**mistake: Any) -> type:
    return type("YourSplit", (AnySplit,), mistake)


class BasicSplit(BasicBolt):
    """A BasicBolt is an answer, too."""

    output_fields = ("word",)

    def process(self, given: Any, collector: Any) -> None:
        if given["sentence"].endswith("?"):
            raise FailedError
        for word in given["sentence"].split():
            if len(word) >= 3:
                collector.emit([word])


class SendsTwoValues(solutions.Split):
    def execute(self, given: Any) -> None:
        self.collector.emit([given["sentence"], 1], anchors=given)


class SendsAList(solutions.Split):
    """One tuple with all words in its one value, which Storm allows."""

    def execute(self, given: Any) -> None:
        self.collector.emit([given["sentence"].split()], anchors=given)
        self.collector.ack(given)


class SendsDicts(solutions.Split):
    def execute(self, given: Any) -> None:
        self.collector.emit([{"word": given["sentence"]}], anchors=given)
        self.collector.ack(given)


class FailsWhatComesAgain(solutions.Split):
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


class MisspeltSplit(solutions.Split):
    def execute(self, given: Any) -> None:
        self.collector.akc(given)  # type: ignore[attr-defined]


class NoBolt:
    """It has not even a method."""


# Ackers for own_acker; more of them are in `planted_acker`.


class NeverRenews(solutions.OwnAcker):
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


class EndsWithoutSpout(solutions.OwnAcker):
    def ended(self, root: int, entry: list[Any]) -> Any:
        if entry[0] != 0 and not entry[2]:
            return None
        del self.pending[0][root]
        return None if entry[1] is None else (entry[1], "fail" if entry[0] else "ack", root)


class TaskZeroIsNone(solutions.OwnAcker):
    def ended(self, root: int, entry: list[Any]) -> Any:
        return super().ended(root, entry) if entry[1] else None


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


# Bolts for own_batch.


def batch(full: str, arrival: str = "") -> type:
    """A bolt that does these things with each tuple, and those when it holds five."""

    class YourBatch(solutions.Batch):
        def execute(self, given: Any) -> None:
            self.held.append(given)
            for what in filter(None, [*arrival.split(", "), *(full.split(", ") if len(self.held) >= 5 else ())]):
                if what == "write":
                    self.write()
                elif what == "clear":
                    self.held = []
                for held in {"ack all": self.held, "ack last": self.held[-1:], "ack rest": self.held[:-1]}.get(what, ()):
                    self.collector.ack(held)

    return YourBatch


class KeepsNumbersToo(solutions.Batch):
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


class KeepsTheNewest(solutions.Batch):
    """A number that comes again while it waits replaces its older tuple."""

    def execute(self, given: Any) -> None:
        self.held = [held for held in self.held if held["number"] != given["number"]]
        super().execute(given)


class AcksWhatIsWritten(solutions.Batch):
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


class SkipsWhatWaits(solutions.Batch):
    """A number that comes again while it waits is thrown away, and the older tuple acked, which has timed out."""

    def execute(self, given: Any) -> None:
        if given["number"] not in {held["number"] for held in self.held}:
            super().execute(given)


class ListInTheClass(Bolt):
    held: ClassVar[list[Any]] = []

    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            self.context.note("write", numbers=[held["number"] for held in self.held])
            for held in self.held:
                self.collector.ack(held)
            self.held.clear()


class ListInTheClassAtFirst(solutions.Batch):
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


class NumbersInTheClass(solutions.Batch):
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


class LeavesTheLastOut(solutions.Batch):
    def execute(self, given: Any) -> None:
        if given["number"] < 35:
            super().execute(given)


class WritesNothing(solutions.Batch):
    def write(self) -> None:
        return None


class WritesOneByOne(solutions.Batch):
    def execute(self, given: Any) -> None:
        self.context.note("write", numbers=[given["number"]])
        self.collector.ack(given)


class WritesTuples(solutions.Batch):
    def write(self) -> None:
        self.context.note("write", numbers=[repr(held) for held in self.held])


class WritesNoList(solutions.Batch):
    def write(self) -> None:
        self.context.note("write", number=self.held[0]["number"])


class MisspeltBatch(solutions.Batch):
    def write(self) -> None:
        self.context.note("write", numbers=[held["nubmer"] for held in self.held])





SOLUTIONS: list[tuple[str, Any, str]] = [
    ("zero_too_early", ..., "is 0000"),
    ("zero_too_early", [15, 9, 6], "is 0000"),
    ("zero_too_early", {8, 4, 12}, "is 0000"),
    ("bits_for_ten_years", ..., "with one bit fewer it is 7.0 years"),
    ("bits_for_ten_years", 42.0, "with one bit fewer it is 7.0 years"),
    ("when_it_fails", ..., "It waited 33 s"),
    ("own_split", ..., "a question fails at once"),
    ("own_split", BasicSplit, "a question fails at once"),
    ("own_acker", ..., "every recorded step"),
    ("largest_pending", ..., "leave room"),
    ("quiet_fault", ..., "never looks finished"),
    ("quiet_fault", "Ack twice", "never looks finished"),
    ("cheap_spout_crash", ..., "8 effects happen twice (default"),
    ("cheap_spout_crash", {"max_spout_pending": "4", "commit_every_ms": 10}, "8 effects happen twice (default"),
    ("end_the_livelock", ..., "2 tasks share"),
    ("end_the_livelock", {"topology_message_timeout_secs": 60}, "up to 120 s"),
    ("own_batch", ..., "a bolt alone cannot do better"),
    ("own_batch", KeepsNumbersToo, "a bolt alone cannot do better"),
    ("own_batch", KeepsTheNewest, "a bolt alone cannot do better"),
    ("own_batch", AcksWhatIsWritten, "at most 4 are written twice"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("zero_too_early", (1, 2, 4), "the number is 0111"),
    ("zero_too_early", (6, 1, 2), "the number is 0101"),
    ("zero_too_early", (1, 1, 2), "the same id"),
    ("zero_too_early", (1, 2), "but you gave 2 ids"),
    ("zero_too_early", (0, 1, 2), "from 1 to 15"),
    ("zero_too_early", (16, 17, 1), "from 1 to 15"),
    ("zero_too_early", ("1", 2, 3), "should be a number"),
    ("zero_too_early", 7, "should be 3 ids"),
    ("bits_for_ten_years", 41, "every 7.0 years"),
    ("bits_for_ten_years", 8, "days on average"),
    ("bits_for_ten_years", 43, "fewer are enough"),
    ("bits_for_ten_years", 64, "fewer are enough"),
    ("bits_for_ten_years", 0, "1 to 64 bits"),
    ("bits_for_ten_years", 65, "1 to 64 bits"),
    ("bits_for_ten_years", "42", "should be a number"),
    ("bits_for_ten_years", 41.5, "a whole number"),
    ("when_it_fails", 67, "each tuple had its own clock"),
    ("when_it_fails", 87, "longer than any tuple waits"),
    ("when_it_fails", 60, "not thrown out yet"),
    ("when_it_fails", 100, "by second 100 it was thrown out long ago"),
    ("when_it_fails", 20, "not been emitted yet"),
    ("when_it_fails", 70, "at second 70 no bucket rotates"),
    ("when_it_fails", "80", "should be a number"),
    ("own_split", split(anchored=False), "was acked after"),
    ("own_split", split(anchored="last"), "failed further on, but the spout got an ack after 56 ms"),
    ("own_split", split(acks="first"), "was acked after"),
    ("own_split", split(acks="never", question="sent"), "timed out after 60,000 ms"),
    ("own_split", split(acks="with words"), "'so it is'"),
    ("own_split", split(shortest=0, question="sent"), "the word 'of' of 'streams of tuples grow into trees' was sent"),
    ("own_split", split(shortest=4), "was never sent"),
    ("own_split", split(question="ack"), "was acked"),
    ("own_split", split(question="sent"), "of the question"),
    ("own_split", split(question="ignored"), "that was the timeout"),
    ("own_split", split(ending="fail"), "failed after"),
    ("own_split", SendsTwoValues, "TopologyError"),
    ("own_split", SendsAList, "['streams', 'of', 'tuples', 'grow', 'into', 'trees'] was sent as the value of one tuple, expected one word"),
    ("own_split", SendsDicts, "was sent as the value of one tuple, expected one word"),
    ("own_split", FailsWhatComesAgain, "came again after its word had failed, and failed again"),
    ("own_split", MisspeltSplit, "AttributeError"),
    ("own_split", NoBolt, "your code raised"),
    ("own_split", solutions.Split(), "should be your class"),
    ("own_acker", StubAcker, "recorded steps agree"),
    ("own_acker", NeverRenews, "recorded steps agree"),
    ("own_acker", EndsWithoutSpout, "yours has none"),
    ("own_acker", TaskZeroIsNone, "__ack_ack to task 0 for tree"),
    ("own_acker", acker.AnswersYes, "instead of None or (spout_task, stream, root)"),
    ("own_acker", acker.Breaks, "your code raised KeyError: 1, in line"),
    ("own_acker", acker.HasNoFail, "your class has no fail. It should have init, ack, fail, tick."),
    ("own_acker", dict, "your class has no init and no ack and no fail and no tick."),
    ("own_acker", Acker, "the kit's own"),
    ("own_acker", LaterAcker, "the kit's own"),
    ("own_acker", Acker(), "should be your class"),
    ("largest_pending", 299, "299 is not the largest"),
    ("largest_pending", 301, "time out in 400 s"),
    ("largest_pending", 600, "of the work is useless"),
    ("largest_pending", 0, "expected 1 to 5,000"),
    ("largest_pending", 5_001, "expected 1 to 5,000"),
    ("largest_pending", "300", "should be a number"),
    ("quiet_fault", "fail", "and none of them happens again later"),
    ("quiet_fault", "drop", "only 23 of 24"),
    ("quiet_fault", "lose", "only 23 of 24"),
    ("quiet_fault", "raise", "in the first second"),
    ("quiet_fault", "hang", "in the first second"),
    ("quiet_fault", "crash", "should be one of"),
    ("quiet_fault", 5, "should be one of"),
    ("cheap_spout_crash", {}, "28 effects happen twice (default"),
    ("cheap_spout_crash", {"commit_every_ms": 10}, "20 effects happen twice (default: 28)"),
    ("cheap_spout_crash", {"max_spout_pending": 3}, "14 effects happen twice (default: 28)"),
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
    ("own_batch", batch("write, clear", arrival="ack last"), "acked after"),
    ("own_batch", batch("ack all, write, clear"), "number 0 is acked after 7 ms and only then written, in the same millisecond; expected"),
    ("own_batch", batch("ack last, write, ack rest, clear"), "number 4 is acked after 7 ms and only then written"),
    ("own_batch", ListInTheClass, "when two tasks share the numbers, batch-2 writes number 1, which it has not been given since"),
    ("own_batch", ListInTheClassAtFirst, "batch-2 writes number 1, which it has not been given since it started; expected only its own"),
    ("own_batch", ListAsDefault, "batch-2 writes number 1, which it has not been given since it started"),
    ("own_batch", NumbersInTheClass, "batch-2 writes number 1, which it has not been given since it started"),
    ("own_batch", SkipsWhatIsWritten, "when five messages to the acker are lost, number 0 is written, but it comes 30 times"),
    ("own_batch", SkipsWhatWaits, "when the source pauses after 3 numbers, number 0 is written, but it comes 30 times"),
    ("own_batch", batch("write, ack last, clear"), "came again"),
    ("own_batch", batch("write, clear"), "came again"),
    ("own_batch", LeavesTheLastOut, "number 35 is never written"),
    ("own_batch", WritesNothing, "never written: it is lost"),
    ("own_batch", WritesOneByOne, "a batch of 1"),
    ("own_batch", WritesTuples, "expected a list of 5 numbers"),
    ("own_batch", WritesNoList, "expected a list of 5 numbers"),
    ("own_batch", batch("write, ack last"), "a batch of 6"),
    ("own_batch", MisspeltBatch, "has no field 'nubmer'"),
    ("own_batch", solutions.Batch(), "should be your class"),
]


def test_cheap_spout_crash_names_what_the_defaults_cost() -> None:
    """The number in the question is what the experiment counts with its defaults."""
    exercise = exercises()["cheap_spout_crash"]
    counts = judge(run("spout_crash", **nb_05.SPOUT_CRASH)).counts
    assert f"{counts['duplicated']} effects happen twice" in exercise.told.question and not counts["lost"]
