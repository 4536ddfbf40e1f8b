"""A figure is one measured number with its unit and the bound it is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `bound` is what is promised: at least it, or at most it when `at_most`."""

    name: str
    value: float
    unit: str
    bound: float | None = None
    at_most: bool = False

    def at_pace(self, slowness: float) -> Figure:
        """A rate's bound in proportion, on a machine that is so many times slower than the one the promises were made for."""
        return replace(self, bound=self.bound / slowness) if self.bound is not None and self.unit.endswith("/s") else self

    @property
    def holds(self) -> bool:
        """True when there is no bound, or the value is on its right side."""
        if self.bound is None:
            return True
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def to_json(self) -> dict[str, Any]:
        """The figure as JSON values, with whether it holds."""
        return asdict(self) | {"holds": self.holds}


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    begin = perf_counter()
    work()
    return perf_counter() - begin


def paired(works: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each work's own figure over `rounds` rounds, all works in turn in every round.

    On a shared machine its speed drifts; works that run in turn meet the same drift.
    """
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(work())
    return {name: median(values) for name, values in taken.items()}
