"""`kit lab`: one command from a terminal to an open notebook."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.lab.terminal import watched


@app.command()
def lab(
    port: Annotated[int | None, typer.Option(help="JupyterLab's port; by default 8888 or the next free one.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in your browser.")] = True,
    notebook: Annotated[Path | None, typer.Option(help="Notebook to open (your copy, if it is the kit's); by default, the first.")] = None,
) -> None:
    """Start Kafka and JupyterLab, and open your copy of the first notebook; Ctrl-C stops everything."""
    if port is not None and not 1 <= port <= 65535:
        raise KnobError(f"--port {port} is not a port. Choose one from 1 to 65535, or leave it out.")
    raise typer.Exit(watched(str(time.monotonic()), str(port or 0), str(notebook or ""), "browser" if browser else ""))
