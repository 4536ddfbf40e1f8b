"""Figures of merit: each experiment has one, it follows from the trace, and its knobs move it."""

from __future__ import annotations

import math
from itertools import combinations, islice, product
from typing import Any

import pytest

from kitlib.errors import KitError, TraceError
from kitlib.experiments import every, get, names
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.grid import Grid
from kitlib.monitor.delivery import judge
from kitlib.monitor.figures import LOST, READER_WAIT, Measured, amount
from kitlib.trace import Trace
from kitlib.views.browser.controls import stops_of


def measure(experiment: Experiment, **knobs: Any) -> tuple[Trace, Measured]:
    assert experiment.figure is not None, f"{experiment.name} names no figure"
    trace = experiment.run(**knobs)
    return trace, experiment.figure.measure(trace, judge(trace))


def settings_of(experiment: Experiment) -> list[dict[str, Any]]:
    """Other settings of each knob, alone and then in pairs: the lowest, the middle and the highest stop, or the other choices."""
    others: dict[str, list[Any]] = {}
    for knob in experiment.knobs:
        stops = [stop for stop in stops_of(knob, knob.default) if stop != knob.default] or [not knob.default]
        if knob.name != "max_steps":
            others[knob.name] = list(dict.fromkeys([stops[0], stops[len(stops) // 2], stops[-1]]))
    alone = [{name: value} for name, values in others.items() for value in values]
    pairs = [dict(zip(both, values, strict=True)) for both in combinations(others, 2) for values in product(*map(others.get, both))]  # type: ignore[arg-type]
    return alone + pairs


@pytest.mark.parametrize("name", names())
def test_figure_of_each_experiment_is_finite_and_some_knob_moves_it(name: str) -> None:
    """It has a value after each step; another setting of a knob, or of two where one alone does nothing, changes the run's number."""
    experiment = get(name)
    trace, found = measure(experiment)
    assert len(found.curve) == len(trace)
    assert all(math.isfinite(value) and value >= 0 for value in found.curve)
    assert found.value in (found.curve[-1], max(found.curve))
    for setting in islice(settings_of(experiment), 150):
        try:
            if measure(experiment, **setting)[1].value != found.value:
                return
        except KitError:  # a combination that the experiment refuses
            continue
    raise AssertionError(f"{name}: no knob changes {found.sentence!r}")


@pytest.mark.parametrize("name", ["rebalance", "rebalance_protocols", "zookeeper_group"])
def test_time_of_partitions_is_that_between_what_members_give_up_and_take(name: str) -> None:
    """Summed by hand from the members' own assigned and revoked steps, without the group's state."""
    trace, found = measure(get(name))
    holders: dict[tuple[str, int], set[str]] = {}
    nobody_ms = two_ms = before_ms = 0
    for step in trace:
        passed, before_ms = step.at_ms - before_ms, step.at_ms
        nobody_ms += passed * sum(not held for held in holders.values())
        two_ms += passed * sum(len(held) > 1 for held in holders.values())
        for partition in map(tuple, step.data.get("partitions", ()) if step.what in ("assigned", "revoked", "lost") else ()):
            held = holders.setdefault(partition, set())
            held.add(step.actor) if step.what == "assigned" else held.discard(step.actor)
        if step.what in ("kill", "leave"):
            for held in holders.values():
                held.discard(step.actor)
    assert found.value == (two_ms if name == "zookeeper_group" else nobody_ms) > 0


def test_lost_is_what_was_cleared_and_never_processed() -> None:
    """Counted by hand from the offsets of the spout's clear steps and of the bolt's work, step by step."""
    trace, found = measure(get("small_max_offset_behind"))
    processed = {step.data["offset"] for step in trace if step.what == "process"}
    gone: set[int] = set()
    by_hand = []
    for step in trace:
        if step.what == "clear":
            gone.update(offset for first, last in step.data["ranges"] for offset in range(first, last + 1))
        by_hand.append(len(gone - processed))
    assert found.curve == by_hand
    assert (found.value, found.sentence) == (46, "46 records lost")


def test_records_in_a_request_are_all_records_by_all_requests() -> None:
    """Each record of this run leaves once, so their number by that of the requests is the mean."""
    trace, found = measure(get("linger_and_batches"))
    words = trace.words()
    assert found.value == pytest.approx(words["send"] / words["request"])
    assert found.sentence == "17.7 records in a request, on average"


def test_time_in_flight_is_the_longest_from_first_emit_to_last_ack() -> None:
    """By hand: for each offset the ms between its first emit and its ack."""
    trace, found = measure(get("bolt_crash"))
    emitted: dict[int, int] = {}
    longest = 0
    for step in trace:
        if step.what == "emit":
            emitted.setdefault(step.data["offset"], step.at_ms)
        elif step.what == "ack":
            longest = max(longest, step.at_ms - emitted[step.data["offset"]])
    assert found.value == longest
    assert found.sentence == "A record was in flight for up to 60.1 s"


def test_idle_task_waits_for_session_delay_and_two_joins() -> None:
    """10 s until the member is given up, 300 s of delay and 1 s for each of two rebalances."""
    assert measure(get("connect_worker_lost"))[1].value == 10_000 + 300_000 + 2 * 1_000


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (1, "records", "1 record"),
        (0, "records", "0 records"),
        (5_000, "copies", "5,000 copies"),
        (1, "retries", "1 retry"),
        (17.70588, "records", "17.7 records"),
        (75.03, "%", "75 %"),
        (6.0, "", "6"),
        (999, "ms", "999 ms"),
        (1_000, "ms", "1 s"),
        (8_440, "ms", "8.4 s"),
        (599_000, "ms", "599 s"),
        (1_800_000, "ms", "30 min"),
        (5 * 86_400_000, "ms", "5 days"),
    ],
)
def test_amount_is_told_as_one_reads_it(value: float, unit: str, told: str) -> None:
    """One of a thing is singular; a time is in the unit that keeps its number short."""
    assert amount(value, unit) == told


def test_trace_without_steps_has_the_figure_0() -> None:
    """There is nothing to measure, and no error."""
    trace = Trace("empty", "small_max_offset_behind")
    assert LOST.measure(trace, judge(trace)) == Measured(LOST, 0, [])


def test_trace_without_what_a_figure_reads_is_refused_in_a_sentence() -> None:
    """A step of a recorded trace whose state lacks the last stable offset: a TraceError that names the trace and the figure."""
    trace = get("transaction_timeout").run()
    for step in trace:
        step.state.pop("lso", None)
    with pytest.raises(TraceError, match="transaction-timeout-model-1: it cannot be measured by 'reader waits'"):
        READER_WAIT.measure(trace, judge(trace))


def test_curve_of_an_anomaly_ends_at_its_count() -> None:
    """For every experiment and kind, the verdict names the step of each witness, in order, the first one first."""
    for experiment in every():
        trace = experiment.run()
        verdict = judge(trace)
        for kind, count in verdict.counts.items():
            steps = verdict.steps(kind)
            assert len(steps) == count
            assert steps == sorted(steps)
            assert (steps[0] if steps else None) == verdict.first(kind).witness


def test_row_of_a_sweep_carries_the_figure() -> None:
    """A grid's row has the number that the run's figure has."""
    row = Grid.of("rebalance_protocols", seeds=[2]).row(0)
    assert row["figure"] == measure(get("rebalance_protocols"), seed=2)[1].value
