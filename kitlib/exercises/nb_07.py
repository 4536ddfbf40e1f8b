"""The exercises of notebook 07: what a second send leaves out, who is told when, how batches fill, whose word counts, a clock."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from statistics import mean
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, knobs_for, offsets_in, told, values_of, whole_number
from kitlib.experiments import run
from kitlib.experiments.send_path.send_measures import records_per_request
from kitlib.kafka.client.metadata import producer_metadata
from kitlib.trace import Trace
from kitlib.views import show

NINE = range(1, 10)
FAULTED: dict[str, Any] = {"max_block_ms": 1_500, "delivery_timeout_ms": 4_000, "records": 3}  # of told_after
FAULTS = ("dead bootstrap", "missing topic", "wrong advertised address", "buffer full")
NEAR_MS = 200
LINE: dict[str, Any] = {"rate_per_s": 2_000, "round_trip_ms": 30, "records": 1_000}  # of batch_of_a_round_trip
NEAR = 0.15  # of the truth
FREE = ("acks", "min_insync_replicas")  # the knobs of word_of_one
TIMES = (0, 50, 100, 1_000, 5_000)  # for the clock, all in ms
BACKOFFS, EXPIRIES = (0, 100, 1_000), (300, 5_000)


# -- second_send ---------------------------------------------------------------------------------------


def stages_again(trace: Trace) -> list[int]:
    """Which of the steps 2 to 9 of the first send happen again in the second one."""
    stages = {step.what: step.data["stage"] for step in trace if "stage" in step.data}
    ninth = next(step.number for step in trace if step.data.get("stage") == NINE[-1])
    again = {stages[step.what] for step in trace.steps[ninth + 1 :] if step.what in stages}
    return sorted(again - {1})


def check_second_send(answer: Any) -> str:
    """The steps that are left of the nine, from the run itself."""
    given = offsets_in(answer)
    if strange := [number for number in given if number not in NINE[1:]]:
        raise NotYet(f"the steps asked for are 2 to {NINE[-1]}, and {strange[0]} is none of them.", "")
    trace = run("two_sends")
    truth = stages_again(trace)
    if given == truth:
        return f"{truth}: what is left is the batch and its way. The four steps that took longest were for the metadata and connections."
    ninth = next(step.number for step in trace if step.data.get("stage") == NINE[-1])
    if extra := sorted(set(given) - set(truth)):
        raise NotYet(f"step {extra[0]} does not happen again.", picture=show(trace, at=ninth))
    missing = sorted(set(truth) - set(given))
    raise NotYet(f"step {missing[0]} happens for every batch.", picture=show(trace, at=ninth))


# -- told_after ----------------------------------------------------------------------------------------


def told_after(fault: str, record: int) -> int:
    """After how many ms from the call its user is told that a record failed."""
    trace = run("blocked_send", fault=fault, **FAULTED)
    called = next(step.at_ms for step in trace if step.what == "call" and step.data["record"] == record)
    return next(step.at_ms for step in trace if step.what == "undelivered" and step.data["last"] == record) - called


def check_told_after(answer: Any) -> str:
    """Four times, one for each fault."""
    if not isinstance(answer, Mapping) or set(answer) != set(FAULTS):
        raise NotYet(f"the answer should be a dict with the keys {', '.join(map(repr, FAULTS))}, this is {told(answer)}.", "")
    truth = {fault: told_after(fault, 0) for fault in FAULTS}
    for fault in FAULTS:
        given = whole_number(answer[fault], f"the time for {fault!r}")
        if abs(given - truth[fault]) > NEAR_MS:
            late = "earlier" if given > truth[fault] else "later"
            raise NotYet(f"{fault}: the user is told {late} than after {given:,} ms.", "Does the call of send return before that?")
    third = told_after("wrong advertised address", FAULTED["records"] - 1)
    return (
        "no metadata: max.block.ms; no answer: delivery.timeout.ms, from the moment the record lies in its batch. (The third record of "
        f"the wrong address is told after {third:,} ms: the first two have taken the memory. So both clocks may tell of one address.)"
    )


# -- batch_of_a_round_trip -----------------------------------------------------------------------------


def check_batch_of_a_round_trip(answer: Any) -> str:
    """How many records a request carries on average."""
    given = whole_number(answer)
    sizes = records_per_request(run("linger_and_batches", **LINE))[1:]
    truth = mean(sizes[:-1] or sizes)
    if given == 1:
        raise NotYet("with linger 0 a batch leaves as soon as it may, and it may not while a request is on its way.")
    if abs(given - truth) > NEAR * truth:
        raise NotYet(f"a request carries {'more' if given < truth else 'fewer'} than {given} records.")
    return f"{truth:.0f}: pace × round trip. Half the records wait for more than half a round trip before they leave, without any linger."


# -- word_of_one ---------------------------------------------------------------------------------------


def check_word_of_one(answer: Any) -> str:
    """Knobs with which nobody is told a lie, and somebody is told something."""
    knobs = knobs_for("acks_and_isr", answer, FREE)
    trace = run("acks_and_isr", **knobs)
    said = {record for step in trace if step.what == "delivered" for record in range(step.data["first"], step.data["last"] + 1)}
    ranges = next(step.data["records"] for step in reversed(trace.steps) if step.what == "read")
    stored = {record for first, last in ranges for record in range(first, last + 1)}
    if lies := sorted(said - stored):
        raise NotYet(f"record {lies[0]} is acknowledged and then gone, and {len(lies) - 1} more with it.")
    if len(said) < 2:
        raise NotYet("nobody is told a lie, and nothing is stored either once the followers are back.", "How many are in sync then?")
    failed = sum(step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "undelivered")
    return (
        f"{len(said)} records are acknowledged and all of them are there; {failed} were refused, and their users know. That is all that "
        "durability can do with one copy: say no."
    )


# -- own_metadata_clock --------------------------------------------------------------------------------


def clock_cases() -> list[tuple[list[Any], int]]:
    """Arguments of the clock, and what the client of the source's time makes of them."""
    cases = []
    for need, refresh, successful, now, backoff, expire in product((False, True), TIMES, TIMES, TIMES, BACKOFFS, EXPIRIES):
        if successful > refresh or refresh > now:
            continue
        metadata = producer_metadata("0.10", refresh_backoff_ms=backoff, metadata_expire_ms=expire)
        metadata.last_refresh_ms, metadata.last_successful_refresh_ms, metadata.need_full_update = refresh, successful, need
        cases.append(([need, refresh, successful, now, backoff, expire], metadata.time_to_next_update(now)))
    return cases


def check_own_metadata_clock(answer: Any) -> str:
    """The learner's clock against the model's, over all cases."""
    function = a_function(answer)
    cases = clock_cases()
    names = ("need_update", "last_refresh_ms", "last_successful_refresh_ms", "now_ms", "backoff_ms", "expire_ms")
    for (arguments, truth), value in zip(cases, values_of(function, [arguments for arguments, _ in cases]), strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float) or value != truth:
            given = ", ".join(f"{name}={argument}" for name, argument in zip(names, arguments, strict=True))
            raise NotYet(f"with {given} the client waits for {truth} ms, and yours says {told(value)}.")
    return f"{len(cases)} cases agree: it waits until it wants to, and until it may, whichever comes later."


EXERCISES = (
    Exercise(
        "second_send",
        "The second send finds the topic known and the connection open. Which of the steps 2 to 9 happen again? A list of their numbers.",
        check_second_send,
        (
            "What was the metadata for? It is still there.",
            "A record always needs a batch, a batch a request, and a request an answer.",
        ),
    ),
    Exercise(
        "told_after",
        f"Three records are sent, one call after the other, with `max_block_ms` {FAULTED['max_block_ms']:,} and `delivery_timeout_ms` "
        f"{FAULTED['delivery_timeout_ms']:,}; the memory has room for two. For each of the four faults of `blocked_send`: about how many "
        "ms after its call is the user told that the *first* record failed?",
        check_told_after,
        (
            "Which of the four let the first call return at once?",
            "A call that waits is bounded by the one time, a record that lies in a batch by the other.",
        ),
    ),
    Exercise(
        "batch_of_a_round_trip",
        f"{LINE['rate_per_s']:,} records a second, a round trip of {LINE['round_trip_ms']} ms, one request in flight, linger 0. About how "
        "many records does a request carry?",
        check_batch_of_a_round_trip,
        (
            "What do the records do that come while a request is on its way?",
            "Records a second, times the seconds of a round trip.",
        ),
    ),
    Exercise(
        "word_of_one",
        "In `acks_and_isr` the followers stop and the leader is lost. Find `acks` and `min_insync_replicas` with which no acknowledged "
        "record is lost, and the producer can go on once a follower leads. A dict of knobs.",
        check_word_of_one,
        (
            "How many are in sync when the records are sent, and how many when the last one is?",
            "`acks=all` waits for those in sync. Which knob says how many that must be at least?",
        ),
    ),
    Exercise(
        "own_metadata_clock",
        "Write `time_to_next_update(need_update, last_refresh_ms, last_successful_refresh_ms, now_ms, backoff_ms, expire_ms)`: in how many "
        "ms the client of the source's time asks for metadata. It asks when it wants to (news is wanted, or what it has is too old) and "
        "may (the backoff since the last attempt is over).",
        check_own_metadata_clock,
        (
            "Two times: until it wants to, and until it may. It needs both.",
            "If news is wanted, it wants to now: 0. Else when the last *successful* refresh is `expire_ms` old, and never below 0.",
            "The larger of the two is the answer. The backoff counts from the last refresh, successful or not.",
        ),
    ),
)
