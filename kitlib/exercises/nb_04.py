"""The exercises of notebook 04: the acker's number, its odds, its timeout, and a bolt and an acker of the learner's own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import xor
from typing import Any

from kitlib.exercises.answers import NotYet, a_class, as_text, in_order, whole_number
from kitlib.exercises.door import Recorded
from kitlib.exercises.frame import Edge, Given, Miss, Right, Rows, exercise, unbroken
from kitlib.exercises.growth import ACKER_GROWTH
from kitlib.exercises.sandbox import run_steps
from kitlib.exercises.your_acker import ACKER, METHODS
from kitlib.mechanisms.acker import Acker, bounds_of, years_to_false_completion
from kitlib.mechanisms.rotating_map import RotatingMap
from kitlib.more.topology import BasicBolt, Fault, Spout, TopologyBuilder, TopologyConfig, TopologyRun
from kitlib.text import plain_text

SENT_BY_SPOUT, BITS, CHILDREN = 0b0110, 4, 3  # the first exercise's tree
ACKS_PER_SECOND, YEARS = 10_000, 10  # of the second
TIMEOUT_S, EMITTED_S = 20, 47  # of the third
SENTENCES = ("streams of tuples grow into trees", "we ask why?", "a tree is done when all its leaves are", "so it is")
SHORTEST = 3  # letters of a word that is sent on
AT_ONCE_MS = 1_000  # a failure that comes later than this was a timeout


def ids_in(answer: Any, what: str = "the answer") -> list[int]:
    """Different ids of BITS bits, one for each child; NotYet otherwise."""
    low, high = bounds_of(BITS)
    ids: list[int] = in_order(f"{CHILDREN} ids, like (1, 4, 9)", "id", set, frozenset)(answer, what)
    if len(ids) != CHILDREN:
        raise NotYet(f"the bolt sends {CHILDREN} tuples, but you gave {len(ids)} ids.", "")
    if any(not low < each <= high for each in ids):
        raise NotYet(f"an id should be from 1 to {high}; got {as_text(tuple(ids))}.", "")
    if len(set(ids)) < len(ids):
        raise NotYet("two of the tuples have the same id.", "Equal ids cancel each other at once; here they should be different.")
    return ids


@exercise(Given(ids_in))
def zero_too_early(ids: list[int]) -> Rows:
    acker = Acker(id_bits=BITS)
    acker.init(1, SENT_BY_SPOUT, spout_task=1)
    sent = reduce(xor, ids)
    end = acker.ack(1, SENT_BY_SPOUT ^ sent)
    if end is None:
        entry = acker.pending.get(1)
        number = entry.val or 0 if entry else 0
        yield Miss("still waits", bits=BITS, number=number)
    else:
        yield Right(sums=" ^ ".join(f"{each:0{BITS}b}" for each in ids), bits=BITS, sent=sent, children=CHILDREN, end=end, one_in=2**BITS)


def years_said(years: float) -> str:
    """A long time in years, a short one in days."""
    return f"{years:,.1f} years" if years >= 1 else f"{years * 365.25:,.2g} days"


@exercise(Edge("the width", 1, 64, largest=False, fits=lambda seen: seen["years"] > YEARS, unit=" bits"))
def bits_for_ten_years(bits: int) -> dict[str, Any]:
    years = years_to_false_completion(bits, ACKS_PER_SECOND)
    return {"years": years, "said": years_said(years), "more": 64 - bits}


def failure_s(emitted_s: int, timeout_s: int) -> int:
    """The second at which a tuple fails that no bolt acks: its bucket is thrown out, one rotation after it became the oldest."""
    pending, second = RotatingMap[int, int](bucket_count=2), 0
    while True:
        second += 1
        if second % timeout_s == 0 and pending.rotate():
            return second
        if second == emitted_s:
            pending.put(1, second)


@exercise(Given(whole_number))
def when_it_fails(second: int) -> Rows:
    truth = failure_s(EMITTED_S, TIMEOUT_S)
    if second != truth:
        yield second == EMITTED_S + TIMEOUT_S and Miss("own clock", second=second)
        yield second == EMITTED_S + 2 * TIMEOUT_S and Miss("two timeouts", second=second)
        yield second < EMITTED_S and Miss("not emitted", second=second)
        yield second % TIMEOUT_S and Miss("no rotation", second=second)
        yield second < truth and Miss("older bucket", second=second)
        yield Miss("long ago", second=second)
    yield Right(second=second, waited=second - EMITTED_S, longest=2 * TIMEOUT_S)


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


@exercise(Given(a_class))
def own_split(answer: type) -> Rows:
    scripts = [{"name": sentence, "sentences": [sentence], "failing": failing} for failing in (0, 1) for sentence in SENTENCES]
    outcome = unbroken(run_steps(answers_to, answer, scripts))
    for script, answers, raised in zip(scripts, outcome.answers, outcome.raised, strict=True):
        yield raised and Miss("raised", script=script, raised=raised)
        words = [word for word, _ in answers[0]["words"]]
        acks, fails = ([at_ms for word, _, at_ms in answers[0]["heard"] if word == kind] for kind in ("ack", "fail"))
        strange = [word for word in words if not isinstance(word, str)]
        yield strange and Miss("not one word", script=script, sent=plain_text(strange[0], 60))
        yield from (question_rows if str(script["name"]).endswith("?") else sentence_rows)(script, answers[0]["words"], words, acks, fails)
    yield Right()


def question_rows(script: dict[str, Any], _: Any, words: list[str], acks: list[int], fails: list[int]) -> Rows:
    """What is wrong about the run of a question."""
    sentence = script["name"]
    yield words and Miss("question sent", word=plain_text(words[0], 40), sentence=sentence)
    yield acks and Miss("question acked", sentence=sentence)
    late = f"learned only after {fails[0]:,} ms that" if fails else "never learned that"
    yield (not fails or fails[0] > AT_ONCE_MS) and Miss("question timed out", late=late, sentence=sentence)


def sentence_rows(script: dict[str, Any], written: list[Any], words: list[str], acks: list[int], fails: list[int]) -> Rows:
    """What is wrong about the run of a sentence that is not a question."""
    sentence, wanted = script["name"], words_of(script["name"])
    late = next((at_ms for at_ms in fails if at_ms > AT_ONCE_MS), None)
    yield late is not None and Miss("timed out", sentence=sentence, late=late)
    fails_once = bool(script["failing"] and wanted)
    yield fails and not fails_once and Miss("failed", sentence=sentence, fails=fails)
    missing, extra = Counter(wanted) - Counter(words), Counter(words) - Counter(wanted * (2 if fails_once else 1))
    yield extra and Miss("too many words", word=plain_text(next(iter(extra)), 40), sentence=sentence, wanted=wanted, shortest=SHORTEST)
    yield fails_once and not fails and Miss("not failed", sentence=sentence, answer=f"an ack after {acks[0]:,} ms" if acks else "no answer")
    yield missing and Miss("word missing", word=next(iter(missing)), sentence=sentence, wanted=wanted, shortest=SHORTEST)
    yield wanted and not acks and Miss("failed again", sentence=sentence, ms=fails[-1])
    yield wanted and acks[0] < written[-1][1] and Miss("acked early", sentence=sentence, acks=acks, written_ms=written[-1][1])


@exercise(Recorded(ACKER, a_class, METHODS, ACKER_GROWTH.rows))
def own_acker(answer: type) -> Rows:
    yield None  # every near miss is a recorded step
