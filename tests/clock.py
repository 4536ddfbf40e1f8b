"""The pace of this machine: a promise of speed is made for a machine of a known pace; a slower one keeps it in proportion.

The same work takes three times as long in one second as in another on a laptop that is busy, or on a machine whose cores
are shared with strangers. What can be told on all of them is how a time compares with that of a plain loop, measured beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TURNS = 100_000
LOOP_S = TURNS * 90e-9  # of a plain loop in Python 3.11 on the machine of 2 cores for which the promises were made


def loop() -> float:
    """The seconds that a plain loop takes, here and now."""
    began = time.perf_counter()
    for _ in range(TURNS):
        pass
    return time.perf_counter() - began


def slowness(loops: list[float] | None = None) -> float:
    """How many times as long as on that machine a plain loop takes here, in the median of `loops`; 1 on a faster machine.

    Whatever slows a test slows the loop: slower cores, and others who use them.
    """
    loops = loops or [loop() for _ in range(9)]
    return max(1.0, sorted(loops)[len(loops) // 2] / LOOP_S)


def at_pace(measured: Callable[[], float]) -> float:
    """A measured time as it would be at the pace that promises are made for; loops are timed before and after it."""
    loops = [loop() for _ in range(5)]
    found = measured()
    return found / slowness(loops + [loop() for _ in range(5)])


def min_until(enough: float, measured: Callable[[], float], times: int = 5) -> float:
    """The smallest of up to so many measurements, of which the first that is less than `enough` is the last."""
    least = float("inf")
    for _ in range(times):
        least = min(least, measured())
        if least < enough:
            break
    return least
