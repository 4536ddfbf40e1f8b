"""The exercises of notebook 04: the acker's number, its odds, its timeout, and a bolt and an acker of the learner's own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import xor
from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import NotYet, a_class, as_text, expected, whole_number
from kitlib.exercises.door import Recorded
from kitlib.exercises.frame import Given, Rows, exercise, unbroken
from kitlib.exercises.growth import ACKER_GROWTH
from kitlib.exercises.sandbox import run_steps
from kitlib.exercises.your_acker import ACKER, METHODS
from kitlib.mechanisms.acker import Acker, bounds_of, years_to_false_completion
from kitlib.more.topology import BasicBolt, Bolt, Fault, Spout, TopologyBuilder, TopologyConfig, TopologyRun
from kitlib.text import plain_text

SENT_BY_SPOUT, BITS, CHILDREN = 0b0110, 4, 3  # the first exercise's tree
ACKS_PER_SECOND, YEARS = 10_000, 10  # of the second
TIMEOUT_S, EMITTED_S = 20, 47  # of the third
SENTENCES = ("streams of tuples grow into trees", "we ask why?", "a tree is done when all its leaves are", "so it is")
SHORTEST = 3  # letters of a word that is sent on
AT_ONCE_MS = 1_000  # a failure that comes later than this was a timeout


def ids_in(answer: Any, what: str = "the answer") -> list[int]:
    """Different ids of BITS bits, one for each child; NotYet otherwise."""
    if not isinstance(answer, list | tuple | set | frozenset):
        raise expected(what, f"{CHILDREN} ids, like (1, 4, 9)", answer)
    low, high = bounds_of(BITS)
    ids = [whole_number(each, "each id") for each in answer]
    if len(ids) != CHILDREN:
        raise NotYet(f"the bolt sends {CHILDREN} tuples, but you gave {len(ids)} ids.", "")
    if any(not low < each <= high for each in ids):
        raise NotYet(f"an id should be from 1 to {high}; got {as_text(tuple(ids))}.", "")
    if len(set(ids)) < len(ids):
        raise NotYet("two of the tuples have the same id.", "Equal ids cancel each other at once; here they should be different.")
    return ids


@exercise(Given(ids_in), solution=(1, 2, 3), part="b")
def zero_too_early(ids: list[int]) -> Rows:
    acker = Acker(id_bits=BITS)
    acker.init(1, SENT_BY_SPOUT, spout_task=1)
    sent = reduce(xor, ids)
    end = acker.ack(1, SENT_BY_SPOUT ^ sent)
    if end is None:
        entry = acker.pending.get(1)
        number = entry.val or 0 if entry else 0
        yield NotYet(f"after the bolt's ack the number is {number:0{BITS}b}, so the acker still waits.")
    else:
        yield (
            f"{' ^ '.join(f'{each:0{BITS}b}' for each in ids)} is {sent:0{BITS}b}, so the number is zero while all {CHILDREN} tuples "
            f"are out, and the acker sends {end.stream}. With random ids of {BITS} bits, one message in {2**BITS} does this."
        )


def years_said(years: float) -> str:
    """A long time in years, a short one in days."""
    return f"{years:,.1f} years" if years >= 1 else f"{years * 365.25:,.2g} days"


@exercise(Given(whole_number), solution=42, part="b")
def bits_for_ten_years(bits: int) -> Rows:
    yield not 1 <= bits <= 64 and NotYet(f"ids have 1 to 64 bits, not {bits}.", "")
    years = years_to_false_completion(bits, ACKS_PER_SECOND)
    yield years <= YEARS and NotYet(f"with {bits} bits it happens every {years_said(years)} on average.", "One bit more doubles the wait.")
    fewer = years_to_false_completion(bits - 1, ACKS_PER_SECOND) if bits > 1 else 0.0
    yield fewer > YEARS and NotYet(f"with {bits} bits it takes {years_said(years)}; fewer are enough.", "One bit fewer halves the wait.")
    yield (
        f"{bits} bits make it {years_said(years)}; with one bit fewer it is {years_said(fewer)}. Storm's 64 bits are {64 - bits} more, "
        "and each of them doubles the wait."
    )


class OneTuple(Spout):
    """Sends one tuple at a given second, and records when it fails."""

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
    """Takes a tuple and never answers."""

    def execute(self, given: Any) -> None:
        """Neither ack nor fail."""


def failure_s(emitted_s: int, timeout_s: int) -> float:
    """The second at which the spout learns that a tuple failed which no bolt acks, from a run."""
    heard: list[float] = []
    builder = TopologyBuilder()
    builder.set_spout("spout", lambda: OneTuple(emitted_s, heard))
    builder.set_bolt("deaf", Deaf).shuffle_grouping("spout")
    config = TopologyConfig(topology_message_timeout_secs=timeout_s)
    run = TopologyRun(builder.create_topology(), config, rng=random.Random(1))
    run.run_for(1_000 * (emitted_s + 3 * timeout_s), until=lambda: bool(heard))
    return heard[0]


@exercise(Given(whole_number), solution=80, part="c")
def when_it_fails(second: int) -> Rows:
    truth = failure_s(EMITTED_S, TIMEOUT_S)
    if second != truth:
        yield second == EMITTED_S + TIMEOUT_S and NotYet(
            f"{second} would be right if each tuple had its own clock.", "It has none: it lies in a bucket."
        )
        yield second == EMITTED_S + 2 * TIMEOUT_S and NotYet(
            f"{second} is two timeouts after the emit, which is longer than any tuple waits.",
            "When do the buckets rotate, counted from the start?",
        )
        yield second < EMITTED_S and NotYet(f"at second {second} it has not been emitted yet.")
        yield second % TIMEOUT_S and NotYet(f"at second {second} no bucket rotates, and only a rotation fails a tuple.")
        yield second < truth and NotYet(f"at second {second} its bucket becomes the older one; it is not thrown out yet.")
        yield NotYet(f"by second {second} it was thrown out long ago.")
    yield (
        f"at second {second} the second rotation after the emit throws it out. It waited {second - EMITTED_S} s; a tuple "
        f"emitted just after a rotation waits nearly {2 * TIMEOUT_S} s."
    )


class Lines(Spout):
    """Sends each sentence once, and one of them again when it fails; keeps its acks and fails."""

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
    """What the spout and the last bolt got, with the learner's bolt between them; runs in the learner's process."""
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
    """What should be sent for a sentence."""
    return [] if sentence.endswith("?") else [word for word in sentence.split() if len(word) >= SHORTEST]


@exercise(Given(a_class), solution=solutions.Split, part="a")
def own_split(answer: type) -> Rows:
    scripts = [{"name": sentence, "sentences": [sentence], "failing": failing} for failing in (0, 1) for sentence in SENTENCES]
    outcome = unbroken(run_steps(answers_to, answer, scripts))
    for script, answers, raised in zip(scripts, outcome.answers, outcome.raised, strict=True):
        yield raised and NotYet(f"at the sentence {script['name']!r} your code raised {raised.what}.", "Look at that line first.")
        words = [word for word, _ in answers[0]["words"]]
        acks, fails = ([at_ms for word, _, at_ms in answers[0]["heard"] if word == kind] for kind in ("ack", "fail"))
        strange = [word for word in words if not isinstance(word, str)]
        yield strange and NotYet(
            f"for {script['name']!r} {plain_text(strange[0], 60)} was sent as the value of one tuple, expected one word in each.",
            "`emit` takes a list of values, one for each field of the tuple. What is in that list?",
        )
        yield from (question_rows if str(script["name"]).endswith("?") else sentence_rows)(script, answers[0]["words"], words, acks, fails)
    yield (
        "every word depends on its sentence: a failing word brings the sentence back, a question fails at once, and a sentence "
        "without a long word completes. One ack or fail for each input tuple, at the end, and an anchor on each tuple sent."
    )


def question_rows(script: dict[str, Any], _: Any, words: list[str], acks: list[int], fails: list[int]) -> Rows:
    """What is wrong about the run of a question."""
    sentence = script["name"]
    yield words and NotYet(f"the word {plain_text(words[0], 40)!r} of the question {sentence!r} was sent; expected none.", "It only fails.")
    yield acks and NotYet(f"the question {sentence!r} was acked; expected a fail.", "A question should fail.")
    late = f"learned only after {fails[0]:,} ms that" if fails else "never learned that"
    yield (not fails or fails[0] > AT_ONCE_MS) and NotYet(
        f"the spout {late} the question {sentence!r} had failed: that was the timeout; expected a fail at once.",
        "Fail it yourself, so that no one has to wait.",
    )


def sentence_rows(script: dict[str, Any], written: list[Any], words: list[str], acks: list[int], fails: list[int]) -> Rows:
    """What is wrong about the run of a sentence that is not a question."""
    sentence, wanted = script["name"], words_of(script["name"])
    late = next((at_ms for at_ms in fails if at_ms > AT_ONCE_MS), None)
    yield late is not None and NotYet(
        f"the sentence {sentence!r} timed out after {late:,} ms; expected an ack or a fail before that.",
        "Each tuple that your bolt gets needs one ack or fail, even when nothing was sent for it.",
    )
    fails_once = bool(script["failing"] and wanted)
    yield fails and not fails_once and NotYet(
        f"the sentence {sentence!r} failed after {fails[0]:,} ms; expected an ack.", "Only a question should fail."
    )
    missing, extra = Counter(wanted) - Counter(words), Counter(words) - Counter(wanted * (2 if fails_once else 1))
    yield extra and NotYet(
        f"the word {plain_text(next(iter(extra)), 40)!r} of {sentence!r} was sent, or sent too often; expected {wanted}, each once.",
        f"Which words have at least {SHORTEST} letters?",
    )
    yield fails_once and not fails and NotYet(
        f"a word of {sentence!r} failed further on, but the spout got {f'an ack after {acks[0]:,} ms' if acks else 'no answer'}; "
        "expected a fail.",
        "Is each word anchored to its sentence, and was the sentence not acked too early?",
    )
    yield missing and NotYet(
        f"the word {next(iter(missing))!r} of {sentence!r} was never sent; expected {wanted}.", f"It has at least {SHORTEST} letters."
    )
    yield wanted and not acks and NotYet(
        f"the sentence {sentence!r} came again after its word had failed, and failed again after {fails[-1]:,} ms; expected an ack.",
        "Treat it as if it came for the first time.",
    )
    yield wanted and acks[0] < written[-1][1] and NotYet(
        f"the sentence {sentence!r} was acked after {acks[0]:,} ms, but its last word was written after {written[-1][1]:,} ms; "
        "expected the ack after the write.",
        "Is each word anchored, and is the ack the last thing that you do?",
    )


@exercise(
    Recorded(ACKER, a_class, "your acker repeats every recorded step of the real acker of 0.9.3.", METHODS, ACKER_GROWTH.rows),
    solution=solutions.OwnAcker,
    part="b",
)
def own_acker(answer: type) -> Rows:
    yield None  # every near miss is a recorded step
