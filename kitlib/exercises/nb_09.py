"""The exercises of notebook 09: what a second send leaves out, when users learn of errors, how batches fill, acks, a clock."""

from __future__ import annotations

from functools import partial
from itertools import product
from statistics import mean
from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, numbers_in, whole_number
from kitlib.exercises.frame import Each, Function, Given, Knobs, Rows, Turned, Unlike, exercise
from kitlib.experiments import run
from kitlib.experiments.send_path.send_measures import records_per_request
from kitlib.more.client.metadata import producer_metadata
from kitlib.trace import Trace
from kitlib.views import show

NINE = range(1, 10)
FAULTED: dict[str, Any] = {"max_block_ms": 1_500, "delivery_timeout_ms": 4_000, "records": 3}  # of told_after
FAULTS = ("dead bootstrap", "missing topic", "wrong advertised address", "buffer full")
NEAR_MS = 200
LINE: dict[str, Any] = {"rate_per_s": 2_000, "round_trip_ms": 30, "records": 1_000}  # of batch_of_a_round_trip
NEAR = 0.15  # of the truth
TIMES = (0, 50, 100, 1_000, 5_000)  # for the clock, all in ms
BACKOFFS, EXPIRIES = (0, 100, 1_000), (300, 5_000)


def stages_again(trace: Trace) -> list[int]:
    """Which of the steps 2 to 9 of the first send happen again in the second one."""
    stages = {step.what: step.data["stage"] for step in trace if "stage" in step.data}
    ninth = next(step.number for step in trace if step.data.get("stage") == NINE[-1])
    again = {stages[step.what] for step in trace.steps[ninth + 1 :] if step.what in stages}
    return sorted(again - {1})


@exercise(Given(partial(numbers_in, noun="number")), solution=[5, 6, 8, 9], part="a")
def second_send(given: list[int]) -> Rows:
    strange = [number for number in given if number not in NINE[1:]]
    yield strange and NotYet(f"the question is about steps 2 to {NINE[-1]}, and {strange[0]} is not one of them.", "")
    trace = run("two_sends")
    truth, ninth = stages_again(trace), next(step.number for step in trace if step.data.get("stage") == NINE[-1])
    extra, missing = sorted(set(given) - set(truth)), sorted(set(truth) - set(given))
    yield extra and NotYet(f"step {extra[0]} does not happen again.", picture=show(trace, at=ninth))
    yield missing and (HalfRight if given else NotYet)(f"step {missing[0]} happens for every batch.", picture=show(trace, at=ninth))
    yield f"{truth}: only the batch and its journey are left. The four steps that took longest were for the metadata and connections."


def ms_to_error(fault: str, record: int) -> int:
    """After how many ms from the call its user learns that a record failed."""
    trace = run("blocked_send", fault=fault, **FAULTED)
    called = next(step.at_ms for step in trace if step.what == "call" and step.data["record"] == record)
    return next(step.at_ms for step in trace if step.what == "undelivered" and step.data["last"] == record) - called


def both_clocks() -> str:
    """Why the answers are right, and what the third record adds."""
    third = ms_to_error("wrong advertised address", FAULTED["records"] - 1)
    return (
        "no metadata: max.block.ms; no answer: delivery.timeout.ms, from the moment the record is in its batch. (The third record of "
        f"the wrong address fails after {third:,} ms: the first two have taken the memory. So one address can trip both clocks.)"
    )


@exercise(
    Each(FAULTS, whole_number, both_clocks, named=True),
    solution={"dead bootstrap": 1_500, "missing topic": 1_500, "wrong advertised address": 4_000, "buffer full": 4_000},
    part="b",
)
def told_after(given: int, fault: str) -> Rows:
    truth = ms_to_error(fault, 0)
    yield abs(given - truth) > NEAR_MS and NotYet(
        f"{fault}: the user learns of it {'sooner' if given > truth else 'later'} than {given:,} ms after the call.",
        "Does the call to send return before that?",
    )


@exercise(Given(whole_number), solution=60, part="c")
def batch_of_a_round_trip(given: int) -> Rows:
    sizes = records_per_request(run("linger_and_batches", **LINE))[1:]
    truth = mean(sizes[:-1] or sizes)
    yield given == 1 and NotYet("with linger 0 a batch leaves as soon as it may, but it may not while a request is in flight.")
    yield abs(given - truth) > NEAR * truth and NotYet(f"a request carries {'more' if given < truth else 'fewer'} than {given} records.")
    yield f"{truth:.0f}: rate × round trip. Half the records wait more than half a round trip before they leave, without any linger."


@exercise(Knobs("acks_and_isr", only=("acks", "min_insync_replicas")), solution={"min_insync_replicas": 2}, part="c")
def word_of_one(turned: Turned) -> Rows:
    trace = turned.trace
    said = {record for step in trace if step.what == "delivered" for record in range(step.data["first"], step.data["last"] + 1)}
    ranges = next(step.data["records"] for step in reversed(trace.steps) if step.what == "read")
    stored = {record for first, last in ranges for record in range(first, last + 1)}
    lies = sorted(said - stored)
    yield lies and NotYet(f"record {lies[0]} is acknowledged and then lost, and {len(lies) - 1} more with it.")
    yield len(said) < 2 and HalfRight(
        "no acknowledgement is false, but nothing is stored either, even once the followers are back.", "How many are in sync then?"
    )
    failed = sum(step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "undelivered")
    yield (
        f"{len(said)} records are acknowledged and all of them are there; {failed} were refused, and their users know. That is all that "
        "durability can do with one copy: say no."
    )


def clock_cases() -> list[list[Any]]:
    """Arguments of the clock: every possible order of the times."""
    found = product((False, True), TIMES, TIMES, TIMES, BACKOFFS, EXPIRIES)
    return [list(case) for case in found if case[2] <= case[1] <= case[3]]


@exercise(
    Function(
        "time_to_next_update", clock_cases, "{n} cases agree: it waits until it wants to, and until it may, whichever comes later.",
        names=("need_update", "last_refresh_ms", "last_successful_refresh_ms", "now_ms", "backoff_ms", "expire_ms"),
    ),
    solution=solutions.time_to_next_update,
    part="a",
)
def own_metadata_clock(got: Any, need: bool, refresh: int, successful: int, now: int, backoff: int, expire: int) -> Rows:
    metadata = producer_metadata("0.10", refresh_backoff_ms=backoff, metadata_expire_ms=expire)
    metadata.last_refresh_ms, metadata.last_successful_refresh_ms, metadata.need_full_update = refresh, successful, need
    right = metadata.time_to_next_update(now)
    yield (isinstance(got, bool) or not isinstance(got, int | float) or got != right) and Unlike(right)
