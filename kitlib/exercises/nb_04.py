"""The exercises of notebook 04: the acker's number, its odds, its time-out, and a bolt and an acker of the learner's own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import xor
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, told, unbroken, whole_number
from kitlib.exercises.recorded_acker import check_own_acker
from kitlib.exercises.sandbox import run_steps
from kitlib.storm.acker import Acker, bounds_of, years_to_false_completion
from kitlib.storm.topology import BasicBolt, Bolt, Fault, Spout, TopologyBuilder, TopologyConfig, TopologyRun
from kitlib.text import plain_text

SENT_BY_SPOUT, BITS, CHILDREN = 0b0110, 4, 3  # the first exercise's tree
ACKS_PER_SECOND, YEARS = 10_000, 10  # of the second
TIMEOUT_S, EMITTED_S = 20, 47  # of the third
SENTENCES = ("streams of tuples grow into trees", "we ask why?", "a tree is done when all its leaves are", "so it is")
SHORTEST = 3  # letters of a word that is sent on
AT_ONCE_MS = 1_000  # a failure that comes later than this was a time-out


# -- zero_too_early ------------------------------------------------------------------------------------


def check_zero_too_early(answer: Any) -> str:
    """The acker itself says whether these ids end the tree while their tuples are out."""
    if not isinstance(answer, list | tuple | set | frozenset):
        raise NotYet(f"the answer should be {CHILDREN} ids, like (1, 4, 9), this is {told(answer)}.", "")
    low, high = bounds_of(BITS)
    ids = [whole_number(each, "each id") for each in answer]
    if len(ids) != CHILDREN:
        raise NotYet(f"the bolt sends {CHILDREN} tuples, and these are {len(ids)} ids.", "")
    if any(not low < each <= high for each in ids):
        raise NotYet(f"an id should be from 1 to {high}, these are {told(tuple(ids))}.", "")
    if len(set(ids)) < len(ids):
        raise NotYet("two of the tuples have the same id.", "Equal ids cancel each other at once; here they should be different.")
    acker = Acker(id_bits=BITS)
    acker.init(1, SENT_BY_SPOUT, spout_task=1)
    sent = reduce(xor, ids)
    end = acker.ack(1, SENT_BY_SPOUT ^ sent)
    if end is None:
        entry = acker.pending.get(1)
        number = entry.val or 0 if entry else 0
        raise NotYet(f"after the bolt's ack the number is {number:0{BITS}b}, so the acker still waits.")
    return (
        f"{' ^ '.join(f'{each:0{BITS}b}' for each in ids)} is {sent:0{BITS}b}, so the number is zero while all {CHILDREN} tuples "
        f"are out, and the acker sends {end.stream}. Of random ids with {BITS} bits, one message in {2**BITS} does this."
    )


# -- bits_for_ten_years --------------------------------------------------------------------------------


def check_bits(answer: Any) -> str:
    """The smallest number of bits with a mean wait of more than YEARS, from the kit's own odds."""
    bits = whole_number(answer)
    if not 1 <= bits <= 64:
        raise NotYet(f"ids have 1 to 64 bits, this is {bits}.", "")
    years = years_to_false_completion(bits, ACKS_PER_SECOND)
    if years <= YEARS:
        raise NotYet(f"with {bits} bits it happens every {_years(years)} on average.", "Each bit more doubles the wait.")
    fewer = years_to_false_completion(bits - 1, ACKS_PER_SECOND) if bits > 1 else 0.0
    if fewer > YEARS:
        raise NotYet(f"with {bits} bits it takes {_years(years)}, but fewer bits are enough.", "Each bit less halves the wait.")
    return (
        f"{bits} bits make it {_years(years)}, one bit less {_years(fewer)}. Storm's 64 bits are {64 - bits} more, and each of "
        "them doubles the wait."
    )


def _years(years: float) -> str:
    return f"{years:,.1f} years" if years >= 1 else f"{years * 365.25:,.2g} days"


# -- when_it_fails -------------------------------------------------------------------------------------


class OneTuple(Spout):
    """Sends one tuple at a given second, and notes when it hears of it."""

    output_fields = ("second",)

    def __init__(self, second: int, heard: list[float]) -> None:
        self.second, self.heard, self.is_sent = second, heard, False

    def next_tuple(self) -> None:
        if not self.is_sent and self.context.now_ms >= 1_000 * self.second:
            self.is_sent = True
            self.collector.emit([self.second], message_id=self.second)

    def fail(self, message_id: Any) -> None:
        self.heard.append(self.context.now_ms / 1_000)


class Deaf(Bolt):
    """Takes a tuple and says nothing about it."""

    def execute(self, given: Any) -> None:
        """Neither ack nor fail."""


def failure_s(emitted_s: int, timeout_s: int) -> float:
    """The second at which a spout hears of a tuple that nobody acks, from a run."""
    heard: list[float] = []
    builder = TopologyBuilder()
    builder.set_spout("spout", lambda: OneTuple(emitted_s, heard))
    builder.set_bolt("deaf", Deaf).shuffle_grouping("spout")
    config = TopologyConfig(topology_message_timeout_secs=timeout_s)
    run = TopologyRun(builder.create_topology(), config, rng=random.Random(1))
    run.run_for(1_000 * (emitted_s + 3 * timeout_s), until=lambda: bool(heard))
    return heard[0]


def check_when_it_fails(answer: Any) -> str:
    """When the second rotation after the emit comes, from a run of a topology."""
    second, truth = whole_number(answer), failure_s(EMITTED_S, TIMEOUT_S)
    if second == truth:
        return (
            f"at second {second} the second rotation after the emit throws it out. It waited {second - EMITTED_S} s; one that is "
            f"emitted just after a rotation waits nearly {2 * TIMEOUT_S} s."
        )
    if second == EMITTED_S + TIMEOUT_S:
        raise NotYet(f"{second} would be right if each tuple had a clock of its own.", "It has none: it lies in a bucket.")
    if second == EMITTED_S + 2 * TIMEOUT_S:
        raise NotYet(
            f"{second} is two time-outs after the emit, which is longer than any tuple waits.",
            "When are the buckets rotated, counted from the start?",
        )
    if second < EMITTED_S:
        raise NotYet(f"at second {second} it has not been emitted yet.")
    if second % TIMEOUT_S:
        raise NotYet(f"at second {second} no bucket is rotated, and only a rotation fails anything.")
    if second < truth:
        raise NotYet(f"at second {second} its bucket becomes the older one; it is not thrown out yet.")
    raise NotYet(f"by second {second} it has long been thrown out.")


# -- own_split -----------------------------------------------------------------------------------------


class Lines(Spout):
    """Sends each sentence once, and one again when it fails; keeps what it hears."""

    output_fields = ("sentence",)

    def __init__(self, sentences: list[str], heard: list[list[Any]]) -> None:
        self.sentences, self.heard = sentences, heard
        self.waiting = list(range(len(sentences)))
        self.has_repeated = False

    def next_tuple(self) -> None:
        if self.waiting:
            number = self.waiting.pop(0)
            self.collector.emit([self.sentences[number]], message_id=number)

    def ack(self, message_id: Any) -> None:
        self.heard.append(["ack", message_id, self.context.now_ms])

    def fail(self, message_id: Any) -> None:
        self.heard.append(["fail", message_id, self.context.now_ms])
        if not self.has_repeated:
            self.has_repeated = True
            self.waiting.append(message_id)


class Words(BasicBolt):
    """Keeps each word that it is sent."""

    execute_ms = 10

    def __init__(self, found: list[list[Any]]) -> None:
        self.found = found

    def process(self, given: Any, collector: Any) -> None:
        self.found.append([given.values[0], self.context.now_ms])


def answers_to(make: Any, script: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What the spout and the last bolt saw, with the learner's bolt between them; runs in the learner's process."""
    heard: list[list[Any]] = []
    found: list[list[Any]] = []
    builder = TopologyBuilder()
    builder.set_spout("lines", lambda: Lines(list(script["sentences"]), heard))
    builder.set_bolt("split", make).shuffle_grouping("lines")
    builder.set_bolt("words", lambda: Words(found)).shuffle_grouping("split")
    faults = [Fault("fail", "words", nth=(script["failing"],))] if script["failing"] else []
    run = TopologyRun(builder.create_topology(), TopologyConfig(), rng=random.Random(1), faults=faults)
    run.run_for(70_000)
    yield {"heard": heard, "words": found}


def words_of(sentence: str) -> list[str]:
    """What should be sent of a sentence."""
    return [] if sentence.endswith("?") else [word for word in sentence.split() if len(word) >= SHORTEST]


def check_own_split(answer: Any) -> str:
    """Each sentence alone, and then with a word that fails, in a topology with the learner's bolt in it."""
    if not isinstance(answer, type):
        raise NotYet(f"the answer should be your class, this is {told(answer)}.", "Give its name, without parentheses.")
    scripts = [{"name": sentence, "sentences": [sentence], "failing": failing} for failing in (0, 1) for sentence in SENTENCES]
    outcome = unbroken(run_steps(answers_to, answer, scripts))
    for script, answers, raised in zip(scripts, outcome.answers, outcome.raised, strict=True):
        if raised is not None:
            raise NotYet(f"at the sentence {script['name']!r} your code raised {raised.what}.", "Look at that line first.")
        _judge_split(str(script["name"]), bool(script["failing"]), answers[0])
    return (
        "every word hangs on its sentence: a failing word brings the sentence back, a question fails at once, and a sentence "
        "without a long word is done. One ack or fail for each tuple given, at the end, and an anchor on each tuple sent."
    )


def _judge_split(sentence: str, is_failing: bool, seen: dict[str, Any]) -> None:
    """NotYet with what is wrong about one sentence's run."""
    wanted, words = words_of(sentence), [word for word, _ in seen["words"]]
    if strange := [word for word in words if not isinstance(word, str)]:
        raise NotYet(
            f"of {sentence!r} {plain_text(strange[0], 60)} was sent as the value of one tuple, expected one word in each.",
            "`emit` takes a list of values, one for each field of the tuple. What stands in that list?",
        )
    ends = [(word, at_ms) for word, _, at_ms in seen["heard"]]
    acks, fails = ([at_ms for word, at_ms in ends if word == kind] for kind in ("ack", "fail"))
    if sentence.endswith("?"):
        if words:
            raise NotYet(
                f"of the question {sentence!r} the word {plain_text(words[0], 40)!r} was sent.",
                "A question is failed, and nothing else.",
            )
        if acks:
            raise NotYet(f"the question {sentence!r} was acked.", "A question should fail.")
        if not fails or fails[0] > AT_ONCE_MS:
            raise NotYet(
                f"the spout heard of the question {sentence!r} {f'after {fails[0]:,} ms' if fails else 'nothing'}: that was the time-out.",
                "Fail it yourself, so that nobody has to wait.",
            )
        return
    late = next((at_ms for at_ms in fails if at_ms > AT_ONCE_MS), None)
    if late is not None:
        raise NotYet(
            f"the sentence {sentence!r} timed out after {late:,} ms.",
            "Each tuple that your bolt is given wants one ack or fail, also when nothing was sent for it.",
        )
    fails_once = is_failing and bool(wanted)
    if fails and not fails_once:
        raise NotYet(f"the sentence {sentence!r} failed after {fails[0]:,} ms.", "Only a question should.")
    missing, extra = Counter(wanted) - Counter(words), Counter(words) - Counter(wanted * (2 if fails_once else 1))
    if extra:
        word = plain_text(next(iter(extra)), 40)
        raise NotYet(f"of {sentence!r} the word {word!r} was sent, or sent too often.", f"Which words have at least {SHORTEST} letters?")
    if fails_once and not fails:
        raise NotYet(
            f"a word of {sentence!r} failed further on, and the spout heard of it: nothing but an ack after {acks[0]:,} ms."
            if acks
            else f"a word of {sentence!r} failed further on, and the spout heard nothing of it.",
            "Is each word anchored to its sentence, and was the sentence not acked before?",
        )
    if missing:
        raise NotYet(f"of {sentence!r} the word {next(iter(missing))!r} was never sent.", f"It has at least {SHORTEST} letters.")
    if wanted and not acks:
        raise NotYet(
            f"the sentence {sentence!r} came again after its word had failed, and failed again after {fails[-1]:,} ms; expected an ack.",
            "Treat it as if it came for the first time.",
        )
    if wanted and acks[0] < seen["words"][-1][1]:
        raise NotYet(
            f"the sentence {sentence!r} was acked after {acks[0]:,} ms, its last word was written after {seen['words'][-1][1]:,} ms.",
            "Is each word anchored, and is the ack the last thing that you do?",
        )


EXERCISES = (
    Exercise(
        "zero_too_early",
        f"The spout sends a tuple with the id {SENT_BY_SPOUT:0{BITS}b}. A bolt sends three tuples for it and acks it. Choose three "
        f"different ids from 1 to {2**BITS - 1} for them, so that the acker calls the tree finished while all three are out.",
        check_zero_too_early,
        (
            "What is the number after the bolt's ack? Which part of it does the spout's id have?",
            "The spout's id cancels itself. The XOR of the three alone has to be zero: choose two, and the third is their XOR.",
        ),
    ),
    Exercise(
        "bits_for_ten_years",
        f"At {ACKS_PER_SECOND:,} acks a second, how many bits must ids have at least, so that one waits more than {YEARS} years "
        "for a false completion, on average?",
        check_bits,
        (
            "`years_to_false_completion(bits)` knows; each bit more doubles the wait.",
            "Let a loop try 1 to 64 and print those that are near.",
        ),
    ),
    Exercise(
        "when_it_fails",
        f"The time-out is {TIMEOUT_S} s. The spout emits a tuple at second {EMITTED_S} of the run, and nobody acks it. At which "
        "second does the spout hear of its failure?",
        check_when_it_fails,
        (
            f"The spout's two buckets are rotated every {TIMEOUT_S} s from the start of the run, not of the tuple.",
            "The first rotation after the emit makes its bucket the older one. The next one throws it out.",
        ),
    ),
    Exercise(
        "own_split",
        f"Write a bolt that sends each word of a sentence that has at least {SHORTEST} letters. A sentence that ends with a question "
        "mark is failed at once, and none of its words is sent. If a word fails further on, the sentence must come again.",
        check_own_split,
        (
            "Three things for each sentence: is it failed, is each word anchored, is the sentence acked at the end?",
            "A sentence without a long word wants its ack, too. After `self.collector.fail(given)` there is nothing more to do.",
        ),
    ),
    Exercise(
        "own_acker",
        "Write the acker of Storm 0.9.3. It has two buckets, the newer one first; each message puts the tree's entry into the newer "
        "one, and a tick drops the older one. An end is a tuple `(spout_task, \"ack\" or \"fail\", root)`; a method without one "
        "returns None.",
        check_own_acker,
        (
            "Every message may be the first one of its tree. A tree whose spout is not known cannot end.",
            "Zero is asked for before failed, after every message.",
            "`finding.picture` shows both ledgers after the first step that differs.",
        ),
    ),
)
