"""`kit sweep`: one experiment with many settings and many seeds, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.lab import workspace

FORMATS = (".csv", ".json", ".parquet")


@app.command()
def sweep(
    experiment: Annotated[str, typer.Argument(help="The experiment's name, as in `kit run`.")],
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KNOB=VALUES", help="A knob to vary: max_offset_behind=1,5,20 or records=10..60. May be repeated."),
    ] = None,
    fixed: Annotated[
        list[str] | None, typer.Option("--set", metavar="KNOB=VALUE", help="A knob that all runs share. May be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds each setting is run with.")] = 10,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep all rows in this file: .csv, .json (lines) or .parquet.")
    ] = None,
    most: Annotated[int | None, typer.Option(help="The most runs that the grid may have, or the most schedules that are run.")] = None,
    faults: Annotated[int, typer.Option(help="Not a grid, but one run under all schedules of at most so many faults, 1 to 3.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help='With --faults: lines of a script that begin so, such as "lose answer".')
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON lines instead of the table.")] = False,
) -> None:
    """Run every combination of settings with every seed, and show in how many of the runs each anomaly appeared.

    With --faults, show which faults break the run. Rows are kept in the workspace: what was stopped goes on where it was.
    """
    varied = {name: _values(text) for name, text in map(_pair, over or [])}
    shared: dict[str, Any] = dict(map(_pair, fixed or []))
    if out:
        _check(out)
    if faults and varied:
        raise KnobError("--faults varies what is done to one run, and --over its knobs. Give one of the two.")
    from kitlib import views
    from kitlib.pipelines.sweep import sweep as run_sweep
    from kitlib.spark import sessions  # here, because Spark takes a while to load and other commands do without

    bound: dict[str, Any] = {} if most is None else {"most": most}
    with sessions.lent():
        found = views.every_fault(experiment, faults, only=only or (), **bound, **shared) if faults else None
        rows: Any = run_sweep(experiment, varied, seeds, **bound, **shared).toPandas() if found is None else found.rows
    rows.attrs.clear()  # Spark's measures of its own query, which Parquet has no place for
    if as_json:
        typer.echo(rows.to_json(orient="records", lines=True), nl=False)
    elif found is not None:
        typer.echo(found.sentence)
    else:
        _show(experiment, rows, list(varied))
    if out:
        _write(rows, out)
        typer.echo(f"{len(rows):,} rows are in {out}.", err=True)


def _show(experiment: str, rows: Any, varied: list[str]) -> None:
    """A line for each setting: the share of its runs with each anomaly that appeared at all."""
    from rich.console import Console
    from rich.table import Table

    kinds = [name.removesuffix("_step") for name in rows if str(name).endswith("_step")]
    kinds = [kind for kind in kinds if rows[kind].sum()]
    table = Table(*varied, "runs", *kinds, "violations", "failed", title=f"{experiment}: runs with each anomaly")
    for key, group in rows.groupby(varied, sort=False) if varied else [((), rows)]:
        shares = (f"{(group[kind] > 0).mean():.0%}" for kind in kinds)
        worst = f"{group['is_violation'].astype('boolean').fillna(False).sum()}"
        table.add_row(*map(str, key), str(len(group)), *shares, worst, str(group["error"].notna().sum()))
    Console(markup=False, width=max(Console().width, 100)).print(table)
    if not kinds:
        typer.echo("No run had an anomaly.")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise KnobError(f"{text[:60]!r} is no setting, expected KNOB=VALUE, such as max_offset_behind=5.")
    return name.replace("-", "_"), value


def _values(text: str) -> list[Any]:
    """1,5,20 or 10..60, both ends included."""
    low, dots, high = text.partition("..")
    if not dots:
        return text.split(",")
    try:
        found = range(int(low), int(high) + 1)
    except ValueError:
        found = range(0)
    if not found:
        raise KnobError(f"{text[:60]!r} is no range, expected two whole numbers, the smaller one first, such as 10..60.")
    return list(found)


def _check(out: Path) -> None:
    """KnobError and DiskError for a file that could not be written, before anything is run."""
    if out.suffix not in FORMATS:
        raise KnobError(f"--out: {out.name} ends in {out.suffix or 'nothing'!r}, expected one of {', '.join(FORMATS)}.")
    workspace.check_writable(out, "--out")


def _write(rows: Any, out: Path) -> None:
    """Write the rows to a file, whole or not at all."""
    with workspace.replacing(out) as draft:
        if out.suffix == ".csv":
            rows.to_csv(draft, index=False)
        elif out.suffix == ".json":
            rows.to_json(draft, orient="records", lines=True)
        else:
            rows.to_parquet(draft, index=False)
