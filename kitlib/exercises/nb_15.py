"""The exercises of notebook 15: what a crash leaves, what may be committed, who stands still, how large a poll may be, who gets what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, one_of, told, values_of, whole_number
from kitlib.experiments import run
from kitlib.experiments.groups.rebalance_stories import rebalances
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import show

CRASHES: tuple[tuple[str, str], ...] = (  # (library, rule) of `auto_commit`
    ("java", "killed"),
    ("librdkafka", "killed"),
    ("librdkafka", "kept after the work"),
    ("kafka-python", "handed to a pool"),
)
FETCHED_MORE = 7  # records, of after_the_crash
FIRST, POOL = 40, 12  # of committable: the first offset, and how many records are under way
SLOW: dict[str, Any] = {"work_ms": 100, "max_poll_ms": 2_000}  # of poll_size
MOST_RECORDS = 40  # in a poll; a partition holds no more
TROUBLES = ("session", "poll", "nobody")
SITUATIONS: tuple[tuple[str, dict[str, Any]], ...] = (  # of which_clock
    ("a batch takes 2.6 s", {"trouble": "slow work", "trouble_ms": 2_600}),
    ("a batch takes 1.8 s", {"trouble": "slow work", "trouble_ms": 1_800}),
    ("the process is frozen for 1.8 s", {"trouble": "frozen", "trouble_ms": 1_800}),
    ("the process is killed", {"trouble": "killed", "trouble_ms": 2_600}),
)
GROUPS, NAMES = 40, "ABCDEFG"  # of own_assignor


def cursors_at(trace: Trace, what: str) -> tuple[int, int, int]:
    """(committed, processed, fetched) of the first partition at the first step of this kind; 0 for nothing yet."""
    step = next(step for step in trace if step.what == what)
    committed, processed, fetched, _ = next(iter(step.state["cursors"].values()))
    return committed or 0, processed or 0, fetched or 0


# -- after_the_crash -----------------------------------------------------------------------------------


def check_after_the_crash(answer: Any) -> str:
    """The learner's arithmetic on three cursors, held against what the runs' verdicts say."""
    function = a_function(answer)
    traces = [run("auto_commit", library=library, rule=rule) for library, rule in CRASHES]
    cases = [(case, trace, cursors_at(trace, "kill")) for case, trace in zip(CRASHES, traces, strict=True)]
    cases += [(case, trace, (*at[:2], at[2] + FETCHED_MORE)) for case, trace, at in cases]  # which changes nothing
    values = values_of(function, [at for _, _, at in cases])
    for ((library, rule), trace, at), value in zip(cases, values, strict=True):
        where = f"{library}, {rule}: committed {at[0]}, processed {at[1]}, fetched {at[2]}"
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise NotYet(f"your function should return two numbers, (lost, twice), this is {told(value)}.", "")
        given = [whole_number(number, "each of the two numbers") for number in value]
        counts = judge(trace).counts
        if given != [counts["lost"], counts["duplicated"]]:
            raise NotYet(
                f"{where}: {counts['lost']} lost and {counts['duplicated']} done twice, your function says {given[0]} and {given[1]}.",
                picture=show(trace, at=next(step.number for step in trace if step.what == "kill"), part="cursors"),
            )
    return "what lies between the committed offset and the processed one is lost or done twice; what was fetched does not matter."


# -- committable ---------------------------------------------------------------------------------------


def check_committable(answer: Any) -> str:
    """The offset that may be committed while a pool finishes its records in any order."""
    function = a_function(answer)
    rng, cases = Random(15), []
    for _ in range(12):
        finished = rng.sample(range(FIRST, FIRST + POOL), rng.randint(0, POOL))
        cases.append((FIRST, finished))
    for (first, finished), value in zip(cases, values_of(function, cases), strict=True):
        offset = whole_number(value, "what your function returns")
        right = first
        while right in finished:
            right += 1
        if offset > right:
            raise NotYet(
                f"with {sorted(finished)} finished it commits {offset}, and record {right} is not finished: a crash would lose it.",
                "A commit claims everything below it.",
            )
        if offset < right:
            raise NotYet(
                f"with {sorted(finished)} finished {right} may be committed, it commits {offset}: a crash would repeat more than it must.",
                "The committed offset is the next to be read." if offset == right - 1 else None,
            )
    return "the end of what is finished without a gap. It is Storm's PartitionManager again (notebook 01), in one line."


# -- stand_still ---------------------------------------------------------------------------------------


def check_stand_still(answer: Any) -> str:
    """How many partitions are given up when a third member comes, by both strategies."""
    if not isinstance(answer, Mapping) or set(answer) != {"eager", "cooperative"}:
        raise NotYet(f'the answer should be a dict like {{"eager": 1, "cooperative": 1}}, this is {told(answer)}.', "")
    for name, given in answer.items():
        found = rebalances(run("rebalance_protocols", protocol=name))
        right = next(each.given_up for each in found if each.what == "C joins")
        if whole_number(given, f"the number for {name}") != right:
            raise NotYet(f"with {name} members it is not {given} partitions that are given up.", None)
    return (
        "all six, or the two that the new member gets. The four others are read on meanwhile, and their uncommitted records are not "
        "consumed twice."
    )


# -- poll_size -----------------------------------------------------------------------------------------


def check_poll_size(answer: Any) -> str:
    """The largest poll with which nothing is repeated: from runs with it and with one more."""
    records = whole_number(answer)
    if not 1 <= records <= MOST_RECORDS:
        raise NotYet(f"poll_records is {records}, expected 1 to {MOST_RECORDS}.", "")
    if twice := _repeated(records):
        raise NotYet(f"with {records} records in a poll {twice} records are processed twice.", "How long does such a batch take?")
    if records < MOST_RECORDS and not (more := _repeated(records + 1)):
        raise NotYet(f"with {records} nothing is repeated, and with {records + 1} nothing is either.", "Try more.")
    return (
        f"{records}: one more, and its batch takes as long as a member may stay away. Then {more} records are done twice, and the group "
        "would have gone on like that for ever."
    )


def _repeated(records: int) -> int:
    return judge(run("slow_group", poll_records=records, **SLOW)).counts["duplicated"]


# -- which_clock ---------------------------------------------------------------------------------------


def check_which_clock(answer: Any) -> str:
    """Which of the two clocks removes a member, in four situations."""
    if not isinstance(answer, list | tuple) or len(answer) != len(SITUATIONS):
        raise NotYet(f"the answer should be a list of {len(SITUATIONS)} words, this is {told(answer)}.", "")
    for number, (given, (situation, knobs)) in enumerate(zip(answer, SITUATIONS, strict=True), 1):
        word = one_of(given, TROUBLES, "each word")
        trace = run("poll_too_late", **knobs)
        right = next((step.data["why"] for step in trace if step.what == "evict"), "nobody")
        if word != right:
            raise NotYet(f"in situation {number}, {situation}, it is not {word!r}.")
    return "a busy process still sends its heartbeats, so only its polls tell; a frozen or dead one sends none, and that is noticed first."


# -- own_assignor --------------------------------------------------------------------------------------


def groups() -> list[tuple[int, dict[str, list[int]]]]:
    """Groups before a rebalance: (partitions, member -> what it has), some partitions without an owner, some members new."""
    rng, found = Random(29), []
    for _ in range(GROUPS):
        partitions, names = rng.randint(0, 12), NAMES[: rng.randint(1, len(NAMES))]
        owned: dict[str, list[int]] = {name: [] for name in names}
        for partition in range(partitions):
            if rng.random() < 0.8:
                owned[rng.choice(names[: rng.randint(1, len(names))])].append(partition)
        found.append((partitions, owned))
    return found


def most_kept(partitions: int, owned: Mapping[str, Sequence[int]]) -> int:
    """How many partitions can stay where they are when everybody gets as many as the next, or one more."""
    share, more = divmod(partitions, len(owned))
    kept = 0
    for has in sorted(map(len, owned.values()), reverse=True):
        if has > share and more:
            kept, more = kept + share + 1, more - 1
        else:
            kept += min(has, share)
    return kept


def check_own_assignor(answer: Any) -> str:
    """The learner's assignor, in groups of all sizes: everything dealt once, evenly, and as little moved as can be."""
    function, cases = a_function(answer), groups()
    for (partitions, owned), dealt in zip(cases, values_of(function, cases), strict=True):
        where = f"{partitions} partitions, before: {owned}"
        if not isinstance(dealt, Mapping) or set(dealt) != set(owned) or not all(isinstance(v, list | tuple) for v in dealt.values()):
            raise NotYet(f"{where}: your function should return a list for each of {', '.join(owned)}, this is {told(dealt)}.", "")
        all_dealt = sorted(whole_number(each, "each partition") for has in dealt.values() for each in has)
        if all_dealt != list(range(partitions)):
            raise NotYet(f"{where}: each partition should be dealt once, your function deals {all_dealt}.", "What has nobody yet?")
        sizes = [len(has) for has in dealt.values()]
        if max(sizes) - min(sizes) > 1:
            raise NotYet(f"{where}: the shares are {sizes}, and the largest is more than one above the smallest.", None)
        kept = sum(len(set(dealt[name]) & set(has)) for name, has in owned.items())
        if kept < (possible := most_kept(partitions, owned)):
            raise NotYet(f"{where}: {kept} partitions stay where they are, {possible} could.", "Who may keep one more than the others?")
    return f"{len(cases)} groups: everything dealt once, evenly, and no partition moved without need. Kafka's sticky ones do no better."


EXERCISES = (
    Exercise(
        "after_the_crash",
        "Write `after_the_crash(committed, processed, fetched)`: a consumer is killed with its cursors there, and another goes on. "
        "Return how many records are lost and how many are done twice.",
        check_after_the_crash,
        (
            "The successor begins at the committed offset. Which records does it never see, and which does it see again?",
            "Two differences, of which one is 0: max(0, ...) twice. One of the three cursors is not needed.",
        ),
    ),
    Exercise(
        "committable",
        "Eight workers finish records in any order. Write `committable(first, finished)`: `first` is the lowest offset of those under "
        "way, `finished` a list of finished offsets. Return the offset to commit.",
        check_committable,
        (
            "Begin at `first` and go up. Where do you have to stop?",
            "The committed offset is that of the first record which is not finished: the next to be read.",
        ),
    ),
    Exercise(
        "stand_still",
        "Two consumers have three of six partitions each, and a third one comes. How many partitions are given up, by eager members "
        "and by cooperative ones? Answer with a dict, `{\"eager\": ..., \"cooperative\": ...}`.",
        check_stand_still,
        (
            "An eager member gives up everything before it joins again.",
            "A cooperative one gives up what the new member is to get. How many are those, with three members?",
        ),
    ),
    Exercise(
        "which_clock",
        "A's session is 1.5 s, its poll interval 2 s. In four situations, " + "; ".join(
            f"({number}) {situation}" for number, (situation, _) in enumerate(SITUATIONS, 1)
        ) + ": which clock removes A from the group? Answer with a list of four words, each `\"session\"`, `\"poll\"` or `\"nobody\"`.",
        check_which_clock,
        (
            "Who sends the heartbeats, and does that one run in each of the situations?",
            "A slow member heartbeats on; only the time since its last poll gives it away. Is 1.8 s too long for that?",
        ),
    ),
    Exercise(
        "poll_size",
        f"Work on a record takes {SLOW['work_ms']} ms, and a member may stay away for {SLOW['max_poll_ms']:,} ms. With how many records "
        "in a poll, at most, does `slow_group` repeat nothing?",
        check_poll_size,
        (
            "The work on a whole batch must end before the next poll is due.",
            "Records × milliseconds each, and *below* the interval, not equal to it.",
        ),
    ),
    Exercise(
        "own_assignor",
        "Write `own_assignor(partitions, owned)`: `owned` tells for each member which partitions it has now (none, if it is new). Return "
        "the same dict for the next generation: partitions 0 to `partitions - 1`, each dealt once; nobody with two more than another; "
        "and as many as possible where they are.",
        check_own_assignor,
        (
            "Shares are `partitions // members`, and the remainder gets one more. Who should get one more?",
            "First let everybody keep up to a share, those with the most one above it while there is a remainder. Then deal the rest.",
        ),
    ),
)
