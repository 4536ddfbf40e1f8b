"""The exercises of notebook 12: what each cause does alone, a load with a purge in it, who notices, an alarm, and the reset policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from random import Random
from typing import Any

from kitlib.exercises.answers import a_function, as_text, choice, mapping, maybe, subset, whole_number
from kitlib.exercises.frame import (
    RETURNED,
    Each,
    Edge,
    Exercise,
    Function,
    Knobs,
    Miss,
    Right,
    Rows,
    Turned,
    Unlike,
    exercise,
    values_of,
)
from kitlib.experiments import run
from kitlib.experiments.lag.lag_stories import judged_commits
from kitlib.experiments.offsets.incident_stories import health_in
from kitlib.experiments.offsets.reset_stories import NO_CHECK
from kitlib.experiments.offsets.signs import signs_of
from kitlib.mechanisms.lag import Status
from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.mechanisms.positions import NoOffsetForPartitionError, OffsetOutOfRangeError, start_position
from kitlib.monitor.delivery import judge
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import RULES, OffsetConfig
from kitlib.more.offsets.records import OffsetsRecord, encode
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
COUNTED = ("records", "keys", "cached_offsets", "groups", "commits_a_minute", "load_ms")  # add up over partitions
DAYS_BEFORE = 2  # so long before the move the learner's alarm must have rung
OUTAGE: dict[str, Any] = {  # 14 hours at 10 records an hour, of which 12 hours are kept
    "state": "committed but deleted", "records": 40, "done": 40, "while_down": 140, "deleted": 20, "after": 10,
}  # fmt: skip
POLICIES = ("earliest", "latest")


def ending(trace: Trace) -> str:
    """What a run's verdict comes to."""
    counts = judge(trace).counts
    return "loses" if counts["lost"] else "repeats" if counts["duplicated"] else "goes on"


@exercise(Each(tuple(situation for situation, _, _ in SITUATIONS), choice(*ENDINGS)))
def endings(word: str, place: int) -> Rows:
    _, name, knobs = SITUATIONS[place]
    trace = run(name, **knobs)
    answered = [step.number for step in trace if step.what == "answer"][-1]
    yield word != ending(trace) and Unlike(picture=partial(show, trace, at=answered))


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
    config = OffsetConfig(retention * HOUR_MS, interval_ms, load_records_per_s=1, load_chunk_records=1)
    manager = OffsetManager(1, RULES["0.8.2"], config, started_ms=purge_ms - interval_ms, now_ms=now_ms)
    manager.lead(log, now_ms)
    manager.advance(now_ms + HOUR_MS // 2)
    return {key[0]: value.committed_offset for key, value in manager.cache.offsets.items()}


@exercise(Function(loads, mapping))
def after_the_load(got: Any, records: Sequence[Sequence[Any]], read: int, retention: int) -> Rows:
    right = truth_of_load(records, read, retention)
    groups = sorted(str(each) for each in {*got, *right} if got.get(each, ...) != right.get(each, ...))
    yield groups and Miss(
        "group", records=records, read=read, retention=retention, got=as_text(got), groups=groups,
        right=right.get(groups[0], "no offset"),
    )


@exercise(Edge("load_records_per_s", SLOWEST, FASTEST, largest=False, fits=lambda twice: not twice))
def load_speed(speed: int) -> int:
    return judge(run("dead_cleaner", load_records_per_s=speed)).counts["duplicated"]


def seers(trace: Trace) -> set[str]:
    """Which of the three shows that something happened to the offset."""
    signs = signs_of(trace)
    saw = {
        "the offsets topic": bool(signs.rewinds or signs.vanished),
        "the output rate": bool(signs.surges),
        "the lag monitor": any(each.status is Status.REWIND for each in judged_commits(trace)),
    }
    return {name for name in SEERS if saw[name]}


@exercise(Each(("earliest", "latest"), subset(*SEERS), named=True))
def who_sees_it(given: set[str], policy: str) -> Rows:
    trace = run("dead_cleaner", auto_offset_reset=policy)
    wrong = sorted(given ^ seers(trace))
    yield wrong and Miss(
        "sight", policy=policy, wrong=wrong, sees="sees nothing" if wrong[0] in given else "does see something",
        picture=show(trace, part="signs"),
    )


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


def dead_and_alive() -> list[list[Any]]:
    """The looks of each run in which the cleaner dies, and of the same runs in which it lives."""
    found = []
    for is_dead in (True, False):
        for number, knobs in enumerate(DEAD):
            for partitions in LED:
                looks, before = looks_of("dies" if is_dead else "runs", number)
                where = f"{knobs['rounds_a_day']} commits a day from each group, {knobs['days']} days"
                where += f", {partitions} such partitions" if partitions > 1 else ""
                found.append([several(looks, partitions), where, knobs["dies_on_day"] if is_dead else None, before])
    return found


class Alarm(Function):
    """A function that may know no later looks: it is asked again with those up to the one at which it rang."""

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """The rule's own, and then what the alarm says of the first looks alone."""
        function, cases = a_function(answer), self.cases()
        rung = [self.reads(value, RETURNED) for value in values_of(function, [case[:1] for case in cases])]
        for case, at in zip(cases, rung, strict=True):
            yield from asked.rows(at, *case)
        rang = [(case, at) for case, at in zip(cases, rung, strict=True) if at is not None]
        again = [(case, given, at if given > at else None) for case, at in rang for given in (at + 1, at)]
        for (case, given, wanted), had in zip(again, values_of(function, [[case[0][:given]] for case, given, _ in again]), strict=True):
            yield had != wanted and asked.worded(Miss(
                "hindsight", where=case[1], rang=given - (wanted is not None), given=given, wanted=wanted, had=as_text(had)
            ))
        yield asked.say("right", dead=len(DEAD), days=DAYS_BEFORE)


@exercise(Alarm(dead_and_alive, maybe(whole_number)))
def own_alarm(rung: Any, looks: list[Any], where: str, dies_on_day: int | None, before: int) -> Rows:
    if dies_on_day is None:
        yield rung is not None and Miss("rings", where=where, rung=rung, look_there=as_text(looks[rung : rung + 1]))
        return
    latest = before - DAYS_BEFORE - 1
    yield rung is None and Miss("never", where=where, dies_on_day=dies_on_day, latest=latest)
    yield rung > latest and Miss("late", where=where, rung=rung, last=before - 1, latest=latest)
    yield rung <= dies_on_day - 1 and Miss("early", where=where, rung=rung, dies_on_day=dies_on_day)


@exercise(Each(POLICIES, whole_number, named=True))
def after_the_outage(given: int, policy: str) -> Rows:
    trace = run("reset_policy", policy=policy, **OUTAGE)
    begins = next(step.number for step in trace if step.actor == "B" and step.what == "start")
    yield given != judge(trace).counts["lost"] and Unlike(picture=partial(show, trace, at=begins))


def starts() -> list[tuple[int | None, int, int, str]]:
    """(committed, log start, log end, policy) for the learner's function; the borders are among them."""
    rng = Random(3)
    found: list[tuple[int | None, int, int, str]] = [
        (5, 5, 9, "latest"), (9, 5, 9, "earliest"), (0, 0, 9, "latest"), (10, 5, 9, "earliest"), (4, 5, 9, "latest"),
        (None, 0, 0, "none"), (4, 5, 9, "none"), (10, 5, 9, "none"), (7, 7, 7, "none"), (None, 3, 8, "earliest"),
    ]  # fmt: skip
    for _ in range(40):
        start = rng.randint(0, 20)
        committed = rng.choice((None, rng.randint(0, 40), rng.randint(0, 40)))
        found.append((committed, start, start + rng.randint(0, 15), rng.choice(("earliest", "latest", "none"))))
    return found


@exercise(Function(starts, maybe(whole_number)))
def where_it_begins(got: int | None, *case: Any) -> Rows:
    try:
        right = start_position(*case)
    except (NoOffsetForPartitionError, OffsetOutOfRangeError):
        right = None
    yield got != right and Miss("other", case=case, got=got, right=right)


@exercise(Knobs("reset_by_hand", only=("check",)))
def no_effect_twice(turned: Turned) -> Rows:
    twice, rows = turned.verdict.counts["duplicated"], turned.trace.steps[-1].data.get("rows")
    where = "" if turned.trace.settings.check == NO_CHECK else f" The table has {rows} rows, one for each record."
    yield twice and Miss("twice", twice=twice, happens="effect happens" if twice == 1 else "effects happen", where=where)
    yield Right()
