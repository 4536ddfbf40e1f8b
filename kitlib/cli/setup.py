"""`kit doctor`, `kit fetch` and `kit purge`: is everything there, make it so, and take it away again."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kitlib.cli import app
from kitlib.cli.asking import confirm
from kitlib.errors import LabError

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
    """Fetch everything needed to work offline: the jars of Kafka and of Spark's Kafka connector."""
    from kitlib.lab import jars, java, workspace

    workspace.ensure()
    count = sum(len(jars.ensure_jars(set_name)) for set_name in jars.SETS)
    found = java.find_java()
    typer.echo(f"{count} jars in {workspace.jars_dir()}, every sha256 as locked; Java {found.version} from {found.source}.")
    typer.echo("The lab now works without a network; KIT_OFFLINE=1 forbids it to try.")


@app.command()
def purge(yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Delete all that the kit keeps outside the project's folder: jars, Kafka's data, Spark's files, logs and scores.

    Your notebooks in `work/` stay. `make lab` sets everything up again, and fetches the jars anew.
    """
    from kitlib.lab import kafka_server, session, workspace

    home = workspace.home()
    kept = [path for name in workspace.KEPT for path in (home / name, *home.glob(f"{name}.broken*")) if os.path.lexists(path)]
    if not kept:
        typer.echo(f"kit: nothing is kept in {home}.", err=True)
        return
    if note := session.living():
        raise LabError(session.describe_holder(note))
    for path in kept:
        typer.echo(f"{path}  {_bytes(path) / 1e6:,.0f} MB", err=True)
    confirm(yes, "Delete this?", "This deletes what is listed above. Nothing was deleted; add --yes to continue.")
    session.end_left_behind()
    kafka_server.down()
    for path in kept:
        workspace.remove(path)
    left = sorted(path.name for path in home.iterdir())
    if not left:
        home.rmdir()
    typer.echo(f"Deleted. Still in {home}, because it is yours: {', '.join(left)}." if left else "Deleted.", err=True)


def _bytes(path: Path) -> int:
    """The size of a file, or of all files in a folder; a link counts nothing."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.lstat().st_size for file in files if not path.is_symlink() and file.is_file())
