"""The exercises of notebook 17: how many seeds, which bound is safe, a run with a property, what a query moves."""

from __future__ import annotations

from random import Random
from typing import Any

from kitlib.exercises.answers import expected, whole_number
from kitlib.exercises.frame import Each, Edge, Function, Knobs, Miss, Right, Rows, Turned, Unlike, exercise

RARE = 0.05  # of the seeds lose a record, in seeds_needed
SURE = 0.95
BOUNDS = (0, 5, 10, 20, 40)  # of safe_bound
CASES = 40
FIRST_CASE = {0: (0, 0), 5: (1, 0), 10: (0, None), 20: (0, 0), 40: (0, 0)}  # what each seed of a bound lost; None: it raised
FEW_RECORDS = 30  # of silent_loss
QUERIES: tuple[tuple[str, int], ...] = (  # (SQL on the sweep's rows, how often its plan says Exchange)
    ("SELECT * FROM runs WHERE lost > 0", 0),
    ("SELECT max_offset_behind, count(*) FROM runs GROUP BY max_offset_behind", 1),
    ("SELECT max_offset_behind, count(*) FROM runs GROUP BY max_offset_behind ORDER BY max_offset_behind", 2),
    ("SELECT seed, lost, processed - lost AS more FROM runs", 0),
)


@exercise(Edge("the number of seeds", 1, 10_000, largest=False, fits=lambda seen: seen >= SURE))
def seeds_needed(seeds: int) -> float:
    return float(1 - (1 - RARE) ** seeds)


def swept_row(bound: int, seed: int, lost: int | None) -> dict[str, Any]:
    """A row as a sweep has it."""
    return {"max_offset_behind": bound, "seed": seed, "lost": lost, "error": "TraceError: no more room" if lost is None else None}


def swept_rows() -> list[list[list[dict[str, Any]]]]:
    """Rows of small sweeps: three seeds for each bound, with losses, a bound of 0 that loses nothing, and runs that raised."""
    rng, found = Random(17), [[[swept_row(bound, seed, lost) for bound, of in FIRST_CASE.items() for seed, lost in enumerate(of, 1)]]]
    while len(found) < CASES:
        worst = rng.choice((0, *BOUNDS))  # losses up to this bound
        rows = []
        for bound in rng.sample(BOUNDS, len(BOUNDS)):
            for seed in (1, 2, 3):
                lost = rng.choice((0, 1, 4)) if 0 < bound <= worst else 0
                rows.append(swept_row(bound, seed, None if rng.random() < 0.04 else lost))
        found.append([rows])
    return found


def bound_or_none(value: Any, what: str) -> int | None:
    """What `safe_bound` returns."""
    if value is not None and value not in BOUNDS:
        raise expected(what, "one of the bounds of the rows, or None", value)
    return None if value is None else whole_number(value, what)


@exercise(Function(swept_rows, bound_or_none))
def safe_bound(given: int | None, rows: list[dict[str, Any]]) -> Rows:
    losing = {row["max_offset_behind"] for row in rows if row["lost"]}
    broken = {row["max_offset_behind"] for row in rows if row["error"]}
    safe = [bound for bound in BOUNDS if bound > max(losing | broken, default=-1)]
    right = safe[0] if safe else None
    yield given in losing and Miss("loses", given=given, right=right)
    yield given in broken and Miss("broke", given=given, right=right)
    yield given is not None and given < max(losing | broken, default=-1) and Miss(
        "not above", given=given, worst=max(losing | broken), right=right
    )
    yield given != right and Unlike(right)


@exercise(Knobs("small_max_offset_behind"))
def silent_loss(turned: Turned) -> Rows:
    counts, told = turned.verdict.counts, turned.trace.settings
    yield (told.outage_from_ms, told.outage_ms) != (50, 600) and Miss("outage")
    yield counts["lost"] == 0 and Miss("nothing lost", turned=turned)
    yield counts["stalled"] > 0 and Miss("stalls", turned=turned, counts=counts)
    yield told.records > FEW_RECORDS and Miss("too long", turned=turned, told=told, few_records=FEW_RECORDS)
    yield Right(turned=turned, counts=counts, told=told)


@exercise(Each(tuple(query for query, _ in QUERIES), whole_number, noun="numbers"))
def exchanges(given: int, place: int) -> Rows:
    yield given != QUERIES[place][1] and Unlike()
