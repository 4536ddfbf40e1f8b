"""The exercises of notebook 16: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import check, nb_16
from kitlib.kafka.hashes import partition_of_key

OURS = {"16_connect_and_streams": nb_16.EXERCISES}


def good_moved(keys: list[str], before: int, after: int) -> list[str]:
    return [key for key in keys if partition_of_key(key.encode(), before) != partition_of_key(key.encode(), after)]


def new_partitions_only(keys: list[str], before: int, after: int) -> list[str]:
    return [key for key in keys if partition_of_key(key.encode(), after) >= before]


def everybody(keys: list[str], before: int, after: int) -> list[str]:
    return keys


def nobody(keys: list[str], before: int, after: int) -> list[str]:
    return []


def other_keys(keys: list[str], before: int, after: int) -> list[str]:
    return ["x"]


def a_number(keys: list[str], before: int, after: int) -> int:
    return 3


def raises(*_: Any) -> Any:
    raise ValueError("no")


def good_lead(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    names = sorted(workers)
    dealt: dict[str, list[str]] = {worker: [] for worker in workers}
    work = sorted(connectors) + [
        f"{name}-{number}" for name in sorted(connectors) for number in range(connectors[name])
    ]
    for at, each in enumerate(work):
        dealt[names[at % len(names)]].append(each)
    return dealt


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
    return good_moved(keys, before, after) * 2


def no_connectors(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    return {worker: [each for each in told if "-" in each] for worker, told in good_lead(connectors, workers).items()}


def first_takes_all(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    return {min(workers): [*connectors]}


def numbers(connectors: dict[str, int], workers: list[str]) -> dict[str, Any]:
    return dict.fromkeys(workers, 7)


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("nobodys_task", 144, "two rebalances"),
    ("flush_often_enough", 9, "at worst 1,200 records"),
    ("moved_keys", good_moved, "6 to 8: 7"),
    ("busy_threads", 5, "15 in all"),
    ("own_leader", good_lead, "all "),
]
WRONG: list[tuple[str, Any, str]] = [
    ("nobodys_task", 42, "the worker is back by then"),
    ("nobodys_task", 120, "another number than 120 s"),
    ("nobodys_task", 140, "another number"),
    ("nobodys_task", 40, "another number"),
    ("nobodys_task", "144 s", "should be a number"),
    ("flush_often_enough", 8, "9 s are as well"),
    ("flush_often_enough", 10, "repeats 1,350 records"),
    ("flush_often_enough", 1, "are short enough"),
    ("flush_often_enough", 0, "expected 1 to 60"),
    ("flush_often_enough", 8.5, "whole number"),
    ("moved_keys", new_partitions_only, "goes from partition"),
    ("moved_keys", everybody, "stays in partition"),
    ("moved_keys", nobody, "goes from partition"),
    ("moved_keys", other_keys, "is none of the keys"),
    ("moved_keys", a_number, "should return a list of keys"),
    ("moved_keys", raises, "raised ValueError"),
    ("busy_threads", 4, "with one more all have as well"),
    ("busy_threads", 6, "have nothing to do"),
    ("busy_threads", 11, "have nothing to do"),
    ("busy_threads", 12, "expected 1 to 11"),
    ("busy_threads", "five", "should be a number"),
    ("own_leader", tasks_as_texts, "w1 should run ['a', 'a-1', 'a-10', 'a-4', 'a-7', 'b-1'], and has"),
    ("own_leader", connectors_as_they_come, "should run"),
    ("own_leader", tasks_as_they_come, "should run"),
    ("own_leader", workers_as_they_come, "should run"),
    ("moved_keys", moved_twice, "from 6 to 12 partitions your function names a key more than once, expected each once"),
    ("own_leader", begins_again, "should run"),
    ("own_leader", as_they_come, "should run"),
    ("own_leader", no_connectors, "should run"),
    ("own_leader", first_takes_all, "should run"),
    ("own_leader", numbers, "should be a list of names"),
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
    assert len(cases) == 69 and any(workers != sorted(workers) for _, workers, _ in cases)
