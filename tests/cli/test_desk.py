"""`kit desk`: what it shows, and what it refuses before anything is started."""

from __future__ import annotations

import pytest

from kitlib.cli import desk
from tests.cli.conftest import CommandLine

LOOK = {
    "at_s": 12.0, "lag": 1_200, "rate": {"stored": 499.6, "written": 0.0},
    "spark": {"latency_s": None, "lost": 3, "duplicated_topic": 1, "duplicated_results": 2, "reordered_topic": 0, "reordered_results": 5},
}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--rate", "fast"), "rate is 'fast', expected 0 to 2,000 records/s"),
        (("--max-in-flight", "9"), "librdkafka allows at most 5 requests in flight then"),
        (("--at", "5=explode"), "'5=explode': expected a second and one of database-away, kill-broker, kill-spout"),
        (("--at", "soon=kill-spout"), "'soon=kill-spout': expected a second"),
        (("--at", "nan=kill-spout"), "'nan=kill-spout': expected a second"),
        (("--html", "steps.txt"), "'steps.txt' is no name of a page"),
    ],
)
def test_kit_desk_refuses_before_anything_starts(command_line: CommandLine, asked: tuple[str, str], told: str) -> None:
    """With one sentence and the exit code of a bad setting."""
    code, out, complaints = command_line("desk", *asked)
    assert (code, out, len(complaints.splitlines())) == (2, "", 1)
    assert told in complaints


def test_kit_desk_plans_deeds_and_knobs_by_the_second() -> None:
    """Buttons are written with dashes, knobs as an option or as a notebook writes them."""
    assert desk._planned("5=kill-broker") == (5.0, "kill broker", None)
    assert desk._planned("0.5=lost-answers=10") == desk._planned("0.5=lost_answers=10") == (0.5, "lost_answers", "10")


def test_kit_desk_shows_a_look_as_one_line() -> None:
    """Rates, lag, what Spark has counted, and how late."""
    told = " ".join(desk.line(LOOK).split())
    assert told == "12.0 s 500/s stored 0/s processed lag 1,200 lost 3 duplicated 3 out of order 5 Spark after not yet"
