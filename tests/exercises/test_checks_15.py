"""The exercises of notebook 15: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from random import Random
from typing import Any

from kitlib.exercises import nb_15
from kitlib.exercises.nb_15 import groups, most_kept

OURS = {"15_groups_and_rebalances": nb_15.EXERCISES}

# -- after_the_crash -----------------------------------------------------------------------------------


def two_differences(committed: int, processed: int, fetched: int) -> Any:
    return max(0, committed - processed), max(0, processed - committed)


def from_fetched(committed: int, processed: int, fetched: int) -> Any:
    return 0, fetched - committed


def lost_up_to_fetched(committed: int, processed: int, fetched: int) -> Any:
    lost, twice = two_differences(committed, processed, fetched)
    return (fetched - processed if lost else 0), twice


def the_other_way_round(committed: int, processed: int, fetched: int) -> Any:
    return max(0, processed - committed), max(0, committed - processed)


def nothing_happens(committed: int, processed: int, fetched: int) -> Any:
    return 0, 0


def only_twice(committed: int, processed: int, fetched: int) -> Any:
    return abs(processed - committed)


# -- committable ---------------------------------------------------------------------------------------


def without_a_gap(first: int, finished: list[int]) -> Any:
    while first in finished:
        first += 1
    return first


def its_own(first: int, finished: list[int]) -> Any:
    return finished[-1] + 1 if finished else first


def last_instead_of_next(first: int, finished: list[int]) -> Any:
    return without_a_gap(first, finished) - 1


def never_moves(first: int, finished: list[int]) -> Any:
    return first


# -- own_assignor --------------------------------------------------------------------------------------


def keeps_what_it_can(partitions: int, owned: dict[str, list[int]]) -> Any:
    share, more = divmod(partitions, len(owned))
    dealt: dict[str, list[int]] = {}
    free = set(range(partitions))
    for name in sorted(owned, key=lambda each: -len(owned[each])):
        room = share + (more > 0 and len(owned[name]) > share)
        more -= room > share
        dealt[name] = owned[name][:room]
        free -= set(dealt[name])
    for room in (share, share + 1):
        for has in dealt.values():
            while free and len(has) < room:
                has.append(free.pop())
    return dealt


def forgets(partitions: int, owned: dict[str, list[int]]) -> Any:
    members = sorted(owned)
    return {name: list(range(partitions))[at :: len(members)] for at, name in enumerate(members)}


def one_more_for_the_first(partitions: int, owned: dict[str, list[int]]) -> Any:
    """Sticky and fair, but the larger shares go by name and not by what somebody has."""
    share, more = divmod(partitions, len(owned))
    rooms = {name: share + (at < more) for at, name in enumerate(owned)}
    dealt = {name: has[: rooms[name]] for name, has in owned.items()}
    free = set(range(partitions)) - {each for has in dealt.values() for each in has}
    for name, has in dealt.items():
        while len(has) < rooms[name]:
            has.append(free.pop())
    return dealt


def takes_from_nobody(partitions: int, owned: dict[str, list[int]]) -> Any:
    """Deals out only what nobody has: sticky, and not fair."""
    dealt = {name: list(has) for name, has in owned.items()}
    for partition in range(partitions):
        if not any(partition in has for has in dealt.values()):
            min(dealt.values(), key=len).append(partition)
    return dealt


def leaves_the_orphans(partitions: int, owned: dict[str, list[int]]) -> Any:
    return {name: list(has) for name, has in owned.items()}


def deals_twice(partitions: int, owned: dict[str, list[int]]) -> Any:
    return {name: list(range(partitions)) for name in owned}


def forgets_a_member(partitions: int, owned: dict[str, list[int]]) -> Any:
    return {"A": list(range(partitions))}


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("after_the_crash", two_differences, "what was fetched does not matter"),
    ("committable", without_a_gap, "without a gap"),
    ("stand_still", {"eager": 6, "cooperative": 2}, "four others are read on"),
    ("which_clock", ["poll", "nobody", "session", "session"], "only its polls tell"),
    ("which_clock", ("Poll", "nobody", "SESSION", "session"), "only its polls tell"),
    ("poll_size", 19, "240 records are done twice"),
    ("own_assignor", keeps_what_it_can, "40 groups"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("after_the_crash", lost_up_to_fetched, "fetched 207: 50 lost and 0 done twice, your function says 57 and 0"),
    ("after_the_crash", from_fetched, "0 lost and 50 done twice, your function says 0 and 100"),
    ("after_the_crash", only_twice, "two numbers"),
    ("after_the_crash", 50, "should be a function"),
    ("after_the_crash", the_other_way_round, "0 lost and 50 done twice, your function says 50 and 0"),
    ("after_the_crash", nothing_happens, "0 lost and 50 done twice, your function says 0 and 0"),
    ("committable", its_own, "is not finished: a crash would lose it"),
    ("committable", last_instead_of_next, "The committed offset is the next to be read"),
    ("committable", never_moves, "repeat more than it must"),
    ("committable", 45, "should be a function"),
    ("committable", lambda first, finished: "45", "what your function returns should be a number"),
    ("stand_still", {"eager": 6, "cooperative": 3}, "with cooperative members"),
    ("stand_still", {"eager": 3, "cooperative": 2}, "with eager members"),
    ("stand_still", {"eager": 6}, "should be a dict like"),
    ("stand_still", 6, "should be a dict like"),
    ("which_clock", ["session", "nobody", "session", "session"], "in situation 1, a batch takes 2.6 s"),
    ("which_clock", ["poll", "poll", "session", "session"], "in situation 2"),
    ("which_clock", ["poll", "nobody", "poll", "session"], "in situation 3"),
    ("which_clock", ["poll", "nobody", "session", "poll"], "in situation 4"),
    ("which_clock", ["poll", "nobody", "session"], "a list of 4 words"),
    ("which_clock", ["poll", "nobody", "session", "heartbeat"], "should be one of"),
    ("poll_size", 20, "with 20 records in a poll 240"),
    ("poll_size", 18, "with 19 nothing is either"),
    ("poll_size", 0, "expected 1 to 40"),
    ("poll_size", 25, "How long does such a batch take?"),
    ("poll_size", 18.5, "should be a whole number"),
    ("own_assignor", forgets, "stay where they are"),
    ("own_assignor", one_more_for_the_first, "Who may keep one more than the others?"),
    ("own_assignor", takes_from_nobody, "more than one above the smallest"),
    ("own_assignor", leaves_the_orphans, "each partition should be dealt once"),
    ("own_assignor", deals_twice, "each partition should be dealt once"),
    ("own_assignor", forgets_a_member, "a list for each of"),
]


def test_most_kept_is_what_an_exhaustive_search_finds() -> None:
    """For small groups: no even deal keeps more partitions where they are."""
    rng = Random(3)
    small = [case for case in groups() if case[0] <= 5 and len(case[1]) <= 3]
    assert small
    for partitions, owned in rng.sample(small, min(5, len(small))):
        names, best = list(owned), 0
        for code in range(len(names) ** partitions):
            deal = [names[code // len(names) ** at % len(names)] for at in range(partitions)]
            sizes = [deal.count(name) for name in names]
            if max(sizes) - min(sizes) <= 1:
                best = max(best, sum(partition in owned[name] for partition, name in enumerate(deal)))
        assert most_kept(partitions, owned) == best, (partitions, owned)
