"""Times as they would be at the pace for which promises are made, see kitlib/bench/pace.py: others use the cores of a test as well."""

from __future__ import annotations

from collections.abc import Callable

from kitlib.bench.pace import loop, slowness


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
