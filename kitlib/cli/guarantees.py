"""`kit guarantees`: what a producer's settings are worth under each fault, measured on the real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kitlib.cli import app
from kitlib.lab import workspace


@app.command()
def guarantees(
    records: Annotated[int, typer.Option(help="How many records each producer sends.")] = 20_000,
    out: Annotated[Path | None, typer.Option(help="Also keep the table in this file, as JSON lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the runs' topics, for `kit audit RUN`.")] = False,
) -> None:
    """Measure records lost, duplicated, out of order and wrongly reported as failed, for each setting and each fault."""
    if out:
        workspace.check_writable(out, "--out")
    from kitlib.experiments.idempotence.guarantees import all_cells, in_words
    from kitlib.pipelines.guarantees import measure_guarantees
    from kitlib.spark import sessions  # here, because Spark takes a while to load and other commands do without

    cells = all_cells()
    columns = (TextColumn("kit: {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with sessions.lent():
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("producers through the proxy", total=len(cells))

            def progress(done: int) -> None:
                bar.advance(task, done)
                if bar.tasks[0].finished:
                    bar.update(task, description="Spark counts")

            table = measure_guarantees(records, cells, progress, keep)
    text = table.to_json(orient="records", lines=True)
    if as_json:
        typer.echo(text, nl=False)
    else:
        read = in_words(table)
        shown = Table("producer", *(fault.replace("_", " ") for fault in read), title=f"{records:,} records each", show_lines=True)
        for line in read.itertuples():
            shown.add_row(*line)
        Console(markup=False, width=max(Console().width, 100)).print(shown)
    if out:  # last, so that minutes of work are seen even when the disk is full by now
        workspace.write_atomic(out, text)
