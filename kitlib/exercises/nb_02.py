"""The exercises of notebook 02: the bound on how far back the spout looks.

Every truth is taken from the PartitionManager or from an experiment when the answer is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kitlib.errors import KnobError
from kitlib.exercises.frame import (
    Exercise,
    NotYet,
    a_function,
    knobs_for,
    offsets_in,
    one_of,
    told,
    values_of,
    whole_number,
)
from kitlib.exercises.spouts import emitted_spout
from kitlib.experiments import run
from kitlib.experiments.knobs import UNLIMITED, bind
from kitlib.experiments.storm.knobs import MaxOffsetBehind
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace, from_ranges
from kitlib.views import show

MAX_OFFSET_BEHIND = bind("max_offset_behind", MaxOffsetBehind, UNLIMITED)
FETCH = 250  # records that one fetch brings in the first exercise


def is_first_retried(bound: int, records: int) -> bool:
    """Whether the first of `records` records, all fetched and emitted at once, is retried when it fails."""
    return emitted_spout(records, max_offset_behind=bound).fail(0)


def check_smallest_bound(answer: Any) -> str:
    bound = a_bound(whole_number(answer))
    if not is_first_retried(bound, FETCH):
        raise NotYet(
            f"with a bound of {bound} the failure of record 0 is refused.",
            "`fail` measures from emitted_to_offset. Which offset is that after this fetch: the last record's, or "
            "another?",
        )
    if bound > 0 and is_first_retried(bound - 1, FETCH):
        raise NotYet(
            f"with a bound of {bound} it is retried, but a smaller bound would do.", "Try some with spout_with."
        )
    return (
        f"with a bound of {bound} record 0 is just not too far below emitted_to_offset; with one less it is "
        "refused. So a bound smaller than a fetch refuses the oldest records of every fetch."
    )


FORGOTTEN_RUNS: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {}),
    (2, {"fetch_records": 40, "max_offset_behind": 20}),
    (3, {"max_offset_behind": 3}),
    (1, {"max_offset_behind": "unlimited"}),
)


def check_forgotten(answer: Any) -> str:
    function = a_function(answer, "forgotten")
    traces = [run("small_max_offset_behind", seed=seed, **knobs) for seed, knobs in FORGOTTEN_RUNS]
    for given, trace in zip(values_of(function, [[trace] for trace in traces]), traces, strict=True):
        compare_forgotten(given, trace)
    return f"your function agrees on {len(FORGOTTEN_RUNS)} runs. What it returns is what nobody will ever work on."


def compare_forgotten(given: Any, trace: Trace) -> None:
    """NotYet with the first offset that `given` has too much or too few, and why."""
    if given is None:
        raise NotYet("your function returns None.", "Does its last line begin with `return`?")
    found = set(offsets_in(given, "what your function returns"))
    cleared = {offset: step for step in trace if step.what == "clear" for offset in from_ranges(step.data["ranges"])}
    processed = {step.data["offset"]: step for step in trace if step.what == "process"}
    for offset in sorted(found - (cleared.keys() - processed.keys())):
        if offset not in cleared:
            raise NotYet(
                f"offset {offset} is in your answer, but no ack cleared it.",
                "A refused failure alone is not forgotten: it stays in pending. Look at the clear steps.",
            )
        raise NotYet(
            f"offset {offset} was cleared at step {cleared[offset].number} while its tuple was still on its way, "
            f"and it was worked on all the same, at step {processed[offset].number}.",
            "Take out what was worked on, before or after.",
            show(trace, at=cleared[offset].number),
        )
    for offset in sorted(cleared.keys() - processed.keys() - found):
        ranges = cleared[offset].data["ranges"]
        is_last = any(last == offset for _, last in ranges)
        raise NotYet(
            f"offset {offset} is missing: step {cleared[offset].number} cleared it, and nobody worked on it."
            + (" It is the last one of its range." if is_last else ""),
            "Both ends of a range belong to it." if is_last else "A run may have several clear steps.",
        )


STOP_KNOBS = ("max_spout_pending", "fetch_records")


def check_stop_the_partition(answer: Any) -> str:
    knobs = knobs_for("poison_record", answer, STOP_KNOBS)
    if len(knobs) != 1:
        raise NotYet(f"turn one knob, this turns {len(knobs)}.", "The other one stays at its default.")
    [(name, value)] = knobs.items()
    trace = run("poison_record", duration_ms=5_000, max_steps=20_000, **knobs)
    verdict = judge(trace)
    if 2 * verdict.processed >= verdict.appended:
        between = {
            "fetch_records": "The size of a fetch decides how many new records come at once, not when the spout asks for them.",
            "max_spout_pending": "While the poison record was on its way, there was room to ask for new ones.",
        }[name]
        raise NotYet(
            f"with {name}={value} the bolt worked on {verdict.processed} of {verdict.appended} records.",
            f"{between} When is `failed` empty?",
            show(trace),
        )
    return (
        f"with {name}={value} the bolt worked on {verdict.processed} of {verdict.appended} records and then on "
        "nothing new: whenever the spout may ask again, the poison record has just failed, so a fetch brings "
        "failed records only."
    )


def check_choose_a_default(answer: Any) -> str:
    bound, expected = a_default(answer)
    for size in (5, 10, 20, 40):
        trace = run("small_max_offset_behind", max_offset_behind=bound, fetch_records=size)
        verdict = judge(trace)
        if verdict.processed < verdict.appended:
            raise NotYet(
                f"with a bound of {shown(bound)} and fetches of {size} records, {verdict.processed} of "
                f"{verdict.appended} records get through the outage: {verdict.counts['lost']} are lost, the others "
                "stay pending.",
                "Look at the table of round 2, in every column.",
                show(trace),
            )
    trace = run("poison_record", max_offset_behind=bound, records=200, duration_ms=5_000)
    seen = "lost" if judge(trace).counts["lost"] else "stalled"
    if seen != expected:
        told_of = {
            "lost": "an ack far enough ahead clears the poison record, and the commit passes it without a word",
            "stalled": "nothing ever clears the poison record, and the commit stays at it",
        }[seen]
        raise NotYet(
            f"the bound survives the outage, but the poison record is not {expected}: with {shown(bound)}, {told_of}.",
            "Run poison_record with records=200 and your bound. Is that still the default you want?",
            show(trace),
        )
    return (
        f"with a bound of {shown(bound)} the outage costs nothing, and you know the price: one poison record is "
        f"{seen}. Write down why you pay it."
    )


def a_default(answer: Any) -> tuple[int, str]:
    """The bound and the fate in the learner's dict; NotYet when one is missing or no such thing."""
    if not isinstance(answer, Mapping):
        raise NotYet(f"the answer should be a dict, this is {told(answer)}.")
    for name in ("max_offset_behind", "poison"):
        if answer.get(name, ...) is ...:
            raise NotYet(f"there is no answer for {name} yet.", "Decide on the bound first, with the table of round 2.")
    return a_bound(answer["max_offset_behind"]), one_of(answer["poison"], ("stalled", "lost"), "poison")


def a_bound(value: Any) -> int:
    """A value that the knob max_offset_behind takes; NotYet with its range otherwise."""
    try:
        return int(MAX_OFFSET_BEHIND.check(value))
    except KnobError as error:
        raise NotYet(str(error)) from error


def shown(bound: int) -> str:
    """A bound as the notebook writes it."""
    return "unlimited" if bound == UNLIMITED else f"{bound:,}"


def _exercise(name: str, question: str, check: Callable[[Any], str], *hints: str) -> Exercise:
    return Exercise(name, question, check, hints)


EXERCISES = (
    _exercise(
        "smallest_bound",
        f"A fetch brings {FETCH} records and all of them are handed out; nothing has finished yet. What is the "
        "*smallest* `max_offset_behind` with which a failure of the *first* of them is retried?",
        check_smallest_bound,
        "Make a spout with `spout_with(bound, records=...)`, let it emit everything, and look at `emitted_to_offset`.",
        "`fail` retries when offset >= emitted_to_offset - max_offset_behind. Here the offset is 0.",
    ),
    _exercise(
        "forgotten",
        'Write `forgotten(trace)`: the offsets that an ack cleared out of `pending` and that were never worked '
        'on. A `clear` step has `step.data["ranges"]`, a list of `[first, last]`, both inclusive; a `process` '
        'step has `step.data["offset"]`.',
        check_forgotten,
        "Collect two sets: what the clear steps cleared, and what the process steps worked on.",
        "A cleared record may still be worked on afterwards, as its tuple is on its way. Compare at the end of "
        "the trace.",
    ),
    _exercise(
        "stop_the_partition",
        "In `poison_record`, leave `process_ms` at its default. Turn **one** other knob, `max_spout_pending` or "
        "`fetch_records`, so that the poison record stops the whole partition: fewer than half of the 40 records "
        "are worked on, however long one waits. Answer with a dict of that one knob.",
        check_stop_the_partition,
        "New records are fetched only while `failed` is empty. What keeps the spout from asking during that time?",
        "Think of how many tuples may be on their way at once.",
    ),
    _exercise(
        "choose_a_default",
        'Choose your default: a `max_offset_behind` for a service that must not lose a record in the outage of '
        'round 2, for any fetch size from 5 to 40. Say also what this bound does with one poison record among 200 '
        'records: `"stalled"` (the commit stays there) or `"lost"` (it is passed without a word). There is more '
        'than one right answer; write one sentence below it: why this one?',
        check_choose_a_default,
        "The table of round 2 shows which bounds survive every column.",
        "For the poison record, run `poison_record` with `records=200` and your bound, and look at the verdict.",
    ),
)
