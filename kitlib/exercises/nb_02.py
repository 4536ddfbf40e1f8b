"""The exercises of notebook 02: the bound on how far back the spout looks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kitlib.errors import KnobError
from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, mapping, numbers_in, one_of, whole_number
from kitlib.exercises.frame import Function, Given, Knobs, Rows, Turned, exercise
from kitlib.exercises.spouts import emitted_spout
from kitlib.experiments import run
from kitlib.experiments.knobs import UNLIMITED, bind
from kitlib.experiments.storm.knobs import MaxOffsetBehind
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace, from_ranges
from kitlib.views import show

MAX_OFFSET_BEHIND = bind("max_offset_behind", MaxOffsetBehind, UNLIMITED)
FETCH = 250  # records that one fetch brings in the first exercise
FORGOTTEN_RUNS: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {}),
    (2, {"fetch_records": 40, "max_offset_behind": 20}),
    (3, {"max_offset_behind": 3}),
    (1, {"max_offset_behind": "unlimited"}),
)


def is_first_retried(bound: int) -> bool:
    """Whether the first of FETCH records, all fetched and emitted at once, is retried when it fails."""
    return emitted_spout(FETCH, max_offset_behind=bound).fail(0)


def a_bound(value: Any, what: str = "the answer") -> int:
    """A value that the knob max_offset_behind takes; NotYet with its range otherwise."""
    try:
        return int(MAX_OFFSET_BEHIND.check(value))
    except KnobError as error:
        raise NotYet(str(error)) from error


def bound_said(bound: int) -> str:
    """A bound as the notebook writes it."""
    return "unlimited" if bound == UNLIMITED else f"{bound:,}"


@exercise(Given(lambda answer: a_bound(whole_number(answer))), solution=250, part="a")
def smallest_bound(bound: int) -> Rows:
    yield not is_first_retried(bound) and NotYet(
        f"with a bound of {bound} the failure of record 0 is refused.",
        "`fail` measures from emitted_to_offset. Where is that after this fetch: at the last record, or somewhere else?",
    )
    yield bound > 0 and is_first_retried(bound - 1) and NotYet(
        f"with a bound of {bound} it is retried, but a smaller bound would do.", "Try some with spout_with."
    )
    yield (
        f"with a bound of {bound} record 0 is just not too far below emitted_to_offset; with one less it is refused. So a "
        "bound smaller than a fetch refuses the oldest records of every fetch."
    )


def forgotten_cases() -> list[list[Any]]:
    """A trace for each of the runs."""
    return [[run("small_max_offset_behind", seed=seed, **knobs)] for seed, knobs in FORGOTTEN_RUNS]


def forgotten_offsets(value: Any, what: str) -> set[int]:
    """The offsets that the learner's function returns."""
    if value is None:
        raise NotYet("your function returns None; expected a set of offsets.", "Does its last line begin with `return`?")
    return set(numbers_in(value, what))


@exercise(
    Function(
        "forgotten", forgotten_cases, "your function agrees on {n} runs. What it returns will never be processed.", forgotten_offsets
    ),
    solution=solutions.forgotten,
    part="a",
)
def forgotten(found: set[int], trace: Trace) -> Rows:
    cleared = {offset: step for step in trace if step.what == "clear" for offset in from_ranges(step.data["ranges"])}
    processed = {step.data["offset"]: step for step in trace if step.what == "process"}
    for offset in sorted(found - (cleared.keys() - processed.keys())):
        yield offset not in cleared and NotYet(
            f"offset {offset} is in your answer, but no ack cleared it; expected only what is cleared and never processed.",
            "A refused failure alone is not forgotten: it stays in pending. Look at the clear steps.",
        )
        yield NotYet(
            f"offset {offset} was cleared at step {cleared[offset].number} while its tuple was in flight, and it was processed "
            f"anyway, at step {processed[offset].number}; expected it not to be in your answer.",
            "Leave out what was processed, before or after.",
            partial(show, trace, at=cleared[offset].number),
        )
    for offset in sorted(cleared.keys() - processed.keys() - found):
        is_last = any(last == offset for _, last in cleared[offset].data["ranges"])
        yield NotYet(
            f"offset {offset} is missing: step {cleared[offset].number} cleared it, and it was never processed; expected it in your answer."
            + (" It is the last one of its range." if is_last else ""),
            "Both ends of a range belong to it." if is_last else "A run may have several clear steps.",
        )


@exercise(
    Knobs(
        "poison_record", only=("max_spout_pending", "fetch_records"), story={"duration_ms": 5_000, "max_steps": 20_000}, exactly=1
    ),
    solution={"max_spout_pending": 1},
    part="c",
)
def stop_the_partition(turned: Turned) -> Rows:
    verdict = turned.verdict
    done = f"{turned.words} the bolt processed {verdict.processed} of {verdict.appended} records"
    yield 2 * verdict.processed >= verdict.appended and NotYet(
        f"{done}.",
        (
            "The size of a fetch decides how many new records come at once, not when the spout asks for them."
            if "fetch_records" in turned.knobs
            else "While the poison record was in flight, there was room to ask for new ones."
        )
        + " When is `failed` empty?",
        show(turned.trace),
    )
    yield (
        f"{done} and then nothing new: whenever the spout may ask again, the poison record has just failed, so a fetch brings "
        "failed records only."
    )


def a_default(answer: Any, what: str = "the answer") -> tuple[int, str]:
    """The bound and the fate in the learner's dict; NotYet when one is missing or impossible."""
    given: Mapping[str, Any] = mapping(answer, what)
    for name in ("max_offset_behind", "poison"):
        if given.get(name, ...) is ...:
            raise NotYet(f"there is no answer for {name} yet.", "Decide on the bound first, with the map of notebook 02b.")
    return a_bound(given["max_offset_behind"]), one_of(given["poison"], ("stalled", "lost"), "poison")


@exercise(Given(a_default), solution={"max_offset_behind": 40, "poison": "lost"}, part="c")
def choose_a_default(choice: tuple[int, str]) -> Rows:
    bound, named = choice
    for size in (5, 10, 20, 40):
        trace = run("small_max_offset_behind", max_offset_behind=bound, fetch_records=size)
        verdict = judge(trace)
        yield verdict.processed < verdict.appended and NotYet(
            f"with a bound of {bound_said(bound)} and fetches of {size} records, {verdict.processed} of {verdict.appended} records get "
            f"through the outage: {verdict.counts['lost']} are lost, the others stay pending.",
            "Look at the map of notebook 02b, in every row and at every stop of its slider.",
            show(trace),
        )
    trace = run("poison_record", max_offset_behind=bound, records=200, duration_ms=5_000)
    seen = "lost" if judge(trace).counts["lost"] else "stalled"
    why = {
        "lost": "an ack far enough ahead clears the poison record, and the commit passes it silently",
        "stalled": "nothing ever clears the poison record, and the commit stays there",
    }[seen]
    yield seen != named and HalfRight(
        f"the bound survives the outage, but the poison record is not {named}: with {bound_said(bound)}, {why}.",
        "Run poison_record with records=200 and your bound. Is that still the default you want?",
        show(trace),
    )
    yield (
        f"with a bound of {bound_said(bound)} the outage costs nothing, and you know the price: one poison record is {seen}. "
        "Write down why you accept it."
    )


def told_results() -> list[list[Any]]:
    """For each of the runs its results in the order in which they were written: [the commit by then, the offset]."""
    traces = [case[0] for case in forgotten_cases()]
    return [[[[step.state["committed_to"], step.data["offset"]] for step in trace if step.what == "process"]] for trace in traces]


@exercise(
    Function(
        "passed_over", told_results, "your function agrees on {n} runs. Spark counts what is lost at the desk in the same way.",
        forgotten_offsets,
    ),
    solution=solutions.passed_over,
    part="b",
)
def passed_over(found: set[int], results: list[list[int]]) -> Rows:
    commit, done = max(told for told, _ in results), {offset for _, offset in results}
    for offset in sorted(found - (set(range(commit)) - done)):
        yield offset in done and NotYet(
            f"offset {offset} is in your answer, and it has a result; expected it not to be.", "Look at all results, to the last one."
        )
        yield NotYet(
            f"offset {offset} is in your answer, but the last commit that a result reports is {commit}: it may still be processed; "
            "expected only offsets below that.",
            "What the commit has not passed would be read again after a restart.",
        )
    for offset in sorted(set(range(commit)) - done - found):
        yield NotYet(
            f"offset {offset} is missing in your answer: a result reports a commit at {commit}, and none belongs to offset {offset}; "
            "expected it in your answer.",
            "Everything below a commit should be done.",
        )
