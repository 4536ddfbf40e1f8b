"""Every schedule of faults that a run can meet: its messages and its processes, and what can be done to them.

A plain run lists the messages and the moments of the processes; each of them meets one fault of a schedule at most. Where there are
more schedules than asked for, those with few faults come first, and of the others a sample that is always the same.
Left out: faults on messages that only an earlier fault brings about, and the same process twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments import every
from kitlib.experiments.grid import AND, Grid
from kitlib.experiments.script import TO_A_PROCESS, MissedError

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
