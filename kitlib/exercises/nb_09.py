"""The exercises of notebook 09: what a second send leaves out, when users learn of errors, how batches fill, a clock."""

from __future__ import annotations

from functools import partial
from itertools import product
from statistics import mean
from typing import Any

from kitlib.exercises.answers import numbers_in, whole_number
from kitlib.exercises.frame import Each, Function, Given, Half, Miss, Right, Rows, Unlike, exercise
from kitlib.experiments import run
from kitlib.experiments.stored import records_per_request
from kitlib.more.client.metadata import EarlierMetadata
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


@exercise(Given(partial(numbers_in, noun="number")))
def second_send(given: list[int]) -> Rows:
    strange = [number for number in given if number not in NINE[1:]]
    yield strange and Miss("not asked", last=NINE[-1], strange=strange, look="")
    trace = run("two_sends")
    truth, ninth = stages_again(trace), next(step.number for step in trace if step.data.get("stage") == NINE[-1])
    extra, missing = sorted(set(given) - set(truth)), sorted(set(truth) - set(given))
    yield extra and Miss("not again", extra=extra, picture=show(trace, at=ninth))
    yield missing and (Half if given else Miss)("missing", missing=missing, picture=show(trace, at=ninth))
    yield Right(truth=truth)


def ms_to_error(fault: str, record: int) -> int:
    """After how many ms from the call its user learns that a record failed."""
    trace = run("blocked_send", fault=fault, **FAULTED)
    called = next(step.at_ms for step in trace if step.what == "call" and step.data["record"] == record)
    return next(step.at_ms for step in trace if step.what == "undelivered" and step.data["last"] == record) - called


def third_record() -> dict[str, int]:
    """When the user learns of the third record that goes to a wrong address."""
    return {"third": ms_to_error("wrong advertised address", FAULTED["records"] - 1)}


@exercise(Each(FAULTS, whole_number, named=True, facts=third_record))
def told_after(given: int, fault: str) -> Rows:
    truth = ms_to_error(fault, 0)
    yield abs(given - truth) > NEAR_MS and Miss("time", fault=fault, when="sooner" if given > truth else "later", given=given)


@exercise(Given(whole_number))
def batch_of_a_round_trip(given: int) -> Rows:
    sizes = records_per_request(run("linger_and_batches", **LINE))[1:]
    truth = mean(sizes[:-1] or sizes)
    yield given == 1 and Miss("one")
    yield abs(given - truth) > NEAR * truth and Miss("size", more="more" if given < truth else "fewer", given=given)
    yield Right(truth=truth)


def clock_cases() -> list[list[Any]]:
    """Arguments of the clock: every possible order of the times."""
    found = product((False, True), TIMES, TIMES, TIMES, BACKOFFS, EXPIRIES)
    return [list(case) for case in found if case[2] <= case[1] <= case[3]]


@exercise(Function(clock_cases))
def own_metadata_clock(got: Any, need: bool, refresh: int, successful: int, now: int, backoff: int, expire: int) -> Rows:
    metadata = EarlierMetadata(refresh_backoff_ms=backoff, metadata_expire_ms=expire)
    metadata.last_refresh_ms, metadata.last_successful_refresh_ms, metadata.need_full_update = refresh, successful, need
    right = metadata.time_to_next_update(now)
    yield (isinstance(got, bool) or not isinstance(got, int | float) or got != right) and Unlike(right)
