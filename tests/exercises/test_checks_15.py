"""The exercises of notebook 15: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import nb_15
from kitlib.experiments import run
from tests.exercises import solutions
from tests.exercises.solutions import slips

FIRST_OPEN = "            return given\n        if"
COUNTS = 'kind == "plain" or (kind == "data" and decisions[0] == "COMMIT")'
MISTAKES = slips(
    "own_read_committed",
    (FIRST_OPEN, "            continue\n        if", "an older transaction is open"),
    ("decisions[0]", "decisions[-1]", "the next marker of its producer says abort"),
    ('kind == "data" and not decisions', "False", COUNTS, 'kind in ("data", "plain")', "the next marker of its producer says abort"),
    ('kind == "plain" or ', "", "in the log of commit_and_abort your reader does not get offset 24, which counts"),
    ("given: list[int] = []", "given, stopped = [], False", FIRST_OPEN, "            stopped = True\n        if",
     "decisions[0]", "not stopped and decisions[0]", "hanging_transaction your reader gets offset 11: an older transaction is open"),
    ("range(first, last + 1)", "[first]", "which counts"),
    ("+ 1)\n    return given", "+ 1)\n    return len(given)", "what your function returns should be a list of offsets; got 13"),
)  # fmt: skip


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("what_each_sees", ..., "of which 5 are markers"),
    ("what_each_sees", (15, 8.0, 10), "2 more for read_uncommitted"),
    ("losing_order", ..., "at most once"),
    ("losing_order", {"offsets": "outside", "order": "offsets first", "crash": "after output"}, "at most once"),
    ("four_zombies", ..., "Without any of these, both commit"),
    ("own_read_committed", ..., "the same offsets"),
    ("own_read_committed", lambda log: set(solutions.read_committed(log)), "the same offsets"),
    ("right_key", ..., "the same at every attempt"),
    ("right_key", "The offset of the input-record", "the same at every attempt"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("what_each_sees", [10, 8, 10], "number 1 is not 10"),
    ("what_each_sees", [15, 10, 10], "number 2 is not 10"),
    ("what_each_sees", [15, 8, 8], "number 3 is not 8"),
    ("what_each_sees", [15, 8, 15], "Does it also get what else is in the log?"),
    ("losing_order", {"crash": "after commit"}, "every record is there once"),
    ("losing_order", {"transactional": False}, "3 records are there twice"),
    ("losing_order", {"offsets": "outside", "crash": "after commit"}, "3 records are there twice"),
    ("four_zombies", [3, 3, 0, 3], "situation 1: 3 is not right"),
    ("four_zombies", [0, 0, 0, 3], "situation 2: 0 is not right"),
    ("four_zombies", [0, 3, 3, 3], "situation 3: 3 is not right"),
    ("four_zombies", [0, 3, 0, 0], "it is not fenced"),
    *MISTAKES,
    ("own_read_committed", lambda log: [offset for first, last, *_ in log for offset in range(first, last + 1)], "that is a marker"),
    ("own_read_committed", lambda log: [*solutions.read_committed(log), 10_000], "there is no such offset"),
    ("own_read_committed", lambda log: solutions.read_committed(log) * 2, "more than once"),
    ("own_read_committed", lambda log: log["data"], "your code raised TypeError"),
    ("right_key", "the transaction's number", "the same for several records"),
    ("right_key", "producer id and epoch", "the same for several records"),
    ("right_key", "the offset of the output record", "after the crash"),
]


def test_the_logs_of_the_fourth_exercise_tell_all_the_mistakes_apart() -> None:
    """Among the logs are an open transaction, an aborted one, a torn one, records in no transaction, and two producers."""
    logs = [nb_15.entries_of(run(name, **knobs)) for name, knobs in nb_15.LOGS]
    kinds = {entry[3] for log in logs for entry in log}
    assert kinds == {"data", "plain", "COMMIT", "ABORT"}
    for _, mistake, _ in MISTAKES[:4]:
        assert any(list(mistake(log)) != list(solutions.read_committed(log)) for log in logs)
