"""One sitting in the lab: what `kit lab` starts, in which order, and how all of it ends, also when the lab is killed.

The lab is two processes. The one in the terminal (`kitlib/lab/terminal.py`) passes on what asks for the end: Ctrl-C, `kill`, a terminal or
a parent that is gone. The other one, the watcher, starts everything, is the parent of JupyterLab, and ends everything. It has a pipe
from the first, which closes when that dies, however it dies. Where the system has such a thing (Linux), it is the foster parent of every
orphan below it, so a process that ran away with `setsid` is still found; elsewhere it is found by the token that all of them carry
in their environment. If the watcher is killed, the first one ends what is left; if both are, the next lab does, or `kit down`.

A workspace has one lab at a time, because it has one broker. A lock that the operating system takes back when its holder
dies says whether a lab is open; a file beside it says, for people, which one, since when and under what address.

Left out: a process that changed its environment and left its parents behind, on systems other than Linux.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from kitlib.errors import KitError, KnobError, LabError
from kitlib.lab import copies, jupyter, kafka_server, notebook_trust, notebooks, supervisor, workspace
from kitlib.lab.jars import ensure_jars
from kitlib.lab.java import find_java
from kitlib.lab.processes import SPARK, TOKEN_NAME, adopt_orphans, find_all, is_alive, is_server, sweep
from kitlib.lab.state import read_json, write_json
from kitlib.text import plain_text

SECONDS_TO_OPEN = 60.0  # JupyterLab on a slow disk, the first time
SECONDS_FOR_OTHER = 20.0  # how long a second lab waits until the first one has an address, or has ended
SECONDS_GENTLY = 6.0  # what Ctrl-C gives JupyterLab to save, tell its kernels and leave
SECONDS_NOW = 1.0  # what is left of the lab when its owner is dead
SECONDS_SERVERS = 25.0  # a clean stop of the broker takes two to three, and more on a busy machine
SECONDS_SERVERS_NOW = 8.0
SECONDS_LEFT = 3.0  # to end what is left then
BYTES_FOR_SPARK = 6_000_000_000  # that are free, else Spark starts when a notebook first asks for it

# What stands in the command line of each part of a lab that may outlive it.
PARTS = {"kitlib.lab.session": "the lab's watcher", "jupyterlab": "JupyterLab", "ipykernel_launcher": "a kernel"}


class Printer:
    """Lines with the seconds since the start; a terminal that has gone does not keep the lab from ending."""

    def __init__(self, began: float | None = None) -> None:
        self.began = time.monotonic() if began is None else began
        self.steps = 0

    def step(self, text: str) -> None:
        self.steps += 1
        self.line(f"{time.monotonic() - self.began:6.1f} s  {text[:1].upper()}{text[1:]}")

    def line(self, text: str = "", data: bool = False) -> None:
        """One line for people (stderr), or one that a script may want (stdout)."""
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stdout if data else sys.stderr, flush=True)


# Who has the lab


def note_path() -> Path:
    return workspace.run_dir() / "lab.json"


def write_note(since: float, address: str | None) -> None:
    """Say who has the lab: the process in the terminal, which is the one to be ended."""
    write_json(note_path(), {"pid": os.getppid(), "run": os.environ[TOKEN_NAME], "since": since, "address": address})


def lock_path() -> Path:
    return workspace.run_dir() / "lab.lock"


def living() -> dict[str, Any]:
    """What the lab that is open in this workspace says of itself; {} when none is, or only a watcher that ends what is left of it."""
    note = read_json(note_path()) or {}
    return note if note and psutil.pid_exists(note["pid"]) and workspace.is_held(lock_path()) else {}


@contextlib.contextmanager
def only_lab(printer: Printer) -> Iterator[None]:
    """Hold the workspace's lab lock; LabError with the other lab's process, start and address if there is one."""
    held, waited, deadline = FileLock(lock_path(), mode=0o600), False, time.monotonic() + SECONDS_FOR_OTHER
    while True:
        try:
            held.acquire(blocking=False)
            break
        except Timeout:
            other = living()
        if other.get("address") or time.monotonic() > deadline:
            raise LabError(describe_holder(other))
        if not waited:
            printer.step("Another lab is just starting or ending in this workspace; waiting for it")
            for process in left_behind():  # its watcher may have been stopped
                with contextlib.suppress(psutil.Error):
                    process.resume()
        waited = True
        time.sleep(0.1)
    try:
        yield
    finally:
        held.release()


def describe_holder(note: dict[str, Any]) -> str:
    """Who has the lab open, since when, and what to do about it."""
    if not note:
        return "Another program holds this workspace's lab. End it (`kit status` may name it), or set KIT_HOME to another folder."
    since = datetime.fromtimestamp(note["since"], UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    where = f"open {note['address']}" if note["address"] else "its address will be printed there"
    return (
        f"The lab of this workspace is open since {since} in process {note['pid']}: {where}. "
        f"End it with Ctrl-C in its terminal or `kill {note['pid']}`; for a second one set KIT_HOME to another folder."
    )


def noted_token() -> str:
    return str((read_json(note_path()) or {}).get("run", ""))


def left_behind() -> list[psutil.Process]:
    """What still runs of a lab that was killed, known by the token in its note."""
    return [] if living() else find_all(noted_token())


def end_left_behind() -> int:
    """Kill that; the number of processes."""
    return sweep(left_behind)


def part(process: psutil.Process) -> str:
    """Which part of a lab a process is, with its number."""
    with contextlib.suppress(psutil.Error):
        words = " ".join(process.cmdline())
        names = (name for mark, name in PARTS.items() if mark in words)
        return f"{next(names, process.name())} (process {process.pid})"
    return f"process {process.pid}"


def end_kafka() -> None:
    kafka_server.down(lambda _: None)


def end_spark() -> None:
    importlib.import_module(SPARK).down()


class Watcher:
    """Starts the lab, waits until JupyterLab or somebody ends it, and ends all that came of it."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer
        self.asked = self.hurries = False  # whether the end was asked for, and whether there is no time to be gentle
        self.known: set[psutil.Process] = set()  # what lived at the last look
        self.server: subprocess.Popen[bytes] | None = None

    def listen(self) -> None:
        """Each byte from the owner asks for the end, a second one to hurry; the end of the pipe says that the owner is dead."""
        while os.read(0, 1):
            self.ask(self.asked)
        self.ask(True)

    def ask(self, hurries: bool = False) -> None:
        if hurries and self.asked and not self.hurries:
            self.printer.line("Ending it by force.")
        self.hurries |= hurries
        if not self.asked:
            self.asked = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def check(self) -> None:
        """Raise what `ask` has raised, if it was swallowed by code that caught it."""
        if self.asked:
            raise KeyboardInterrupt

    def run(self, port: int, notebook: str, browser: bool) -> None:
        """The lab from its first process to its last. LabError with the reason when it was not asked to end."""
        root = jupyter.project_dir()
        wanted, desk = Path(notebook) if notebook else notebooks.find(root)[0], copies.desk(root)
        copies.make(desk, self.printer.step)
        if not wanted.is_file():
            raise KnobError(f"There is no notebook {wanted}. Expected a file below {desk.top}.")
        page = desk.page(wanted)
        workspace.ensure()
        jupyter.log_path().parent.mkdir(mode=0o700, exist_ok=True)
        with only_lab(self.printer):
            earlier = noted_token()
            if killed := sweep(lambda: find_all(earlier)):
                self.printer.step(f"Ended {killed} processes that an earlier lab had left behind")
            since = time.time()
            write_note(since, None)
            try:
                server = self.start(desk, port, page)
                write_note(since, server.address(page))
                self.printer.step("JupyterLab is open. Ctrl-C here ends the lab; notebooks and records stay.")
                self.printer.line(f"\n  {server.address(page)}\n", data=True)
                if browser:
                    open_browser(server)
                start_spark_aside()
                self.watch()
            except KeyboardInterrupt:
                self.printer.line("\nEnding the lab; Ctrl-C once more ends it by force.")
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self.end_all()
                note_path().unlink(missing_ok=True)

    def start(self, desk: copies.Desk, port: int, page: str) -> jupyter.Server:
        """Java and jars, then JupyterLab and Kafka side by side; the open server."""
        step = self.printer.step
        java = find_java()
        step(f"Java {java.major} from {java.source}")
        jars = ensure_jars("kafka", progress=step) + ensure_jars("spark", progress=step)
        step(f"{len(jars)} jars checked")
        asked = port or jupyter.USUAL_PORT
        if holder := jupyter.holder_of(asked):
            if port:
                raise LabError(f"Port {port} is in use by {holder}. End it, or leave --port out for the next free one.")
            step(f"Port {asked} is in use by {holder}; JupyterLab takes the next free one")
        jupyter.write_settings()
        jupyter.clear_leftovers()
        with open(jupyter.log_path(), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            self.server = subprocess.Popen(
                jupyter.command(asked, port > 0, desk.top, page), cwd=desk.top, env=jupyter.environment(), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        notebook_trust.sign_shipped(desk, jupyter.config_dir() / "data")
        before = self.printer.steps
        cluster = kafka_server.ensure(progress=step)
        if self.printer.steps == before:
            step(f"Kafka {'was already running' if cluster.source == 'kit' else 'is yours and stays'}: {cluster.bootstrap}")
        self.check()
        return jupyter.wait_until_open(self.server, SECONDS_TO_OPEN)

    def watch(self) -> None:
        """Wait until JupyterLab ends or somebody asks the lab to."""
        assert self.server is not None
        while self.server.poll() is None:
            self.check()
            time.sleep(0.25)
        if self.server.returncode:  # else it was File > Shut Down
            raise LabError(f"JupyterLab exited unexpectedly (exit code {self.server.returncode}). {jupyter.last_words()}")

    def end_all(self) -> None:
        """JupyterLab and its kernels first, then broker and Spark, then whatever is left of them."""
        if self.server is None:
            return
        began = time.monotonic()
        servers = [threading.Thread(target=end, daemon=True) for end in (end_kafka, end_spark)]
        if self.asked and not self.hurries:
            self.end_jupyter()
        for server in servers:
            server.start()
        self.end_jupyter()  # now, where there is no time to go one after the other
        sweep(lambda: [process for process in self.offspring() if not is_server(process)])
        since = time.monotonic()
        while any(server.is_alive() for server in servers):
            if time.monotonic() - since > (SECONDS_SERVERS_NOW if self.hurries else SECONDS_SERVERS):
                break
            time.sleep(0.05)
        deadline = time.monotonic() + SECONDS_LEFT
        while time.monotonic() < deadline and sweep(self.offspring, seconds=1.0):
            pass
        self.printer.line(f"Everything has ended ({time.monotonic() - began:.1f} s).")

    def end_jupyter(self) -> None:
        """Ask JupyterLab to end, and kill it when it takes too long."""
        assert self.server is not None
        began = time.monotonic()
        self.server.terminate()
        while self.server.poll() is None:
            if time.monotonic() - began > (SECONDS_GENTLY if self.asked and not self.hurries else SECONDS_NOW):
                break
            time.sleep(0.05)
        self.server.kill()
        self.server.wait()

    def offspring(self) -> list[psutil.Process]:
        """Every living process that came of this one, or that carries the token: it may have left those above it."""
        found = {*psutil.Process().children(recursive=True), *self.known, *find_all(os.environ[TOKEN_NAME])}
        self.known = {process for process in found if is_alive(process)}
        return list(self.known)


def free_bytes() -> int:
    """The memory that the machine has left, or the container in which this runs."""
    free = int(psutil.virtual_memory().available)
    with contextlib.suppress(OSError, ValueError):  # ValueError: the container may have all there is
        most, taken = (int(Path("/sys/fs/cgroup", name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, most - taken)
    return free


def start_spark_aside() -> None:
    """Have Spark started and warmed while people read, where there is memory for it, so that no notebook waits for its start."""
    if os.environ.get("KIT_SPARK_AHEAD") != "0" and free_bytes() >= BYTES_FOR_SPARK:
        with jupyter.log_path().with_name("spark.log").open("wb") as log:
            supervisor.start("kitlib.spark.ahead", cwd="/", output=log, errors=log)


def open_browser(server: jupyter.Server) -> None:
    """Show the lab in the user's browser, where there is a screen to show it on."""
    has_screen = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    if has_screen:
        page = server.redirect_file().as_uri()
        threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()


def main(began: str, port: str, notebook: str, browser: str) -> int:
    """Be the watcher that `kit lab` starts."""
    watcher = Watcher(Printer(float(began)))
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: watcher.ask())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=watcher.listen, daemon=True).start()
    try:
        watcher.run(int(port), notebook, bool(browser))
    except KeyboardInterrupt:
        pass
    except KitError as error:
        watcher.printer.line(f"kit: {plain_text(error, 2_000)}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
