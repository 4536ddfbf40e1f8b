"""Code that agrees with every recorded step, and slows down with what is open, is refused with the figures."""

from __future__ import annotations

import re
import threading
from functools import partial
from typing import Any

import pytest

from kitlib.exercises import growth, sandbox
from kitlib.exercises.answers import HalfRight
from kitlib.exercises.frame import Exercise, Function, Unlike
from kitlib.exercises.growth import ACKER_GROWTH, SPOUT_GROWTH, STATE_GROWTH, Growth
from kitlib.exercises.sandbox import run_steps
from tests.exercises import solutions
from tests.exercises.solutions import slip

ACK, APPEND = "def ack(self, root: int, val: int) -> Any:", "        last = (seq"
SCANS = slip("own_acker", ACK, f"{ACK}\n        list(self.pending[0])")
SEARCHES = slip("own_broker_state", APPEND, f"        sorted(self.producers)\n{APPEND}")
LOOKS_AT_ALL = slip("own_ack", "manager.number_acked += 1", "manager.number_acked += len(sorted(manager.pending)) >= 0")


@pytest.fixture(autouse=True)
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what a check opens, so that the slow ones are done soon; a tenth as long is too long, or a fast machine passes them."""
    for name in ("FEW", "MANY"):
        monkeypatch.setattr(growth, name, getattr(growth, name) // 10)
    monkeypatch.setattr(growth, "LEAST_US", growth.LEAST_US / 10)


@pytest.mark.parametrize(
    ("measured", "made", "says"),
    [
        (ACKER_GROWTH, SCANS, "with 10,000 it takes"),
        (STATE_GROWTH, SEARCHES, "with 10,000 it takes"),
        (SPOUT_GROWTH, LOOKS_AT_ALL, "with 10,000 it takes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_grows_is_refused_with_its_figures(measured: Growth, made: Any, says: str) -> None:
    """How long a message takes with few and with many open, and what to look at."""
    found = next(row for row in measured.rows(made) if row)
    assert isinstance(found, HalfRight) and found.said.startswith("right, and ") and says in found.said and "expected" in found.said
    assert found.look


def test_what_does_not_finish_is_told_by_how_much_was_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline's sentence names the number, not a loop that never ends."""
    monkeypatch.setattr(growth, "MANY", 10_000_000)
    monkeypatch.setattr(growth, "run_steps", partial(run_steps, deadline_s=2.0))
    found = next(row for row in ACKER_GROWTH.rows(SCANS) if row)
    assert found.said.startswith("right, and slow: with 10,000,000 trees open your code did not finish in 10 s")


def test_a_right_function_that_is_too_slow_for_all_cases_is_told_how_many_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers still when its time is over: that is no loop, and what it answered is judged."""

    def slow(entry: Any, epoch: int) -> bool:
        threading.Event().wait(0.7)
        return True

    monkeypatch.setattr(sandbox, "DEADLINE_S", 3.0)
    kind = Function(lambda: [(None, number) for number in range(9)])
    asked = Exercise("committable", kind, lambda got, *case: iter([got is not True and Unlike(True)]))
    found = next(row for row in kind.rows(slow, asked) if row)
    assert isinstance(found, HalfRight) and re.match(r"right, and slow: the first [1-4] of 9 cases are right, and then 3 s", found.said)


@pytest.mark.parametrize(
    ("measured", "made"), [(ACKER_GROWTH, solutions.OwnAcker), (STATE_GROWTH, solutions.BrokerState), (SPOUT_GROWTH, solutions.own_ack)],
    ids=["acker", "state", "spout"],
)  # fmt: skip
def test_solutions_do_not_grow(measured: Growth, made: Any) -> None:
    """A message takes a solution as long with many open as with few."""
    assert not any(measured.rows(made))
