"""A program that answers for all that comes of it: it knows every process below, and ends them all.

The lab's reaper (`kitlib.lab.reaper`) is one. Where the system has such a thing (Linux), a supervisor is the foster
parent of every orphan below it, so a process that ran away with `setsid` is still found; elsewhere it is found
by the token that all of them carry in their environment. `start` starts such a program for its owner, with a pipe
to its stdin. The pipe closes when the owner dies, however it dies, and that is the order to end everything.

A warden, the brokers' and Spark's, is no supervisor: it has to outlive its owner. `start_warden` starts one, and `Tenure` is its hold
on the workspace.

Left out: a process that changed its environment and left its parents behind, on systems other than Linux.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
from filelock import FileLock, Timeout

from kitlib.lab import java
from kitlib.lab.processes import find_by_token, is_alive, sweep

PR_SET_CHILD_SUBREAPER = 36


def with_kitlib(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` in which `import kitlib` finds this very kitlib, installed or not."""
    here = str(Path(__file__).resolve().parents[2])
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and path != here]
    return {**environment, "PYTHONPATH": os.pathsep.join([here, *paths])}


def start(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None, cwd: str | None = None,
    output: int | IO[bytes] = subprocess.PIPE, errors: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """A module of kitlib as a process in a session of its own, with a pipe to its stdin."""
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", module, *arguments], start_new_session=True, cwd=cwd,
        env=with_kitlib(os.environ if environment is None else environment), stdin=subprocess.PIPE, stdout=output, stderr=errors,
    )  # fmt: skip


def start_warden(module: str, *arguments: str, spec: dict[str, Any], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """The warden in this module, with nothing of the lab it happens to be started from, and `spec` on its stdin."""
    environment = java.clean_java_env(os.environ)
    environment.pop("KIT_RUN", None)
    process = start(module, *arguments, environment=environment, cwd="/", output=output, errors=output)
    # Whoever starts a process has to collect it, else its id stays taken after its end.
    threading.Thread(target=process.wait, daemon=True).start()
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(spec).encode())
    return process


class Tenure:
    """A workspace's lock, which a warden holds for life."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, FileLock(path, mode=0o600)

    def begin(self, stop: Callable[[], object]) -> bool:
        """Take the lock, and call `stop` for each signal that asks for an end; False when another warden is here."""
        try:
            self.lock.acquire(timeout=2.0)
        except Timeout:
            return False
        self.inode = self.path.stat().st_ino
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return True

    def holds(self) -> bool:
        """Whether the workspace is still the one whose lock this is."""
        with suppress(OSError):
            return self.path.stat().st_ino == self.inode
        return False


class Supervisor:
    """What this process has started, and all that came of it."""

    def __init__(self, token: str, *, by_token: bool = sys.platform != "linux") -> None:
        """`by_token`: look also for processes that are not below this one. That takes a look at every process there is."""
        self.token, self.by_token = token, by_token
        self.known: set[psutil.Process] = set()  # what lived at the last look
        self.ended: dict[int, int] = {}  # of each process collected so far its exit code, or the signal as a negative number
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def offspring(self) -> list[psutil.Process]:
        """Every living process that came of this one."""
        found = {*psutil.Process().children(recursive=True), *self.known}
        if self.by_token:
            found.update(find_by_token(self.token))
        self.known = {process for process in found if is_alive(process)}
        return list(self.known)

    def bury(self) -> bool:
        """Collect what has ended, adopted orphans included; whether nothing is left below this process."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                self.ended[pid] = os.waitstatus_to_exitcode(status)
        return True

    def end_everything(self, seconds: float) -> None:
        """Kill whatever is left, again and again, until nothing is or the time is up."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (self.bury() and not self.by_token):
            if not sweep(self.offspring, seconds=1.0):
                return
