"""`kit bench`: the figures as a table, or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kitlib.bench import partition_manager
from kitlib.cli import app
from kitlib.lab import workspace


@app.command()
def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also keep the figures as JSON in this file.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How often each figure is taken; the median counts.")] = 5,
) -> None:
    """Measure speed and memory; exit code 1 when a figure misses its bound."""
    figures = partition_manager.measure(rounds, say=lambda text: typer.echo(f"kit: {text}", err=True))
    told = json.dumps([figure.to_json() for figure in figures], indent=2)
    if out:
        workspace.write_atomic(out, told + "\n")
    if as_json:
        typer.echo(told)
    else:
        table = Table("figure", "measured", "unit", "bound", "", title="kit bench")
        for figure in figures:
            bound = "" if figure.bound is None else f"{'<=' if figure.at_most else '>='} {figure.bound:,g}"
            shown = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"
            table.add_row(figure.name, shown, figure.unit, bound, "holds" if figure.holds else "MISSED")
        Console(markup=False).print(table)
    raise typer.Exit(0 if all(figure.holds for figure in figures) else 1)
