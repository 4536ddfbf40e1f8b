"""The exercises of notebooks 04 and 05: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import exercises, nb_05
from kitlib.experiments import run
from kitlib.mechanisms.acker import Acker
from kitlib.monitor.delivery import judge
from kitlib.more.topology import BasicBolt, FailedError
from kitlib.more.topology.later_acker import LaterAcker
from tests.exercises import planted
from tests.exercises.solutions import slip, slips


class BasicSplit(BasicBolt):
    """A BasicBolt is an answer, too."""

    output_fields = ("word",)

    def process(self, given: Any, collector: Any) -> None:
        if given["sentence"].endswith("?"):
            raise FailedError
        for word in given["sentence"].split():
            if len(word) >= 3:
                collector.emit([word])


# Slips of own_split.
SENT = '        if given["sentence"].endswith("?"):', "        if False:"
ACKED = "anchors=given)\n        self.collector.ack(given)"
IF_NOT_AGAIN = "self.collector.ack(given)", '''
        known = vars(self).setdefault("known", set())
        (self.collector.fail if given["sentence"] in known else self.collector.ack)(given)
        known.add(given["sentence"])'''
# Slips of own_batch, and other right answers.
ADD, CLEAR, CLASS = "        self.held.append(given)", "            self.held = []", 'what is written."""'
IN_THE_CLASS = "self.held: list[Any] = []", "pass", CLASS, f"{CLASS}\n\n    held = []"
CLEARED = CLEAR, "            self.held.clear()"
NUMBERS_TOO = (
    ADD, f'{ADD}\n        self.numbers.append(given["number"])', '[held["number"] for held in self.held]', "self.numbers",
    "len(self.held)", "len(self.numbers)", CLEAR, f"{CLEAR}\n            self.numbers.clear()",
)  # fmt: skip
WRITTEN = (
    "self.held: list[Any] = []", "self.held, self.written = [], set()",
    CLEAR, f'            self.written |= {{held["number"] for held in self.held}}\n{CLEAR}',
)  # fmt: skip


def unless(condition: str, then: str = "None") -> tuple[str, str]:
    """What it does not keep, and does with it instead."""
    return ADD, f"        if {condition}:\n            return {then}\n{ADD}"


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
    ("own_batch", slip("own_batch", *NUMBERS_TOO, "self.held: list[Any] = []", "self.held, self.numbers = [], []"),
     "a bolt alone cannot do better"),
    ("own_batch", slip("own_batch", ADD, f'        self.held = [each for each in self.held if each["number"] != given["number"]]\n{ADD}'),
     "a bolt alone cannot do better"),
    ("own_batch", slip("own_batch", *WRITTEN, *unless('given["number"] in self.written', "self.collector.ack(given)")),
     "at most 4 are written twice"),
]  # fmt: skip

WRONG: list[tuple[str, Any, str]] = [
    ("zero_too_early", (1, 2, 4), "the number is 0111"),
    ("zero_too_early", (1, 1, 2), "the same id"),
    ("zero_too_early", (1, 2), "but you gave 2 ids"),
    ("bits_for_ten_years", 41, "every 7.0 years"),
    ("bits_for_ten_years", 43, "fewer are enough"),
    ("bits_for_ten_years", 64, "fewer are enough"),
    ("when_it_fails", 67, "each tuple had its own clock"),
    ("when_it_fails", 87, "longer than any tuple waits"),
    ("when_it_fails", 60, "not thrown out yet"),
    ("when_it_fails", 100, "by second 100 it was thrown out long ago"),
    ("when_it_fails", 20, "not been emitted yet"),
    ("when_it_fails", 70, "at second 70 no bucket rotates"),
    *slips(
        "own_split",
        (", anchors=given", "", "should get ack; with yours it gets an ack, before the last word was written."),
        ("anchors=given", '**({"anchors": given} if word == given["sentence"].split()[-1] else {})',
         "a word of which fails further on, the spout, which sends a failed one once more, should get fail, ack; with yours it gets ack."),
        (ACKED, "anchors=given)", *SENT, "a fail, when the tuple timed out"),
        (">= 3", ">= 4", "the words sent should be"),
        (*SENT, "for the sentence 'we ask why?' the spout"),
        ("self.collector.fail(given)", "pass", "should get fail, fail; with yours it gets a fail, when the tuple timed out."),
        ("[word]", "[word, 1]", "TopologyError"),
        (*IF_NOT_AGAIN, "should get fail, ack; with yours it gets fail, fail"),
    ),
    ("own_split", type("NoBolt", (), {}), "your code raised"),
    *slips(
        "own_acker",
        (*planted.NEVER_RENEWS, "recorded steps agree"),
        ("entry[2] = True", "return {}[root]", "your code raised KeyError: 1, in line"),
        ("def fail(", "def fails(", "your class has no fail. It should have init, ack, fail, tick."),
    ),
    ("own_acker", Acker, "the kit's own"),
    ("own_acker", LaterAcker, "the kit's own"),
    ("largest_pending", 299, "299 is not the largest"),
    ("largest_pending", 301, "time out in 400 s"),
    ("largest_pending", 600, "of the work is useless"),
    ("quiet_fault", "fail", "and none of them happens again later"),
    ("quiet_fault", "lose", "only 23 of 24"),
    ("quiet_fault", "raise", "in the first second"),
    ("quiet_fault", "hang", "in the first second"),
    ("cheap_spout_crash", {}, "28 effects happen twice (default"),
    ("cheap_spout_crash", {"max_spout_pending": 1}, "the last record is acked at"),
    ("end_the_livelock", {"topology_ackers": 5}, "trees time out"),
    ("end_the_livelock", {"topology_message_timeout_secs": 45}, "trees time out"),
    *slips(
        "own_batch",
        (ADD, f"{ADD}\n        self.collector.ack(given)", "self.collector.ack(held)", "pass", "acked after"),
        ("            self.write()\n", "", CLEAR, f"            self.write()\n{CLEAR}",
         "number 0 is acked after 7 ms and only then written, in the same millisecond; expected"),
        (*IN_THE_CLASS, *CLEARED, "when two tasks share the numbers, batch-2 writes number 1, which it has not been given since"),
        (*WRITTEN, *unless('given["number"] in self.written'),
         "when five messages to the acker are lost, number 0 is written, but it comes 30 times"),
        (*unless('given["number"] in {held["number"] for held in self.held}'),
         "when the source pauses after 3 numbers, number 0 is written, but it comes 30 times"),
        ("in self.held:", "in self.held[-1:]:", "came again"),
        ("self.collector.ack(held)", "pass", "came again"),
        (*unless('given["number"] >= 35'), "number 35 is never written"),
        ("== 5", "== 1", "a batch of 1"),
        ('[held["number"]', "[repr(held)", "expected a list of 5 numbers"),
    ),
]  # fmt: skip


def test_cheap_spout_crash_names_what_the_defaults_cost() -> None:
    """The number in the question is what the experiment counts with its defaults."""
    exercise = exercises()["cheap_spout_crash"]
    counts = judge(run("spout_crash", **nb_05.SPOUT_CRASH)).counts
    assert f"{counts['duplicated']} effects happen twice" in exercise.told.question and not counts["lost"]
