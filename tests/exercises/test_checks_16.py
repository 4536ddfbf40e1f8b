"""The exercises of notebook 16: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import check, nb_16
from tests.exercises.solutions import slips

DEALT = "work[at :: len(names)]"


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("nobodys_task", ..., "two rebalances"),
    ("flush_often_enough", ..., "at worst 1,200 records"),
    ("moved_keys", ..., "6 to 8: 7"),
    ("busy_threads", ..., "15 in all"),
    ("own_leader", ..., "all "),
]
WRONG: list[tuple[str, Any, str]] = [
    ("nobodys_task", 42, "by then the worker is back"),
    ("nobodys_task", 120, "the run gives a different number than 120 s"),
    ("nobodys_task", 140, "a different number than 140 s"),
    ("nobodys_task", 40, "a different number than 40 s"),
    ("flush_often_enough", 8, "8 s is not the largest: 9 s works too (1,200 records)"),
    ("flush_often_enough", 10, "repeats 1,350 records"),
    ("flush_often_enough", 1, "2 s works too"),
    *slips("moved_keys", ("before) != partition_of_key(key.encode(), after)", "after) >= before", "goes from partition")),
    ("moved_keys", lambda keys, before, after: keys, "stays in partition"),
    ("moved_keys", lambda keys, before, after: [], "goes from partition"),
    ("moved_keys", lambda *_: int("no"), "raised ValueError"),
    ("moved_keys", lambda keys, before, after: ["x"], "'x' is not one of the keys"),
    ("moved_keys", lambda keys, before, after: 3, "what your function returns should be a list of keys"),
    ("busy_threads", 4, "4 is not the largest"),
    ("busy_threads", 6, "have nothing to do"),
    ("busy_threads", 11, "have nothing to do"),
    *slips(
        "own_leader",
        ("    work =", "    tasks.sort()\n    work =", "w1 should run ['a', 'a-1', 'a-10', 'a-4', 'a-7', 'b-1']; in your answer"),
        ("= sorted(connectors)", "= list(connectors)", "should run"),
        ("in sorted(connectors)", "in connectors", "should run"),
        ("sorted(workers)", "workers", "should run"),
        (DEALT, f"sorted(connectors)[at :: len(names)] + {DEALT.replace('work', 'tasks')}", "should run"),
        ("sorted(workers)", "workers", "= sorted(connectors)", "= list(connectors)", "in sorted(connectors)", "in connectors",
         "should run"),
        (DEALT, f'[each for each in {DEALT} if "-" in each]', "should run"),
    ),
    ("own_leader", lambda connectors, workers: {min(workers): [*connectors]}, "should run"),
    ("own_leader", lambda *_: int("no"), "raised ValueError"),
    ("own_leader", lambda connectors, workers: dict.fromkeys(workers, 7), "should be a list of names"),
]


def test_check_shows_what_ran_when_the_worker_came_back() -> None:
    """A wrong number of seconds, or of threads, comes with the layout."""
    assert (
        "nowhere" in check("nobodys_task", 42).picture.svg and "nothing to do" in check("busy_threads", 6).picture.svg
    )


def test_eager_rebalances_are_all_there() -> None:
    """Every recorded rebalance of the eager protocol is asked, with the workers in no order."""
    cases = nb_16.eager_rebalances()
    assert len(cases) == 69 and any(workers != sorted(workers) for _, workers in cases)
