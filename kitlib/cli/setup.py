"""`kit doctor` and `kit fetch`: is everything there, and make it so."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kitlib.cli import app

MARKS = {"good": ("ok", "green"), "note": ("note", "yellow"), "bad": ("RED", "bold red")}


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check Python, Java, jars, disk, memory, ports, broker and Spark; say what to do about each red line.

    Exit code 1 if a line is red.
    """
    from kitlib.lab.doctor import examine

    lines = examine()
    bad = sum(line.level == "bad" for line in lines)
    if as_json:
        findings = [dataclasses.asdict(line) for line in lines]
        typer.echo(json.dumps({"good": not bad, "findings": findings}, indent=1))
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("", "check", "found", "what to do"):
            table.add_column(column, overflow="fold")
        for line in lines:
            mark, style = MARKS[line.level]
            table.add_row(Text(mark, style), Text(line.check), Text(line.found), Text(line.do))
        # Without a terminal nothing knows a width; wide lines are kinder to a log than folded ones.
        console = Console(markup=False, highlight=False, width=None if shutil.get_terminal_size((0, 0)).columns else 200)
        console.print(table)
        console.print(f"\n{bad} red line{'s' if bad != 1 else ''}." if bad else "\nEverything that is needed is there.")
    raise typer.Exit(1 if bad else 0)


@app.command()
def fetch() -> None:
    """Fetch everything needed to work offline: the jars of Kafka and of Spark's Kafka connector.

    Then the archive of Kafka's classes is made, if there is none: from it, Kafka's Java starts in three fifths of the time.
    """
    from kitlib.lab import class_archive_maker, jars, java, workspace

    workspace.ensure()
    count = sum(len(jars.ensure_jars(set_name)) for set_name in jars.SETS)
    found = java.find_java()
    typer.echo(f"{count} jars in {workspace.jars_dir()}, every sha256 as locked; Java {found.version} from {found.source}.")
    if code := class_archive_maker.run_apart(class_archive_maker.AGAIN):
        raise typer.Exit(code)
    typer.echo("The lab now works without a network; KIT_OFFLINE=1 forbids it to try.")
