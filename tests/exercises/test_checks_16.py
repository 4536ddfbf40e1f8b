"""The exercises of notebook 16: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import check, nb_16
from kitlib.more.hashes import partition_of_key
from tests.exercises import solutions


def new_partitions_only(keys: list[str], before: int, after: int) -> list[str]:
    return [key for key in keys if partition_of_key(key.encode(), after) >= before]


def raises(*_: Any) -> Any:
    raise ValueError("no")


def begins_again(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    names = sorted(workers)
    tasks = [f"{name}-{number}" for name in sorted(connectors) for number in range(connectors[name])]
    return {name: sorted(connectors)[at :: len(names)] + tasks[at :: len(names)] for at, name in enumerate(names)}


def as_they_come(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    dealt: dict[str, list[str]] = {worker: [] for worker in workers}
    work = list(connectors) + [f"{name}-{number}" for name in connectors for number in range(connectors[name])]
    for at, each in enumerate(work):
        dealt[workers[at % len(workers)]].append(each)
    return dealt


def tasks_as_texts(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    names = sorted(workers)
    tasks = sorted(f"{name}-{number}" for name, count in connectors.items() for number in range(count))
    work = sorted(connectors) + tasks
    return {name: work[at :: len(names)] for at, name in enumerate(names)}


def connectors_as_they_come(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    names = sorted(workers)
    work = [*connectors, *(f"{name}-{number}" for name in sorted(connectors) for number in range(connectors[name]))]
    return {name: work[at :: len(names)] for at, name in enumerate(names)}


def tasks_as_they_come(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    names = sorted(workers)
    work = [*sorted(connectors), *(f"{name}-{number}" for name in connectors for number in range(connectors[name]))]
    return {name: work[at :: len(names)] for at, name in enumerate(names)}


def workers_as_they_come(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    work = sorted(connectors) + [f"{name}-{number}" for name in sorted(connectors) for number in range(connectors[name])]
    return {name: work[at :: len(workers)] for at, name in enumerate(workers)}


def moved_twice(keys: list[str], before: int, after: int) -> list[str]:
    return solutions.moved(keys, before, after) * 2


def no_connectors(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    return {worker: [each for each in told if "-" in each] for worker, told in solutions.lead(connectors, workers).items()}


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
    ("nobodys_task", "144 s", "should be a number"),
    ("flush_often_enough", 8, "8 s is not the largest: 9 s works too (1,200 records)"),
    ("flush_often_enough", 10, "repeats 1,350 records"),
    ("flush_often_enough", 1, "2 s works too"),
    ("flush_often_enough", 0, "expected 1 to 60"),
    ("flush_often_enough", 8.5, "whole number"),
    ("moved_keys", new_partitions_only, "goes from partition"),
    ("moved_keys", lambda keys, before, after: keys, "stays in partition"),
    ("moved_keys", lambda keys, before, after: [], "goes from partition"),
    ("moved_keys", lambda keys, before, after: ["x"], "'x' is not one of the keys"),
    ("moved_keys", lambda keys, before, after: 3, "what your function returns should be a list of keys"),
    ("moved_keys", raises, "raised ValueError"),
    ("busy_threads", 4, "4 is not the largest"),
    ("busy_threads", 6, "have nothing to do"),
    ("busy_threads", 11, "have nothing to do"),
    ("busy_threads", 12, "expected 1 to 11"),
    ("busy_threads", "five", "should be a number"),
    ("own_leader", tasks_as_texts, "w1 should run ['a', 'a-1', 'a-10', 'a-4', 'a-7', 'b-1']; in your answer"),
    ("own_leader", connectors_as_they_come, "should run"),
    ("own_leader", tasks_as_they_come, "should run"),
    ("own_leader", workers_as_they_come, "should run"),
    ("moved_keys", moved_twice, "what your function returns names a key more than once; expected each once"),
    ("own_leader", begins_again, "should run"),
    ("own_leader", as_they_come, "should run"),
    ("own_leader", no_connectors, "should run"),
    ("own_leader", lambda connectors, workers: {min(workers): [*connectors]}, "should run"),
    ("own_leader", lambda connectors, workers: dict.fromkeys(workers, 7), "should be a list of names"),
    ("own_leader", raises, "raised ValueError"),
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
