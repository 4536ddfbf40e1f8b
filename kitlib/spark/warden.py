"""The warden of Spark: one background process per workspace that owns the lab's one Spark server.

What `kitlib.lab.brokers.warden` is to the brokers, this is to Spark: the first who needs a server starts it, a process in a
session of its own which holds the workspace's lock for life, is the parent of Spark's Java, starts it again when it died
unasked, and writes down where it listens (`spark.json`) and with which token (`spark.token`, for the user alone). It ends on
SIGTERM, when it has to give up, and when its workspace vanishes.

Each Python that has a session holds a file in `spark/clients`, named after the session, locked for as long as it lives. A
file without a lock is that of a kernel that was shut down or killed: its session is released, which ends its streaming
queries, its jobs and its temporary views, and nobody else's.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from kitlib.errors import KitError, LabError
from kitlib.lab import state, supervisor, workspace
from kitlib.lab.brokers.ports import draw
from kitlib.lab.processes import end_trees, find_all
from kitlib.lab.supervisor import DEATHS, DEATHS_WINDOW_S, too_often

LOOPBACK = "127.0.0.1"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_TIMEOUT_S = 150.0
STOP_TIMEOUT_S = 10.0
TICK_S = 0.25
LOOK_FOR_CLIENTS_S = 1.0

State = dict[str, Any]  # what the warden tells of itself and its Java


def folder_of(run_dir: Path) -> Path:
    """The log, the settings, the clients and the sockets of Spark."""
    return run_dir / "spark"


def state_file(run_dir: Path) -> Path:
    return run_dir / "spark.json"


def token_file(run_dir: Path) -> Path:
    return run_dir / "spark.token"


class Warden(supervisor.Warden):
    """Owner of the Spark server of one workspace; `spec` is what `kitlib.spark.server` hands over."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec, self.run_dir = spec, Path(spec["run_dir"])
        super().__init__(self.run_dir / "spark.lock")
        self.java: subprocess.Popen[bytes] | None = None
        self.deaths: list[float] = []  # moments (monotonic)
        self.released: list[subprocess.Popen[bytes]] = []
        self.state: State = {
            "pid": os.getpid(), "run": spec["run"], "since": time.time(), "phase": "starting", "message": "",
            "port": 0, "java": 0, "restarts": 0, "last_death": "", **spec["told"],
        }  # fmt: skip

    def live(self) -> None:
        end_trees(find_all(self.spec["mark"]), STOP_TIMEOUT_S)
        self.clear()
        self.start()
        self.watch()

    def write(self, **changes: Any) -> None:
        self.state |= changes
        with suppress(KitError):  # a disk without room must not end Spark
            state.write_json(state_file(self.run_dir), self.state)

    def start(self) -> None:
        """Start Spark's Java and wait until it listens; LabError when it does not.

        A new token each time: whoever listens at the port of a Java that has died may be told the old one.
        """
        (port,) = draw(1)
        token = secrets.token_urlsafe(32)
        workspace.write_atomic(token_file(self.run_dir), token)
        own = {"spark.connect.grpc.binding.port": str(port), "spark.connect.authenticate.token": token}
        settings = folder_of(self.run_dir) / "settings.conf"  # for the user alone, as the token is in it
        workspace.write_atomic(settings, "".join(f"{name} {value}\n" for name, value in (self.spec["settings"] | own).items()))
        with open(folder_of(self.run_dir) / "spark.out", "wb") as output:
            self.java = subprocess.Popen(
                [*self.spec["command"], "--properties-file", settings, "spark-internal"], env=self.spec["environment"],
                cwd=folder_of(self.run_dir), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self.write(phase="starting", port=port, java=self.java.pid)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_listening():
            if self.java.poll() is not None:
                raise LabError(f"Java ended while it was starting ({ended(self.java.returncode)})")
            if time.monotonic() > deadline:
                raise LabError(f"Java did not listen within {START_TIMEOUT_S:g} s")
            self.pause(0.1)
        self.write(phase="running")

    def is_listening(self) -> bool:
        """Whether Java itself listens at its port."""
        assert self.java is not None
        with suppress(psutil.Error):
            found = psutil.Process(self.java.pid).net_connections("tcp")
            return any(each.status == psutil.CONN_LISTEN and each.laddr.port == self.state["port"] for each in found)
        return False

    def watch(self) -> None:
        """Look after Java and its clients until asked to stop or until it is no use any more."""
        look = 0.0
        while True:
            self.pause(TICK_S)
            assert self.java is not None
            if (code := self.java.poll()) is not None:
                self.write(restarts=self.state["restarts"] + 1, last_death=ended(code))
                if too_often(self.deaths):
                    raise LabError(f"Java ended {DEATHS} times within {DEATHS_WINDOW_S:g} s, last: {ended(code)}")
                self.clear()
                self.start()
            if time.monotonic() > look:
                look = time.monotonic() + LOOK_FOR_CLIENTS_S
                self.release_dead()

    def release_dead(self) -> None:
        """End the sessions whose Pythons are gone, each by a short process: what speaks to Spark would stay in memory here."""
        self.released = [each for each in self.released if each.poll() is None]
        for path in (folder_of(self.run_dir) / "clients").glob("*.lock"):
            lock = FileLock(path, mode=0o600)
            with suppress(Timeout):
                lock.acquire(blocking=False)
                path.unlink(missing_ok=True)
                lock.release()
                command = [sys.executable, "-P", "-m", "kitlib.spark.sessions", path.stem]
                self.released.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd="/"))

    def clear(self) -> None:
        """Remove what an earlier Java has left."""
        for place in map(Path, self.spec["scratch"]):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True, mode=0o700)

    def end(self, failure: KitError | None) -> None:
        if self.java is not None and self.java.poll() is None:
            self.java.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.java.wait(STOP_TIMEOUT_S)
        end_trees(find_all(self.spec["mark"]), 0.5)
        for each in self.released:  # their Spark is gone
            each.kill()
            each.wait()
        for place in self.spec["scratch"]:
            shutil.rmtree(place, ignore_errors=True)
        if self.holds():
            token_file(self.run_dir).unlink(missing_ok=True)
            (folder_of(self.run_dir) / "settings.conf").unlink(missing_ok=True)
            state_file(self.run_dir).unlink(missing_ok=True)
            if failure:
                self.write(phase="failed", message=str(failure).rstrip("."))


def ended(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def main() -> int:
    """Read the specification from stdin and be the warden it asks for."""
    text = sys.stdin.read()
    return Warden(json.loads(text)).run() if text else 0


if __name__ == "__main__":
    sys.exit(main())
