"""The exercises of notebook 05: what crashes and quiet faults cost, how many tuples may be in flight, and a safe batch."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kitlib.exercises.answers import a_class, choice
from kitlib.exercises.frame import Edge, Given, Half, Knobs, Miss, Right, Rows, Turned, exercise, unbroken
from kitlib.exercises.sandbox import run_steps
from kitlib.experiments import run
from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.monitor.delivery import judge
from kitlib.more.topology import Fault, Spout, TopologyBuilder, TopologyConfig, TopologyRun
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


@exercise(Edge("max spout pending", 1, MOST_PENDING, largest=True, fits=lambda words: not words["fail"]))
def largest_pending(pending: int) -> dict[str, Any]:
    knobs: dict[str, Any] = {"execute_ms": EXECUTE_MS, "topology_message_timeout_secs": TIMEOUT_S, "records": MOST_PENDING}
    trace = run("livelock", max_spout_pending=pending, duration_s=WATCHED_S, sample_s=100, **knobs)
    seen = [step.data for step in trace if step.what == "sample"][-1]
    waits_s = f"{pending * EXECUTE_MS / 1_000:g}"
    return {"fail": seen["failed"], "useless": f"{seen['wasted'] / seen['executed']:.1%}", "waits_s": waits_s, "watched_s": WATCHED_S}


@exercise(Given(choice(*FAULTS)))
def quiet_fault(fault: str) -> Rows:
    trace = run("tuple_tree", fault=fault)
    made = [(step.data["offset"], step.data["part"], step.at_ms) for step in trace if step.what == "process"]
    early = {(offset, part) for offset, part, at_ms in made if at_ms <= 1_000}
    expected = trace.at(0).data["parts"] * trace.settings.records
    again = [at_ms for offset, part, at_ms in made if at_ms > 1_000 and (offset, part) in early]
    yield len(early) < expected and Miss("not in time", fault=fault, count=len(early), expected=expected)
    yield not again and Miss("not again", fault=fault, expected=expected)
    yield Right(fault=fault, expected=expected, count=len(again), ms=min(again))


@exercise(Knobs("spout_crash", only=SPOUT_KNOBS, story=SPOUT_CRASH))
def cheap_spout_crash(turned: Turned) -> Rows:
    before, trace, verdict = judge(run("spout_crash", **SPOUT_CRASH)).counts["duplicated"], turned.trace, turned.verdict
    twice, done_ms = verdict.counts["duplicated"], max((step.at_ms for step in trace if step.what == "ack"), default=0)
    lost = verdict.appended - verdict.processed
    yield lost and Miss("lost", turned=turned, lost=lost)
    yield twice > MOST_TWICE and Miss(
        "twice", turned=turned, twice=twice, before=before,
        picture=show(trace, at=next(step.number for step in trace if step.what == "crash"), part="log"),
    )
    yield done_ms >= DONE_BY_MS and Half("late", turned=turned, twice=twice, done_ms=done_ms)
    yield Right(turned=turned, twice=twice, before=before, done_ms=done_ms)


@exercise(Knobs("livelock", only=LIVELOCK_KNOBS, story=LIVELOCK, exactly=1))
def end_the_livelock(turned: Turned) -> Rows:
    trace, [(name, value)] = turned.trace, turned.knobs.items()
    failed = sum(step.what == "fail" for step in trace)
    acks = [step.at_ms for step in trace if step.what == "ack"]
    seconds = trace.steps[-1].at_ms / 1_000
    yield failed and Miss("times out", turned=turned, failed=failed, seconds=seconds, last_s=max(acks, default=0) / 1000)
    price = {"parallelism": "more tasks", "topology_message_timeout_secs": "longer timeout"}.get(name, "right")
    missed_s = 2 * trace.settings.topology_message_timeout_secs
    yield Right(price, turned=turned, seconds=seconds, acked=len(acks), value=value, missed_s=missed_s)


class Forty(Spout):
    """The numbers 0 to 39, failed ones first, with a pause if the script has one; keeps its acks."""

    output_fields = ("number",)

    def __init__(self, heard: list[int], pause_after: int) -> None:
        self.heard, self.pause_after = heard, pause_after
        self.next_number, self.again = 0, list[Any]()

    def next_tuple(self) -> None:
        is_pausing = self.next_number == self.pause_after and self.context.now_ms < PAUSE_UNTIL_MS
        if not self.again and self.next_number < NUMBERS and not is_pausing:
            self.again.append(self.next_number)
            self.next_number += 1
        if self.again:
            number = self.again.pop(0)
            self.collector.emit([number], message_id=number)

    def fail(self, message_id: Any) -> None:
        self.again.append(message_id)

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


@exercise(Given(a_class))
def own_batch(answer: type) -> Rows:
    outcome, twice = unbroken(run_steps(answers_to, answer, BATCH_SCRIPTS)), 0
    for number, (script, answers, raised) in enumerate(zip(BATCH_SCRIPTS, outcome.answers, outcome.raised, strict=True)):
        when = f"when {script['name']}"
        if answers:
            yield from odd_writes(when, answers[0]["done"])
        yield raised and Miss("raised", when=when, raised=raised)
        yield from batch_rows(when, number < CALM, answers[0])
        written = Counter(number for what, _, about, _ in answers[0]["done"] if what == "write" for number in about)
        twice = max(twice, sum(count > 1 for count in written.values()))
    yield Right(twice=twice, batch=BATCH)


def odd_writes(when: str, done: list[list[Any]]) -> Rows:
    """Something other than a batch is written, or a number that the task has not been given since it started."""
    given: dict[str, set[Any]] = defaultdict(set)  # task -> numbers, since it last started
    for what, task, about, _ in done:
        if what == "execute":
            given[task].add(about)
        elif what == "crash":
            given[task].clear()
        elif what == "write":
            yield (not isinstance(about, list) or not all(type(number) is int for number in about)) and Miss(
                "no list", when=when, about=plain_text(about, 40), batch=BATCH
            )
            strange = [number for number in about if number not in given[task]]
            yield strange and Miss("not its own", when=when, task=task, strange=strange)
            yield len(about) != BATCH and Miss("wrong size", when=when, count=len(about), batch=BATCH)


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
            yield write_ms is None and Miss("never written", when=when, about=about, at_ms=at_ms)
            after = "in the same millisecond" if write_ms == at_ms else f"after {write_ms:,} ms"
            yield Miss("acked first", when=when, about=about, at_ms=at_ms, after=after)
    again = sorted(number for number, count in written.items() if count > 1)
    yield again and is_calm and Miss("written twice", when=when, again=again, times=written[again[0]])
    missing = sorted(set(range(NUMBERS)) - written.keys())
    yield missing and Miss("missing", when=when, missing=missing)
    if waiting := sorted(set(range(NUMBERS)) - set(seen["heard"])):
        came = sum(what == "execute" and about == waiting[0] for what, _, about, _ in done)
        yield Miss("no ack", when=when, waiting=waiting, came=came)
