"""How the kit's background programs are started, and what a warden is, the brokers' and Spark's: it outlives whoever started it.

`start` starts a program for its owner, with a pipe to its stdin. The pipe closes when the owner dies, however it dies, which the
lab's watcher and the children of client processes take for the order to end. What cannot take orders has a `guard`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import java, workspace

DEATHS, DEATHS_WINDOW_S = 3, 60.0


def with_kitlib(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` in which `import kitlib` finds this very kitlib, installed or not."""
    here = str(Path(__file__).resolve().parents[2])
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and path != here]
    return {**environment, "PYTHONPATH": os.pathsep.join([here, *paths])}


def start(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None, cwd: str | None = None,
    output: int | IO[bytes] | None = subprocess.PIPE, errors: int | IO[bytes] | None = subprocess.PIPE,
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


# `read` fails when the owner's end of the pipe is closed without a line.
GUARD = 'read line || "$@"'
RELEASE_S = 5.0


def guard(*command: str) -> subprocess.Popen[bytes]:
    """A process that waits for `release`, and runs `command` when its owner dies before, however it dies."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", *command], stdin=subprocess.PIPE, start_new_session=True, env=with_kitlib(os.environ),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def release(guard: subprocess.Popen[bytes]) -> None:
    """Let a guard go, and wait until it has."""
    with guard:  # closes its pipe
        try:
            guard.communicate(b"\n", timeout=RELEASE_S)
        except (OSError, subprocess.TimeoutExpired):
            guard.kill()


class Stopped(Exception):
    """The warden was asked to end."""


class Warden(ABC):
    """The one process of a workspace that owns what its kind looks after; `live` and `end` are a kind's own."""

    def __init__(self, lock: Path) -> None:
        self.path, self.lock = lock, FileLock(lock, mode=0o600)
        self.stop = threading.Event()
        self.wake = threading.Event()  # set by whatever should make it look around before the next tick

    @abstractmethod
    def live(self) -> None:
        """Start what is looked after and look after it, until Stopped, or a KitError."""

    @abstractmethod
    def end(self, failure: KitError | None) -> None:
        """End what is looked after; then tell why it failed, or forget."""

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
        """Wait until it is time to look around; Stopped when it is asked to end, or its workspace is gone."""
        self.wake.wait(seconds)
        self.wake.clear()
        self.check_stop()


def too_often(deaths: list[float]) -> bool:
    """Note a death now, and whether that is one too many: DEATHS within DEATHS_WINDOW_S."""
    now = time.monotonic()
    deaths[:] = [*(at for at in deaths if now - at < DEATHS_WINDOW_S), now]
    return len(deaths) >= DEATHS
