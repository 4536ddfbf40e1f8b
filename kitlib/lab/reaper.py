"""Ends everything a lab has started, also when the lab itself was killed and can end nothing any more.

`kit lab` has this program start JupyterLab and holds a pipe to it, which closes when its owner dies, however it
dies. Then it ends JupyterLab, its kernels, and whatever these have started, after it has asked the broker to stop. Where the system
has such a thing (Linux), it is the foster parent of every orphan below it, so a process that ran away with `setsid` is still found;
elsewhere it is found by the token that all of them carry in their environment.

Left out: a process that changed its environment and left its parents behind, on systems other than Linux.

Orders (stdin):                  {"run": [argv], "log": path, "cwd": path, "environment": {}} on a line, then "gently" or "now"
Reports (JSON lines on stdout):  {"started": pid}  {"ended": exit code}  {"done": seconds}
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from kitlib.errors import LabError
from kitlib.lab import supervisor, workspace
from kitlib.lab.processes import adopt_orphans, find_by_token, identify, is_alive, sweep
from kitlib.lab.state import read_json

TOKEN_NAME = "KIT_RUN"
SPARK = "kitlib.spark.server"  # by its name: that room is above this one
SECONDS_GENTLY = 6.0  # what Ctrl-C gives JupyterLab to save, tell its kernels and leave
SECONDS_NOW = 1.0  # what is left of the lab when its owner is dead
SECONDS_LEFT = 3.0  # to end what is left then
SECONDS_BROKER = 8.0  # a clean stop of the broker takes two to three

# What stands in the command line of each part of a lab that may outlive it.
PARTS = {
    "kitlib.lab.reaper": "the lab's watcher", "jupyterlab": "JupyterLab", "ipykernel_launcher": "a kernel",
}  # fmt: skip

# What stands in the command lines of the broker, of Spark, and of what looks after each.
SERVERS = frozenset({
    "kitlib.lab.brokers.warden", "kafka.Kafka", "kitlib.spark.warden", "org.apache.spark.sql.connect.service.SparkConnectServer",
})  # fmt: skip


def lock_path() -> Path:
    """Held by a reaper for its whole life: whoever gets it knows that no reaper is at work."""
    return workspace.run_dir() / "reaper.lock"


def note_path() -> Path:
    return workspace.run_dir() / "lab.json"


def read_note() -> dict[str, Any]:
    """What the last lab wrote about itself; {} if there is nothing to read."""
    return read_json(note_path(), lambda _: None) or {}


def is_about_a_living_lab(note: dict[str, Any]) -> bool:
    """Whether the process of the note is still that process and not a later one with its number."""
    try:
        is_same = abs(identify(int(note["pid"]), note["run"]).born_s - float(note["born_s"])) < 2
        return is_same and is_alive(psutil.Process(int(note["pid"])))
    except (KeyError, TypeError, ValueError, LabError, psutil.Error):
        return False


def left_behind() -> list[psutil.Process]:
    """What still runs of a lab that was killed, known by the token in its note: all of it, if its reaper was killed too."""
    note = read_note()
    return find_by_token(note["run"]) if isinstance(note.get("run"), str) and not is_about_a_living_lab(note) else []


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


class Reaper:
    """The owner's side: starts the program, sends its orders, hands on its reports.

    `command` is started with `environment`; whatever comes of it carries the token and ends with the lab, and the lab with it.
    """

    def __init__(self, token: str, command: Sequence[str], log: Path, cwd: Path, environment: Mapping[str, str]) -> None:
        self.token = token
        self.reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.has_gone = threading.Event()  # the program has ended, and all its reports are in
        self.has_done_it = False  # it ended because everything has
        with log.with_name("reaper.log").open("ab") as errors:
            self.process = supervisor.start("kitlib.lab.reaper", token, errors=errors)
        threading.Thread(target=self._read, daemon=True).start()
        order = {"run": list(command), "log": str(log), "cwd": str(cwd), "environment": dict(environment)}
        self._order(json.dumps(order) + "\n")

    def report(self, seconds: float) -> dict[str, Any]:
        """The next report, {} when none came in time, {"gone": code} when the program itself has ended.

        If a learner's code has stopped the program, it is woken.
        """
        self.process.send_signal(signal.SIGCONT)
        try:
            return self.reports.get(timeout=seconds)
        except queue.Empty:
            return {}

    def stop(self, now: bool = False) -> None:
        """End everything; ask first (gently) or not (now). A second call can only hurry."""
        self._order("now" if now else "gently")

    def _order(self, order: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(order.encode())
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            report = json.loads(line)
            self.has_done_it |= "done" in report
            self.reports.put(report)
        self.reports.put({"gone": self.process.wait()})
        self.has_gone.set()


def wait_for_earlier(seconds: float) -> None:
    """Return when no reaper of an earlier lab is at work any more; LabError if one still is after `seconds`."""
    trouble = f"An earlier lab is still being ended after {seconds:.0f} s; look at its processes with `kit status`, end them, try again."
    with workspace.holding(lock_path(), seconds, trouble):
        return


def is_server(process: psutil.Process) -> bool:
    """Whether this is a part of the broker or of Spark, which are asked to end in their own way before anything is killed."""
    with contextlib.suppress(psutil.Error):
        return not SERVERS.isdisjoint(process.cmdline())
    return False


class Program:
    """The reaper's own side: one command, its offspring, and their end."""

    def __init__(self, token: str, order: dict[str, Any]) -> None:
        self.token = token
        self.known: set[psutil.Process] = set()  # what lived at the last look
        self.ended: dict[int, int] = {}  # of each process collected so far its exit code, or the signal as a negative number
        self.asked: str | None = None  # how the end was asked for: "gently", "now", or not yet
        adopt_orphans()
        with open(order["log"], "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
            self.child = subprocess.Popen(  # collected by `bury`, never by itself
                order["run"], cwd=order["cwd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**order["environment"], TOKEN_NAME: token}, start_new_session=True,
            )  # fmt: skip

    def main(self) -> None:
        for name in (signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.ask("gently"))
        tell({"started": self.child.pid})
        while self.asked is None:
            self.read_orders(0.25)
            self.bury()
            if self.child.pid in self.ended:
                tell({"ended": self.ended[self.child.pid]})
                self.ask("now")
        began = time.monotonic()
        self.end_all()
        tell({"done": round(time.monotonic() - began, 2)})

    def ask(self, how: str) -> None:
        self.asked = "now" if "now" in (how, self.asked) else how

    def read_orders(self, seconds: float) -> None:
        """Obey the order that comes within `seconds`: to end gently; all else, and the end of the pipe, is the order to end now."""
        if select.select([0], [], [], seconds)[0]:
            told = os.read(0, 100)
            self.ask("gently" if told == b"gently" else "now")
            if not told:
                time.sleep(min(seconds, 0.05))  # a closed pipe is always readable

    def end_all(self) -> None:
        """JupyterLab and its kernels first, then broker and Spark, then whatever is left of them.

        Nothing here may keep the rest from being done, so each part writes its own failure down.
        """
        servers = [threading.Thread(target=end_server, args=(name,), daemon=True) for name in ("kitlib.lab.kafka_server", SPARK)]
        is_now = self.asked == "now"
        if not is_now:
            self.end_child()
        for server in servers:
            server.start()
        if is_now:  # there is no time to go one after the other
            self.end_child()
        sweep(lambda: [process for process in self.offspring() if not is_server(process)])
        until = time.monotonic() + SECONDS_BROKER
        for server in servers:
            server.join(max(0.0, until - time.monotonic()))
        deadline = time.monotonic() + SECONDS_LEFT
        while time.monotonic() < deadline and sweep(self.offspring, seconds=1.0):
            self.bury()

    def offspring(self) -> list[psutil.Process]:
        """Every living process that came of this one, or that carries the token: it may have left those above it."""
        found = {*psutil.Process().children(recursive=True), *self.known, *find_by_token(self.token)}
        self.known = {process for process in found if is_alive(process)}
        return list(self.known)

    def bury(self) -> bool:
        """Collect what has ended, adopted orphans included; whether nothing is left below this process."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                self.ended[pid] = os.waitstatus_to_exitcode(status)
        return True

    def end_child(self) -> None:
        """Ask JupyterLab to end, and kill it when it takes too long."""
        asked, began = int(signal.SIGTERM), time.monotonic()
        while not self.bury() and self.child.pid not in self.ended:
            os.kill(self.child.pid, asked)
            self.read_orders(0.05)
            is_late = time.monotonic() - began > (SECONDS_NOW if self.asked == "now" else SECONDS_GENTLY)
            asked = signal.SIGKILL if is_late else 0  # 0 is no signal


def end_server(name: str) -> None:
    """Stop the kit's broker or its Spark; one that cannot be stopped is a line in the log, not the end of the ending."""
    try:
        importlib.import_module(name).down()
    except Exception:  # noqa: BLE001 - whatever it is, the rest must be ended too
        traceback.print_exc()


def tell(report: dict[str, Any]) -> None:
    """Report to the owner, who may be dead by now."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(report).encode() + b"\n")


def main() -> None:
    try:
        with FileLock(lock_path(), timeout=5.0, mode=0o600), open(0, "rb", buffering=0, closefd=False) as orders:
            if order := orders.readline():  # without one the lab has died before it could say what it wants
                Program(sys.argv[1], json.loads(order)).main()
    except Timeout:
        sys.exit("another reaper is at work in this workspace")


if __name__ == "__main__":
    main()
