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
from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.lab import workspace

# Each is a module of kitlib.bench with `measure(rounds, say)`; imported when it is chosen, as some need a while.
SUITES = ("partition_manager", "acker", "spark_acker", "producer", "offsets")


@app.command()
def bench(
    suites: Annotated[
        list[str] | None, typer.Argument(help=f"Any of: {', '.join(SUITES)}; all of them if none is given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also keep the figures as JSON in this file.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How many times each figure is measured; the median counts.")] = 5,
) -> None:
    """Measure speed and memory; exit code 1 if a figure misses its bound."""
    chosen = list(dict.fromkeys(suites or SUITES))
    for name in chosen:
        if name not in SUITES:
            raise KnobError(f"there is no suite called '{name}'. The suites are {', '.join(SUITES)}.")
    figures: list[Figure] = []
    for name in chosen:
        measure = import_module(f"kitlib.bench.{name}").measure
        figures += measure(rounds, say=lambda text, name=name: typer.echo(f"kit: {name}: {text}", err=True))
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
    raise typer.Exit(0 if all(figure.holds for figure in figures) else 1)
