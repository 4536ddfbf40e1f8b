"""`kit lab`: one command from a terminal to an open notebook.

This process only passes on what asks for the end; what starts, watches and ends the lab is its watcher (`kitlib/lab/session.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Annotated

import typer

from kitlib.cli import app
from kitlib.errors import KnobError, LabError
from kitlib.lab import supervisor
from kitlib.lab.processes import TOKEN_NAME, find_all, sweep


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


def watched(*arguments: str) -> int:
    """Have a watcher run the lab, pass on to it what asks for the end, and return the command's exit code."""
    token, asked, parent = uuid.uuid4().hex, 0, os.getppid()
    environment = {**os.environ, TOKEN_NAME: token}
    watcher = supervisor.start("kitlib.lab.session", *arguments, environment=environment, output=None, errors=None)
    assert watcher.stdin is not None
    orders = watcher.stdin.fileno()

    def ask(number: int, _: object = None) -> None:
        nonlocal asked
        asked = asked or number
        with contextlib.suppress(OSError):
            os.write(orders, b"\n")

    heeded = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, ask)
    while watcher.returncode is None:
        watcher.send_signal(signal.SIGCONT)  # a learner's code may have stopped it
        with contextlib.suppress(subprocess.TimeoutExpired):
            watcher.wait(0.5)
        if signal.SIGHUP in heeded and os.getppid() != parent > 1:  # nohup wants the lab to outlive what started it
            parent = os.getppid()
            ask(signal.SIGHUP)
    for number in heeded:
        signal.signal(number, signal.SIG_IGN)  # the last lines of the program are not interrupted
    if watcher.returncode < 0:
        from kitlib.lab import session

        sweep(lambda: find_all(token))
        session.end_spark()
        session.end_kafka()
        session.note_path().unlink(missing_ok=True)
        raise LabError("The lab's watcher was ended from outside, so the lab ends too. Start it again: `kit lab`.")
    return watcher.returncode or (128 + asked if asked else 0)  # what a shell expects of a program that a signal has ended
