"""Find a run with a property, and the smallest one of its kind.

    find("small_max_offset_behind", "lost")
    find("happy_path", lambda row: row["duplicated"] > 1, records=20)

Values and seeds are drawn by chance, and what is found is shrunk: knobs go back to their defaults where the property does
not need them, and numbers of records and the like become as small as they can be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments import run
from kitlib.experiments.grid import Grid
from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.trace import Trace

Row = dict[str, Any]
WIDEST = 4  # times its default: how far a number without a near bound is searched


@dataclass(frozen=True, slots=True)
class Found:
    """The smallest run that was found: its knobs that are not at their defaults, its seed, its row, and how many runs it took."""

    experiment: str
    knobs: Row
    seed: int
    row: Row
    runs: int

    def run(self) -> Trace:
        return run(self.experiment, seed=self.seed, **self.knobs)

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.knobs.items())
        begin = f'run("{self.experiment}", seed={self.seed}{given})'
        return f"{begin} has it, in {self.row.get('steps', 0)} steps. {self.runs:,} runs were tried."


def find(experiment: str, where: str | Callable[[Row], Any], *, runs: int = 1_000, **fixed: Any) -> Found | None:
    """The smallest run for which `where` holds; None when none of `runs` runs on the model has it.

    `where` is called with the run's row (`Grid.row`), or is an anomaly's name, which holds when there is at least one.
    `fixed` knobs keep their values. The same search finds the same run.

    KnobError for an unknown experiment, knob or anomaly, and for what is neither a name nor a function.
    """
    grid = Grid.of(experiment, **fixed)
    search = Search(grid, _condition(grid, where), fixed)
    chance = random.Random(0)
    drawn = search.defaults
    while not search.holds(drawn):
        if search.runs >= runs:
            return None
        drawn = search.draw(chance)
    drawn = search.shrink(drawn)
    seed = drawn.pop("seed")
    knobs = {name: value for name, value in drawn.items() if name in fixed or value != search.defaults[name]}
    return Found(experiment, knobs, seed, search.row(drawn | {"seed": seed}), search.runs)


class Search:
    """Runs of a grid that are drawn, tried and made smaller; a run is named by its knobs and its seed."""

    def __init__(self, grid: Grid, condition: Callable[[Row], Any], fixed: Collection[str]) -> None:
        self.grid, self.condition, self.runs = grid, condition, 0
        self.free = [knob for knob in grid.experiment.knobs if knob.name not in fixed and knob.name != "max_steps"]
        self.defaults: Row = {**grid.fixed, "seed": 1}

    def row(self, drawn: Row) -> Row:
        return self.grid.row_of({name: drawn[name] for name in self.grid.knobs}, drawn["seed"])

    def holds(self, drawn: Row) -> bool:
        self.runs += 1
        return bool(self.condition(self.row(drawn)))

    def draw(self, chance: random.Random) -> Row:
        """A seed, and values for about half of the knobs."""
        values = {knob.name: _value(knob, chance) for knob in self.free if chance.random() < 0.5}
        return self.defaults | {"seed": chance.randint(1, 1_000)} | values

    def shrink(self, drawn: Row) -> Row:
        """Put knobs back to their defaults and lower how many of something there are, for as long as the condition holds."""
        before = None
        while before != drawn:
            before = dict(drawn)
            for name, default in self.defaults.items():
                if drawn[name] != default and self.holds(drawn | {name: default}):
                    drawn = drawn | {name: default}
            for knob in self.free:
                if _is_size(knob):
                    drawn = self._lower(drawn, knob)
        return drawn

    def _lower(self, drawn: Row, knob: Knob) -> Row:
        """The knob at the lowest value that can be reached by steps which halve as long as they lead too far."""
        step = drawn[knob.name] - int(knob.low)
        while step:
            lower = drawn | {knob.name: drawn[knob.name] - step}
            if lower[knob.name] >= knob.low and self.holds(lower):
                drawn = lower
            else:
                step //= 2
        return drawn


def _condition(grid: Grid, where: str | Callable[[Row], Any]) -> Callable[[Row], Any]:
    if callable(where):
        return where
    if where in grid.kinds:
        return lambda row: (row.get(where) or 0) > 0
    raise KnobError(
        f"{grid.name}: where is {str(where)[:60]!r}, expected one of {', '.join(grid.kinds)}, or a function of a run's row."
    )


def _is_size(knob: Knob) -> bool:
    """Whether it says how many of something a run has (`records`, `batches`), which should become few; no bound such as `retries`."""
    return knob.name == knob.unit and knob.default != knob.high


def _value(knob: Knob, chance: random.Random) -> Any:
    """Any value of a knob; numbers without a near bound are drawn near the default, small ones as often as large ones."""
    if knob.kind in ("bool", "choice"):
        return chance.choice(knob.choices or (False, True))
    default = 1_000 if knob.default == UNLIMITED else knob.default
    width = min(knob.high, max(WIDEST * default, knob.low + 100)) - knob.low
    number = knob.low + (width + 1) ** chance.random() - 1
    return number if knob.kind == "float" else min(round(number), int(knob.high))
