"""One sitting in the lab: what `kit lab` starts, in which order, and how all of it ends.

A workspace has one lab at a time, because it has one broker. A lock that the operating system takes
back when its holder dies says whether a lab is open; a file beside it says, for people, which one,
since when and under what address. The process may be killed between any two lines of this module:
all that runs was started by the reaper, or is the broker, and the reaper ends both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import uuid
import webbrowser
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Self

import psutil
from filelock import FileLock, Timeout

from kitlib.errors import LabError
from kitlib.lab import copies, jupyter, kafka_server, notebook_trust, supervisor, workspace
from kitlib.lab.jars import ensure_jars
from kitlib.lab.java import find_java
from kitlib.lab.processes import find_by_token, identify, sweep
from kitlib.lab.reaper import (
    SPARK,
    TOKEN_NAME,
    Reaper,
    end_left_behind,
    end_server,
    is_about_a_living_lab,
    left_behind,
    note_path,
    read_note,
    wait_for_earlier,
)
from kitlib.lab.state import write_json

SECONDS_TO_OPEN = 60.0  # JupyterLab on a slow disk, the first time
SECONDS_TO_END = 25.0
BYTES_FOR_SPARK = 6_000_000_000  # that are free, else Spark starts when a notebook first asks for it
SECONDS_FOR_ADDRESS = 20.0  # how long a second lab waits for the first one's address


class Ended(KeyboardInterrupt):
    """The lab was asked to end: by Ctrl-C, by `kill`, or because its terminal or its parent is gone."""

    def __init__(self, signal_number: int) -> None:
        super().__init__()
        # What a shell expects of a program that a signal has ended: 130 after Ctrl-C.
        self.exit_code = 128 + signal_number


class Printer:
    """Lines with the seconds since the start; a terminal that has gone does not keep the lab from ending."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.steps = 0

    def step(self, text: str) -> None:
        self.steps += 1
        self.line(f"{time.monotonic() - self.began:6.1f} s  {text[:1].upper()}{text[1:]}")

    def line(self, text: str = "", data: bool = False) -> None:
        """One line for people (stderr), or one that a script may want (stdout)."""
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stdout if data else sys.stderr, flush=True)


class Signals:
    """Turns the first request to end into one `Ended`, and every later one into a call of `hurry`."""

    HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.ended: Ended | None = None
        self.hurry: Callable[[], None] = lambda: None
        self.before = {number: signal.getsignal(number) for number in self.HEEDED}
        self.parent = os.getppid()

    def __enter__(self) -> Self:
        for number, handler in self.before.items():
            if handler is not signal.SIG_IGN:  # nohup wants the lab to outlive its terminal
                signal.signal(number, self._handle)
        if self.before[signal.SIGHUP] is not signal.SIG_IGN and self.parent > 1:
            threading.Thread(target=self._watch_parent, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the signals ignored that would interrupt the last lines of the program."""
        for number in self.HEEDED:
            signal.signal(number, signal.SIG_IGN)

    def check(self) -> None:
        """Raise `Ended` if the request to end was swallowed by code that caught it."""
        if self.ended is not None:
            raise self.ended

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.ended is None:
            self.ended = Ended(number)
            raise self.ended
        self.hurry()

    def _watch_parent(self) -> None:
        """`make lab` may be killed without a word to us: then our parent is somebody else."""
        while os.getppid() == self.parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGHUP)


def write_note(token: str, since: float, address: str | None) -> None:
    me = identify(os.getpid(), token)
    write_json(note_path(), {"pid": me.pid, "born_s": me.born_s, "run": token, "since": since, "address": address})


@contextlib.contextmanager
def only_lab(printer: Printer) -> Iterator[None]:
    """Hold the workspace's lab lock; LabError with the other lab's process, start and address if there is one."""
    lock = FileLock(workspace.run_dir() / "lab.lock", mode=0o600)
    deadline = time.monotonic() + SECONDS_FOR_ADDRESS
    waited = False
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            note = read_note()
        living = is_about_a_living_lab(note)
        if (living and note["address"]) or time.monotonic() > deadline:
            raise LabError(describe_holder(note if living else {}))
        if not waited:
            printer.step("Another lab is just starting in this workspace; waiting for its address")
        waited = True
        time.sleep(0.1)
    try:
        yield
    finally:
        lock.release()


def describe_holder(note: dict[str, Any]) -> str:
    """Who has the lab open, since when, and what to do about it."""
    if not note:
        return "Another program holds this workspace's lab. Set KIT_HOME to another folder for a second lab."
    since = datetime.fromtimestamp(note["since"], UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    where = f"open {note['address']}" if note["address"] else "its address will be printed there"
    return (
        f"The lab of this workspace is open since {since} in process {note['pid']}: {where}. "
        f"End it with Ctrl-C in its terminal or `kill {note['pid']}`; for a second one set KIT_HOME to another folder."
    )


def open_lab(printer: Printer, desk: copies.Desk, port: int | None, notebook: str, browser: bool) -> int:
    """Start everything, wait until something ends the lab, end everything; returns the command's exit code."""
    workspace.ensure()
    (workspace.run_dir() / "logs").mkdir(mode=0o700, exist_ok=True)
    with Signals() as signals:
        try:
            with only_lab(printer):
                return sitting(printer, signals, desk, port, notebook, browser)
        except Ended as end:
            return end.exit_code


def sitting(
    printer: Printer, signals: Signals, desk: copies.Desk, port: int | None, notebook: str, browser: bool
) -> int:
    """The lab from its first process to its last."""
    token, since = uuid.uuid4().hex, time.time()
    for process in left_behind():
        with contextlib.suppress(psutil.Error):
            process.resume()  # the earlier lab's reaper may have been stopped
    wait_for_earlier(10.0)
    if killed := end_left_behind():
        printer.step(f"Ended {killed} processes that an earlier lab had left behind")
    write_note(token, since, None)
    with contextlib.ExitStack() as room:
        room.callback(note_path().unlink, missing_ok=True)
        try:
            reaper, server = start(token, printer, signals, room, desk, port, notebook)
            write_note(token, since, server.address(notebook))
            printer.step("JupyterLab is open. Ctrl-C here ends the lab; notebooks and records stay.")
            printer.line(f"\n  {server.address(notebook)}\n", data=True)
            if browser:
                open_browser(server)
            start_spark_aside(token)
            return watch(reaper, signals)
        except Ended as end:
            printer.line("\nEnding the lab; Ctrl-C once more ends it by force.")
            return end.exit_code


def start(
    token: str, printer: Printer, signals: Signals, room: contextlib.ExitStack, desk: copies.Desk, port: int | None, notebook: str
) -> tuple[Reaper, jupyter.Server]:
    """Java and jars, then JupyterLab and Kafka side by side; what watches them, and ends them with `room`, and the open server."""
    java = find_java()
    printer.step(f"Java {java.major} from {java.source}")
    jars = ensure_jars("kafka", progress=printer.step) + ensure_jars("spark", progress=printer.step)
    printer.step(f"{len(jars)} jars checked")
    asked = port or jupyter.USUAL_PORT
    if holder := jupyter.holder_of(asked):
        if port:
            raise LabError(f"Port {port} is in use by {holder}. End it, or leave --port out for the next free one.")
        printer.step(f"Port {asked} is in use by {holder}; JupyterLab takes the next free one")
    jupyter.write_settings()
    jupyter.clear_leftovers()
    command = jupyter.command(asked, port is not None, desk.top, notebook)
    reaper = Reaper(token, command, jupyter.log_path(), desk.top, jupyter.environment())
    room.callback(finish, printer, signals, reaper)
    report = reaper.report(10.0)
    if "started" not in report:
        raise LabError(f"The lab's watcher did not start JupyterLab ({report or 'it is silent'}). {jupyter.last_words()}")
    pid = report["started"]
    notebook_trust.sign_shipped(desk, jupyter.config_dir() / "data")
    before = printer.steps
    cluster = kafka_server.ensure(progress=printer.step)
    if printer.steps == before:
        own = cluster.source == "kit"
        printer.step(f"Kafka {'was already running' if own else 'is yours and stays'}: {cluster.bootstrap}")
    signals.check()
    return reaper, jupyter.wait_until_open(pid, SECONDS_TO_OPEN, lambda: psutil.pid_exists(pid))


def watch(reaper: Reaper, signals: Signals) -> int:
    """Wait until JupyterLab ends or somebody asks the lab to."""
    while True:
        report = reaper.report(0.5)
        signals.check()
        if report.get("ended") == 0:
            return 0  # File > Shut Down in JupyterLab
        if "ended" in report:
            raise LabError(f"JupyterLab exited unexpectedly (exit code {report['ended']}). {jupyter.last_words()}")
        if "gone" in report:
            raise LabError("The lab's watcher was ended from outside, so the lab ends too. Start it again: `kit lab`.")


def free_bytes() -> int:
    """The memory that the machine has left, or the container in which this runs."""
    free = int(psutil.virtual_memory().available)
    with contextlib.suppress(OSError, ValueError):  # ValueError: the container may have all there is
        most, taken = (int(Path("/sys/fs/cgroup", name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, most - taken)
    return free


def start_spark_aside(token: str) -> None:
    """Have Spark started and warmed while people read, where there is memory for it, so that no notebook waits for its start."""
    if os.environ.get("KIT_SPARK_AHEAD") != "0" and free_bytes() >= BYTES_FOR_SPARK:
        with (workspace.run_dir() / "logs" / "spark.log").open("wb") as log:
            supervisor.start("kitlib.spark.ahead", environment={**os.environ, TOKEN_NAME: token}, cwd="/", output=log, errors=log)


def finish(printer: Printer, signals: Signals, reaper: Reaper) -> None:
    """Let the reaper end everything; do it here if the reaper is gone."""
    def by_force() -> None:
        printer.line("Ending it by force.")
        reaper.stop(now=True)

    signals.hurry = by_force
    began = time.monotonic()
    reaper.stop(now=signals.ended is None)
    reaper.has_gone.wait(SECONDS_TO_END)
    if not reaper.has_done_it:
        sweep(lambda: find_by_token(reaper.token))
        end_server(SPARK)
        kafka_server.down()
    printer.line(f"Everything has ended ({time.monotonic() - began:.1f} s).")


def open_browser(server: jupyter.Server) -> None:
    """Show the lab in the user's browser, where there is a screen to show it on."""
    has_screen = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    if has_screen:
        page = server.redirect_file().as_uri()
        threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
