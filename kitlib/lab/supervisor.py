"""A program that answers for all that comes of it: it knows every process below, and ends them all.

The lab's reaper (`kitlib.lab.reaper`) is one. Where the system has such a thing (Linux), a supervisor is the foster
parent of every orphan below it, so a process that ran away with `setsid` is still found; elsewhere it is found
by the token that all of them carry in their environment. `start` starts such a program for its owner, with a pipe
to its stdin. The pipe closes when the owner dies, however it dies, and that is the order to end everything.

A warden, the brokers' and Spark's, is no supervisor: it has to outlive its owner. `start_warden` starts one, and `Warden` is what
both are.

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
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
from filelock import FileLock, Timeout

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import java, workspace
from kitlib.lab.processes import find_by_token, is_alive, sweep

PR_SET_CHILD_SUBREAPER = 36
DEATHS, DEATHS_WINDOW_S = 3, 60.0


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


class Stopped(Exception):
    """The warden was asked to end."""


class Warden:
    """The one process of a workspace that owns what its kind looks after; `live` and `end` are a kind's own."""

    def __init__(self, lock: Path) -> None:
        self.path, self.lock = lock, FileLock(lock, mode=0o600)
        self.stop = threading.Event()
        self.wake = threading.Event()  # set by whatever should make it look around before the next tick

    def live(self) -> None:
        """Start what is looked after and look after it, until Stopped, or a KitError."""
        raise NotImplementedError

    def end(self, failure: KitError | None) -> None:
        """End what is looked after; then tell why it failed, or forget."""
        raise NotImplementedError

    def run(self) -> int:
        """From the workspace's lock, held for life, to the end of all; the exit code. Without the lock it ends at once: another is here."""
        try:
            self.lock.acquire(timeout=2.0)
        except Timeout:
            return 0
        self.inode = self.path.stat().st_ino
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        failure: KitError | None = None
        try:
            self.live()
        except Stopped:
            pass
        except KitError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing must be left alone
            traceback.print_exc()
            full = workspace.full_disk()
            failure = DiskError(f"The warden failed: {full}. Make room there, then try again.") if full \
                else LabError(f"The warden failed with {type(error).__name__}: {error}. Its log has more: warden.log.")
        self.end(failure)
        self.lock.release()
        return 0 if failure is None else 1

    def _asked_to_stop(self, *_: object) -> None:
        self.stop.set()
        self.wake.set()

    def holds(self) -> bool:
        """Whether the workspace is still the one whose lock this is."""
        with suppress(OSError):
            return self.path.stat().st_ino == self.inode
        return False

    def check_stop(self) -> None:
        if self.stop.is_set() or not self.holds():
            raise Stopped

    def pause(self, seconds: float) -> None:
        self.wake.wait(seconds)
        self.wake.clear()


def too_often(deaths: list[float]) -> bool:
    """Note a death now, and whether that is one too many: DEATHS within DEATHS_WINDOW_S."""
    now = time.monotonic()
    deaths[:] = [*(at for at in deaths if now - at < DEATHS_WINDOW_S), now]
    return len(deaths) >= DEATHS


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
