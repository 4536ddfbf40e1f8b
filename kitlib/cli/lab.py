"""`kit lab`: one command from a terminal to an open notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError, LabError


@app.command()
def lab(
    port: Annotated[int | None, typer.Option(help="JupyterLab's port; without it 8888 or the next free one.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in your browser.")] = True,
    notebook: Annotated[Path | None, typer.Option(help="Open this notebook; without it the first one.")] = None,
) -> None:
    """Start Kafka and JupyterLab, open the first notebook, and end everything with Ctrl-C."""
    from kitlib.lab import jupyter, session

    if port is not None and not 1 <= port <= 65535:
        raise KnobError(f"--port {port} is no port. Choose one from 1 to 65535, or leave it out.")
    root = jupyter.project_dir()
    wanted = notebook or (root / jupyter.START_NOTEBOOK)
    page: str | None = None
    if wanted.is_file():
        try:
            page = wanted.resolve().relative_to(root.resolve()).as_posix()
        except ValueError:
            raise LabError(f"{wanted} is outside of {root}, which is all that JupyterLab shows. Copy it there.") from None
    elif notebook is not None:
        raise LabError(f"There is no notebook {notebook}. Expected a file below {root}.")
    raise typer.Exit(session.open_lab(session.Printer(), port, page, browser))
