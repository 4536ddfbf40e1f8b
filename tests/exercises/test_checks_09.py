"""The exercises of notebook 09: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises import check
from tests.exercises.solutions import slips

TIMES = {"dead bootstrap": 1_500, "missing topic": 1_500, "wrong advertised address": 4_000, "buffer full": 4_000}


WANTS = "max(last_successful_refresh_ms + expire_ms - now_ms, 0)"
BACKS_OFF = "last_refresh_ms + backoff_ms"


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("second_send", ..., "only the batch and its journey are left"),
    ("second_send", {9, 8, 6, 5}, "only the batch and its journey are left"),
    ("told_after", ..., "no metadata: max.block.ms"),
    ("told_after", TIMES | {"buffer full": 4_110}, "(The third record of the wrong address fails after 1,500 ms"),
    ("batch_of_a_round_trip", ..., "rate × round trip"),
    ("batch_of_a_round_trip", 55, "rate × round trip"),
    ("own_metadata_clock", ..., "420 cases agree"),
]
WRONG: list[tuple[str, Any, str]] = [
    ("second_send", [2, 3, 4, 5, 6, 7, 8, 9], "step 2 does not happen again"),
    ("second_send", [5, 8, 9], "step 6 happens for every batch"),
    ("second_send", [1, 5, 6, 8, 9], "and 1 is not one of them"),
    ("told_after", TIMES | {"missing topic": 4_000}, "missing topic: the user learns of it sooner than 4,000 ms after the call"),
    ("told_after", TIMES | {"wrong advertised address": 1_500}, "address: the user learns of it later than 1,500 ms after the call"),
    ("told_after", TIMES | {"buffer full": 1_500}, "buffer full: the user learns of it later than 1,500 ms after the call"),
    ("batch_of_a_round_trip", 1, "but it may not while a request is in flight"),
    ("batch_of_a_round_trip", 30, "more than 30 records"),
    ("batch_of_a_round_trip", 2_000, "fewer than 2000 records"),
    ("batch_of_a_round_trip", 0, "more than 0 records"),
    *slips(
        "own_metadata_clock",
        (WANTS, "last_successful_refresh_ms + expire_ms - now_ms", "yours returns -700"),
        (BACKS_OFF, "last_refresh_ms + min(backoff_ms, expire_ms)", "expire_ms=300) should return 1000; yours returns 300"),
        (f"max(wants, {BACKS_OFF} - now_ms)", "wants", "backoff_ms="),
        (WANTS, "max(last_refresh_ms + expire_ms - now_ms, 0)", "last_successful_refresh_ms=0, now_ms="),
        (BACKS_OFF, "last_successful_refresh_ms + backoff_ms", "backoff_ms=100"),
        ("return max", "return min", "should return 300; yours returns 0"),
        ("0 if need_update else ", "", "need_update=True"),
        ("wants = ", "wants = [][", " - now_ms, 0)\n", " - now_ms, 0)]\n", "your code raised IndexError"),
    ),
    ("own_metadata_clock", lambda *_: True, "yours returns True"),
]


def test_second_send_shows_the_first_ones_end() -> None:
    """A wrong list gets a picture of the moment when the first record is stored."""
    assert check("second_send", [5]).picture is not None and check("second_send", [5, 6, 8, 9]).picture is None
