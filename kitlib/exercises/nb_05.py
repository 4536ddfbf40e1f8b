"""The exercises of notebook 05: what crashes and quiet faults cost, how many tuples may be in flight, and a safe batch."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, a_class, choice
from kitlib.exercises.frame import Edge, Given, Knobs, Rows, Turned, exercise, unbroken
from kitlib.exercises.sandbox import run_steps
from kitlib.experiments import run
from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.monitor.delivery import judge
from kitlib.more.topology import BasicBolt, Fault, Spout, TopologyBuilder, TopologyConfig, TopologyRun
from kitlib.text import plain_text
from kitlib.views import show

EXECUTE_MS, TIMEOUT_S, WATCHED_S, MOST_PENDING = 100, 30, 400, 5_000  # of the first exercise's topology
FAULTS = ("fail", "drop", "lose", "raise", "ack_twice", "hang")
SPOUT_CRASH: dict[str, Any] = {"source": "kafka"}
SPOUT_KNOBS = ("commit_every_ms", "max_spout_pending", "topology_message_timeout_secs", "topology_ackers")
MOST_TWICE, DONE_BY_MS = 10, 1_300  # of the third exercise
LIVELOCK: dict[str, Any] = {"max_spout_pending": 600, "duration_s": 200, "sample_s": 100}
LIVELOCK_KNOBS = ("parallelism", "topology_message_timeout_secs", "topology_ackers", "acker_release", "fetch_records", "commit_every_ms")
NUMBERS, BATCH, PAUSE_UNTIL_MS = 40, 5, 5_000  # of the last exercise
BATCH_SCRIPTS: tuple[dict[str, Any], ...] = (
    {"name": "nothing goes wrong"},
    {"name": "two tasks share the numbers", "tasks": 2},
    {"name": "its task dies after 10 ms", "crash_at_ms": 10},
    {"name": "its task dies after 25 ms", "crash_at_ms": 25},
    {"name": "five messages to the acker are lost", "lost": [7, 8, 9, 10, 11]},  # the first batch's acks, if it is acked when it is full
    {"name": "the source pauses after 3 numbers", "pause_after": 3},  # so those that wait in the bolt time out
)
CALM = 2  # that many scripts without any trouble, at the beginning


class Endless(Spout):
    """Sends one number after another, failed ones first."""

    output_fields = ("number",)

    def __init__(self) -> None:
        self.next_number = 0
        self.again: list[Any] = []

    def next_tuple(self) -> None:
        if not self.again:
            self.again.append(self.next_number)
            self.next_number += 1
        number = self.again.pop(0)
        self.collector.emit([number], message_id=number)

    def fail(self, message_id: Any) -> None:
        self.again.append(message_id)


class Slow(BasicBolt):
    """Takes its time and does nothing."""

    def __init__(self) -> None:
        self.execute_ms = EXECUTE_MS

    def process(self, given: Any, collector: Any) -> None:
        """Nothing."""


def words_of_a_run(pending: int) -> Counter[str]:
    """How often each thing happened in a run with so many tuples pending."""
    words: Counter[str] = Counter()
    builder = TopologyBuilder()
    builder.set_spout("numbers", Endless)
    builder.set_bolt("slow", Slow).shuffle_grouping("numbers")
    config = TopologyConfig(topology_max_spout_pending=pending, topology_message_timeout_secs=TIMEOUT_S)

    def observe(actor: str, what: str, data: dict[str, Any]) -> None:
        words[what] += 1

    TopologyRun(builder.create_topology(), config, rng=random.Random(1), observer=observe).run_for(1_000 * WATCHED_S)
    return words


@exercise(
    Edge(
        "max spout pending", 1, MOST_PENDING, largest=True,
        fits=lambda words: not words["fail"],
        fails=f"with {{n}} pending {{here[fail]:,}} tuples time out in {WATCHED_S} s, and {{here[useless]}} of the work is useless.",
        right="with {n} pending the last one of them waits {here[waits_s]} s and nothing times out; with one more {there[fail]:,} do in "
        f"{WATCHED_S} s. At the edge all is well, so leave room for the day on which the bolt is slower.",
    ),
    solution=300,
    part="c",
)
def largest_pending(pending: int) -> dict[str, Any]:
    words = words_of_a_run(pending)
    useless = 1 - words["ack"] / words["execute"]
    return {"fail": words["fail"], "useless": f"{useless:.1%}", "waits_s": f"{pending * EXECUTE_MS / 1_000:g}"}


@exercise(Given(choice(*FAULTS)), solution="ack_twice", part="b")
def quiet_fault(fault: str) -> Rows:
    trace = run("tuple_tree", fault=fault)
    made = [(step.data["offset"], step.data["part"], step.at_ms) for step in trace if step.what == "process"]
    early = {(offset, part) for offset, part, at_ms in made if at_ms <= 1_000}
    expected = trace.at(0).data["parts"] * trace.settings.records
    again = [at_ms for offset, part, at_ms in made if at_ms > 1_000 and (offset, part) in early]
    yield len(early) < expected and NotYet(
        f"with {fault} only {len(early)} of {expected} effects happen in the first second.", "Some tuple is not processed in time."
    )
    yield not again and NotYet(
        f"with {fault} all {expected} effects happen in the first second, and none of them happens again later.",
        "The spout is notified at once.",
    )
    yield (
        f"with {fault} all {expected} effects happen in the first second, and {len(again)} of them once more after "
        f"{min(again):,} ms: the ids do not cancel, so a finished tree never looks finished."
    )


@exercise(
    Knobs("spout_crash", only=SPOUT_KNOBS, story=SPOUT_CRASH),
    solution={"max_spout_pending": 3, "commit_every_ms": 20},
    part="a",
)
def cheap_spout_crash(turned: Turned) -> Rows:
    before, trace, verdict = judge(run("spout_crash", **SPOUT_CRASH)).counts["duplicated"], turned.trace, turned.verdict
    twice, done_ms = verdict.counts["duplicated"], max((step.at_ms for step in trace if step.what == "ack"), default=0)
    lost = verdict.appended - verdict.processed
    yield lost and NotYet(f"{turned.words} {lost} records are never processed.", "Nothing may be lost.")
    yield twice > MOST_TWICE and NotYet(
        f"{turned.words}, {twice} effects happen twice (default: {before}).",
        "Two things come again: what was in flight, and what was finished and not yet stored.",
        show(trace, at=next(step.number for step in trace if step.what == "crash"), part="log"),
    )
    yield done_ms >= DONE_BY_MS and HalfRight(
        f"{turned.words} only {twice} effects happen twice, but the last record is acked at {done_ms:,} ms.",
        "Fewer at a time is slower. Which other knob makes a replay shorter?",
    )
    yield (
        f"{turned.words}, {twice} effects happen twice (default: {before}), and the last record is acked at {done_ms:,} ms. "
        "One knob bounds what is in flight, the other what is finished and not yet stored."
    )


@exercise(Knobs("livelock", only=LIVELOCK_KNOBS, story=LIVELOCK, exactly=1), solution={"parallelism": 2}, part="c")
def end_the_livelock(turned: Turned) -> Rows:
    trace, [(name, value)] = turned.trace, turned.knobs.items()
    failed = sum(step.what == "fail" for step in trace)
    acks = [step.at_ms for step in trace if step.what == "ack"]
    seconds = trace.steps[-1].at_ms / 1_000
    yield failed and NotYet(
        f"{turned.words} {failed:,} trees time out in {seconds:.0f} s, and the last ack comes after {max(acks, default=0) / 1_000:.0f} s."
    )
    price = {
        "parallelism": f"{value} tasks share the queue: the price is their machines",
        "topology_message_timeout_secs": f"The spout waits longer: the price is that a lost tuple is missed for up to {2 * int(value)} s",
    }.get(name, "Every tuple is done in time")
    yield f"{turned.words} nothing times out in {seconds:.0f} s, and {len(acks):,} trees are acked. {price}."


class Forty(Endless):
    """The numbers 0 to 39, failed ones first, with a pause if the script has one; keeps its acks."""

    def __init__(self, heard: list[int], pause_after: int) -> None:
        super().__init__()
        self.heard, self.pause_after = heard, pause_after

    def next_tuple(self) -> None:
        is_pausing = self.next_number == self.pause_after and self.context.now_ms < PAUSE_UNTIL_MS
        if self.again or (self.next_number < NUMBERS and not is_pausing):
            super().next_tuple()

    def ack(self, message_id: Any) -> None:
        self.heard.append(message_id)


def answers_to(make: Any, script: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What the bolt's tasks were given, wrote and acked, in this order, and what the spout heard.

    Runs in the learner's process. When the bolt raises, what happened before comes back, too.
    """
    heard: list[int] = []
    done: list[list[Any]] = []  # word, task, number or numbers, ms
    number_of: dict[Any, int] = {}  # by the tuple
    builder = TopologyBuilder()
    builder.set_spout("numbers", lambda: Forty(heard, script.get("pause_after", -1)))
    builder.set_bolt("batch", make, parallelism=script.get("tasks", 1)).shuffle_grouping("numbers")
    config = TopologyConfig(topology_max_spout_pending=10, topology_message_timeout_secs=2)

    def observe(actor: str, what: str, data: dict[str, Any]) -> None:
        about: Any = None
        if what == "execute" and data.get("values"):
            about = number_of[data.get("tuple")] = data["values"][0]
        elif what == "bolt_ack":
            about = number_of.get(data.get("tuple"))
        elif what == "write":
            numbers = data.get("numbers")
            about = list(numbers) if isinstance(numbers, list | tuple) else numbers  # as it is now: the list is the bolt's
        elif what != "crash":
            return
        done.append([what, actor, about, topology.now_ms])

    faults = [Fault("crash", "batch", at_ms=script["crash_at_ms"])] if "crash_at_ms" in script else []
    faults += [Fault("lose", ACKER_COMPONENT_ID, nth=tuple(script["lost"]))] if "lost" in script else []
    topology = TopologyRun(builder.create_topology(), config, rng=random.Random(1), faults=faults, observer=observe)
    try:
        topology.run_for(120_000)
    finally:
        yield {"heard": heard, "done": done}


@exercise(Given(a_class), solution=solutions.Batch, part="b")
def own_batch(answer: type) -> Rows:
    outcome, twice = unbroken(run_steps(answers_to, answer, BATCH_SCRIPTS)), 0
    for number, (script, answers, raised) in enumerate(zip(BATCH_SCRIPTS, outcome.answers, outcome.raised, strict=True)):
        when = f"when {script['name']}"
        if answers:
            yield from odd_writes(when, answers[0]["done"])
        yield raised and NotYet(f"{when}, your code raised {raised.what}.", "Look at that line first.")
        yield from batch_rows(when, number < CALM, answers[0])
        written = Counter(number for what, _, about, _ in answers[0]["done"] if what == "write" for number in about)
        twice = max(twice, sum(count > 1 for count in written.values()))
    yield (
        f"every number is written, none is acked before, and at most {twice} are written twice here. A task that dies "
        f"between the write and its acks would write {BATCH} of them again: a bolt alone cannot do better than at least once."
    )


def odd_writes(when: str, done: list[list[Any]]) -> Rows:
    """Something other than a batch is written, or a number that the task has not been given since it started."""
    given: dict[str, set[Any]] = defaultdict(set)  # task -> numbers, since it last started
    for what, task, about, _ in done:
        if what == "execute":
            given[task].add(about)
        elif what == "crash":
            given[task].clear()
        elif what == "write":
            yield (not isinstance(about, list) or not all(type(number) is int for number in about)) and NotYet(
                f"{when}, {plain_text(about, 40)} is written, expected a list of {BATCH} numbers.",
                'Write `self.context.note("write", numbers=[...])` with the values, not the tuples.',
            )
            strange = [number for number in about if number not in given[task]]
            yield strange and NotYet(
                f"{when}, {task} writes number {strange[0]}, which it has not been given since it started; expected only its own.",
                "Where is your list made? One in the class body, or a default argument, is a single list for every task.",
            )
            yield len(about) != BATCH and NotYet(
                f"{when}, a batch of {len(about)} is written, expected {BATCH}.", "Begin a new batch after each write."
            )


def batch_rows(when: str, is_calm: bool, seen: dict[str, Any]) -> Rows:
    """What is wrong about one run: a number is acked before it is written, written twice without need, or never done."""
    done, so_far = seen["done"], set[int]()
    written: Counter[int] = Counter(number for what, _, about, _ in done if what == "write" for number in about)
    for place, (what, _, about, at_ms) in enumerate(done):
        if what == "write":
            so_far.update(about)
        elif what == "bolt_ack" and about not in so_far:
            later = (ms for word, _, numbers, ms in done[place:] if word == "write" and about in numbers)
            write_ms = next(later, None)
            yield write_ms is None and NotYet(
                f"{when}, number {about} is acked after {at_ms:,} ms and never written: it is lost; expected the write first.",
                "What does an ack promise, and who sends a number again that was acked?",
            )
            after = "in the same millisecond" if write_ms == at_ms else f"after {write_ms:,} ms"
            yield NotYet(
                f"{when}, number {about} is acked after {at_ms:,} ms and only then written, {after}; expected the write first.",
                "What is lost if the task dies between the two?",
            )
    again = sorted(number for number, count in written.items() if count > 1)
    yield again and is_calm and NotYet(
        f"{when}, number {again[0]} is written {written[again[0]]} times: its tuple timed out and came again; expected it once.",
        "Each tuple of a batch needs its ack, not only the last one.",
    )
    missing = sorted(set(range(NUMBERS)) - written.keys())
    yield missing and NotYet(
        f"{when}, number {missing[0]} is never written; expected every number.",
        "Does the batch hold all of its tuples, and is each batch written?",
    )
    if waiting := sorted(set(range(NUMBERS)) - set(seen["heard"])):
        came = sum(what == "execute" and about == waiting[0] for what, _, about, _ in done)
        yield NotYet(
            f"{when}, number {waiting[0]} is written, but it comes {came} times and the spout never gets an ack; "
            "expected one for each time.",
            "A tuple that comes again needs its own ack, even if its number is known.",
        )
