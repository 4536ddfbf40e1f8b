"""The exercises of notebook 05: what crashes and quiet faults cost, how many tuples may be on their way, and a safe batch."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, knobs_for, one_of, told, unbroken, whole_number
from kitlib.exercises.sandbox import run_steps
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.storm.acker import ACKER_COMPONENT_ID
from kitlib.storm.topology import BasicBolt, Fault, Spout, TopologyBuilder, TopologyConfig, TopologyRun
from kitlib.text import plain_text
from kitlib.trace import Trace
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


# -- largest_pending -----------------------------------------------------------------------------------


class Endless(Spout):
    """Sends one number after the other, those that failed first."""

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


def check_largest_pending(answer: Any) -> str:
    """No time-out with this number, and some with one more: from two runs."""
    pending = whole_number(answer)
    if not 1 <= pending <= MOST_PENDING:
        raise NotYet(f"max spout pending is {pending:,}, expected 1 to {MOST_PENDING:,}.", "")
    words = words_of_a_run(pending)
    if words["fail"]:
        useless = 1 - words["ack"] / words["execute"]
        raise NotYet(
            f"with {pending} pending {words['fail']:,} tuples time out in {WATCHED_S} s, and {useless:.1%} of the work is useless."
        )
    more = words_of_a_run(pending + 1)
    if not more["fail"]:
        raise NotYet(f"with {pending} pending nothing times out, and with {pending + 1} nothing does either.", "Try more.")
    return (
        f"with {pending} pending the last one of them waits {pending * EXECUTE_MS / 1_000:g} s and nothing times out; with one more "
        f"{more['fail']:,} do in {WATCHED_S} s. At the edge all is well, so leave room for the day on which the bolt is slower."
    )


# -- quiet_fault ---------------------------------------------------------------------------------------


def check_quiet_fault(answer: Any) -> str:
    """All effects made in the first second and made again after it: from a run with each fault."""
    fault = one_of(answer, FAULTS)
    trace = run("tuple_tree", fault=fault)
    made = [(step.data["offset"], step.data["part"], step.at_ms) for step in trace if step.what == "process"]
    early = {(offset, part) for offset, part, at_ms in made if at_ms <= 1_000}
    expected = trace.at(0).data["parts"] * trace.knobs["records"]
    again = [at_ms for offset, part, at_ms in made if at_ms > 1_000 and (offset, part) in early]
    if len(early) < expected:
        raise NotYet(
            f"with {fault} only {len(early)} of {expected} effects are made in the first second.",
            "Some tuple is not worked on in time.",
        )
    if not again:
        raise NotYet(
            f"with {fault} all {expected} effects are made in the first second, and none of them is made after it.",
            "The spout hears of it at once.",
        )
    return (
        f"with {fault} all {expected} effects are made in the first second, and {len(again)} of them once more after "
        f"{min(again):,} ms: the ids do not cancel, so a finished tree never looks finished."
    )


# -- cheap_spout_crash ---------------------------------------------------------------------------------


def check_cheap_spout_crash(answer: Any) -> str:
    """Few effects twice and no long wait: the experiment tells."""
    knobs = knobs_for("spout_crash", answer, SPOUT_KNOBS)
    before, trace = _twice(run("spout_crash", **SPOUT_CRASH)), run("spout_crash", **SPOUT_CRASH, **knobs)
    turned = ", ".join(f"{name}={value}" for name, value in knobs.items()) or "the defaults"
    twice, done_ms = _twice(trace), max((step.at_ms for step in trace if step.what == "ack"), default=0)
    verdict = judge(trace)
    if verdict.appended - verdict.processed:
        raise NotYet(f"with {turned} {verdict.appended - verdict.processed} records are never processed.", "Nothing may be lost.")
    if twice > MOST_TWICE:
        raise NotYet(
            f"with {turned} {twice} effects are made twice, with the defaults {before}.",
            "Two things come again: what was on its way, and what was finished and not yet stored.",
            show(trace, at=next(step.number for step in trace if step.what == "crash"), part="log"),
        )
    if done_ms >= DONE_BY_MS:
        raise NotYet(
            f"with {turned} only {twice} effects are made twice, but the last record is acked at {done_ms:,} ms.",
            "Fewer at once is slower. Which other knob makes a replay shorter?",
        )
    return (
        f"with {turned} {twice} effects are made twice (with the defaults {before}), and the last record is acked at {done_ms:,} ms. "
        "One knob bounds what is on its way, the other what is finished and not stored."
    )


def _twice(trace: Trace) -> int:
    return judge(trace).counts["duplicated"]


# -- end_the_livelock ----------------------------------------------------------------------------------


def check_end_the_livelock(answer: Any) -> str:
    """No tuple times out although as many are pending: the experiment tells."""
    knobs = knobs_for("livelock", answer, LIVELOCK_KNOBS)
    if len(knobs) != 1:
        raise NotYet(f"turn one knob, this turns {len(knobs)}.", "The others stay at their defaults.")
    [(name, value)] = knobs.items()
    trace = run("livelock", **LIVELOCK, **knobs)
    failed = sum(step.what == "fail" for step in trace)
    acks = [step.at_ms for step in trace if step.what == "ack"]
    seconds = trace.steps[-1].at_ms / 1_000
    if failed:
        raise NotYet(
            f"with {name}={value} {failed:,} trees time out in {seconds:.0f} s, and the last ack is heard after "
            f"{max(acks, default=0) / 1_000:.0f} s.",
        )
    price = {
        "parallelism": f"{value} tasks share the queue: the price is their machines",
        "topology_message_timeout_secs": f"the spout waits longer: the price is that a lost tuple is missed for up to {2 * int(value)} s",
    }.get(name, "every tuple is done in time")
    return f"with {name}={value} nothing times out in {seconds:.0f} s, and {len(acks):,} trees are acked. {price[0].upper()}{price[1:]}."


# -- own_batch -----------------------------------------------------------------------------------------


class Forty(Endless):
    """The numbers 0 to 39, those that failed first, with a pause if there is one; keeps what it hears."""

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

    Runs in the learner's process. When the bolt raises, what happened before is told, too.
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


def check_own_batch(answer: Any) -> str:
    """The learner's bolt in calm and in trouble: what is acked must have been written before, and all of it."""
    if not isinstance(answer, type):
        raise NotYet(f"the answer should be your class, this is {told(answer)}.", "Give its name, without parentheses.")
    outcome = unbroken(run_steps(answers_to, answer, BATCH_SCRIPTS))
    twice = 0
    for number, (script, answers, raised) in enumerate(zip(BATCH_SCRIPTS, outcome.answers, outcome.raised, strict=True)):
        when = str(script["name"])
        if answers:
            _judge_writes(when, answers[0]["done"])
        if raised is not None:
            raise NotYet(f"when {when}, your code raised {raised.what}.", "Look at that line first.")
        twice = max(twice, _judge_batch(when, number < CALM, answers[0]))
    return (
        f"every number is written, none is acked before, and at most {twice} are written twice here. A task that dies "
        f"between the write and its acks would write {BATCH} of them again: a bolt alone cannot do better than at least once."
    )


def _judge_writes(when: str, done: list[list[Any]]) -> None:
    """NotYet when something else than a batch is written, or a number that the task's present life was not given."""
    given: dict[str, set[Any]] = defaultdict(set)  # task -> numbers, since it last started
    for what, task, about, _ in done:
        if what == "execute":
            given[task].add(about)
        elif what == "crash":
            given[task].clear()
        elif what == "write":
            if not isinstance(about, list) or not all(type(number) is int for number in about):
                raise NotYet(
                    f"when {when}, {plain_text(about, 40)} is written, expected a list of {BATCH} numbers.",
                    'Write `self.context.note("write", numbers=[...])` with the values, not the tuples.',
                )
            if strange := [number for number in about if number not in given[task]]:
                raise NotYet(
                    f"when {when}, {task} writes number {strange[0]}, which it was not given since it started; expected its own only.",
                    "Where is your list made? One in the class body, or a default argument, is a single list for every task.",
                )
            if len(about) != BATCH:
                raise NotYet(f"when {when}, a batch of {len(about)} is written, expected {BATCH}.", "Begin a new batch after each write.")


def _judge_batch(when: str, is_calm: bool, seen: dict[str, Any]) -> int:
    """NotYet with what is wrong about one run; else how many numbers were written more than once."""
    written: Counter[int] = Counter(number for what, _, about, _ in seen["done"] if what == "write" for number in about)
    came: Counter[int] = Counter(about for what, _, about, _ in seen["done"] if what == "execute")
    so_far: set[int] = set()
    for place, (what, _, about, at_ms) in enumerate(seen["done"]):
        if what == "write":
            so_far.update(about)
        elif what == "bolt_ack" and about not in so_far:
            later = (ms for word, _, numbers, ms in seen["done"][place:] if word == "write" and about in numbers)
            if (write_ms := next(later, None)) is None:
                raise NotYet(
                    f"when {when}, number {about} is acked after {at_ms:,} ms and never written: it is lost.",
                    "What does an ack promise, and who brings back a number that was acked?",
                )
            after = f"after {write_ms:,} ms" if write_ms > at_ms else "in the same millisecond"
            raise NotYet(
                f"when {when}, number {about} is acked after {at_ms:,} ms and only then written, {after}; expected the write first.",
                "What is lost if the task dies between the two?",
            )
    again = sorted(number for number, count in written.items() if count > 1)
    if again and is_calm:
        raise NotYet(
            f"when {when}, number {again[0]} is written {written[again[0]]} times: its tuple timed out and came again.",
            "Each tuple of a batch wants its ack, not only the last one.",
        )
    if missing := sorted(set(range(NUMBERS)) - written.keys()):
        raise NotYet(f"when {when}, number {missing[0]} is never written.", "Are all tuples of a batch in it, and each batch written?")
    if waiting := sorted(set(range(NUMBERS)) - set(seen["heard"])):
        raise NotYet(
            f"when {when}, number {waiting[0]} is written, but it comes {came[waiting[0]]} times and the spout never hears an ack.",
            "A tuple that comes again wants an ack of its own, also if its number is known.",
        )
    return len(again)


EXERCISES = (
    Exercise(
        "largest_pending",
        f"One task of a bolt needs {EXECUTE_MS} ms for a tuple, and the time-out is {TIMEOUT_S} s. What is the largest max spout "
        "pending with which no tuple ever times out?",
        check_largest_pending,
        (
            "How long does the last of the pending tuples wait, and after how long may a time-out come at the earliest?",
            "`live(pending, seconds=400)` shows how many timed out. Halve the interval between a number that is well and one that is not.",
        ),
    ),
    Exercise(
        "quiet_fault",
        "With which fault of section 4 are *all* effects of all records made within the first second, and some of them made again, "
        "much later?",
        check_quiet_fault,
        (
            "Look for a fault that hinders no bolt at its work.",
            "Which fault confuses nobody but the acker?",
        ),
    ),
    Exercise(
        "cheap_spout_crash",
        f"With its defaults and a topic as the source, `spout_crash` makes 28 effects twice. Turn knobs so that at most {MOST_TWICE} "
        f"are made twice and the last record is still acked before {DONE_BY_MS:,} ms. You may turn `commit_every_ms`, "
        "`max_spout_pending`, `topology_message_timeout_secs` and `topology_ackers`.",
        check_cheap_spout_crash,
        (
            "Two things come again: what was on its way, and what was finished and not yet stored.",
            "There is one knob for each of the two. Turn both of them down.",
        ),
    ),
    Exercise(
        "end_the_livelock",
        "600 tuples are pending in `livelock`, and it must stay so. Turn one other knob so that no tuple times out. You may turn "
        "`parallelism`, `topology_message_timeout_secs`, `topology_ackers`, `acker_release`, `fetch_records` and `commit_every_ms`.",
        check_end_the_livelock,
        (
            "Pending tuples, times the time for one, divided by the tasks that share them: that is how long each of them waits.",
            "Either they wait less long, or the spout waits longer.",
        ),
    ),
    Exercise(
        "own_batch",
        f"Write a bolt that writes numbers in batches of {BATCH}. Its task may die at any time. Each number must be written at least "
        "once, and none may be acked before it is written.",
        check_own_batch,
        (
            "An ack says: I have done what I wanted to do with it. When is that true for the first number of a batch?",
            "Keep the tuples, not the numbers alone: write the batch when it is full, and ack all of its tuples then.",
        ),
    ),
)
