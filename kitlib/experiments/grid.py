"""A grid of runs: every combination of some knobs' values, each with every seed.

    grid = Grid.of("small_max_offset_behind", {"max_offset_behind": [1, 5, 20]}, seeds=range(100))
    len(grid), grid.row(17)

A run on the model depends on its knobs and its seed alone, so a run is named by its place in the grid, and any
process that has the grid can make any of its rows.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.knobs import settle
from kitlib.experiments.script import Intervention, Script
from kitlib.monitor.delivery import judge

MOST_RUNS = 200_000
MOST_SEED = 2**63 - 1
LONGEST_ERROR = 500  # characters
AND = " and "  # between the lines of a script in a row
COUNTS = ("steps", "appended", "processed", "late_ms")


@dataclass(frozen=True)
class Grid:
    """The runs of one experiment on the model: knobs that vary, knobs that are fixed, seeds, and what scripts do to them."""

    name: str
    over: dict[str, tuple[Any, ...]]
    fixed: dict[str, Any]
    seeds: Sequence[int]
    scripts: Sequence[str] = ("",)  # the lines of each, with AND between them
    manager: type[Any] | None = None  # a PartitionManager of one's own

    @classmethod
    def of(
        cls,
        experiment: str,
        over: Mapping[str, Iterable[Any]] | None = None,
        seeds: int | Iterable[int] = 1,
        most: int = MOST_RUNS,
        manager: type[Any] | None = None,
        **fixed: Any,
    ) -> Self:
        """A grid whose values have all been checked. A number of `seeds` means the seeds 1 to that number.

        KnobError for an unknown experiment or knob, a value outside a knob's range, a knob without values, a knob that is
        both varied and fixed, a seed that is no whole number from 0 on, and for more than `most` runs.
        """
        found = get(experiment)
        varied = {name: _values(experiment, name, values) for name, values in (over or {}).items()}
        settle(found.knobs, {name: values[0] for name, values in varied.items()}, experiment)  # are they all knobs?
        knobs = {knob.name: knob for knob in found.knobs}
        if both := sorted(varied.keys() & fixed.keys()):
            raise KnobError(f"{experiment}: {both[0]} is both varied and fixed. Give it in one of the two places.")
        checked = {name: tuple(dict.fromkeys(map(knobs[name].check, values))) for name, values in varied.items()}
        kept = {name: value for name, value in settle(found.knobs, fixed, experiment).items() if name not in checked}
        grid = cls(experiment, checked, kept, _seeds(experiment, seeds), manager=manager)
        if len(grid) > most:
            raise KnobError(
                f"{experiment}: the grid has {len(grid):,} runs, and at most {most:,} were asked for. "
                f"Take fewer values or seeds, or pass most={len(grid)}."
            )
        return grid

    @property
    def experiment(self) -> Experiment:
        return get(self.name) if self.manager is None else replace(get(self.name), manager=self.manager)

    @cached_property
    def knobs(self) -> tuple[str, ...]:
        """The names of all knobs, in the experiment's order."""
        return tuple(knob.name for knob in self.experiment.knobs)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The anomalies that the verdict on these runs looks for."""
        return judge(self.experiment.run(**self.fixed)).kinds

    def __len__(self) -> int:
        return math.prod(map(len, self.over.values())) * len(self.scripts) * len(self.seeds)

    def key(self, place: int) -> tuple[Any, ...]:
        """The values of all knobs, the script and the seed of the run at this place; the seeds change fastest, then the scripts."""
        place, seed = divmod(place, len(self.seeds))
        place, script = divmod(place, len(self.scripts))
        values = dict(self.fixed)
        for name, choices in reversed(self.over.items()):
            place, choice = divmod(place, len(choices))
            values[name] = choices[choice]
        return (*(values[name] for name in self.knobs), self.scripts[script], self.seeds[seed])

    def row(self, place: int) -> dict[str, Any]:
        """Run the run at this place and judge it: one row of a sweep."""
        *values, script, seed = self.key(place)
        return self.row_of(dict(zip(self.knobs, values, strict=True)), seed, script)

    def row_of(self, knobs: Mapping[str, Any], seed: int, script: str = "") -> dict[str, Any]:
        """The row of any run of the experiment, in the grid or not. A run that raises is a row with its error."""
        row: dict[str, Any] = {"experiment": self.name, **knobs, "seed": seed, "script": script, "error": None}
        try:
            with uncollected():
                trace = self.experiment.run(script=script_of(self.name, script, seed), **knobs)
                verdict = judge(trace)
        except Exception as error:  # noqa: BLE001 - whatever a run raises is its result
            return row | {"error": f"{type(error).__name__}: {error}"[:LONGEST_ERROR]}
        row |= {name: getattr(verdict, name) for name in COUNTS[1:]} | {"steps": len(trace)}
        figure = self.experiment.figure
        row["figure"] = float(figure.measure(trace, verdict).value) if figure else None
        row["is_violation"] = bool(verdict.violations)
        for kind in self.kinds:
            row[kind] = verdict.counts.get(kind, 0)
            row[f"{kind}_step"] = verdict.first(kind).witness
        return row


def script_of(experiment: str, script: str, seed: int, knobs: Mapping[str, Any] | None = None) -> Script:
    """The script of a row: what its column `script` says."""
    return Script(experiment, seed, knobs or {}, tuple(map(Intervention.parse, filter(None, script.split(AND)))))


def rows_of(grid: Grid, schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches of rows for Arrow batches of places; an executor of Spark needs no more of the kit than this."""
    for batch in batches:
        yield type(batch).from_pylist([grid.row(place) for place in batch.column(0).to_pylist()], schema=schema)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's cycle collector, which takes a quarter of a run's time and finds nothing before trace and pictures are dropped."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _values(experiment: str, name: str, values: Iterable[Any]) -> list[Any]:
    found = [] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if not found:
        raise KnobError(f"{experiment}: the values of {name} are {str(values)[:60]!r}, expected a list with at least one value.")
    return found


def _seeds(experiment: str, seeds: int | Iterable[int]) -> Sequence[int]:
    found = range(1, seeds + 1) if isinstance(seeds, int) and not isinstance(seeds, bool) else seeds
    kept = found if isinstance(found, range) else tuple(dict.fromkeys(found)) if isinstance(found, Iterable) else ()
    bad = [seed for seed in kept if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MOST_SEED]
    if bad or not kept:
        raise KnobError(
            f"{experiment}: the seeds are {str(bad[0] if bad else seeds)[:60]!r}, expected whole numbers from 0 on, at least one of them."
        )
    return kept
