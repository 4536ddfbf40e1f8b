"""`kit audit`: what a run really delivered, counted by Spark from the broker's own topics."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kitlib.cli import app


@app.command()
def audit(
    run: Annotated[str, typer.Argument(help="The run's name, as `kit run --backend kafka` prints it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print counts and witnesses as JSON.")] = False,
    trace_only: Annotated[
        bool, typer.Option("--trace-only", help="Do not read the topics that the trace names, only the trace.")
    ] = False,
) -> None:
    """Audit a run on Spark: what was lost, duplicated, reordered, skipped, stalled, rewound, and how late."""
    from kitlib.pipelines import audit as audits
    from kitlib.pipelines.topics import Topics, check_trace_exists
    from kitlib.spark import sessions  # here, because Spark takes a while to load and other commands do without

    check_trace_exists(Topics.find(), run)
    typer.echo("kit: starting Spark and reading the trace", err=True)
    with sessions.lent():
        result = audits.audit(run, source=not trace_only)
    typer.echo(json.dumps(result.to_json(), indent=1) if as_json else repr(result))
