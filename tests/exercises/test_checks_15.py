"""The exercises of notebook 15: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import nb_15
from kitlib.experiments import run
from tests.exercises import solutions


def decision(log: Any, number: int) -> Any:
    """What the first marker of its producer behind an entry says; None without one."""
    producer = log[number][2]
    return next(
        (kind for _, _, other, kind in log[number + 1 :] if other == producer and kind in ("COMMIT", "ABORT")), None
    )


def reads_past_an_open_one(log: Any) -> Any:
    return [
        offset
        for number, (first, last, _, kind) in enumerate(log)
        if kind == "plain" or (kind == "data" and decision(log, number) == "COMMIT")
        for offset in range(first, last + 1)
    ]


def gives_what_is_plain(log: Any) -> Any:
    """It stops reading transactions at the first open one, but not what has no transaction."""
    kept = {offset for first, last, _, kind in log if kind == "plain" for offset in range(first, last + 1)}
    return sorted(kept | set(solutions.read_committed(log)))


def believes_the_last_marker(log: Any) -> Any:
    last = {producer: kind for _, _, producer, kind in log if kind in ("COMMIT", "ABORT")}
    return [
        offset
        for first, end, producer, kind in log
        if kind == "plain" or (kind == "data" and last.get(producer) == "COMMIT")
        for offset in range(first, end + 1)
    ]


def reads_everything(log: Any) -> Any:
    return [offset for first, last, _, kind in log if kind in ("data", "plain") for offset in range(first, last + 1)]


def leaves_the_plain_out(log: Any) -> Any:
    plain = {offset for first, last, _, kind in log if kind == "plain" for offset in range(first, last + 1)}
    return [offset for offset in solutions.read_committed(log) if offset not in plain]


def gives_the_first_offsets(log: Any) -> Any:
    return [offset for offset in solutions.read_committed(log) if offset in {entry[0] for entry in log}]


def counts_them(log: Any) -> Any:
    return len(solutions.read_committed(log))


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
    ("what_each_sees", [15, 8], "the answer should be a list of 3 numbers"),
    ("what_each_sees", [15, "8", 10], "should be a number"),
    ("losing_order", {"crash": "after commit"}, "every record is there once"),
    ("losing_order", {"transactional": False}, "3 records are there twice"),
    ("losing_order", {"offsets": "outside", "crash": "after commit"}, "3 records are there twice"),
    ("losing_order", {"records": 3}, "may be turned here"),
    ("losing_order", {"order": "neither"}, "expected"),
    ("losing_order", "offsets first", "a dict of knobs"),
    ("four_zombies", [3, 3, 0, 3], "situation 1: 3 is not right"),
    ("four_zombies", [0, 0, 0, 3], "situation 2: 0 is not right"),
    ("four_zombies", [0, 3, 3, 3], "situation 3: 3 is not right"),
    ("four_zombies", [0, 3, 0, 0], "it is not fenced"),
    ("four_zombies", [0, 3, 0], "the answer should be a list of 4 numbers"),
    ("own_read_committed", reads_past_an_open_one, "an older transaction is open"),
    ("own_read_committed", gives_what_is_plain, "hanging_transaction your reader gets offset 11: an older transaction is open"),
    ("own_read_committed", believes_the_last_marker, "the next marker of its producer says abort"),
    ("own_read_committed", reads_everything, "the next marker of its producer says abort"),
    ("own_read_committed", lambda log: [offset for first, last, *_ in log for offset in range(first, last + 1)], "that is a marker"),
    ("own_read_committed", leaves_the_plain_out, "in the log of commit_and_abort your reader does not get offset 24, which counts"),
    ("own_read_committed", gives_the_first_offsets, "which counts"),
    ("own_read_committed", counts_them, "what your function returns should be a list of offsets; got 13"),
    ("own_read_committed", lambda log: [*solutions.read_committed(log), 10_000], "there is no such offset"),
    ("own_read_committed", lambda log: solutions.read_committed(log) * 2, "more than once"),
    ("own_read_committed", lambda log: log["data"], "your code raised TypeError"),
    ("own_read_committed", [0, 1], "should be a function"),
    ("right_key", "the transaction's number", "the same for several records"),
    ("right_key", "producer id and epoch", "the same for several records"),
    ("right_key", "the offset of the output record", "after the crash"),
    ("right_key", "the date", "should be one of"),
    ("right_key", 3, "should be one of"),
]


def test_the_logs_of_the_fourth_exercise_tell_all_the_mistakes_apart() -> None:
    """Among the logs are an open transaction, an aborted one, a torn one, records in no transaction, and two producers."""
    logs = [nb_15.entries_of(run(name, **knobs)) for name, knobs in nb_15.LOGS]
    kinds = {entry[3] for log in logs for entry in log}
    assert kinds == {"data", "plain", "COMMIT", "ABORT"}
    assert any(decision(log, number) is None for log in logs for number, entry in enumerate(log) if entry[3] == "data")
    mistakes = (reads_past_an_open_one, believes_the_last_marker, reads_everything, leaves_the_plain_out)
    for mistake in mistakes:
        assert any(list(mistake(log)) != list(solutions.read_committed(log)) for log in logs)
