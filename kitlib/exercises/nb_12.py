"""The exercises of notebook 12: what each cause does alone, a load with a purge in it, how slow is too slow, who sees what, an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from random import Random
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, one_of, some_of, told, values_of, whole_number
from kitlib.experiments import run
from kitlib.experiments.offsets.incident_run import health_in
from kitlib.kafka.offsets.messages import RECORD_TYPES
from kitlib.kafka.offsets.offset_manager import OffsetManager
from kitlib.kafka.offsets.offset_rules import RULES, OffsetConfig
from kitlib.kafka.offsets.records import OffsetsRecord, encode
from kitlib.kafka.offsets.segments import SegmentedLog
from kitlib.monitor.delivery import judge
from kitlib.monitor.lag import Status
from kitlib.monitor.lag_window import judged_commits
from kitlib.monitor.signs import signs_of
from kitlib.trace import Trace
from kitlib.views import show

ENDINGS = ("goes on", "repeats", "loses")
SITUATIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # of endings
    ("the incident as it was, with `latest`", "stale_offset", {}),
    ("the same, with a retention that works", "stale_offset", {"log_rules": "4.3.1"}),
    ("that, with `earliest`", "stale_offset", {"log_rules": "4.3.1", "auto_offset_reset": "earliest"}),
    ("the incident, but A asks half an hour after the move", "stale_offset", {"asks_after_min": 30}),
    ("the incident, but the coordinator can read both formats", "stale_offset", {"coordinator_rules": "0.9.0"}),
)
HOUR_MS = 3_600_000
SLOWEST, FASTEST = 1, 50  # of load_speed, in records a second
SEERS = ("the offsets topic", "the output rate", "the lag monitor")
DEAD: tuple[dict[str, Any], ...] = tuple(  # of own_alarm: dead cleaners, each with the same run in which it lives
    {"dies_on_day": day, "days": days, "rounds_a_day": rounds}
    for day, days, rounds in ((1, 12, 2), (3, 12, 2), (6, 16, 2), (3, 12, 4), (3, 16, 1), (8, 16, 4))
)
LED = (1, 3)  # partitions like it that the coordinator leads
COUNTED = ("records", "keys", "cached_offsets", "groups", "commits_a_minute", "load_ms", "keys_asked")  # add up over partitions
DAYS_BEFORE = 2  # so long before the move the learner's alarm must have rung


# -- endings -------------------------------------------------------------------------------------------


def ending(trace: Trace) -> str:
    """What a run's verdict comes to."""
    counts = judge(trace).counts
    return "loses" if counts["lost"] else "repeats" if counts["duplicated"] else "goes on"


def check_endings(answer: Any) -> str:
    """Five runs, a word for each."""
    if not isinstance(answer, list | tuple) or len(answer) != len(SITUATIONS):
        raise NotYet(f"the answer should be a list of {len(SITUATIONS)} words, this is {told(answer)}.", "")
    words = [one_of(each, ENDINGS, "each word") for each in answer]
    for number, (word, (situation, name, knobs)) in enumerate(zip(words, SITUATIONS, strict=True), 1):
        trace = run(name, **knobs)
        if word != ending(trace):
            at = [step.number for step in trace if step.what == "answer"][-1]
            raise NotYet(f"in situation {number}, {situation}, A does not end like that: {word!r}.", picture=show(trace, at=at))
    return (
        "a wrong offset that is valid is simply read from, and no policy is asked. One that is out of range, or that has been forgotten "
        "meanwhile, makes the policy choose between loss and repetition."
    )


# -- after_the_load ------------------------------------------------------------------------------------


def loads() -> list[tuple[list[list[Any]], int, int]]:
    """Logs to load: (records as [group, offset or None, hours ago], how many are read before the purge, retention in hours)."""
    rng, found = Random(12), []
    for _ in range(14):
        count = rng.randint(1, 12)
        ages = sorted((rng.randint(0, 60) for _ in range(count)), reverse=True)
        records = [[rng.choice("abc"), None if rng.random() < 0.1 else rng.randint(1, 99), age] for age in ages]
        found.append((records, rng.randint(0, count - 1), rng.choice((11, 23, 47))))
    found.append(([["a", 10, 40], ["b", 5, 30], ["a", 90, 2], ["b", 50, 2]], 2, 23))
    found.append(([["a", 10, 24], ["b", 5, 23], ["c", 7, 22], ["c", 8, 1]], 3, 23))  # one is just as old as the retention
    return found


def truth_of_load(records: Sequence[Sequence[Any]], read: int, retention: int) -> dict[str, int]:
    """What a coordinator of 0.8.2 has in its cache after such a load."""
    now_ms = 100 * HOUR_MS
    purge_ms = now_ms + read * 1_000 + 500
    log = SegmentedLog("__consumer_offsets-0")
    for group, offset, age in records:
        at_ms = purge_ms - age * HOUR_MS
        value = None if offset is None else {"offset": offset, "metadata": "", "commitTimestamp": at_ms}
        record = OffsetsRecord(RECORD_TYPES[0], {"group": group, "topic": "t", "partition": 0}, None if value is None else 0, value)
        log.append([(*encode(record), at_ms)])
    interval_ms = 50 * HOUR_MS
    config = OffsetConfig(retention * HOUR_MS, interval_ms, partitions=1, load_records_per_s=1, load_chunk_records=1)
    manager = OffsetManager(1, RULES["0.8.2"], config, started_ms=purge_ms - interval_ms, now_ms=now_ms)
    manager.lead(0, log, now_ms)
    manager.advance(now_ms + HOUR_MS // 2)
    return {key[0]: value.committed_offset for key, value in manager.offsets()}


def check_after_the_load(answer: Any) -> str:
    """The learner's load with a purge in the middle, held against the model of the old coordinator."""
    function, cases = a_function(answer), loads()
    for (records, read, retention), value in zip(cases, values_of(function, cases), strict=True):
        right = truth_of_load(records, read, retention)
        if not isinstance(value, dict):
            raise NotYet(f"your function should return a dict of group and offset, this is {told(value)}.", "")
        if value != right:
            groups = sorted(str(each) for each in {*value, *right} if value.get(each) != right.get(each))
            raise NotYet(
                f"with {records}, {read} of them read before the purge and a retention of {retention} hours, your cache has "
                f"{told(value)}, and group {groups[0]} should have {right.get(groups[0], 'no offset')}.",
                "The purge looks at what the cache holds at that moment. Where does its tombstone come to stand?",
            )
    return f"{len(cases)} loads: the purge judges an offset by a commit that is not its last, and its tombstone outlives the last one."


# -- load_speed ----------------------------------------------------------------------------------------


def check_load_speed(answer: Any) -> str:
    """The slowest load that repeats nothing: from runs with it and with one record a second less."""
    speed = whole_number(answer)
    if not SLOWEST <= speed <= FASTEST:
        raise NotYet(f"load_records_per_s is {speed}, expected {SLOWEST} to {FASTEST}.", "")
    if twice := _repeated(speed):
        raise NotYet(f"at {speed} records a second {twice} records are sent twice.", "When does the purge come, after the move?")
    if speed > SLOWEST and not _repeated(speed - 1):
        raise NotYet(f"at {speed} nothing is repeated, and at {speed - 1} nothing is either.", "Try less.")
    return f"{speed} records a second: the load is over before the first purge. A faster disk hides the fault, a bigger log brings it back."


def _repeated(speed: int) -> int:
    return judge(run("dead_cleaner", load_records_per_s=speed)).counts["duplicated"]


# -- who_sees_it ---------------------------------------------------------------------------------------


def seers(trace: Trace) -> set[str]:
    """Which of the three shows that something happened to the offset."""
    signs = signs_of(trace)
    saw = {
        "the offsets topic": bool(signs.rewinds or signs.vanished),
        "the output rate": bool(signs.surges),
        "the lag monitor": any(each.status is Status.REWIND for each in judged_commits(trace)),
    }
    return {name for name in SEERS if saw[name]}


def check_who_sees_it(answer: Any) -> str:
    """Who notices when the policy loses, and who when it repeats."""
    if not isinstance(answer, dict) or set(answer) != {"earliest", "latest"}:
        raise NotYet(f'the answer should be a dict like {{"earliest": [...], "latest": [...]}}, this is {told(answer)}.', "")
    for policy, names in answer.items():
        given = some_of(names, SEERS, f"the answer for {policy}")
        right = seers(run("dead_cleaner", auto_offset_reset=policy))
        if given != right:
            wrong = sorted(given ^ right)[0]
            what = "sees nothing" if wrong in given else "does see something"
            raise NotYet(f"with {policy}, {wrong} {what}.", picture=show(run("dead_cleaner", auto_offset_reset=policy), part="signs"))
    return "what is repeated is seen by everybody, what is lost by the offsets topic alone: the commit jumps forward, as commits do."


# -- own_alarm -----------------------------------------------------------------------------------------


@cache
def looks_of(cleaner: str, number: int) -> tuple[list[dict[str, Any]], int]:
    """The looks of a run as dicts without the time, and how many of them were before the coordinator moved."""
    trace = run("dead_cleaner", cleaner=cleaner, **DEAD[number])
    moved_ms = next(step.at_ms for step in trace if step.what == "move")
    looks = health_in(trace)
    shown = [{name: value for name, value in asdict(each).items() if name != "at_ms"} for each in looks]
    return shown, sum(each.at_ms <= moved_ms for each in looks)


def several(looks: list[dict[str, Any]], partitions: int) -> list[dict[str, Any]]:
    """The looks of a coordinator that leads so many partitions like this one: the counts are so many times as high."""
    return [
        {name: value * partitions if name in COUNTED and value is not None else value for name, value in look.items()} for look in looks
    ]


def check_own_alarm(answer: Any) -> str:
    """The learner's alarm on runs in which the cleaner dies, and on the same ones in which it lives.

    It is asked again with the looks up to the one at which it rang, and up to the one before: it may know no later ones.
    """
    function = a_function(answer)
    for is_dead in (True, False):
        runs = [(looks_of("dies" if is_dead else "runs", number), partitions) for number in range(len(DEAD)) for partitions in LED]
        cases = [(several(looks, partitions), before) for (looks, before), partitions in runs]
        told_of = [(knobs, partitions) for knobs in DEAD for partitions in LED]
        values = values_of(function, [(looks,) for looks, _ in cases])
        for (knobs, partitions), (looks, before), value in zip(told_of, cases, values, strict=True):
            where = f"{knobs['rounds_a_day']} commits a day of each group, {knobs['days']} days"
            where += f", {partitions} such partitions" if partitions > 1 else ""
            if value is None:
                if is_dead:
                    raise NotYet(f"{where}, the cleaner dies on day {knobs['dies_on_day']}: your alarm never rings.")
                continue
            rung = whole_number(value, "what your function returns")
            if not is_dead:
                raise NotYet(f"{where}, and the cleaner lives: your alarm rings at look {rung}, with {told(looks[rung : rung + 1])}.", None)
            if rung > before - DAYS_BEFORE - 1:
                raise NotYet(f"{where}: look {rung} is too late, the move comes after look {before - 1}.")
            if rung <= knobs["dies_on_day"] - 1:
                raise NotYet(f"{where}: at look {rung} the cleaner still lives.", None)
            then, before_it = values_of(function, [(looks[: rung + 1],), (looks[:rung],)])
            if then != rung or before_it is not None:
                given, number, had = (rung + 1, rung, then) if then != rung else (rung, None, before_it)
                raise NotYet(
                    f"{where}: your alarm rings at look {rung} when it is given all looks. Given the first {given} alone it should "
                    f"return {number}, and returns {told(had)}.",
                    "On that day nobody has the later looks: decide with what is known up to it.",
                )
    return f"{len(DEAD)} dead cleaners found {DAYS_BEFORE} days or more before the move, and {len(DEAD)} living ones left in peace."


EXERCISES = (
    Exercise(
        "endings",
        "Five futures of the first incident: " + "; ".join(
            f"({number}) {situation}" for number, (situation, _, _) in enumerate(SITUATIONS, 1)
        ) + '. How does A end in each? Answer with a list of five words, each `"goes on"`, `"repeats"` or `"loses"`.',
        check_endings,
        (
            "Three questions in this order: what is A told? Is that offset in the log? Only if not: what does the policy say?",
            "A coordinator forgets offsets that are too old every ten minutes, also those that it should not have.",
        ),
    ),
    Exercise(
        "after_the_load",
        "Write `after_the_load(records, read, retention)`: a coordinator of 0.8.2 loads `records`, a list of `[group, offset, hours ago]` "
        "(offset None is a tombstone), in their order. When it has read the first `read` of them the purge comes: offsets in the cache "
        "committed more than `retention` hours ago are forgotten, with a tombstone at the log's end. Then it reads on to the end. Return "
        "the cache, `{group: offset}`.",
        check_after_the_load,
        (
            "Play the first records into a dict. Purge it. Play the rest, and then what the purge has written.",
            "The dict needs the age beside the offset; a tombstone is `pop(group, None)`.",
        ),
    ),
    Exercise(
        "load_speed",
        "With a dead cleaner and everything else as it is: at how many records a second, at least, must the coordinator read "
        "(`load_records_per_s`) so that nothing is repeated?",
        check_load_speed,
        (
            "The new coordinator's purge comes `check_interval_s` after its last one, and that was 5 s before the move.",
            "About 88 records must be in the cache before that.",
        ),
    ),
    Exercise(
        "who_sees_it",
        "The offset has vanished. Who sees that something happened, when the policy is `earliest`, and when it is `latest`? Answer with a "
        'dict of lists, `{"earliest": [...], "latest": [...]}`, of these names: ' + ", ".join(f'`"{name}"`' for name in SEERS)
        + " (the lag monitor by Burrow's rules).",
        check_who_sees_it,
        (
            "What do the commits look like in each case: do they go back?",
            "The offsets topic has the tombstone, whatever the policy.",
        ),
    ),
    Exercise(
        "own_alarm",
        "Write `own_alarm(looks)`: a list of looks, one a day, each a dict as `health_in` tells them (`dirty_ratio`, `records`, `keys`, "
        f"`cached_offsets`, ...; None for what is not known). Return the number of the first look at which it rings, or None. It must "
        f"ring {DAYS_BEFORE} days or more before the coordinator moves, and never while the cleaner lives.",
        check_own_alarm,
        (
            "What rises when nobody compacts, and what does it do each time when somebody does?",
            "A living cleaner leaves little behind: how long ago was its last pass, and how many records are there for each key?",
        ),
    ),
)  # fmt: skip
