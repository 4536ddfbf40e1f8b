"""`kit bench`: the ratios as a table, or as JSON."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.lab import workspace

SUITES = ("partition_manager", "proxy", "sources", "sweep")  # functions of kitlib.bench, which needs a while to load


@app.command()
def bench(
    suites: Annotated[list[str] | None, typer.Argument(help=f"Any of: {', '.join(SUITES)}; all of them if none is given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ratios as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also keep the ratios as JSON in this file.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How many times each work is measured; the median counts.")] = 3,
) -> None:
    """Measure what was promised of speed, each a ratio of two works on this machine; exit code 1 if a bound is missed."""
    chosen = list(dict.fromkeys(suites or SUITES))
    if unknown := [name for name in chosen if name not in SUITES]:
        raise KnobError(f"there is no suite called '{unknown[0]}'. The suites are {', '.join(SUITES)}.")
    measure = import_module("kitlib.bench")
    ratios: list[Any] = []
    with measure.kit_spark.lent():
        for name in chosen:
            ratios += getattr(measure, name)(rounds, lambda text, name=name: typer.echo(f"kit: {name}: {text}", err=True))
    told = json.dumps([ratio.to_json() for ratio in ratios], indent=2)
    if out:
        workspace.write_atomic(out, told + "\n")
    if as_json:
        typer.echo(told)
    else:
        table = Table("ratio", "measured", "bound", "", title="kit bench")
        for ratio in ratios:
            bound = f"{'<=' if ratio.at_most else '>='} {ratio.bound:g}"
            table.add_row(ratio.name, f"{ratio.value:.2f}", bound, "holds" if ratio.holds else "MISSED")
        Console(markup=False).print(table)
    raise typer.Exit(0 if all(ratio.holds for ratio in ratios) else 1)
