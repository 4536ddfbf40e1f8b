"""`kit up`, `kit down`, `kit status`, `kit logs`: the broker and Spark from a terminal.

`kit status` ends with 0 when the broker answers and with 3 when it does not, for scripts.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.lab import kafka_server, session, workspace
from kitlib.spark import server as spark_server
from kitlib.text import plain_text

NOT_RUNNING = 3
LONGEST_LINE = 10_000  # characters of a log's line


@app.command()
def up(
    brokers: Annotated[int | None, typer.Option(help="Number of brokers, 1 or 3. Default: as many as are running, otherwise 1.")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Start Spark as well, which otherwise starts when it is first needed.")] = False,
) -> None:
    """Start Kafka in the background, or find the one that is running; prints its bootstrap address."""
    cluster = kafka_server.ensure(brokers)
    if spark:
        spark_server.ensure()
        typer.echo(f"kit: {spark_server.status()[1]}", err=True)
    if cluster.source == "external":
        typer.echo("kit: KIT_KAFKA_BOOTSTRAP names this cluster; the kit neither starts nor ends it.", err=True)
    typer.echo(cluster.bootstrap)


@app.command()
def down() -> None:
    """Stop Spark and Kafka, and what a killed lab has left running; Kafka's data stay for the next start."""
    if killed := session.end_left_behind():
        typer.echo(f"kit: ended {killed} processes that a killed lab had left behind.", err=True)
    spark_server.down()
    if bootstrap := kafka_server.external_bootstrap():
        typer.echo(f"kit: KIT_KAFKA_BOOTSTRAP names {bootstrap}; the kit neither starts nor ends it.", err=True)
    elif not kafka_server.down() and not killed:
        typer.echo("kit: no broker was running.", err=True)


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Say whether Kafka is running and answering, and whether Spark is. Exit code 0: Kafka is; 3: it is not."""
    found, left, (phase, sentence) = kafka_server.status(), session.left_behind(), spark_server.status()
    if as_json:
        more = {"left_behind": [each.pid for each in left], "spark": {"phase": phase, "sentence": sentence}}
        typer.echo(json.dumps({"running": found.is_running, **dataclasses.asdict(found), **more}, indent=1))
    else:
        typer.echo(found.sentence)
        if found.since is not None:
            typer.echo(f"Since {datetime.fromtimestamp(found.since, UTC).astimezone():%Y-%m-%d %H:%M:%S}.")
        for node in found.nodes:
            restarts = f", restarted {node.restarts} time(s), last: {node.last_death}" if node.restarts else ""
            typer.echo(f"Broker {node.node}: {node.phase}, port {node.port}, process {node.pid or 'none'}{restarts}")
        for note in found.notes:
            typer.echo(note)
        if left:
            typer.echo(f"A killed lab has left running: {', '.join(map(session.part, left))}. `kit down` ends them.")
        typer.echo(sentence)
    if not found.is_running:
        raise typer.Exit(NOT_RUNNING)


@app.command()
def logs(
    of: Annotated[Literal["kafka", "spark"], typer.Argument(help="Whose log.")] = "kafka",
    lines: Annotated[int, typer.Option(help="Number of last lines per broker.")] = 50,
) -> None:
    """Print the warnings and errors of the brokers, or of Spark (an empty log is good news)."""
    if lines < 0:
        raise KnobError(f"--lines {lines}: a number of lines is 0 or more. Give such a number.")
    files = kafka_server.log_files() if of == "kafka" else spark_server.log_files()
    if not files:
        typer.echo("kit: there are no logs yet; `kit up` starts Kafka, the first query Spark.", err=True)
    for path in files:
        for line in workspace.last_lines(path, lines):
            typer.echo(f"{path.stem}: {plain_text(line.expandtabs(4), LONGEST_LINE)}")
