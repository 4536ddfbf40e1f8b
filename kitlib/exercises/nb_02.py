"""The exercises of notebook 02: the bound on how far back the spout looks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kitlib.errors import KnobError
from kitlib.exercises.answers import NotYet, choice, mapping, numbers_in
from kitlib.exercises.frame import Edge, Function, Given, Half, Knobs, Miss, Right, Rows, Turned, exercise
from kitlib.exercises.spouts import emitted_spout
from kitlib.experiments import run
from kitlib.experiments.knobs import UNLIMITED, bind
from kitlib.experiments.storm.knobs import MaxOffsetBehind
from kitlib.java.numbers import MAX_LONG
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


def a_bound(value: Any) -> int:
    """A value that the knob max_offset_behind takes; NotYet with its range otherwise."""
    try:
        return int(MAX_OFFSET_BEHIND.check(value))
    except KnobError as error:
        raise NotYet(str(error)) from error


def bound_said(bound: int) -> str:
    """A bound as the notebook writes it."""
    return "unlimited" if bound == UNLIMITED else f"{bound:,}"


@exercise(Edge("max_offset_behind", 0, MAX_LONG, largest=False, fits=bool))
def smallest_bound(bound: int) -> bool:
    """Whether the first of FETCH records, all fetched and emitted at once, is retried when it fails."""
    return emitted_spout(FETCH, max_offset_behind=bound).fail(0)


def forgotten_cases() -> list[list[Any]]:
    """A trace for each of the runs."""
    return [[run("small_max_offset_behind", seed=seed, **knobs)] for seed, knobs in FORGOTTEN_RUNS]


def forgotten_offsets(value: Any, what: str) -> set[int]:
    """The offsets that the learner's function returns."""
    if value is None:
        raise NotYet("your function returns None; expected a set of offsets.", "Does its last line begin with `return`?")
    return set(numbers_in(value, what))


@exercise(Function(forgotten_cases, forgotten_offsets))
def forgotten(found: set[int], trace: Trace) -> Rows:
    cleared = {offset: step for step in trace if step.what == "clear" for offset in from_ranges(step.data["ranges"])}
    processed = {step.data["offset"]: step for step in trace if step.what == "process"}
    for offset in sorted(found - (cleared.keys() - processed.keys())):
        yield offset not in cleared and Miss("not cleared", offset=offset)
        yield Miss(
            "processed anyway", offset=offset, cleared=cleared[offset].number, processed=processed[offset].number,
            picture=partial(show, trace, at=cleared[offset].number),
        )
    for offset in sorted(cleared.keys() - processed.keys() - found):
        is_last = any(last == offset for _, last in cleared[offset].data["ranges"])
        yield Miss("missing end" if is_last else "missing", offset=offset, cleared=cleared[offset].number)


@exercise(Knobs(
    "poison_record", only=("max_spout_pending", "fetch_records"), story={"duration_ms": 5_000, "max_steps": 20_000},
    exactly=1,
))
def stop_the_partition(turned: Turned) -> Rows:
    verdict, [knob] = turned.verdict, turned.knobs
    yield 2 * verdict.processed >= verdict.appended and Miss(knob, turned=turned, verdict=verdict, picture=show(turned.trace))
    yield Right(turned=turned, verdict=verdict)


def a_default(answer: Any, what: str = "the answer") -> tuple[int, str]:
    """The bound and the fate in the learner's dict; NotYet when one is missing or impossible."""
    given: Mapping[str, Any] = mapping(answer, what)
    for name in ("max_offset_behind", "poison"):
        if given.get(name, ...) is ...:
            raise NotYet(f"there is no answer for {name} yet.", "Decide on the bound first, with the map of notebook 02b.")
    return a_bound(given["max_offset_behind"]), choice("stalled", "lost")(given["poison"], "poison")


@exercise(Given(a_default))
def choose_a_default(chosen: tuple[int, str]) -> Rows:
    bound, named = chosen
    for size in (5, 10, 20, 40):
        trace = run("small_max_offset_behind", max_offset_behind=bound, fetch_records=size)
        verdict = judge(trace)
        yield verdict.processed < verdict.appended and Miss(
            "outage", bound=bound_said(bound), size=size, verdict=verdict, picture=show(trace)
        )
    trace = run("poison_record", max_offset_behind=bound, records=200, duration_ms=5_000)
    seen = "lost" if judge(trace).counts["lost"] else "stalled"
    yield seen != named and Half("is lost" if seen == "lost" else "is stalled", named=named, bound=bound_said(bound), picture=show(trace))
    yield Right(bound=bound_said(bound), seen=seen)


def told_results() -> list[list[Any]]:
    """For each of the runs its results in the order in which they were written: [the commit by then, the offset]."""
    traces = [case[0] for case in forgotten_cases()]
    return [[[[step.state["committed_to"], step.data["offset"]] for step in trace if step.what == "process"]] for trace in traces]


@exercise(Function(told_results, forgotten_offsets))
def passed_over(found: set[int], results: list[list[int]]) -> Rows:
    commit, done = max(told for told, _ in results), {offset for _, offset in results}
    for offset in sorted(found - (set(range(commit)) - done)):
        yield offset in done and Miss("has a result", offset=offset)
        yield Miss("above the commit", offset=offset, commit=commit)
    for offset in sorted(set(range(commit)) - done - found):
        yield Miss("missing", offset=offset, commit=commit)
