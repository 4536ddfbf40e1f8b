"""`kit bench`: the figures as a table, or as JSON."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kitlib.bench.figures import Figure
from kitlib.bench.pace import loop, slowness
from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.lab import workspace

# Each is a module of kitlib.bench with `measure(rounds, say)`; imported when it is chosen, as some need a while.
SUITES = ("partition_manager", "acker", "producer", "offsets", "sweep", "sources")

LONG = ("scale",)  # measured only when it is named: it takes an hour


@app.command()
def bench(
    suites: Annotated[
        list[str] | None, typer.Argument(help=f"Any of: {', '.join(SUITES)}; all of them if none is given. By name only: {LONG[0]}.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also keep the figures as JSON in this file.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How many times each figure is measured; the median counts.")] = 5,
) -> None:
    """Measure speed and memory; exit code 1 if a figure misses its bound."""
    chosen = list(dict.fromkeys(suites or SUITES))
    for name in chosen:
        if name not in (*SUITES, *LONG):
            raise KnobError(f"there is no suite called '{name}'. The suites are {', '.join((*SUITES, *LONG))}.")
    figures: list[Figure] = []
    slowest = 1.0
    for name in chosen:
        measure = import_module(f"kitlib.bench.{name}").measure
        loops = [loop() for _ in range(5)]

        def say(text: str, name: str = name, loops: list[float] = loops) -> None:
            typer.echo(f"kit: {name}: {text}", err=True)
            loops.append(loop())  # whoever slows the suite slows a plain loop beside it

        found = measure(rounds, say=say)
        here = slowness(loops + [loop() for _ in range(5)])
        figures, slowest = figures + [figure.at_pace(here) for figure in found], max(slowest, here)
    told = json.dumps([figure.to_json() for figure in figures], indent=2)
    if out:
        workspace.write_atomic(out, told + "\n")
    if as_json:
        typer.echo(told)
    else:
        table = Table("figure", "measured", "unit", "bound", "", title="kit bench")
        for figure in figures:
            bound = "" if figure.bound is None else f"{'<=' if figure.at_most else '>='} {figure.bound:,.12g}"
            shown = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
            verdict = ("holds" if figure.holds else "MISSED") if bound else ""
            table.add_row(figure.name, shown, figure.unit, bound, verdict)
        Console(markup=False).print(table)
        if slowest > 1.05:
            typer.echo(
                f"A plain loop takes up to {slowest:.1f} times as long here and now as on the machine that these promises were made for, "
                "so the bounds of rates are lower by as much."
            )
    raise typer.Exit(0 if all(figure.holds for figure in figures) else 1)
