"""The exercises of notebook 18: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from tests.exercises import solutions


def stub(event: str, delivery: int, limit: int) -> str:
    return "acknowledged" if event == "accept" else "available"


def one_too_many(event: str, delivery: int, limit: int) -> str:
    return solutions.after(event, delivery, limit + 1)


def lock_does_not_count(event: str, delivery: int, limit: int) -> str:
    return "available" if event == "time-out" else solutions.after(event, delivery, limit)


def closed_does_not_count(event: str, delivery: int, limit: int) -> str:
    return "acquired" if event == "closed" else solutions.after(event, delivery, limit)


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("after_the_event", ..., "48 cases"),
    ("nothing_twice", ..., "uses its lock up in the queue"),
    ("consumers_it_may_end", ..., "After 5 dead consumers the record is archived"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("after_the_event", stub, "that was the last delivery"),
    ("after_the_event", one_too_many, "that was the last delivery"),
    ("after_the_event", lock_does_not_count, "45 of 48 are right; the first that is not: after('time-out', 1, 1)"),
    ("after_the_event", closed_does_not_count, "after('closed', 1, 1) should return 'archived'"),
    ("after_the_event", lambda event, delivery, limit: "done", "one of 'available', 'acquired'"),
    ("nothing_twice", {"consumers": 1}, "offset 14 is processed twice."),
    ("nothing_twice", {"max_locks": 10}, "the whole group waits for the slow one"),
    ("nothing_twice", {"lock_ms": 5_000}, "lock_ms belongs to the story"),
    ("nothing_twice", {"max_poll_records": 1, "process_ms": 10}, "turn one knob"),
    ("consumers_it_may_end", 5, "a record that ends 5 consumers is archived"),
    ("consumers_it_may_end", 3, "3 is not the largest: 4 works too"),
    ("consumers_it_may_end", 0, "0 is not the largest: 1 works too"),
    ("consumers_it_may_end", 9, "expected 0 to 8"),
]
