"""The exercises of notebook 04: the acker's number, its odds, its timeout, and a bolt and an acker of the learner's own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import xor
from typing import Any

from kitlib.exercises.answers import NotYet, a_class, as_text, in_order, whole_number
from kitlib.exercises.door import Recorded, tell
from kitlib.exercises.frame import Edge, Given, Miss, Right, Rows, exercise, unbroken
from kitlib.exercises.prose import answers
from kitlib.exercises.sandbox import run_steps
from kitlib.exercises.your_acker import ACKER, METHODS
from kitlib.mechanisms.acker import Acker, bounds_of, years_to_false_completion
from kitlib.mechanisms.rotating_map import RotatingMap
from kitlib.more.topology import BasicBolt, Fault, Spout, TopologyBuilder, TopologyConfig, TopologyRun

SENT_BY_SPOUT, BITS, CHILDREN = 0b0110, 4, 3  # the first exercise's tree
ACKS_PER_SECOND, YEARS = 10_000, 10  # of the second
TIMEOUT_S, EMITTED_S = 20, 47  # of the third
SENTENCES = ("streams of tuples grow into trees", "we ask why?", "a tree is done when all its leaves are", "so it is")
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


def answers_to(make: Any, script: Mapping[str, Any]) -> Iterator[dict[str, list[Any]]]:
    """What the last bolt and the spout got, with the learner's bolt between them; runs in the learner's process."""
    heard: list[list[Any]] = []
    found: list[list[Any]] = []
    builder = TopologyBuilder()
    builder.set_spout("lines", lambda: Lines([script["sentence"]], heard))
    builder.set_bolt("split", make).shuffle_grouping("lines")
    builder.set_bolt("words", lambda: Words(found)).shuffle_grouping("split")
    faults = [Fault("fail", "words", nth=(1,))] if script["fails"] else []
    run = TopologyRun(builder.create_topology(), TopologyConfig(), rng=random.Random(1), faults=faults)
    run.run_for(70_000)
    last_ms = max((at_ms for _, at_ms in found), default=0)
    odd = {"fail": "a fail, when the tuple timed out", "ack": "an ack, before the last word was written"}
    told = [odd[word] if (at_ms > AT_ONCE_MS if word == "fail" else at_ms < last_ms) else word for word, _, at_ms in heard]
    yield {"answers": told, "words": [word for word, _ in found]}


@exercise(Given(a_class))
def own_split(answer: type) -> Rows:
    scripts = [{"name": sentence, "sentence": sentence, "fails": fails} for fails in (False, True) for sentence in SENTENCES]
    outcome, right = unbroken(run_steps(answers_to, answer, scripts)), answers()["own_split"].solution
    for script, done, raised in zip(scripts, outcome.answers, outcome.raised, strict=True):
        where = f"{script['name']!r}{', a word of which fails further on,' if script['fails'] else ''}"
        yield raised and Miss("raised", where=where, raised=raised)
        for what, wanted in next(answers_to(right, script)).items():
            yield done[0][what] != wanted and Miss(what, where=where, wanted=tell(wanted), had=tell(done[0][what]))
    yield Right()


@exercise(Recorded(ACKER, a_class, METHODS))
def own_acker(answer: type) -> Rows:
    yield None  # every near miss is a recorded step
