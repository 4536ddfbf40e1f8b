"""The exercises of notebook 01: what a commit may say, what it costs, and the rule that an ack follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kitlib.exercises.frame import (
    Exercise,
    NotYet,
    knobs_for,
    offsets_in,
    plain_name,
    told,
    unbroken,
    whole_number,
)
from kitlib.exercises.recorded import first_difference, judged_by
from kitlib.exercises.sandbox import run_steps
from kitlib.exercises.spouts import emitted_spout, spout_on
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.storm.earlier import EarlierPartitionManager
from kitlib.storm.partition_manager import PartitionManager

ACKED, FAILED, EMITTED = (0, 1, 2, 4, 5, 7, 8), 3, 10  # the first exercise's ledgers
STUCK: dict[str, Any] = {"stuck_offset": 1, "crash_at_ms": 1_000, "records_while_down": 0}
FEW = 10  # so many repeated records are too many
TOPIC_RECORDS = 2  # in the topic of the third exercise
MAX_CALLS = 40
LIMIT, HANDED_OUT, ONLY_ACKED = 8, 50, 37  # the fourth exercise's numbers
ACKS = (  # of own_ack: bound, records emitted, offset acked. The recorded scripts have no bound between 100,000 and unlimited.
    (LIMIT, HANDED_OUT, ONLY_ACKED),
    (200_000, 10, 150_000),
    (150_000, 10, 150_005),
)


def check_what_is_committed(answer: Any) -> str:
    """The smallest pending offset, from the model's own commit."""
    spout = emitted_spout(EMITTED)
    for offset in ACKED:
        spout.ack(offset)
    spout.fail(FAILED)
    spout.commit()
    number, truth = whole_number(answer), spout.committed_to
    if number == truth:
        return f"pending is {sorted(spout.pending)}, and the commit writes the smallest of them: {truth}."
    if number == min(offset for offset in spout.pending if offset != FAILED):
        raise NotYet(f"at {number} the failed offset {FAILED} would count as done.", "Ask whether fail takes it out of pending.")
    if number == max(ACKED) + 1:
        raise NotYet(f"{number} says that everything below {number} is done, and {len(spout.pending) - 1} offsets below it are not.")
    if number == max(ACKED):
        raise NotYet(f"{number} is the highest acked offset.", "A commit speaks of everything below it.")
    if number == len(ACKED):
        raise NotYet(f"{number} is how many were acked.", "An offset is a position, not a count.")
    if number == truth - 1:
        raise NotYet(f"{number} is the last offset of the finished beginning.", "A commit names where to go on, one further.")
    if number == EMITTED:
        raise NotYet(f"{number} is emitted_to_offset.", "That is written only when nothing is pending.")
    raise NotYet(f"it is not {told(number)}.", "List the pending offsets first: what was fetched and not acked.")


def check_cheap_restart(answer: Any) -> str:
    """Fewer than FEW repeated, none lost: the experiment tells, with the stuck record where it is."""
    knobs = knobs_for("restart", answer)
    for name in knobs:
        if name in STUCK or name in ("max_steps", "records"):
            raise NotYet(f"{name} belongs to the story and stays as it is.", "Turn a knob of the spout instead.")
    told_knobs = ", ".join(f"{name}={value}" for name, value in knobs.items()) or "the defaults"
    before, verdict = judge(run("restart", **STUCK)), judge(run("restart", **STUCK, **knobs))
    again, lost = verdict.counts["duplicated"], verdict.appended - verdict.processed
    if lost:
        why = verdict.first("lost").reason or verdict.first("skipped").reason
        half = f"; {again} repeated would be few enough" if again < FEW else ""
        raise NotYet(
            f"with {told_knobs} the restart repeats {again} records, but {lost} will never be processed"
            + (f" ({why})" if why else "") + f"{half}; expected none lost.",
            "Look for a knob that gives nothing up: few records can be repeated if few were on their way.",
        )
    if again >= FEW:
        raise NotYet(
            f"with {told_knobs} nothing is lost, which is right, but the restart repeats {again} records, expected fewer than {FEW}; "
            f"the defaults repeat {before.counts['duplicated']}.",
            "What is repeated is what was handed out above the stuck record. Ask which knob bounds that.",
        )
    return (
        f"with {told_knobs} the restart repeats {again} records and loses none. The price is waiting: the latest record "
        f"is processed {verdict.late_ms:,} ms after it came, with the defaults {before.late_ms:,} ms."
    )


def check_commit_goes_back(answer: Any) -> str:
    """Calls on a real PartitionManager after which a commit writes less than one before it did."""
    if isinstance(answer, str):
        answer = [call for call in answer.replace("\n", ",").split(",") if call.strip()]
    if not isinstance(answer, list | tuple) or not all(isinstance(call, str) for call in answer):
        raise NotYet(f"the answer should be one text of calls, this is {told(answer)}.", 'Write it like "next, ack 0, commit".')
    if len(answer) > MAX_CALLS:
        raise NotYet(f"these are {len(answer)} calls; {MAX_CALLS} are plenty.", "")
    spout, written, emitted = spout_on(TOPIC_RECORDS), [], set()
    for call in answer:
        offset = _call(spout, call)
        emitted |= {offset} - {None}
        if plain_name(call) == "commit":
            written.append(spout.committed_to)
            if len(written) > 1 and written[-1] < written[-2]:
                return f"the commits write {', then '.join(map(str, written))}: {_why_back(spout)}"
    if written and spout.pending and spout.pending.first() < written[-1]:
        raise NotYet(
            f"the last commit wrote {written[-1]}, and offset {spout.pending.first()} is pending again: so far all is right, and one call "
            "is missing.",
            "Who writes the smaller number down?",
        )
    if len(written) < 2:
        raise NotYet(f"there {'is 1 commit' if written else 'is no commit'} in it, and it takes two to go back.", "")
    if spout.failed:
        half = "has failed after its commit, which is right so far, but it " if spout.failed.first() < written[-1] else ""
        raise NotYet(
            f"the commits write {', then '.join(map(str, written))}. Offset {spout.failed.first()} {half}is in failed and not in pending.",
            "Ask which call puts a failed offset back into pending.",
        )
    raise NotYet(
        f"the commits write {', then '.join(map(str, written))}, never less than before.",
        "An offset that is acked and committed must become pending again.",
    )


def _call(spout: PartitionManager, call: str) -> int | None:
    """Do one call written as a text; the offset that it emitted, if it did."""
    word, *rest = call.split()
    if word == "next" and not rest:
        record = spout.next().record
        return record.offset if record else None
    if word == "commit" and not rest:
        spout.commit()
        return None
    if word in ("ack", "fail") and len(rest) == 1 and rest[0].isdecimal() and int(rest[0]) < TOPIC_RECORDS:
        if int(rest[0]) >= spout.emitted_to_offset:
            raise NotYet(f"{call.strip()!r} comes before that offset was emitted.", "The acker only knows tuples that were emitted.")
        getattr(spout, word)(int(rest[0]))
        return None
    raise NotYet(
        f"{told(call.strip())} is no call; expected next, commit, ack N or fail N with N from 0 to {TOPIC_RECORDS - 1}.", ""
    )


def _why_back(spout: PartitionManager) -> str:
    return f"offset {spout.committed_to} failed after its ack, was fetched again, and is pending once more."


def cleared_by(kind: Callable[..., PartitionManager]) -> tuple[set[int], set[int]]:
    """The unfinished offsets that one ack makes a release forget, and what is pending after it."""
    spout = emitted_spout(HANDED_OUT, kind, max_offset_behind=LIMIT)
    spout.ack(ONLY_ACKED)
    pending = set(spout.pending)
    return set(range(HANDED_OUT)) - pending - {ONLY_ACKED}, pending


def check_forgotten_too_much(answer: Any) -> str:
    """What 0.9.2 forgets and 0.9.3 keeps, from both classes."""
    (earlier, left), (later, _) = cleared_by(EarlierPartitionManager), cleared_by(PartitionManager)
    given, truth = offsets_in(answer), sorted(earlier - later)
    if given == truth:
        return (
            f"0.9.2 forgets {len(earlier)} unfinished offsets, 0.9.3 {len(later)}: {len(truth)} of them are inside the limit. "
            f"And {ONLY_ACKED}, which is finished, is {'still' if ONLY_ACKED in left else 'not'} pending in 0.9.2."
        )
    if set(given) == earlier:
        raise NotYet(
            f"0.9.2 forgets all of these, but 0.9.3 forgets {len(later)} of them too.",
            "Take those away that lie outside the limit.",
        )
    if set(given) == later:
        raise NotYet("these are outside the limit, and both releases forget them.", "Ask what 0.9.2 forgets beyond them.")
    if ONLY_ACKED in given:
        raise NotYet(
            f"{ONLY_ACKED} is the acked one; it is finished, so it cannot be forgotten unfinished.",
            "Look at the upper end of what 0.9.2 clears.",
        )
    if set(given) <= set(truth) or set(truth) <= set(given):
        raise NotYet(
            f"you name {len(given)} offsets, and it is {'more' if len(given) < len(truth) else 'fewer'} than that.",
            f"Look at the edges: the limit is {LIMIT}, and `clear_below(bound)` keeps `bound` itself.",
        )
    raise NotYet("these are not the offsets that the two releases treat differently.", "Work out below which offset each of them clears.")


def check_own_ack(answer: Any) -> str:
    """An ack, or a whole PartitionManager, against every recorded step of the real one."""
    if answer is PartitionManager.ack or answer is PartitionManager:
        raise NotYet("this is the kit's own.", "Mend the six lines of the cell above it.")
    if not callable(answer):
        raise NotYet(f"the answer should be your ack or your class, this is {told(answer)}.", "Give its name without parentheses.")
    found = first_difference(answer)
    script, storm, yours = pending_by(answer)
    try:
        judged_by(found, "")
    except NotYet as wrong:
        raise NotYet(wrong.said, f"{_half(storm[0], yours[0])}{wrong.look}", wrong.picture) from None
    for each, wanted, had in zip(script, storm, yours, strict=True):
        if wanted != had:
            raise NotYet(
                f"every recorded step agrees, but with max_offset_behind {each['limit']:,}, {each['emitted']} emitted and an ack of "
                f"{each['acked']:,}, pending should be {told(wanted)} then, yours is {told(had)}.",
                "The bound is the setting's, however large it is.",
            )
    return "every recorded step of the real 0.9.3 comes out the same with your code."


def answers_to(make: Any, script: Mapping[str, Any]) -> Iterator[list[int]]:
    """What is pending after one ack, with the learner's ack or class; runs in the learner's process."""
    build = make if isinstance(make, type) else type("YourPartitionManager", (PartitionManager,), {"ack": make})
    spout = emitted_spout(script["emitted"], build, max_offset_behind=script["limit"])
    spout.ack(script["acked"])
    yield sorted(spout.pending)


def pending_by(answer: Any) -> tuple[list[dict[str, Any]], list[Any], list[Any]]:
    """The scripts of one ack, and what is pending after each: by Storm's rule, and by the learner's (None if it raises)."""
    scripts = [{"name": f"ack {acked}", "limit": limit, "emitted": emitted, "acked": acked} for limit, emitted, acked in ACKS]
    outcome = unbroken(run_steps(answers_to, answer, scripts))
    storm = [next(answers_to(PartitionManager, script)) for script in scripts]
    return scripts, storm, [answers[0] if answers else None for answers in outcome.answers]


def _half(storm: list[int], yours: Any) -> str:
    """Which of the two mistakes is mended, when it is one."""
    if not isinstance(yours, list):
        return ""
    is_cleared = set(yours) - {ONLY_ACKED} == set(storm)
    is_done = ONLY_ACKED not in yours
    if is_cleared is is_done:
        return ""
    right, wrong = "what an ack clears", "whether the acked offset itself leaves pending"
    if is_done:
        right, wrong = wrong, right
    return f"Half of it is right by now: {right}. Not yet: {wrong}. "


EXERCISES = (
    Exercise(
        "what_is_committed",
        "A spout has handed out offsets 0 to 9. The bolt has acked 0, 1, 2, 4, 5, 7 and 8, has failed 3, and is still at "
        "work on 6 and 9. Which offset does the next commit write?",
        check_what_is_committed,
        (
            "List the pending offsets: what was fetched and not acked.",
            "A failure does not take an offset out of pending; only an ack or a clearing does.",
        ),
    ),
    Exercise(
        "cheap_restart",
        "Record 1 never finishes, and the worker dies after 1,000 ms (`stuck_offset=1, crash_at_ms=1000, "
        "records_while_down=0`). With which knobs does the restart repeat fewer than ten records and lose none?",
        check_cheap_restart,
        (
            "A knob that gives the stuck record up makes the number small and loses a record.",
            "What is repeated is what was handed out above the stuck record.",
            "Look at max_spout_pending.",
        ),
    ),
    Exercise(
        "commit_goes_back",
        "A topic holds two records. Write the calls after which a commit writes a *smaller* offset than a commit before: "
        '`next`, `commit`, `ack N`, `fail N`, separated by commas, like `"next, ack 0, commit"`.',
        check_commit_goes_back,
        (
            "An offset that is acked and committed must become pending again.",
            "A fetch makes offsets pending, and it takes failed ones first.",
            "A record can fail after its ack: think of one that becomes several tuples.",
        ),
    ),
    Exercise(
        "forgotten_too_much",
        "The limit is 8, offsets 0 to 49 are handed out, and only 37 is acked. Which unfinished offsets does 0.9.2 forget "
        "although 0.9.3 keeps them? Answer with a list or a range.",
        check_forgotten_too_much,
        (
            "Write down below which offset each of the two rules clears.",
            "`clear_below(bound)` takes what is smaller than `bound` and keeps `bound` itself.",
        ),
    ),
    Exercise(
        "own_ack",
        "This is the ack of 0.9.2 in six lines, with two mistakes in it. Mend them until every recorded step agrees.",
        check_own_ack,
        (
            "One mistake is what is cleared, the other is what is left behind after a clearing.",
            "`finding.picture` shows both partitions after the first step that differs.",
            "The bound is max_offset_behind below the acked offset, and the acked offset leaves pending in any case.",
        ),
    ),
)
