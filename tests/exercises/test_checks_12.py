"""The exercises of notebook 12: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.nb_12 import SEERS, loads, truth_of_load
from tests.exercises import solutions
from tests.exercises.solutions import slip, slips

AS_TODAY = slip("after_the_load", "number == read", "False")  # the tombstones are the last word, but only for what is old


def first(condition: Any) -> Any:
    """The number of the first look of which the condition is true."""
    return lambda looks: next((number for number, look in enumerate(looks) if condition(look)), None)


too_many_records = first(lambda look: look["records"] > 11 * look["keys"])


def a_look_too_early(looks: list[dict[str, Any]]) -> int | None:
    """It tells the look before the one at which it knew."""
    rung = too_many_records(looks)
    return None if rung is None else rung - 1


def knows_how_it_ends(looks: list[dict[str, Any]]) -> int | None:
    """It looks for the day after which it never got better."""
    ratios = [look["records"] / max(look["keys"], 1) for look in looks]
    if max(ratios) < 11:
        return None
    return next(number for number in range(3, len(looks)) if all(each > 7 for each in ratios[number:]))


RIGHT = ["repeats", "loses", "repeats", "loses", "goes on"]
SOLUTIONS: list[tuple[str, Any, str]] = [
    ("endings", ..., "and no policy is consulted"),
    ("after_the_load", ..., "16 loads"),
    ("load_speed", ..., "before the first purge"),
    ("who_sees_it", ..., "only the offsets topic sees a loss"),
    ("own_alarm", ..., "6 living ones left in peace"),
    ("own_alarm", too_many_records, "6 dead cleaners found"),
    ("after_the_outage", ..., "`latest` gives up the other twelve"),
    ("where_it_begins", ..., "a committed offset that lies in the log is always used"),
    ("no_effect_twice", ..., "so make them one step"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("endings", ["loses", *RIGHT[1:]], "situation 1, the incident as it was"),
    ("endings", ["repeats", "repeats", *RIGHT[2:]], "situation 2, the same, with a retention that works"),
    ("endings", [*RIGHT[:3], "repeats", "goes on"], "situation 4"),
    ("after_the_load", AS_TODAY, "should have"),
    *slips("after_the_load", (" if group not in purged}", "}", "Where does its tombstone end up?")),
    ("after_the_load", lambda records, read, retention: {group: [offset, age] for group, offset, age in records}, "should have"),
    ("load_speed", 3, "24 records are sent twice"),
    ("load_speed", 5, "5 is not the smallest"),
    ("load_speed", 1, "24 records are sent twice"),
    ("who_sees_it", {"earliest": list(SEERS), "latest": list(SEERS)}, "with latest, the lag monitor sees nothing"),
    ("who_sees_it", {"earliest": list(SEERS), "latest": []}, "with latest, the offsets topic does see something"),
    ("who_sees_it", {"earliest": ["the offsets topic"], "latest": ["the offsets topic"]}, "with earliest, the lag monitor does see"),
    ("own_alarm", knows_how_it_ends, "With only the first 4 it should return 3"),
    ("own_alarm", first(lambda look: look["records"] > 30), "3 such partitions: at look 1 the cleaner is still alive"),
    ("after_the_load", lambda records, read, retention: solutions.after_the_load(records, read, retention - 1), "and group a should have"),
    ("own_alarm", first(lambda look: look["dirty_ratio"] > 0.5), "at look 1 the cleaner is still alive"),
    ("own_alarm", first(lambda look: (look["load_ms"] or 0) > 60_000), "is too late"),
    ("own_alarm", lambda looks: None, "your alarm never rings"),
    ("own_alarm", lambda looks: 9, "your alarm rings at look 9"),
    ("own_alarm", a_look_too_early, "With only the first 5 it should return 4, but returns None"),
    ("after_the_outage", {"earliest": 0, "latest": 140}, "earliest: 0 is not right"),
    ("after_the_outage", {"earliest": 20, "latest": 120}, "latest: 120 is not right"),
    ("after_the_outage", {"earliest": 20, "latest": 150}, "latest: 150 is not right"),
    *slips(
        "where_it_begins",
        ("committed is not None and log_start <= committed <= log_end", "False", "a consumer does something else"),
        (" and log_start <= committed <= log_end", "", "a consumer does something else"),
        ("<= log_end", "< log_end", "a consumer does something else"),
        (".get(policy)", '.get(policy, "error")', "what your function returns should be a number"),
    ),
    ("no_effect_twice", {"check": "before the effect"}, "1 effect happens twice"),
    ("no_effect_twice", {"check": "after the effect"}, "The table has 60 rows"),
    ("no_effect_twice", {}, "The table has 60 rows"),
    ("no_effect_twice", {"check": "none"}, "66 effects happen twice"),
]


def test_loads_of_the_exercise_are_such_that_the_purge_matters() -> None:
    """In most of them the cache is another one than after a load without a purge, and never is it trivial to tell."""
    differ = [truth_of_load(records, read, hours) != AS_TODAY(records, read, hours) for records, read, hours in loads()]
    assert sum(differ) >= 8 and not all(differ)
