"""The exercises of notebook 01: what a commit may say, what it costs, and the rule that an ack follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.exercises.answers import (
    NotYet,
    a_class,
    a_function,
    as_text,
    expected,
    numbers_in,
    plain_name,
    whole_number,
)
from kitlib.exercises.door import Recorded
from kitlib.exercises.frame import Given, Half, Knobs, Miss, Right, Rows, Turned, exercise
from kitlib.exercises.spouts import emitted_spout, spout_on
from kitlib.exercises.your_spout import MANAGER, METHODS, SPOUT
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


@exercise(Given(whole_number))
def what_is_committed(number: int) -> Rows:
    spout = emitted_spout(EMITTED)
    for offset in ACKED:
        spout.ack(offset)
    spout.fail(FAILED)
    spout.commit()
    truth, after_failed = spout.committed_to, min(offset for offset in spout.pending if offset != FAILED)
    if number != truth:
        yield number == after_failed and Miss("failed", number=number, failed=FAILED)
        yield number == max(ACKED) + 1 and Miss("behind the highest", number=number, others=len(spout.pending) - 1)
        yield number == max(ACKED) and Miss("highest", number=number)
        yield number == len(ACKED) and Miss("count", number=number)
        yield number == truth - 1 and Miss("last finished", number=number)
        yield number == EMITTED and Miss("emitted", number=number)
        yield Miss("other", number=as_text(number))
    yield Right(pending=sorted(spout.pending), truth=truth)


@exercise(Given(whole_number))
def done_but_not_saved(number: int) -> Rows:
    step = next(step for step in run("happy_path", **SCRUBBED) if step.what == "commit" and step.data["written"])
    offset, processed = step.data["offset"], from_ranges(step.state["processed"])
    above = sum(done >= offset for done in processed)
    pending = sum(last - first + 1 for first, last in step.state["pending"])
    if number != above:
        yield number == len(processed) and Miss("all processed", number=number)
        yield number == offset and Miss("committed", number=number)
        yield number == pending and Miss("pending", number=number)
        yield Miss("other", number=as_text(number), step=step)
    yield Right(processed=len(processed), offset=offset, above=above)


@exercise(Knobs("restart", story=STUCK | {"max_steps": None, "records": None}))
def cheap_restart(turned: Turned) -> Rows:
    before, verdict = judge(run("restart", **STUCK)), turned.verdict
    again, lost = verdict.counts["duplicated"], verdict.appended - verdict.processed
    if lost:
        why = verdict.first("lost").reason or verdict.first("skipped").reason
        yield (Half if again < FEW else Miss)(
            "lost", turned=turned, again=again, enough=", which is few enough" if again < FEW else "", lost=lost,
            because=f" ({why})" if why else "",
        )
    yield again >= FEW and (Half if turned.knobs else Miss)("repeats", turned=turned, again=again, few=FEW, before=before)
    yield Right(turned=turned, again=again, verdict=verdict, before=before)


def calls_in(answer: Any, what: str = "the answer") -> list[str]:
    """The calls in a text, separated by commas or line ends, or in a list."""
    if isinstance(answer, str):
        answer = [call for call in answer.replace("\n", ",").split(",") if call.strip()]
    if not isinstance(answer, list | tuple) or not all(isinstance(call, str) for call in answer):
        raise expected(what, "one text of calls", answer, 'Write it like "next, ack 0, commit".')
    if len(answer) > MAX_CALLS:
        raise NotYet(f"these are {len(answer)} calls; {MAX_CALLS} are plenty.", "")
    return list(answer)


@exercise(Given(calls_in))
def commit_goes_back(calls: list[str]) -> Rows:
    spout, written = spout_on(TOPIC_RECORDS), list[int]()
    for call in calls:
        _call(spout, call)
        if plain_name(call) == "commit":
            written.append(spout.committed_to)
            if len(written) > 1 and written[-1] < written[-2]:
                yield Right(written=", then ".join(map(str, written)), again=written[-1])
    commits = f"the commits write {', then '.join(map(str, written))}"
    yield written and spout.pending and spout.pending.first() < written[-1] and Half(
        "one call missing", last=written[-1], pending=spout.pending.first()
    )
    yield len(written) < 2 and Miss("too few commits", commits="1 commit" if written else "no commit", look="")
    if spout.failed:
        is_half = spout.failed.first() < written[-1]
        half = "failed after its commit, which is right so far, but " if is_half else ""
        yield (Half if is_half else Miss)("in failed", commits=commits, failed=spout.failed.first(), half=half)
    yield Miss("never less", commits=commits)


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


@exercise(Given(numbers_in))
def forgotten_too_much(offsets: list[int]) -> Rows:
    (earlier, left), (later, _) = cleared_by(EarlierPartitionManager), cleared_by(PartitionManager)
    given, truth = set(offsets), earlier - later
    if given != truth:
        yield given == earlier and Miss("earlier", count=len(later))
        yield given == later and Miss("later")
        yield ONLY_ACKED in given and Miss("acked", only_acked=ONLY_ACKED)
        yield given and (given <= truth or truth <= given) and Half(
            "edges", count=len(given), more="more" if len(given) < len(truth) else "fewer", limit=LIMIT
        )
        yield Miss("other")
    yield Right(
        earlier=len(earlier), count=len(later), inside=len(truth), only_acked=ONLY_ACKED, still="still" if ONLY_ACKED in left else "not"
    )


@exercise(Recorded(SPOUT, a_function))
def own_ack(answer: Any) -> Rows:
    yield None  # every near miss is a recorded step


@exercise(Recorded(MANAGER, a_class, METHODS))
def own_partition_manager(answer: type) -> Rows:
    yield None  # every near miss is a recorded step
