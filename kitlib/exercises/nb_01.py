"""The exercises of notebook 01: what a commit may say, what it costs, and the rule that an ack follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, a_class, as_text, expected, numbers_in, plain_name, whole_number
from kitlib.exercises.door import Recorded, built_on, first_difference
from kitlib.exercises.frame import Given, Knobs, Rows, Turned, exercise, unbroken
from kitlib.exercises.growth import MANAGER_GROWTH, SPOUT_GROWTH
from kitlib.exercises.sandbox import run_steps
from kitlib.exercises.spouts import emitted_spout, spout_on
from kitlib.exercises.your_spout import MANAGER, METHODS, SPOUT, built_with
from kitlib.experiments import run
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.monitor.delivery import judge
from kitlib.more.spout.earlier import EarlierPartitionManager
from kitlib.trace import from_ranges

ACKED, FAILED, EMITTED = (0, 1, 2, 4, 5, 7, 8), 3, 10  # the first exercise's ledgers
STUCK: dict[str, Any] = {"stuck_offset": 1, "crash_at_ms": 1_000, "records_while_down": 0}
SCRUBBED: dict[str, Any] = {"seed": 3, "process_ms": 100}
FEW = 10  # so many repeated records are too many
TOPIC_RECORDS = 2  # in the topic of the third exercise
MAX_CALLS = 40
LIMIT, HANDED_OUT, ONLY_ACKED = 8, 50, 37  # the fourth exercise's numbers
ACKS = (  # of own_ack: bound, records emitted, offset acked. The recorded scripts have no bound between 100,000 and unlimited.
    (LIMIT, HANDED_OUT, ONLY_ACKED),
    (200_000, 10, 150_000),
    (150_000, 10, 150_005),
)


@exercise(Given(whole_number), solution=3, part="a")
def what_is_committed(number: int) -> Rows:
    spout = emitted_spout(EMITTED)
    for offset in ACKED:
        spout.ack(offset)
    spout.fail(FAILED)
    spout.commit()
    truth, after_failed = spout.committed_to, min(offset for offset in spout.pending if offset != FAILED)
    if number != truth:
        for wrong, said, look in (
            (after_failed, f"a commit of {number} would say that the failed offset {FAILED} is done.", "Does fail take it out of pending?"),
            (max(ACKED) + 1, f"{number} says that everything below {number} is done, but {len(spout.pending) - 1} offsets are not.", None),
            (max(ACKED), f"{number} is the highest acked offset.", "A commit speaks about everything below it."),
            (len(ACKED), f"{number} is how many were acked.", "An offset is a position, not a count."),
            (truth - 1, f"{number} is the last offset of the finished beginning.", "A commit names the next offset to read, one further."),
            (EMITTED, f"{number} is emitted_to_offset.", "The spout writes that only when nothing is pending."),
        ):
            yield number == wrong and NotYet(said, look)
        yield NotYet(f"it is not {as_text(number)}.")
    yield f"pending is {sorted(spout.pending)}, and the commit writes the smallest of them: {truth}."


@exercise(Given(whole_number), solution=6, part="a")
def done_but_not_saved(number: int) -> Rows:
    step = next(step for step in run("happy_path", **SCRUBBED) if step.what == "commit" and step.data["written"])
    offset, processed = step.data["offset"], from_ranges(step.state["processed"])
    above = sum(done >= offset for done in processed)
    pending = sum(last - first + 1 for first, last in step.state["pending"])
    if number != above:
        yield number == len(processed) and NotYet(f"{number} is all processed records, and some of them lie below the committed offset.")
        yield number == offset and NotYet(f"{number} is the committed offset itself.", "Count what is processed at or above it.")
        yield number == pending and NotYet(f"{number} records are pending, which means not processed.", "Count the processed ones.")
        yield NotYet(
            f"it is not {as_text(number)}.",
            f"Scrub to step {step.number}, the first commit that writes, and count the done boxes to the right of the committed offset.",
        )
    yield f"{len(processed)} records are processed, the commit says {offset}, and a crash now would repeat {above} of them."


@exercise(
    Knobs("restart", story=STUCK | {"max_steps": None, "records": None}),
    solution={"max_spout_pending": 1},
    part="a",
)
def cheap_restart(turned: Turned) -> Rows:
    before, verdict = judge(run("restart", **STUCK)), turned.verdict
    again, lost = verdict.counts["duplicated"], verdict.appended - verdict.processed
    if lost:
        why = verdict.first("lost").reason or verdict.first("skipped").reason
        yield (HalfRight if again < FEW else NotYet)(
            f"{turned.words} the restart repeats {again} records{', which is few enough' if again < FEW else ''}, but {lost} will "
            f"never be processed{f' ({why})' if why else ''}; expected none lost.",
            "Look for a knob that gives nothing up: with which one is nothing finished above the stuck record?",
        )
    yield again >= FEW and (HalfRight if turned.knobs else NotYet)(
        f"{turned.words} nothing is lost, which is right, but the restart repeats {again} records; expected fewer than {FEW}. "
        f"With the defaults it repeats {before.counts['duplicated']}.",
        "What is repeated is everything that was finished above the stuck record. With which knob is that nothing?",
    )
    yield (
        f"{turned.words} the restart repeats {again} records and loses none: next to nothing was finished above the stuck record. "
        f"The price is waiting, for as long as the record is stuck: the latest one is processed {verdict.late_ms:,} ms after it arrived; "
        f"with the defaults it takes {before.late_ms:,} ms."
    )


def calls_in(answer: Any, what: str = "the answer") -> list[str]:
    """The calls in a text, separated by commas or line ends, or in a list."""
    if isinstance(answer, str):
        answer = [call for call in answer.replace("\n", ",").split(",") if call.strip()]
    if not isinstance(answer, list | tuple) or not all(isinstance(call, str) for call in answer):
        raise expected(what, "one text of calls", answer, 'Write it like "next, ack 0, commit".')
    if len(answer) > MAX_CALLS:
        raise NotYet(f"these are {len(answer)} calls; {MAX_CALLS} are plenty.", "")
    return list(answer)


@exercise(Given(calls_in), solution="next, next, ack 0, ack 1, commit, fail 0, next, commit", part="b")
def commit_goes_back(calls: list[str]) -> Rows:
    spout, written = spout_on(TOPIC_RECORDS), list[int]()
    for call in calls:
        _call(spout, call)
        if plain_name(call) == "commit":
            written.append(spout.committed_to)
            if len(written) > 1 and written[-1] < written[-2]:
                why = f"offset {written[-1]} failed after its ack, was fetched again, and is pending once more"
                yield f"the commits write {', then '.join(map(str, written))}: {why}."
    commits = f"the commits write {', then '.join(map(str, written))}"
    yield written and spout.pending and spout.pending.first() < written[-1] and HalfRight(
        f"the last commit wrote {written[-1]}, and offset {spout.pending.first()} is pending again: right so far, but one call is missing.",
        "Which call writes the smaller number?",
    )
    yield len(written) < 2 and NotYet(f"there is {'1 commit' if written else 'no commit'} in it, and it takes two to go back.", "")
    if spout.failed:
        is_half = spout.failed.first() < written[-1]
        half = "failed after its commit, which is right so far, but " if is_half else ""
        yield (HalfRight if is_half else NotYet)(
            f"{commits}. Offset {spout.failed.first()} {half}is in failed and not in pending.",
            "Which call puts a failed offset back into pending?",
        )
    yield NotYet(f"{commits}, never less than before.", "An offset that is acked and committed must become pending again.")


def _call(spout: PartitionManager, call: str) -> None:
    """Do one call written as a text."""
    word, *rest = call.split()
    if word in ("next", "commit") and not rest:
        getattr(spout, word)()
    elif word in ("ack", "fail") and len(rest) == 1 and rest[0].isdecimal() and int(rest[0]) < TOPIC_RECORDS:
        if int(rest[0]) >= spout.emitted_to_offset:
            raise NotYet(f"{call.strip()!r} comes before that offset was emitted.", "The acker only knows tuples that were emitted.")
        getattr(spout, word)(int(rest[0]))
    else:
        allowed = f"expected next, commit, ack N or fail N with N from 0 to {TOPIC_RECORDS - 1}"
        raise NotYet(f"{as_text(call.strip())} is not a call; {allowed}.", "")


def cleared_by(kind: Callable[..., PartitionManager]) -> tuple[set[int], set[int]]:
    """The unfinished offsets that one ack makes a release forget, and what is pending after it."""
    spout = emitted_spout(HANDED_OUT, kind, max_offset_behind=LIMIT)
    spout.ack(ONLY_ACKED)
    pending = set(spout.pending)
    return set(range(HANDED_OUT)) - pending - {ONLY_ACKED}, pending


@exercise(Given(numbers_in), solution=range(29, 37), part="b")
def forgotten_too_much(offsets: list[int]) -> Rows:
    (earlier, left), (later, _) = cleared_by(EarlierPartitionManager), cleared_by(PartitionManager)
    given, truth = set(offsets), earlier - later
    if given != truth:
        yield given == earlier and NotYet(
            f"0.9.2 forgets all of these, but 0.9.3 forgets {len(later)} of them too.", "Leave out those that lie outside the limit."
        )
        yield given == later and NotYet("these are outside the limit, and both releases forget them.", "What else does 0.9.2 forget?")
        yield ONLY_ACKED in given and NotYet(
            f"{ONLY_ACKED} is the acked one; it is finished, so it cannot be forgotten unfinished.",
            "Look at the upper end of what 0.9.2 clears.",
        )
        yield given and (given <= truth or truth <= given) and HalfRight(
            f"you name {len(given)} offsets; it should be {'more' if len(given) < len(truth) else 'fewer'}.",
            f"Look at the edges: the limit is {LIMIT}, and `clear_below(bound)` keeps `bound` itself.",
        )
        yield NotYet("these are not the offsets that the two releases treat differently.", "Below which offset does each of them clear?")
    yield (
        f"0.9.2 forgets {len(earlier)} unfinished offsets, 0.9.3 {len(later)}: {len(truth)} of them are inside the limit. "
        f"And {ONLY_ACKED}, which is finished, is {'still' if ONLY_ACKED in left else 'not'} pending in 0.9.2."
    )


def ack_or_class(answer: Any, what: str = "the answer") -> Any:
    """A learner's ack, or a whole PartitionManager; NotYet otherwise."""
    if not callable(answer):
        raise expected(what, "your ack or your class", answer, "Give its name without parentheses.")
    return answer


@exercise(Given(ack_or_class), solution=solutions.own_ack, part="b")
def own_ack(answer: Any) -> Rows:
    yield (built_on(answer, SPOUT.kits) or getattr(answer, "ack", None) is PartitionManager.ack) and NotYet(
        "this is the kit's own.", "Fix the six lines of the cell above it."
    )
    found = first_difference(SPOUT, answer)
    scripts = [{"name": f"ack {acked}", "limit": limit, "emitted": emitted, "acked": acked} for limit, emitted, acked in ACKS]
    outcome = unbroken(run_steps(pending_after, answer, scripts))
    storm = [next(pending_after(PartitionManager, script)) for script in scripts]
    yours = [answers[0] if answers else None for answers in outcome.answers]  # None where the code raised
    if found is not None:
        half = _half(storm[0], yours[0])
        yield HalfRight(found.said, f"{half}{found.look}", found.picture, found.history) if half else found
    for each, wanted, had in zip(scripts, storm, yours, strict=True):
        yield wanted != had and NotYet(
            f"every recorded step agrees, but with max_offset_behind {each['limit']:,}, {each['emitted']} emitted and an ack of "
            f"{each['acked']:,}, pending should then be {as_text(wanted)}; yours is {as_text(had)}.",
            "Use the bound from the settings, however large it is.",
        )
    yield from SPOUT_GROWTH.rows(answer)
    yield "your code repeats every recorded step of the real 0.9.3."


def pending_after(make: Any, script: Mapping[str, Any]) -> Iterator[list[int]]:
    """What is pending after one ack, with the learner's ack or class; runs in the learner's process."""
    spout = emitted_spout(script["emitted"], built_with(make), max_offset_behind=script["limit"])
    spout.ack(script["acked"])
    yield sorted(spout.pending)


def _half(storm: list[int], yours: Any) -> str:
    """Which of the two mistakes is fixed, when it is one."""
    if not isinstance(yours, list):
        return ""
    is_cleared, is_done = set(yours) - {ONLY_ACKED} == set(storm), ONLY_ACKED not in yours
    mistakes = ["what an ack clears", "whether the acked offset itself leaves pending"]
    right, wrong = mistakes if is_cleared else mistakes[::-1]
    return "" if is_cleared is is_done else f"Half of it is right by now: {right}. Still wrong: {wrong}. "


@exercise(
    Recorded(MANAGER, a_class, "your class repeats every recorded step of the real 0.9.3, starts included.", METHODS, MANAGER_GROWTH.rows),
    solution=solutions.OwnPartitionManager,
    part="b",
)
def own_partition_manager(answer: type) -> Rows:
    yield None  # every near miss is a recorded step
