"""The exercises of notebook 10: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from random import Random
from typing import Any

from kitlib.exercises.nb_10 import groups, most_kept
from tests.exercises import solutions
from tests.exercises.solutions import slips

TWO = "max(0, committed - processed), max(0, processed - committed)"
SOLUTIONS: list[tuple[str, Any, str]] = [
    ("after_the_crash", ..., "what was fetched does not matter"),
    ("committable", ..., "without a gap"),
    ("stand_still", ..., "The four others are read meanwhile"),
    ("which_clock", ..., "so only its polls give it away"),
    ("which_clock", ("Poll", "nobody", "SESSION", "session"), "so only its polls give it away"),
    ("poll_size", ..., "Then 240 records are processed twice"),
    ("own_assignor", ..., "40 groups"),
]
WRONG: list[tuple[str, Any, str]] = [
    *slips(
        "after_the_crash",
        ("max(0, committed - processed)", "fetched - processed if processed < committed else 0",
         "fetched 207: 50 are lost and 0 processed twice; your function says 57 and 0"),
        (TWO, "0, fetched - committed", "0 are lost and 50 processed twice; your function says 0 and 100"),
        (TWO, "abs(processed - committed)", "what your function returns should be a list of 2 numbers"),
        (TWO, "max(0, processed - committed), max(0, committed - processed)",
         "0 are lost and 50 processed twice; your function says 50 and 0"),
        (TWO, "0, 0", "0 are lost and 50 processed twice; your function says 0 and 0"),
    ),
    ("committable", lambda first, finished: finished[-1] + 1 if finished else first, "is not finished: a crash would lose it"),
    ("committable", lambda first, finished: solutions.committable(first, finished) - 1, "The committed offset is the next to be read"),
    ("committable", lambda first, finished: first, "repeat more than it must"),
    ("stand_still", {"eager": 6, "cooperative": 3}, "cooperative members do not give up 3 partitions"),
    ("stand_still", {"eager": 3, "cooperative": 2}, "eager members do not give up 3 partitions"),
    ("which_clock", ["session", "nobody", "session", "session"], "situation 1, a batch takes 2.6 s"),
    ("which_clock", ["poll", "poll", "session", "session"], "situation 2"),
    ("which_clock", ["poll", "nobody", "poll", "session"], "situation 3"),
    ("which_clock", ["poll", "nobody", "session", "poll"], "situation 4"),
    ("poll_size", 20, "with 20 records in a poll 240"),
    ("poll_size", 18, "18 is not the largest"),
    ("poll_size", 25, "How long does such a batch take?"),
    *slips(
        "own_assignor",
        ("owned[name][:room]", "[]", "stay where they are"),
        (" and len(owned[name]) > share)", ")", "sorted(owned, key=lambda each: -len(owned[each]))", "owned", "Who may keep one more?"),
        ("owned[name][:room]", "list(owned[name])", "the largest may be at most one above the smallest"),
    ),
    ("own_assignor", lambda partitions, owned: {name: list(has) for name, has in owned.items()}, "each partition should be assigned once"),
    ("own_assignor", lambda partitions, owned: {name: list(range(partitions)) for name in owned}, "each partition should be assigned once"),
    ("own_assignor", lambda partitions, owned: [], "a dict with a list for each member"),
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
