"""The exercises of notebook 12: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import nb_12
from kitlib.exercises.nb_12 import SEERS, loads, truth_of_load

OURS = {"12_two_incidents": nb_12.EXERCISES}

Records = list[list[Any]]


def load_with_purge(records: Records, read: int, retention: int) -> dict[str, int]:
    cache: dict[str, tuple[int, int]] = {}
    purged: list[str] = []
    for number, (group, offset, age) in enumerate(records):
        if number == read:
            purged = [each for each, (_, old) in cache.items() if old > retention]
            cache = {each: kept for each, kept in cache.items() if each not in purged}
        if offset is None:
            cache.pop(group, None)
        else:
            cache[group] = offset, age
    return {group: kept[0] for group, kept in cache.items() if group not in purged}


def old_as_retention_is_gone(records: Records, read: int, retention: int) -> dict[str, int]:
    return load_with_purge(records, read, retention - 1)


def as_today(records: Records, read: int, retention: int) -> dict[str, int]:
    """The purge waits for the load; its tombstones are the last word, but only for what is old."""
    cache = {group: offset for group, offset, _ in records}
    return {group: offset for group, offset in cache.items() if offset is not None}


def purge_alone(records: Records, read: int, retention: int) -> dict[str, int]:
    """The purge takes things out of the cache, and its tombstones are forgotten."""
    cache: dict[str, tuple[int, int]] = {}
    for number, (group, offset, age) in enumerate(records):
        if number == read:
            cache = {each: kept for each, kept in cache.items() if kept[1] <= retention}
        cache.pop(group, None)
        if offset is not None:
            cache[group] = offset, age
    return {group: kept[0] for group, kept in cache.items()}


def with_ages(records: Records, read: int, retention: int) -> dict[str, list[int]]:
    return {group: [offset, age] for group, offset, age in records}


def a_list(records: Records, read: int, retention: int) -> Records:
    return records


def twice_in_a_row(looks: list[dict[str, Any]]) -> int | None:
    """A dirty ratio that two looks have in common is one that nobody has brought down."""
    dirty = [(look["dirty_ratio"] or 0) > 0.84 for look in looks]
    return next((number for number in range(3, len(looks)) if dirty[number] and dirty[number - 1]), None)


def too_many_records(looks: list[dict[str, Any]]) -> int | None:
    return next((number for number, look in enumerate(looks) if look["records"] > 11 * look["keys"]), None)


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


def more_than_30(looks: list[dict[str, Any]]) -> int | None:
    return next((number for number, look in enumerate(looks) if look["records"] > 30), None)


def any_dirt(looks: list[dict[str, Any]]) -> int | None:
    return next((number for number, look in enumerate(looks) if look["dirty_ratio"] > 0.5), None)


def long_load(looks: list[dict[str, Any]]) -> int | None:
    return next((number for number, look in enumerate(looks) if (look["load_ms"] or 0) > 60_000), None)


def never(looks: list[dict[str, Any]]) -> int | None:
    return None


def at_once(looks: list[dict[str, Any]]) -> int:
    return 9


def word(looks: list[dict[str, Any]]) -> str:
    return "now"


RIGHT = ["repeats", "loses", "repeats", "loses", "goes on"]
SOLUTIONS: list[tuple[str, Any, str]] = [
    ("endings", RIGHT, "no policy is asked"),
    ("after_the_load", load_with_purge, "16 loads"),
    ("load_speed", 4, "before the first purge"),
    ("who_sees_it", {"earliest": list(SEERS), "latest": ["the offsets topic"]}, "by the offsets topic alone"),
    ("own_alarm", twice_in_a_row, "6 living ones left in peace"),
    ("own_alarm", too_many_records, "6 dead cleaners found"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("endings", ["loses", *RIGHT[1:]], "in situation 1, the incident as it was"),
    ("endings", ["repeats", "repeats", *RIGHT[2:]], "in situation 2, the same, with a retention that works"),
    ("endings", [*RIGHT[:3], "repeats", "goes on"], "in situation 4"),
    ("endings", RIGHT[:4], "a list of 5 words"),
    ("endings", [*RIGHT[:4], "stops"], "each word should be one of 'goes on', 'repeats', 'loses'"),
    ("after_the_load", as_today, "should have"),
    ("after_the_load", purge_alone, "Where does its tombstone come to stand?"),
    ("after_the_load", with_ages, "should have"),
    ("after_the_load", a_list, "should return a dict"),
    ("after_the_load", {"a": 1}, "should be a function"),
    ("load_speed", 3, "24 records are sent twice"),
    ("load_speed", 5, "and at 4 nothing is either"),
    ("load_speed", 1, "24 records are sent twice"),
    ("load_speed", 0, "expected 1 to 50"),
    ("load_speed", "4/s", "should be a number"),
    ("who_sees_it", {"earliest": list(SEERS), "latest": list(SEERS)}, "with latest, the lag monitor sees nothing"),
    ("who_sees_it", {"earliest": list(SEERS), "latest": []}, "with latest, the offsets topic does see something"),
    ("who_sees_it", {"earliest": ["the offsets topic"], "latest": ["the offsets topic"]}, "with earliest, the lag monitor does see"),
    ("who_sees_it", {"earliest": ["Burrow"], "latest": []}, "should be one of 'the offsets topic'"),
    ("who_sees_it", list(SEERS), "should be a dict"),
    ("own_alarm", a_look_too_early, "Given the first 5 alone it should return 4, and returns None"),
    ("own_alarm", knows_how_it_ends, "alone it should return"),
    ("own_alarm", more_than_30, "3 such partitions: at look 1 the cleaner still lives"),
    ("after_the_load", old_as_retention_is_gone, "and group a should have"),
    ("own_alarm", any_dirt, "the cleaner still lives"),
    ("own_alarm", long_load, "is too late"),
    ("own_alarm", never, "your alarm never rings"),
    ("own_alarm", at_once, "your alarm rings at look 9"),
    ("own_alarm", word, "should be a number"),
]


def test_loads_of_the_exercise_are_such_that_the_purge_matters() -> None:
    """In most of them the cache is another one than after a load without a purge, and never is it trivial to tell."""
    differ = [truth_of_load(records, read, hours) != as_today(records, read, hours) for records, read, hours in loads()]
    assert sum(differ) >= 8 and not all(differ)
