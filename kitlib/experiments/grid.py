"""A grid of runs: every combination of some knobs' values, each with every seed; all schedules of few faults; the smallest that goes wrong.

    grid = Grid.of("small_max_offset_behind", {"max_offset_behind": [1, 5, 20]}, seeds=range(100))
    len(grid), grid.row(17)

A run on the model depends on its knobs and its seed alone, so a run is named by its place in the grid, and any
process that has the grid can make any of its rows.

The faults that a run can meet are those of its messages and its processes. A plain run lists the messages and the moments of the
processes; each of them meets one fault of a schedule at most. Where there are more schedules than asked for, those with few faults
come first, and of the others a sample that is always the same. Left out: faults on messages that only an earlier fault brings
about, and the same process twice.

    find("small_max_offset_behind", "lost")
    find("happy_path", lambda row: row["duplicated"] > 1, records=20)

finds a run with a property, and the smallest one of its kind. Values and seeds are drawn by chance, and what is found is shrunk:
knobs go back to their defaults where the property does not need them, and numbers of records and the like become as small as
they can be.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from random import Random
from typing import Any, Self

from kitlib.errors import KnobError
from kitlib.experiments import every, get, run
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.knobs import UNLIMITED, Knob, settle
from kitlib.experiments.script import TO_A_PROCESS, Intervention, MissedError, Script
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace

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


MOST_FAULTS, MOST_SCHEDULES = 3, 2_000
MISSED = MissedError.__name__
DOES = {  # what a schedule does whose run has an anomaly that the plain run has not
    "lost": "lose a record", "duplicated": "duplicate a record", "reordered": "reorder records", "skipped": "skip a record",
    "stalled": "stall the commits", "rewound": "rewind a commit", "indefinite": "store a record that was reported as failed",
    "aborted_read": "read an aborted record",
}  # fmt: skip


@dataclass(frozen=True)
class FaultGrid(Grid):
    """One run with each of many schedules; the first of its scripts has no fault."""

    counts: tuple[int, ...] = ()  # how many schedules there are with one fault, with two, ...

    @classmethod
    def of_faults(
        cls, experiment: str, faults: int = 2, only: Iterable[str] = (), most: int = MOST_SCHEDULES, seed: int = 1, late_ms: int = 1_000,
        down_ms: int = 1_000, **knobs: Any,
    ) -> FaultGrid:
        """All schedules with at most so many faults, `most` of them at most.

        `only` are beginnings of the lines that count, such as "lose answer"; a delay is one of `late_ms`, and a process is down for
        `down_ms`. KnobError as `Grid.of`, for a number of faults outside 1 to 3, and where a script has nothing to harm.
        """
        grid = cls.of(experiment, None, [seed], **knobs)
        if not isinstance(faults, int) or not 1 <= faults <= MOST_FAULTS or most < 1:
            raise KnobError(f"{experiment}: faults is {faults} and most is {most}, expected 1 to {MOST_FAULTS}, and 1 or more.")
        begins = (only,) if isinstance(only, str) else tuple(only)
        deeds = [kept for each in _deeds(grid, late_ms, down_ms) if (kept := [line for line in each if line.startswith(begins or "")])]
        if not deeds or not grid.kinds:
            has = f" It takes: {'; '.join(grid.experiment.takes)}." if grid.experiment.takes else ""
            told = ", ".join(each.name for each in every() if each.takes)
            raise KnobError(f"{experiment}: no message or process of it can be harmed so.{has} Stories that take scripts: {told}.")
        counts = _counts([len(each) for each in deeds], faults)
        return replace(grid, scripts=("", *_scripts(deeds, counts, most)), counts=counts)


def _deeds(grid: FaultGrid, late_ms: int, down_ms: int) -> Iterator[list[str]]:
    """For each message and each process of the plain run all lines of a script that can be about it."""
    found, (seed,) = grid.experiment, grid.seeds
    trace, noted = found.run_noting(seed, **grid.fixed)
    forms = [form.split() for form in found.takes]
    for target, (thing, _) in noted.seen.items():
        verbs = [verb for verb, *words in forms if " ".join(words).startswith(f"{thing} N")]
        yield [f"{verb} {target}" + (f" by {late_ms} ms" if verb == "delay" else "") for verb in verbs]
    to_processes = [form for form in forms if form[0] in TO_A_PROCESS]
    others = [actor for actor in dict.fromkeys(step.actor for step in trace) if actor not in [name for _, name, *_ in to_processes]]
    for verb, name, *_ in to_processes:
        for process in others if name.isupper() else [name]:
            moments = sorted({step.at_ms for step in trace if step.actor == process} or {step.at_ms for step in trace})
            lines = [f"{verb} {process} at {at_ms} ms" + ("" if verb == "kill" else f" for {down_ms} ms") for at_ms in moments]
            if not name.isupper() or not (grid.row_of(grid.fixed, seed, lines[0])["error"] or "").startswith(MISSED):
                yield lines


def _counts(sizes: Sequence[int], faults: int) -> tuple[int, ...]:
    """In how many ways one, two, ... of these groups can be chosen, and one of each."""
    ways = [1] + [0] * faults
    for size in sizes:
        for number in range(faults, 0, -1):
            ways[number] += size * ways[number - 1]
    return tuple(ways[1:])


def _scripts(deeds: Sequence[Sequence[str]], counts: Sequence[int], most: int) -> Iterator[str]:
    chance, places = Random(0), [(number, line) for number, lines in enumerate(deeds) for line in lines]
    for faults, count in enumerate(counts, start=1):
        if count <= most:
            yield from (AND.join(lines) for chosen in combinations(deeds, faults) for lines in product(*chosen))
        else:
            drawn: set[str] = set()
            while len(drawn) < most:
                chosen = sorted(chance.sample(places, faults))
                if len({number for number, _ in chosen}) == faults:
                    drawn.add(AND.join(line for _, line in chosen))
            yield from sorted(drawn)
        most -= min(count, most)


def does(kind: str, count: int) -> str:
    return DOES[kind] if count > 1 else DOES[kind].replace(" ", "s ", 1)


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
    grid, chance, tried = Grid.of(experiment, **fixed), Random(0), 0
    condition = _condition(grid, where)
    free = [knob for knob in grid.experiment.knobs if knob.name not in fixed and knob.name != "max_steps"]
    defaults: Row = {**grid.fixed, "seed": 1}  # a run is named by its knobs and its seed

    def row(drawn: Row) -> Row:
        return grid.row_of({name: drawn[name] for name in grid.knobs}, drawn["seed"])

    def holds(drawn: Row) -> bool:
        nonlocal tried
        tried += 1
        return bool(condition(row(drawn)))

    drawn = defaults
    while not holds(drawn):
        if tried >= runs:
            return None
        values = {knob.name: _value(knob, chance) for knob in free if chance.random() < 0.5}
        drawn = defaults | {"seed": chance.randint(1, 1_000)} | values
    drawn = _shrunk(drawn, defaults, [knob for knob in free if _is_size(knob)], holds)
    knobs = {name: value for name, value in drawn.items() if name != "seed" and (name in fixed or value != defaults[name])}
    return Found(experiment, knobs, drawn["seed"], row(drawn), tried)


def _shrunk(drawn: Row, defaults: Row, sizes: Sequence[Knob], holds: Callable[[Row], bool]) -> Row:
    """Knobs are put back to their defaults, and there are fewer of each size, for as long as the condition holds."""
    before = None
    while before != drawn:
        before = drawn
        for name, default in defaults.items():
            if drawn[name] != default and holds(drawn | {name: default}):
                drawn = drawn | {name: default}
        for knob in sizes:
            step = drawn[knob.name] - int(knob.low)
            while step:  # halved as long as it leads too far
                lower = drawn | {knob.name: drawn[knob.name] - step}
                if lower[knob.name] >= knob.low and holds(lower):
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


def _value(knob: Knob, chance: Random) -> Any:
    """Any value of a knob; numbers without a near bound are drawn near the default, small ones as often as large ones."""
    if knob.kind in ("bool", "choice"):
        return chance.choice(knob.choices or (False, True))
    default = 1_000 if knob.default == UNLIMITED else knob.default
    width = min(knob.high, max(WIDEST * default, knob.low + 100)) - knob.low
    number = knob.low + (width + 1) ** chance.random() - 1
    return number if knob.kind == "float" else min(round(number), int(knob.high))
