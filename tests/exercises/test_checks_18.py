"""The exercises of notebook 18: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from tests.exercises.solutions import slips

SOLUTIONS: list[tuple[str, Any, str]] = [
    ("after_the_event", ..., "48 cases"),
    ("nothing_twice", ..., "uses its lock up in the queue"),
    ("consumers_it_may_end", ..., "After 5 dead consumers the record is archived"),
]
WRONG: list[tuple[str, Any, str]] = [
    *slips(
        "after_the_event",
        ('"archived" if delivery >= limit else ', "", "that was the last delivery"),
        (">= limit", "> limit", "that was the last delivery"),
        ("if delivery", 'if event != "time-out" and delivery', "45 of 48 are right; the first that is not: after('time-out', 1, 1)"),
        ('case "renew"', 'case "renew" | "closed"', "after('closed', 1, 1) should return 'archived'"),
    ),
    ("nothing_twice", {"consumers": 1}, "offset 14 is processed twice."),
    ("nothing_twice", {"max_locks": 10}, "the whole group waits for the slow one"),
    ("nothing_twice", {"lock_ms": 5_000}, "lock_ms belongs to the story"),
    ("nothing_twice", {"max_poll_records": 1, "process_ms": 10}, "turn one knob"),
    ("consumers_it_may_end", 5, "a record that ends 5 consumers is archived"),
    ("consumers_it_may_end", 3, "3 is not the largest: 4 works too"),
    ("consumers_it_may_end", 0, "0 is not the largest: 1 works too"),
]
