"""The exercises of notebook 08: what order is left, how much must be remembered, what a timeout leaves open, and a broker's state."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import chain
from typing import Any

from kitlib.exercises.answers import a_class, as_text, in_order, numbers_in, sequence
from kitlib.exercises.door import Recorded
from kitlib.exercises.frame import Edge, Function, Given, Miss, Right, Rows, Unlike, exercise
from kitlib.exercises.your_log import METHODS, STATE
from kitlib.exercises.your_sender import METHODS as SENDER_METHODS
from kitlib.exercises.your_sender import SENDER
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import show

RETRIED: dict[str, Any] = {"batches": 6, "failing_batch": 1, "max_in_flight": 3, "idempotence": False}  # the first exercise
AT_ONCE = 10  # requests in flight, in the second
DELAY_MS, BATCH_RECORDS, WANTED_PER_S = 25, 5, 550  # of the third
MEASURED_BATCHES = 120
NOBODY = 200  # as the failing batch: none fails
OUTAGES: tuple[dict[str, Any], ...] = ({"lost": "answer"}, {"lost": "request"}, {"lost": "answer", "outage_ms": 0})  # of send_again


def stored_in(trace: Trace) -> Counter[int]:
    """How often each record is in the topic at a run's end, by the run's own look at it."""
    ranges = next(step.data["records"] for step in reversed(trace.steps) if step.what == "read")
    return Counter(chain.from_iterable(range(first, last + 1) for first, last in ranges))


@exercise(Given(in_order("a list of batch numbers, like [2, 1, 0]", "batch number")))
def order_in_log(order: list[int]) -> Rows:
    trace = run("reordering_by_retry", **RETRIED)
    batches, failing, at_once = (RETRIED[name] for name in ("batches", "failing_batch", "max_in_flight"))
    yield sorted(order) != list(range(batches)) and Miss("not each once", last=batches - 1, order=as_text(order), look="")
    truth = [step.data["batch"] for step in trace if step.what == "write"]
    if order != truth:
        yield order == sorted(order) and Miss("with idempotence")
        place = next(index for index, pair in enumerate(zip(order, truth, strict=True)) if pair[0] != pair[1])
        requeued = next(step.number for step in trace if step.what == "requeue")
        yield Miss("place", place=place, batch=order[place], picture=show(trace, at=requeued))
    yield Right(truth=truth, failing=failing, late=truth.index(failing) - failing, others=at_once - 1)


@exercise(Edge("remembered_batches", 1, 20, largest=False, fits=lambda twice: not twice))
def enough_memory(remembered: int) -> int:
    trace = run("six_in_flight", batches=AT_ONCE, max_in_flight=AT_ONCE, remembered_batches=remembered)
    return judge(trace).counts["duplicated"]


@exercise(Edge("max_in_flight", 1, 10, largest=False, fits=lambda rate: rate >= WANTED_PER_S))
def in_flight_needed(in_flight: int) -> float:
    trace = run(
        "reordering_by_retry", batches=MEASURED_BATCHES, batch_records=BATCH_RECORDS, failing_batch=NOBODY, idempotence=True,
        max_in_flight=in_flight, delay_ms=DELAY_MS, max_steps=20_000,
    )  # fmt: skip
    sent_ms = next(step.at_ms for step in trace if step.what == "send")
    done_ms = [step.at_ms for step in trace if step.what == "delivered"]
    return 1_000 * len(done_ms) * BATCH_RECORDS / (done_ms[-1] - sent_ms)


@exercise(Function(lambda: [[run("batch_expires", **knobs)] for knobs in OUTAGES], partial(numbers_in, noun="record number")))
def send_again(found: list[int], trace: Trace) -> Rows:
    where = "in a run " + (f"whose {trace.settings.lost}s are lost" if trace.settings.outage_ms else "in which nothing is lost")
    chosen, stored = set(found), stored_in(trace)
    sent = {record for step in trace if step.what == "send" for record in range(step.data["first"], step.data["last"] + 1)}
    twice, strange, lost = sorted(chosen & stored.keys()), sorted(chosen - sent), sorted(sent - stored.keys() - chosen)
    yield twice and Miss("twice", where=where, twice=twice, count=len(twice))
    yield strange and Miss("never sent", where=where, strange=strange, look="")
    yield lost and Miss("left out", where=where, lost=lost)


@exercise(Recorded(STATE, a_class, METHODS))
def own_broker_state(answer: type) -> Rows:
    yield None  # every near miss is a recorded step


@exercise(Recorded(SENDER, a_class, SENDER_METHODS))
def own_sender(answer: type) -> Rows:
    yield None  # every near miss is a recorded step


# What topics hold: batches of three, the second one again, the third one late, both of them, and a copy that comes twice.
TOPICS: tuple[list[int], ...] = (
    [0, 1, 2, 3, 4, 5, 6, 7, 8],
    [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8],
    [0, 1, 2, 6, 7, 8, 3, 4, 5],
    [0, 1, 2, 6, 7, 8, 3, 4, 5, 6, 7, 8],
    [3, 4, 5, 3, 4, 5, 3, 4, 5, 0, 1, 2],
)


@exercise(Function(lambda: [[topic] for topic in TOPICS], sequence(2, "counts")))
def copies_and_order(got: tuple[int, int], topic: list[int]) -> Rows:
    first_places = [place for place, number in enumerate(topic) if number not in topic[:place]]
    late = sum(topic[place] < max(topic[:place], default=0) for place in first_places)
    behind = sum(number < max(topic[:place], default=0) for place, number in enumerate(topic))
    right = (len(topic) - len(first_places), late)
    yield got == (right[0], behind) != right and Miss("behind", topic=as_text(topic), late=late, behind=behind)
    yield got != right and Unlike(right)
