"""The exercises of notebook 09: what order is left, how much must be remembered, what a time-out leaves open, and a broker's state."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import Any

from kitlib.exercises.frame import MOST_OFFSETS, Exercise, NotYet, a_function, told, values_of, whole_number
from kitlib.exercises.recorded_producer import check_own_state
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import show

RETRIED: dict[str, Any] = {"batches": 6, "failing_batch": 1, "max_in_flight": 3, "idempotence": False}  # the first exercise
AT_ONCE = 10  # requests in flight, in the second
DELAY_MS, BATCH_RECORDS, WANTED_PER_S = 25, 5, 550  # of the third
MEASURED_BATCHES = 120
NOBODY = 200  # as the failing batch: none fails
OUTAGES: tuple[dict[str, Any], ...] = (  # of send_again
    {"lost": "answer"},
    {"lost": "request"},
    {"lost": "answer", "outage_ms": 0},
)


def batches_in_log(trace: Trace) -> list[int]:
    """The numbers of the batches in the order in which the broker wrote them."""
    return [step.data["batch"] for step in trace if step.what == "write"]


def stored_in(trace: Trace) -> Counter[int]:
    """How often each record lies in the topic at a run's end, by the run's own look at it."""
    ranges = next(step.data["records"] for step in reversed(trace.steps) if step.what == "read")
    return Counter(chain.from_iterable(range(first, last + 1) for first, last in ranges))


# -- order_in_log --------------------------------------------------------------------------------------


def check_order_in_log(answer: Any) -> str:
    """The order in which a run without idempotence writes its batches."""
    if not isinstance(answer, list | tuple):
        raise NotYet(f"the answer should be a list of batch numbers, like [2, 1, 0], this is {told(answer)}.", "")
    order = [whole_number(number, "each batch number") for number in answer]
    trace = run("reordering_by_retry", **RETRIED)
    batches, failing, at_once = (RETRIED[name] for name in ("batches", "failing_batch", "max_in_flight"))
    if sorted(order) != list(range(batches)):
        raise NotYet(f"the log holds each of the batches 0 to {batches - 1} once, and this is {told(order)}.", "")
    truth = batches_in_log(trace)
    if order == truth:
        late = truth.index(failing) - failing
        return (
            f"the broker writes {truth}: batch {failing} comes {late} places late, since {at_once - 1} others were on their way "
            "behind it when it failed."
        )
    if order == sorted(order):
        raise NotYet("that is the order with idempotence.", "What does a broker without sequences say to the batches behind it?")
    place = next(index for index, pair in enumerate(zip(order, truth, strict=True)) if pair[0] != pair[1])
    raise NotYet(
        f"place {place} of the log does not hold batch {order[place]}.",
        picture=show(trace, at=next(step.number for step in trace if step.what == "requeue")),
    )


# -- enough_memory -------------------------------------------------------------------------------------


def check_enough_memory(answer: Any) -> str:
    """The smallest memory with which nothing is written twice, from runs with it and with one less."""
    remembered = whole_number(answer)
    if not 1 <= remembered <= 20:
        raise NotYet(f"remembered_batches is {remembered}, expected 1 to 20.", "")
    twice = _twice(remembered)
    if twice:
        raise NotYet(f"with {remembered} remembered batches {twice} records are written twice.", "Which batch is sent again first?")
    if remembered > 1 and not (less := _twice(remembered - 1)):
        raise NotYet(f"with {remembered} nothing is written twice, and with {remembered - 1} nothing is either.", "Try fewer.")
    return (
        f"{remembered}: the retry of the first of {AT_ONCE} batches is known again only if none of them has been forgotten; with one "
        f"less {less} records are written twice. The client may have as many in flight as the broker remembers, and no more."
    )


def _twice(remembered: int) -> int:
    trace = run("six_in_flight", batches=AT_ONCE, max_in_flight=AT_ONCE, remembered_batches=remembered)
    return judge(trace).counts["duplicated"]


# -- in_flight_needed ----------------------------------------------------------------------------------


def records_per_s(in_flight: int) -> float:
    """How many records a second get through with so many requests in flight, from a run in which nothing fails."""
    trace = run(
        "reordering_by_retry", batches=MEASURED_BATCHES, batch_records=BATCH_RECORDS, failing_batch=NOBODY, idempotence=True,
        max_in_flight=in_flight, delay_ms=DELAY_MS, max_steps=20_000,
    )  # fmt: skip
    sent_ms = next(step.at_ms for step in trace if step.what == "send")
    done_ms = [step.at_ms for step in trace if step.what == "delivered"]
    return 1_000 * len(done_ms) * BATCH_RECORDS / (done_ms[-1] - sent_ms)


def check_in_flight_needed(answer: Any) -> str:
    """The smallest number of requests in flight that is fast enough: from runs with it and with one less."""
    in_flight = whole_number(answer)
    if not 1 <= in_flight <= 10:
        raise NotYet(f"max_in_flight is {in_flight}, expected 1 to 10.", "")
    rate = records_per_s(in_flight)
    if rate < WANTED_PER_S:
        raise NotYet(f"with {in_flight} in flight {rate:,.0f} records a second get through.", "How long is one request on its way?")
    less = records_per_s(in_flight - 1) if in_flight > 1 else 0.0
    if less >= WANTED_PER_S:
        raise NotYet(f"{in_flight} are enough, and so are {in_flight - 1}, with {less:,.0f} records a second.", "Try fewer.")
    return (
        f"{in_flight} in flight bring {rate:,.0f} records a second, one less {less:,.0f}: requests in flight × records in each ÷ the "
        "time of a round trip. Larger batches would do as well."
    )


# -- send_again ----------------------------------------------------------------------------------------


def check_send_again(answer: Any) -> str:
    """The learner's choice of records for runs whose time-outs mean different things."""
    function = a_function(answer)
    traces = [run("batch_expires", **knobs) for knobs in OUTAGES]
    failed = 0
    for knobs, trace, value in zip(OUTAGES, traces, values_of(function, [[trace] for trace in traces]), strict=True):
        where = "in a run " + (f"whose {knobs['lost']}s are lost" if knobs.get("outage_ms") != 0 else "in which nothing is lost")
        chosen = _records_in(value, f"what your function returns {where}")
        stored = stored_in(trace)
        sent = {record for step in trace if step.what == "send" for record in range(step.data["first"], step.data["last"] + 1)}
        failed += sum(step.what == "undelivered" for step in trace)
        if twice := sorted(chosen & stored.keys()):
            raise NotYet(
                f"{where} it sends record {twice[0]} again, which is in the topic already: {len(twice)} records would be there twice.",
                "The producer was told that it failed. Who knows better?",
            )
        if strange := sorted(chosen - sent):
            raise NotYet(f"{where} it sends record {strange[0]}, which was never sent before.", "")
        if lost := sorted(sent - stored.keys() - chosen):
            raise NotYet(f"{where} record {lost[0]} is not in the topic, and your function leaves it out.", "Which were sent?")
    return (
        f"{failed} times a user was told of a failure, and the topic alone could say which of them were true. Note what it needed: "
        "numbers in the records, and nobody else still sending."
    )


def _records_in(value: Any, what: str) -> set[int]:
    """The record numbers in a list, set, tuple or range; NotYet otherwise."""
    if not isinstance(value, set | frozenset | list | tuple | range):
        raise NotYet(f"{what} should be a list of record numbers, this is {told(value)}.", "")
    return {whole_number(record, f"each number in {what}") for record in islice(value, MOST_OFFSETS)}


EXERCISES = (
    Exercise(
        "order_in_log",
        f"`reordering_by_retry` with {RETRIED['batches']} batches, numbered from 0, without idempotence and with "
        f"{RETRIED['max_in_flight']} requests in flight: batch {RETRIED['failing_batch']} is refused once. In which order do the "
        "batches lie in the log?",
        check_order_in_log,
        (
            "Which batches are on their way when the refusal comes back? They are written first.",
            "A batch that is sent again goes to the front of the queue: ahead of everything that has not left yet.",
        ),
    ),
    Exercise(
        "enough_memory",
        f"A client of your own has {AT_ONCE} requests in flight. All of them are written and all answers are lost. What is the "
        "smallest `remembered_batches` with which nothing is written twice?",
        check_enough_memory,
        (
            "The first batch is sent again first. Is it still among the remembered ones?",
            "`six_in_flight` has knobs for all three numbers: batches, max_in_flight, remembered_batches.",
        ),
    ),
    Exercise(
        "in_flight_needed",
        f"A request takes {DELAY_MS} ms to the broker and its answer as long back; each has {BATCH_RECORDS} records. How many requests "
        f"must be in flight, at least, so that {WANTED_PER_S} records a second get through?",
        check_in_flight_needed,
        (
            "How many records a second are it with one in flight?",
            "One round trip is twice the delay. In that time each of the requests in flight brings its records over once.",
        ),
    ),
    Exercise(
        "send_again",
        "Write `send_again(trace)`: after a run of `batch_expires`, which records must the application send again, so that each one "
        "that it sent is in the topic and none is there twice? Return their numbers.",
        check_send_again,
        (
            "What the user was told (`undelivered`) is not the answer. The run ends with a look at the topic: the step `read`.",
            "`read` has a list of ranges, [first, last], in the topic's order. Sent, and in none of them: that is what is missing.",
        ),
    ),
    Exercise(
        "own_broker_state",
        "Write what a leader keeps of its producers in one partition. `append(pid, epoch, seq, count, offset)` returns the batch's "
        "offset: the given one when it is new, that of the first copy when it is a duplicate; or `\"out of order\"` or "
        "`\"old epoch\"`. After `restart()` the newest batch of each producer is left; after `forget(pid)` nothing of it.",
        check_own_state,
        (
            "Of each producer: the epoch, and the newest five batches of that epoch with first and last sequence and first offset.",
            "A batch of a higher epoch must begin at 0, and what was remembered of the lower one is dropped.",
            "`finding.picture` shows what the broker remembered when the first differing batch came.",
        ),
    ),
)
